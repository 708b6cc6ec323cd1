ALTER TABLE mission_steps ADD COLUMN tries_json TEXT NOT NULL DEFAULT '[]';
CREATE INDEX questions_by_task ON questions (task_id) WHERE task_id IS NOT NULL;
