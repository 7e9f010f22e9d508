-- SELECT DISTINCT under streamdedup.approximate_distinct: which queries are planned through a filter, and that each
-- returns the exact result. While a filter is exact, so is its result. After that, the rows that it loses are tested
-- against its rate.
LOAD 'streamdedup';
-- before any temporary table; see below
SET temp_buffers = 100;
-- From 17 on every scan reads ahead, and holds on to those pages as well.
DO $$ BEGIN
	IF current_setting('server_version_num')::int >= 170000 THEN
		PERFORM set_config('io_combine_limit', '1', false), set_config('effective_io_concurrency', '1', false);
	END IF;
END $$;
SET max_parallel_workers_per_gather = 0;
SET jit = off;

CREATE TABLE click (id int, usr bigint, ad text, at timestamptz, price numeric);
INSERT INTO click
SELECT i, CASE WHEN i % 50 = 0 THEN NULL ELSE (i::bigint * 7919) % 3001 END, 'ad ' || i % 17,
	'2026-01-01'::timestamptz + i % 101 * interval '1 minute', (i % 29)::numeric / 4
FROM generate_series(1, 20000) i;
CREATE TABLE few AS SELECT i % 10 AS a FROM generate_series(1, 500) i;
ANALYZE click, few;

-- Whether a query's plan has our node.
CREATE FUNCTION filtered(query text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		IF line LIKE '%Custom Scan (ApproximateDistinct)%' THEN RETURN true; END IF;
	END LOOP;
	RETURN false;
END $$;

-- Runs a query with the setting off and on: how many rows, and how many rows are in one
-- of the two results only, counting copies.
CREATE FUNCTION compared(query text, OUT filter boolean, OUT rows bigint, OUT differ bigint)
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('client_min_messages', 'warning', true);
	DROP TABLE IF EXISTS pg_temp.exact, pg_temp.approx;
	SET LOCAL streamdedup.approximate_distinct = off;
	EXECUTE 'CREATE TEMP TABLE exact AS SELECT q::text AS r FROM (' || query || ') q';
	SET LOCAL streamdedup.approximate_distinct = on;
	filter := filtered(query);
	EXECUTE 'CREATE TEMP TABLE approx AS SELECT q::text AS r FROM (' || query || ') q';
	SET LOCAL streamdedup.approximate_distinct = off;
	SELECT count(*) INTO rows FROM exact;
	SELECT count(*) INTO differ FROM (
		(SELECT r, count(*) FROM exact GROUP BY r EXCEPT SELECT r, count(*) FROM approx GROUP BY r)
		UNION ALL
		(SELECT r, count(*) FROM approx GROUP BY r EXCEPT SELECT r, count(*) FROM exact GROUP BY r)) d;
	SET LOCAL streamdedup.approximate_distinct = on;
END $$;

-- off by default
SHOW streamdedup.approximate_distinct;
SELECT filtered('SELECT DISTINCT usr FROM click');
SET streamdedup.approximate_distinct = on;

-- plans
EXPLAIN (COSTS OFF) SELECT DISTINCT usr FROM click;
EXPLAIN (COSTS OFF, VERBOSE) SELECT DISTINCT usr, ad FROM click;
EXPLAIN (COSTS OFF, VERBOSE) SELECT DISTINCT usr + 1 AS next, ad FROM click;
EXPLAIN (COSTS OFF) SELECT DISTINCT ON (usr) usr, ad FROM click;
EXPLAIN (COSTS OFF) SELECT DISTINCT usr FROM click ORDER BY usr LIMIT 3;
EXPLAIN (COSTS OFF) SELECT DISTINCT ON (usr) usr, ad FROM click ORDER BY usr;
EXPLAIN (COSTS OFF) SELECT count(*) FROM (SELECT DISTINCT usr, ad FROM click) d;
SELECT filtered('SELECT DISTINCT usr % 7, count(*) FROM click GROUP BY usr');

-- results: one or more columns, expressions, NULLs
SELECT * FROM compared('SELECT DISTINCT usr FROM click');
SELECT * FROM compared('SELECT DISTINCT usr, ad FROM click');
SELECT * FROM compared('SELECT DISTINCT ad, price, at FROM click');
SELECT * FROM compared('SELECT DISTINCT usr % 100 AS a, usr / 1000 AS b, 1 AS one, ad AS c, ad AS d FROM click');
SELECT * FROM compared('SELECT DISTINCT nullif(usr % 5, 3) AS a, nullif(id % 3, 1) AS b FROM click');
SELECT * FROM compared('SELECT DISTINCT ''x'' AS x, 1 AS one, NULL AS n, ad FROM click');
SELECT rows, differ FROM compared('SELECT DISTINCT c FROM click c');
-- under and above other nodes
SELECT * FROM compared('SELECT DISTINCT usr % 7 AS m, count(*) FROM click GROUP BY usr');
SELECT * FROM compared('SELECT DISTINCT count(*), sum(id) % 2 AS s FROM click GROUP BY GROUPING SETS ((usr), (ad), ())');
SELECT * FROM compared('SELECT DISTINCT usr, row_number() OVER (PARTITION BY usr ORDER BY id) % 3 AS r FROM click');
SELECT * FROM compared('SELECT DISTINCT usr % 10 AS u, generate_series(1, 3) AS g, generate_series(1, 3) AS h FROM click');
SELECT * FROM compared('SELECT DISTINCT usr, (SELECT a FROM few WHERE a < usr LIMIT 1) IS NULL AS m FROM click');
SELECT * FROM compared('SELECT DISTINCT c.usr, f.a FROM click c JOIN few f ON f.a = c.id % 20');
SELECT * FROM compared('WITH d AS MATERIALIZED (SELECT DISTINCT usr FROM click) SELECT a.usr FROM d a JOIN d b USING (usr)');
SELECT * FROM compared('SELECT usr, count(*) FROM (SELECT DISTINCT usr, ad FROM click) d GROUP BY usr HAVING count(*) > 6');
SELECT * FROM compared('SELECT ad, (SELECT string_agg(p::text, '','' ORDER BY p) FROM (SELECT DISTINCT price AS p FROM click c WHERE c.ad = d.ad) x) AS l FROM (SELECT DISTINCT ad FROM click) d');
SELECT * FROM compared('SELECT DISTINCT usr FROM click UNION ALL SELECT DISTINCT id FROM click');
SELECT * FROM compared('SELECT * FROM (SELECT DISTINCT usr FROM click ORDER BY usr OFFSET 5 LIMIT 40) d');
SELECT * FROM compared('SELECT ARRAY(SELECT DISTINCT usr FROM click ORDER BY 1) AS l');
-- DISTINCT ON without an order gives some row of each key
SELECT * FROM compared('SELECT usr FROM (SELECT DISTINCT ON (usr) usr, ad FROM click) d');
SELECT count(*), count(c.id) FROM (SELECT DISTINCT ON (usr) * FROM click) d LEFT JOIN click c ON c.id = d.id AND c IS NOT DISTINCT FROM d;

-- Rows come in the order of the input, the first of each key: the filter reads on only
-- as far as it has to.
CREATE TEMP TABLE arrived AS SELECT usr, row_number() OVER () AS n FROM (SELECT DISTINCT usr FROM click) d;
SELECT count(*) FROM arrived a
JOIN (SELECT usr, row_number() OVER (ORDER BY min(id)) AS n FROM click GROUP BY usr) b
	ON coalesce(a.usr, -1) = coalesce(b.usr, -1) AND a.n <> b.n;
DROP TABLE arrived;
CREATE SEQUENCE reads;
SELECT count(*) FROM (SELECT DISTINCT usr + 0 * nextval('reads') AS u FROM click LIMIT 10) d;
SELECT last_value FROM reads;

-- rescans
SELECT * FROM compared('SELECT f.a, (SELECT count(*) FROM (SELECT DISTINCT usr FROM click WHERE id % 10 <> f.a) x) AS n FROM (SELECT DISTINCT a FROM few) f');
SELECT * FROM compared('SELECT f.a, d.usr FROM (VALUES (1), (2), (3)) f(a), LATERAL (SELECT DISTINCT usr FROM click WHERE id > 0) d');

-- cursors
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT DISTINCT ad FROM click;
FETCH 2 FROM c;
FETCH BACKWARD 1 FROM c;
FETCH ALL FROM c;
FETCH FIRST FROM c;
DECLARE h CURSOR WITH HOLD FOR SELECT DISTINCT ad FROM click;
FETCH 1 FROM h;
COMMIT;
FETCH 1 FROM h;
CLOSE h;

-- statements that store
CREATE TABLE stored AS SELECT DISTINCT usr FROM click;
INSERT INTO stored SELECT DISTINCT usr FROM click WHERE usr < 100;
SELECT count(*), count(DISTINCT usr) FROM stored;
EXPLAIN (COSTS OFF) INSERT INTO stored SELECT DISTINCT usr FROM click;
CREATE VIEW users AS SELECT DISTINCT usr FROM click;
EXPLAIN (COSTS OFF) SELECT count(*) FROM users;

-- Exact where that is free ...
CREATE INDEX ON click (ad);
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT filtered('SELECT DISTINCT ad FROM click');
RESET enable_seqscan;
RESET enable_bitmapscan;
SELECT filtered('SELECT DISTINCT usr FROM (SELECT usr FROM click ORDER BY usr OFFSET 0) s');
SELECT filtered('SELECT DISTINCT ON (usr) usr, ad FROM click ORDER BY usr, id');
SELECT filtered('SELECT DISTINCT a FROM few');
SELECT filtered('SELECT usr FROM click UNION SELECT id FROM click');
-- ... and where a wrong answer would do harm.
SELECT filtered('SELECT * FROM few WHERE a NOT IN (SELECT DISTINCT usr FROM click)');
SELECT filtered('SELECT * FROM few WHERE a <> ALL (ARRAY(SELECT DISTINCT usr FROM click))');
SELECT filtered('SELECT * FROM few WHERE a IN (SELECT DISTINCT usr FROM click)');
SELECT filtered('SELECT * FROM few WHERE a > ALL (SELECT DISTINCT usr FROM click)');
SELECT filtered('SELECT * FROM few WHERE EXISTS (SELECT DISTINCT usr FROM click OFFSET 7)');
SELECT filtered('SELECT * FROM few WHERE a NOT IN (SELECT usr FROM (SELECT DISTINCT usr FROM click) d)');
SELECT filtered('WITH d AS (SELECT DISTINCT usr FROM click) SELECT * FROM few WHERE a NOT IN (SELECT usr FROM d)');
SELECT filtered('SELECT * FROM few WHERE a NOT IN (SELECT usr FROM users)');
SELECT filtered('SELECT a FROM few EXCEPT SELECT DISTINCT usr FROM click');
SELECT filtered('(SELECT a FROM few UNION ALL SELECT 1) EXCEPT ALL (SELECT DISTINCT usr FROM click INTERSECT SELECT DISTINCT id FROM click)');
SELECT filtered('WITH d AS (SELECT DISTINCT usr FROM click) SELECT a FROM few EXCEPT SELECT usr FROM d');
SELECT filtered('WITH c AS (SELECT DISTINCT usr FROM click), d AS (SELECT usr FROM c) SELECT * FROM (SELECT a FROM few EXCEPT SELECT usr FROM d) x');
SELECT filtered('SELECT DISTINCT usr FROM click EXCEPT SELECT a FROM few');
SELECT filtered('DELETE FROM few USING (SELECT DISTINCT usr FROM click) d WHERE a = usr');
SELECT filtered('UPDATE few SET a = a FROM (SELECT DISTINCT usr FROM click) d WHERE a = usr');
SELECT filtered('WITH gone AS (DELETE FROM few WHERE a < 0 RETURNING a) SELECT DISTINCT usr FROM click');
-- Two columns of one volatile expression are told apart by their place alone.
SELECT filtered('SELECT DISTINCT random() AS x, random() AS y FROM click');
SELECT count(*) > 10000 AS apart FROM (SELECT DISTINCT random() AS x, random() AS y FROM click) d WHERE x <> y;
SELECT * FROM compared('SELECT count(*) FROM (SELECT DISTINCT random() AS x, id FROM click) d');

-- types: what SQL calls equal is one key
CREATE TYPE mood AS ENUM ('low', 'high');
CREATE DOMAIN score AS numeric CHECK (value >= 0);
CREATE TYPE pair AS (a int, b text);
CREATE TYPE loose AS (a int, b money);
CREATE TABLE typed AS
SELECT i, i::smallint AS i2, (i % 7)::real AS f4, (i % 11)::float8 AS f8,
	CASE WHEN i % 2 = 0 THEN (i % 100)::numeric ELSE ((i % 100) || '.00')::numeric END AS num,
	(i % 100)::numeric::score AS dom, (i % 30)::text::varchar AS vc, (i % 30)::text::char(5) AS bp,
	(i % 30)::text::name AS nm, ('\x' || lpad(to_hex(i % 90), 4, '0'))::bytea AS bin,
	('0/' || to_hex(i % 300))::pg_lsn AS lsn, i % 2 = 0 AS b,
	CASE i % 2 WHEN 0 THEN 'low' ELSE 'high' END::mood AS enum,
	'2026-01-01'::date + i % 40 AS d, make_interval(hours => i % 48) AS iv, time '10:00' + i % 50 * interval '1 second' AS tm,
	CASE WHEN i % 2 = 0 THEN timetz '10:00+00' ELSE timetz '11:00+01' END AS tz,
	ARRAY[i % 9, i % 2] AS arr, ROW(i % 5, 'x')::pair AS comp, int4range(i % 8, i % 8 + 3) AS rng,
	jsonb_build_object('a', i % 6) AS js, ('10.0.0.' || i % 250)::inet AS ip, md5((i % 77)::text)::uuid AS id,
	(i % 13)::money AS cash, B'101'::bit(3) AS bits, (i % 4)::oid AS o, ('(' || i % 5 || ',1)')::tid AS t,
	ROW(i % 5, 1)::loose AS loose
FROM generate_series(1, 2000) i;
ANALYZE typed;
DO $$
DECLARE
	c text; r record;
	no_hash text[] := CASE WHEN current_setting('server_version_num')::int < 140000 THEN '{comp,t}' ELSE '{}' END;
BEGIN
	FOR c IN SELECT attname FROM pg_attribute WHERE attrelid = 'typed'::regclass AND attnum > 0
		AND attname NOT IN ('loose', 'cash', 'bits') ORDER BY attnum LOOP
		r := compared(format('SELECT DISTINCT %I FROM typed', c));
		IF NOT r.filter AND NOT no_hash @> ARRAY[c] OR r.differ <> 0 THEN RAISE NOTICE '%: %', c, r; END IF;
		r := compared(format('SELECT DISTINCT %I, i FROM typed', c));
		IF NOT r.filter AND NOT no_hash @> ARRAY[c] OR r.differ <> 0 THEN RAISE NOTICE '% and i: %', c, r; END IF;
	END LOOP;
END $$;
-- no hash function, no filter; an anonymous row may hold anything
SELECT filtered('SELECT DISTINCT cash FROM typed');
SELECT filtered('SELECT DISTINCT bits FROM typed');
SELECT filtered('SELECT DISTINCT loose FROM typed');
SELECT filtered('SELECT DISTINCT ROW(i, f4) FROM typed');
SELECT * FROM compared('SELECT DISTINCT ARRAY[ROW(i % 3, f4)] AS a FROM typed');
-- a hash function of 32 bits only: a million keys would lose a hundred to it
SET client_min_messages = error;
CREATE TYPE short_hash;
CREATE FUNCTION short_hash_in(cstring) RETURNS short_hash LANGUAGE internal IMMUTABLE STRICT AS 'int8in';
CREATE FUNCTION short_hash_out(short_hash) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'int8out';
CREATE TYPE short_hash (INPUT = short_hash_in, OUTPUT = short_hash_out, LIKE = bigint);
CREATE FUNCTION short_hash_eq(short_hash, short_hash) RETURNS boolean LANGUAGE internal IMMUTABLE STRICT AS 'int8eq';
CREATE OPERATOR = (LEFTARG = short_hash, RIGHTARG = short_hash, FUNCTION = short_hash_eq, HASHES);
CREATE FUNCTION short_hash_hash(short_hash) RETURNS int LANGUAGE internal IMMUTABLE STRICT AS 'hashint8';
CREATE OPERATOR CLASS short_hash_ops DEFAULT FOR TYPE short_hash USING hash AS OPERATOR 1 =, FUNCTION 1 short_hash_hash(short_hash);
RESET client_min_messages;
SELECT * FROM compared('SELECT DISTINCT i::text::short_hash AS s FROM typed');
-- another equality than the type's own
-- (rows have had a hash function since 14)
SELECT filtered('SELECT DISTINCT comp FROM typed ORDER BY comp') = (current_setting('server_version_num')::int >= 140000) AS as_it_should;
SELECT filtered('SELECT DISTINCT comp FROM typed ORDER BY comp USING OPERATOR(pg_catalog.*<)');
-- pairs that the server's own hash of 8 bytes, which folds them to 4, takes for one
CREATE TABLE folded AS SELECT (i::bigint << 32 | j) AS k, (i || '/' || to_hex(j))::pg_lsn AS lsn,
	(i::bigint << 32 | j)::text::xid8 AS x
FROM generate_series(0, 49) i, generate_series(0, 49) j;
ANALYZE folded;
SELECT * FROM compared('SELECT DISTINCT k FROM folded');
SELECT * FROM compared('SELECT DISTINCT lsn FROM folded');
SELECT * FROM compared('SELECT DISTINCT x, k FROM folded');
-- the expression's collation decides
DO $$
BEGIN
	CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
EXCEPTION WHEN feature_not_supported THEN
	RAISE NOTICE 'no ICU';
END $$;
CREATE TABLE words AS SELECT CASE WHEN i % 2 = 0 THEN 'Word ' ELSE 'wORD ' END || i % 20 AS w FROM generate_series(1, 2000) i;
ANALYZE words;
SELECT * FROM compared('SELECT DISTINCT w FROM words');
SELECT * FROM compared('SELECT lower(w) FROM (SELECT DISTINCT w COLLATE nocase AS w FROM words) d');

-- The rate: no key comes twice while the filter fits, none that is not there, and of
-- 60,000 at most 0.01 are lost: 600, and five times the deviation of as many.
CREATE TABLE many AS SELECT (i::bigint * 104729) % 60013 AS k FROM generate_series(1, 120000) i;
ANALYZE many;
SET streamdedup.distinct_memory = '256kB';
SET streamdedup.distinct_fpr = 0.01;
CREATE TABLE through AS SELECT DISTINCT k FROM many;
SELECT count(*) <= 60013 AND count(*) >= 60013 - 722 AS kept, count(*) < 60013 AS approximate,
	count(*) = (SELECT count(*) FROM (SELECT k FROM through GROUP BY k) f) AS once,
	bool_and(k BETWEEN 0 AND 60012) AS there
FROM through;
DROP TABLE through;
-- A filter that is full says so once, forgets the oldest keys and goes on at its rate.
SET streamdedup.distinct_memory = '64kB';
\set VERBOSITY terse
SELECT count(*) > 60013 AS twice, count(DISTINCT k) > 60013 - 722 AS kept FROM (SELECT DISTINCT k FROM many) d;
\set VERBOSITY default
-- Keys, rows, memory and the rate that holds are in EXPLAIN ANALYZE.
CREATE FUNCTION counters(query text, OUT method text, OUT tested bigint, OUT passed bigint, OUT keys bigint,
	OUT given_up bigint, OUT kb bigint, OUT rate float8)
LANGUAGE plpgsql AS $$
DECLARE plan json; node json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, FORMAT JSON) ' || query INTO plan;
	node := plan -> 0 -> 'Plan';
	WHILE node ->> 'Custom Plan Provider' IS DISTINCT FROM 'ApproximateDistinct' LOOP
		node := node -> 'Plans' -> 0;
	END LOOP;
	method := node ->> 'Distinct Method';
	tested := node ->> 'Rows Tested';
	passed := node ->> 'Rows Passed';
	keys := node ->> 'Keys';
	given_up := node ->> 'Keys Given Up';
	kb := node ->> 'Memory Usage';
	rate := node ->> 'False-Positive Rate';
