-- An INSERT of many rows into a guarded table reads its rows ahead. This tests which statements do so, and that
-- nothing else changes: no key is seen before its row's turn. If a table has a twin, the twin's rows are inserted one
-- by one with the setting off, and must be the same.

\set SHOW_CONTEXT never
CREATE SCHEMA guard_read_ahead;
SET search_path = guard_read_ahead, public;
SELECT dedup_create('f', dedup_filter(100000, 1e-6, 42)) \gset
CREATE TABLE source (k int, v int);
INSERT INTO source SELECT i, i * 10 FROM generate_series(1, 2000) i;
ANALYZE source;
CREATE TABLE t (id serial, k int, v int);
SELECT dedup_guard('t', 'f', '{k}') \gset

-- Returns the node of a statement, or nothing.
CREATE FUNCTION node_of(statement text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || statement LOOP
		IF line LIKE '%GuardReadAhead%' OR line LIKE '%Guarded Table%' THEN
			RETURN NEXT trim(line);
		END IF;
	END LOOP;
END
$$;

-- ---- which statements ----

-- The default is computed above the node's input, when the row's turn comes.

EXPLAIN (COSTS OFF, VERBOSE) INSERT INTO t (k, v) SELECT k, v FROM source;
EXPLAIN (COSTS OFF, VERBOSE) INSERT INTO t SELECT v, k FROM source WHERE k > 1;

-- as well: joins, aggregates, several columns, ON CONFLICT, RETURNING of anything, many VALUES

SELECT node_of('INSERT INTO t (k) SELECT a.k FROM source a JOIN source b USING (k) GROUP BY a.k');
SELECT node_of('INSERT INTO t (k) SELECT i FROM generate_series(1, 1000) i');
SELECT node_of('INSERT INTO t (k) SELECT k FROM source UNION ALL SELECT v FROM source');
SELECT node_of('INSERT INTO t (k) SELECT k FROM source ON CONFLICT DO NOTHING');
SELECT node_of('INSERT INTO t (k) SELECT k FROM source RETURNING dedup_seen(''f'', k + 1)');
SELECT node_of('INSERT INTO t (k) WITH c AS MATERIALIZED (SELECT k FROM source) SELECT k FROM c');
SELECT node_of('INSERT INTO t (k) VALUES ' || (SELECT string_agg('(' || i || ')', ', ') FROM generate_series(1, 100) i));

-- not: few rows; sources that ask the filter or have other side effects; what locks or writes

SELECT node_of('INSERT INTO t (k) VALUES (1)');
SELECT node_of('INSERT INTO t (k) VALUES (1), (2)');
SELECT node_of('INSERT INTO t (k) SELECT k FROM source LIMIT 5');
SELECT node_of('INSERT INTO t (k) SELECT k FROM source WHERE NOT dedup_seen(''f'', k)');
SELECT node_of('INSERT INTO t (k) SELECT k FROM source WHERE is_new(''f'', k)');
SELECT node_of('INSERT INTO t (k) SELECT unnest FROM source, dedup_new_keys(''f'', ARRAY[k]) unnest');
SELECT node_of('INSERT INTO t (k) SELECT nextval(''t_id_seq'') FROM source');
SELECT node_of('INSERT INTO t (k, v) SELECT k, random() FROM source');
SELECT node_of('INSERT INTO t (k) SELECT k FROM source WHERE (SELECT dedup_seen(''f'', k)) IS FALSE');
SELECT node_of('INSERT INTO t (k) SELECT k FROM source FOR UPDATE');
SELECT node_of('INSERT INTO t (k) WITH c AS (SELECT k FROM source FOR SHARE) SELECT k FROM c');
SELECT node_of('WITH d AS (DELETE FROM source RETURNING k) INSERT INTO t (k) SELECT k FROM d');
SELECT node_of('WITH i AS (INSERT INTO t (k) SELECT k FROM source RETURNING k) SELECT count(*) FROM i');
SELECT node_of('INSERT INTO source SELECT k, v FROM source');

-- A function that writes is volatile; one that only says that it does not is believed, as by the server.

CREATE FUNCTION asks(k int) RETURNS boolean LANGUAGE sql AS $$SELECT dedup_seen('f', $1)$$;
SELECT node_of('INSERT INTO t (k) SELECT k FROM source WHERE NOT asks(k)');
CREATE VIEW asking AS SELECT k FROM source WHERE NOT asks(k);
SELECT node_of('INSERT INTO t (k) SELECT k FROM asking');

-- the setting; a guard that does not fire; keys that need more than their bytes, and one that is made late

SET streamdedup.guard_read_ahead = off;
SELECT node_of('INSERT INTO t (k) SELECT k FROM source');
RESET streamdedup.guard_read_ahead;
SET session_replication_role = replica;
SELECT node_of('INSERT INTO t (k) SELECT k FROM source');
RESET session_replication_role;
CREATE TABLE computed (k int);
SELECT dedup_guard('computed', 'f', '{abs(k)}') \gset
SELECT node_of('INSERT INTO computed SELECT k FROM source');
CREATE TABLE owned (k int[]);
SELECT dedup_guard('owned', 'f', '{k}') \gset
SELECT node_of('INSERT INTO owned SELECT ARRAY[k] FROM source');
SELECT dedup_guard('source', 'f', '{k}') \gset
ALTER TABLE source ALTER k SET DEFAULT nextval('t_id_seq');
SELECT node_of('INSERT INTO source (v) SELECT i FROM generate_series(1, 1000) i');
SELECT node_of('INSERT INTO source SELECT i, i FROM generate_series(1, 1000) i');
SELECT dedup_unguard('source') \gset
CREATE VIEW seen_through AS SELECT * FROM t;
SELECT node_of('INSERT INTO seen_through (k) SELECT k FROM source');
CREATE FUNCTION instead() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN NEW; END$$;
CREATE TRIGGER instead INSTEAD OF INSERT ON seen_through FOR EACH ROW EXECUTE FUNCTION instead();
SELECT node_of('INSERT INTO seen_through (k) SELECT k FROM source');
DROP TABLE computed, owned;

-- ---- what comes of it ----

-- Every third row repeats a key of its statement, at distances around those that are read ahead;
-- every seventh one that is known, every eleventh has none. Four modes, and an exact guard.

CREATE TABLE rows AS
SELECT i, CASE WHEN i % 11 = 0 THEN NULL WHEN i % 7 = 0 THEN -(i % 50) WHEN i % 3 = 0 THEN i - i % 40 - 1 ELSE i END AS k,
	repeat(i::text, 3) AS v
FROM generate_series(1, 3000) i;
ANALYZE rows;

CREATE PROCEDURE compare(mode text, exact boolean) LANGUAGE plpgsql AS $$
DECLARE
	differing bigint;
	landed bigint;
	message text;
BEGIN
	FOR n IN 1..2 LOOP
		EXECUTE format('CREATE TABLE twin%s (id serial, i int, k bigint, v text, duplicate boolean DEFAULT false)', n);
		PERFORM dedup_create('twin_seen' || n, dedup_filter(100000, 1e-6, 42));
		IF exact THEN
			EXECUTE format('CREATE INDEX ON twin%s (k)', n);
		END IF;
		PERFORM dedup_guard(('twin' || n)::regclass, ('twin_seen' || n)::regclass, '{k}',
			CASE mode WHEN 'mark' THEN 'mark:duplicate' ELSE mode END,
			exact => compare.exact);
		EXECUTE format('INSERT INTO twin%s (k) SELECT -i FROM generate_series(0, 25) i', n);
		PERFORM set_config('streamdedup.guard_read_ahead', CASE n WHEN 1 THEN 'on' ELSE 'off' END, true);
		RAISE NOTICE '%', (SELECT count(*) FROM node_of(format('INSERT INTO twin%s (i, k, v) SELECT i, k, v FROM rows', n)));
		BEGIN
			EXECUTE format('INSERT INTO twin%s (i, k, v) SELECT i, k, v FROM rows', n);
		EXCEPTION WHEN unique_violation THEN
			GET STACKED DIAGNOSTICS message = PG_EXCEPTION_DETAIL;
			RAISE NOTICE '% %', SQLERRM, message;
		END;
	END LOOP;
	SELECT count(*) INTO differing FROM (
		(SELECT * FROM twin1 EXCEPT ALL SELECT * FROM twin2) UNION ALL (SELECT * FROM twin2 EXCEPT ALL SELECT * FROM twin1)) d;
	SELECT count(*) INTO landed FROM twin1;
	RAISE NOTICE '%, exact %: % rows, % differ', mode, exact, landed, differing;
	IF mode = 'divert' THEN
		SELECT count(*) INTO differing FROM (
			(SELECT i, k, v FROM twin1_refused EXCEPT ALL SELECT i, k, v FROM twin2_refused) UNION ALL
			(SELECT i, k, v FROM twin2_refused EXCEPT ALL SELECT i, k, v FROM twin1_refused)) d;
		RAISE NOTICE '% diverted, % differ', (SELECT count(*) FROM twin1_refused), differing;
		PERFORM dedup_unguard('twin1'), dedup_unguard('twin2');
		DROP TABLE twin1_refused, twin2_refused;
	END IF;
END
$$;

SELECT format('CALL compare(%L, %L); DROP TABLE twin1, twin2, twin_seen1, twin_seen2', mode, exact)
FROM unnest('{skip,mark,divert,reject}'::text[]) mode, unnest('{f,t}'::boolean[]) exact \gexec

-- No key is seen before its row's turn: a trigger that fires before the guard asks for the keys of
-- its row and of the next ones. RETURNING finds that of its own row and no later one.

CREATE FUNCTION ask_before() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF dedup_seen('f', NEW.k) OR dedup_seen('f', NEW.k + 1) OR dedup_seen('f', NEW.k + 20) THEN
		RAISE 'key % is seen', NEW.k;
	END IF;
	RETURN NEW;
END
$$;
CREATE TRIGGER ask_before BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION ask_before();
WITH i AS (SELECT 1) INSERT INTO t (k) SELECT k FROM source WHERE k <= 500;
SELECT count(*), count(DISTINCT k), max(id) FROM t;
SELECT new, skipped, in_flight FROM dedup_stats('f');
BEGIN;
CREATE TABLE returned (k int, own boolean, next boolean);
CREATE FUNCTION returning_rows() RETURNS void LANGUAGE plpgsql AS $$
DECLARE r record;
BEGIN
	FOR r IN INSERT INTO t (k) SELECT k FROM source WHERE k BETWEEN 501 AND 1000
		RETURNING k, dedup_seen('f', k) AS own, dedup_seen('f', k + 1) AS next LOOP
		INSERT INTO returned VALUES (r.k, r.own, r.next);
	END LOOP;
END
$$;
SELECT returning_rows();
SELECT count(*), bool_and(own), bool_or(next) FROM returned;
ROLLBACK;
SELECT count(*) FROM generate_series(501, 1000) i WHERE dedup_seen('f', i);

-- A default's sequence counts with the rows: the value of a row is the last one when its trigger fires.

CREATE FUNCTION own_number() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.id <> currval('guard_read_ahead.t_id_seq') THEN
		RAISE 'row % at %', NEW.id, currval('guard_read_ahead.t_id_seq');
	END IF;
	RETURN NEW;
END
$$;
CREATE TRIGGER own_number BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION own_number();
INSERT INTO t (k) SELECT k FROM source WHERE k BETWEEN 501 AND 600;
SELECT count(*), max(id) - min(id) FROM t WHERE k > 500;

-- also where the planner has moved the default into each partition of the source: then there is no node

CREATE TABLE divided (k int) PARTITION BY RANGE (k);
CREATE TABLE divided1 PARTITION OF divided FOR VALUES FROM (0) TO (300);
CREATE TABLE divided2 PARTITION OF divided FOR VALUES FROM (300) TO (601);
INSERT INTO divided SELECT i FROM generate_series(1, 600) i;
ANALYZE divided;
BEGIN;
INSERT INTO t (k) SELECT 10000 + k * 100 FROM divided;
INSERT INTO t (k) SELECT 10030 + k * 100 FROM (SELECT k FROM divided1 UNION ALL SELECT k FROM divided2) u;
SELECT count(*), max(id) - min(id) FROM t WHERE k >= 10000;
ROLLBACK;
DROP TRIGGER own_number ON t;
DROP TRIGGER ask_before ON t;

-- Triggers before the guard's may change the key: the guard goes by the row that it gets.

CREATE FUNCTION change_key() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	NEW.k = 100000 + NEW.k / 2;
	RETURN NEW;
END
$$;
CREATE TRIGGER change_key BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION change_key();
INSERT INTO t (k) SELECT k FROM source WHERE k BETWEEN 1001 AND 1200;
SELECT count(*), min(k), max(k) FROM t WHERE k >= 1001;
SELECT count(*) FROM generate_series(1001, 1200) i WHERE dedup_seen('f', i);
DROP TRIGGER change_key ON t;

-- Triggers after the guard's, constraints and errors: rows that do not land leave no key.

CREATE FUNCTION leave_out() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RETURN CASE WHEN NEW.k % 2 = 0 THEN NEW END;
END
$$;
CREATE TRIGGER "~z" BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION leave_out();
INSERT INTO t (k) SELECT k FROM source WHERE k BETWEEN 1001 AND 1200;
SELECT count(*), bool_and(i % 2 = 0) FROM generate_series(1001, 1200) i WHERE dedup_seen('f', i);
DROP TRIGGER "~z" ON t;
INSERT INTO t (k) SELECT k FROM source WHERE k BETWEEN 1001 AND 1200;
SELECT count(*) FROM t WHERE k BETWEEN 1001 AND 1200;

ALTER TABLE t ADD CONSTRAINT no_1350 CHECK (k <> 1350);
INSERT INTO t (k) SELECT k FROM source WHERE k BETWEEN 1301 AND 1400;
ALTER TABLE t DROP CONSTRAINT no_1350;
DO $$
BEGIN
	INSERT INTO t (k, v) SELECT k, 1 / (1390 - k) FROM source WHERE k BETWEEN 1301 AND 1400;
EXCEPTION WHEN division_by_zero THEN
	RAISE NOTICE '%', SQLERRM;
END
$$;
SELECT count(*) FROM generate_series(1301, 1400) i WHERE dedup_seen('f', i);
INSERT INTO t (k, v) SELECT k, 1 FROM source WHERE k BETWEEN 1301 AND 1400;
SELECT count(*) FROM t WHERE k BETWEEN 1301 AND 1400;
CREATE UNIQUE INDEX t_v ON t (v) WHERE v > 10;
INSERT INTO t (k, v) SELECT k, 20 + k % 50 FROM source WHERE k BETWEEN 1401 AND 1500 ON CONFLICT (v) WHERE v > 10 DO NOTHING;
SELECT count(*) FROM t WHERE k BETWEEN 1401 AND 1500;
SELECT count(*) FROM generate_series(1401, 1500) i WHERE dedup_seen('f', i);
INSERT INTO t (k, v) SELECT k, 20 + k % 50 FROM source WHERE k BETWEEN 1501 AND 1600 ON CONFLICT (v) WHERE v > 10 DO UPDATE SET k = excluded.k;
SELECT count(*) FROM t WHERE k BETWEEN 1401 AND 1600;
DROP INDEX t_v;

-- deleted rows come back; the right is used once each

BEGIN;
DELETE FROM t WHERE k BETWEEN 1 AND 500;
INSERT INTO t (k) SELECT k FROM source WHERE k <= 500 UNION ALL SELECT k FROM source WHERE k <= 500;
SELECT count(*), count(DISTINCT k) FROM t WHERE k <= 500;
ROLLBACK;

-- one statement that inserts into two guarded tables

CREATE TABLE second (k int);
SELECT dedup_create('g', dedup_filter(100000, 1e-6, 42)) \gset
SELECT dedup_guard('second', 'g', '{k}') \gset
WITH i AS (INSERT INTO t (k) SELECT k FROM source WHERE k BETWEEN 1601 AND 1700 RETURNING k)
INSERT INTO second SELECT k FROM i UNION ALL SELECT k FROM source WHERE k BETWEEN 1651 AND 1750;
SELECT count(*), (SELECT count(*) FROM t WHERE k BETWEEN 1601 AND 1700) FROM second;

-- ---- plans that are kept ----

SET plan_cache_mode = force_generic_plan;
PREPARE fill(int, int) AS INSERT INTO second SELECT k FROM source, generate_series(1, 20) WHERE k BETWEEN $1 AND $2;
SELECT node_of('EXECUTE fill(1, 100)');
EXECUTE fill(1, 100);
EXECUTE fill(51, 150);
SELECT count(*) FROM second WHERE k <= 150;
SELECT dedup_unguard('second') \gset
SELECT node_of('EXECUTE fill(1, 100)');
EXECUTE fill(1, 1);
SELECT count(*) FROM second WHERE k <= 150;
SELECT dedup_guard('second', 'g', '{k}') \gset
SELECT node_of('EXECUTE fill(1, 100)');
SET session_replication_role = replica;
EXECUTE fill(1, 100);
RESET session_replication_role;
SELECT count(*) FROM second WHERE k <= 150;
DROP TABLE g CASCADE;
EXECUTE fill(1, 1);

-- ---- tables of all kinds ----

-- Partitions: a guard on their parent; on one of them, of which the statement's table says nothing.

CREATE TABLE parted (v int, k int) PARTITION BY RANGE (v);
CREATE TABLE parted1 PARTITION OF parted FOR VALUES FROM (0) TO (10000);
CREATE TABLE parted2 (k int, dropped int, v int);
ALTER TABLE parted2 DROP dropped;
ALTER TABLE parted ATTACH PARTITION parted2 FOR VALUES FROM (10000) TO (30000);
SELECT dedup_create('p', dedup_filter(100000, 1e-6, 42)) \gset
SELECT dedup_guard('parted2', 'p', '{k}') \gset
SELECT node_of('INSERT INTO parted SELECT v, k FROM source');
INSERT INTO parted SELECT v, k / 2 FROM source;
SELECT tableoid::regclass, count(*), count(DISTINCT k) FROM parted GROUP BY 1 ORDER BY 1;
SELECT dedup_unguard('parted2') \gset
TRUNCATE parted, p;
SELECT dedup_guard('parted', 'p', '{k}') \gset
SELECT node_of('INSERT INTO parted SELECT v, k FROM source');
INSERT INTO parted SELECT v, k / 2 FROM source;
SELECT tableoid::regclass, count(*), count(DISTINCT k) FROM parted GROUP BY 1 ORDER BY 1;
INSERT INTO parted SELECT v * 2, k + 5000 FROM source;
SELECT count(*) FROM generate_series(5001, 7000) i WHERE dedup_seen('p', i);

-- Keys of several columns, long texts, columns that are dropped, generated or not given

CREATE TABLE wide (gone int, a text, b timestamptz, twice int GENERATED ALWAYS AS (c * 2) STORED, c int, note text);
ALTER TABLE wide DROP gone;
SELECT dedup_create('w', dedup_filter(100000, 1e-6, 42)) \gset
SELECT dedup_guard('wide', 'w', '{a, b, c}') \gset
CREATE TABLE texts AS
SELECT CASE WHEN i % 3 = 0 THEN repeat('long' || i / 2, 2000) WHEN i % 5 = 0 THEN NULL ELSE 'short' || i / 2 END AS a,
	timestamptz '2020-01-01 00:00+00' + i / 2 * interval '1 hour' AS b, i / 2 AS c
FROM generate_series(0, 599) i;
ALTER TABLE texts ALTER a SET STORAGE EXTERNAL;
INSERT INTO texts SELECT repeat(md5(i::text), 300), now(), i FROM generate_series(1, 20) i;
INSERT INTO texts SELECT * FROM texts ORDER BY c;
ANALYZE texts;
EXPLAIN (COSTS OFF, VERBOSE) INSERT INTO wide (a, b, c) SELECT * FROM texts;
INSERT INTO wide (a, b, c) SELECT * FROM texts;
SELECT count(*), count(a), count(DISTINCT (a, b, c)), (SELECT count(DISTINCT (a, b, c)) FROM texts WHERE a IS NOT NULL), bool_and(twice = c * 2) FROM wide WHERE a IS NOT NULL;
SELECT count(*), (SELECT count(*) FROM texts WHERE a IS NULL) FROM wide WHERE a IS NULL;

-- Wide rows: few are in hand at a time. All that could be would take some 65 MB.

CREATE TABLE documents (k int, body text);
SELECT dedup_create('d', dedup_filter(100000, 1e-6, 42)) \gset
SELECT dedup_guard('documents', 'd', '{k}') \gset
CREATE FUNCTION count_memory() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE mb numeric;
BEGIN
	IF current_setting('server_version_num')::int >= 140000 THEN
		EXECUTE 'SELECT sum(total_bytes) / 1048576 FROM pg_backend_memory_contexts' INTO mb;
		IF mb > 40 THEN
			RAISE '% MB at %', mb, NEW.k;
		END IF;
	END IF;
	RETURN CASE WHEN NEW.k % 10 = 0 THEN NEW END;
END
$$;
CREATE TRIGGER count_memory BEFORE INSERT ON documents FOR EACH ROW EXECUTE FUNCTION count_memory();
SELECT node_of('INSERT INTO documents SELECT i, repeat(i::text, 700000) FROM generate_series(100, 149) i');
INSERT INTO documents SELECT i, repeat(i::text, 700000) FROM generate_series(100, 149) i;
SELECT count(*), count(DISTINCT k), bool_and(length(body) = 2100000 AND left(body, 3) = k::text) FROM documents;

-- other nodes of ours below; sorts, joins, unions, sets and sub-selects

SELECT node_of('INSERT INTO t (k) SELECT k FROM (SELECT k, dedup_is_new(k) OVER (ORDER BY v) AS new FROM source) s WHERE new');
INSERT INTO t (k) SELECT 200000 + k FROM (SELECT k, dedup_is_new(k) OVER (ORDER BY v) AS new FROM source) s WHERE new;
SET streamdedup.approximate_distinct = on;
SELECT node_of('INSERT INTO t (k) SELECT DISTINCT k FROM source');
INSERT INTO t (k) SELECT DISTINCT 300000 + k / 2 FROM source;
RESET streamdedup.approximate_distinct;
INSERT INTO t (k, v) SELECT 400000 + a.k, count(*) FROM source a LEFT JOIN source b ON b.k = a.v GROUP BY a.k ORDER BY a.k DESC LIMIT 1500;
INSERT INTO t (k) SELECT 500000 + k FROM source EXCEPT SELECT 500000 + v FROM source;
INSERT INTO t (k) SELECT 600000 + generate_series(k, k + 3) FROM source;
INSERT INTO t (k) SELECT 700000 + k FROM source s WHERE EXISTS (SELECT FROM source WHERE v = s.k) OR (SELECT max(v) FROM source) > 20000 - s.k;
SELECT k / 100000 AS of, count(*), count(DISTINCT k), bool_and(id IS NOT NULL) FROM t WHERE k >= 200000 GROUP BY 1 ORDER BY 1;

-- savepoints, policies, and numbers of rows around those that are in hand

BEGIN;
SAVEPOINT a;
INSERT INTO t (k) SELECT 800000 + k FROM source;
ROLLBACK TO a;
INSERT INTO t (k) SELECT 800000 + k FROM source WHERE k <= 1000;
RELEASE a;
COMMIT;
SELECT count(*) FROM t WHERE k >= 800000;
SELECT count(*) FROM generate_series(800001, 802000) i WHERE dedup_seen('f', i);
CREATE ROLE regress_read_ahead;
GRANT USAGE ON SCHEMA guard_read_ahead TO regress_read_ahead;
GRANT ALL ON ALL TABLES IN SCHEMA guard_read_ahead TO regress_read_ahead;
GRANT ALL ON ALL SEQUENCES IN SCHEMA guard_read_ahead TO regress_read_ahead;
ALTER TABLE t ENABLE ROW LEVEL SECURITY;
CREATE POLICY most ON t USING (true) WITH CHECK (k <> 801500);
SET ROLE regress_read_ahead;
INSERT INTO t (k) SELECT 800000 + k FROM source;
INSERT INTO t (k) SELECT 800000 + k FROM source WHERE k <> 1500;
SELECT count(*) FROM t WHERE k >= 800000;
RESET ROLE;
SELECT count(*) FROM generate_series(800001, 802000) i WHERE dedup_seen('f', i);
DROP POLICY most ON t;
REVOKE ALL ON ALL TABLES IN SCHEMA guard_read_ahead FROM regress_read_ahead;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA guard_read_ahead FROM regress_read_ahead;
REVOKE USAGE ON SCHEMA guard_read_ahead FROM regress_read_ahead;
DROP ROLE regress_read_ahead;
ALTER TABLE t DISABLE ROW LEVEL SECURITY;
TRUNCATE t, f;
DO $$
DECLARE
	landed bigint;
BEGIN
	FOR n IN 30..70 LOOP
		EXECUTE format('INSERT INTO t (k) SELECT %s + i FROM generate_series(1, (SELECT %s)) i', n * 1000, n);
		GET DIAGNOSTICS landed = ROW_COUNT;
		IF landed <> n THEN
			RAISE '% of % rows', landed, n;
		END IF;
	END LOOP;
END
$$;
SELECT count(*) FROM t;

-- the input's rows counted: as many as the node's

CREATE FUNCTION rows_of(statement text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF, ANALYZE, TIMING OFF, SUMMARY OFF, BUFFERS OFF) ' || statement LOOP
		IF line LIKE '%rows=%' THEN
			RETURN NEXT substring(line from '-> +(.*)\)$');
		END IF;
	END LOOP;
END
$$;
SELECT regexp_replace(rows_of, 'rows=(\d+)(\.00)?', 'rows=\1') FROM rows_of('INSERT INTO wide (a, b, c) SELECT * FROM texts') WHERE rows_of IS NOT NULL;

\set VERBOSITY terse
SET client_min_messages = warning;
DROP SCHEMA guard_read_ahead CASCADE;
