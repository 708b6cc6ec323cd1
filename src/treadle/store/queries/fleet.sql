-- name: workers
SELECT {workers} FROM workers ORDER BY started_at, worker_id

-- name: add_worker
INSERT INTO workers ({workers}) VALUES ({workers_values})

-- name: beat
UPDATE workers SET beat_at = :at, busy = :busy, trouble = :trouble
WHERE worker_id = :worker_id AND status IN ('alive', 'draining')
RETURNING status, EXISTS (SELECT 1 FROM fleet_jobs WHERE state = 'held')

-- name: set_worker
UPDATE workers SET status = :status WHERE worker_id = :worker_id AND status IN ('alive', 'draining')

-- name: bury_worker
UPDATE workers SET status = 'dead'
WHERE worker_id = :worker_id AND status IN ('alive', 'draining') AND beat_at < :before

-- name: cut_off
SELECT :worker_id WHERE 0

-- name: own_lines
SELECT 1

-- name: forget_workers
DELETE FROM workers WHERE status IN ('left', 'dead') AND beat_at < :before

-- name: lead
INSERT INTO fleet_leader (name, worker_id, until) VALUES ('leader', :worker_id, :until)
ON CONFLICT (name) DO UPDATE SET worker_id = excluded.worker_id, until = excluded.until
WHERE fleet_leader.worker_id = excluded.worker_id OR fleet_leader.until < :at OR EXISTS (
    SELECT 1 FROM workers WHERE worker_id = fleet_leader.worker_id AND status IN ('left', 'dead')
)

-- name: leader
SELECT worker_id FROM fleet_leader WHERE until >= :at AND NOT EXISTS (
    SELECT 1 FROM workers WHERE worker_id = fleet_leader.worker_id AND status IN ('left', 'dead')
)

-- name: add_fleet_project
INSERT INTO fleet_projects (project, remote, added_at) VALUES (:project, :remote, :at)
ON CONFLICT (project) DO UPDATE SET remote = excluded.remote

-- name: remove_fleet_project
DELETE FROM fleet_projects WHERE project = :project

-- name: fleet_projects
SELECT project, remote FROM fleet_projects ORDER BY project

-- name: add_use
INSERT INTO fleet_uses (job, provider, worker_id)
SELECT CAST(:job AS TEXT), CAST(:provider AS TEXT), own.worker_id FROM workers AS own
WHERE own.worker_id = :worker_id AND (
    SELECT count(*) FROM fleet_uses AS other
    JOIN workers ON workers.worker_id = other.worker_id AND workers.status IN ('alive', 'draining')
    WHERE other.provider = :provider AND other.job <> :job
) < :most
ON CONFLICT (job, provider) DO UPDATE SET worker_id = excluded.worker_id

-- name: remove_uses
DELETE FROM fleet_uses WHERE job = :job AND worker_id = :worker_id

-- name: runs_queued
SELECT {runs} FROM runs WHERE status = 'stopped' AND run_id IN (
    SELECT kv_run.run_id FROM kv_run WHERE key = 'reason_code' AND value_json = '"queued"'
) ORDER BY run_id

-- name: runs_of_workers
SELECT {runs} FROM runs WHERE status = 'running' AND (owner LIKE 'worker:%' OR (
    owner IS NULL AND EXISTS (
        SELECT 1 FROM kv_run WHERE kv_run.run_id = runs.run_id AND key = 'fleet'
    )
)) ORDER BY run_id

-- name: runs_ended_by_workers
SELECT {runs} FROM runs WHERE status <> 'running' AND owner LIKE 'worker:%' AND NOT EXISTS (
    SELECT 1 FROM kv_run WHERE kv_run.run_id = runs.run_id
        AND key = 'reason_code' AND value_json = '"queued"'
) ORDER BY run_id

-- name: claim_run
UPDATE runs SET claim_epoch = claim_epoch + 1, owner = :owner
WHERE run_id = :run_id AND claim_epoch = :epoch AND status = :status
    AND coalesce(owner, '') = coalesce(CAST(:seen_owner AS TEXT), '') RETURNING claim_epoch

-- name: runs_of_fleet
SELECT {runs} FROM runs WHERE status = :status AND EXISTS (
    SELECT 1 FROM kv_run WHERE kv_run.run_id = runs.run_id AND key = 'fleet'
) ORDER BY run_id

-- name: add_job
INSERT INTO fleet_jobs (job, project, priority, state, changed_at)
VALUES (:job, :project, :priority, 'waiting', :at) ON CONFLICT (job) DO NOTHING

-- name: some_job
SELECT job FROM fleet_jobs WHERE state = 'waiting' LIMIT 1

-- name: take_job
UPDATE fleet_jobs SET state = 'held', worker_id = :worker_id WHERE job = (
    SELECT job FROM fleet_jobs WHERE state = 'waiting' AND project NOT IN (
        SELECT project FROM fleet_jobs WHERE state = 'held' GROUP BY project HAVING count(*) >= :most
    ) AND CAST(:but AS TEXT) NOT LIKE '%|' || job || '|%'
        AND CAST(:but AS TEXT) NOT LIKE '%|' || project || '|%'
        AND NOT EXISTS (SELECT 1 FROM workers WHERE worker_id = :worker_id AND status = 'dead')
    ORDER BY priority, changed_at, job LIMIT 1
) RETURNING job

-- name: end_job
UPDATE fleet_jobs SET state = :state, worker_id = NULL,
    changed_at = CASE WHEN :state = 'done' THEN :at ELSE changed_at END
WHERE job = :job AND state = 'held' AND worker_id = :worker_id

-- name: jobs
SELECT job, worker_id FROM fleet_jobs WHERE state = :state

-- name: jobs_of_worker
SELECT job, worker_id FROM fleet_jobs WHERE state = 'held' AND worker_id = :worker_id

-- name: forget_jobs
DELETE FROM fleet_jobs WHERE state = 'done' AND changed_at < :before

-- name: change_no_run
UPDATE runs SET owner = owner WHERE run_id = ''
