CREATE INDEX steps_by_start ON steps (started_at);
