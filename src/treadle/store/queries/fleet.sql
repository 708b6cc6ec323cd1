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
