-- Filters are equal if their canonical bytes are: for DISTINCT, GROUP BY, set operations, joins, indexes and rows.
-- Their order is that of the bytes, and has no other meaning.

\set QUIET on
CREATE SCHEMA feq_test;
SET search_path = feq_test, public;
SET max_parallel_workers_per_gather = 0;
CREATE TABLE days (day date, f dedup_filter);
INSERT INTO days SELECT '2025-01-01', dedup_agg(i) FROM generate_series(1, 10) i;
INSERT INTO days SELECT * FROM days;
INSERT INTO days SELECT '2025-01-02', dedup_agg(i) FROM generate_series(5, 20) i;
INSERT INTO days VALUES ('2025-01-03', NULL), ('2025-01-03', NULL);
\set QUIET off

-- what SQL does with an equality

SELECT count(*) FROM (SELECT DISTINCT * FROM days) d;
SELECT count(*) FROM (SELECT f FROM days UNION SELECT f FROM days) d;
SELECT count(*) FROM (SELECT f FROM days INTERSECT ALL SELECT f FROM days) d;
SELECT count(*) FROM (SELECT f FROM days EXCEPT SELECT f FROM days WHERE day = '2025-01-01') d;
SELECT day, dedup_count(f), count(*) FROM days GROUP BY day, f ORDER BY day;
SELECT day, dedup_count(f), count(*) OVER (PARTITION BY f), dense_rank() OVER (PARTITION BY day ORDER BY f) FROM days ORDER BY day;
SELECT count(*) FROM (SELECT DISTINCT ON (f) f, day FROM days ORDER BY f, day) d;
SELECT dedup_count(dedup_merge_agg(DISTINCT f)) AS merged, count(DISTINCT f) AS filters, approx_count_distinct(f) AS about FROM days;
SELECT dedup_count(dedup_agg(DISTINCT dedup_filter(10), i % 3)) FROM generate_series(1, 9) i;
SELECT dedup_count(dedup_agg(DISTINCT i % 3)) FROM generate_series(1, 9) i;
SELECT a.f = b.f AS equal, a.f <> b.f AS differ, a.f IS DISTINCT FROM b.f AS is_distinct, a IS NOT DISTINCT FROM b AS same_row,
	(a.day, a.f) = (b.day, b.f) AS row, ARRAY[a.f] = ARRAY[b.f] AS in_array, a.f IN (b.f, NULL) AS "in", NULLIF(a.f, b.f) IS NULL AS nullif
FROM (SELECT * FROM days WHERE day = '2025-01-01' LIMIT 1) a, (SELECT DISTINCT * FROM days) b ORDER BY b.day;

-- equal however they are stored: short, flat, compressed, out of line, in memory only

CREATE TABLE shapes (how text, f dedup_filter);
ALTER TABLE shapes ALTER f SET STORAGE extended;
CREATE TABLE sets AS SELECT n, dedup_agg(dedup_filter(100000), i) AS f, dedup_agg(dedup_filter(100000), i) || dedup_filter(100000) AS again
	FROM unnest('{0,1,30,500,50000}'::int[]) n LEFT JOIN LATERAL generate_series(1, n) i ON true GROUP BY n;
CREATE FUNCTION in_memory(n int) RETURNS dedup_filter LANGUAGE plpgsql AS $$
DECLARE
	f dedup_filter := dedup_filter(100000);
BEGIN
	FOR i IN 1..n LOOP f := dedup_add(f, i); END LOOP;
	RETURN f;
END $$;
INSERT INTO sets SELECT 1200, f, f || dedup_method('count_min', '16kB') FROM (SELECT dedup_agg(dedup_method('count_min', '16kB'), i) AS f FROM generate_series(1, 1200) i) x;
INSERT INTO shapes SELECT 'extended', f FROM sets;
SELECT count(*) FILTER (WHERE size < 127) AS short, count(*) FILTER (WHERE size BETWEEN 127 AND 2000) AS flat,
	count(*) FILTER (WHERE size > 2000 AND size >= plain) AS out_of_line, count(*) FILTER (WHERE size < plain - 100) AS compressed
