CREATE TABLE fleet_uses (
    job TEXT NOT NULL,
    provider TEXT NOT NULL,
    worker_id TEXT NOT NULL,
    PRIMARY KEY (job, provider)
);

CREATE INDEX fleet_uses_of_provider ON fleet_uses (provider);
