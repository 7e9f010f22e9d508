-- Need F4: an unusual type must not crash the server. Every value that can be written as a literal is a key, or an
-- error says that it cannot be one.

\set QUIET on
CREATE TEMP TABLE literal (n int, v text);
INSERT INTO literal SELECT n, v
FROM unnest(ARRAY['1', 'a', 't', '{}', '{1}', '{a}', '(1,1)', '(1,1),(2,2)', '<(1,1),1>',
			'[(1,1),(2,2)]', '{1,1,1}', '2020-01-01', '2020-01-01 10:00', '10:00', '1 day',
			'10.0.0.1',
	'08:00:2b:01:02:03', '550e8400-e29b-41d4-a716-446655440000', 'empty', '[1,2)', '$.a', '(0,1)',
	'<a/>', '{"a":1}', '0/16B3748', '10:20:10,14', 'pg_catalog', 'english', 'int4', '+(int4,int4)',
	'abs(int4)', 'pg_class', '"C"',
	'simple', '', '0', '01', '(1)', '()', 'YES', current_user || '=r/' || current_user]) WITH ORDINALITY l(v, n);

-- what comes of each function for a value of a type; the SQLSTATE, if it is an error
CREATE FUNCTION pg_temp.tried(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	answer text;
BEGIN
	EXECUTE query INTO answer;
	RETURN answer;
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE;
END $$;
CREATE FUNCTION pg_temp.literal_of(type text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	v text;
BEGIN
	FOR v IN SELECT l.v FROM literal l ORDER BY n LOOP
		BEGIN
			EXECUTE format('SELECT %L::%s', v, type);
			RETURN v;
		EXCEPTION WHEN OTHERS THEN NULL; END;
	END LOOP;
	RETURN NULL;
END $$;
CREATE TEMP TABLE types AS SELECT format_type(oid, NULL) AS type, typtype,
	pg_temp.literal_of(format_type(oid, NULL)) AS literal FROM pg_type t
	WHERE typisdefined
		AND NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = typrelid AND relkind <> 'c')
		AND (typelem = 0
				OR EXISTS (SELECT FROM pg_type e WHERE e.oid = t.typelem AND e.typrelid = 0))
	AND typnamespace IN ('pg_catalog'::regnamespace, 'public'::regnamespace,
			'information_schema'::regnamespace);
\set QUIET off

-- every type there is: add and ask, aggregate, window function, array, and a second
-- column; most are keys, and each is found again

\set QUIET on
CREATE TEMP TABLE tried AS SELECT type, literal, typtype,
	pg_temp.tried(format('SELECT dedup_contains(dedup_add(dedup_filter(10), v), v) FROM (SELECT %L::%s AS v OFFSET 0) x',
				literal, type)) AS one,
	pg_temp.tried(format('SELECT dedup_contains(dedup_agg(%1$L::%2$s), %1$L::%2$s)', literal, type)) AS agg,
	pg_temp.tried(format('SELECT dedup_is_new(%1$L::%2$s) OVER ()', literal, type)) AS new,
	pg_temp.tried(format('SELECT is_new(dedup_add(dedup_window(10), ''u'', %1$L::%2$s, 1), ''u'', %1$L::%2$s, 2)',
				literal, type)) AS three,
	pg_temp.tried(format('SELECT dedup_contains(dedup_add(dedup_filter(10), ROW(%1$L::%2$s)), ROW(%1$L::%2$s))',
				literal, type)) AS row FROM types WHERE literal IS NOT NULL;
\set QUIET off
SELECT count(*) > 150 AS many, count(*) FILTER (WHERE one = 'true') > 100 AS most_are_keys,
	bool_and(one IN ('true', '42883', '42804')) AS one,
	bool_and(agg IN ('true', '42883', '42804')) AS agg,
	bool_and(new IN ('true', '42883', '42804')) AS new,
	bool_and(three IN ('true', '42883', '42804')) AS three,
	bool_and(row IN ('true', '42883', '42804', '42P16', '0A000')) AS row,
	bool_and((one = agg AND one = new AND one = three) OR typtype = 'p') AS agree FROM tried;

-- those that are none are those without a hash function

SELECT array_agg(type ORDER BY type COLLATE "C") AS no_keys FROM tried
WHERE one <> 'true'
	AND type IN ('box', 'circle', 'cstring', 'json', 'line', 'money', 'path', 'point', 'polygon',
			'xml', 'void', 'tsvector', 'dedup_filter', 'text', 'integer');
SELECT count(*) = 0 AS all_hashable_are_keys FROM tried JOIN pg_type t ON t.oid = type::regtype
WHERE one <> 'true'
	AND EXISTS (SELECT FROM pg_opclass c JOIN pg_am a ON a.oid = opcmethod
		WHERE opcintype = t.oid AND amname = 'hash' AND opcdefault);

-- the call that took down others' servers

SELECT dedup_add(dedup_filter(10), cash_out(0::money));
\echo :LAST_ERROR_SQLSTATE

-- a literal needs no cast, and two arguments are a key of two

SELECT dedup_contains(dedup_add(dedup_filter(10), 'x'), 'x') AS literal,
	dedup_contains(dedup_add(dedup_filter(10), 'user', 7), 'user', 7) AS user_and_ad,
	dedup_contains(dedup_add(dedup_filter(10), 'user', 7), 'user') AS user_alone;

-- every number of arguments of every function: an answer or an error, and the server is still there

SELECT count(*) > 300 AS calls,
	count(*) FILTER (WHERE result !~ '^[0-9A-Z]{5}$') > 10 AS some_answer,
	bool_or(result ~ '^(57|58|XX|08)') AS some_is_internal FROM (
	SELECT pg_temp.tried(format('SELECT %s(%s) %s', proname,
				array_to_string(array_fill(arg, ARRAY[n]), ', '),
				CASE prokind WHEN 'w' THEN 'OVER ()' END)) AS result
	FROM pg_proc p, generate_series(0, 5) n,
		unnest(ARRAY['NULL', '1', '''x''', 'dedup_filter(10)']) arg
	WHERE proname ~ '^(dedup|is_new)' AND pronamespace = 'public'::regnamespace) x;
SELECT 'still there' AS server;
