-- name: run
SELECT {runs} FROM runs WHERE run_id = :run_id

-- name: runs_by_status
SELECT status, count(*) FROM runs GROUP BY status

-- name: runs_page
SELECT {runs} FROM runs WHERE run_id < :before ORDER BY run_id DESC LIMIT :limit

-- name: runs_page_by_status
SELECT {runs} FROM runs WHERE status = :status AND run_id < :before
ORDER BY run_id DESC LIMIT :limit

-- name: runs_page_like
SELECT {runs} FROM runs WHERE run_id < :before AND (CAST(:status AS TEXT) IS NULL OR status = :status)
    AND lower(run_id || ' ' || goal || ' ' || coalesce(task_id, '')) LIKE :like ESCAPE '!'
ORDER BY run_id DESC LIMIT :limit

-- name: runs_with_status
SELECT {runs} FROM runs WHERE status = :status ORDER BY run_id

-- name: runs_unsettled
SELECT {runs} FROM runs WHERE owner IS NOT NULL AND status <> 'running' ORDER BY run_id

-- name: runs_with_prefix
SELECT {runs} FROM runs WHERE run_id >= :prefix AND run_id < :bound
ORDER BY run_id DESC LIMIT :limit

-- name: runs_of_task
SELECT {runs} FROM runs WHERE task_id = :task_id ORDER BY run_id

-- name: run_ids
SELECT run_id FROM runs

-- name: last_run_id
SELECT max(run_id) FROM runs

-- name: steps
SELECT {steps} FROM steps WHERE run_id = :run_id ORDER BY step_index

-- name: step_names
SELECT run_id, step_index, role FROM steps

-- name: events
SELECT {events} FROM events WHERE run_id = :run_id AND seq > :after ORDER BY seq LIMIT :limit

-- name: last_seq
SELECT max(seq) FROM events WHERE run_id = :run_id

-- name: kv
SELECT key, value_json FROM kv_run WHERE run_id = :run_id

-- name: kv_value
SELECT value_json FROM kv_run WHERE run_id = :run_id AND key = :key

-- name: runs_with_key
SELECT run_id FROM kv_run WHERE key = :key ORDER BY run_id

-- name: usage
SELECT {usage} FROM usage WHERE run_id = :run_id ORDER BY step_index

-- name: checks
SELECT {checks} FROM checks WHERE run_id = :run_id ORDER BY step_index

-- name: observed
SELECT {checks} FROM checks
WHERE run_id = :run_id AND phase = 'check' AND tree = :tree AND command = :command
ORDER BY step_index DESC LIMIT 1

-- name: insert_run
INSERT INTO runs ({runs}) VALUES ({runs_values})

-- name: upsert_run
INSERT INTO runs ({runs}) VALUES ({runs_values}) ON CONFLICT (run_id) DO UPDATE SET {runs_updates}

-- name: delete_run
DELETE FROM runs WHERE run_id = :run_id

-- name: move_cursor
UPDATE runs SET status = :status, iteration = :iteration,
    current_step_index = :current_step_index, verdict = :verdict,
    head_commit = :head_commit, ended_at = :ended_at
WHERE run_id = :run_id AND claim_epoch = :epoch

-- name: move_base
UPDATE runs SET base_commit = :base_commit WHERE run_id = :run_id AND claim_epoch = :epoch

-- name: take_over
UPDATE runs SET claim_epoch = claim_epoch + 1, owner = :owner WHERE run_id = :run_id
RETURNING claim_epoch

-- name: release_run
UPDATE runs SET owner = :owner WHERE run_id = :run_id AND claim_epoch = :epoch

-- name: insert_step
INSERT INTO steps ({steps}) VALUES ({steps_values})

-- name: insert_event
INSERT INTO events (run_id, {events}) VALUES (?, {events_values})

-- name: set_kv
INSERT INTO kv_run (run_id, key, value_json) VALUES (?, ?, ?)
ON CONFLICT (run_id, key) DO UPDATE SET value_json = excluded.value_json

-- name: unset_kv
DELETE FROM kv_run WHERE run_id = ? AND key = ?

-- name: insert_usage
INSERT INTO usage ({usage}) VALUES ({usage_values})

-- name: insert_check
INSERT INTO checks ({checks}) VALUES ({checks_values})

-- name: clear_steps
DELETE FROM steps WHERE run_id = :run_id

-- name: clear_events
DELETE FROM events WHERE run_id = :run_id

-- name: clear_kv
DELETE FROM kv_run WHERE run_id = :run_id

-- name: clear_usage
DELETE FROM usage WHERE run_id = :run_id

-- name: clear_checks
DELETE FROM checks WHERE run_id = :run_id

-- name: costs
SELECT {costs} FROM costs WHERE day >= :day ORDER BY day, agent, model

-- name: count_cost
INSERT INTO costs ({costs}) VALUES ({costs_values})
ON CONFLICT (day, agent, model) DO UPDATE SET steps = costs.steps + excluded.steps,
    input_tokens = costs.input_tokens + excluded.input_tokens,
    cached_tokens = costs.cached_tokens + excluded.cached_tokens,
    output_tokens = costs.output_tokens + excluded.output_tokens,
    cost_usd = costs.cost_usd + excluded.cost_usd, seconds = costs.seconds + excluded.seconds
