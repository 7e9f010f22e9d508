-- dedup_is_new(...) OVER (...): whether the row is the first of its key. The results are compared with row_number() =
-- 1 within the key.

\set QUIET on
CREATE SCHEMA window_test;
SET search_path = window_test, public;
CREATE TABLE clicks AS SELECT i, i % 7 AS day, CASE WHEN i % 11 > 0 THEN i * 7 % 31 END AS u,
	CASE WHEN i % 13 > 0 THEN 'ad' || i % 5 END AS ad FROM generate_series(1, 2000) i;
CREATE TABLE long_table AS SELECT i, i % 100000 AS u FROM generate_series(1, 300000) i;
CREATE INDEX ON long_table (i);
ANALYZE clicks, long_table;

-- blocks of temporary files that a query writes
CREATE FUNCTION temp_blocks(query text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) ' || query INTO plan;
	RETURN plan -> 0 -> 'Plan' ->> 'Temp Written Blocks';
END $$;
\set QUIET off

-- the first row of each key is new, and no other; NULLs are one key, as in DISTINCT

SELECT bool_and(one = (row_number_u = 1)) AS one_column,
	bool_and(two = (row_number_two = 1)) AS two_columns,
	bool_and(three = (row_number_three = 1)) AS three_columns,
	count(*) FILTER (WHERE one) = (SELECT count(*) FROM (SELECT DISTINCT u FROM clicks) x)
		AS as_distinct
FROM (SELECT dedup_is_new(u) OVER w AS one, dedup_is_new(u, ad) OVER w AS two,
		dedup_is_new(ad, u, day) OVER w AS three,
		row_number() OVER (PARTITION BY u ORDER BY i) AS row_number_u,
		row_number() OVER (PARTITION BY u, ad ORDER BY i) AS row_number_two,
		row_number() OVER (PARTITION BY u, ad, day ORDER BY i) AS row_number_three
	FROM clicks WINDOW w AS (ORDER BY i)) x;

-- with every kind of prototype

SELECT bool_and(a = first) AS blocked_bloom, bool_and(b = first) AS bloom,
	bool_and(c = first) AS recent, bool_and(d = first) AS ring, bool_and(e = first) AS ring_of_16
FROM (SELECT dedup_is_new(dedup_filter(1000), u) OVER w AS a,
		dedup_is_new(dedup_filter(1000, 0.00001), u) OVER w AS b,
		dedup_is_new(dedup_window(1000), u) OVER w AS c,
		dedup_is_new(dedup_method('ring', NULL, 'keys=1000'), u) OVER w AS d,
		dedup_is_new(dedup_method('ring', NULL, 'keys=1000 generations=16 refresh=on'), u) OVER w
			AS e,
		row_number() OVER (PARTITION BY u ORDER BY i) = 1 AS first
	FROM clicks WINDOW w AS (ORDER BY i)) x;

-- in the window's order

SELECT array_agg(i ORDER BY i) FILTER (WHERE up) AS up,
	array_agg(i ORDER BY i) FILTER (WHERE down) AS down
FROM (SELECT i, dedup_is_new(i % 3) OVER (ORDER BY i) AS up,
		dedup_is_new(i % 3) OVER (ORDER BY i DESC) AS down FROM generate_series(1, 10) i) x;

-- peers are told apart: of rows that the order does not separate one is new

SELECT count(*) FILTER (WHERE peers) AS one, count(*) FILTER (WHERE no_order) AS one_too,
	count(*) FILTER (WHERE by_key) AS five, count(*) FILTER (WHERE peer_keys) AS five_too
FROM (SELECT dedup_is_new('x') OVER (ORDER BY 0) AS peers, dedup_is_new('x') OVER () AS no_order,
		dedup_is_new(i % 5) OVER (ORDER BY i % 5) AS by_key,
	dedup_is_new(i % 5) OVER (ORDER BY i % 2) AS peer_keys FROM generate_series(1, 100) i) x;

-- every partition starts afresh, and one that there is no row of does nothing

SELECT bool_and(new = (n = 1)) AS "right",
	count(*) FILTER (WHERE new) = (SELECT count(*) FROM (SELECT DISTINCT day, u FROM clicks) y)
		AS count
FROM (SELECT dedup_is_new(dedup_filter(1000), u) OVER (PARTITION BY day ORDER BY i) AS new,
		row_number() OVER (PARTITION BY day, u ORDER BY i) AS n FROM clicks) x;