END $$;
RESET streamdedup.distinct_memory;
SELECT * FROM counters('SELECT DISTINCT usr FROM click');
SELECT * FROM counters('SELECT DISTINCT usr FROM click LIMIT 5');
SET streamdedup.distinct_memory = '256kB';
SELECT method, tested, passed > 60013 - 722 AS passed, keys = passed AS keys, given_up, kb BETWEEN 128 AND 256 AS kb,
	rate BETWEEN 0.001 AND 0.01 AS rate
FROM counters('SELECT DISTINCT k FROM many');
SET client_min_messages = error;
SET streamdedup.distinct_memory = '64kB';
SELECT method, tested, passed > 60013 AS passed, keys + given_up = passed AS keys, kb <= 64 AS kb, rate BETWEEN 0.001 AND 0.01 AS rate
FROM counters('SELECT DISTINCT k FROM many');
RESET client_min_messages;
-- What stays exact loses nothing, whatever the filter would.
SET streamdedup.distinct_fpr = 0.1;
SET streamdedup.distinct_memory = '128kB';
CREATE FUNCTION keys_as_caller() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM (SELECT DISTINCT k FROM many) d';
CREATE FUNCTION keys_as_owner() RETURNS bigint LANGUAGE sql SECURITY DEFINER AS 'SELECT count(*) FROM (SELECT DISTINCT k FROM many) d';
CREATE FUNCTION keys_as_asked() RETURNS bigint LANGUAGE sql SECURITY DEFINER SET streamdedup.approximate_distinct = on
	AS 'SELECT count(*) FROM (SELECT DISTINCT k FROM many) d';