FROM (SELECT pg_column_size(f) AS size, octet_length(f::bytea) AS plain FROM shapes) s;
SELECT count(*) AS pairs, bool_and((a.f = b.f) = (a.f::bytea = b.f::bytea)) AS eq, bool_and((a.f < b.f) = (a.f::bytea < b.f::bytea)) AS lt,
	bool_and((a.f >= b.f) = (a.f::bytea >= b.f::bytea)) AS ge, bool_and(sign(dedup_filter_cmp(a.f, b.f)) = sign(byteacmp(a.f::bytea, b.f::bytea))) AS cmp,
	bool_and(a.f <> b.f OR dedup_filter_hash(a.f) = dedup_filter_hash(b.f) AND dedup_filter_hash_extended(a.f, 7) = dedup_filter_hash_extended(b.f, 7)) AS hash,
	bool_and((dedup_filter_hash_extended(a.f, 0) & 4294967295) = (dedup_filter_hash(a.f)::bigint & 4294967295)) AS low_bits,
	count(*) FILTER (WHERE a.f = b.f) AS equal
FROM (SELECT f FROM sets UNION ALL SELECT again FROM sets UNION ALL SELECT f FROM shapes UNION ALL SELECT in_memory(n) FROM sets WHERE n < 1000) a,
	(SELECT f FROM sets UNION ALL SELECT again FROM sets UNION ALL SELECT f FROM shapes UNION ALL SELECT in_memory(n) FROM sets WHERE n < 1000) b;
-- the state of an aggregate, which is not in its canonical form yet
CREATE AGGREGATE unfinished(VARIADIC "any") (SFUNC = dedup_agg_trans, STYPE = dedup_filter);
SELECT unfinished(i) = dedup_agg(i) AS equal, unfinished(i) < dedup_agg(i) AS less, unfinished(i) = dedup_agg(i, 1) AS another,
	dedup_filter_hash(unfinished(i)) = dedup_filter_hash(dedup_agg(i)) AS hash FROM generate_series(1, 1000) i;
DO $$
DECLARE
	f dedup_filter := dedup_filter(1000);
	g dedup_filter := dedup_filter(1000);
BEGIN
	FOR i IN 1..500 LOOP
		f := dedup_add(f, i);
		g := dedup_add(g, i);
		IF f <> g OR dedup_filter_hash(f) <> dedup_filter_hash(g) THEN RAISE 'differ at %', i; END IF;
		IF f = dedup_add(g, i + 1) THEN RAISE 'equal at %', i; END IF;
	END LOOP;
END $$;

-- every kind of plan

