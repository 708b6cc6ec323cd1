CREATE INDEX tasks_by_mission ON tasks (mission, task_id) WHERE mission IS NOT NULL;

CREATE TABLE mission_steps (
    mission TEXT NOT NULL,
    step TEXT NOT NULL,
    failures INTEGER NOT NULL,
    is_blocked INTEGER NOT NULL,
    note TEXT NULL,
    who TEXT NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (mission, step)
) WITHOUT ROWID;
