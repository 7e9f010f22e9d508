-- Need D1: daily active users. count(DISTINCT ...) sorts or spills to disk. An estimate is enough if it is exact
-- while small and near the true number above.

\set QUIET on
CREATE SCHEMA need_d1;
SET search_path = need_d1, public;
CREATE TABLE hit AS SELECT (i % 3)::int AS day, (hashint4(i) & 131071) AS u
FROM generate_series(1, 300000) i;
ANALYZE hit;
\set QUIET off

-- by day and over all days it is the truth, to within a hundredth

SELECT day, dedup_count(dedup_agg(dedup_filter(200000), u)) / count(DISTINCT u)::float8 BETWEEN 0.99
		AND 1.01 AS near FROM hit GROUP BY day ORDER BY day;
SELECT dedup_count(dedup_agg(dedup_filter(200000), u)) / count(DISTINCT u)::float8 BETWEEN 0.99
		AND 1.01 AS near,
	dedup_count(dedup_agg(dedup_filter(200000, 0.1), u)) / count(DISTINCT u)::float8 BETWEEN 0.99
		AND 1.01 AS in_half_the_memory,
	dedup_count(dedup_agg(dedup_filter(1000000), u)) = count(DISTINCT u)
		AS exact_in_a_filter_for_a_million,
	dedup_count(dedup_agg(u)) / count(DISTINCT u)::float8 BETWEEN 0.99 AND 1.01
		AS without_a_number FROM hit;

SELECT bool_and(abs(n - truth) <= 3 * 0.00566 * truth) AS approx_count_distinct FROM (
	SELECT approx_count_distinct(u) AS n, count(DISTINCT u) AS truth FROM hit
	UNION ALL SELECT approx_count_distinct(u), count(DISTINCT u) FROM hit GROUP BY day) x;

-- and the same on every run, in any order

SELECT count(DISTINCT n) AS numbers FROM (
	SELECT dedup_count(dedup_agg(dedup_filter(50000), u)) AS n FROM hit WHERE u < 50000
	UNION ALL
	SELECT dedup_count(dedup_agg(dedup_filter(50000), u ORDER BY u)) FROM hit WHERE u < 50000) x;
SELECT count(DISTINCT n) AS numbers FROM (SELECT approx_count_distinct(u) AS n FROM hit
	UNION ALL SELECT approx_count_distinct(u ORDER BY u) FROM hit) x;

-- without temporary files, in one process

CREATE FUNCTION temp_blocks(query text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) ' || query INTO plan;
	RETURN plan -> 0 -> 'Plan' ->> 'Temp Written Blocks';
END $$;
SET max_parallel_workers_per_gather = 0;
SET enable_hashagg = on;
SELECT temp_blocks('SELECT day, dedup_agg(u) FROM hit GROUP BY day') AS dedup_agg,
	temp_blocks('SELECT day, approx_count_distinct(u) FROM hit GROUP BY day') AS approx_count_distinct,
	temp_blocks('SELECT day, count(DISTINCT u) FROM hit GROUP BY day') > 0 AS count_distinct_has_some;

-- nothing is counted in no rows, and in NULLs; a hundred are a hundred

SELECT coalesce(dedup_count(dedup_agg(u)), 0) AS no_rows FROM hit WHERE false;
SELECT dedup_count(dedup_agg(NULL::int)) AS only_nulls FROM hit WHERE u < 9;
SELECT dedup_count(dedup_agg(u % 100)) AS hundred FROM hit;
SELECT approx_count_distinct(u) AS no_rows FROM hit WHERE false;
SELECT approx_count_distinct(NULL::int) AS only_nulls, approx_count_distinct(u % 100) AS hundred
FROM hit;

-- the same by the words that people type: the truth by stock first, then the setting

CREATE TABLE truth AS SELECT day, count(DISTINCT u) AS n FROM hit GROUP BY day
	UNION ALL SELECT NULL, count(DISTINCT u) FROM hit;
CREATE TABLE users AS SELECT DISTINCT day, u FROM hit;
SET streamdedup.approximate_distinct = on;
SELECT count(*) AS numbers, bool_and(abs(x.n - t.n) <= 3 * 0.00566 * t.n) AS near, bool_or(x.n <> t.n) AS approximate
FROM (SELECT day, count(DISTINCT u) AS n FROM hit GROUP BY day
	UNION ALL SELECT NULL, count(DISTINCT u) FROM hit) x JOIN truth t ON x.day IS NOT DISTINCT FROM t.day;
SELECT temp_blocks('SELECT day, count(DISTINCT u) FROM hit GROUP BY day') AS count_distinct,
	temp_blocks('SELECT DISTINCT day, u FROM hit') AS "distinct";
SELECT count(DISTINCT u) AS no_rows FROM hit WHERE false;
SELECT count(DISTINCT NULL::int) AS only_nulls, count(DISTINCT u % 100) AS hundred FROM hit;
SELECT (SELECT count(*) FROM (SELECT DISTINCT day, u FROM hit) d) = count(*) AS every_user,
	(SELECT count(*) FROM (SELECT DISTINCT day, u FROM hit EXCEPT SELECT day, u FROM users) d) AS others
FROM users;

\set QUIET on
SET client_min_messages = error;
DROP SCHEMA need_d1 CASCADE;