SELECT count(*) AS none
FROM (SELECT dedup_is_new(u) OVER (PARTITION BY day ORDER BY i) AS new FROM clicks WHERE false) x;

-- the prototype of a partition's first row counts, and no other is looked at

SELECT count(*) FILTER (WHERE new AND i <= 1000) > 990 AS first_sights,
	count(*) FILTER (WHERE new AND i > 1000) > 990 AS forgotten_by_then
FROM (SELECT i, dedup_is_new(CASE WHEN i = 1 THEN dedup_window(10, 0.0001) END, i % 1000)
			OVER (ORDER BY i) AS new FROM generate_series(1, 2000) i) x;

-- it must be an empty filter

SELECT dedup_is_new(NULL::dedup_filter, i) OVER () FROM clicks;
\echo :LAST_ERROR_SQLSTATE
SELECT dedup_is_new(dedup_add(dedup_filter(10), 1), i) OVER () FROM clicks;
\echo :LAST_ERROR_SQLSTATE
SELECT count(dedup_is_new(dedup_filter(10), 1) OVER ()) FROM clicks;
SELECT dedup_is_new(1);

-- beside other window functions of the same window and of others; frames make no difference

SELECT bool_and(new = (first IS NULL)) AS beside_lag,
	bool_and(new = frame AND new = groups) AS frames, bool_and(rows = i AND number = i) AS others
FROM (SELECT i, dedup_is_new(u) OVER w AS new, lag(i) OVER (PARTITION BY u ORDER BY i) AS first,
		count(*) OVER w AS rows, row_number() OVER w AS number,
	dedup_is_new(u) OVER (ORDER BY i ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING) AS frame,
	dedup_is_new(u) OVER (ORDER BY i GROUPS 3 PRECEDING EXCLUDE TIES) AS groups
	FROM clicks WINDOW w AS (ORDER BY i)) x;

-- FILTER and DISTINCT are for aggregates

\set VERBOSITY terse
SELECT dedup_is_new(u) FILTER (WHERE true) OVER () FROM clicks;
SELECT dedup_is_new(DISTINCT u) OVER () FROM clicks;
\set VERBOSITY default

-- a filter of one's own that has more keys than it was made for: one warning a query,
-- whatever the partitions

SELECT count(*) FILTER (WHERE new) > 0 AS some
FROM (SELECT dedup_is_new(dedup_filter(20), i) OVER (PARTITION BY i % 10 ORDER BY i) AS new
	FROM generate_series(1, 1000) i) x;

-- a window is never too full: it forgets

SELECT count(*) FILTER (WHERE new) BETWEEN 980 AND 1000 AS nearly_all_new
FROM (SELECT dedup_is_new(dedup_window(20), i) OVER (PARTITION BY i % 10 ORDER BY i) AS new
	FROM generate_series(1, 1000) i) x;

-- from a view, a common table expression, a subquery with LIMIT, a prepared statement

CREATE VIEW first_clicks AS SELECT i, day, u
FROM (SELECT *, dedup_is_new(u) OVER (PARTITION BY day ORDER BY i) AS new FROM clicks) x WHERE new;
SELECT count(*) = (SELECT count(*) FROM (SELECT DISTINCT day, u FROM clicks) y) AS view
FROM first_clicks;
SELECT count(*) = (SELECT count(*) FROM (SELECT DISTINCT u FROM clicks WHERE day = 3) y)
	AS view_of_a_day FROM first_clicks WHERE day = 3;
WITH new AS (SELECT u, dedup_is_new(u) OVER (ORDER BY i) AS new FROM clicks) SELECT count(*)
	= (SELECT count(*) FROM (SELECT DISTINCT u FROM clicks) y) AS cte FROM new WHERE new;
SELECT bool_and(new = (i <= 3)) AS "limit"
FROM (SELECT i, dedup_is_new(i % 3) OVER (ORDER BY i) AS new FROM generate_series(1, 100) i LIMIT 10) x;
PREPARE new_of_day(int, bigint) AS SELECT count(*)
FROM (SELECT dedup_is_new(dedup_window($2), u) OVER (ORDER BY i) AS new FROM clicks WHERE day = $1) x
WHERE new;
SET plan_cache_mode = force_generic_plan;
EXECUTE new_of_day(0, 100);
EXECUTE new_of_day(1, 1000);
EXECUTE new_of_day(8, 1000);
RESET plan_cache_mode;
DEALLOCATE new_of_day;

