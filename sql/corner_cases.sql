-- Cases that once went wrong.
SET client_min_messages = warning;
SET max_parallel_workers_per_gather = 0;

-- a row type that is altered between two calls of one call site is hashed by its new columns

CREATE TABLE altered (a text);
INSERT INTO altered VALUES ('5');
CREATE TABLE asked AS SELECT dedup_add(dedup_filter(1000), row(5)) AS f;
CREATE FUNCTION ask(f dedup_filter, r altered) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	RETURN dedup_contains(f, r);
END $$;
BEGIN;
SELECT ask(f, altered) AS text_is_integer FROM altered, asked;
ALTER TABLE altered ALTER a TYPE int USING a::int;
SELECT ask(f, altered) AS integer_is_integer FROM altered, asked;
COMMIT;
BEGIN;
ALTER TABLE altered ADD b int;
SELECT ask(f, altered) AS two_columns_are_one FROM altered, asked;
ALTER TABLE altered DROP b;
SELECT ask(f, altered) AS dropped_column_counts_not FROM altered, asked;
COMMIT;

-- one call site takes rows of two types in turn

SELECT count(*) = 1000 AS half FROM (
	SELECT dedup_contains(f, CASE WHEN i % 2 = 0 THEN row(5) ELSE row('5'::text) END) AS seen
	FROM asked, generate_series(1, 2000) i OFFSET 0) x
WHERE seen;
DROP FUNCTION ask;
DROP TABLE altered, asked;

-- an enum's new label counts at once, also where the old one was met

CREATE TYPE signal AS ENUM ('red', 'green');
CREATE FUNCTION label_of(s signal) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN CASE WHEN dedup_contains(dedup_add(dedup_filter(10), s), 'red') THEN 'red'
		WHEN dedup_contains(dedup_add(dedup_filter(10), s), 'crimson') THEN 'crimson' END;
END $$;
BEGIN;
SELECT label_of('red');
ALTER TYPE signal RENAME VALUE 'red' TO 'crimson';
SELECT label_of('crimson');
COMMIT;
DROP FUNCTION label_of;
DROP TYPE signal;

-- groups of one aggregate do not mix their states: in each, the last keys are remembered,
-- however the rows of the groups alternate

SET enable_sort = off;
CREATE TEMP TABLE ev AS SELECT i, hashint4(i / 2) & 7 AS g FROM generate_series(1, 20000) i;
SELECT method, bool_and(kept) AS all_kept FROM (
	SELECT m AS method, (SELECT bool_and(dedup_contains(f, i)) FROM (
		SELECT i FROM ev WHERE ev.g = a.g ORDER BY i DESC LIMIT 7) last) AS kept
	FROM (VALUES ('ring'), ('recent')) v(m),
		LATERAL (SELECT g, dedup_agg(dedup_method(m, NULL, 'keys=7 fpr=0.01'), i) AS f
			FROM (SELECT * FROM ev ORDER BY i OFFSET 0) x GROUP BY g) a) y
GROUP BY method ORDER BY method;
RESET enable_sort;

-- an exact filter at its limit stays exact until a key comes that is new

CREATE TEMP TABLE at_limit AS
SELECT m AS method, dedup_agg(p, i) AS f
FROM (SELECT m, dedup_method(m, NULL, 'keys=100') AS p FROM unnest('{blocked_bloom,bloom,recent,ring,fifo}'::text[]) m) x,
	LATERAL generate_series(1, (((dedup_stats(p)).bytes_full - 64) / 8)::int) i
GROUP BY m;
SELECT method,
	(dedup_stats(f)).exact,
	(dedup_stats(dedup_add(f, 1))).exact AS after_old,
	(dedup_stats(dedup_add_all(f, '{1,1,2}'::int[]))).exact AS after_old_batch,
	(dedup_stats(dedup_add(dedup_add(f, 1), 2))).exact AS after_old_twice,
	(dedup_stats(f || f)).exact AS merged_with_itself,
	(SELECT (dedup_stats(dedup_merge_agg(x.f))).exact FROM (SELECT f UNION ALL SELECT f) x(f)) AS aggregated,
	(dedup_stats(dedup_add(f, -1))).exact AS after_new,
	(dedup_stats(dedup_add_all(f, '{-1}'::int[]))).exact AS after_new_batch
FROM at_limit ORDER BY method;
SELECT method,
	dedup_add(f, -1)::text = dedup_add_all(f, '{-1}'::int[])::text AS same_bytes,
	dedup_add(dedup_add(f, 1), -1)::text = dedup_add_all(f, '{1,-1}'::int[])::text AS same_bytes_of_two
FROM at_limit ORDER BY method;

-- NaN and the infinities of numeric are keys of their own

