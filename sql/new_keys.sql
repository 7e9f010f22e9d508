-- dedup_new_keys(filter, keys): the elements that a filter does not remember, in order, the first of equal ones. The
-- results are compared with DISTINCT ON and with dedup_contains one by one.

\set QUIET on
CREATE SCHEMA new_keys_test;
SET search_path = new_keys_test, public;

-- Where the elements first come, those left out that are in `known`.
CREATE FUNCTION truth(keys anyarray, known anyarray) RETURNS anyarray LANGUAGE sql AS $$
	SELECT coalesce(array_agg(k ORDER BY place), '{}')
	FROM (SELECT DISTINCT ON (k) k, place FROM unnest(keys) WITH ORDINALITY e(k, place)
		ORDER BY k, place) x WHERE k <> ALL (known)
$$;
-- The same by what the filter says of each.
CREATE FUNCTION said(filter dedup_filter, keys anyarray) RETURNS anyarray LANGUAGE sql AS $$
	SELECT coalesce(array_agg(k ORDER BY place), '{}')
	FROM (SELECT DISTINCT ON (k) k, place FROM unnest(keys) WITH ORDINALITY e(k, place)
		ORDER BY k, place) x WHERE NOT dedup_contains(filter, k)
$$;
CREATE FUNCTION made(prototype text) RETURNS dedup_filter LANGUAGE plpgsql AS $$
DECLARE
	made dedup_filter;
BEGIN
	EXECUTE 'SELECT ' || prototype INTO made;
	RETURN made;
END $$;
\set QUIET off

-- new to the filter, and the first of its like in the array; each NULL is new

SELECT * FROM dedup_new_keys(dedup_add_all(dedup_filter(100), ARRAY[1, 2, 3]),
	ARRAY[5, 1, 7, NULL, 5, 3, NULL, 9]) k;

-- the filter is as it was: asked again, the same

SELECT array_agg(k ORDER BY i, n) AS again
FROM (SELECT dedup_add(dedup_filter(10), 2) AS f OFFSET 0) x, generate_series(1, 3) i,
	LATERAL dedup_new_keys(f, ARRAY[i, i + 1, i]) WITH ORDINALITY a(k, n);

-- no elements, no array, no filter

SELECT count(*) FROM dedup_new_keys(dedup_filter(10), '{}'::int[]);
SELECT count(*) FROM dedup_new_keys(dedup_filter(10), NULL::int[]);
SELECT count(*) FROM dedup_new_keys(NULL::dedup_filter, ARRAY[1]);
SELECT dedup_new_keys(dedup_filter(10), '{}'::text[]);

-- while the filter is exact, exactly the truth: sorted and in order of sight, searched
-- and indexed; with the lengths around a batch

SELECT proto, array_agg(DISTINCT known) AS known,
	bool_and(ARRAY(SELECT dedup_new_keys(f, keys)) = truth(keys, known_keys)) AS the_truth
FROM (VALUES ('dedup_filter(20000)'), ('dedup_window(20000)'),
		('dedup_method(''ring'', NULL, ''keys=20000'')'),
		('dedup_method(''fifo'', NULL, ''keys=20000'')')) p(proto),
	generate_series(0, 1500, 300) known,
	LATERAL (SELECT ARRAY(SELECT i * 3 FROM generate_series(1, known) i) AS known_keys OFFSET 0) a,
	LATERAL (SELECT dedup_add_all(made(proto), known_keys) AS f OFFSET 0) b,
	(VALUES (1), (33), (1023), (1024), (1025), (2048), (5000)) n(length),
	LATERAL (SELECT ARRAY(SELECT hashint4(i) & 4095 FROM generate_series(1, length) i) AS keys
		OFFSET 0) c
GROUP BY proto ORDER BY proto COLLATE "C";

-- and of every method, when it is full, what it says of each element