-- run again for each row of a join, it starts afresh each time

SELECT bool_and(new = least(d, 31)) AS lateral
FROM generate_series(1, 40) d,
	LATERAL (SELECT count(*) AS new
		FROM (SELECT dedup_is_new(dedup_filter(1000), i % 31) OVER (ORDER BY i) AS new
			FROM generate_series(1, d) i OFFSET 0) x WHERE new) y;

-- a cursor goes forward and back over the same answers

BEGIN;
CREATE TEMP TABLE fetched (pass int, i int, new boolean);
DO $$
DECLARE
	c SCROLL CURSOR FOR SELECT i,
	dedup_is_new(i % 7) OVER (ORDER BY i) AS new FROM generate_series(1, 20) i;
	r record;
BEGIN
	OPEN c;
	LOOP FETCH NEXT
FROM c INTO r; EXIT WHEN NOT FOUND; INSERT INTO fetched VALUES (1, r.i, r.new); END LOOP;
	LOOP FETCH PRIOR
FROM c INTO r; EXIT WHEN NOT FOUND; INSERT INTO fetched VALUES (2, r.i, r.new); END LOOP;
	MOVE ABSOLUTE 5 IN c;
	LOOP FETCH NEXT
FROM c INTO r; EXIT WHEN NOT FOUND; INSERT INTO fetched VALUES (3, r.i, r.new); END LOOP;
	CLOSE c;
END $$;
SELECT pass, count(*), bool_and(new = (i <= 7)) AS "right" FROM fetched GROUP BY pass ORDER BY pass;
COMMIT;

-- many partitions, in little memory: 300,000 rows in 100,000 partitions of three

SET work_mem = '64kB';
SELECT count(*) FILTER (WHERE new) AS new
FROM (SELECT dedup_is_new(i) OVER (PARTITION BY u ORDER BY i) AS new FROM long_table) x;
SELECT count(*) FILTER (WHERE new) AS new
FROM (SELECT dedup_is_new(dedup_filter(1000000), i / 100000) OVER (PARTITION BY u) AS new
	FROM long_table) x;

-- one partition of 300,000 keys in little memory: of the new rows at most one in a thousand is lost

SELECT count(*) FILTER (WHERE NOT new) <= 300 + 4 * sqrt(300) AS few_lost
FROM (SELECT dedup_is_new(i) OVER (ORDER BY i) AS new FROM long_table) x;

-- and of the duplicates within the window at most one in a thousand is let through

SELECT count(*) FILTER (WHERE new AND i % 2 = 0) <= 150 AS few_let_through,
	count(*) FILTER (WHERE NOT new AND i % 2 = 1) <= 150 + 4 * sqrt(150) AS few_lost
FROM (SELECT i, dedup_is_new(CASE WHEN i % 2 = 1 THEN i ELSE i - 1001 END) OVER (ORDER BY i) AS new
	FROM long_table) x WHERE i > 1001;

-- rows behind are given back: on sorted input nothing is written to disk, where counting
-- over the whole partition does write

SET enable_sort = off;
SET max_parallel_workers_per_gather = 0;
SELECT temp_blocks('SELECT dedup_is_new(u) OVER (ORDER BY i) FROM (SELECT * FROM long_table ORDER BY i) x') = 0 AS default_window,
	temp_blocks('SELECT dedup_is_new(dedup_filter(100000), u) OVER (ORDER BY i) FROM (SELECT * FROM long_table ORDER BY i) x') = 0 AS prototype,
	temp_blocks('SELECT count(*) OVER () FROM (SELECT * FROM long_table ORDER BY i) x') > 0
		AS what_writes;
RESET work_mem;

\set QUIET on
SET client_min_messages = error;
DROP SCHEMA window_test CASCADE;

-- an operator would call it as a plain function

CREATE OPERATOR #### (FUNCTION = dedup_is_new, LEFTARG = dedup_filter, RIGHTARG = "any");
CREATE OPERATOR #### (FUNCTION = dedup_is_new, RIGHTARG = "any");
SELECT dedup_filter(10) #### 1;
SELECT #### 1;
DROP OPERATOR #### (dedup_filter, "any");
DROP OPERATOR #### (NONE, "any");
