-- name: checks_of_task
SELECT criterion_id, command, passed FROM checks WHERE phase = 'check' AND (run_id, step_index) = (
    SELECT seen.run_id, seen.step_index FROM runs
    JOIN checks AS seen ON seen.run_id = runs.run_id AND seen.phase = 'check'
    WHERE runs.task_id = :task_id ORDER BY runs.run_id DESC, seen.step_index DESC LIMIT 1
) ORDER BY criterion_id

-- name: passed_work
SELECT base_commit, head_commit, ended_at FROM runs
WHERE task_id = :task_id AND status = 'passed' ORDER BY run_id DESC LIMIT 1

-- name: task
SELECT {tasks} FROM tasks WHERE task_id = :task_id

-- name: tasks
SELECT {tasks} FROM tasks ORDER BY position

-- name: tasks_in_lane
SELECT {tasks} FROM tasks WHERE lane = :lane ORDER BY position

-- name: task_ids
SELECT task_id FROM tasks

-- name: ready_tasks
SELECT {tasks} FROM tasks
WHERE lane = 'planned' AND (claim_id IS NULL OR lease_until <= :now) AND NOT EXISTS (
    SELECT 1 FROM task_deps JOIN tasks AS needed ON needed.task_id = task_deps.depends_on
    WHERE task_deps.task_id = tasks.task_id AND needed.lane <> 'done'
        AND NOT (needed.lane = 'approved' AND needed.mission IS NULL)
)
ORDER BY position

-- name: dependencies
SELECT {tasks} FROM tasks
WHERE task_id IN (SELECT depends_on FROM task_deps WHERE task_deps.task_id = :task_id)
ORDER BY position

-- name: dependents
SELECT {tasks} FROM tasks
WHERE task_id IN (SELECT task_deps.task_id FROM task_deps WHERE depends_on = :task_id)
ORDER BY position

-- name: task_moves
SELECT {task_moves} FROM task_moves WHERE task_id = :task_id ORDER BY seq

-- name: ends_of_moves
SELECT to_lane, who, reason FROM task_moves WHERE task_id = :task_id ORDER BY seq

-- name: last_task_move
SELECT max(seq) FROM task_moves WHERE task_id = :task_id

-- name: count_up
INSERT INTO counters (name, value) VALUES (:name, 1)
ON CONFLICT (name) DO UPDATE SET value = counters.value + 1
RETURNING value

-- name: insert_task
INSERT INTO tasks ({tasks}) VALUES ({tasks_values}) ON CONFLICT (task_id) DO NOTHING

-- name: swap_task
UPDATE tasks SET lane = :lane, owner = :owner, claim_id = :claim_id,
    lease_until = :lease_until, updated_at = :updated_at
WHERE task_id = :task_id AND lane = :seen_lane
    AND coalesce(claim_id, '') = coalesce(:seen_claim_id, '')
    AND coalesce(lease_until, '') = coalesce(:seen_lease_until, '')

-- name: insert_task_move
INSERT INTO task_moves ({task_moves}) VALUES ({task_moves_values})

-- name: needed_by
SELECT depends_on FROM task_deps WHERE task_id = :task_id

-- name: link_task
INSERT INTO task_deps (task_id, depends_on) VALUES (:task_id, :depends_on)
ON CONFLICT (task_id, depends_on) DO NOTHING

-- name: unlink_task
DELETE FROM task_deps WHERE task_id = :task_id AND depends_on = :depends_on

-- name: task_claims
SELECT {task_claims} FROM task_claims WHERE task_id = :task_id

-- name: claim_check
INSERT INTO task_claims ({task_claims}) VALUES ({task_claims_values})
ON CONFLICT (task_id, name) DO UPDATE SET {task_claims_updates}

-- name: reservations
SELECT {reservations} FROM reservations WHERE until > :now ORDER BY until, task_id, pattern

-- name: reserve_files
INSERT INTO reservations ({reservations}) VALUES ({reservations_values})
ON CONFLICT (task_id, pattern) DO UPDATE SET {reservations_updates}

-- name: unreserve_files
DELETE FROM reservations WHERE task_id = :task_id

-- name: tasks_to_renew
SELECT {tasks} FROM tasks WHERE lane IN ('claimed', 'in_progress') AND owner = :owner
    AND lease_until > :now AND lease_until < :soon

-- name: mission_tasks
SELECT {tasks} FROM tasks WHERE mission = :mission ORDER BY task_id

-- name: tasks_of_mission
SELECT {tasks} FROM tasks
WHERE mission = coalesce((SELECT slug FROM missions WHERE mission_id = :mission_id), :slug)
ORDER BY task_id

