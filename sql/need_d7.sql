-- Need D7: adding one key at a time to a stored filter writes the filter each time, and the table grows to megabytes
-- for kilobytes of data. One UPDATE for a batch does not.

\set QUIET on
CREATE SCHEMA need_d7;
SET search_path = need_d7, public;
CREATE TABLE by_row (f dedup_filter)
	WITH (autovacuum_enabled = off, toast.autovacuum_enabled = off);
CREATE TABLE by_batch (LIKE by_row)
	WITH (autovacuum_enabled = off, toast.autovacuum_enabled = off);
INSERT INTO by_row SELECT dedup_agg(dedup_filter(10000), i) FROM generate_series(1, 9000) i;
INSERT INTO by_batch VALUES (dedup_filter(10000));
\set QUIET off

-- 1,000 updates of one row, one key each

DO $$
BEGIN
	FOR i IN 9001 .. 10000 LOOP
		UPDATE by_row SET f = dedup_add(f, i);
	END LOOP;
END $$;

-- ten updates of one row, a thousand keys each: the first by an array, the others by an aggregate

UPDATE by_batch SET f = dedup_add_all(f, ARRAY(SELECT generate_series(1, 1000)));
DO $$
BEGIN
	FOR b IN 1 .. 9 LOOP
		UPDATE by_batch SET f = f || (SELECT dedup_agg(dedup_filter(10000), i)
			FROM generate_series(b * 1000 + 1, b * 1000 + 1000) i);
	END LOOP;
END $$;

-- all keys are there, the filter is the same one, and the table is small

SELECT bool_and(dedup_contains(r.f, i)) AND bool_and(dedup_contains(b.f, i)) AS all_keys
FROM by_row r, by_batch b, generate_series(1, 10000) i;
SELECT r.f::text = b.f::text AS same_filter FROM by_row r, by_batch b;
SELECT pg_total_relation_size('by_batch') < 200 * 1024 AS small,
	pg_total_relation_size('by_row') > 50 * pg_total_relation_size('by_batch')
		AS a_key_at_a_time_is_not;

\set QUIET on
SET client_min_messages = error;
DROP SCHEMA need_d7 CASCADE;
