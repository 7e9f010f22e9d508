-- Drivers send some parameters without a type. As a key, such a parameter raises the server's error 42P18. With a
-- cast, it is the same key as the literal, whatever the driver sends.

\set QUIET on
CREATE SCHEMA untyped_test;
SET search_path = untyped_test, public;
SELECT dedup_create('seen', dedup_filter(1000, 1e-6, 42));
SELECT dedup_create('timed', dedup_filter(1000, 1e-6, 42), ttl => '1 day');
SELECT is_new('seen', 7) AS seen, is_new_at('timed', now(), 7) AS timed;

-- PREPARE without types analyses a query as the protocol's Parse message without types does.
-- Returns the SQLSTATE of the error, or what the query returns for the value '7'. What the
-- query changes is undone.
CREATE FUNCTION prepared(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	BEGIN
		EXECUTE 'PREPARE p AS SELECT (' || query || ')::text';
		EXECUTE $q$EXECUTE p('7')$q$ INTO result;
		RAISE EXCEPTION 'undo' USING ERRCODE = 'UNDO0';
	EXCEPTION
		WHEN SQLSTATE 'UNDO0' THEN NULL;
		WHEN OTHERS THEN result := SQLSTATE;
	END;
	IF EXISTS (SELECT FROM pg_prepared_statements WHERE name = 'p') THEN
		DEALLOCATE p;
	END IF;
	RETURN result;
END $$;

-- The same for a query without a parameter.
CREATE FUNCTION result_of(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	BEGIN
		EXECUTE 'SELECT (' || query || ')::text' INTO result;
		RAISE EXCEPTION 'undo' USING ERRCODE = 'UNDO0';
	EXCEPTION
		WHEN SQLSTATE 'UNDO0' THEN NULL;
	END;
	RETURN result;
END $$;

-- Each way of calling each function, @ for the key.
CREATE TABLE calls (n serial, call text);
INSERT INTO calls (call) VALUES
	('dedup_add(dedup_filter(10), @)'),
	('dedup_contains(dedup_add(dedup_filter(10), 7), @)'),
	('is_new(dedup_add(dedup_filter(10), 7), @)'),
	($$dedup_frequency(dedup_add(dedup_method('count_min', NULL, 'epsilon=0.1'), 7), @)$$),
	($$dedup_forget(dedup_add(dedup_method('quotient', NULL, 'keys=10'), 7), @)$$),
	('dedup_agg(@)'),
	('dedup_agg(dedup_filter(10), @)'),
	('approx_count_distinct(@)'),
	('dedup_hash(dedup_filter(10), @)'),
	('dedup_is_new(@) OVER ()'),
	('dedup_is_new(dedup_filter(10), @) OVER ()'),
	($$is_new('seen', @)$$),
	($$is_new('seen'::regclass, @)$$),
	($$is_new_at('timed', now(), @)$$),
	($$is_new_at('timed'::regclass, now(), @)$$),
	($$dedup_seen('seen', @)$$),
	($$dedup_seen('seen'::regclass, @)$$),
	($$dedup_forget('seen', @)$$),
	($$dedup_forget('seen'::regclass, @)$$);

-- A key of one column. A text is another key than the number, so an overload for text would
-- be wrong. (A count and a first row are the same for any one key.)
SELECT call, prepared(replace(call, '@', '$1')) AS untyped,
	prepared(replace(call, '@', '$1::bigint')) = result_of(replace(call, '@', '7')) AS as_number,
	prepared(replace(call, '@', '$1::text')) = result_of(replace(call, '@', $$'7'$$)) AS as_text,
	prepared(replace(call, '@', '$1::text')) = result_of(replace(call, '@', '7')) AS text_is_number
FROM calls ORDER BY n;

-- The last column of several.
SELECT count(*), count(*) FILTER (WHERE prepared(replace(call, '@', '1, $1')) = '42P18') AS untyped,
	count(*) FILTER (WHERE prepared(replace(call, '@', '1, $1::bigint')) = result_of(replace(call, '@', '1, 7'))) AS as_number
FROM calls;

-- An array of keys, and a key whose columns are an array.
SELECT prepared('dedup_add_all(dedup_filter(10), $1)') AS add_all,
	prepared('(SELECT count(*) FROM dedup_new_keys(dedup_filter(10), $1))') AS new_keys,
	prepared($$(SELECT count(*) FROM dedup_new_keys('seen', $1))$$) AS live,
	prepared($$(SELECT count(*) FROM dedup_new_keys('seen'::regclass, $1))$$) AS regclass,
	prepared($$dedup_seen('seen', VARIADIC $1)$$) AS variadic;
PREPARE many AS SELECT dedup_add_all(dedup_filter(10), $1::bigint[])::text = dedup_add(dedup_filter(10), 7)::text AS add_all,
	(SELECT count(*) FROM dedup_new_keys('seen', $1::bigint[])) AS new_keys,
	dedup_seen('seen', VARIADIC $1::bigint[]) AS variadic;
EXECUTE many('{7}');
DEALLOCATE many;

-- The name of a live filter may be a parameter without a type.
PREPARE named AS SELECT dedup_seen($1, 7), dedup_seen($1, $2::bigint);
EXECUTE named('seen', '7');
DEALLOCATE named;

-- Every function is above, and its comment says what to do.
SELECT DISTINCT proname FROM pg_proc
WHERE provariadic = '"any"'::regtype AND proname ~ 'dedup|^is_new|^approx_count' AND proname !~ '_trans$'
	AND NOT EXISTS (SELECT FROM calls WHERE call LIKE proname || '(%');
SELECT oid::regprocedure FROM pg_proc
WHERE (provariadic = '"any"'::regtype OR 'anyarray'::regtype = ANY (proargtypes)) AND proname ~ '^dedup_|^is_new|^approx_count'
	AND proname !~ '_trans$'
	AND (obj_description(oid, 'pg_proc') LIKE '%a parameter%needs a type: $1::bigint%') IS NOT TRUE;

SET client_min_messages = warning;
DROP SCHEMA untyped_test CASCADE;
