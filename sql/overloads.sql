-- What a call of an aggregate means: which function it is, and what the key is. Of each call the
-- first 8 hex digits of the hash are shown that the filter then holds (one key leaves its hash
-- at the end of the filter), or the error. This is what the calls meant before there were
-- aggregates for Citus. Overloads for bigint, bytea and so on would change or refuse some of
-- them: dedup_agg('a', 1), a NULL beside a number, and each type with an implicit cast to bytea.

\set QUIET on
CREATE SCHEMA overloads;
SET search_path = overloads, public;
SET client_min_messages = error;
DO $$ BEGIN
	IF EXISTS (SELECT FROM pg_available_extensions WHERE name = 'citext') THEN
		CREATE EXTENSION citext SCHEMA overloads;
	END IF;
END $$;
RESET client_min_messages;
CREATE DOMAIN d_bigint AS bigint CHECK (value < 1000);
CREATE DOMAIN d_int AS int;
CREATE DOMAIN d_smallint AS smallint;
CREATE DOMAIN d_d_int AS d_int;
CREATE DOMAIN d_text AS text;
CREATE DOMAIN d_uuid AS uuid;
CREATE DOMAIN d_timestamptz AS timestamptz;
CREATE DOMAIN d_timestamp AS timestamp;
CREATE DOMAIN d_date AS date;
CREATE DOMAIN d_bytea AS bytea;
CREATE DOMAIN d_numeric AS numeric(10, 2);
CREATE TYPE colour AS ENUM ('red', 'green');
CREATE TYPE dot AS (x int, y int);

-- as PostGIS's geometry: an implicit cast to bytea; and one to bigint and numeric
CREATE TYPE shape AS (area int);
CREATE FUNCTION to_bytea(shape) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$ SELECT '\x00'::bytea $$;
CREATE CAST (shape AS bytea) WITH FUNCTION to_bytea(shape) AS IMPLICIT;
CREATE TYPE amount AS (cents int);
CREATE FUNCTION to_bigint(amount) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$ SELECT 0::bigint $$;
CREATE FUNCTION to_numeric(amount) RETURNS numeric LANGUAGE sql IMMUTABLE AS $$ SELECT 0::numeric $$;
CREATE CAST (amount AS bigint) WITH FUNCTION to_bigint(amount) AS IMPLICIT;
CREATE CAST (amount AS numeric) WITH FUNCTION to_numeric(amount) AS IMPLICIT;

