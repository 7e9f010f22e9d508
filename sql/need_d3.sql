-- Need D3: many small groups must not run out of memory. A state starts with tens of bytes, and the planner knows
-- that.

\set QUIET on
CREATE SCHEMA need_d3;
SET search_path = need_d3, public;
CREATE TABLE g AS SELECT i / 2 AS grp, i AS u FROM generate_series(1, 40000) i;
ANALYZE g;
SET work_mem = '4MB';
SET enable_sort = off;
SET max_parallel_workers_per_gather = 0;
SET enable_hashagg = on;
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
\set QUIET off

-- 20,001 groups by hashing: under 16 MB, in a few batches

SELECT hashed, kilobytes < 16 * 1024 AS memory, batches <= 8 AS batches
FROM hash_agg('SELECT grp, dedup_agg(u) FROM g GROUP BY grp');
SELECT hashed, kilobytes < 16 * 1024 AS memory, batches <= 8 AS batches
FROM hash_agg('SELECT grp, dedup_agg(dedup_window(1000000000 / 8), u) FROM g GROUP BY grp');
SELECT hashed, kilobytes < 16 * 1024 AS memory, batches <= 8 AS batches
FROM hash_agg('SELECT grp, approx_count_distinct(u) FROM g GROUP BY grp');

-- and the answer for every group is exact

SELECT count(*) AS groups, bool_and(n = oracle AND approximate = oracle) AS exact
FROM (SELECT grp, dedup_count(dedup_agg(u)) AS n, approx_count_distinct(u) AS approximate FROM g GROUP BY grp) x
JOIN (SELECT grp, count(DISTINCT u) AS oracle FROM g GROUP BY grp) y USING (grp);

-- so by the setting, of unchanged queries

CREATE TABLE truth AS SELECT grp, count(DISTINCT u) AS n FROM g GROUP BY grp;
SET streamdedup.approximate_distinct = on;
SELECT hashed, kilobytes < 16 * 1024 AS memory, batches <= 8 AS batches
FROM hash_agg('SELECT grp, count(DISTINCT u) FROM g GROUP BY grp');
SELECT count(*) AS groups, bool_and(x.n = t.n) AS exact
FROM (SELECT grp, count(DISTINCT u) AS n FROM g GROUP BY grp) x JOIN truth t USING (grp);

\set QUIET on
SET client_min_messages = error;
DROP SCHEMA need_d3 CASCADE;
