CREATE TABLE schema_migrations (
    version INTEGER PRIMARY KEY,
    applied_at TEXT NOT NULL
);

CREATE TABLE runs (
    run_id TEXT PRIMARY KEY,
    created_at TEXT NOT NULL,
    goal TEXT NOT NULL,
    status TEXT NOT NULL,
    iteration INTEGER NOT NULL DEFAULT 0,
    current_step_index INTEGER NOT NULL DEFAULT 0,
    verdict TEXT NULL,
    run_dir TEXT NOT NULL,
    task_id TEXT NULL,
    message_id TEXT NULL,
    routine TEXT NULL,
    base_commit TEXT NULL,
    base_branch TEXT NULL,
    branch TEXT NULL,
    head_commit TEXT NULL,
    claim_epoch INTEGER NOT NULL DEFAULT 0,
    owner TEXT NULL,
    ended_at TEXT NULL
);
CREATE INDEX runs_by_status ON runs (status, run_id);
CREATE INDEX runs_by_task ON runs (task_id, run_id);

CREATE TABLE steps (
    run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
    step_index INTEGER NOT NULL,
    role TEXT NOT NULL,
    iteration INTEGER NOT NULL,
    status TEXT NOT NULL,
    step_dir TEXT NOT NULL,
    started_at TEXT NOT NULL,
    ended_at TEXT NULL,
    summary TEXT NULL,
    agent TEXT NULL,
    error_code TEXT NULL,
    before_commit TEXT NULL,
    after_commit TEXT NULL,
    tree TEXT NULL,
    sandbox_tier TEXT NULL,
    digest TEXT NULL,
    PRIMARY KEY (run_id, step_index)
);

CREATE TABLE events (
    run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    ts TEXT NOT NULL,
    type TEXT NOT NULL,
    message TEXT NOT NULL,
    data_json TEXT NULL,
    PRIMARY KEY (run_id, seq)
) WITHOUT ROWID;

CREATE TABLE kv_run (
    run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
    key TEXT NOT NULL,
    value_json TEXT NOT NULL,
    PRIMARY KEY (run_id, key)
) WITHOUT ROWID;

CREATE TABLE usage (
    run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
    step_index INTEGER NOT NULL,
    agent TEXT NOT NULL,
    model TEXT NULL,
    input_tokens INTEGER NULL,
    cached_tokens INTEGER NULL,
    output_tokens INTEGER NULL,
    cost_usd REAL NULL,
    seconds REAL NULL
);
CREATE INDEX usage_by_step ON usage (run_id, step_index);

CREATE TABLE checks (
    run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
    step_index INTEGER NOT NULL,
    criterion_id TEXT NOT NULL,
    phase TEXT NOT NULL,
    command TEXT NOT NULL,
    tree TEXT NULL,
    passed INTEGER NOT NULL,
    exit_code INTEGER NULL,
    seconds REAL NOT NULL,
    log TEXT NULL,
    note TEXT NULL
);
CREATE INDEX checks_by_step ON checks (run_id, step_index);

CREATE TABLE tasks (
    task_id TEXT PRIMARY KEY,
    goal TEXT NOT NULL,
    text TEXT NULL,
    criteria_json TEXT NOT NULL,
    lane TEXT NOT NULL,
    owner TEXT NULL,
    claim_id TEXT NULL,
    lease_until TEXT NULL,
    mission TEXT NULL,
    source TEXT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    position INTEGER NOT NULL
);
CREATE INDEX tasks_by_lane ON tasks (lane, position);

CREATE TABLE task_deps (
    task_id TEXT NOT NULL REFERENCES tasks (task_id) ON DELETE CASCADE,
    depends_on TEXT NOT NULL REFERENCES tasks (task_id) ON DELETE CASCADE,
    PRIMARY KEY (task_id, depends_on)
) WITHOUT ROWID;
CREATE INDEX task_deps_by_target ON task_deps (depends_on);

CREATE TABLE task_moves (
    task_id TEXT NOT NULL REFERENCES tasks (task_id) ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    at TEXT NOT NULL,
    who TEXT NOT NULL,
    from_lane TEXT NOT NULL,
    to_lane TEXT NOT NULL,
    reason TEXT NULL,
    forced INTEGER NOT NULL,
    PRIMARY KEY (task_id, seq)
) WITHOUT ROWID;

CREATE TABLE questions (
    question_id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    summary TEXT NOT NULL,
    options_json TEXT NOT NULL,
    fix_json TEXT NOT NULL,
    run_id TEXT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
    task_id TEXT NULL,
    created_at TEXT NOT NULL,
    answered_at TEXT NULL,
    answer TEXT NULL,
    answered_by TEXT NULL
);
CREATE INDEX questions_open ON questions (created_at) WHERE answered_at IS NULL;
CREATE INDEX questions_by_run ON questions (run_id);

CREATE TABLE counters (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
);