SELECT count(*) > 15 AS many, count(*) FILTER (WHERE NOT exact) > 15 AS past_the_exact_form,
	string_agg(x.method, ' ') FILTER (WHERE (ARRAY(SELECT dedup_new_keys(f, a)) = said(f, a)) IS NOT TRUE) AS not_as_asked,
	string_agg(x.method, ' ') FILTER (WHERE (cardinality(said(f, a)) BETWEEN 1 AND cardinality(truth(a, '{}'::int[])) - 1) IS NOT TRUE)
		AS all_or_none
FROM (SELECT method, dedup_agg(empty, i ORDER BY i) AS f
	FROM (SELECT method, made(prototype) AS empty FROM dedup_advise(2500, 0.02) OFFSET 0) a, generate_series(1, 2500) i GROUP BY method) x,
	dedup_stats(f),
	(SELECT ARRAY(SELECT hashint4(i) & 8191 FROM generate_series(1, 3000) i) AS a OFFSET 0) y;
SELECT ARRAY(SELECT dedup_new_keys(f, keys)) = said(f, keys) AS keyed_hash
FROM (SELECT dedup_add_all(dedup_method('bloom', '1kB', 'hash=sip', 7), ARRAY(SELECT generate_series(1,
			500))) AS f, ARRAY(SELECT generate_series(1, 2000)) AS keys OFFSET 0) x;

-- of a filter that never forgets, no element that was added, and of the others at most
-- the rate is missing; the data are fixed, so this cannot flake

SELECT count(*) FILTER (WHERE k <= 20000) AS added,
	count(*) FILTER (WHERE k > 20000) BETWEEN 100000 * (1 - 0.01) - 4 * sqrt(1000) AND 99999 AS others
FROM dedup_new_keys((SELECT dedup_agg(dedup_filter(20000, 0.01), i) FROM generate_series(1, 20000) i),
	ARRAY(SELECT generate_series(1, 120000))) k;

-- two elements are never taken for each other, however small the filter

SELECT count(*) AS all_of_them
FROM dedup_new_keys(dedup_method('bloom', '64B', 'fpr=0.5'), ARRAY(SELECT generate_series(1, 100000)))
	k;

-- types: equal is what SQL calls equal

SELECT array_agg(k) AS numeric FROM dedup_new_keys(dedup_add(dedup_filter(10), 2.00), ARRAY[1.0, 1.00, 2, 3]) k;
SELECT array_agg(k) AS text FROM dedup_new_keys(dedup_add(dedup_filter(10), 'a'::text), ARRAY['a', 'b', '', 'b']) k;
SELECT array_agg(k) AS integers FROM dedup_new_keys(dedup_add(dedup_filter(10), 5::int2), ARRAY[5, 6]::int8[]) k;
SELECT array_agg(k) AS float FROM dedup_new_keys(dedup_add(dedup_filter(10), 'NaN'::float8), ARRAY['NaN', '-0', '0']::float8[]) k;
SELECT array_agg(k ORDER BY k) AS two_dimensions FROM dedup_new_keys(dedup_filter(10), ARRAY[[1, 2], [2, 3]]) k;
SELECT array_agg(k) AS vector FROM dedup_new_keys(dedup_filter(10), '3 1 3'::oidvector) k;
CREATE DOMAIN small AS int CHECK (value < 10);
SELECT pg_typeof(k), k FROM dedup_new_keys(dedup_filter(10), ARRAY[1, 1]::small[]) k;
CREATE DOMAIN few AS int[] CHECK (cardinality(value) < 4);
SELECT k FROM dedup_new_keys(dedup_filter(10), ARRAY[1, 1]::few) k;
CREATE TYPE pair AS (a int, b text);
SELECT * FROM dedup_new_keys(dedup_add(dedup_filter(10), ROW(1, 'x')::pair), ARRAY[ROW(1, 'x'), ROW(1, 'y'), NULL,
	ROW(1, 'y')]::pair[]) k;
SELECT dedup_new_keys(dedup_filter(10), ARRAY[ROW(1, NULL), ROW(1, NULL), NULL]::pair[]);
SELECT * FROM dedup_new_keys(dedup_filter(10), ARRAY[ROW(1, 2), ROW(1, 2)]) AS k(a int, b int);

