-- name: outages
SELECT {outages} FROM outages ORDER BY since, service

-- name: outage
SELECT {outages} FROM outages WHERE service = :service

-- name: note_outage
INSERT INTO outages ({outages}) VALUES ({outages_values}) ON CONFLICT (service) DO UPDATE SET {outages_updates}

-- name: set_next_try
UPDATE outages SET next_at = :next_at WHERE service = :service

-- name: forget_outage
DELETE FROM outages WHERE service = :service
