-- Guards of hypertables; test/timescaledb.sh runs this.

SET client_min_messages = warning;
CREATE EXTENSION timescaledb;
CREATE EXTENSION streamdedup;
\set filter 'dedup_filter(100000, 1e-6, 42)'

-- Runs a statement, and compares what it returns, or its error, with what must come.
CREATE FUNCTION expect(what text, statement text, wanted text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	got text;
BEGIN
	BEGIN
		EXECUTE statement INTO got;
	EXCEPTION WHEN OTHERS THEN
		got := SQLSTATE || ' ' || SQLERRM;
	END;
	IF got IS NOT DISTINCT FROM wanted OR (wanted LIKE '%\%%' AND got LIKE wanted) THEN
		RETURN 'ok - ' || what;
	END IF;
	RAISE EXCEPTION '% is: % and must be: %', what, got, wanted;
END $$;
CREATE FUNCTION guards_of(of regclass) RETURNS text LANGUAGE sql AS $$
	SELECT concat_ws(' ', partitions_guarded, partitions_unguarded, exact, problem) FROM dedup_guards WHERE "table" = of
$$;
CREATE FUNCTION guard_triggers_of(of regclass) RETURNS bigint LANGUAGE sql AS $$
	SELECT count(*) FROM pg_trigger WHERE tgname ~ '^~dedup_guard' AND (tgrelid = of OR tgrelid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = of))
$$;

-- ---- create_hypertable before and after dedup_guard, all modes ----

DO $$
DECLARE
	before boolean;
	exact boolean;
	mode text;
	name text;
BEGIN
	FOREACH before IN ARRAY '{t,f}'::boolean[] LOOP
	FOREACH exact IN ARRAY '{t,f}'::boolean[] LOOP
	FOREACH mode IN ARRAY '{skip,reject,mark}'::text[] LOOP
		name := concat_ws('_', mode, CASE WHEN before THEN 'before' ELSE 'after' END, CASE WHEN exact THEN 'exact' ELSE 'quick' END);
		EXECUTE format('CREATE TABLE %I (k int, at timestamptz NOT NULL, is_duplicate boolean)', name);
		PERFORM dedup_create('f_' || name, dedup_filter(100000, 1e-6, 42));
		IF before THEN
			PERFORM create_hypertable(name::regclass, 'at', chunk_time_interval => interval '1 day');
		END IF;
		EXECUTE format('CREATE INDEX ON %I (k)', name);
		PERFORM dedup_guard(name::regclass, ('f_' || name)::regclass, '{k}', mode, exact => exact);
		IF NOT before THEN
			PERFORM create_hypertable(name::regclass, 'at', chunk_time_interval => interval '1 day');
		END IF;
		EXECUTE format('INSERT INTO %I SELECT i, timestamptz ''2025-01-01Z'' + i * interval ''6 hours'' FROM generate_series(1, 40) i', name);
	END LOOP;
	END LOOP;
	END LOOP;
END $$;
SELECT expect(t || ', the guard', format('SELECT guards_of(%L)', t), '12 0 ' || CASE WHEN t ~ 'exact' THEN 't' ELSE 'f' END),
	expect(t || ', its triggers', format('SELECT guard_triggers_of(%L)', t), '24'),
	expect(t || ', a duplicate into another chunk', format('WITH i AS (INSERT INTO %I VALUES (7, ''2025-01-09Z'') RETURNING is_duplicate) SELECT coalesce(max(is_duplicate::text), count(*)::text) FROM i', t),
		CASE split_part(t, '_', 1) WHEN 'skip' THEN '0' WHEN 'mark' THEN 'true' ELSE '23505%' END),
	expect(t || ', straight into a chunk', format('WITH i AS (INSERT INTO %s VALUES (8, ''2025-01-01 12:00Z''), (1000, ''2025-01-01 12:00Z'') RETURNING *) SELECT string_agg(concat_ws('' '', k, is_duplicate), '', '' ORDER BY k) FROM i',
			(SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = t::regclass ORDER BY inhrelid LIMIT 1)),
		CASE split_part(t, '_', 1) WHEN 'skip' THEN '1000' WHEN 'mark' THEN '8 t, 1000 f' ELSE '23505%' END),
	expect(t || ', dedup_unguard of a chunk', format('SELECT dedup_unguard(%L)', (SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = t::regclass ORDER BY inhrelid LIMIT 1)), '42809 the guard of table%'),
	expect(t || ', an update', format('WITH u AS (UPDATE %I SET k = 9 WHERE k = 10 RETURNING *) SELECT count(*) FROM u', t), '23505%'),
	expect(t || ', a deleted row comes again', format('WITH d AS (DELETE FROM %I WHERE k = 20 RETURNING *) SELECT count(*) FROM d', t), '1')