CREATE MATERIALIZED VIEW kept AS SELECT DISTINCT k FROM many;
SELECT count(*) FROM kept;
REFRESH MATERIALIZED VIEW kept;
SELECT count(*) FROM kept;
SELECT keys_as_caller() < 60013 AS caller, keys_as_owner() < 60013 AS owner, keys_as_asked() < 60013 AS asked;
SET streamdedup.approximate_distinct = off;
SELECT keys_as_caller() < 60013 AS caller, keys_as_owner() < 60013 AS owner, keys_as_asked() < 60013 AS asked;
SET streamdedup.approximate_distinct = on;
SET streamdedup.distinct_fpr = 0.01;
DROP MATERIALIZED VIEW kept;
DROP FUNCTION keys_as_caller, keys_as_owner, keys_as_asked;
-- Once the set has outgrown a cache rows are read 32 at a time.
RESET streamdedup.distinct_memory;
SELECT tested BETWEEN 30000 AND 30031 AS batched, passed FROM counters('SELECT DISTINCT k FROM many LIMIT 30000');
RESET streamdedup.distinct_fpr;
-- Rows of a batch hold on to few pages: a temporary table has a hundred in memory here.
CREATE TEMP TABLE broad (id int, filler text);
ALTER TABLE broad ALTER filler SET STORAGE PLAIN;
INSERT INTO broad SELECT i, repeat('x', 5000) FROM generate_series(1, 3000) i;
ANALYZE broad;
SET streamdedup.distinct_memory = '64kB';
SET streamdedup.distinct_fpr = 1e-8;
BEGIN;
DO $$
BEGIN
	FOR i IN 1..8 LOOP
		EXECUTE format('DECLARE c%s CURSOR FOR SELECT DISTINCT ON (id) * FROM broad WHERE id > %s', i, 50 * i);
		EXECUTE format('MOVE 2000 IN c%s', i);
	END LOOP;