\set QUIET on
CREATE TABLE many AS SELECT i, dedup_add(dedup_filter(100), i % 500) AS f FROM generate_series(1, 2000) i;
ANALYZE many;
CREATE FUNCTION node(query text, wanted text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	line text;
	plan text := '';
	n bigint;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP plan := plan || line || E'\n'; END LOOP;
	IF plan !~ wanted THEN RAISE WARNING 'no %: %', wanted, plan; END IF;
	EXECUTE 'SELECT count(*) FROM (' || query || ') q' INTO n;
	RETURN n;
END $$;
\set QUIET off
SELECT node('SELECT DISTINCT f FROM many', 'HashAggregate');
SET enable_hashagg = off;
SELECT node('SELECT DISTINCT f FROM many', 'Unique');
RESET enable_hashagg;
SET enable_mergejoin = off; SET enable_nestloop = off;
SELECT node('SELECT 1 FROM many a JOIN many b USING (f)', 'Hash Join');
SET enable_mergejoin = on; SET enable_hashjoin = off;
SELECT node('SELECT 1 FROM many a JOIN many b USING (f)', 'Merge Join');
RESET enable_hashjoin; RESET enable_nestloop; RESET enable_mergejoin;
CREATE INDEX many_btree ON many (f);
CREATE INDEX many_hash ON many USING hash (f);
SET enable_seqscan = off; SET enable_bitmapscan = off;
SELECT node($$SELECT f FROM many WHERE f = dedup_add(dedup_filter(100), 7)$$, 'Index.*Scan');
DROP INDEX many_hash;
SELECT node($$SELECT f FROM many WHERE f = dedup_add(dedup_filter(100), 7)$$, 'many_btree');
SELECT node($$SELECT f FROM many ORDER BY f$$, 'many_btree');
RESET enable_seqscan; RESET enable_bitmapscan;
SELECT bool_and(f >= before) AS sorted, count(*) FILTER (WHERE f::bytea < before::bytea) AS not_as_bytea
FROM (SELECT f, lag(f) OVER (ORDER BY f) AS before FROM many) s;
SELECT dedup_approximate_distinct(true);
SELECT node('SELECT DISTINCT f FROM many', 'ApproximateDistinct'), count(DISTINCT f) FROM many;
SELECT node('SELECT DISTINCT f, i % 2 FROM many', 'ApproximateDistinct');
SELECT dedup_approximate_distinct(false);

-- constraints

CREATE TABLE keyed (f dedup_filter PRIMARY KEY, n int);
INSERT INTO keyed SELECT dedup_add(dedup_filter(100), i), i FROM generate_series(1, 100) i;
\set VERBOSITY sqlstate
INSERT INTO keyed SELECT dedup_add(dedup_filter(100), 7), 7;
\set VERBOSITY default
INSERT INTO keyed SELECT dedup_add(dedup_filter(100), 7), 107 ON CONFLICT (f) DO UPDATE SET n = excluded.n;
SELECT n FROM keyed WHERE f = dedup_add(dedup_filter(100), 7);
CREATE TABLE parts (f dedup_filter) PARTITION BY HASH (f);
CREATE TABLE parts0 PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE parts1 PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO parts SELECT f FROM many;
SELECT (SELECT count(*) FROM parts0) > 0 AS some, (SELECT count(*) FROM parts1) > 0 AS others, count(DISTINCT f) FROM parts;
-- a row that does not change is left as it is
CREATE TRIGGER t BEFORE UPDATE ON days FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION suppress_redundant_updates_trigger();
WITH u AS (UPDATE days SET day = day RETURNING 1) SELECT count(*) FROM u;

-- the operators are found by their classes with an empty search path, wherever the
-- extension is
SET search_path = '';
SELECT count(*) FROM (SELECT DISTINCT f FROM feq_test.days) d;
SELECT count(*) FROM (SELECT d FROM feq_test.days d UNION SELECT d FROM feq_test.days d) d;
ANALYZE feq_test.days;
BEGIN;
CREATE SCHEMA elsewhere;
ALTER EXTENSION streamdedup SET SCHEMA elsewhere;
SELECT count(*) FROM (SELECT DISTINCT f FROM feq_test.days) d;
SELECT f OPERATOR(elsewhere.=) f AS same FROM feq_test.days LIMIT 1;
ROLLBACK;
SET search_path = feq_test, public;

-- what the catalog says

SELECT o.oprname, o.oprcanhash AS hashes, o.oprcanmerge AS merges, c.oprname AS commutator, n.oprname AS negator, o.oprrest, o.oprjoin,
	p.proisstrict AND p.provolatile = 'i' AND p.proparallel = 's' AS marks, obj_description(o.oid, 'pg_operator') IS NOT NULL AS comment
FROM pg_operator o JOIN pg_operator c ON c.oid = o.oprcom JOIN pg_operator n ON n.oid = o.oprnegate JOIN pg_proc p ON p.oid = o.oprcode
WHERE o.oprleft = 'dedup_filter'::regtype AND o.oprname <> '||' ORDER BY 1;
SELECT amname, opcname, opcdefault, amvalidate(c.oid) FROM pg_opclass c JOIN pg_am a ON a.oid = opcmethod
WHERE opcintype = 'dedup_filter'::regtype ORDER BY 1;

-- Filters as keys: as a column of something, but not alone, where a merge was meant or the
-- key forgotten.

\set VERBOSITY terse
SELECT dedup_add(dedup_filter(10), dedup_filter(10));
SELECT dedup_contains(f, f) FROM days;
SELECT dedup_agg(f) FROM days;
SELECT dedup_agg(dedup_filter(100), f) FROM days;
SELECT dedup_add_all(dedup_filter(10), array_agg(f)) FROM days;
\set VERBOSITY default
SELECT dedup_agg(f) FROM days;
SELECT dedup_count(dedup_agg(f::bytea)) AS as_bytes, dedup_count(dedup_agg(day, f)) AS a_column, dedup_count(dedup_agg(ROW(f))) AS in_row,
	dedup_count(dedup_agg(ARRAY[f])) AS in_array FROM days;
SELECT count(*) FROM dedup_rows('SELECT * FROM days', 'f') AS (day date, f dedup_filter);
SELECT count(*) FILTER (WHERE n) FROM (SELECT dedup_is_new(f) OVER () AS n FROM days) w;
SELECT dedup_create('of_filters', dedup_window(100));
SELECT is_new('of_filters', f) AS new, count(*) FROM days GROUP BY 1 ORDER BY 1;
CREATE TABLE guarded (f dedup_filter);
SELECT dedup_create('of_guard', dedup_window(100));
SELECT dedup_guard('guarded', 'of_guard', ARRAY['f']);
INSERT INTO guarded SELECT f FROM days;
SELECT count(*), count(f) FROM guarded;

\set QUIET on
SET client_min_messages = warning;
SELECT dedup_unguard('guarded') \g /dev/null
DROP SCHEMA feq_test CASCADE;
