-- dedup_rows(query, key_column...): the rows of a query whose key is new. The results are compared with DISTINCT ON
-- in the query's order.

\set QUIET on
CREATE SCHEMA rows_test;
SET search_path = rows_test, public;
CREATE TABLE clicks AS SELECT i, i % 7 AS day, CASE WHEN i % 11 > 0 THEN i * 7 % 31 END AS u,
	CASE WHEN i % 13 > 0 THEN 'ad' || i % 5 END AS ad FROM generate_series(1, 2000) i;
CREATE TABLE long_table AS SELECT i, hashint4(i) & 131071 AS u FROM generate_series(1, 300000) i;
ANALYZE clicks, long_table;
\set QUIET off

-- the first row of each key, in the query's order, and no other

SELECT * FROM dedup_rows('SELECT i, day, ad FROM clicks ORDER BY i', 'day') AS c(i int, day int, ad text);
SELECT * FROM dedup_rows('SELECT i, day, ad FROM clicks ORDER BY i DESC', 'ad') AS c(i int, day int, ad text);

-- NULLs are one key, as in DISTINCT; several columns are one key

CREATE FUNCTION as_distinct_on(columns text, OUT keys bigint, OUT same boolean) LANGUAGE plpgsql AS $$
BEGIN
	CREATE TEMP TABLE got AS SELECT *
	FROM dedup_rows('SELECT * FROM clicks ORDER BY i', VARIADIC string_to_array(columns, ','))
		AS c(i int, day int, u int, ad text);
	EXECUTE format('CREATE TEMP TABLE truth AS SELECT DISTINCT ON (%1$s) * FROM clicks ORDER BY %1$s, i',
		columns);
	keys := (SELECT count(*) FROM truth);
	same := keys = (SELECT count(*) FROM got) AND NOT EXISTS (TABLE got EXCEPT TABLE truth);
	DROP TABLE got, truth;
END $$;
SELECT columns, t.*
FROM (VALUES ('u'), ('u,ad'), ('ad,u,day'), ('i'), ('u,u'), ('day,u,day')) c(columns),
	as_distinct_on(columns) t;

-- a prototype chooses the filter; with each method the same while it is exact

SELECT method, count(*) AS rows, count(DISTINCT u) + 1 AS keys
FROM dedup_advise(1000) a,
	LATERAL dedup_rows(dedup_method(a.method, NULL, 'keys=1000'), 'SELECT u FROM clicks', 'u') AS c(u int)
WHERE a.method IN ('bloom', 'recent', 'sqf', 'quotient', 'lru') GROUP BY method
ORDER BY method COLLATE "C";
SELECT count(*) AS typed_literal FROM dedup_rows(dedup_filter(1000)::text::dedup_filter, 'SELECT u FROM clicks', 'u')
	AS c(u int);

-- exact while the hashes fit into hash_mem

SET work_mem = '16MB';
SELECT count(*) = count(DISTINCT u) AND count(*) = (SELECT count(DISTINCT u) FROM long_table) AS exact
FROM dedup_rows('TABLE long_table', 'u') AS c(i int, u int);

-- when they do not, a window of rate 0.001: fewer than one key in a thousand is lost, and
-- none comes twice whose repeat is not far away; the data are fixed, so this cannot flake

SET work_mem = '64kB';
SET hash_mem_multiplier = 1;
SELECT count(DISTINCT key) = count(*) AS none_twice,
	count(*) BETWEEN 100000 * (1 - 0.001) - 4 * sqrt(100) AND 99999 AS few_lost
FROM dedup_rows('SELECT i / 3 AS key FROM generate_series(3, 300002) i', 'key') AS c(key int);

-- by one that never forgets no key comes twice, however many there are; one warning a call
-- site says that it is too small

SELECT count(*) = count(DISTINCT u) AS none_twice, count(*) > 1000 AS some
FROM dedup_rows(dedup_filter(5000, 0.001), 'TABLE long_table', 'u') AS c(i int, u int);
SELECT count(*) = 3 * count(DISTINCT k) AS the_same_each_time
FROM generate_series(1, 3) i,
	LATERAL dedup_rows(dedup_filter(20 + i * 0), 'SELECT k FROM generate_series(1, 100) k', 'k') AS c(k int);
