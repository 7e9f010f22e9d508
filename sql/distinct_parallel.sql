-- Parallel plans of SELECT DISTINCT through a filter. From PostgreSQL 15 on the processes share a set; before 15
-- there is one filter above a Gather of all rows.
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
-- each row passes in one process, so what is above can be partial too
EXPLAIN (COSTS OFF) SELECT count(*) FROM (SELECT DISTINCT ad FROM click) d;
SELECT count(*), count(DISTINCT ad), min(ad) FROM (SELECT DISTINCT ad FROM click) d;
SELECT * FROM compared('SELECT DISTINCT k FROM many ORDER BY k');
SELECT * FROM compared('SELECT DISTINCT k FROM many UNION ALL SELECT DISTINCT usr FROM click');
SELECT * FROM compared('SELECT c.id, d.k FROM (SELECT DISTINCT k FROM many) d JOIN click c ON c.id = d.k');
SELECT * FROM compared('SELECT d.u, e.k FROM (SELECT DISTINCT usr AS u FROM click) d LEFT JOIN many e ON e.k = d.u');
SELECT * FROM compared('SELECT DISTINCT CASE WHEN k % 3 > 0 THEN k END AS k, k % 2 AS b FROM many');

-- What a query's node shows.
CREATE FUNCTION counters(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE plan jsonb; node jsonb;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, FORMAT JSON) ' || query INTO plan;
	node := jsonb_path_query_first(plan, '$.** ? (@."Custom Plan Provider" == "ApproximateDistinct")');
	RETURN format('%s rows tested, %s passed, %s keys, %s, at most %s kB', node ->> 'Rows Tested',
		CASE WHEN node -> 'Rows Passed' = node -> 'Keys' THEN 'as many as keys' ELSE node ->> 'Rows Passed' END,
		CASE WHEN node ->> 'Distinct Method' = 'exact' THEN node ->> 'Keys'
			WHEN (node ->> 'Keys')::int BETWEEN 60013 - 60 AND 60013 THEN 'some 60,000' ELSE node ->> 'Keys' END,
		coalesce('rate ' || CASE WHEN (node ->> 'False-Positive Rate')::float8 BETWEEN 1e-9 AND 0.001
			THEN 'kept' ELSE node ->> 'False-Positive Rate' END, 'exact'),
		power(2, ceil(log(2, (node ->> 'Memory Usage')::numeric)))::int);
END $$;
-- the counters are those of all processes
SELECT counters('SELECT DISTINCT ad FROM click');
-- and, when it is scanned again, the keys and the memory of one scan
SELECT counters('SELECT (SELECT count(*) + g FROM (SELECT DISTINCT ad FROM click) d) FROM generate_series(1, 5) g');
SELECT (SELECT count(*) + g FROM (SELECT DISTINCT k FROM many) d) AS keys FROM generate_series(1, 3) g;
-- also if the leader runs no part of the plan, or all of it
SET parallel_leader_participation = off;
SELECT * FROM compared('SELECT DISTINCT k FROM many');
SELECT (SELECT count(*) + g FROM (SELECT DISTINCT k FROM many) d) AS keys FROM generate_series(1, 3) g;
SELECT counters('SELECT DISTINCT k FROM many');
RESET parallel_leader_participation;
SET max_parallel_workers = 0;
SELECT * FROM compared('SELECT DISTINCT k FROM many');
SELECT counters('SELECT DISTINCT k FROM many');
RESET max_parallel_workers;
-- an error in any process ends the query, and the next starts anew
CREATE FUNCTION failing() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT count(*) FROM (SELECT DISTINCT k / (k - 60012) FROM many) d);
EXCEPTION WHEN division_by_zero THEN RETURN 'division by zero';
END $$;
SELECT failing() FROM generate_series(1, 3);
SELECT count(*) FROM (SELECT DISTINCT k FROM many) d;
-- rows that are not read
SELECT count(*) FROM (SELECT DISTINCT k FROM many LIMIT 30000) d;

