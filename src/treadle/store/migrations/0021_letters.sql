ALTER TABLE mail_index ADD COLUMN rank INTEGER NOT NULL DEFAULT 2;
ALTER TABLE mail_index ADD COLUMN thread_id TEXT NULL;
ALTER TABLE mail_index ADD COLUMN ack_by TEXT NULL;
ALTER TABLE mail_index ADD COLUMN moved_at TEXT NULL;
DROP INDEX mail_by_recipient;
DROP INDEX mail_by_box;
DROP INDEX mail_by_holder;
CREATE INDEX mail_by_recipient ON mail_index (box, recipient, rank, created_at, letter_id);
CREATE INDEX mail_by_box ON mail_index (box, rank, created_at DESC, letter_id DESC);
CREATE INDEX mail_by_holder ON mail_index (agent, box, rank, created_at DESC, letter_id DESC);
CREATE INDEX mail_by_thread ON mail_index (thread_id) WHERE thread_id IS NOT NULL;
CREATE INDEX mail_to_acknowledge ON mail_index (ack_by) WHERE ack_by IS NOT NULL;
CREATE INDEX mail_by_move ON mail_index (moved_ns);
UPDATE mail_index SET pending = 1 WHERE box = 'new' AND task_id IS NULL AND intent IN (
    'implement_feature', 'fix_bug', 'refactor', 'review_code', 'test', 'audit', 'document'
);
