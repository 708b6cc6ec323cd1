CREATE TABLE task_files (
    name TEXT PRIMARY KEY,
    task_id TEXT NOT NULL,
    mtime_ns INTEGER NOT NULL,
    size INTEGER NOT NULL,
    shown_at TEXT NOT NULL
);
CREATE INDEX task_files_by_task ON task_files (task_id);
CREATE INDEX mail_by_reply ON mail_index (in_reply_to) WHERE in_reply_to IS NOT NULL;
