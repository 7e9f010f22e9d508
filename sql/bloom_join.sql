-- A Bloom join: a filter of the small side's keys, made once in a sub-select, skips rows of the big side before they
-- reach the join. This test runs on one server; test/tap/bloom_join.pl does the same over postgres_fdw.

\set QUIET on
CREATE SCHEMA bloom_join;
SET search_path = bloom_join, public;
SET max_parallel_workers_per_gather = 0;
SET enable_nestloop = off;
SET enable_mergejoin = off;

-- 100,000 rows, of which every twentieth has a partner among 5,000 of 10,000; and some
-- without a key on both sides
CREATE TABLE big AS SELECT i AS id, i::bigint AS k, 'key ' || i AS t FROM generate_series(1, 100000) i;
INSERT INTO big SELECT -i, NULL, NULL FROM generate_series(1, 50) i;
CREATE TABLE small AS
	SELECT i * 20 AS k, 'key ' || i * 20 AS t, true AS wanted FROM generate_series(1, 5000) i
	UNION ALL SELECT i * 20 + 1, 'key ' || i * 20 + 1, false FROM generate_series(1, 5000) i;
INSERT INTO small VALUES (NULL, NULL, true);
ANALYZE big;
ANALYZE small;

-- what EXPLAIN ANALYZE says of a query: the rows that left the scan of table b, those
-- that left the join, and how often the sub-selects ran
CREATE FUNCTION measured(query text, OUT scanned bigint, OUT joined bigint, OUT runs bigint) LANGUAGE plpgsql AS $$
DECLARE
	plan jsonb;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, FORMAT JSON) ' || query INTO plan;
	SELECT sum((n->>'Actual Rows')::numeric * (n->>'Actual Loops')::numeric) FILTER (WHERE n->>'Alias' = 'b'),
		sum((n->>'Actual Rows')::numeric * (n->>'Actual Loops')::numeric) FILTER (WHERE n->>'Node Type' = 'Hash Join'),
		sum((n->>'Actual Loops')::int) FILTER (WHERE n->>'Subplan Name' LIKE 'InitPlan%')
	FROM jsonb_path_query(plan, 'strict $.** ? (exists(@."Node Type"))') n INTO scanned, joined, runs;
END $$;

-- at most these many leave the scan: the partners, and of the others the share that the
-- filter was asked for, with what chance explains
CREATE FUNCTION at_most(partners bigint, fpr float8) RETURNS float8 LANGUAGE sql AS
	'SELECT partners + (100000 - partners) * fpr + 4 * sqrt((100000 - partners) * fpr)';
\set QUIET off

-- without a filter every row reaches the join

SELECT * FROM measured('SELECT * FROM big b JOIN small s USING (k) WHERE s.wanted');

-- with one the partners do, and one in a hundred of the others; the filter is made once

