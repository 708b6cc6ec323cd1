-- name: question
SELECT {questions} FROM questions WHERE question_id = :question_id

-- name: questions
SELECT {questions} FROM questions ORDER BY created_at, length(question_id), question_id

-- name: open_questions
SELECT {questions} FROM questions WHERE answered_at IS NULL
ORDER BY created_at, length(question_id), question_id

-- name: desk
SELECT {questions} FROM questions WHERE answered_at IS NULL
    AND (coalesce(matter, '') NOT LIKE 'fleet %' OR question_id IN (
        SELECT 'Q-' || min(CAST(substr(question_id, 3) AS INTEGER))
        FROM questions WHERE answered_at IS NULL GROUP BY matter
    ))
ORDER BY created_at, length(question_id), question_id

-- name: questions_about
SELECT {questions} FROM questions WHERE subject_kind = :kind AND subject_id = :id
ORDER BY created_at, length(question_id), question_id

-- name: questions_of_mission
SELECT {questions} FROM questions WHERE question_id IN (
    SELECT about.question_id FROM questions AS about
    WHERE about.subject_kind = 'mission' AND about.subject_id = :mission
    UNION SELECT about.question_id FROM questions AS about
    JOIN tasks ON tasks.task_id = about.task_id WHERE tasks.mission = :mission
)
ORDER BY created_at, length(question_id), question_id

-- name: questions_of_task
SELECT {questions} FROM questions WHERE task_id = :task_id
ORDER BY created_at, length(question_id), question_id

-- name: question_ids
SELECT question_id FROM questions

-- name: insert_question
INSERT INTO questions ({questions}) VALUES ({questions_values})

-- name: same_question
SELECT question_id FROM questions
WHERE answered_at IS NULL AND kind = :kind AND summary = :summary
    AND subject_kind = :subject_kind AND subject_id = :subject_id
    AND coalesce(matter, '') = coalesce(:matter, '')

-- name: restate_question
UPDATE questions SET summary = :summary, look_json = :look WHERE question_id = :question_id

-- name: answer_question
UPDATE questions SET answered_at = :now, answer = coalesce(answer, :answer),
    answered_by = CASE WHEN answered_by IS NULL THEN :by ELSE 'human' END,
    action = coalesce(action, :action)
WHERE question_id = :question_id AND answered_at IS NULL

-- name: take_question
UPDATE questions SET answered_by = :by, answer = :answer, action = :action
WHERE question_id = :question_id AND answered_at IS NULL AND coalesce(answered_by, '') = :before

-- name: free_question
UPDATE questions SET answered_by = NULL, answer = NULL, action = NULL
WHERE question_id = :question_id AND answered_at IS NULL AND answered_by = :by

-- name: settle_questions
UPDATE questions SET answered_at = :now, answer = coalesce(answer, :answer),
    answered_by = CASE WHEN answered_by IS NULL THEN :by ELSE 'human' END
WHERE run_id = :run_id AND answered_at IS NULL