SELECT count(*) > 150 AS a_window_forgets
FROM dedup_rows(dedup_window(20), 'SELECT k FROM generate_series(1, 200) k', 'k') AS c(k int);

-- what passes lies in work_mem, and on disk beyond it; what does not pass takes nothing

CREATE FUNCTION temp_blocks(query text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) ' || query INTO plan;
	RETURN plan -> 0 -> 'Plan' ->> 'Temp Written Blocks';
END $$;
SELECT temp_blocks($$SELECT * FROM dedup_rows('TABLE long_table', 'i') AS c(i int, u int)$$) > 0
	AS all_pass,
	temp_blocks($$SELECT * FROM dedup_rows('SELECT i, u % 1000 AS u FROM long_table', 'u') AS c(i int, u int)$$)
	AS few_pass;
RESET work_mem;
RESET hash_mem_multiplier;

-- key columns are names in the query's result, as they are there: not those of the list,
-- not folded, not quoted

SELECT * FROM dedup_rows('SELECT 1 AS "A b", 2 AS "say ""hi"""', 'A b', 'say "hi"') AS c(x int, y int);
SELECT * FROM dedup_rows('VALUES (1, 2), (1, 3)', 'column1') AS c(x int, y int);
SELECT * FROM dedup_rows('SELECT 1 AS z, 2 AS z, 3 AS k', 'k') AS c(x int, y int, k int);
SELECT * FROM dedup_rows('VALUES (1, 2), (1, 3)', VARIADIC ARRAY[['column1', 'column2']]) AS c(x int, y int);
SELECT * FROM dedup_rows(query => 'SELECT 1 AS a', VARIADIC key_columns => ARRAY['a']) AS c(a int);
SELECT * FROM dedup_rows('SELECT 1 AS a, 2 AS b, 3 AS c', 'a', 'b', 'c') AS c(a int, b int, c int);

-- any SELECT

SELECT * FROM dedup_rows('WITH RECURSIVE r(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM r WHERE i < 10) SELECT i, i % 3 AS k FROM r ORDER BY i',
	'k') AS c(i int, k int);