FROM (SELECT relname AS t FROM pg_class WHERE relname ~ '_(exact|quick)$' AND relname !~ '^f_' AND relkind = 'r' AND relnamespace = 'public'::regnamespace ORDER BY 1) tables;
SELECT expect(t || ', after it was deleted', format('WITH i AS (INSERT INTO %I VALUES (20, ''2025-01-09Z'') RETURNING coalesce(is_duplicate, false) AS dup) SELECT coalesce(max(dup::text), ''left out'') FROM i', t),
		CASE WHEN t ~ 'exact' THEN 'false' ELSE CASE split_part(t, '_', 1) WHEN 'skip' THEN 'left out' WHEN 'mark' THEN 'true' ELSE '23505%' END END),
	-- keys 1 to 3 were in the first chunk
	expect(t || ', drop_chunks', format('SELECT count(*) FROM drop_chunks(%L::regclass, timestamptz ''2025-01-02Z'')', t), '1'),
	expect(t || ', a key of the dropped chunk', format('WITH i AS (INSERT INTO %I VALUES (2, ''2025-01-09Z'') RETURNING coalesce(is_duplicate, false) AS dup) SELECT coalesce(max(dup::text), ''left out'') FROM i', t),
		CASE WHEN t ~ 'exact' THEN 'false' ELSE CASE split_part(t, '_', 1) WHEN 'skip' THEN 'left out' WHEN 'mark' THEN 'true' ELSE '23505%' END END),
	expect(t || ', the guard after that', format('SELECT guards_of(%L)', t), '11 0 ' || CASE WHEN t ~ 'exact' THEN 't' ELSE 'f' END)
FROM (SELECT relname AS t FROM pg_class WHERE relname ~ '_(exact|quick)$' AND relname !~ '^f_' AND relkind = 'r' AND relnamespace = 'public'::regnamespace ORDER BY 1) tables;
COPY skip_before_exact FROM STDIN;
9	2025-01-20Z	\N
2000	2025-01-20Z	\N
2000	2025-01-21Z	\N
\.
SELECT expect('COPY', 'SELECT count(*) FROM skip_before_exact WHERE k IN (9, 2000)', '2');
INSERT INTO skip_before_exact VALUES (9, '2025-02-20Z'), (2001, '2025-02-20Z') ON CONFLICT DO NOTHING;
SELECT expect('ON CONFLICT', 'SELECT count(*) FROM skip_before_exact WHERE k IN (9, 2001)', '2');
SELECT expect('dedup_rebuild', $$SELECT dedup_rebuild('f_skip_before_exact')$$, '');
TRUNCATE skip_before_exact, f_skip_before_exact;
INSERT INTO skip_before_exact VALUES (9, '2025-02-20Z'), (9, '2025-02-21Z');
SELECT expect('TRUNCATE with the filter', 'SELECT count(*) FROM skip_before_exact', '1');
SELECT expect('TRUNCATE of the filter alone', 'TRUNCATE f_skip_before_exact', '0A000%');

-- ---- rows that are there ----

