CREATE TABLE costs (
    day TEXT NOT NULL,
    agent TEXT NOT NULL,
    model TEXT NOT NULL,
    steps INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cost_usd REAL NOT NULL,
    seconds REAL NOT NULL,
    PRIMARY KEY (day, agent, model)
) WITHOUT ROWID;

INSERT INTO costs (
    day, agent, model, steps, input_tokens, cached_tokens, output_tokens, cost_usd, seconds
)
SELECT substr(steps.started_at, 1, 10), coalesce(steps.agent, ''), coalesce(usage.model, ''),
    count(*), coalesce(sum(usage.input_tokens), 0), coalesce(sum(usage.cached_tokens), 0),
    coalesce(sum(usage.output_tokens), 0), coalesce(sum(usage.cost_usd), 0),
    coalesce(sum(usage.seconds), 0)
FROM steps LEFT JOIN usage
    ON usage.run_id = steps.run_id AND usage.step_index = steps.step_index
GROUP BY substr(steps.started_at, 1, 10), coalesce(steps.agent, ''), coalesce(usage.model, '');