-- beyond the exact table, of 49,152 hashes in 1 MB: no row twice, and at most one in a thousand lost
SET streamdedup.distinct_memory = '1MB';
SELECT counters('SELECT DISTINCT k FROM many');
CREATE TABLE kept AS SELECT DISTINCT k FROM many;
SET streamdedup.approximate_distinct = off;
SELECT count(*) = count(DISTINCT k) AS none_twice, count(*) BETWEEN 60013 - 60 AND 60013 AS few_lost FROM kept;
SET streamdedup.approximate_distinct = on;
RESET streamdedup.distinct_memory;
-- one of the processes says that it is full
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
-- as many workers as there may be
ALTER TABLE many SET (parallel_workers = 7);
SET max_parallel_workers_per_gather = 7;
SELECT * FROM compared('SELECT DISTINCT k FROM many');
SET streamdedup.distinct_memory = '1MB';
CREATE TABLE kept_by_seven AS SELECT DISTINCT k FROM many;
RESET streamdedup.distinct_memory;
ALTER TABLE many RESET (parallel_workers);
SET max_parallel_workers_per_gather = 2;
SET streamdedup.approximate_distinct = off;
SELECT count(*) = count(DISTINCT k) AS none_twice, count(*) BETWEEN 60013 - 60 AND 60013 AS few_lost FROM kept_by_seven;
SET streamdedup.approximate_distinct = on;
-- values that are equal and look different
SELECT count(*), sum(n)::bigint FROM (SELECT DISTINCT CASE WHEN id % 2 = 0 THEN usr::numeric ELSE usr + 0.00 END AS n FROM click) d;
-- partitions
CREATE TABLE part (k bigint, p bigint) PARTITION BY LIST (p);
CREATE TABLE part0 PARTITION OF part FOR VALUES IN (0);
CREATE TABLE part1 PARTITION OF part FOR VALUES IN (1);
CREATE TABLE part2 PARTITION OF part FOR VALUES IN (2);
INSERT INTO part SELECT k, k % 3 FROM many WHERE k < 6000;
ANALYZE part;
SELECT * FROM compared('SELECT DISTINCT k, p FROM part');
SET enable_partitionwise_join = on;
SET enable_partitionwise_aggregate = on;
SELECT * FROM compared('SELECT DISTINCT k, b.p FROM part a JOIN part b USING (k, p)');
SELECT * FROM compared('SELECT p, count(*) FROM (SELECT DISTINCT k, p FROM part) d GROUP BY p');
RESET enable_partitionwise_join;
RESET enable_partitionwise_aggregate;
-- a generic plan that is used again and again, alone and in a function
SET plan_cache_mode = force_generic_plan;
PREPARE below(bigint) AS SELECT count(*) FROM (SELECT DISTINCT k FROM many WHERE k < $1) d;
EXECUTE below(20);
EXECUTE below(60013);
EXECUTE below(0);
EXECUTE below(30000);
CREATE FUNCTION below(n bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE result bigint;
BEGIN
	SELECT count(*) INTO result FROM (SELECT DISTINCT k FROM many WHERE k < n) d;
	RETURN result;
END $$;
SELECT below(n) FROM unnest('{20, 60013, 0, 30000}'::bigint[]) n;
RESET plan_cache_mode;
-- rows that are not read: workers that find no new key end with the leader. Each of their rows takes
-- a fifth of a second, and a page has more than 200. The leader's own rows are at hand at once.
CREATE FUNCTION slowly(k bigint) RETURNS bigint PARALLEL SAFE COST 10000 LANGUAGE plpgsql AS $$
BEGIN
	IF pg_backend_pid() <> current_setting('test.leader')::int THEN PERFORM pg_sleep(0.2); END IF;
	RETURN k;
END $$;
SELECT set_config('test.leader', pg_backend_pid()::text, false) <> '' AS set;
SET statement_timeout = '30s';
SELECT count(*) FROM (SELECT DISTINCT slowly(k % 3) FROM many LIMIT 3) d;
RESET statement_timeout;
SELECT (SELECT count(*) + g FROM (SELECT DISTINCT k FROM many LIMIT 1000) d) AS keys FROM generate_series(1, 3) g;
SELECT DISTINCT k FROM many ORDER BY k LIMIT 3;
SELECT EXISTS (SELECT DISTINCT k FROM many), EXISTS (SELECT DISTINCT k FROM many WHERE k < 0);
-- the processes of all scans say once that the set is full
SET parallel_leader_participation = off;
SET streamdedup.distinct_memory = '64kB';
SET streamdedup.distinct_fpr = 1e-8;
\set VERBOSITY terse
SELECT (SELECT count(*) + g FROM (SELECT DISTINCT id FROM click) d) AS keys FROM generate_series(1, 3) g;
\set VERBOSITY default
RESET streamdedup.distinct_fpr;
RESET streamdedup.distinct_memory;
RESET parallel_leader_participation;

DROP TABLE click, many, kept, kept_by_seven, part;
DROP FUNCTION filtered, compared, counters, failing, below, slowly;
