ALTER TABLE questions RENAME COLUMN options_json TO actions_json;
ALTER TABLE questions RENAME COLUMN fix_json TO look_json;
ALTER TABLE questions ADD COLUMN subject_kind TEXT NOT NULL DEFAULT 'project';
ALTER TABLE questions ADD COLUMN subject_id TEXT NOT NULL DEFAULT '';
ALTER TABLE questions ADD COLUMN matter TEXT NULL;
ALTER TABLE questions ADD COLUMN action TEXT NULL;
UPDATE questions SET subject_kind = 'task', subject_id = task_id WHERE task_id IS NOT NULL;
UPDATE questions SET subject_kind = 'run', subject_id = run_id WHERE run_id IS NOT NULL;
CREATE INDEX questions_by_subject ON questions (subject_kind, subject_id, created_at);