-- name: mission_steps
SELECT {mission_steps} FROM mission_steps WHERE mission = :mission

-- name: report_step
INSERT INTO mission_steps ({mission_steps}) VALUES ({mission_steps_values})
ON CONFLICT (mission, step) DO UPDATE SET {mission_steps_updates}

-- name: calm_step
UPDATE mission_steps SET failures = 0, is_blocked = 0 WHERE mission = :mission AND step = :step

-- name: clear_step
DELETE FROM mission_steps WHERE mission = :mission AND step = :step

-- name: mission_work
SELECT {mission_work} FROM mission_work WHERE mission = :mission

-- name: begin_work
INSERT INTO mission_work ({mission_work}) VALUES ({mission_work_values})
ON CONFLICT (mission, task) DO NOTHING

-- name: save_work
INSERT INTO mission_work ({mission_work}) VALUES ({mission_work_values})
ON CONFLICT (mission, task) DO UPDATE SET {mission_work_updates}

-- name: mission_agents
SELECT agent, at FROM mission_agents WHERE mission = :mission ORDER BY agent

-- name: see_agent
INSERT INTO mission_agents (mission, agent, at) VALUES (:mission, :agent, :at)
ON CONFLICT (mission, agent) DO UPDATE SET at = excluded.at

-- name: define_task
UPDATE tasks SET goal = :goal, text = :text, criteria_json = :criteria, source = :source
WHERE task_id = :task_id

-- name: unlink_siblings
DELETE FROM task_deps WHERE task_id = :task_id AND depends_on IN (
    SELECT tasks.task_id FROM tasks WHERE mission = :mission
)

-- name: task_links
SELECT task_id, depends_on FROM task_deps ORDER BY task_id, depends_on

-- name: looks_of_task_files
SELECT name, mtime_ns, size FROM task_files

-- name: files_of_task
SELECT {task_files} FROM task_files WHERE task_id = :task_id

-- name: lagging_tasks
SELECT DISTINCT tasks.task_id FROM task_files JOIN tasks ON tasks.task_id = task_files.task_id
WHERE task_files.shown_at <> tasks.updated_at

-- name: mark_task_file
INSERT INTO task_files ({task_files}) VALUES ({task_files_values})
ON CONFLICT (name) DO UPDATE SET {task_files_updates}

-- name: mission_names
SELECT mission_id, slug FROM missions

-- name: name_mission
INSERT INTO missions (mission_id, slug) VALUES (:mission_id, :slug)
ON CONFLICT (mission_id) DO UPDATE SET slug = excluded.slug

-- name: delete_task
DELETE FROM tasks WHERE task_id = :task_id

-- name: rename_in_needs
UPDATE task_deps SET task_id = :new WHERE task_id = :old

-- name: rename_in_needed
UPDATE task_deps SET depends_on = :new WHERE depends_on = :old

-- name: rename_in_moves
UPDATE task_moves SET task_id = :new WHERE task_id = :old

-- name: rename_in_runs
UPDATE runs SET task_id = :new WHERE task_id = :old

-- name: rename_in_claims
UPDATE task_claims SET task_id = :new WHERE task_id = :old

-- name: rename_in_reservations
UPDATE reservations SET task_id = :new WHERE task_id = :old

-- name: rename_in_letters
UPDATE mail_index SET task_id = :new WHERE task_id = :old

-- name: rename_in_questions
UPDATE questions SET task_id = :new,
    subject_id = CASE WHEN subject_kind = 'task' THEN :new ELSE subject_id END,
    summary = replace(summary, :old, :new), actions_json = replace(actions_json, :old, :new),
    look_json = replace(replace(look_json, :old, :new), :old_words, :new_words)
WHERE task_id = :old

-- name: rename_in_files
DELETE FROM task_files WHERE task_id = :old

-- name: clear_mission_steps
DELETE FROM mission_steps WHERE mission = :new

-- name: clear_mission_work
DELETE FROM mission_work WHERE mission = :new

-- name: clear_mission_agents
DELETE FROM mission_agents WHERE mission = :new

-- name: rename_mission_steps
UPDATE mission_steps SET mission = :new WHERE mission = :old

-- name: rename_mission_work
UPDATE mission_work SET mission = :new WHERE mission = :old

-- name: rename_mission_agents
UPDATE mission_agents SET mission = :new WHERE mission = :old

-- name: rename_mission_questions
UPDATE questions SET subject_id = :new, look_json = replace(look_json, :old_words, :new_words)
WHERE subject_kind = 'mission' AND subject_id = :old
