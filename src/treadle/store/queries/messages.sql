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
SELECT value FROM counters WHERE name = :counter

-- name: set_counter
INSERT INTO counters (name, value) VALUES (:name, :value)
ON CONFLICT (name) DO UPDATE SET value = excluded.value

-- name: last_fire
SELECT last_fire FROM cron WHERE name = :job

-- name: set_fire
INSERT INTO cron (name, last_fire) VALUES (:name, :last_fire)
ON CONFLICT (name) DO UPDATE SET last_fire = excluded.last_fire

-- name: chains
SELECT chain FROM chains ORDER BY chain DESC LIMIT :limit