SELECT * FROM dedup_rows('(SELECT 1 AS k) UNION ALL SELECT 1 UNION ALL SELECT 2 ORDER BY k DESC', 'k') AS c(k int);
SELECT * FROM dedup_rows(' -- which
	SELECT day, count(*) FROM clicks GROUP BY day HAVING day < 2 ORDER BY day LIMIT 2;; /* done */', 'count', 'day')
	AS c(day int, n bigint);
SELECT count(*) AS locked FROM dedup_rows('SELECT day FROM clicks FOR UPDATE', 'day') AS c(day int);
SELECT count(*) AS none FROM dedup_rows('SELECT day FROM clicks WHERE false', 'day') AS c(day int);
SELECT * FROM dedup_rows($$SELECT * FROM dedup_rows('SELECT i, day, u FROM clicks ORDER BY i', 'day', 'u')
	AS c(i int, day int, u int)$$, 'day') AS c(i int, day int, u int);

-- any type; equal is what SQL calls equal

SELECT * FROM dedup_rows('VALUES (1.0), (1.00), (2), (NULL), (NULL)', 'column1') AS c(a numeric);
SELECT count(*) AS padded FROM dedup_rows($$SELECT a::char(5) FROM (VALUES ('a'), ('a  '), ('b')) v(a)$$, 'a') AS c(a char(5));
SELECT count(*) AS whole_rows FROM dedup_rows('SELECT c FROM clicks c', 'c') AS c(c clicks);
SELECT * FROM dedup_rows('SELECT ROW(day, 1) AS r FROM clicks WHERE i < 10 ORDER BY i', 'r') AS c(r record) LIMIT 2;
SELECT count(*) AS long, min(length(t)) FROM dedup_rows($$SELECT i, (SELECT string_agg(md5(i % 20 || ':' || j), '')
	FROM generate_series(1, 400) j) AS t FROM generate_series(1, 100) i$$, 't') AS c(i int, t text);
CREATE TABLE toasted AS SELECT i, (SELECT string_agg(md5(i % 20 || ':' || j), '') FROM generate_series(1, 400) j) AS t
FROM generate_series(1, 100) i;
SELECT count(*) AS long, bool_and(c.t = o.t) AS as_stored
FROM dedup_rows('TABLE toasted', 't') AS c(i int, t text) JOIN toasted o USING (i);

-- in a target list: the columns are the query's

SELECT dedup_rows('SELECT i, day FROM clicks WHERE day < 3 ORDER BY i', 'day');
SELECT to_json(r) FROM (SELECT dedup_rows('SELECT i, day FROM clicks ORDER BY i', 'day') AS r) x LIMIT 2;
SELECT dedup_rows(q, 'k') FROM (VALUES ('SELECT 1 AS k'), ('SELECT 2 AS k')) v(q);

-- the definition list has the query's types; lengths only if it names any

CREATE FUNCTION outcome(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	detail text;
	hint text;
BEGIN
	EXECUTE statement;
	RETURN 'no error';
EXCEPTION WHEN others THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RETURN SQLSTATE || ' ' || SQLERRM || CASE WHEN SQLERRM LIKE 'function % does not exist' THEN '' ELSE coalesce(E'\n\t' || nullif(detail, ''), '') || coalesce(E'\n\t' || nullif(hint, ''), '') END;
END $$;
\pset format unaligned
\pset tuples_only on
\pset fieldsep '\n\t'
SELECT list, outcome(format($$SELECT * FROM dedup_rows('SELECT 1 AS a, ''x''::varchar(3) AS "B"', 'a') AS c(%s)$$, list))
FROM (VALUES ('a int, b varchar(3)'), ('a int, b varchar'), ('a int, b varchar(4)'), ('a int, b text'),
	('a bigint, b varchar'), ('a int'), ('a int, b varchar, c int'), ('b varchar, a int')) v(list);
SELECT outcome($$SELECT * FROM dedup_rows('SELECT 1::numeric AS a', 'a') AS c(a numeric(5, 2))$$);
SELECT outcome($$SELECT * FROM dedup_rows('SELECT 1 AS a', 'a')$$);
SELECT outcome($$SELECT dedup_rows(q, 'k') FROM (VALUES ('SELECT 1 AS k'), ('SELECT ''x''::text AS k')) v(q)$$);

-- the arguments

SELECT call, outcome('SELECT ' || call)
FROM (VALUES ($$dedup_rows(NULL, 'a')$$), ($$dedup_rows('SELECT 1 AS a', NULL)$$),
	($$dedup_rows('SELECT 1 AS a', 'a', NULL)$$), ($$dedup_rows('SELECT 1 AS a', VARIADIC NULL)$$),
	($$dedup_rows('SELECT 1 AS a', VARIADIC '{}')$$), ($$dedup_rows('SELECT 1 AS a')$$),
	($$dedup_rows(dedup_method('exaloglog', '1kB'), 'SELECT 1 AS a', 'a')$$),
	($$dedup_rows(dedup_method('count_min', '1kB'), 'SELECT 1 AS a WHERE false', 'a')$$),
	($$dedup_rows('SELECT 1 AS a, 2 AS "B"', 'b')$$), ($$dedup_rows('SELECT 1 AS a, 2 AS "B"', 'a', '"B"')$$),
	($$dedup_rows('SELECT', 'a')$$), ($$dedup_rows('SELECT 1 AS a, 2 AS b, 3 AS a', 'a')$$),
	($$dedup_rows('SELECT point(1, 2) AS a', 'a')$$),
	($$dedup_rows(NULL::dedup_filter, 'SELECT 1 AS a', 'a')$$),
	($$dedup_rows(dedup_add(dedup_filter(10), 1), 'SELECT 1 AS a', 'a')$$),
	($$dedup_rows(dedup_filter(10), NULL, 'a')$$),
	($$dedup_rows(dedup_filter(10), 'SELECT 1 AS a', VARIADIC NULL)$$),
	($$dedup_rows(dedup_filter(10), 'SELECT 1 AS a')$$),
	($$dedup_rows(dedup_method('quotient', NULL, 'keys=10'), 'SELECT i FROM clicks', 'i')$$)) v(call);

-- only a query that returns rows and changes nothing; nothing of it runs

CREATE TABLE target (a int);
CREATE VIEW target_view AS TABLE target;
CREATE RULE nothing AS ON UPDATE TO target_view DO INSTEAD NOTHING;
SELECT query, outcome(format('SELECT dedup_rows(%L, ''a'')', query))
FROM (VALUES (''), (' -- only a comment'), (';'), ('SELECT 1 AS a; SELECT 2 AS a'),
	('INSERT INTO target VALUES (1) RETURNING a'), ('UPDATE target SET a = 1 RETURNING a'),
	('DELETE FROM target RETURNING a'), ('INSERT INTO target VALUES (1)'),
	('WITH w AS (INSERT INTO target VALUES (1) RETURNING a) SELECT a FROM w'),
	('UPDATE target_view SET a = 1'), ('SELECT 1 AS a INTO made'), ('CREATE TABLE made AS SELECT 1 AS a'),
	('EXPLAIN SELECT 1 AS a'), ('SHOW work_mem'), ('DECLARE c CURSOR FOR SELECT 1 AS a'), ('FETCH c'),
	('EXECUTE p'), ('COPY target TO STDOUT'), ('COMMIT'), ('DO $x$BEGIN END$x$'),
	('SELECT $1 AS a'), ('SELEC 1'), ('SELECT a FROM nowhere'), ('SELECT 1 / 0 AS a')) v(query);
SELECT 'rows of target', count(*) FROM target;
\pset tuples_only off
\pset fieldsep '|'
\pset format aligned

-- errors of the query are the caller's

\set SHOW_CONTEXT never
SELECT count(*) FROM dedup_rows('SELECT 1 / (1000 - i) AS a FROM clicks ORDER BY i', 'a') AS c(a int);
SELECT count(*) FROM dedup_rows('SELECT i, nothing FROM clicks', 'a') AS c(a int);
DO $$
DECLARE
	n int;
BEGIN
	FOR most IN 998..1001 LOOP
		BEGIN
			SELECT count(*) INTO n
			FROM dedup_rows(format('SELECT 1 / (1000 - i) AS a FROM clicks WHERE i <= %s', most), 'a') AS c(a int);
			RAISE NOTICE '%: % rows', most, n;
		EXCEPTION WHEN division_by_zero THEN
			RAISE NOTICE '%: %', most, SQLERRM;
		END;
	END LOOP;
END $$;

-- it sees what its transaction has done, in a function also what its command has done

BEGIN;
INSERT INTO clicks VALUES (2001, 99, 99, 'new');
SELECT count(*) AS with_own FROM dedup_rows('SELECT day FROM clicks', 'day') AS c(day int);
ROLLBACK;
CREATE FUNCTION adds(new int) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO target VALUES (new);
	RETURN (SELECT count(*) FROM dedup_rows('TABLE target', 'a') AS c(a int));
END $$;
SELECT adds(i) FROM generate_series(1, 3) i;
INSERT INTO target SELECT * FROM dedup_rows('SELECT a + 2 AS a FROM target, generate_series(1, 2)', 'a') AS c(a int);
SELECT array_agg(a ORDER BY a) AS twice_the_3 FROM target;

-- in a read-only transaction it reads

BEGIN READ ONLY;
SELECT count(*) AS read FROM dedup_rows('SELECT day FROM clicks', 'day') AS c(day int);
SELECT count(*) FROM dedup_rows('SELECT adds(1) AS a', 'a') AS c(a bigint);
ROLLBACK;

-- cursors, joins, prepared statements, functions

BEGIN;
DECLARE back_and_forth SCROLL CURSOR FOR
SELECT * FROM dedup_rows('SELECT i, day FROM clicks ORDER BY i', 'day') AS c(i int, day int);
FETCH 2 FROM back_and_forth;
FETCH BACKWARD 1 FROM back_and_forth;
FETCH LAST FROM back_and_forth;
COMMIT;
SELECT d, c.* FROM generate_series(1, 3) d,
	LATERAL dedup_rows(format('SELECT u, i FROM clicks WHERE i <= %s ORDER BY i', d), 'u') AS c(u int, i int);
SELECT d, i FROM generate_series(5, 8) d
LEFT JOIN dedup_rows('SELECT i, day FROM clicks ORDER BY i', 'day') AS c(i int, day int) ON c.day = d
ORDER BY d;
PREPARE count_of(text, text) AS SELECT count(*) FROM dedup_rows($1, $2) AS c(a int);
SET plan_cache_mode = force_generic_plan;
EXECUTE count_of('SELECT day FROM clicks', 'day');
EXECUTE count_of('SELECT u FROM clicks', 'u');
EXECUTE count_of('SELECT ad FROM clicks', 'ad');
RESET plan_cache_mode;
CREATE FUNCTION first_of_day() RETURNS TABLE (i int, day int) LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY SELECT * FROM dedup_rows('SELECT i, day FROM clicks ORDER BY i', 'day') AS c(i int, day int);
END $$;
SELECT count(*) FROM first_of_day();
CREATE FUNCTION depth(n int) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	RETURN CASE WHEN n = 0 THEN 0 ELSE
		(SELECT a + 1 FROM dedup_rows(format('SELECT rows_test.depth(%s) AS a', n - 1), 'a') AS c(a bigint)) END;
END $$;
SELECT depth(20);

-- with the rights of who calls it, row security included; in a SECURITY DEFINER function
-- those of its owner, and by the search path that holds there

CREATE ROLE regress_dedup_rows;
GRANT USAGE ON SCHEMA rows_test TO regress_dedup_rows;
CREATE TABLE secrets (owner name, a int);
INSERT INTO secrets VALUES ('regress_dedup_rows', 1), ('other', 2), ('regress_dedup_rows', 1), ('regress_dedup_rows', 3);
CREATE FUNCTION as_owner(query text) RETURNS SETOF int LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog AS $$
	SELECT a FROM public.dedup_rows(query, 'a') AS c(a int)
$$;
SET ROLE regress_dedup_rows;
SELECT * FROM dedup_rows('SELECT a FROM secrets', 'a') AS c(a int);
SELECT array_agg(a) FROM as_owner('SELECT a FROM secrets') a;
SELECT array_agg(a) AS of_owner FROM as_owner('SELECT a FROM rows_test.secrets') a;
RESET ROLE;
ALTER TABLE secrets ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON secrets USING (owner = current_user);
GRANT SELECT ON secrets TO regress_dedup_rows;
SET ROLE regress_dedup_rows;
SELECT array_agg(a) AS own FROM dedup_rows('SELECT a FROM secrets', 'a') AS c(a int);
SELECT array_agg(a) AS of_owner FROM as_owner('SELECT a FROM rows_test.secrets') a;
RESET ROLE;
SET search_path = pg_catalog;
SELECT count(*) FROM public.dedup_rows('SELECT day FROM rows_test.clicks', 'day') AS c(day int);
SET search_path = rows_test, public;

-- a timeout ends it, whether rows pass or not

SET statement_timeout = '200ms';
SELECT count(*) FROM dedup_rows('SELECT a.i % 10 AS a FROM clicks a, clicks b, clicks c, clicks d', 'a') AS c(a int);
SELECT count(*) FROM dedup_rows('SELECT a.i FROM clicks a, clicks b, clicks c, clicks d', 'i') AS c(i int);
RESET statement_timeout;

\set QUIET on
SET client_min_messages = error;
DROP SCHEMA rows_test CASCADE;
DROP ROLE regress_dedup_rows;
