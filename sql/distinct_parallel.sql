-- Parallel plans of SELECT DISTINCT through a filter: one in each process, and one above
-- (from 15 on; before, one above a Gather of all rows).
LOAD 'streamdedup';
SET jit = off;
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
CREATE TABLE click AS
SELECT i AS id, (i::bigint * 7919) % 3001 AS usr, 'ad ' || i % 17 AS ad FROM generate_series(1, 20000) i;
CREATE TABLE many AS SELECT (i::bigint * 104729) % 60013 AS k FROM generate_series(1, 120000) i;
ANALYZE click, many;

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

SET streamdedup.approximate_distinct = on;
EXPLAIN (COSTS OFF) SELECT DISTINCT ad FROM click;
SELECT * FROM compared('SELECT DISTINCT ad FROM click');
SELECT * FROM compared('SELECT DISTINCT usr % 20 AS u, ad FROM click');
SELECT * FROM compared('SELECT usr FROM (SELECT DISTINCT ON (usr) usr, ad FROM click) d');
-- the lower node's counters hold those of the workers
DO $$
DECLARE plan json; node json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, FORMAT JSON) SELECT DISTINCT ad FROM click' INTO plan;
	node := plan -> 0 -> 'Plan';
	RAISE NOTICE 'above: % of % rows, % keys', node ->> 'Rows Passed',
		CASE WHEN (node ->> 'Rows Tested')::int = (node -> 'Plans' -> 0 ->> 'Actual Rows')::float8 THEN 'all' ELSE 'not all' END, node ->> 'Keys';
	node := node -> 'Plans' -> 0 -> 'Plans' -> 0;
	IF node ->> 'Rows Tested' IS NULL THEN RAISE NOTICE 'none below'; RETURN; END IF;
	RAISE NOTICE 'below: % rows tested, % ', node ->> 'Rows Tested',
		CASE WHEN (node ->> 'Rows Passed')::int BETWEEN 17 AND 51 THEN 'each process passes each key once' ELSE node::text END;
END $$;
-- and, when it is scanned again, the keys and the memory of one scan
DO $$
DECLARE plan jsonb; node jsonb;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, FORMAT JSON) SELECT (SELECT count(*) + g FROM (SELECT DISTINCT ad FROM click) d) '
		'FROM generate_series(1, 5) g' INTO plan;
	node := jsonb_path_query_first(plan, '$.** ? (@."Custom Plan Provider" == "ApproximateDistinct" && @."Parallel Aware" == true)');
	RAISE NOTICE 'below: % rows tested, %', node -> 'Rows Tested',
		CASE WHEN (node ->> 'Keys')::int BETWEEN 17 AND 51 AND (node ->> 'Memory Usage')::int <= 3 * 8
			THEN 'the keys of one scan' ELSE node::text END;
END $$;
-- only the filter above says that it is full: it knows what those below it forget
SET streamdedup.distinct_memory = '64kB';
\set VERBOSITY terse
SELECT count(DISTINCT k) > 60013 - 722 AS kept FROM (SELECT DISTINCT k FROM many) d;
SET streamdedup.distinct_fpr = 1e-8;
SELECT count(*) FROM (SELECT DISTINCT id FROM click) d;
RESET streamdedup.distinct_fpr;
\set VERBOSITY default
RESET streamdedup.distinct_memory;
SET parallel_leader_participation = off;
SELECT * FROM compared('SELECT DISTINCT ad FROM click');
RESET parallel_leader_participation;

DROP TABLE click, many;
DROP FUNCTION filtered, compared;
