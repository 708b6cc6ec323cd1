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
SELECT {mail_index} FROM mail_index WHERE box = :box
    AND (CAST(:intent AS TEXT) IS NULL OR intent = :intent)
ORDER BY created_at DESC, letter_id DESC LIMIT :limit

-- name: letters_to
SELECT {mail_index} FROM mail_index WHERE box = 'new' AND recipient = :agent
    AND (CAST(:intent AS TEXT) IS NULL OR intent = :intent)
ORDER BY created_at DESC, letter_id DESC LIMIT :limit

-- name: letters_held
SELECT {mail_index} FROM mail_index WHERE agent = :agent AND box = :box
    AND (CAST(:intent AS TEXT) IS NULL OR intent = :intent)
ORDER BY created_at DESC, letter_id DESC LIMIT :limit

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
    AND intent IN ({work})
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

-- name: letters_unread
SELECT recipient, count(*) FROM mail_index WHERE box = 'new' GROUP BY recipient ORDER BY recipient
