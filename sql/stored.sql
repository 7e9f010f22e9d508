-- Filters in tables, in variables and in transactions.

\set QUIET on
CREATE SCHEMA stored_test;
SET search_path = stored_test, public;
CREATE TABLE hits AS SELECT i, i / 3000 AS day, (hashint4(i) & 16383) AS u
FROM generate_series(0, 20999) i;
CREATE TABLE days (day int PRIMARY KEY, users dedup_filter);
INSERT INTO days SELECT day, dedup_agg(dedup_filter(3000), u) FROM hits GROUP BY day;
CREATE TABLE large (id int PRIMARY KEY, f dedup_filter);
INSERT INTO large SELECT 1, dedup_agg(dedup_filter(1000000), i) FROM generate_series(1, 200000) i;
INSERT INTO large SELECT 2, dedup_agg(dedup_window(500000), -i) FROM generate_series(1, 200000) i;
INSERT INTO large SELECT 3, dedup_agg(dedup_window(500000), i) FROM generate_series(1, 1000) i;
ANALYZE hits, days, large;

-- blocks that a query looks at
CREATE FUNCTION blocks(query text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) ' || query INTO plan;
	RETURN (plan -> 0 -> 'Plan' ->> 'Shared Hit Blocks')::bigint +
		(plan -> 0 -> 'Plan' ->> 'Shared Read Blocks')::bigint;
END $$;
SET client_min_messages = error;
\set QUIET off

-- a filter a day: which of a day's users were not there the day before, and in the week
-- before; none that was is called new

SELECT h.day,
	count(*) FILTER (WHERE is_new(y.users, h.u)
			AND EXISTS (SELECT FROM hits b WHERE b.day = h.day - 1 AND b.u = h.u)) AS wrongly_new,
	count(*) FILTER (WHERE NOT is_new(y.users, h.u)
			AND NOT EXISTS (SELECT FROM hits b WHERE b.day = h.day - 1 AND b.u = h.u)) < 60
		AS few_wrongly_known
FROM hits h JOIN days y ON y.day = h.day - 1 GROUP BY h.day ORDER BY h.day;
SELECT count(*) FILTER (WHERE is_new(week.users, h.u)) - count(*) FILTER (WHERE NOT EXISTS (SELECT
		FROM hits b WHERE b.day < 6 AND b.u = h.u)) BETWEEN -1500 AND 0 AS never_more_than_the_truth
FROM hits h, (SELECT dedup_merge_agg(users) AS users FROM days WHERE day < 6) week WHERE h.day = 6;

-- a large filter lies out of line, is fetched once for all rows of a query, and answers
-- as the one in memory

SELECT id, exact, pg_column_size(f) > 1000000 AS large, length(f::bytea) + 4 = bytes AS bytes
FROM large, dedup_stats(f) ORDER BY id;
SELECT id, blocks(format('SELECT count(*) FROM large, generate_series(1, 20000) i WHERE id = %s AND dedup_contains(f, i)',
				id)) < 3000 AS contains,
	blocks(format('SELECT count(*) FROM large, hits WHERE id = %s AND is_new(f, u, 1)', id)) < 3000
		AS is_new FROM large ORDER BY id;
SELECT count(*) FILTER (WHERE id = 1 AND dedup_contains(f, i)) AS one,
	count(*) FILTER (WHERE id = 2 AND dedup_contains(f, -i)) AS two,
	count(*) FILTER (WHERE id = 3 AND dedup_contains(f, i)) AS three
FROM generate_series(1, 20000) i, large;
SELECT bool_and(dedup_contains(f, i) = dedup_contains(f::bytea::dedup_filter, i)) AS as_in_memory
FROM large, generate_series(-50, 50) i;

-- filters that take turns at one call do not get mixed up

SELECT count(*) FILTER (WHERE found <> (CASE id WHEN 1 THEN i > 0 WHEN 2 THEN i < 0
				ELSE i BETWEEN 1 AND 1000 END)) <= 5 AS "right", count(*)
