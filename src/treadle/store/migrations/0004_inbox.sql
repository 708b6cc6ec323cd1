CREATE TABLE chains (
    chain TEXT PRIMARY KEY,
    status TEXT NOT NULL,
    created_at TEXT NOT NULL
);

CREATE TABLE messages (
    message_id TEXT PRIMARY KEY,
    chain TEXT NOT NULL REFERENCES chains (chain),
    seq INTEGER NOT NULL,
    status TEXT NOT NULL,
    routine TEXT NULL,
    spec TEXT NULL,
    spec_digest TEXT NULL,
    digest TEXT NULL,
    parent TEXT NULL,
    depth INTEGER NOT NULL,
    run_ids_json TEXT NOT NULL,
    reason TEXT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    after_run TEXT NULL
);
CREATE INDEX messages_by_chain ON messages (chain, seq);
CREATE INDEX messages_by_spec ON messages (spec, created_at) WHERE spec IS NOT NULL;
CREATE INDEX messages_open ON messages (status) WHERE status <> 'done';
CREATE INDEX runs_by_message ON runs (message_id, run_id);

CREATE TABLE cron (
    name TEXT PRIMARY KEY,
    last_fire TEXT NOT NULL
);
