-- {runs} stands for the columns of a table's record, {runs_values} for one parameter each, in
-- order, so that a record is its own row; {runs_updates} for an upsert's assignments.

-- name: run
SELECT {runs} FROM runs WHERE run_id = :run_id

-- name: runs_page
SELECT {runs} FROM runs WHERE run_id < :before ORDER BY run_id DESC LIMIT :limit

-- name: runs_page_by_status
SELECT {runs} FROM runs WHERE status = :status AND run_id < :before
ORDER BY run_id DESC LIMIT :limit

-- name: runs_page_like
SELECT {runs} FROM runs WHERE run_id < :before AND status LIKE :status
    AND lower(run_id || ' ' || goal || ' ' || coalesce(task_id, '')) LIKE :like ESCAPE '!'
ORDER BY run_id DESC LIMIT :limit

-- name: runs_with_status
SELECT {runs} FROM runs WHERE status = :status ORDER BY run_id

-- name: runs_unsettled
SELECT {runs} FROM runs WHERE owner IS NOT NULL AND status <> 'running' ORDER BY run_id

-- name: runs_with_letters
SELECT run_id FROM runs WHERE owner = 'mail' ORDER BY run_id LIMIT 1

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

-- name: checks_of_task
SELECT {checks} FROM checks WHERE phase = 'check' AND (run_id, step_index) = (
    SELECT seen.run_id, seen.step_index FROM runs
    JOIN checks AS seen ON seen.run_id = runs.run_id AND seen.phase = 'check'
    WHERE runs.task_id = :task_id ORDER BY runs.run_id DESC, seen.step_index DESC LIMIT 1
) ORDER BY criterion_id

-- name: observed
SELECT {checks} FROM checks
WHERE run_id = :run_id AND phase = 'check' AND tree = :tree AND command = :command
ORDER BY step_index DESC LIMIT 1

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

-- name: last_task_move
SELECT max(seq) FROM task_moves WHERE task_id = :task_id

-- name: question
SELECT {questions} FROM questions WHERE question_id = :question_id

-- name: questions
SELECT {questions} FROM questions ORDER BY created_at, length(question_id), question_id

-- name: open_questions
SELECT {questions} FROM questions WHERE answered_at IS NULL
ORDER BY created_at, length(question_id), question_id

-- name: question_ids
SELECT question_id FROM questions

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

-- name: insert_question
INSERT INTO questions ({questions}) VALUES ({questions_values})

-- name: same_question
SELECT question_id FROM questions
WHERE answered_at IS NULL AND kind = :kind AND summary = :summary
    AND coalesce(run_id, '') = coalesce(:run_id, '')
    AND coalesce(task_id, '') = coalesce(:task_id, '')

-- name: answer_question
UPDATE questions SET answered_at = :now, answer = :answer, answered_by = :by
WHERE question_id = :question_id AND answered_at IS NULL

-- name: settle_questions
UPDATE questions SET answered_at = :now, answer = :answer, answered_by = :by
WHERE run_id = :run_id AND answered_at IS NULL

-- name: letter
SELECT {mail_index} FROM mail_index WHERE letter_id = :letter_id

-- name: letter_at
SELECT {mail_index} FROM mail_index WHERE folder = :folder AND name = :file

-- name: letters_named
SELECT {mail_index} FROM mail_index WHERE name = :file ORDER BY copy_of IS NOT NULL, letter_id

-- name: letters_with_message_id
SELECT {mail_index} FROM mail_index WHERE message_id = :message_id
ORDER BY copy_of IS NOT NULL, letter_id

-- name: letters_in_folder
SELECT letter_id, name FROM mail_index WHERE folder = :folder

-- name: letters_in_box
SELECT {mail_index} FROM mail_index WHERE box = :box
    AND (created_at, letter_id) < (:created_at, :letter_id)
ORDER BY created_at DESC, letter_id DESC LIMIT :limit

-- name: letters_to
SELECT {mail_index} FROM mail_index WHERE box = 'new' AND recipient = :agent
    AND (created_at, letter_id) < (:created_at, :letter_id)
ORDER BY created_at DESC, letter_id DESC LIMIT :limit

-- name: letters_held
SELECT {mail_index} FROM mail_index WHERE agent = :agent AND box = :box
    AND (created_at, letter_id) < (:created_at, :letter_id)
ORDER BY created_at DESC, letter_id DESC LIMIT :limit

-- name: letters_of_task
SELECT {mail_index} FROM mail_index WHERE task_id = :task_id ORDER BY created_at, letter_id

