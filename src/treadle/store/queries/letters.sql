-- name: runs_with_letters
SELECT run_id FROM runs WHERE owner = 'mail' ORDER BY run_id LIMIT 1

-- name: letter
SELECT {mail_index} FROM mail_index WHERE letter_id = :letter_id

-- name: letter_to_claim
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
SELECT {mail_index} {in_box}
ORDER BY rank, created_at DESC, letter_id DESC LIMIT :limit

-- name: letters_sent_to
SELECT {mail_index} {sent_to}
ORDER BY rank, created_at DESC, letter_id DESC LIMIT :limit

-- name: letters_held_by
SELECT {mail_index} {held_by}
ORDER BY rank, created_at DESC, letter_id DESC LIMIT :limit

-- name: count_in_box
SELECT count(*) {in_box}

-- name: count_sent_to
SELECT count(*) {sent_to}

-- name: count_held_by
SELECT count(*) {held_by}

-- name: letters_older
SELECT {mail_index} FROM mail_index WHERE folder = :folder AND created_at < :before
ORDER BY created_at DESC, letter_id DESC

-- name: letters_of_task
SELECT {mail_index} FROM mail_index WHERE task_id = :task_id ORDER BY created_at, letter_id

-- name: letters_that_ask
SELECT {mail_index} FROM mail_index WHERE task_id = :task_id
    AND intent IN ({work})
ORDER BY letter_id LIMIT 1

-- name: letters_pending
SELECT {mail_index} FROM mail_index WHERE pending = 1 ORDER BY created_at, letter_id

-- name: released_letters
SELECT {mail_index} FROM mail_index WHERE box IN ('inbox', 'workspace') AND claim_id IS NOT NULL
    AND copy_of IS NULL AND intent IN ({work}) AND EXISTS (
        SELECT 1 FROM tasks WHERE tasks.task_id = mail_index.task_id AND (
            (tasks.lane = 'planned' AND tasks.claim_id IS NULL)
            OR (tasks.lane IN ('claimed', 'in_progress')
                AND (tasks.owner <> mail_index.agent OR (tasks.lease_until <= :expired_at
                    AND tasks.claim_id = mail_index.claim_id)))
        )
    )

-- name: finished_letters
SELECT {mail_index} FROM mail_index WHERE box IN ('inbox', 'workspace') AND claim_id IS NOT NULL
    AND copy_of IS NULL AND intent IN ({work}) AND EXISTS (
        SELECT 1 FROM tasks WHERE tasks.task_id = mail_index.task_id AND tasks.lane = 'done'
    )

-- name: tie_letter
UPDATE mail_index SET claim_id = :claim_id WHERE letter_id = :letter_id

-- name: letters_in_reply
SELECT letter_id FROM mail_index WHERE in_reply_to IN (:message_id, :file) LIMIT 1

-- name: letters_answered_by
SELECT {mail_index} FROM mail_index WHERE question_id = :question_id

-- name: copies_of
SELECT {mail_index} FROM mail_index WHERE copy_of = :file

-- name: letters_between
SELECT {mail_index} FROM mail_index WHERE letter_id > :after ORDER BY letter_id LIMIT :limit

-- name: claimable_letters
SELECT {mail_index} FROM mail_index WHERE box = 'new' AND recipient = :agent
    AND (rank, created_at, letter_id) > (:rank, :created_at, :letter_id)
    AND (task_id IS NOT NULL OR intent NOT IN ({work}))
    AND (:task_id IS NULL OR task_id = :task_id) AND (expires_at IS NULL OR expires_at > :now)
UNION ALL
SELECT {mail_index} FROM mail_index WHERE box = 'new' AND recipient = 'all' AND sender <> :agent
    AND (rank, created_at, letter_id) > (:rank, :created_at, :letter_id)
    AND intent IN ({work}) AND task_id IS NOT NULL
    AND (:task_id IS NULL OR task_id = :task_id) AND (expires_at IS NULL OR expires_at > :now)
ORDER BY rank, created_at, letter_id LIMIT 1

-- name: letters_that_refer
SELECT {mail_index} FROM mail_index WHERE message_id = :reference
UNION SELECT {mail_index} FROM mail_index WHERE in_reply_to = :reference
UNION SELECT {mail_index} FROM mail_index WHERE thread_id = :reference
UNION SELECT {mail_index} FROM mail_index WHERE name = :reference

-- name: letters_overdue
SELECT {mail_index} FROM mail_index
WHERE ack_by IS NOT NULL AND ack_by <= :now AND box IN ('new', 'inbox')

-- name: last_moved_letter
SELECT max(moved_ns) FROM mail_index

-- name: letter_reminded
UPDATE mail_index SET ack_by = NULL WHERE letter_id = :letter_id

-- name: agents_seen
SELECT agent, max(at) FROM (
    SELECT sender AS agent, created_at AS at FROM mail_index
    UNION ALL SELECT agent, moved_at FROM mail_index
    UNION ALL SELECT who, at FROM task_moves
) AS seen WHERE at <= :now GROUP BY agent

-- name: insert_letter
INSERT INTO mail_index ({mail_index}) VALUES ({mail_index_values})
ON CONFLICT (folder, name) DO NOTHING

-- name: place_letter
UPDATE mail_index SET box = :box, agent = :agent, folder = :folder, name = :name,
    claim_id = :claim_id, pending = :pending, moved_ns = :moved_ns, rank = :rank,
    moved_at = :moved_at
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

-- name: letters_unread
SELECT recipient, count(*) FROM mail_index WHERE box = 'new' GROUP BY recipient
UNION ALL
SELECT agent, count(*) FROM mail_index WHERE box = 'inbox' AND copy_of IS NOT NULL GROUP BY agent
