-- approx_count_distinct and filters of method exaloglog. The results are compared with count(DISTINCT ...); estimates
-- may differ by three standard errors of 0.57 %.

\set QUIET on
CREATE SCHEMA approx_count;
SET search_path = approx_count, public;
CREATE TABLE t AS SELECT i, i % 70000 AS k, i % 7 AS day,
	CASE WHEN i % 3 = 0 THEN NULL ELSE i % 5000 END AS part, 'u' || i % 20000 AS name
FROM generate_series(1, 200000) i;
ANALYZE t;
CREATE FUNCTION near(estimate bigint, truth bigint, standard_error float8 DEFAULT 0.00566)
RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
	SELECT abs(estimate - truth) <= 3 * standard_error * truth
$$;
-- SQLSTATE and message of the error of a statement, in one line
CREATE FUNCTION error(statement text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE statement;
	RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE || ' ' || SQLERRM;
END $$;
CREATE FUNCTION plan_has(query text, node text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		IF position(node IN line) > 0 THEN
			RETURN true;
		END IF;
	END LOOP;
	RETURN false;
END $$;
CREATE FUNCTION hash_agg(query text, OUT hashed boolean, OUT kilobytes bigint, OUT batches bigint)
	LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) ' || query INTO plan;
	plan := plan -> 0 -> 'Plan';
	hashed := plan ->> 'Strategy' = 'Hashed';
	kilobytes := plan ->> 'Peak Memory Usage';
	batches := plan ->> 'HashAgg Batches';
END $$;
SET max_parallel_workers_per_gather = 0;
\set QUIET off

-- exact while there are no more hashes than fit the sketch's 14,336 bytes: 1,792

SELECT n, approx_count_distinct(k) = n AS exact
FROM (VALUES (0), (1), (2), (100), (1791), (1792)) sizes (n), generate_series(1, 3) twice
LEFT JOIN LATERAL generate_series(1, n) k ON true
GROUP BY n ORDER BY n;

-- then near the truth

SELECT near(approx_count_distinct(i), count(DISTINCT i)) AS i,
	near(approx_count_distinct(k), count(DISTINCT k)) AS k,
	near(approx_count_distinct(name), count(DISTINCT name)) AS name,
	near(approx_count_distinct(k % 1793), count(DISTINCT k % 1793)) AS just_no_longer_exact,
	near(approx_count_distinct(i::numeric), count(DISTINCT i)) AS numeric,
	approx_count_distinct(i::smallint) = approx_count_distinct(i::bigint) AS integers_alike
FROM t WHERE i < 32768;
SELECT near(approx_count_distinct(i), 200000) AS i, near(approx_count_distinct(k), 70000) AS k,
	near(approx_count_distinct(i::numeric), 200000) AS numeric FROM t;

-- no rows are 0, and so are only NULLs; a key with a NULL column is skipped

SELECT approx_count_distinct(k) AS no_rows FROM t WHERE false;
SELECT approx_count_distinct(NULL::int) AS only_nulls,
	approx_count_distinct(k, NULL::text) AS one_column_null FROM t WHERE i < 100;
SELECT approx_count_distinct(part) FILTER (WHERE i < 1500) = count(DISTINCT part) FILTER (WHERE i < 1500)
		AS exact,
	near(approx_count_distinct(part), count(DISTINCT part)) AS near,
	near(approx_count_distinct(part, 1), count(DISTINCT part)) AS with_a_constant FROM t;

-- a group whose first key is NULL, after one that is no longer exact

SELECT g, near(n, 5000) AS near, n AS number FROM (
	SELECT g, approx_count_distinct(x) AS n FROM (
		SELECT 1 AS g, x FROM generate_series(1, 5000) x UNION ALL
		SELECT 2, nullif(x, 0) FROM generate_series(0, 3) x ORDER BY 1, 2 NULLS FIRST) s
	GROUP BY g) r WHERE g = 2 OR NOT near(n, 5000) ORDER BY g;

-- several columns are one key

SELECT approx_count_distinct(i % 30, i % 7) = 210 AS exact,
	near(approx_count_distinct(i % 30, k), count(DISTINCT (i % 30, k))) AS near FROM t;

-- FILTER, DISTINCT, ORDER BY and HAVING

SELECT approx_count_distinct(k) FILTER (WHERE k < 500) AS filter,
	approx_count_distinct(k) = approx_count_distinct(DISTINCT k) AS "distinct",
	approx_count_distinct(k) = approx_count_distinct(k ORDER BY i DESC) AS "order" FROM t;
SELECT day, near(approx_count_distinct(i), count(*)) AS near FROM t GROUP BY day
HAVING approx_count_distinct(i) > 20000 AND day < 2 ORDER BY day;

-- 200,000 groups of one or two keys: hashed, without spilling, each exact

\set QUIET on
CREATE TABLE small AS SELECT i % 200000 AS grp, i AS u FROM generate_series(1, 300000) i;
ANALYZE small;
SET work_mem = '64MB';
SET enable_sort = off;
\set QUIET off
SELECT hashed, kilobytes < 64 * 1024 AS memory, batches
FROM hash_agg('SELECT grp, approx_count_distinct(u) FROM small GROUP BY grp');
SELECT count(*) AS groups, bool_and(n = CASE WHEN grp BETWEEN 1 AND 100000 THEN 2 ELSE 1 END) AS exact
FROM (SELECT grp, approx_count_distinct(u) AS n FROM small GROUP BY grp) x;
RESET enable_sort;
RESET work_mem;

-- parallel is serial, number for number and byte for byte

\set QUIET on
CREATE TABLE serial AS SELECT approx_count_distinct(i) AS i, approx_count_distinct(k) AS k,
	approx_count_distinct(i % 1000) AS few,
	dedup_agg(dedup_method('exaloglog', '4kB'), k)::text AS sketch FROM t;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
\set QUIET off
SELECT plan_has('SELECT approx_count_distinct(k) FROM t', 'Partial Aggregate') AS partial,
	plan_has('SELECT approx_count_distinct(k) FROM t', 'Finalize Aggregate') AS finalize;
SELECT approx_count_distinct(i) = (SELECT i FROM serial) AS i,
	approx_count_distinct(k) = (SELECT k FROM serial) AS k,
	approx_count_distinct(i % 1000) = 1000 AND (SELECT few FROM serial) = 1000 AS few,
	dedup_agg(dedup_method('exaloglog', '4kB'), k)::text = (SELECT sketch FROM serial) AS sketch FROM t;
SET max_parallel_workers_per_gather = 0;

-- window frames, exact and not

SELECT bool_and(week = (SELECT count(DISTINCT k % 11) FROM t b WHERE b.i BETWEEN a.i - 6 AND a.i)) AS week,
	bool_and(so_far = least(i, 11)) AS so_far
FROM (SELECT i, approx_count_distinct(k % 11) OVER (ORDER BY i ROWS 6 PRECEDING) AS week,
		approx_count_distinct(k % 11) OVER (ORDER BY i) AS so_far FROM t WHERE i <= 60) a;
SELECT bool_and(near(so_far, i)) AS running, count(*) AS rows
FROM (SELECT i, approx_count_distinct(i) OVER (ORDER BY i) AS so_far FROM t WHERE i <= 3000) a;

-- a day's sketches, stored, merged to a week, and counted: as built at once

\set QUIET on
CREATE TABLE daily AS SELECT day, dedup_agg(dedup_method('exaloglog', '16kB'), k) AS f FROM t GROUP BY day;
\set QUIET off
SELECT bool_and(near(dedup_count(f), 10000)) AS days,
	max(pg_column_size(f)) AS bytes FROM daily;
SELECT near(dedup_count(dedup_merge_agg(f)), 70000) AS week,
	dedup_merge_agg(f)::text = (SELECT dedup_agg(dedup_method('exaloglog', '16kB'), k) FROM t)::text
		AS as_built_at_once,
	dedup_count(dedup_merge_agg(f)) = (SELECT approx_count_distinct(k) FROM t) AS as_the_aggregate,
	dedup_merge_agg(f ORDER BY day)::text = dedup_merge_agg(f ORDER BY day DESC)::text AS any_order
FROM daily;
SELECT bool_and(near(dedup_count(f), 70000)) AS a_day_at_a_time
FROM (SELECT dedup_merge_agg(f) OVER (ORDER BY day ROWS 6 PRECEDING) AS f, day FROM daily) x
WHERE day = 6;

-- what it is made of

SELECT method, keys, fpr, seed, exact, count, fill, fpr_now, overfull, bytes, bytes_full, parameters
FROM dedup_stats(dedup_method('exaloglog', '16kB'));
SELECT memory, bytes_full - 64 AS body, parameters
FROM unnest(ARRAY['56', '4kB', '16kB', '64kB', '512MB']) memory, dedup_stats(dedup_method('exaloglog', memory));
SELECT error, parameters FROM unnest(ARRAY['0.5', '0.01', '0.0057', '0.0056', '0.00005']) error,
	dedup_stats(dedup_method('exaloglog', NULL, 'error=' || error));
SELECT exact, near(count, 200000) AS near, overfull, fpr_now IS NULL AS no_rate, bytes
FROM dedup_stats((SELECT dedup_agg(dedup_method('exaloglog', '16kB'), i) FROM t));
SELECT count(*) FROM dedup_advise(1000000, 0.01) WHERE method = 'exaloglog';

-- adding to a value, and the text and binary forms

SELECT dedup_count(dedup_add(dedup_add(dedup_method('exaloglog', '4kB'), 1), 1)) AS one,
	dedup_count(dedup_add(dedup_method('exaloglog', '4kB'), NULL::int)) AS none;
SELECT dedup_add_all(dedup_method('exaloglog', '4kB'), ARRAY(SELECT generate_series(1, 10000)))::text
	= (SELECT dedup_agg(dedup_method('exaloglog', '4kB'), i) FROM generate_series(10000, 1, -1) i)::text AS same,
	f::text::dedup_filter::bytea = f::bytea AS back
FROM (SELECT dedup_agg(dedup_method('exaloglog', '4kB'), i) AS f FROM generate_series(1, 5000) i) x;

-- different precisions merge to the lower one, as if all had been made so

\set QUIET on
CREATE TABLE sizes AS SELECT memory, n, dedup_agg(dedup_method('exaloglog', memory), i) AS f
FROM unnest(ARRAY['1kB', '4kB', '16kB']) memory, unnest(ARRAY[10, 100, 300, 1000, 5000]) n,
	LATERAL generate_series(n / 2, n / 2 + n - 1) i GROUP BY memory, n;
\set QUIET off
SELECT count(*) AS pairs,
	bool_and((a.f || b.f)::text = (SELECT dedup_agg(dedup_method('exaloglog',
			CASE WHEN pg_size_bytes(a.memory) < pg_size_bytes(b.memory) THEN a.memory ELSE b.memory END), i)
		FROM (SELECT generate_series(a.n / 2, a.n / 2 + a.n - 1) AS i
			UNION ALL SELECT generate_series(b.n / 2, b.n / 2 + b.n - 1)) x)::text) AS as_built_coarse,
	bool_and((a.f || b.f)::text = (b.f || a.f)::text) AS either_way
FROM sizes a, sizes b;
SELECT (SELECT count(DISTINCT f::text) FROM (
		SELECT dedup_merge_agg(f ORDER BY n, memory) AS f FROM sizes
		UNION ALL SELECT dedup_merge_agg(f ORDER BY memory DESC, n DESC) FROM sizes
		UNION ALL SELECT dedup_agg(dedup_method('exaloglog', '1kB'), i) FROM generate_series(5, 7499) i
			WHERE i BETWEEN 5 AND 14 OR i BETWEEN 50 AND 149 OR i BETWEEN 150 AND 449
				OR i BETWEEN 500 AND 1499 OR i BETWEEN 2500 AND 7499) x) AS one_result,
	dedup_count(dedup_merge_agg(f)) BETWEEN 0.9 * 6410 AND 1.1 * 6410 AS near FROM sizes;

-- all else must be equal, and other methods do not mix

SELECT error('SELECT dedup_method(''exaloglog'', ''4kB'') || dedup_method(''exaloglog'', ''16kB'', '''', 1)');
SELECT error('SELECT dedup_method(''exaloglog'', ''4kB'') || dedup_method(''exaloglog'', ''16kB'', ''hash=sip'')');
SELECT dedup_method('exaloglog', '4kB') || dedup_filter(1000);

-- it does not say whether a key was seen

SELECT error(statement) FROM (VALUES
	('SELECT dedup_contains(dedup_method(''exaloglog'', ''4kB''), 1)'),
	('SELECT is_new(dedup_method(''exaloglog'', ''4kB''), 1)'),
	('SELECT dedup_is_new(dedup_method(''exaloglog'', ''4kB''), i) OVER () FROM generate_series(1, 2) i'),
	('SELECT dedup_create(''a_live_one'', dedup_method(''exaloglog'', ''4kB''))'),
	('SELECT dedup_forget(dedup_method(''exaloglog'', ''4kB''), 1)')) s (statement);
SELECT dedup_contains(dedup_method('exaloglog', '4kB'), 1);
SELECT dedup_create('live', dedup_filter(1000, 0.01, 7)) \g /dev/null
SELECT error('SELECT dedup_load(''live'', dedup_add(dedup_method(''exaloglog'', ''4kB'', '''', 7), 1))');

-- how it is made

SELECT error(statement) FROM (VALUES
	('SELECT dedup_method(''exaloglog'', NULL)'), ('SELECT dedup_method(''exaloglog'', ''4kB'', ''error=0.01'')'),
	('SELECT dedup_method(''exaloglog'', ''55'')'), ('SELECT dedup_method(''exaloglog'', ''513MB'')'),
	('SELECT dedup_method(''exaloglog'', ''4kB'', ''keys=1000'')'),
	('SELECT dedup_method(''exaloglog'', NULL, ''error=0.9'')')) s (statement);
SELECT dedup_method('exaloglog', NULL);
SELECT dedup_method('exaloglog', '4kB', 'fpr=0.01');

-- its support functions are only an aggregate's

SELECT error('SELECT approx_count_distinct_trans(NULL, 1)');
SELECT approx_count_distinct_final(NULL), approx_count_distinct_final(dedup_add(dedup_filter(10), 1));

\set QUIET on
SET client_min_messages = error;
DROP SCHEMA approx_count CASCADE;