-- name: letters_pending
SELECT {mail_index} FROM mail_index WHERE pending = 1 ORDER BY created_at, letter_id

-- name: letters_answered_by
SELECT {mail_index} FROM mail_index WHERE question_id = :question_id

-- name: copies_of
SELECT {mail_index} FROM mail_index WHERE copy_of = :file

-- name: letters_between
SELECT {mail_index} FROM mail_index WHERE letter_id > :after ORDER BY letter_id LIMIT :limit

-- name: claimable_letters
SELECT {mail_index} FROM mail_index WHERE box = 'new' AND recipient = :agent
    AND (created_at, letter_id) > (:created_at, :letter_id)
    AND (:task_id IS NULL OR task_id = :task_id) AND (expires_at IS NULL OR expires_at > :now)
UNION ALL
SELECT {mail_index} FROM mail_index WHERE box = 'new' AND recipient = 'all' AND sender <> :agent
    AND (created_at, letter_id) > (:created_at, :letter_id)
    AND intent IN (
        'implement_feature', 'fix_bug', 'refactor', 'review_code', 'test', 'audit', 'document'
    )
    AND (:task_id IS NULL OR task_id = :task_id) AND (expires_at IS NULL OR expires_at > :now)
ORDER BY created_at, letter_id LIMIT 1

-- name: insert_letter
INSERT INTO mail_index ({mail_index}) VALUES ({mail_index_values})
ON CONFLICT (folder, name) DO NOTHING

-- name: place_letter
UPDATE mail_index SET box = :box, agent = :agent, folder = :folder, name = :name,
    claim_id = :claim_id, pending = :pending
WHERE letter_id = :letter_id AND folder = :seen_folder AND name = :seen_name

-- name: settle_letter
UPDATE mail_index SET pending = 0, question_id = coalesce(:question_id, question_id)
WHERE letter_id = :letter_id

-- name: forget_letter
DELETE FROM mail_index WHERE letter_id = :letter_id AND folder = :folder AND name = :name

-- name: mail_folders
SELECT {mail_folders} FROM mail_folders

-- name: mark_folder
INSERT INTO mail_folders ({mail_folders}) VALUES ({mail_folders_values})
ON CONFLICT (folder) DO UPDATE SET {mail_folders_updates}

-- name: forget_folder
DELETE FROM mail_folders WHERE folder = :folder

-- name: task_claims
SELECT {task_claims} FROM task_claims WHERE task_id = :task_id

-- name: claim_check
INSERT INTO task_claims ({task_claims}) VALUES ({task_claims_values})
ON CONFLICT (task_id, name) DO UPDATE SET {task_claims_updates}

-- name: words_of_letters
CREATE VIRTUAL TABLE IF NOT EXISTS mail_words USING fts5(words)

-- name: forget_words
DROP TABLE IF EXISTS mail_words

-- name: last_letter_with_words
SELECT max(rowid) FROM mail_words

-- name: insert_words
INSERT INTO mail_words (rowid, words) VALUES (:letter_id, :words)

-- name: letters_with_words
SELECT rowid FROM mail_words WHERE mail_words MATCH :match ORDER BY rowid DESC LIMIT :limit

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

-- name: message
SELECT {messages} FROM messages WHERE message_id = :message_id

-- name: messages_with_status
SELECT {messages} FROM messages WHERE status = :status AND status <> 'done' ORDER BY created_at

-- name: message_of_spec
SELECT {messages} FROM messages WHERE spec = :spec ORDER BY created_at DESC, message_id DESC LIMIT 1

-- name: messages_of_chain
SELECT {messages} FROM messages WHERE chain = :chain ORDER BY seq

-- name: last_message_seq
SELECT max(seq) FROM messages WHERE chain = :chain

-- name: upsert_message
INSERT INTO messages ({messages}) VALUES ({messages_values})
ON CONFLICT (message_id) DO UPDATE SET {messages_updates}

-- name: chain
SELECT chain, status FROM chains WHERE chain = :chain

-- name: insert_chain
INSERT INTO chains (chain, status, created_at) VALUES (:chain, 'open', :at)
ON CONFLICT (chain) DO NOTHING

-- name: close_chain
UPDATE chains SET status = :status WHERE chain = :chain

-- name: runs_of_message
SELECT {runs} FROM runs WHERE message_id = :message_id AND run_id > :after ORDER BY run_id

-- name: runs_of_chain
SELECT {runs} FROM runs
WHERE message_id IN (SELECT message_id FROM messages WHERE chain = :chain) ORDER BY run_id DESC

