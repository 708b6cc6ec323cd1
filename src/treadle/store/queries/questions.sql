-- name: question
SELECT {questions} FROM questions WHERE question_id = :question_id

-- name: questions
SELECT {questions} FROM questions ORDER BY created_at, length(question_id), question_id

-- name: open_questions
SELECT {questions} FROM questions WHERE answered_at IS NULL
ORDER BY created_at, length(question_id), question_id

-- name: questions_about
SELECT {questions} FROM questions WHERE subject_kind = :kind AND subject_id = :id
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

-- name: answer_question
UPDATE questions SET answered_at = :now, answer = :answer, answered_by = :by, action = :action
WHERE question_id = :question_id AND answered_at IS NULL

-- name: settle_questions
UPDATE questions SET answered_at = :now, answer = :answer, answered_by = :by
WHERE run_id = :run_id AND answered_at IS NULL
