CREATE TABLE missions (
    mission_id TEXT PRIMARY KEY,
    slug TEXT NOT NULL UNIQUE
) WITHOUT ROWID;
UPDATE tasks SET created_at = '1970-01-01T00:00:00.000000Z'
WHERE mission IS NOT NULL AND created_at = updated_at
    AND EXISTS (SELECT 1 FROM task_moves WHERE task_moves.task_id = tasks.task_id);
