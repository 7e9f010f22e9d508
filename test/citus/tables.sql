-- What every check finds: tables on the cluster, plain tables with the same rows, and functions
-- that compare them.
--
-- The tables of the schema public are distributed, those of the schema plain, with the same names
-- and rows, are on the coordinator. Users come again on many pages, pages on many days.

SET client_min_messages = warning;
SET citus.shard_count = 16;
-- a node that waits for another one
SET statement_timeout = '2min';

-- clicks and visits are co-located; orders are distributed by user_id; pages is on every node
CREATE TABLE clicks (click_id bigint NOT NULL, page int NOT NULL, tenant int NOT NULL, user_id bigint, day date NOT NULL,
	at timestamptz NOT NULL, stamp timestamp NOT NULL, small smallint NOT NULL, number int NOT NULL, amount numeric NOT NULL,
	id uuid NOT NULL, bytes bytea NOT NULL, country text NOT NULL, agent varchar(20) NOT NULL);
SELECT create_distributed_table('clicks', 'page', colocate_with => 'none') \g /dev/null
CREATE TABLE visits (page int NOT NULL, user_id bigint NOT NULL);
SELECT create_distributed_table('visits', 'page', colocate_with => 'clicks') \g /dev/null
CREATE TABLE orders (order_id bigint NOT NULL, user_id bigint NOT NULL, country text NOT NULL);
SELECT create_distributed_table('orders', 'user_id', colocate_with => 'none') \g /dev/null
CREATE TABLE pages (page int PRIMARY KEY, title text NOT NULL);
SELECT create_reference_table('pages') \g /dev/null

CREATE SCHEMA plain;
CREATE TABLE plain.clicks (LIKE public.clicks);
CREATE TABLE plain.visits (LIKE public.visits);
CREATE TABLE plain.orders (LIKE public.orders);
CREATE TABLE plain.pages (LIKE public.pages);

INSERT INTO plain.clicks
SELECT i, i % 500, i % 7, CASE WHEN i % 41 <> 0 THEN (i::bigint * i * 31) % 12007 END, date '2025-03-01' + i % 10,
	timestamptz '2025-03-01 00:00Z' + (i * 37 % 20000) * interval '1 minute', timestamp '2025-03-01 00:00' + (i * 37 % 9000) * interval '1 second',
	i * 13 % 9001, i * 17 % 11003, (i * 19 % 7001)::numeric / 100, md5((i * 23 % 8009)::text)::uuid,
	decode(md5((i * 29 % 6007)::text), 'hex'), 'country ' || i % 97, 'agent ' || i * 7 % 5003
FROM generate_series(1, 40000) i;
INSERT INTO plain.visits SELECT i % 500, i * 11 % 3001 FROM generate_series(1, 9000) i;
INSERT INTO plain.orders SELECT i, i * 13 % 1009, 'country ' || i % 97 FROM generate_series(1, 3000) i;
INSERT INTO plain.pages SELECT i, 'page ' || i FROM generate_series(0, 399) i;
INSERT INTO clicks SELECT * FROM plain.clicks;
INSERT INTO visits SELECT * FROM plain.visits;
INSERT INTO orders SELECT * FROM plain.orders;
INSERT INTO pages SELECT * FROM plain.pages;
ANALYZE clicks, visits, orders, pages, plain.clicks, plain.visits, plain.orders, plain.pages;

-- The rows of a query, or its error, as text; sorted, since no order comes back from workers.
CREATE FUNCTION rows_of(statement text, path text DEFAULT current_setting('search_path')) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	rows text[] := '{}';
	r record;
	old text := current_setting('search_path');
BEGIN
	PERFORM set_config('search_path', path, false);
	BEGIN
		IF statement ~* '^\s*(SELECT|WITH|VALUES|TABLE|EXPLAIN|SHOW)|RETURNING' THEN
			FOR r IN EXECUTE statement LOOP
				rows := rows || (r::text);
			END LOOP;
		ELSE
			EXECUTE statement;
		END IF;
		SELECT array_agg(x ORDER BY x COLLATE "C") INTO rows FROM unnest(rows) x;
	EXCEPTION WHEN OTHERS THEN
		rows := ARRAY[SQLSTATE || ' ' || SQLERRM];
	END;
	PERFORM set_config('search_path', old, false);
	RETURN coalesce(array_to_string(rows, E'\n'), '');
END $$;

-- Raises an error unless both are equal, or the first is LIKE the second; of many lines with those
-- that differ.
CREATE FUNCTION judge(what text, got text, wanted text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	IF got IS NOT DISTINCT FROM wanted OR (wanted LIKE '%\%%' AND got LIKE wanted) THEN
		RETURN 'ok - ' || what;
	END IF;
	IF wanted ~ E'\n' THEN
		RAISE EXCEPTION '% is: % and must be: %', what,
			(SELECT string_agg(x, ' ') FROM (SELECT x FROM string_to_table(got, E'\n') x EXCEPT SELECT string_to_table(wanted, E'\n') LIMIT 20) y),
			(SELECT string_agg(x, ' ') FROM (SELECT x FROM string_to_table(wanted, E'\n') x EXCEPT SELECT string_to_table(got, E'\n') LIMIT 20) y);
	END IF;
	RAISE EXCEPTION '% is: % and must be: %', what, left(got, 2000), wanted;
END $$;

-- A statement gives these rows, one a line, each as a row's text: '(1,2)'; or this error: '42809 the table%'.
CREATE FUNCTION expect(what text, statement text, wanted text) RETURNS text LANGUAGE sql AS $$
	SELECT judge(what, rows_of(statement), wanted)
$$;

-- A query over the distributed tables gives what it gives over the plain ones, and it has rows.
CREATE FUNCTION same(what text, statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	wanted text := rows_of(statement, 'plain, public');
BEGIN
	IF wanted = '' OR wanted ~ '^[0-9A-Z]{5} ' THEN
		RAISE EXCEPTION '% has no rows over plain tables: %', what, wanted;
	END IF;
	RETURN judge(what, rows_of(statement, 'public'), wanted);
END $$;

-- The plan of a statement.
CREATE FUNCTION plan_of(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	lines text[] := '{}';
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS off) ' || statement LOOP
		lines := lines || line;
	END LOOP;
	RETURN array_to_string(lines, E'\n');
END $$;

-- The plan matches this regular expression, or does not.
CREATE FUNCTION plan_has(what text, statement text, pattern text, has boolean DEFAULT true) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	plan text := plan_of(statement);
BEGIN
	IF (plan ~ pattern) = has THEN
		RETURN 'ok - ' || what;
	END IF;
	RAISE EXCEPTION '%: the plan % "%": %', what, CASE WHEN has THEN 'lacks' ELSE 'has' END, pattern, plan;
END $$;