-- Returns the hash, or the SQLSTATE, of a call.
CREATE FUNCTION outcome(aggregate text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	filter bytea;
BEGIN
	EXECUTE 'SELECT (' || aggregate || ')::dedup_filter::bytea' INTO filter;
	IF length(filter) <= 60 THEN
		RETURN 'no key';
	END IF;
	RETURN left(encode(substr(filter, length(filter) - 7), 'hex'), 8);
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE;
END $$;
CREATE FUNCTION counted(aggregate text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	n bigint;
BEGIN
	EXECUTE 'SELECT ' || aggregate INTO n;
	RETURN n;
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE;
END $$;
\set QUIET off

-- one column, two, and a third; alone and behind a prototype

SELECT key, outcome(format('dedup_agg(%s)', key)) AS key_alone,
	outcome(format('dedup_agg(dedup_filter(100), %s)', key)) AS behind,
	outcome(format('dedup_agg(%s, 1)', key)) AS first, outcome(format('dedup_agg(1, %s)', key)) AS last,
	outcome(format('dedup_agg(''a'', %s)', key)) AS behind_literal,
	outcome(format('dedup_agg(NULL, %s)', key)) AS behind_null,
	outcome(format('dedup_agg(dedup_filter(100), %s, 7)', key)) AS behind_two,
	counted(format('approx_count_distinct(%s)', key)) AS count
FROM unnest(ARRAY[
	$$'x'$$, $$'1'$$, $$''$$, '1', '-1', '5000000000', '1.0', '1.5', '1e3', 'NULL', 'true', $$'x'::text$$, $$'x'::varchar$$, $$'x'::varchar(5)$$,
	$$'x'::name$$, $$'x '::bpchar$$, $$'x'::char(5)$$, $$'x'::"char"$$, $$'x'::d_text$$,
	'1::smallint', '1::int', '1::bigint', '1::numeric', '1.00::numeric', '1::oid', '1::regclass', '1::real', '1::double precision', '1::money', $$'1'::bit$$,
	'1::d_smallint', '1::d_int', '1::d_d_int', '1::d_bigint', '1::d_numeric', '1::xid', $$'1'::xid8$$,
	$$'2026-01-02'::date$$, $$'2026-01-02'::d_date$$, $$'2026-01-02 03:04'::timestamp$$, $$'2026-01-02 03:04'::d_timestamp$$,
	$$'2026-01-02 03:04Z'::timestamptz$$, $$'2026-01-02 03:04Z'::d_timestamptz$$, $$'03:04'::time$$, $$'03:04Z'::timetz$$, $$'1 day'::interval$$,
	$$'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid$$, $$'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::d_uuid$$,
	$$'\x78'::bytea$$, $$'\x78'::d_bytea$$, $$'10.0.0.1'::inet$$, $$'{"a": 1}'::jsonb$$, $$'{"a": 1}'::json$$,
	'ARRAY[1, 2]', 'ARRAY[1, 2]::bigint[]', $$'{1,2}'::smallint[]$$, $$ARRAY['a', 'b']$$, $$'{}'::int[]$$,
	'ROW(1, 2)', 'ROW(1, 2)::dot', $$'red'::colour$$, 'int4range(1, 5)', $$'[1,5)'::int8range$$, 'ROW(1)::shape', 'ROW(1)::amount',
	'1 + 1', '1 + 1::bigint', '(SELECT 1)', 'CASE WHEN true THEN 1 END', 'coalesce(NULL, 1)', $$'x' || 'y'$$, 'NULL::bigint', 'NULL::text', 'NULL::d_int']) WITH ORDINALITY k(key, n)
ORDER BY n;

-- a prototype as a literal without a type is a key, as is every literal

SELECT call, outcome(call) FROM unnest(ARRAY[
	format('dedup_agg(%L, 1)', dedup_filter(100)), format('dedup_agg(%L, 1::bigint)', dedup_filter(100)), format('dedup_agg(%L::dedup_filter, 1)', dedup_filter(100)),
	format('dedup_agg(%L)', dedup_filter(100)), $$dedup_agg('a', 'b')$$, $$dedup_agg(NULL, NULL)$$, $$dedup_agg(NULL, 'a')$$, $$dedup_agg('a', 'b', 'c')$$, 'dedup_agg(1, 2, 3)',
	'dedup_agg(NULL::dedup_filter, 1)', 'dedup_agg(dedup_add(dedup_filter(100), 1), 1)',
	'dedup_agg()', 'dedup_agg(*)', 'dedup_agg(dedup_filter(100))', 'dedup_agg(NULL::dedup_filter)', 'dedup_agg(dedup_filter(100), dedup_filter(100))', 'dedup_agg(dedup_filter(100), dedup_filter(100), 1)',
	'dedup_agg(VARIADIC ARRAY[1, 2])', 'dedup_agg(VARIADIC ARRAY[1, 2]::bigint[])', $$dedup_agg(VARIADIC ARRAY['a', 'b'])$$, $$dedup_agg(VARIADIC '{1,2}')$$, $$dedup_agg(VARIADIC '{1,2}'::int[])$$, 'dedup_agg(VARIADIC 1)',
	'dedup_agg(1, VARIADIC ARRAY[2])', 'dedup_agg(dedup_filter(100), VARIADIC ARRAY[1, 2])', $$dedup_agg('a', VARIADIC ARRAY[1, 2])$$, 'dedup_agg(NULL, VARIADIC ARRAY[1, 2])', 'dedup_agg(VARIADIC NULL::int[])', 'dedup_agg(VARIADIC ARRAY[1, NULL])',
	'dedup_agg(key => 1)', 'dedup_agg(prototype => dedup_filter(100), key => 1)']) WITH ORDINALITY c(call, n)
ORDER BY n;

-- integers of every width are one key, and so are their domains; so is a filter's count of them

SELECT dedup_agg(i::smallint)::text = dedup_agg(i)::text AS small, dedup_agg(i::bigint)::text = dedup_agg(i)::text AS big,
	dedup_agg(i::d_bigint)::text = dedup_agg(i)::text AS domain, dedup_agg(i::text)::text = dedup_agg(i)::text AS text,
	dedup_agg(i::numeric)::text = dedup_agg(i)::text AS numeric
FROM generate_series(1, 900) i;

-- citext, where the server has it, has an implicit cast to text and varchar, and is a key in any case

SELECT to_regtype('citext') IS NULL OR outcome(format(call, 'X', 'citext')) = outcome(format(call, 'x', 'citext'))
	AND outcome(format(call, 'X', 'citext')) <> outcome(format(call, 'X', 'text')) AS any_case
FROM unnest(ARRAY['dedup_agg(%L::%s)', 'dedup_agg(dedup_filter(100), %L::%s)', 'dedup_agg(1, %L::%s)']) call;

-- what may stand in and behind the parentheses

SELECT outcome(format('SELECT %s FROM (VALUES (1), (1), (2)) v(x)', call)) FROM (VALUES
	('dedup_agg(x) FILTER (WHERE x = 1)'), ('dedup_agg(DISTINCT x)'), ('dedup_agg(x ORDER BY x DESC)'), ('dedup_agg(dedup_filter(100), x ORDER BY x)'),
	('dedup_agg(ALL x)'), ('dedup_agg(DISTINCT x, x + 1 ORDER BY x)'), ('dedup_agg(x) WITHIN GROUP (ORDER BY x)')) v(call);
SELECT x, approx_count_distinct(x) OVER (ORDER BY n) AS so_far, dedup_count(dedup_agg(x) OVER (ORDER BY n)) AS keys,
	dedup_count(dedup_agg(dedup_filter(100), x) OVER (PARTITION BY x ORDER BY n)) AS of_one,
	dedup_count(dedup_agg(x) OVER (ORDER BY n ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)) AS near,
	approx_count_distinct(x) FILTER (WHERE x > 1) OVER (ORDER BY n) AS larger
FROM (VALUES (1, 1), (2, 1), (3, 2), (4, NULL), (5, 3)) v(n, x);

-- parameters: without a type an error of the server's, with one the key that the literal is

\set QUIET on
CREATE FUNCTION prepared(query text, value text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	filter dedup_filter;
BEGIN
	EXECUTE 'PREPARE p AS SELECT ' || query;
	EXECUTE format('EXECUTE p(%s)', value) INTO filter;
	DEALLOCATE p;
	RETURN outcome(quote_literal(filter));
EXCEPTION WHEN OTHERS THEN
	IF EXISTS (SELECT FROM pg_prepared_statements WHERE name = 'p') THEN
		DEALLOCATE p;
	END IF;
	RETURN SQLSTATE;
END $$;
\set QUIET off
SELECT query, prepared(query, value) FROM (VALUES
	('dedup_agg($1)', '1'), ('dedup_agg(dedup_filter(100), $1)', '1'), ('dedup_agg($1, 1)', '1'), ('dedup_agg($1, 1::bigint)', '1'), ('dedup_agg(1, $1)', '1'),
	('dedup_agg($1, $2)', '1, 2'), ($$dedup_agg($1, 'x'::text)$$, '1'), ('dedup_agg($1, 1, 2)', '1'), ('dedup_agg(VARIADIC $1)', $$'{1}'$$),
	('dedup_agg($1::bigint)', '1'), ('dedup_agg($1::text)', '1'), ('dedup_agg($1::dedup_filter, 1)', 'dedup_filter(100)'), ('dedup_agg($1::d_int)', '1'), ('dedup_agg($1 + 1)', '0')) v(query, value);

\set QUIET on
SET client_min_messages = error;
DROP SCHEMA overloads CASCADE;