END $$;
FETCH 1 FROM c1 \gset
SELECT abs(:id - 2051) < 20 AS "there", length(:'filler') AS long;
COMMIT;
RESET streamdedup.distinct_memory;
RESET streamdedup.distinct_fpr;
DROP TABLE broad;
-- cached plans follow the setting
PREPARE p AS SELECT count(*) FROM (SELECT DISTINCT usr FROM click) d;
EXPLAIN (COSTS OFF) EXECUTE p;
SET streamdedup.approximate_distinct = off;
EXPLAIN (COSTS OFF) EXECUTE p;
BEGIN;
SET LOCAL streamdedup.approximate_distinct = on;
EXPLAIN (COSTS OFF) EXECUTE p;
ROLLBACK;
EXPLAIN (COSTS OFF) EXECUTE p;
SET plan_cache_mode = force_generic_plan;
PREPARE q(int) AS SELECT count(*) FROM (SELECT DISTINCT usr FROM click WHERE id > $1) d;
EXECUTE q(10);
SET streamdedup.approximate_distinct = on;
EXPLAIN (COSTS OFF) EXECUTE q(10);
EXECUTE q(10);
EXECUTE q(19990);
RESET plan_cache_mode;

DROP TABLE stored, few, typed, folded, words, many;
DROP VIEW users;
DROP TABLE click;
DROP TYPE mood, pair, loose;
DROP DOMAIN score;
DROP SEQUENCE reads;
DROP FUNCTION filtered, compared, counters;
SET client_min_messages = error;
DROP TYPE short_hash CASCADE;