SELECT scanned BETWEEN 5000 AND at_most(5000, 0.01) AS scanned, joined, runs
FROM measured('SELECT * FROM big b JOIN small s USING (k) WHERE s.wanted
	AND dedup_contains((SELECT dedup_agg(dedup_filter(5000), k) FROM small WHERE wanted), b.k)');
SELECT scanned BETWEEN 5000 AND at_most(5000, 0.0001) AS scanned, joined, runs
FROM measured('SELECT * FROM big b JOIN small s USING (k) WHERE s.wanted
	AND dedup_contains((SELECT dedup_agg(dedup_filter(5000, 0.0001), k) FROM small WHERE wanted), b.k)');

-- the result is that of the plain join: of integers of two widths, text, two columns

SELECT count(*) AS rows,
	count(*) = (SELECT count(*) FROM big JOIN small USING (k) WHERE wanted) AS as_many,
	md5(string_agg(b::text || s::text, ',' ORDER BY b.id))
		= (SELECT md5(string_agg(b::text || s::text, ',' ORDER BY b.id)) FROM big b JOIN small s USING (k) WHERE wanted)
		AS the_same
FROM big b JOIN small s USING (k) WHERE s.wanted
	AND dedup_contains((SELECT dedup_agg(dedup_filter(5000), k) FROM small WHERE wanted), b.k);
SELECT count(*) AS rows,
	md5(string_agg(b::text || s::text, ',' ORDER BY b.id))
		= (SELECT md5(string_agg(b::text || s::text, ',' ORDER BY b.id)) FROM big b JOIN small s USING (t) WHERE wanted)
		AS the_same
FROM big b JOIN small s USING (t) WHERE s.wanted
	AND dedup_contains((SELECT dedup_agg(dedup_filter(5000), t) FROM small WHERE wanted), b.t);
SELECT count(*) AS rows,
	md5(string_agg(b::text || s::text, ',' ORDER BY b.id))
		= (SELECT md5(string_agg(b::text || s::text, ',' ORDER BY b.id)) FROM big b JOIN small s USING (k, t) WHERE wanted)
		AS the_same
FROM big b JOIN small s USING (k, t) WHERE s.wanted
	AND dedup_contains((SELECT dedup_agg(dedup_filter(5000), k, t) FROM small WHERE wanted), b.k, b.t);

-- other forms: IN, a CTE, a stored filter, a variable of PL/pgSQL, a generic plan

SELECT count(*) AS semi FROM big b WHERE k IN (SELECT k FROM small WHERE wanted)
	AND dedup_contains((SELECT dedup_agg(dedup_filter(5000), k) FROM small WHERE wanted), b.k);
WITH chosen AS MATERIALIZED (SELECT k FROM small WHERE wanted)
SELECT count(*) AS cte FROM big b JOIN chosen USING (k)
WHERE dedup_contains((SELECT dedup_agg(dedup_filter(5000), k) FROM chosen), b.k);
CREATE TABLE stored AS SELECT dedup_agg(dedup_filter(5000), k) AS f FROM small WHERE wanted;
SELECT scanned BETWEEN 5000 AND at_most(5000, 0.01) AS scanned, joined, runs
FROM measured('SELECT * FROM big b JOIN small s USING (k) WHERE s.wanted
	AND dedup_contains((SELECT f FROM stored), b.k)');
DO $$
DECLARE
	f dedup_filter := (SELECT dedup_agg(dedup_filter(5000), k) FROM small WHERE wanted);
BEGIN
	ASSERT (SELECT count(*) FROM big b JOIN small s USING (k) WHERE s.wanted AND dedup_contains(f, b.k)) = 5000;
END $$;
SET plan_cache_mode = force_generic_plan;
PREPARE joined (dedup_filter) AS
SELECT count(*) AS generic FROM big b JOIN small s USING (k) WHERE s.wanted AND dedup_contains($1, b.k);
EXECUTE joined (dedup_add_all(dedup_filter(100), '{20,40,41,50}'::int[]));
DEALLOCATE joined;
RESET plan_cache_mode;

-- no row on the small side: no filter, no row scanned that gets anywhere

SELECT scanned, coalesce(joined, 0) AS joined
FROM measured('SELECT * FROM big b JOIN small s USING (k) WHERE s.k < 0
	AND dedup_contains((SELECT dedup_agg(dedup_filter(5000), k) FROM small WHERE k < 0), b.k)');

-- a parallel scan of the big side takes the filter along

\set QUIET on
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
CREATE FUNCTION parallel(query text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	plan jsonb;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
	RETURN jsonb_path_exists(plan, 'strict $.** ? (@."Alias" == "b" && @."Parallel Aware" == true)');
END $$;
\set QUIET off
SELECT parallel('SELECT count(*) FROM big b JOIN small s USING (k) WHERE s.wanted
	AND dedup_contains((SELECT dedup_agg(dedup_filter(5000), k) FROM small WHERE wanted), b.k)');
SELECT count(*) AS rows FROM big b JOIN small s USING (k) WHERE s.wanted
	AND dedup_contains((SELECT dedup_agg(dedup_filter(5000), k) FROM small WHERE wanted), b.k);

-- the join compares after a cast, the filter does not cast: both sides must be of one type

SELECT count(*) AS without_cast FROM big b JOIN (SELECT k::numeric FROM small WHERE wanted) s ON b.k = s.k
WHERE dedup_contains((SELECT dedup_agg(dedup_filter(5000, 0.000001), k::numeric) FROM small WHERE wanted), b.k);
SELECT count(*) AS with_cast FROM big b JOIN (SELECT k::numeric FROM small WHERE wanted) s ON b.k = s.k
WHERE dedup_contains((SELECT dedup_agg(dedup_filter(5000, 0.000001), k::numeric) FROM small WHERE wanted), b.k::numeric);

\set QUIET on
SET client_min_messages = error;
DROP SCHEMA bloom_join CASCADE;