-- name: counter
SELECT value FROM counters WHERE name = :name

-- name: set_counter
INSERT INTO counters (name, value) VALUES (:name, :value)
ON CONFLICT (name) DO UPDATE SET value = excluded.value

-- name: last_fire
SELECT last_fire FROM cron WHERE name = :job

-- name: set_fire
INSERT INTO cron (name, last_fire) VALUES (:name, :last_fire)
ON CONFLICT (name) DO UPDATE SET last_fire = excluded.last_fire

-- name: mission_lanes
SELECT task_id, lane, owner, claim_id, lease_until FROM tasks
WHERE mission = :mission ORDER BY task_id

-- name: mission_steps
SELECT {mission_steps} FROM mission_steps WHERE mission = :mission

-- name: report_step
INSERT INTO mission_steps ({mission_steps}) VALUES ({mission_steps_values})
ON CONFLICT (mission, step) DO UPDATE SET {mission_steps_updates}

-- name: clear_step
DELETE FROM mission_steps WHERE mission = :mission AND step = :step

-- name: define_task
UPDATE tasks SET goal = :goal, text = :text, criteria_json = :criteria, source = :source
WHERE task_id = :task_id

-- name: unlink_siblings
DELETE FROM task_deps WHERE task_id = :task_id AND depends_on IN (
    SELECT tasks.task_id FROM tasks WHERE mission = :mission
)

-- name: workers
SELECT {workers} FROM workers ORDER BY started_at, worker_id

-- name: add_worker
INSERT INTO workers ({workers}) VALUES ({workers_values})

-- name: beat
UPDATE workers SET beat_at = :at, busy = :busy
WHERE worker_id = :worker_id AND status IN ('alive', 'draining') RETURNING status

-- name: set_worker
UPDATE workers SET status = :status WHERE worker_id = :worker_id AND status IN ('alive', 'draining')

-- name: bury_worker
UPDATE workers SET status = 'dead'
WHERE worker_id = :worker_id AND status IN ('alive', 'draining') AND beat_at < :before

-- name: cut_off
SELECT :worker_id WHERE 0

-- name: forget_workers
DELETE FROM workers WHERE status IN ('left', 'dead') AND beat_at < :before

-- name: lead
INSERT INTO fleet_leader (name, worker_id, until) VALUES ('leader', :worker_id, :until)
ON CONFLICT (name) DO UPDATE SET worker_id = excluded.worker_id, until = excluded.until
WHERE fleet_leader.worker_id = excluded.worker_id OR fleet_leader.until < :at

-- name: leader
SELECT worker_id FROM fleet_leader WHERE until >= :at

-- name: add_fleet_project
INSERT INTO fleet_projects (project, remote, added_at) VALUES (:project, :remote, :at)
ON CONFLICT (project) DO UPDATE SET remote = excluded.remote

-- name: fleet_projects
SELECT project, remote FROM fleet_projects ORDER BY project

-- name: runs_queued
SELECT {runs} FROM runs WHERE status = 'stopped' AND run_id IN (
    SELECT kv_run.run_id FROM kv_run WHERE key = 'reason_code' AND value_json = '"queued"'
) ORDER BY run_id

-- name: runs_of_workers
SELECT {runs} FROM runs WHERE status = 'running' AND owner LIKE 'worker:%' ORDER BY run_id

-- name: claim_run
UPDATE runs SET claim_epoch = claim_epoch + 1, owner = :owner
WHERE run_id = :run_id AND claim_epoch = :epoch AND status = :status RETURNING claim_epoch

-- name: costs
SELECT {costs} FROM costs WHERE day >= :day ORDER BY day, agent, model

-- name: count_cost
INSERT INTO costs ({costs}) VALUES ({costs_values})
ON CONFLICT (day, agent, model) DO UPDATE SET steps = costs.steps + excluded.steps,
    input_tokens = costs.input_tokens + excluded.input_tokens,
    cached_tokens = costs.cached_tokens + excluded.cached_tokens,
    output_tokens = costs.output_tokens + excluded.output_tokens,
    cost_usd = costs.cost_usd + excluded.cost_usd, seconds = costs.seconds + excluded.seconds

-- name: task_links
SELECT task_id, depends_on FROM task_deps ORDER BY task_id, depends_on

-- name: letters_unread
SELECT recipient, count(*) FROM mail_index WHERE box = 'new' GROUP BY recipient ORDER BY recipient

-- name: chains
SELECT chain FROM chains ORDER BY chain DESC LIMIT :limit