FROM (SELECT id, i, dedup_contains(f, i) AS found FROM generate_series(-50, 50) i, large
	WHERE i <> 0 ORDER BY i, id) x;

-- what a transaction changes it sees, at the same call: in a prepared statement ...

PREPARE ask(int) AS SELECT dedup_contains(f, $1) FROM large WHERE id = 3;
BEGIN;
EXECUTE ask(5555);
UPDATE large SET f = dedup_add(f, 5555) WHERE id = 3;
EXECUTE ask(5555);
SAVEPOINT s;
UPDATE large SET f = dedup_add(f, 6666) WHERE id = 3;
EXECUTE ask(6666);
ROLLBACK TO s;
EXECUTE ask(6666);
EXECUTE ask(5555);
ROLLBACK;
EXECUTE ask(5555);

-- ... in a loop, in a function that a query calls, and in a subtransaction that fails

CREATE FUNCTION add_and_ask(k int) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	UPDATE large SET f = dedup_add(f, k) WHERE id = 3;
	RETURN (SELECT dedup_contains(f, k) FROM large WHERE id = 3);
END $$;
CREATE FUNCTION add_and_fail(k int) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	PERFORM add_and_ask(k);
	RAISE 'no';
EXCEPTION WHEN raise_exception THEN
	RETURN (SELECT is_new(f, k) FROM large WHERE id = 3);
END $$;
BEGIN;
SELECT bool_and(add_and_ask(i)) AS seen_at_once FROM generate_series(10001, 10020) i;
SELECT bool_and(add_and_fail(i)) AS gone_at_once FROM generate_series(10021, 10040) i;
SELECT count(*) AS added FROM large, generate_series(10001, 10040) i
WHERE id = 3 AND dedup_contains(f, i);
ROLLBACK;
SELECT count(*) AS added FROM large, generate_series(10001, 10040) i
WHERE id = 3 AND dedup_contains(f, i);

-- a cursor goes on seeing what it saw

BEGIN;
DECLARE c CURSOR FOR SELECT dedup_contains(f, i) FROM large, generate_series(7001, 7004) i
WHERE id = 3 ORDER BY i;
FETCH 2 FROM c;
UPDATE large SET f = dedup_add_all(f, ARRAY[7001, 7002, 7003, 7004]) WHERE id = 3;
FETCH 2 FROM c;
SELECT bool_and(dedup_contains(f, i)) AS seen_by_a_new_query
FROM large, generate_series(7001, 7004) i WHERE id = 3;
ROLLBACK;

-- another filter in the place of one that is gone is another filter

DELETE FROM large WHERE id = 3;
VACUUM large;
INSERT INTO large SELECT 3, dedup_agg(dedup_window(500000), i) FROM generate_series(5001, 6000) i;
EXECUTE ask(5);
EXECUTE ask(5555);
TRUNCATE large;
INSERT INTO large SELECT 3, dedup_agg(dedup_window(500000), i) FROM generate_series(1, 1000) i;
EXECUTE ask(5);
EXECUTE ask(5555);
VACUUM FULL large;
EXECUTE ask(5);

-- the row of an UPDATE takes keys; what it returns is the new one

UPDATE large SET f = dedup_add(f, 'user', id) WHERE id = 3
RETURNING dedup_contains(f, 'user', 3) AS added, dedup_count(f) AS count;
WITH new AS (UPDATE large SET f = dedup_add_all(f, ARRAY[7001, 7002]) WHERE id = 3 RETURNING f)
		SELECT dedup_contains(new.f, 7001) AS new, dedup_contains(old.f, 7001) AS old
FROM new, large old;

-- variables: 3,000 single adds make what the aggregate makes

CREATE FUNCTION filled(empty dedup_filter, n int) RETURNS dedup_filter LANGUAGE plpgsql AS $$
DECLARE
	f dedup_filter := empty;
BEGIN
	FOR i IN 1 .. n LOOP
		f := dedup_add(f, i);
	END LOOP;
	RETURN f;
