-- Random queries, and one property of all of them: an approximate DISTINCT can only remove rows from the result of a
-- query that shows no aggregates of its own. Every row that it returns must also be in the exact result.
LOAD 'streamdedup';
SET client_min_messages = error;
SET max_parallel_workers_per_gather = 0;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET jit = off;
CREATE SCHEMA distinct_random;
SET search_path = distinct_random, public;
CREATE TABLE big AS SELECT g AS k, g::text AS v FROM generate_series(1, 10000) g;
CREATE TABLE few AS SELECT k, v FROM big WHERE k > 9600;
CREATE VIEW keys AS SELECT DISTINCT k, v FROM big;
ANALYZE big, few;
SET streamdedup.distinct_memory = '64kB';
SET streamdedup.distinct_fpr = 0.1;

-- Queries with the columns k and v; %1$s and %2$s are such queries, in FROM.
CREATE TABLE shapes (shape text);
INSERT INTO shapes (shape) VALUES
	('SELECT DISTINCT a.k, a.v FROM %1$s a'),
	('SELECT a.k, b.v FROM %1$s a JOIN %2$s b USING (k)'),
	('SELECT a.k, a.v FROM %1$s a LEFT JOIN %2$s b USING (k) WHERE b.k IS NULL'),
	('SELECT a.k, b.v FROM %1$s a RIGHT JOIN %2$s b USING (k)'),
	('SELECT a.k, b.v FROM %1$s a FULL JOIN %2$s b USING (k)'),
	('SELECT a.k, a.v FROM %1$s a UNION SELECT b.k, b.v FROM %2$s b'),
	('SELECT a.k, a.v FROM %1$s a UNION ALL SELECT b.k, b.v FROM %2$s b'),
	('SELECT a.k, a.v FROM %1$s a EXCEPT SELECT b.k, b.v FROM %2$s b'),
	('SELECT a.k, a.v FROM %1$s a EXCEPT ALL SELECT b.k, b.v FROM %2$s b'),
	('SELECT a.k, a.v FROM %1$s a INTERSECT SELECT b.k, b.v FROM %2$s b'),
	('SELECT a.k, a.v FROM %1$s a WHERE a.k NOT IN (SELECT b.k FROM %2$s b)'),
	('SELECT a.k, a.v FROM %1$s a WHERE a.k IN (SELECT b.k FROM %2$s b)'),
	('SELECT a.k, a.v FROM %1$s a WHERE NOT EXISTS (SELECT 1 FROM %2$s b WHERE a.k = b.k)'),
	('SELECT a.k, a.v FROM %1$s a WHERE a.k NOT IN (SELECT unnest(ARRAY(SELECT b.k FROM %2$s b)))'),
	('SELECT a.k, a.v FROM %1$s a WHERE a.k > (SELECT count(*) - 400 FROM %2$s b)'),
	('SELECT a.k, a.v FROM %1$s a WHERE a.k > (SELECT count(DISTINCT b.k) - 400 FROM %2$s b)'),
	('SELECT max(a.k) AS k, max(a.v) AS v FROM %1$s a GROUP BY a.k %% 701'),
	('SELECT max(a.k) AS k, max(a.v) AS v FROM %1$s a GROUP BY a.k %% 701 HAVING count(*) < 15'),
	('SELECT count(*)::int AS k, ''n'' AS v FROM %1$s a'),
	('SELECT a.k, a.v FROM %1$s a ORDER BY a.k DESC, a.v LIMIT 200 OFFSET 3'),
	('SELECT DISTINCT a.k, a.v FROM %1$s a ORDER BY a.k DESC, a.v LIMIT 200'),
	('SELECT DISTINCT ON (a.k) a.k, a.v FROM %1$s a ORDER BY a.k, a.v'),
	('SELECT a.k, lead(a.v) OVER (ORDER BY a.k, a.v) AS v FROM %1$s a'),
	('SELECT u AS k, u::text AS v FROM unnest(ARRAY(SELECT a.k FROM %1$s a)) u'),
	('SELECT few.k, l.v FROM few, LATERAL (SELECT a.v FROM %1$s a WHERE a.k = few.k) l'),
	('SELECT a.k, (SELECT (count(*) < 300)::text FROM %2$s b) AS v FROM %1$s a'),
	('WITH w AS (SELECT * FROM %1$s a) SELECT w.k, b.v FROM w JOIN %2$s b USING (k)'),
	('WITH w AS MATERIALIZED (SELECT * FROM %1$s a) SELECT w.k, w.v FROM w LEFT JOIN w x USING (k) WHERE x.k IS NULL OR w.k > 5');

CREATE FUNCTION any_query(depth int) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	IF depth = 0 THEN
		RETURN (ARRAY['few', 'keys', 'keys', '(SELECT DISTINCT k, v FROM big)', '(SELECT DISTINCT ON (k) k, v FROM big)'])[1 + floor(random() * 5)];
	END IF;
	RETURN '(' || format((SELECT shape FROM shapes ORDER BY random() LIMIT 1),
		any_query(depth - 1), any_query(depth - 1)) || ')';
END $$;

CREATE FUNCTION added(query text) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('streamdedup.approximate_distinct', 'off', true);
	EXECUTE 'CREATE TEMP TABLE exact AS ' || query;
	PERFORM set_config('streamdedup.approximate_distinct', 'on', true);
	EXECUTE 'CREATE TEMP TABLE these AS ' || query;
	PERFORM set_config('streamdedup.approximate_distinct', 'off', true);
	RETURN (SELECT count(*) FROM (SELECT * FROM these EXCEPT ALL SELECT * FROM exact) d);
END $$;

DO $$
DECLARE
	query text; more bigint; fewer int := 0;
BEGIN
	PERFORM setseed(0.5);
	FOR i IN 1..40 LOOP
		query := format('SELECT q.k, q.v FROM %s q WHERE true', any_query(1 + i % 2));
		-- Every fourth runs with workers where it can.
		PERFORM set_config('max_parallel_workers_per_gather', CASE WHEN i % 4 = 3 THEN '2' ELSE '0' END, true);
		more := added(query);
		IF more > 0 THEN RAISE INFO '% rows added by %', more, query; END IF;
		IF (SELECT count(*) FROM these) < (SELECT count(*) FROM exact) THEN fewer := fewer + 1; END IF;
		DROP TABLE exact, these;
	END LOOP;
	RAISE INFO '%', CASE WHEN fewer > 5 THEN 'some queries lost rows, as they may' ELSE 'too few lost rows: ' || fewer END;
END $$;
DROP SCHEMA distinct_random CASCADE;
