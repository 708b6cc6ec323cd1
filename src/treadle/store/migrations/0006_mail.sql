CREATE TABLE mail_index (
    letter_id INTEGER PRIMARY KEY,
    box TEXT NOT NULL,
    agent TEXT NULL,
    folder TEXT NOT NULL,
    name TEXT NOT NULL,
    sender TEXT NOT NULL,
    recipient TEXT NOT NULL,
    intent TEXT NOT NULL,
    task_id TEXT NULL,
    status TEXT NOT NULL,
    created_at TEXT NOT NULL,
    message_id TEXT NULL,
    in_reply_to TEXT NULL,
    expires_at TEXT NULL,
    summary TEXT NOT NULL,
    claim_id TEXT NULL,
    copy_of TEXT NULL,
    question_id TEXT NULL,
    pending INTEGER NOT NULL,
    UNIQUE (folder, name)
);
CREATE INDEX mail_by_recipient ON mail_index (box, recipient, created_at, letter_id);
CREATE INDEX mail_by_box ON mail_index (box, created_at, letter_id);
CREATE INDEX mail_by_holder ON mail_index (agent, box, created_at, letter_id);
CREATE INDEX mail_by_task ON mail_index (task_id, box);
CREATE INDEX mail_by_name ON mail_index (name);
CREATE INDEX mail_by_message ON mail_index (message_id) WHERE message_id IS NOT NULL;
CREATE INDEX mail_by_question ON mail_index (question_id) WHERE question_id IS NOT NULL;
CREATE INDEX mail_copies ON mail_index (copy_of) WHERE copy_of IS NOT NULL;
CREATE INDEX mail_pending ON mail_index (letter_id) WHERE pending = 1;

CREATE TABLE mail_folders (
    folder TEXT PRIMARY KEY,
    mtime_ns INTEGER NOT NULL,
    seen_ns INTEGER NOT NULL
);

CREATE TABLE task_claims (
    task_id TEXT NOT NULL,
    name TEXT NOT NULL,
    value INTEGER NOT NULL,
    claimed_by TEXT NOT NULL,
    claimed_at TEXT NOT NULL,
    PRIMARY KEY (task_id, name)
);

CREATE TABLE reservations (
    task_id TEXT NOT NULL,
    owner TEXT NOT NULL,
    pattern TEXT NOT NULL,
    until TEXT NOT NULL,
    PRIMARY KEY (task_id, pattern)
);
CREATE INDEX reservations_by_end ON reservations (until, task_id, pattern);

CREATE INDEX runs_owned ON runs (run_id) WHERE owner IS NOT NULL;
