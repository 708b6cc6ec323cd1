CREATE TABLE workers (
    worker_id TEXT PRIMARY KEY,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    slots INTEGER NOT NULL,
    busy INTEGER NOT NULL,
    status TEXT NOT NULL,
    started_at TEXT NOT NULL,
    beat_at TEXT NOT NULL
);

CREATE TABLE fleet_leader (
    name TEXT PRIMARY KEY,
    worker_id TEXT NOT NULL,
    until TEXT NOT NULL
);

CREATE TABLE fleet_projects (
    project TEXT PRIMARY KEY,
    remote TEXT NOT NULL,
    added_at TEXT NOT NULL
);

ALTER TABLE steps ADD COLUMN archive TEXT NULL;
ALTER TABLE steps ADD COLUMN archive_sha256 TEXT NULL;

CREATE INDEX kv_queued ON kv_run (run_id) WHERE key = 'reason_code' AND value_json = '"queued"';
