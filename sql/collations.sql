-- Strings that a collation calls equal are one key; so are citext values. A check passes without a test if the server
-- has no ICU, or no citext.

\set QUIET on
SET client_min_messages = warning;
CREATE SCHEMA collations_test;
SET search_path = collations_test, public;
DO $$ BEGIN
	CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
	CREATE COLLATION noaccent (provider = icu, locale = 'und-u-ks-level1', deterministic = false);
	CREATE TABLE people (name text COLLATE nocase, plain text, accents text COLLATE noaccent,
			c char(9) COLLATE nocase, v varchar COLLATE nocase);
	INSERT INTO people VALUES ('Ann', 'Ann', 'Zoë', 'Ann', 'Ann'),
		('ann', 'ann', 'zoe', 'ann', 'ann'), ('ANN', 'Ann', 'ZOË', 'ANN', 'ANN'),
		('Bob', 'Bob', 'Zoe', 'Bob', 'Bob');
	CREATE DOMAIN nickname AS text COLLATE nocase;
	CREATE TYPE nocase_range AS RANGE (subtype = text, collation = nocase);
	CREATE TYPE named AS (n text COLLATE nocase, o text);
EXCEPTION WHEN feature_not_supported THEN NULL; END $$;
DO $$ BEGIN CREATE EXTENSION citext SCHEMA collations_test; EXCEPTION WHEN undefined_file
	OR feature_not_supported THEN NULL; END $$;
