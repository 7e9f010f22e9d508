-- dedup_rebuild(): fills the filter again from the rows of its tables, in the same size or another.

CREATE SCHEMA rebuild;
SET search_path = rebuild, public;

-- how many of the rows' keys the filter has, and how many of as many others

CREATE FUNCTION known(filter regclass, rows regclass, OUT has bigint, OUT misses bigint, OUT others bigint) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('SELECT count(*) FILTER (WHERE public.dedup_seen(%L::regclass, k)),
		count(*) FILTER (WHERE NOT public.dedup_seen(%1$L::regclass, k)),
		count(*) FILTER (WHERE public.dedup_seen(%1$L::regclass, k + 1000000)) FROM %s', filter, rows) INTO has, misses, others;
END $$;

-- deleted rows' keys go, others stay; nothing of the work is left, and the relation is the same

SELECT dedup_create('f', dedup_filter(20000, 1e-6, 1));
CREATE TABLE t (k int, v text);
CREATE INDEX ON t (k);
INSERT INTO t SELECT i FROM generate_series(1, 3000) i;
SELECT dedup_guard('t', 'f', '{k}', exact => true);
DELETE FROM t WHERE k > 2000;
INSERT INTO t SELECT 5;
SELECT dedup_seen('f', 2500) AS before;
SELECT 'f'::regclass::oid AS oid, relfilenode AS file FROM pg_class WHERE oid = 'f'::regclass \gset
SELECT dedup_rebuild('f');
SELECT * FROM known('f', 't');
SELECT dedup_seen('f', 2500) AS after;
SELECT keys, fpr, seed, new, skipped, checked_found, count, in_flight FROM dedup_stats('f');
SELECT * FROM dedup_check('f');
SELECT oid = :oid AS same, relfilenode <> :file AS file, pg_relation_size('f') > 0 AS size FROM pg_class WHERE oid = 'f'::regclass;
SELECT count(*) FROM pg_class WHERE relname LIKE 'pg_temp_%' AND relnamespace = 'rebuild'::regnamespace;
SELECT count(*) FROM pg_type WHERE typname LIKE '%pg_temp_%' AND typnamespace = 'rebuild'::regnamespace;
INSERT INTO t VALUES (5), (2500), (2500) RETURNING k;

-- larger: seed and counts stay, and so does what the catalog knows of the relation

COMMENT ON TABLE f IS 'what was seen';
CREATE ROLE regress_rebuild;
GRANT SELECT ON f TO regress_rebuild;
SELECT dedup_rebuild('f', dedup_filter(200000, 1e-5));
SELECT keys, fpr, seed, new, skipped, checked_found, count, in_flight FROM dedup_stats('f');
SELECT * FROM known('f', 't');
SELECT * FROM dedup_check('f');
SELECT obj_description('f'::regclass, 'pg_class') AS comment, relacl IS NOT NULL AS granted,
	(SELECT count(*) FROM pg_trigger WHERE tgrelid = c.oid) AS triggers, (SELECT count(*) FROM pg_constraint WHERE conrelid = c.oid AND contype = 'c') AS checks
FROM pg_class c WHERE oid = 'f'::regclass;
INSERT INTO t VALUES (5), (2500), (2501), (2501) RETURNING k;
SELECT filter, exact, problem FROM dedup_guards WHERE "table" = 't'::regclass;

-- a seed of its own

BEGIN;
SELECT dedup_rebuild('f', dedup_filter(200000, 1e-5, 77));
SELECT seed, count FROM dedup_stats('f');
SELECT * FROM known('f', 't');
ROLLBACK;
SELECT seed, count FROM dedup_stats('f');

-- smaller than its keys: it overflows, loses none, and says so once; larger again

SELECT dedup_rebuild('f', dedup_filter(500, 0.01));
SELECT keys, fpr, new > 1900 AS new, overfull FROM dedup_stats('f');
SELECT has, misses FROM known('f', 't');
SELECT * FROM dedup_check('f');
INSERT INTO t VALUES (5), (2600), (2600) RETURNING k;
SELECT dedup_rebuild('f', dedup_filter(20000, 1e-6));
SELECT keys, new, overfull, overflow_pages FROM dedup_stats('f');
INSERT INTO t VALUES (5), (2700) RETURNING k;

-- rolled back: the old file, the old parameters

SELECT relfilenode AS file FROM pg_class WHERE oid = 'f'::regclass \gset
BEGIN;
INSERT INTO t VALUES (2800);
SAVEPOINT a;
INSERT INTO t VALUES (2801);
SELECT dedup_rebuild('f', dedup_filter(50000, 1e-6));
INSERT INTO t VALUES (2802), (2801), (2800) RETURNING k;
SELECT keys, count + in_flight AS has FROM dedup_stats('f');
ROLLBACK TO a;
SELECT keys FROM dedup_stats('f');
INSERT INTO t VALUES (2800), (2801), (2802) RETURNING k;
SAVEPOINT b;
SELECT dedup_rebuild('f');
RELEASE b;
INSERT INTO t VALUES (2800), (2803) RETURNING k;
SAVEPOINT c;
INSERT INTO t VALUES (2804);
ROLLBACK TO c;
INSERT INTO t VALUES (2801), (2804) RETURNING k;
COMMIT;
SELECT new, in_flight FROM dedup_stats('f');
SELECT * FROM known('f', 't');
SELECT count(*) AS rows FROM t;
BEGIN;
SELECT dedup_rebuild('f', dedup_filter(50000, 1e-6));
ROLLBACK;
INSERT INTO t VALUES (2801), (2805) RETURNING k;

-- twice in a transaction, and after TRUNCATE

BEGIN;
SELECT dedup_rebuild('f', dedup_filter(50000, 1e-6));
SELECT dedup_rebuild('f', dedup_filter(30000, 1e-6));
INSERT INTO t VALUES (2801), (2806) RETURNING k;
COMMIT;
SELECT keys, new, in_flight FROM dedup_stats('f');
BEGIN;
TRUNCATE t, f;
INSERT INTO t SELECT i FROM generate_series(1, 1000) i;
SELECT dedup_rebuild('f');
INSERT INTO t VALUES (7), (1001) RETURNING k;
COMMIT;
SELECT * FROM known('f', 't');
INSERT INTO t VALUES (7), (2801) RETURNING k;

-- REPEATABLE READ, whose snapshot does not show all rows

BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM t;
SELECT dedup_rebuild('f');
INSERT INTO t VALUES (7), (1002) RETURNING k;
COMMIT;

-- a filter that is unlogged stays so

SELECT dedup_create('uf', dedup_filter(20000, 1e-6, 1), unlogged => true);
CREATE UNLOGGED TABLE u (k int);
CREATE INDEX ON u (k);
INSERT INTO u SELECT i FROM generate_series(1, 100) i;
SELECT dedup_guard('u', 'uf', '{k}', exact => true);
SELECT dedup_rebuild('uf', dedup_filter(40000, 1e-6));
SELECT relpersistence FROM pg_class WHERE oid = 'uf'::regclass;
SELECT keys, logged FROM dedup_stats('uf');
SELECT * FROM known('uf', 'u');

-- partitions, keys with NULLs, marked rows

SELECT dedup_create('pf', dedup_filter(20000, 1e-6, 1));
CREATE TABLE p (k int, d int, is_duplicate boolean) PARTITION BY RANGE (d);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (1) TO (2);
CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (2) TO (4) PARTITION BY LIST (d);
CREATE TABLE p2a PARTITION OF p2 FOR VALUES IN (2);
CREATE TABLE p2b PARTITION OF p2 FOR VALUES IN (3);
CREATE INDEX ON p (k);
SELECT dedup_guard('p', 'pf', '{k}', 'mark', exact => true);
INSERT INTO p SELECT i, i % 3 + 1 FROM generate_series(1, 999) i;
INSERT INTO p SELECT i, 1 FROM generate_series(1, 99) i;
INSERT INTO p VALUES (NULL, 1), (NULL, 2);
ALTER TABLE p DISABLE TRIGGER USER;
DELETE FROM p WHERE k <= 10 AND is_duplicate IS NOT TRUE;
ALTER TABLE p ENABLE TRIGGER USER;
SELECT dedup_rebuild('pf', dedup_filter(40000, 1e-6));
SELECT new FROM dedup_stats('pf');
SELECT count(*) FROM generate_series(1, 10) i WHERE dedup_seen('pf', i);
INSERT INTO p VALUES (5, 3), (11, 3) RETURNING k, is_duplicate;

-- rows with equal keys

BEGIN;
ALTER TABLE t DISABLE TRIGGER USER;
INSERT INTO t VALUES (7);
ALTER TABLE t ENABLE TRIGGER USER;
SELECT dedup_rebuild('f', dedup_filter(50000, 1e-6));
ROLLBACK;

-- what it refuses: prototypes of another kind, what is no prototype

SELECT dedup_rebuild('f', dedup_window(1000));
SELECT dedup_rebuild('f', dedup_agg(dedup_filter(1000), 1));
SELECT dedup_rebuild('f', dedup_method('exaloglog', '1 kB'));
SELECT dedup_rebuild('f', dedup_filter(1000000000000));
SELECT keys FROM dedup_stats('f');

-- a ledger, a filter that guards nothing

SELECT dedup_create('lf', dedup_filter(20000, 1e-6, 1));
SELECT dedup_rebuild('lf');
CREATE TABLE l (k int);
SELECT dedup_guard('l', 'lf', '{k}');
SELECT dedup_rebuild('lf');
SELECT dedup_rebuild('lf', dedup_filter(50000, 1e-6));

-- who owns the table alone, or the filter alone

GRANT USAGE, CREATE ON SCHEMA rebuild TO regress_rebuild;
GRANT INSERT ON f TO regress_rebuild;
ALTER TABLE t OWNER TO regress_rebuild;
SET ROLE regress_rebuild;
SELECT dedup_rebuild('f');
SELECT dedup_rebuild('f', dedup_filter(70000, 1e-6));
RESET ROLE;
SELECT relowner::regrole = CURRENT_USER::regrole AS same_owner FROM pg_class WHERE oid = 'f'::regclass;
REVOKE INSERT ON f FROM regress_rebuild;
SET ROLE regress_rebuild;
SELECT dedup_rebuild('f');
RESET ROLE;
GRANT INSERT ON f TO regress_rebuild;
ALTER TABLE f OWNER TO regress_rebuild;
ALTER TABLE t OWNER TO CURRENT_USER;
SET ROLE regress_rebuild;
SELECT dedup_rebuild('f');
RESET ROLE;
ALTER TABLE t OWNER TO regress_rebuild;
CREATE ROLE regress_rebuild_member IN ROLE regress_rebuild;
SET ROLE regress_rebuild_member;
SELECT dedup_rebuild('f', dedup_filter(60000, 1e-6));
RESET ROLE;
SELECT keys FROM dedup_stats('f');
SELECT relowner::regrole FROM pg_class WHERE oid = 'f'::regclass;

-- of a filter that forgets, which may have keys of others, the owner alone; and what the HINT of an exact guard that does not
-- cover its table says works for whoever reads it

SELECT dedup_create('of', dedup_filter(20000, 1e-6, 1)), dedup_create('oe', dedup_filter(20000, 1e-6, 1));
CREATE TABLE o (k int);
CREATE TABLE e (k int);
CREATE INDEX ON e (k);
GRANT SELECT, INSERT ON of, oe TO regress_rebuild;
ALTER TABLE o OWNER TO regress_rebuild;
ALTER TABLE e OWNER TO regress_rebuild;
SET ROLE regress_rebuild;
SELECT dedup_guard('o', 'of', '{k}', on_delete => 'forget');
SELECT dedup_guard('e', 'oe', '{k}', exact => true);
INSERT INTO e VALUES (1), (2);
DROP INDEX e_dedup_guard;
CREATE INDEX ON e USING streamdedup_guard (k);
INSERT INTO e VALUES (3);
SELECT dedup_rebuild('oe');
INSERT INTO e VALUES (2), (3) RETURNING k;
SELECT dedup_rebuild('of');
RESET ROLE;
SELECT dedup_rebuild('of');

-- windows of time: rows that are too old are passed over, the newest row of a key counts; exact

SELECT dedup_create('tx', dedup_window(2000, 1e-6, 1), '10 days');
CREATE TABLE x (k int, at timestamptz, v text);
CREATE INDEX ON x (k);
INSERT INTO x SELECT i, now() - interval '1 hour' * i FROM generate_series(1, 600) i;
SELECT dedup_guard('x', 'tx', '{k}', exact => true, at => 'at');
DELETE FROM x WHERE k BETWEEN 1 AND 50;
INSERT INTO x SELECT 60, now() - interval '10 days' - interval '1 hour' * 60, 'older';
SELECT dedup_seen('tx', 10) AS before;
SELECT dedup_rebuild('tx', dedup_window(4000, 1e-6));
SELECT keys, ttl, dedup_seen('tx', 10) AS after FROM dedup_stats('tx');
SELECT count(*) AS rows, count(*) FILTER (WHERE dedup_seen('tx', k)) AS seen FROM x WHERE at > now() - interval '9 days';
SELECT count(*) FILTER (WHERE dedup_seen('tx', k)) AS seen_of_too_old FROM x WHERE at < now() - interval '12 days' AND k <> 60;
SELECT * FROM dedup_check('tx');
WITH i AS (INSERT INTO x SELECT k, at FROM x RETURNING k) SELECT count(*) AS again FROM i;
WITH i AS (INSERT INTO x SELECT k, now() FROM x WHERE k IN (100, 200, 300, 400) RETURNING k) SELECT array_agg(k ORDER BY k) AS now FROM i;
WITH i AS (INSERT INTO x SELECT k, at - interval '9 days' FROM x WHERE k IN (500, 550) RETURNING k) SELECT count(*) AS late_duplicates FROM i;
WITH i AS (INSERT INTO x SELECT k, at - interval '10 days' FROM x WHERE k IN (500, 550) RETURNING k) SELECT count(*) AS late FROM i;
INSERT INTO x VALUES (10, now()), (10, now());
SELECT "table", problem FROM dedup_guards WHERE "table" = 'x'::regclass;
SELECT dedup_rebuild('tx', dedup_filter(4000));
SELECT dedup_rebuild('tx');
-- rows with equal keys, whose times are near, or not
BEGIN;
ALTER TABLE x DISABLE TRIGGER USER;
INSERT INTO x VALUES (10, now() - interval '10 days 1 second'), (11, now());
ALTER TABLE x ENABLE TRIGGER USER;
SELECT dedup_rebuild('tx');
ALTER TABLE x DISABLE TRIGGER USER;
INSERT INTO x VALUES (11, now() - interval '1 day');
ALTER TABLE x ENABLE TRIGGER USER;
SELECT dedup_rebuild('tx');
ROLLBACK;

-- forgetting, with rows that have the same key, or no time

SELECT dedup_create('tf', dedup_window(2000, 1e-6, 1), '10 days');
CREATE TABLE y (k int, at timestamptz);
INSERT INTO y VALUES (1, now() - interval '9 days'), (1, now() - interval '1 day'), (2, now() - interval '30 days'), (3, NULL), (4, now() + interval '20 days'), (5, now());
SELECT dedup_guard('y', 'tf', '{k}', on_delete => 'forget', at => 'at', load => true);
SELECT dedup_rebuild('tf');
SELECT k, dedup_seen('tf', k) FROM generate_series(1, 6) k;
SELECT new FROM dedup_stats('tf');
-- the newest row of key 1 counts
SELECT k, is_new_at('tf', now() + interval '4 days', k) FROM generate_series(1, 3) k;

-- without times, or counted from the last sight, it is not known

SELECT dedup_create('tn', dedup_window(2000), '10 days'), dedup_create('tr', dedup_window(2000), '10 days', renew => true), dedup_create('tc', dedup_window(2000));
CREATE TABLE n (k int, at timestamptz);
SELECT dedup_guard('n', 'tn', '{k}', on_delete => 'forget');
SELECT dedup_rebuild('tn');
SELECT dedup_unguard('n');
SELECT dedup_guard('n', 'tr', '{k}', on_delete => 'forget', at => 'at');
SELECT dedup_rebuild('tr');
SELECT dedup_unguard('n');
SELECT dedup_guard('n', 'tc', '{k}', on_delete => 'forget');
SELECT dedup_rebuild('tc');

-- in use: by a cursor over the filter, by a query of the table that calls it

BEGIN;
DECLARE reading CURSOR FOR SELECT block FROM f;
FETCH reading \gset
SELECT dedup_rebuild('f');
ROLLBACK;
SELECT dedup_rebuild('f') FROM t LIMIT 1;

-- DDL of the user's event triggers is not called

CREATE FUNCTION noted() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE '% %', tg_event, tg_tag; END $$;
CREATE EVENT TRIGGER noted ON ddl_command_end EXECUTE FUNCTION noted();
CREATE EVENT TRIGGER noted_drop ON sql_drop EXECUTE FUNCTION noted();
SELECT dedup_rebuild('f');
DROP EVENT TRIGGER noted;
DROP EVENT TRIGGER noted_drop;

-- the old DEFAULT cannot be changed by hand, nor the new one

ALTER TABLE f ALTER page DROP DEFAULT;

SET client_min_messages = warning;
DROP SCHEMA rebuild CASCADE;
DROP ROLE regress_rebuild_member, regress_rebuild;