-- in a target list, beside another set, with LIMIT, and again for each row of a join

SELECT i, dedup_new_keys(dedup_filter(10), ARRAY[i, i, 7]), generate_series(1, 3)
FROM generate_series(6, 7) i;
SELECT i, k FROM generate_series(1, 3) i,
	LATERAL (SELECT k FROM dedup_new_keys(dedup_filter(10), ARRAY[i, i, i + 1, i + 2]) k LIMIT 2) x;
SELECT i, (SELECT dedup_new_keys(dedup_filter(10), ARRAY[i, i + 1]) LIMIT 1) FROM generate_series(1, 3) i;

-- a literal in the filter's place is still a live filter's name, and a value a value

SELECT dedup_create('seen', dedup_filter(100, 0.01, 1)) \gset
SELECT array_agg(k) AS name FROM dedup_new_keys('seen', ARRAY[1, 2]) k;
SELECT array_agg(k) AS name_again FROM dedup_new_keys('seen', ARRAY[1, 2]) k;
SELECT array_agg(k) AS regclass FROM dedup_new_keys('seen'::regclass, ARRAY[2, 3]) k;
SELECT array_agg(k) AS value FROM dedup_new_keys(dedup_snapshot('seen'), ARRAY[3, 4]) k;
SELECT array_agg(k) AS value_again FROM dedup_new_keys(dedup_snapshot('seen'), ARRAY[3, 4]) k;

-- a stored filter is fetched once a query

CREATE TABLE stored AS SELECT dedup_agg(dedup_filter(1000000), i) AS f FROM generate_series(1, 200000) i;
CREATE FUNCTION blocks(query text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) ' || query INTO plan;
	RETURN (plan -> 0 -> 'Plan' ->> 'Shared Hit Blocks')::bigint +
		(plan -> 0 -> 'Plan' ->> 'Shared Read Blocks')::bigint;
END $$;
SELECT blocks('SELECT f || f FROM stored') > 250 AS large,
	blocks('SELECT dedup_new_keys(f, ARRAY[i, -i]) FROM stored, generate_series(1, 1000) i') < 3000
		AS target_list,
	blocks('SELECT count(*) FROM stored, generate_series(1, 1000) i, LATERAL dedup_new_keys(f, ARRAY[i, -i]) k')
		< 3000 AS lateral;
SELECT bool_and(k < 0) AS none_that_is_known, count(*) BETWEEN 990 AND 1000 AS the_others
FROM stored, generate_series(1, 1000) i, LATERAL dedup_new_keys(f, ARRAY[i, -i]) k;

-- the planner knows the length of the array

CREATE FUNCTION rows_of(query text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
	RETURN plan -> 0 -> 'Plan' ->> 'Plan Rows';
END $$;
SELECT rows_of('SELECT * FROM dedup_new_keys(dedup_filter(10), ARRAY[1, 2, 3]) k') AS in_from,
	rows_of('SELECT dedup_new_keys(dedup_filter(10), ''{1,2,3,4}''::int[])') AS target_list;

-- refused

\set VERBOSITY terse
SELECT dedup_new_keys(dedup_filter(10), ARRAY['(1,2)'::point]);
\echo :LAST_ERROR_SQLSTATE
SELECT dedup_new_keys(dedup_filter(10), '{1}');
SELECT * FROM dedup_new_keys(dedup_method('exaloglog', '1kB'), ARRAY[1]) k;
\echo :LAST_ERROR_SQLSTATE
SELECT dedup_new_keys(dedup_method('count_min', '1kB'), '{}'::int[]);
\echo :LAST_ERROR_SQLSTATE
SELECT dedup_new_keys(dedup_filter(10), 1);
SELECT dedup_new_keys('none', ARRAY[1]);
\echo :LAST_ERROR_SQLSTATE
SELECT 1 WHERE dedup_new_keys(dedup_filter(10), ARRAY[1]) = 1;
\echo :LAST_ERROR_SQLSTATE

\set QUIET on
SET client_min_messages = error;
DROP SCHEMA new_keys_test CASCADE;
