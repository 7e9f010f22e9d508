-- Need C2: clients count rows. So there are three modes: skip leaves the row out, reject
-- raises what a unique index would, mark keeps the row and says so in a column.

\set QUIET on
CREATE SCHEMA need_c2;
SET search_path = need_c2, public;
-- 10 rows, 3 of them with a key that came before
CREATE TABLE batch AS SELECT i, i % 7 AS k FROM generate_series(1, 10) i;
\set QUIET off

-- skip: 7 rows

CREATE TABLE skip (i int, k int);
SELECT dedup_create('skip_seen', dedup_filter(100000, 1e-6, 42));
\set QUIET on
SELECT dedup_guard('skip', 'skip_seen', ARRAY['k'], 'skip') \gset
\set QUIET off
BEGIN;
INSERT INTO skip SELECT * FROM batch ORDER BY i;
ROLLBACK;
WITH x AS (INSERT INTO skip SELECT * FROM batch ORDER BY i RETURNING i)
SELECT count(*), max(i) FROM x;
SELECT count(*) FROM skip;

-- reject: 23505 with the names that a unique index would give, and no row

CREATE TABLE reject (i int, k int);
SELECT dedup_create('reject_seen', dedup_filter(100000, 1e-6, 42));
\set QUIET on
SELECT dedup_guard('reject', 'reject_seen', ARRAY['k'], 'reject') \gset
\set QUIET off
DO $$
DECLARE
	schema_name text;
	table_name text;
	constraint_name text;
	detail text;
BEGIN
	INSERT INTO reject SELECT * FROM batch ORDER BY i;
EXCEPTION WHEN unique_violation THEN
	GET STACKED DIAGNOSTICS schema_name = SCHEMA_NAME, table_name = TABLE_NAME,
		constraint_name = CONSTRAINT_NAME, detail = PG_EXCEPTION_DETAIL;
	RAISE NOTICE '% in %.%, constraint %, detail %', SQLSTATE, schema_name, table_name,
		CASE WHEN constraint_name <> '' THEN 'named' ELSE 'missing' END,
		CASE WHEN detail ~ 'k.*1' THEN 'with the key' ELSE 'without the key' END;
END $$;
SELECT count(*) FROM reject;
-- nothing of the failed statement is remembered
INSERT INTO reject SELECT * FROM batch WHERE i <= 7;
-- a writer of code for unique indexes sees what it expects
DO $$
BEGIN
	FOR i IN 6..9 LOOP
		BEGIN
			INSERT INTO reject VALUES (i, i);
			RAISE NOTICE '% inserted', i;
		EXCEPTION WHEN unique_violation THEN
			RAISE NOTICE '% exists', i;
		END;
	END LOOP;
END $$;
SELECT count(*) FROM reject;

-- mark: 10 rows, 3 of them marked

CREATE TABLE mark (i int, k int, is_dup boolean NOT NULL DEFAULT false);
SELECT dedup_create('mark_seen', dedup_filter(100000, 1e-6, 42));
\set QUIET on
SELECT dedup_guard('mark', 'mark_seen', ARRAY['k'], 'mark:is_dup') \gset
\set QUIET off
BEGIN;
INSERT INTO mark SELECT * FROM batch ORDER BY i;
ROLLBACK;
INSERT INTO mark SELECT * FROM batch ORDER BY i RETURNING *;
SELECT count(*), count(*) FILTER (WHERE is_dup) AS marked FROM mark;

-- each refusal was counted once, those that were rolled back only where an error did it

SELECT f AS filter, "new", skipped, rejected, marked
FROM unnest('{skip_seen,reject_seen,mark_seen}'::text[]) f, dedup_stats(f);

\set QUIET on
SET client_min_messages = error;
DROP SCHEMA need_c2 CASCADE;
