-- Need A1: refused inserts must not bloat the table. A device sends a ping every few minutes, and one row a day is
-- needed.

\set QUIET on
CREATE SCHEMA need_a1;
SET search_path = need_a1, public;
CREATE TABLE ping (device int, day date) WITH (autovacuum_enabled = off);
SELECT dedup_create('ping_seen', dedup_filter(100000, 1e-6, 42)) \gset
SELECT dedup_guard('ping', 'ping_seen', ARRAY['device', 'day']) \gset
INSERT INTO ping VALUES (1, '2024-01-01');
\set QUIET off

-- 10,000 duplicates by plain INSERT: no error, no transaction id

BEGIN;
DO $$
DECLARE
	inserted int;
BEGIN
	FOR i IN 1..10000 LOOP
		INSERT INTO ping VALUES (1, '2024-01-01');
		GET DIAGNOSTICS inserted = ROW_COUNT;
		IF inserted <> 0 THEN RAISE EXCEPTION 'duplicate % was inserted', i; END IF;
	END LOOP;
END $$;
SELECT pg_current_xact_id_if_assigned() IS NULL AS no_transaction_id;
COMMIT;

-- one page, and no dead tuple: the next row is the second that was ever on it

SELECT count(*) AS rows, pg_relation_size('ping') = current_setting('block_size')::int AS one_page
FROM ping;
INSERT INTO ping VALUES (1, '2024-01-02'), (1, '2024-01-01'), (2, '2024-01-01') RETURNING ctid, *;
SELECT "new", skipped FROM dedup_stats('ping_seen');

\set QUIET on
SET client_min_messages = error;
DROP SCHEMA need_a1 CASCADE;
