-- The forms of keys: several columns, literals, VARIADIC arrays, records, long values, and the effect of a NULL.

\set QUIET on
CREATE SCHEMA keys_test;
SET search_path = keys_test, public;

-- whether a filter with the one key has the other, each a list of columns
CREATE FUNCTION one_key(a text, b text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	found boolean;
BEGIN
	EXECUTE format('SELECT dedup_contains(dedup_add(dedup_filter(10), %s), %s)', a, b) INTO found;
	RETURN found;
END $$;
\set QUIET off

-- the columns of a key have an order and borders, and their number counts

SELECT one_key('1, 2', '1, 2') AS itself, one_key('1, 2', '2, 1') AS turned,
	one_key($$'ab', 'c'$$, $$'a', 'bc'$$) AS other_border,
	one_key($$'a'$$, $$'a', ''$$) AS one_more, one_key($$'', 'a'$$, $$'a', ''$$) AS empty_elsewhere,
	one_key('1, 1', '1') AS twice,
	one_key('1, 2', 'ROW(1, 2)') AS record, one_key('1, 2', 'ARRAY[1, 2]') AS "array";

-- one integer among several columns is one key at every width, too

SELECT one_key($$'a', 5::int2$$, $$'a', 5::int8$$) AS int2_int8,
	one_key('5::int4, 2.0', '5::int8, 2.000') AS numeric_too;

-- a literal needs no cast, and is the text

SELECT one_key($$'a'$$, $$'a'::text$$) AS text,
	one_key($$'a', '1'$$, $$'a'::text, '1'::varchar$$) AS columns,
	one_key($$'1'$$, '1') AS text_is_no_number,
	one_key($$E'\\x61'$$, $$'\x61'::bytea$$) AS nor_bytes;

-- a literal is a column of an aggregate or a window function, the first one too

SELECT dedup_count(dedup_agg('click', i)), dedup_count(dedup_agg(i, 'click')),
	dedup_count(dedup_agg('click')),
	dedup_contains(dedup_agg('click', i), 'click'::text, 3) AS found FROM generate_series(1, 9) i;
SELECT count(*) FILTER (WHERE a) AS pairs, count(*) FILTER (WHERE b) AS alone
FROM (SELECT dedup_is_new('click', i) OVER w AS a, dedup_is_new('click') OVER w AS b
	FROM generate_series(1, 9) i WINDOW w AS (ORDER BY i)) x;

-- a parameter of a prepared statement is a key like a column

PREPARE ask(int8, text) AS SELECT dedup_contains(dedup_add(dedup_filter(10), 7, 'x'), $1, $2);
EXECUTE ask(7, 'x');
EXECUTE ask(8, 'x');
EXECUTE ask(7, NULL);
DEALLOCATE ask;

-- VARIADIC spreads an array over the columns

SELECT one_key('1, 2, 3', 'VARIADIC ARRAY[1, 2, 3]') AS spread,
	one_key('VARIADIC ARRAY[1, 2, 3]', '1, 2, 3') AS added_so,
	one_key($$'a', 'b'$$, $$VARIADIC ARRAY['a', 'b']$$) AS of_text,
	one_key('1', 'VARIADIC ARRAY[1]') AS one_column,
	one_key('1, 2, 3', 'ARRAY[1, 2, 3]') AS not_spread,
	one_key('1, 2, 3', $$VARIADIC '[5:7]={1,2,3}'::int[]$$) AS bounds_do_not_count,
	one_key('1, 2, 3, 4', 'VARIADIC ARRAY[[1, 2], [3, 4]]') AS in_order;
SELECT dedup_count(dedup_agg(VARIADIC ARRAY[i % 3, i % 2])) AS six,
	dedup_count(dedup_agg(dedup_window(100), VARIADIC ARRAY[i % 3, i % 2])) AS six_again,
	dedup_contains(dedup_agg(VARIADIC ARRAY[i % 3, i % 2]), 2, 1) AS spread
FROM generate_series(1, 60) i;

-- a VARIADIC array that is NULL, or holds one, is a NULL key; an empty one is none, nor is nothing

SELECT dedup_count(dedup_add(dedup_filter(10), VARIADIC NULL::int[])) AS null_array,
	dedup_count(dedup_add(dedup_filter(10), VARIADIC ARRAY[1, NULL])) AS null_element,
	dedup_contains(dedup_filter(10), VARIADIC NULL::int[]) IS NULL
		AND dedup_contains(dedup_filter(10), VARIADIC ARRAY[1, NULL]) IS NULL AS asked;
\set VERBOSITY terse
SELECT dedup_add(dedup_filter(10), VARIADIC ARRAY[]::int[]);
SELECT dedup_add(dedup_filter(10), VARIADIC 1);
SELECT dedup_add(dedup_filter(10));
\set VERBOSITY default

-- a key with a NULL column is no key: it leaves a filter as it is, and the answer is NULL

SELECT dedup_add(f, NULL::text)::text = f::text AND dedup_add(f, 1, NULL::text)::text = f::text
	AND dedup_add(f, NULL)::text = f::text AS as_it_is,
	dedup_contains(f, 1, NULL::int) IS NULL AND is_new(f, NULL::int, 1) IS NULL AS asked
FROM (VALUES (dedup_add(dedup_filter(10), 1))) v(f);

-- a key may have as many columns as a function arguments

SELECT one_key(columns, columns) AS itself, one_key(columns, columns || ' + 1') AS other
FROM (SELECT string_agg(i::text, ', ' ORDER BY i) AS columns FROM generate_series(1, 99) i) x;
SELECT one_key('VARIADIC ARRAY(SELECT generate_series(1, 5000))',
		'VARIADIC ARRAY(SELECT generate_series(1, 5000))') AS itself,
	one_key('VARIADIC ARRAY(SELECT generate_series(1, 5000))',
			'VARIADIC ARRAY(SELECT generate_series(1, 4999))') AS other;

-- records: by their columns, whatever their type is called; NULLs in them are equal

\set QUIET on
CREATE TYPE pair AS (a int, b text);
CREATE TYPE wide_pair AS (x int8, y varchar);
CREATE TYPE outer_pair AS (p pair, q int[]);
\set QUIET off
SELECT one_key($$ROW(1, 'a'::text)$$, $$ROW(1, 'a'::text)::pair$$) AS anonymous,
	one_key($$ROW(1, 'a')::pair$$, $$ROW(1, 'a')::wide_pair$$) AS other_type,
	one_key($$ROW(1, NULL)::pair$$, $$ROW(1, NULL)::pair$$) AS null_column,
	one_key($$ROW(1, NULL)::pair$$, $$ROW(1, '')::pair$$) AS null_is_not_empty,
	one_key($$ROW(NULL, 'a')::pair$$, $$ROW('a', NULL)::text::text$$) AS nor_elsewhere,
	one_key('ROW()', 'ROW()') AS empty,
	one_key('ROW(NULL)', 'ROW(NULL, NULL)') AS number_counts;
SELECT one_key($$ROW(ROW(1, 'a')::pair, ARRAY[1])::outer_pair$$,
		$$ROW(ROW(1, 'a'::text), ARRAY[1])$$) AS nested,
	one_key($$ROW(ROW(ROW(ROW(1))))$$, $$ROW(ROW(ROW(ROW(1))))$$) AS deep,
	one_key($$ROW(ROW(ROW(ROW(1))))$$, $$ROW(ROW(ROW(ROW(2))))$$) AS deep_other,
	one_key($$ARRAY[ROW(1, 'a'), ROW(2, 'b')]$$, $$ARRAY[ROW(1, 'a'), ROW(2, 'b')]$$) AS in_array,
	one_key($$ARRAY[ROW(1, 'a'), ROW(2, 'b')]$$, $$ARRAY[ROW(1, 'a'), ROW(2, 'c')]$$)
		AS in_array_other,
	one_key($$ARRAY[ROW(ARRAY[ROW(1)])]$$, $$ARRAY[ROW(ARRAY[ROW(1)])]$$) AS both;
SELECT dedup_count(dedup_agg(CASE WHEN i % 2 = 0 THEN ROW(i % 3, 'x'::text) ELSE ROW(i % 5) END))
	= 3 + 5 AS of_two_types FROM generate_series(1, 60) i;

-- rows of a table, when columns were dropped and added since

\set QUIET on
CREATE TABLE people (id int, gone text, name text);
INSERT INTO people VALUES (1, 'x', 'Ann'), (2, 'y', NULL);
\set QUIET off
SELECT dedup_agg(p) AS before FROM people p \gset
ALTER TABLE people DROP COLUMN gone;
SELECT dedup_count(dedup_agg(p)) AS keys,
	bool_and(dedup_contains(dedup_add(dedup_filter(10), p), p)) AS found,
	bool_or(dedup_contains(dedup_filter_in(:'before'), p)) AS found_with_what_is_gone,
	bool_and(dedup_contains(dedup_add(dedup_filter(10), p), ROW(p.id, p.name))) AS by_its_columns
FROM people p;
ALTER TABLE people ADD COLUMN age int DEFAULT 30;
INSERT INTO people VALUES (2, NULL, 30), (2, NULL, 31);
SELECT dedup_count(dedup_agg(p)) AS keys,
	dedup_count(dedup_agg(p)) = count(DISTINCT p) AS as_distinct FROM people p;

-- a view's row, a subquery's, a VALUES row

SELECT dedup_count(dedup_agg(x)) AS subquery
FROM (SELECT i % 4 AS a, 'b' AS b FROM generate_series(1, 20) i) x;
SELECT dedup_count(dedup_agg(v)) AS "values" FROM (VALUES (1, 'a'), (1, 'a'), (2, 'b')) v;

-- a value is the same key compressed, stored out of line, or in memory

\set QUIET on
CREATE TABLE big (what text, k text, b bytea, a text[], r pair, d numeric, j jsonb);
ALTER TABLE big ALTER k SET STORAGE extended;
INSERT INTO big SELECT 'compressed', x, x::bytea, ARRAY[x, x], ROW(1, x)::pair,
	repeat('7', 40000)::numeric, to_jsonb(x) FROM repeat('x', 100000) x;
ALTER TABLE big ALTER k SET STORAGE external;
INSERT INTO big SELECT 'external', x, x::bytea, ARRAY[x, x], ROW(1, x)::pair,
	repeat('7', 40000)::numeric, to_jsonb(x)
	FROM (SELECT string_agg(md5(i::text), '') FROM generate_series(1, 32768) i) s(x);
\set QUIET off
SELECT what, pg_column_size(k) < 10000 AS compressed, length(k) AS length,
	dedup_contains(dedup_add(dedup_filter(10), k), k || '') AS text,
	dedup_contains(dedup_add(dedup_filter(10), k || ''), k) AS asked_so,
	dedup_contains(dedup_add(dedup_filter(10), b), (k || '')::bytea) AS bytes,
	dedup_contains(dedup_add(dedup_filter(10), a), ARRAY[k || '', k || '']) AS "array",
	dedup_contains(dedup_add(dedup_filter(10), r), ROW(1, k || '')::pair) AS record,
	dedup_contains(dedup_add(dedup_filter(10), d), d + 0) AS number,
	dedup_contains(dedup_add(dedup_filter(10), j), to_jsonb(k || '')) AS jsonb,
	dedup_contains(dedup_add(dedup_filter(10), k, 1), k || '', 1) AS column,
	dedup_contains(dedup_add(dedup_filter(10), k), k || 'x') AS another
FROM big ORDER BY what;
SELECT dedup_count(dedup_agg(k)), dedup_count(dedup_agg(k || '', b, a)), dedup_count(dedup_agg(r))
FROM (SELECT * FROM big UNION ALL SELECT * FROM big) x;
SELECT count(*) FILTER (WHERE n) AS new_of_four
FROM (SELECT dedup_is_new(k, r) OVER () AS n FROM (SELECT * FROM big UNION ALL SELECT * FROM big) x) y;

\set QUIET on
SET client_min_messages = warning;
DROP SCHEMA keys_test CASCADE;