CREATE TABLE moved (k int, at timestamptz NOT NULL, is_duplicate boolean);
CREATE INDEX ON moved (k);
INSERT INTO moved SELECT i, timestamptz '2025-01-01Z' + i * interval '6 hours' FROM generate_series(1, 40) i;
SELECT dedup_create('f_moved', dedup_filter(100000, 1e-6, 42)) \gset
CREATE FUNCTION migrate(mode text, exact boolean) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM dedup_guard('moved', 'f_moved', '{k}', mode, exact => exact, load => true);
	PERFORM create_hypertable('moved', 'at', chunk_time_interval => interval '1 day', migrate_data => true);
	RETURN (SELECT concat_ws(' ', count(*), count(*) FILTER (WHERE is_duplicate)) FROM moved);
END $$;
SELECT expect('migrate_data, skip', $$SELECT migrate('skip', false)$$, '55000 cannot leave a duplicate out of table%'),
	expect('migrate_data, reject', $$SELECT migrate('reject', false)$$, '23505%'),
	expect('migrate_data, mark', $$SELECT migrate('mark', false)$$, '55000 cannot truncate table "moved" after duplicates%'),
	expect('migrate_data, exact, skip', $$SELECT migrate('skip', true)$$, '55000 cannot leave a duplicate out of table%'),
	expect('migrate_data, exact, reject', $$SELECT migrate('reject', true)$$, '23505%'),
	expect('migrate_data, exact, mark', $$SELECT migrate('mark', true)$$, '55000 cannot truncate table "moved" after duplicates%'),
	expect('all rows are there', $$SELECT concat_ws(' ', count(*), count(*) FILTER (WHERE is_duplicate)) FROM ONLY moved$$, '40 0'),
	expect('migrate_data, and then the guard', $$SELECT create_hypertable('moved', 'at', chunk_time_interval => interval '1 day', migrate_data => true) IS NOT NULL$$, 'true'),
	expect('the guard loads the chunks', $$SELECT dedup_guard('moved', 'f_moved', '{k}', load => true)$$, ''),
	expect('and has all keys', $$WITH i AS (INSERT INTO moved SELECT i, '2025-03-01Z' FROM generate_series(0, 41) i RETURNING k) SELECT string_agg(k::text, ' ' ORDER BY k) FROM i$$, '0 41'),
	expect('dedup_unguard', $$SELECT dedup_unguard('moved')$$, ''),
	expect('takes all off', $$SELECT guard_triggers_of('moved')$$, '0'),
	expect('and the indexes', $$SELECT count(*) FROM pg_class JOIN pg_am a ON a.oid = relam WHERE amname = 'streamdedup_guard' AND relname ~ 'moved'$$, '0'),
	expect('a filter that has seen them', $$SELECT dedup_guard('moved', 'f_moved', '{k}', exact => true)$$, '');

-- ---- predicates and expressions ----

CREATE TABLE mail (address text, at timestamptz NOT NULL, gone boolean);
SELECT create_hypertable('mail', 'at', chunk_time_interval => interval '1 day') \gset
CREATE INDEX ON mail (lower(address)) WHERE NOT gone;
SELECT dedup_create('f_mail', dedup_filter(100000, 1e-6, 42)) \gset
SELECT expect('a predicate and an expression', $$SELECT dedup_guard('mail', 'f_mail', '{lower(address)}', exact => true, "where" => 'NOT gone')$$, '');
INSERT INTO mail VALUES ('A@b', '2025-01-01Z', false), ('a@B', '2025-01-02Z', false), ('a@b', '2025-01-03Z', true), ('c@d', '2025-01-03Z', NULL);
SELECT expect('of chunks', 'SELECT count(*) FROM mail', '3'),
	expect('are clones', $$SELECT guards_of('mail')$$, '4 0 t');

-- ---- compressed chunks: said to be by hand, since the Apache-licensed part has no compression ----

