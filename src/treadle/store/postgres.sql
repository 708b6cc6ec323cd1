-- What PostgreSQL says otherwise than queries.sql, under the same names.

-- name: claimable_letters
SELECT {mail_index} FROM mail_index WHERE box = 'new' AND letter_id = ANY(ARRAY(
    SELECT letter_id FROM (
        (SELECT rank, created_at, letter_id FROM mail_index WHERE box = 'new'
            AND recipient = :agent AND (task_id IS NOT NULL OR intent NOT IN ({work}))
            AND (rank, created_at, letter_id) > (:rank, :created_at, :letter_id)
            AND (CAST(:task_id AS TEXT) IS NULL OR task_id = :task_id)
            AND (expires_at IS NULL OR expires_at > :now)
        ORDER BY rank, created_at, letter_id LIMIT 64)
        UNION ALL
        (SELECT rank, created_at, letter_id FROM mail_index WHERE box = 'new'
            AND recipient = 'all' AND sender <> :agent
            AND intent IN ({work}) AND task_id IS NOT NULL
            AND (rank, created_at, letter_id) > (:rank, :created_at, :letter_id)
            AND (CAST(:task_id AS TEXT) IS NULL OR task_id = :task_id)
            AND (expires_at IS NULL OR expires_at > :now)
        ORDER BY rank, created_at, letter_id LIMIT 64)
    ) AS nearest ORDER BY rank, created_at, letter_id LIMIT 64
))
ORDER BY rank, created_at, letter_id LIMIT 1 FOR UPDATE SKIP LOCKED

-- name: own_lines
SELECT count(*) FROM pg_stat_activity
WHERE application_name = current_setting('application_name') AND usename = current_user

-- name: cut_off
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE application_name = :worker_id AND usename = current_user AND pid <> pg_backend_pid()

-- name: letter_to_claim
SELECT {mail_index} FROM mail_index WHERE letter_id = :letter_id FOR UPDATE
