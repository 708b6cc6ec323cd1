CREATE TABLE fleet_jobs (
    job TEXT PRIMARY KEY,
    project TEXT NOT NULL,
    priority INTEGER NOT NULL,
    state TEXT NOT NULL,
    worker_id TEXT NULL,
    changed_at TEXT NOT NULL
);

CREATE INDEX fleet_jobs_next ON fleet_jobs (state, priority, changed_at, job);

CREATE INDEX fleet_jobs_by_project ON fleet_jobs (state, project);
