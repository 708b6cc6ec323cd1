CREATE TABLE mission_work (
    mission TEXT NOT NULL,
    task TEXT NOT NULL,
    base TEXT NOT NULL,
    head TEXT NULL,
    observed_json TEXT NOT NULL,
    said TEXT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (mission, task)
) WITHOUT ROWID;

CREATE TABLE mission_agents (
    mission TEXT NOT NULL,
    agent TEXT NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (mission, agent)
) WITHOUT ROWID;