END $$;
SELECT bool_and(filled(empty, 3000)::text = (SELECT dedup_agg(empty, i ORDER BY i)
		FROM generate_series(1, 3000) i)::text) AS same_bytes
FROM (VALUES (dedup_filter(3000)), (dedup_filter(30000)), (dedup_filter(3000, 0.00001)),
		(dedup_window(3000)), (dedup_method('ring', NULL, 'keys=3000'))) v(empty);

-- a variable is its own: neither a function that was given it, nor another variable that
-- was set to it, changes it

CREATE FUNCTION changes_its_argument(f dedup_filter) RETURNS dedup_filter LANGUAGE plpgsql AS $$
BEGIN
	f := dedup_add(f, -1);
	f := dedup_add(f, -2);
	RETURN f;
END $$;
CREATE FUNCTION variables(n int) RETURNS TABLE (a bigint, b bigint, c bigint, d bigint,
		kept boolean, failed boolean) LANGUAGE plpgsql AS $$
DECLARE
	f dedup_filter := dedup_add_all(dedup_filter(100000), ARRAY(SELECT generate_series(1, n)));
	g dedup_filter;
	h dedup_filter;
	r record;
	fs dedup_filter[];
BEGIN
	g := f;
	h := changes_its_argument(f);
	g := dedup_add(dedup_add(g, n + 1), n + 2);
	g := dedup_add(g, n + 3);
	fs := ARRAY[f, g];
	fs[1] := dedup_add(fs[1], 0);
	SELECT f AS x, g AS y INTO r;
	r.x := dedup_add(r.x, 0);
	BEGIN
		f := dedup_add(f, 0);
		f := dedup_add(f, point '(1,1)');
	EXCEPTION WHEN undefined_function THEN
		failed := dedup_contains(f, 0)
			AND dedup_contains(f, n);	/* what was assigned before the error stays */
	END;
	a := dedup_count(f);
	b := dedup_count(g);
	c := dedup_count(h);
	d := dedup_count(fs[1]) + dedup_count(fs[2]) + dedup_count(r.x) + dedup_count(r.y);
	kept := is_new(f, -1) AND is_new(g, -1) AND is_new(h, 0) AND is_new(r.y, 0)
		AND dedup_contains(h, -2);
	RETURN NEXT;
END $$;
SELECT n, a - n AS a, b - n AS b, c - n AS c, d - 4 * n AS d, kept, failed
FROM unnest(ARRAY[1, 100, 1000]) n, variables(n);

-- a key may be made from the variable that it is added to, and a variable be added to
-- twice in one expression

CREATE TABLE made_in_a_block (f dedup_filter, g dedup_filter);
DO $$
DECLARE
	f dedup_filter := dedup_filter(20000);
	g dedup_filter;
BEGIN
	FOR i IN 1 .. 2000 LOOP
		f := dedup_add(f, dedup_count(f), is_new(f, i));
	END LOOP;
	g := dedup_add(f || f, 'x', dedup_contains(dedup_add(f, 'y', true), 'y', true));
	f := dedup_add(dedup_add_all(dedup_add(f, 'a'), ARRAY['b', 'c']),
			dedup_count(dedup_add(f, 'd'))::text);
	INSERT INTO made_in_a_block VALUES (f, g);
END $$;
SELECT dedup_count(f) = 2004 AND dedup_contains(f, '2001') AND dedup_contains(f, 'c')
		AND is_new(f, 'd') AS f,
	dedup_count(g) = 2001 AND dedup_contains(g, 'x', true) AND is_new(g, 'y', true) AS g
FROM made_in_a_block;

-- in triggers, arrays, composite types, domains, defaults, constraints, generated columns

CREATE DOMAIN user_filter AS dedup_filter CHECK (dedup_contains(VALUE, 'root'));
CREATE TYPE named_filter AS (name text, f dedup_filter);
CREATE TABLE everything (id int, f dedup_filter DEFAULT dedup_add(dedup_filter(1000), 0),
		fs dedup_filter[], n named_filter, u user_filter,
	has_seven boolean GENERATED ALWAYS AS (dedup_contains(f, 7)) STORED, CHECK (is_new(f, -1)));
