-- name: day_total
SELECT (SELECT count(*) FROM runs WHERE run_id >= :first),
    coalesce(sum(usage.cost_usd), 0) + (SELECT coalesce(sum(cut.cost_usd), 0) FROM usage AS cut
        WHERE cut.run_id >= :first AND NOT EXISTS (SELECT 1 FROM steps AS whole
            WHERE whole.run_id = cut.run_id AND whole.step_index = cut.step_index)),
    coalesce(sum(usage.input_tokens), 0) + coalesce(sum(usage.output_tokens), 0)
        + (SELECT coalesce(sum(cut.input_tokens + cut.output_tokens), 0) FROM usage AS cut
            WHERE cut.run_id >= :first AND NOT EXISTS (SELECT 1 FROM steps AS whole
                WHERE whole.run_id = cut.run_id AND whole.step_index = cut.step_index))
FROM steps
LEFT JOIN usage ON usage.run_id = steps.run_id AND usage.step_index = steps.step_index
WHERE steps.started_at >= :since

-- name: run_counts
SELECT status, count(*) FROM runs GROUP BY status ORDER BY status

-- name: task_counts
SELECT lane, count(*) FROM tasks GROUP BY lane ORDER BY lane

-- name: question_counts
SELECT kind, count(*) FROM questions WHERE answered_at IS NULL GROUP BY kind ORDER BY kind