CREATE TABLE old (k int, at timestamptz NOT NULL);
CREATE INDEX ON old (k);
SELECT create_hypertable('old', 'at', chunk_time_interval => interval '1 day') \gset
SELECT dedup_create('f_old', dedup_filter(100000, 1e-6, 42)) \gset
SELECT dedup_guard('old', 'f_old', '{k}', exact => true) \gset
INSERT INTO old SELECT i, timestamptz '2025-01-01Z' + i * interval '6 hours' FROM generate_series(1, 40) i;
SELECT inhrelid::regclass AS chunk FROM pg_inherits WHERE inhparent = 'old'::regclass ORDER BY inhrelid LIMIT 1 \gset
UPDATE _timescaledb_catalog.chunk SET status = 1 WHERE format('%I.%I', schema_name, table_name) = :'chunk';
SELECT expect('a key that is found needs no compressed chunk', $$WITH i AS (INSERT INTO old VALUES (20, '2025-02-01Z') RETURNING k) SELECT count(*) FROM i$$, '0'),
	expect('a new key needs none', $$WITH i AS (INSERT INTO old VALUES (100, '2025-02-01Z') RETURNING k) SELECT count(*) FROM i$$, '1');
DELETE FROM old WHERE k = 20;
SELECT expect('a key that must be searched for does', $$INSERT INTO old VALUES (20, '2025-02-01Z')$$, '0A000 cannot look for keys in the compressed chunk%'),
	expect('dedup_rebuild', $$SELECT dedup_rebuild('f_old')$$, '0A000 cannot look for keys in the compressed chunk%');
SELECT dedup_unguard('old') \gset
SELECT expect('and dedup_guard', $$SELECT dedup_guard('old', 'f_old', '{k}', exact => true)$$, '0A000 cannot look for keys in the compressed chunk%');
UPDATE _timescaledb_catalog.chunk SET status = 0 WHERE format('%I.%I', schema_name, table_name) = :'chunk';
SELECT expect('decompressed', $$SELECT dedup_guard('old', 'f_old', '{k}', exact => true)$$, '');

-- ---- for the load ----

CREATE TABLE load_exact (k int, at timestamptz NOT NULL);
CREATE TABLE load_quick (k int, at timestamptz NOT NULL);
CREATE INDEX ON load_exact (k);
SELECT create_hypertable('load_exact', 'at', chunk_time_interval => interval '1 day'), create_hypertable('load_quick', 'at', chunk_time_interval => interval '1 day') \gset
SELECT dedup_create('f_load_exact', dedup_filter(100000, 1e-6, 42)), dedup_create('f_load_quick', dedup_filter(100000, 1e-6, 42)) \gset
SELECT dedup_guard('load_exact', 'f_load_exact', '{k}', exact => true), dedup_guard('load_quick', 'f_load_quick', '{k}') \gset

-- ---- by the time of a row: chunks that are too far away are not searched, so that they may be compressed ----

CREATE TABLE timed (k int, at timestamptz NOT NULL);
CREATE INDEX ON timed (k);
SELECT create_hypertable('timed', 'at', chunk_time_interval => interval '1 day') \gset
SELECT dedup_create('f_timed', dedup_filter(100000, 1e-6, 42), ttl => '6 hours') \gset
SELECT dedup_guard('timed', 'f_timed', '{k}', exact => true, at => 'at') \gset
INSERT INTO timed SELECT 1, timestamptz '2025-01-01 12:00Z' + i * interval '1 day' FROM generate_series(0, 9) i;
UPDATE _timescaledb_catalog.chunk SET status = 1 WHERE format('%I.%I', schema_name, table_name) IN
	(SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'timed'::regclass ORDER BY pg_inherits.inhrelid LIMIT 5);
SELECT expect('a key comes again after its time', 'SELECT count(*) FROM timed', '10'),
	expect('a late row, compressed chunks far away', $$WITH i AS (INSERT INTO timed VALUES (1, '2025-01-07 19:00Z') RETURNING k) SELECT count(*) FROM i$$, '1'),
	expect('a late duplicate', $$WITH i AS (INSERT INTO timed VALUES (1, '2025-01-07 20:00Z') RETURNING k) SELECT count(*) FROM i$$, '0'),
	expect('a late row near a compressed chunk', $$INSERT INTO timed VALUES (1, '2025-01-06 05:00Z')$$, '0A000 cannot look for keys in the compressed chunk%');
UPDATE _timescaledb_catalog.chunk SET status = 0;