SELECT x, y, dedup_contains(dedup_add(dedup_filter(10), x::numeric), y::numeric) = (x::numeric = y::numeric) AS right
FROM (VALUES ('NaN', 'NaN'), ('NaN', '0'), ('0', 'NaN'), ('2.0', '2'), ('1e3', '1000')) v(x, y);
SELECT bool_and(dedup_contains(dedup_add(dedup_filter(10), x::numeric), y::numeric) = (x = y)) AS told_apart
FROM unnest(CASE WHEN current_setting('server_version_num')::int >= 140000
	THEN '{NaN,Infinity,-Infinity}'::text[] ELSE '{NaN}' END) x,
	unnest(CASE WHEN current_setting('server_version_num')::int >= 140000
	THEN '{NaN,Infinity,-Infinity}'::text[] ELSE '{NaN}' END) y;

-- equal numerics are one key, others are not: sign, scale and size count by value

SELECT bool_and(dedup_contains(dedup_add(dedup_filter(10), x), y) = (x = y)) AS as_equal
FROM unnest('{0,0.00,2,2.0,-2,-2.00,200,-200,0.02,-0.02,1e20,-1e20,123456789012345678901234567890.5}'::numeric[]) x,
	unnest('{0,0.00,2,2.0,-2,-2.00,200,-200,0.02,-0.02,1e20,-1e20,123456789012345678901234567890.5}'::numeric[]) y;
SELECT dedup_contains(dedup_add(dedup_filter(10), '{2,3}'::numeric[]), '{-2,3}'::numeric[]) AS sign_in_array_ignored,
	dedup_contains(dedup_add(dedup_filter(10), '{2,3}'::numeric[]), '{2.0,3.00}'::numeric[]) AS scale_in_array_ignored;

-- and so are jsonb documents, whatever they are nested in

SELECT bool_and(dedup_contains(dedup_add(dedup_filter(10), x), y) = (x = y)) AS as_equal, count(*)
FROM (VALUES ('1'::jsonb), ('1.0'), ('-1'), ('[1]'), ('{}'), ('[]'), ('""'), ('"a"'), ('["a"]'), ('{"a":1}'), ('{"a":1.0}'),
		('{"a":-1}'), ('{"a":"1"}'), ('{"a":[]}'), ('{"a":{}}'), ('{"a":[{},{}]}'), ('[[1]]'), ('[[],1]'), ('null'), ('[null]'),
		('true'), ('false'), ('{"a":null}'), ('{"a":{"b":1}}'), ('{"a":{},"b":1}')) v(x),
	(VALUES ('1'::jsonb), ('1.0'), ('-1'), ('[1]'), ('{}'), ('[]'), ('""'), ('"a"'), ('["a"]'), ('{"a":1}'), ('{"a":1.0}'),
		('{"a":-1}'), ('{"a":"1"}'), ('{"a":[]}'), ('{"a":{}}'), ('{"a":[{},{}]}'), ('[[1]]'), ('[[],1]'), ('null'), ('[null]'),
		('true'), ('false'), ('{"a":null}'), ('{"a":{"b":1}}'), ('{"a":{},"b":1}')) w(y);

-- an array of filters is sent, whose elements the server frees after each

SELECT length(array_send(ARRAY[f, f])) > 2 * length(f::bytea) AS sent FROM dedup_add(dedup_filter(10), 1) f;

-- merging many exact windows keeps every key; a later one's are the younger

SELECT dedup_count(f) = 20000 AS all_there,
	(SELECT bool_and(dedup_contains(f, i)) FROM generate_series(1, 20000) i) AS all_found
FROM (SELECT dedup_merge_agg(f ORDER BY day) AS f FROM (
	SELECT i / 100 AS day, dedup_agg(dedup_window(100000), i) AS f FROM generate_series(1, 20000) i GROUP BY 1) x) y;
SELECT (SELECT bool_and(dedup_contains(f, i)) FROM generate_series(19001, 20000) i) AS last_window_found,
	(SELECT count(*) < 1500 FROM generate_series(1, 15000) i WHERE dedup_contains(f, i)) AS oldest_gone
FROM (SELECT dedup_merge_agg(f ORDER BY day) AS f FROM (
	SELECT (i - 1) / 100 AS day, dedup_agg(dedup_window(1000), i) AS f FROM generate_series(1, 20000) i GROUP BY 1) x) y;

-- a working state that a user's own aggregate stored says what it is

CREATE AGGREGATE unfinished(VARIADIC "any") (SFUNC = dedup_agg_trans, STYPE = dedup_filter);
CREATE TEMP TABLE states AS SELECT unfinished(i) AS f FROM generate_series(1, 1000) i;
SELECT dedup_stats(f) FROM states;
DROP TABLE states;
DROP AGGREGATE unfinished("any");

-- the advice's prototype makes the filter that it speaks of

SELECT bool_and((dedup_stats(dedup_method(method, NULL, substring(prototype FROM 'NULL, ''([^'']*)''')))).parameters = parameters) AS same
FROM dedup_advise(12345, 0.00123456789);
SELECT dedup_advise(NULL, NULL);
