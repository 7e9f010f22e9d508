-- What "docker compose up demo" shows: a table that refuses duplicates, and the duplicates of one
-- that has them. Can be run again.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS streamdedup;
DROP TABLE IF EXISTS event, event_seen, click;

-- A provider sends each event at least once.
CREATE TABLE event (event_id text NOT NULL, received timestamptz NOT NULL DEFAULT now(), body jsonb);
SELECT dedup_create('event_seen', ttl => '7 days');
SELECT dedup_guard('event', 'event_seen', '{event_id}');
INSERT INTO event (event_id, body) VALUES ('evt_1', '{"paid": 10}') RETURNING event_id;
INSERT INTO event (event_id, body) VALUES ('evt_1', '{"paid": 10}') RETURNING event_id;
SELECT new, skipped FROM dedup_stats('event_seen');

-- A million clicks, 50,000 of which repeat the one before. The filter is a window of the last keys that
-- is as large as work_mem * hash_mem_multiplier allows: it finds each of these duplicates, and calls at
-- most 1 in 1,000 new keys a duplicate.
CREATE TABLE click AS
SELECT id, id - (id % 20 = 0)::int AS key FROM generate_series(1, 1000000) id;
SELECT count(*) AS clicks, count(*) FILTER (WHERE NOT is_new) BETWEEN 50000 AND 50950 AS duplicates_found
FROM (SELECT dedup_is_new(key) OVER (ORDER BY id) AS is_new FROM click) c;
