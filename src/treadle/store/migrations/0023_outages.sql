CREATE TABLE outages (
    service TEXT PRIMARY KEY,
    error TEXT NOT NULL,
    message TEXT NOT NULL,
    run_id TEXT NOT NULL,
    since TEXT NOT NULL,
    failures INTEGER NOT NULL,
    next_at TEXT NOT NULL
);