INSERT INTO everything (id) VALUES (1);
INSERT INTO everything (id, f, fs, n, u) SELECT 2, f, ARRAY[f, NULL, f], ROW('x', f)::named_filter,
	dedup_add(f, 'root')
FROM (SELECT dedup_agg(dedup_filter(10000), i) AS f FROM generate_series(1, 3000) i) x;
SELECT id, dedup_count(f) > 0 AS f, dedup_contains(fs[1], 7) AS fs_1, fs[2] IS NULL AS fs_2,
	dedup_contains((n).f, 7) AS n, dedup_contains(u, 'root') AS u, has_seven FROM everything
ORDER BY id;
\set VERBOSITY terse
INSERT INTO everything (id, u) VALUES (3, dedup_filter(10));
INSERT INTO everything (id, f) VALUES (3, dedup_add(dedup_filter(10), -1));
\set VERBOSITY default
UPDATE everything SET f = dedup_add(f, 7), fs[1] = dedup_add(fs[1], 'x'),
	n.f = dedup_add((n).f, 'y')
RETURNING id, has_seven, dedup_contains(fs[1], 'x') AS fs, dedup_contains((n).f, 'y') AS n;
CREATE FUNCTION remember() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF (SELECT dedup_contains(f, NEW.u) FROM large WHERE id = 3) THEN
		RETURN NULL;
	END IF;
	UPDATE large SET f = dedup_add(f, NEW.u) WHERE id = 3;
	RETURN NEW;
END $$;
CREATE TABLE once (u text);
CREATE TRIGGER remember BEFORE INSERT ON once FOR EACH ROW EXECUTE FUNCTION remember();
INSERT INTO once SELECT 'user ' || i % 20 FROM generate_series(1, 100) i;
INSERT INTO once SELECT 'user ' || i % 30 FROM generate_series(1, 100) i;
SELECT count(*) AS rows, count(DISTINCT u) AS users FROM once;

-- stored in other ways the value is the same: compressed, in line, in another type and back

ALTER TABLE days ALTER users SET STORAGE extended;
UPDATE days SET users = users || dedup_filter(3000) WHERE day < 3;
ALTER TABLE days ALTER users SET STORAGE main;
UPDATE days SET users = users || dedup_filter(3000) WHERE day = 3;
ALTER TABLE days ALTER users TYPE bytea USING users::bytea;
ALTER TABLE days ALTER users TYPE dedup_filter USING users::dedup_filter;
SELECT bool_and(users::text = (SELECT dedup_agg(dedup_filter(3000), u) FROM hits
		WHERE hits.day = days.day)::text) AS same FROM days;
SELECT count(*) FILTER (WHERE is_new(users, u)) AS missed FROM days JOIN hits USING (day);

-- and the JIT compiler, asked to inline all it can, changes no answer

SET jit = on;
SET jit_above_cost = 0;
SET jit_inline_above_cost = 0;
SET jit_optimize_above_cost = 0;
SELECT count(*) FILTER (WHERE is_new(users, u)) AS missed,
	count(*) FILTER (WHERE dedup_contains(users, -1 - u)) < 600 AS few FROM days
JOIN hits USING (day);
SELECT bool_and(d.users::text = x.users::text) AS agg FROM days d
JOIN (SELECT day, dedup_agg(dedup_filter(3000), u) AS users FROM hits GROUP BY day) x USING (day);
SELECT count(*) FILTER (WHERE new) = (SELECT count(DISTINCT u) FROM hits WHERE day = 1) AS window
FROM (SELECT dedup_is_new(u) OVER (ORDER BY i) AS new FROM hits WHERE day = 1) x;
SELECT dedup_count(dedup_merge_agg(dedup_add(dedup_filter(1000), u % 50, day % 2))) AS hundred
FROM hits;
RESET jit;

\set QUIET on
SET client_min_messages = error;
DROP SCHEMA stored_test CASCADE;