-- the answer of a query that needs nondeterministic collations, or citext
CREATE FUNCTION icu(query text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	answer boolean := true;
BEGIN
	IF to_regtype('named') IS NOT NULL THEN
		EXECUTE query INTO answer;
	END IF;
	RETURN answer;
END $$;
CREATE FUNCTION ci(query text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	answer boolean := true;
BEGIN
	IF to_regtype('citext') IS NOT NULL THEN
		EXECUTE query INTO answer;
	END IF;
	RETURN answer;
END $$;
\set QUIET off

-- in a nondeterministic collation equal strings are one key

SELECT icu($$ SELECT dedup_contains(dedup_add(dedup_filter(10), 'Ann'::text COLLATE nocase),
			'ANN'::text COLLATE nocase) $$) AS one_key,
	icu($$ SELECT is_new(dedup_add(dedup_filter(10), 'Ann'::text COLLATE nocase),
				'Anna'::text COLLATE nocase) $$) AS another,
	icu($$ SELECT dedup_contains(dedup_add(dedup_filter(10), 'Zoë'::text COLLATE noaccent),
				'zoe'::text COLLATE noaccent) $$) AS without_accents,
	icu($$ SELECT is_new(dedup_add(dedup_filter(10), 'Zoë'::text COLLATE nocase),
				'zoe'::text COLLATE nocase) $$) AS with_accents,
	icu($$ SELECT is_new(dedup_add(dedup_filter(10), 'Ann'::text COLLATE "C"),
				'ANN'::text COLLATE "C") $$) AS not_in_c,
	icu($$ SELECT dedup_contains(dedup_add(dedup_filter(10), 'Ann' COLLATE nocase),
				'ANN' COLLATE nocase) $$) AS literals,
	icu($$ SELECT bool_and(dedup_contains(dedup_add(dedup_filter(10), name), 'aNN' COLLATE nocase)
				= (name = 'aNN')) FROM people $$) AS a_column_and_a_literal;

-- as DISTINCT says, in aggregates and window functions, for all kinds of strings

SELECT icu($$ SELECT dedup_count(dedup_agg(name)) = count(DISTINCT name)
		AND count(DISTINCT name) = 2 FROM people $$) AS text,
	icu($$ SELECT dedup_count(dedup_agg(v)) = 2 FROM people $$) AS varchar,
	icu($$ SELECT dedup_count(dedup_agg(c)) = 2 FROM people $$) AS "char",
	icu($$ SELECT dedup_count(dedup_agg(plain)) = 3 FROM people $$) AS plain,
	icu($$ SELECT dedup_count(dedup_agg(plain COLLATE nocase)) = 2 FROM people $$) AS by_clause,
	icu($$ SELECT dedup_count(dedup_agg(name) OVER ()) = 2 FROM people LIMIT 1 $$) AS agg_over,
	icu($$ SELECT count(*) = 2 FROM (SELECT dedup_is_new(name) OVER () AS n FROM people) x
		WHERE n $$) AS window;
SELECT icu($$ SELECT count(*) = 2 FROM dedup_rows('SELECT name FROM people', 'name') c(n text) $$) AS rows,
	icu($$ SELECT count(*) = 4 FROM dedup_rows('SELECT name COLLATE "C" AS name FROM people', 'name') c(n text) $$)
		AS rows_by_clause,
	icu($$ SELECT count(*) = 2 FROM dedup_new_keys(dedup_filter(10), ARRAY['Ann', 'ann', 'Bob'] COLLATE nocase) k $$)
		AS new_keys,
	icu($$ SELECT count(*) = 1 FROM dedup_new_keys(dedup_add(dedup_filter(10), 'ANN' COLLATE nocase),
				(SELECT array_agg(name) FROM people)) k $$) AS new_to_a_filter;

-- each column has its own collation

SELECT icu($$ SELECT dedup_count(dedup_agg(name, plain)) = 3 FROM people $$) AS agg,
	icu($$ SELECT dedup_count(dedup_agg(dedup_filter(10), name, plain)) = 3 FROM people $$)
		AS prototype,
	icu($$ SELECT dedup_count(dedup_agg(name, accents)) = 2 FROM people $$) AS two_of_them,
	icu($$ SELECT count(*) = 3 FROM (SELECT dedup_is_new(name, plain) OVER () AS n FROM people) x
		WHERE n $$) AS window,
	icu($$ SELECT count(*) = 2
		FROM (SELECT dedup_is_new(dedup_filter(10), name, accents) OVER () AS n FROM people) x
		WHERE n $$) AS window_two,
	icu($$ SELECT dedup_count(dedup_agg(name, plain) OVER ()) = 3
		AND dedup_count(dedup_agg(dedup_filter(10), plain, name) OVER ()) = 3
		AND dedup_count(dedup_agg(name, accents) OVER ()) = 2 FROM people LIMIT 1 $$) AS agg_over,
	icu($$ SELECT bool_and(dedup_contains(dedup_add(dedup_filter(10), a.name, a.plain), b.name,
					b.plain) = (a.name = b.name AND a.plain = b.plain))
		FROM people a, people b $$) AS asked;

-- inside arrays, domains, records and ranges too

SELECT icu($$ SELECT dedup_contains(dedup_add(dedup_filter(10), ARRAY['Ann', 'Bob'] COLLATE nocase),
			ARRAY['ANN', 'BOB'] COLLATE nocase) $$) AS "array",
	icu($$ SELECT dedup_count(dedup_add_all(dedup_filter(10),
					ARRAY['Ann', 'ann', 'Bob'] COLLATE nocase)) = 2 $$) AS all_of_an_array,
	icu($$ SELECT dedup_contains(dedup_add(dedup_filter(10),
						VARIADIC ARRAY['Ann', 'Bob'] COLLATE nocase),
				VARIADIC ARRAY['ANN', 'BOB'] COLLATE nocase) $$) AS variadic,
	icu($$ SELECT dedup_contains(dedup_add(dedup_filter(10), 'Ann'::nickname), 'ANN'::nickname) $$)
		AS domain,
	icu($$ SELECT dedup_contains(f, ROW('ANN', 'Ann')::named)
			AND NOT dedup_contains(f, ROW('ANN', 'ANN')::named)
		FROM (VALUES (dedup_add(dedup_filter(10), ROW('Ann', 'Ann')::named))) v(f) $$) AS record,
	icu($$ SELECT dedup_count(dedup_agg(ROW(name, plain))) = 3 FROM people $$) AS anonymous,
	icu($$ SELECT dedup_contains(dedup_add(dedup_filter(10), '[Ann,Bob]'::nocase_range),
				'[ANN,bob]'::nocase_range) $$) AS range;

-- citext is one key in any case, with and without COLLATE, and the case of other columns counts

SELECT ci($$ SELECT dedup_contains(dedup_add(dedup_filter(10), 'Ann'::citext), 'ANN'::citext) $$)
	AS one_key,
	ci($$ SELECT is_new(dedup_add(dedup_filter(10), 'Ann'::citext), 'Anna'::citext) $$) AS another,
	ci($$ SELECT dedup_count(dedup_agg(x::citext)) = 2 FROM unnest('{Ann,ann,Bob}'::text[]) x $$)
		AS agg,
	ci($$ SELECT dedup_count(dedup_agg(x::citext, x)) = 3 FROM unnest('{Ann,ann,Bob}'::text[]) x $$) AS beside_text,
	ci($$ SELECT dedup_count(dedup_agg(a, b)) = 3
		FROM (SELECT x::citext COLLATE "C" AS a, x COLLATE "POSIX" AS b
			FROM unnest('{Ann,ann,Bob}'::text[]) x) y $$) AS collations,
	ci($$ SELECT count(*) = 2
		FROM (SELECT dedup_is_new(x::citext) OVER () AS n FROM unnest('{Ann,ann,Bob}'::text[]) x) y
		WHERE n $$) AS window,
	ci($$ SELECT dedup_count(dedup_add_all(dedup_filter(10), '{Ann,ann,Bob}'::citext[])) = 2 $$)
		AS "array",
	ci($$ SELECT dedup_contains(dedup_add(dedup_filter(10), ROW('Ann'::citext, 1)),
				ROW('ANN'::citext, 1)) $$) AS record;

-- two columns of different collations, and their mixture, are keys like any other

SELECT dedup_count(dedup_agg(a, b)) AS two, dedup_count(dedup_agg(a)) AS one
FROM (SELECT 'x'::text COLLATE "C" AS a, 'y' COLLATE "POSIX" AS b) t;
SELECT dedup_contains(dedup_add(dedup_filter(10), a, b), a || '', b || '') AS found
FROM (SELECT 'x'::text COLLATE "C" AS a, 'y' COLLATE "POSIX" AS b) t;

\set QUIET on
DROP SCHEMA collations_test CASCADE;
