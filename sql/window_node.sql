-- dedup_is_new(...) OVER (...) through a node that replaces WindowAgg: where it is planned, and that rows, answers,
-- order, errors and warnings are those of WindowAgg, which runs with streamdedup.streaming_window = off.
\set QUIET on
LOAD 'streamdedup';
SET max_parallel_workers_per_gather = 0;
SET jit = off;
CREATE SCHEMA window_node;
SET search_path = window_node, public;
-- 12,000 rows in no order of id, with 9,000 keys: filters get larger than 256 kB, from which on
-- rows are read ahead
CREATE TABLE click AS SELECT (i * 7919) % 12000 AS id, i % 7 AS day, (i * 31)::bigint % 9001 AS k,
	CASE WHEN i % 11 > 0 THEN 'user ' || (i * 37) % 8009 END AS name, repeat('x', i % 300) AS wide
FROM generate_series(0, 11999) i;
CREATE INDEX click_id ON click (id);
CREATE TABLE few AS SELECT id, day, k % 20 AS k, name, wide FROM click WHERE id < 200;
CREATE TABLE none AS SELECT * FROM click WHERE false;
VACUUM ANALYZE click, few, none;
CREATE SEQUENCE counter;

CREATE FUNCTION plan(query text, options text DEFAULT 'COSTS OFF') RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE 'EXPLAIN (' || options || ') ' || query;
END $$;
-- The window nodes of a query from above, and the conditions that subquery scans have.
CREATE FUNCTION nodes(query text) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(found[1], ', ') FROM plan(query) WITH ORDINALITY p(line, n),
		regexp_match(line, '(StreamingWindow|WindowAgg|Subquery Scan)') found
	WHERE found IS NOT NULL $$;
CREATE FUNCTION filters(query text) RETURNS text LANGUAGE sql AS $$
	SELECT coalesce(string_agg(node || ': ' || filter[1], ', '), 'none')
	FROM (SELECT line, substring(lag(line) OVER (ORDER BY n) FROM '(StreamingWindow|Subquery Scan)') AS node
		FROM plan(query) WITH ORDINALITY p(line, n)) x, regexp_match(line, 'Filter: (.*)') filter
	WHERE filter IS NOT NULL $$;
-- What a query returns, in its order, with the setting on and off; or its error.
CREATE FUNCTION result(query text, streaming boolean, OUT rows bigint, OUT md5 text) LANGUAGE plpgsql AS $$
DECLARE
	detail text;
BEGIN
	PERFORM set_config('streamdedup.streaming_window', streaming::text, true);
	EXECUTE 'SELECT count(*), md5(coalesce(string_agg(q::text, E''\n''), '''')) FROM (SELECT * FROM (' || query || ') p OFFSET 0) q' INTO rows, md5;
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
	md5 := SQLSTATE || ' ' || SQLERRM || ' ' || detail;
END $$;
CREATE FUNCTION compared(query text, OUT nodes text, OUT rows bigint, OUT error text, OUT same boolean) LANGUAGE plpgsql AS $$
DECLARE
	streaming record;
	stock record;
BEGIN
	nodes := nodes(query);
	streaming := result(query, true);
	stock := result(query, false);
	PERFORM set_config('streamdedup.streaming_window', 'on', true);
	rows := stock.rows;
	error := CASE WHEN rows IS NULL THEN stock.md5 END;
	same := streaming IS NOT DISTINCT FROM stock;
END $$;
\set QUIET off

-- the plan; a condition on the answer is the node's filter

SELECT plan('SELECT id, dedup_is_new(k) OVER (ORDER BY id) FROM few');
SELECT plan('SELECT id FROM (SELECT id, dedup_is_new(k) OVER (ORDER BY id) AS n FROM few) c WHERE n');
SELECT plan('SELECT id, number FROM (SELECT id, dedup_is_new(k, lower(name)) OVER w AS n, row_number() OVER w AS number
	FROM few WINDOW w AS (PARTITION BY day ORDER BY id)) c WHERE NOT n AND id > 7', 'VERBOSE, COSTS OFF');
SELECT regexp_replace(replace(line, '.00 loops', ' loops'), '\d+ kB', 'N kB') AS line
FROM plan('SELECT id FROM (SELECT id, dedup_is_new(k) OVER (PARTITION BY day ORDER BY id) AS n FROM few) c WHERE n', 'ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF') line
WHERE line !~ 'Sort Method';
SELECT count(*) FILTER (WHERE new) AS new, count(*) - count(*) FILTER (WHERE new) AS removed
FROM (SELECT row_number() OVER (PARTITION BY day, k ORDER BY id) = 1 AS new FROM few) x;

-- with the setting off, WindowAgg

SET streamdedup.streaming_window = off;
SELECT nodes('SELECT dedup_is_new(k) OVER (ORDER BY id) FROM few');
RESET streamdedup.streaming_window;

-- where the node is: with row_number(), with several calls, with windows that see the same
-- rows in the same order, with any frame that has no offset

SELECT what, nodes, same FROM (VALUES
	('one', 'SELECT id, dedup_is_new(k) OVER (ORDER BY id) FROM click'),
	('no order', 'SELECT id, dedup_is_new(k) OVER () FROM click'),
	('a prototype', 'SELECT id, dedup_is_new(dedup_window(1000), k) OVER (ORDER BY id) FROM click'),
	('row_number()', 'SELECT id, row_number() OVER w, dedup_is_new(k) OVER w FROM click WINDOW w AS (ORDER BY id)'),
	('three', 'SELECT id, dedup_is_new(k) OVER w, dedup_is_new(dedup_filter(1000000), name) OVER w, dedup_is_new(k, name) OVER w FROM click WINDOW w AS (ORDER BY id)'),
	('two names', 'SELECT id, dedup_is_new(k) OVER a, dedup_is_new(name) OVER b FROM click WINDOW a AS (ORDER BY id), b AS (ORDER BY id)'),
	('with and without an order', 'SELECT id, dedup_is_new(k) OVER (ORDER BY id), dedup_is_new(name) OVER () FROM click'),
	('partitions', 'SELECT id, day, dedup_is_new(k) OVER (PARTITION BY day ORDER BY id), row_number() OVER (PARTITION BY day ORDER BY id) FROM click'),
	('a frame', 'SELECT id, dedup_is_new(k) OVER (ORDER BY id ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING EXCLUDE TIES) FROM click'),
	('over groups', 'SELECT k % 100 AS g, count(*), dedup_is_new(count(*)) OVER (ORDER BY k % 100) FROM click GROUP BY k % 100'),
	('in an expression', 'SELECT id, CASE WHEN dedup_is_new(k) OVER (ORDER BY id) THEN name ELSE ''again'' END FROM click'),
	('volatile beside it', 'SELECT id, dedup_is_new(k) OVER (ORDER BY id), nextval(''counter'') < 0 FROM few'),
	('expressions as keys', 'SELECT id, dedup_is_new(lower(name), k / 2, (day, id / 5), ARRAY[k]) OVER (ORDER BY id) FROM click'),
	('whole rows', 'SELECT c, dedup_is_new(c) OVER (ORDER BY id) FROM few c'),
	('all columns', 'SELECT *, dedup_is_new(k) OVER () FROM click'),
	('sorted above', 'SELECT id, dedup_is_new(k) OVER (ORDER BY id) AS n FROM click ORDER BY n, id DESC'),
	('DISTINCT above', 'SELECT DISTINCT day, dedup_is_new(k) OVER (ORDER BY id) FROM click'),
	('nothing to read', 'SELECT id, dedup_is_new(k) OVER (ORDER BY id) FROM none')) q(what, query), compared(query);

-- where WindowAgg stays

SELECT what, nodes, same FROM (VALUES
	('another function', 'SELECT id, dedup_is_new(k) OVER w, rank() OVER w FROM few WINDOW w AS (ORDER BY id)'),
	('an aggregate', 'SELECT id, dedup_is_new(k) OVER w, count(*) OVER w FROM few WINDOW w AS (ORDER BY id)'),
	('two partitions', 'SELECT id, dedup_is_new(k) OVER (ORDER BY id), dedup_is_new(k) OVER (PARTITION BY day ORDER BY id) FROM few'),
	('two orders', 'SELECT id, dedup_is_new(k) OVER (ORDER BY id), dedup_is_new(k) OVER (ORDER BY k, id) FROM few'),
	('an offset', 'SELECT id, dedup_is_new(k) OVER (ORDER BY id ROWS 1 PRECEDING) FROM few'),
	('an offset that is wrong', 'SELECT id, dedup_is_new(k) OVER (ORDER BY id ROWS -1 PRECEDING) FROM few'),
	('a sub-select as a key', 'SELECT id, dedup_is_new((SELECT max(d.k + c.k) FROM few d)) OVER (ORDER BY id) FROM few c'),
	('row_number() alone', 'SELECT id, row_number() OVER (ORDER BY id) FROM few')) q(what, query), compared(query);
SELECT nodes('SELECT dedup_is_new(random()) OVER (ORDER BY id) FROM few') AS volatile_key,
	nodes('SELECT dedup_is_new(k) OVER (ORDER BY random()) FROM few') AS volatile_order;

-- a condition that stops at a row number

SELECT rows, same FROM compared('SELECT id, n FROM (SELECT id, dedup_is_new(k) OVER w AS n, row_number() OVER w AS r FROM click WINDOW w AS (ORDER BY id)) x WHERE r <= 20');

-- which conditions become the node's filter

SELECT what, filters(query), same FROM (VALUES
	('new', 'SELECT id FROM (SELECT id, dedup_is_new(k) OVER (ORDER BY id) AS n FROM click) c WHERE n'),
	('= true', 'SELECT id FROM (SELECT id, dedup_is_new(k) OVER (ORDER BY id) AS n FROM click) c WHERE n = true'),
	('not new', 'SELECT id FROM (SELECT id, dedup_is_new(k) OVER (ORDER BY id) AS n FROM click) c WHERE NOT n'),
	('both', 'SELECT id FROM (SELECT id, dedup_is_new(k) OVER (ORDER BY id) AS n FROM click) c WHERE n AND NOT n'),
	('two answers', 'SELECT id FROM (SELECT id, dedup_is_new(k) OVER w AS n, dedup_is_new(name) OVER w AS m FROM click WINDOW w AS (ORDER BY id)) c WHERE n AND NOT m'),
	('beside another', 'SELECT id FROM (SELECT id, name, dedup_is_new(k) OVER (ORDER BY id) AS n FROM click) c WHERE n AND name LIKE ''%7'''),
	('one of two', 'SELECT id FROM (SELECT id, name, dedup_is_new(k) OVER (ORDER BY id) AS n FROM click) c WHERE n OR name LIKE ''%7'''),
	('a number', 'SELECT id FROM (SELECT id, dedup_is_new(k) OVER w AS n, row_number() OVER w AS r FROM few WINDOW w AS (ORDER BY id)) c WHERE n AND r % 2 = 0'),
	('an expression', 'SELECT id FROM (SELECT id, dedup_is_new(k) OVER (ORDER BY id) IS NOT TRUE AS n FROM few) c WHERE n'),
	('a limit', 'SELECT id FROM (SELECT id, dedup_is_new(k) OVER (ORDER BY id) AS n FROM few ORDER BY id LIMIT 50) c WHERE n'),
	('volatile beside it', 'SELECT id FROM (SELECT id, dedup_is_new(k) OVER (ORDER BY id) AS n, nextval(''counter'') FROM few OFFSET 0) c WHERE n'),
	('WITH', 'WITH c AS (SELECT id, dedup_is_new(k) OVER (ORDER BY id) AS n FROM click) SELECT id FROM c WHERE n'),
	('a join', 'SELECT c.id, few.day FROM (SELECT id, dedup_is_new(k) OVER (ORDER BY id) AS n FROM click) c JOIN few USING (id) WHERE n'),
	('UNION ALL', 'SELECT id FROM (SELECT id, dedup_is_new(k) OVER (ORDER BY id) AS n FROM few UNION ALL SELECT id, dedup_is_new(name) OVER (ORDER BY id) FROM few) c WHERE n')) q(what, query), compared(query);

-- a volatile function beside it runs for each row

SELECT setval('counter', 1);
SELECT count(*) FROM (SELECT nextval('counter'), dedup_is_new(1) OVER (ORDER BY id) AS n FROM few OFFSET 0) c WHERE n;
SELECT last_value - 1 = (SELECT count(*) FROM few) AS for_each_row FROM counter;
SELECT setval('counter', 1);
SELECT count(*) FROM (SELECT nextval('counter'), dedup_is_new(1) OVER (ORDER BY id) AS n FROM few) c WHERE n;
SELECT last_value - 1 = (SELECT count(*) FROM few) AS for_each_row FROM counter;

-- one in a sub-select too, and a sub-select that locks rows; one that only reads does not run

SELECT setval('counter', 1);
SELECT count(*) FROM (SELECT (SELECT nextval('counter') + f.id), dedup_is_new(1) OVER (ORDER BY id) AS n FROM few f OFFSET 0) c WHERE n;
SELECT last_value - 1 = (SELECT count(*) FROM few) AS for_each_row FROM counter;
SELECT count(*) FROM (SELECT (SELECT nextval('counter') + 1), dedup_is_new(id) OVER (ORDER BY id) AS n FROM few OFFSET 0) c WHERE NOT n;
SELECT last_value - 2 = (SELECT count(*) FROM few) AS once FROM counter;
SELECT what, filters(query), same FROM (VALUES
	('volatile', 'SELECT id FROM (SELECT id, dedup_is_new(k) OVER (ORDER BY id) AS n, (SELECT nextval(''counter'') + f.id) FROM few f OFFSET 0) c WHERE n'),
	('locks', 'SELECT id, s FROM (SELECT id, dedup_is_new(k) OVER (ORDER BY id) AS n, (SELECT k FROM click c WHERE c.id = f.id FOR SHARE) AS s FROM few f) c WHERE n'),
	('reads', 'SELECT id, s FROM (SELECT id, dedup_is_new(k) OVER (ORDER BY id) AS n, (SELECT k FROM click c WHERE c.id = f.id) AS s FROM few f) c WHERE n')) q(what, query), compared(query);

-- LIMIT: not a row too many while filters are small, or where reading has side effects; after that
-- up to 31

CREATE FUNCTION read_for(query text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, TIMING OFF, BUFFERS OFF, FORMAT JSON) ' || query INTO plan;
	RETURN jsonb_path_query_first(plan::jsonb, '$.** ? (@."Custom Plan Provider" == "StreamingWindow").Plans[0]."Actual Rows"')::float8::int;
END $$;
SELECT read_for('SELECT dedup_is_new(k) OVER (ORDER BY id) FROM click LIMIT 1') AS one,
	read_for('SELECT dedup_is_new(k) OVER (ORDER BY id) FROM click LIMIT 1000') AS a_thousand,
	read_for('SELECT dedup_is_new(id) OVER (ORDER BY id) FROM click LIMIT 10001') - 10001 BETWEEN 1 AND 31 AS some_more,
	read_for('SELECT dedup_is_new(id) OVER (ORDER BY id) FROM (SELECT id FROM click WHERE nextval(''counter'') > 0 ORDER BY id OFFSET 0) c LIMIT 10001') AS side_effects,
	read_for('SELECT dedup_is_new(id) OVER (ORDER BY id) FROM (SELECT id FROM click ORDER BY id FOR UPDATE) c LIMIT 10001') AS locks,
	read_for('WITH c AS MATERIALIZED (SELECT id FROM click WHERE nextval(''counter'') > 0 ORDER BY id) SELECT * FROM (SELECT dedup_is_new(id) OVER () FROM c LIMIT 10001) d') AS in_with;
SELECT setval('counter', 1);
SELECT count(*) FROM (SELECT dedup_is_new(id) OVER () FROM (SELECT id, nextval('counter') FROM click OFFSET 0) c LIMIT 10001) d;
SELECT last_value - 1 AS called FROM counter;

-- errors come with their row, and with the same words: a full filter, a prototype that is none

CREATE FUNCTION pg_temp.full_filter() RETURNS dedup_filter LANGUAGE sql IMMUTABLE AS $$ SELECT dedup_method('quotient', NULL, 'keys=7000') $$;
SET client_min_messages = error;
SELECT what, rows, same, error FROM (VALUES
	('up to the last row', 'SELECT id, dedup_is_new(pg_temp.full_filter(), id) OVER (ORDER BY id) FROM click LIMIT 7000'),
	('full', 'SELECT id, dedup_is_new(pg_temp.full_filter(), id) OVER (ORDER BY id) FROM click'),
	('none', 'SELECT id, dedup_is_new(NULL::dedup_filter, id) OVER (ORDER BY id) FROM click'),
	('with a key', 'SELECT id, dedup_is_new(dedup_add(dedup_filter(10), 1), id) OVER (ORDER BY id) FROM click'),
	('the first of a partition', 'SELECT id, dedup_is_new(CASE WHEN id > 4 THEN dedup_filter(10) END, id) OVER (PARTITION BY id / 3 ORDER BY id) FROM few'),
	('a sketch', 'SELECT id, dedup_is_new(dedup_method(''exaloglog'', ''4kB''), id) OVER (ORDER BY id) FROM few'),
	('no hash function', 'SELECT id, dedup_is_new(point(id, 1)) OVER (ORDER BY id) FROM few'),
	('nor a row', 'SELECT id, dedup_is_new(point(id, 1)) OVER (ORDER BY id) FROM none'),
	('a key that fails', 'SELECT id, dedup_is_new(1 / (id - 190)) OVER (ORDER BY id) FROM few'),
	('after the last row', 'SELECT id, dedup_is_new(1 / (id - 190)) OVER (ORDER BY id) FROM few LIMIT 190')) q(what, query), compared(query);
SELECT bool_and(same) AS same_limit FROM generate_series(7000, 12000, 617) n,
	compared(format('SELECT id, dedup_is_new(pg_temp.full_filter(), id) OVER (ORDER BY id) FROM click LIMIT %s', n));
RESET client_min_messages;

-- the WARNING too: once a query, at the same key

SELECT count(*) FILTER (WHERE n) > 0 AS some FROM (SELECT dedup_is_new(dedup_method('bloom', NULL, 'keys=10000 fpr=0.0001'), id) OVER (ORDER BY id) AS n FROM click) x;
SET streamdedup.streaming_window = off;
SELECT count(*) FILTER (WHERE n) > 0 AS some FROM (SELECT dedup_is_new(dedup_method('bloom', NULL, 'keys=10000 fpr=0.0001'), id) OVER (ORDER BY id) AS n FROM click) x;
RESET streamdedup.streaming_window;
SELECT count(*) AS before_it FROM (SELECT dedup_is_new(dedup_method('bloom', NULL, 'keys=10000 fpr=0.0001'), id) OVER (ORDER BY id) AS n FROM click LIMIT 10000) x;

-- who may not call the function may not through the node

CREATE ROLE window_node_user;
GRANT USAGE ON SCHEMA window_node TO window_node_user;
GRANT SELECT ON few TO window_node_user;
REVOKE EXECUTE ON FUNCTION dedup_is_new("any") FROM PUBLIC;
SET ROLE window_node_user;
SELECT count(n) FROM (SELECT dedup_is_new(k) OVER (ORDER BY id) AS n FROM few) x;
RESET ROLE;
GRANT EXECUTE ON FUNCTION dedup_is_new("any") TO PUBLIC;
DROP OWNED BY window_node_user;
DROP ROLE window_node_user;

-- run again for each row of a join, also before it came to its end

SELECT bool_and(new = least(d, 31)) AS lateral FROM generate_series(1, 40) d,
	LATERAL (SELECT count(*) AS new FROM (SELECT dedup_is_new(i % 31 + d) OVER (ORDER BY i) AS new FROM generate_series(1, d) i OFFSET 0) x WHERE new) y;
SELECT bool_and(first) AS all_new, bool_and(number = 1) AS all_first
FROM generate_series(1, 5) d, LATERAL (SELECT dedup_is_new(c.k) OVER w AS first, row_number() OVER w AS number FROM click c WHERE d > 0 WINDOW w AS (ORDER BY id) LIMIT 1) y;
SELECT array_agg((SELECT count(*) FROM (SELECT dedup_is_new(c.k) OVER (PARTITION BY day ORDER BY id) AS n FROM few c WHERE c.id < f.id) x WHERE n) ORDER BY id)
	= array_agg((SELECT count(DISTINCT (day, k)) FROM few c WHERE c.id < f.id) ORDER BY id) AS correlated FROM few f;

-- cursors, prepared statements, plans of PL/pgSQL

BEGIN;
CREATE TEMP TABLE fetched (pass int, i int, new boolean);
DO $$
DECLARE
	c SCROLL CURSOR FOR SELECT i, dedup_is_new(i % 7) OVER (ORDER BY i) AS new FROM generate_series(1, 20) i;
	r record;
BEGIN
	OPEN c;
	LOOP FETCH NEXT FROM c INTO r; EXIT WHEN NOT FOUND; INSERT INTO fetched VALUES (1, r.i, r.new); END LOOP;
	LOOP FETCH PRIOR FROM c INTO r; EXIT WHEN NOT FOUND; INSERT INTO fetched VALUES (2, r.i, r.new); END LOOP;
	CLOSE c;
END $$;
SELECT pass, count(*), bool_and(new = (i <= 7)) AS "right" FROM fetched GROUP BY pass ORDER BY pass;
DECLARE c CURSOR FOR SELECT id, n FROM (SELECT id, dedup_is_new(k) OVER (ORDER BY id) AS n FROM click) x WHERE n;
FETCH 2 FROM c;
FETCH BACKWARD 1 FROM c;
ROLLBACK;
PREPARE first_of(int, bigint) AS SELECT count(*) FROM (SELECT dedup_is_new(dedup_window($2), k + $1) OVER (ORDER BY id) AS n FROM click WHERE day = $1) x WHERE n;
SET plan_cache_mode = force_generic_plan;
SELECT (regexp_match(plan, '\(StreamingWindow\)|Filter: .*'))[1] AS generic FROM plan('EXECUTE first_of(1, 100000)') WHERE plan ~ 'Streaming|dedup';
EXECUTE first_of(1, 100000);
EXECUTE first_of(2, 100000);
EXECUTE first_of(8, 100000);
SELECT day, count(DISTINCT k) FROM click WHERE day IN (1, 2) GROUP BY day ORDER BY day;
RESET plan_cache_mode;
DEALLOCATE first_of;

-- with expressions compiled

SET jit = on;
SET jit_above_cost = 0;
SET jit_inline_above_cost = 0;
SET jit_optimize_above_cost = 0;
SELECT nodes, rows, same FROM compared('SELECT id, wide, n, m FROM (SELECT *, dedup_is_new(k, lower(name)) OVER w AS n, dedup_is_new(name) OVER w AS m FROM few WINDOW w AS (PARTITION BY day ORDER BY id)) c WHERE n AND id > 3');
SET jit = off;

-- rows that are read ahead hold on to few pages, and keep their values

SELECT nodes, rows, same FROM (VALUES
	('SELECT *, dedup_is_new(id) OVER () AS n FROM click'),
	('SELECT * FROM (SELECT *, dedup_is_new(id) OVER (ORDER BY id) AS n FROM click) x WHERE n'),
	('SELECT wide || name, n FROM (SELECT *, dedup_is_new(id / 2) OVER (ORDER BY id) AS n FROM (SELECT id, upper(name) AS name, wide FROM click OFFSET 0) c) x WHERE NOT n'),
	('SELECT * FROM (SELECT *, dedup_is_new(id, k) OVER (PARTITION BY day < 5 ORDER BY id) AS n, row_number() OVER (PARTITION BY day < 5 ORDER BY id) AS r FROM click) x WHERE n')) q(query), compared(query);

-- random queries

DO $$
DECLARE
	calls text[] := '{dedup_is_new(k),"dedup_is_new(k, name)",dedup_is_new(id),dedup_is_new(name),"dedup_is_new(dedup_filter(), id)",
		"dedup_is_new(dedup_filter(15000), id / 2)","dedup_is_new(dedup_window(500), k % 900)","dedup_is_new(dedup_window(20000), id % 10000, day)",
		"dedup_is_new(dedup_method(''ring'', NULL, ''keys=5000''), k)","dedup_is_new(dedup_method(''cuckoo'', NULL, ''keys=30000''), id)",
		"dedup_is_new(dedup_method(''bloom'', NULL, ''keys=50000''), k, day)",dedup_is_new(id % 10),dedup_is_new(NULL::int)}';
	windows text[] := '{"ORDER BY id","ORDER BY id","ORDER BY id","PARTITION BY day ORDER BY id","PARTITION BY id / 3 ORDER BY id","PARTITION BY id / 11000 ORDER BY id",
		"PARTITION BY name IS NULL, day > 3 ORDER BY id DESC","PARTITION BY name ORDER BY id"}';
	conditions text[] := '{true,true,a,NOT a,b,a AND NOT b,a AND id % 3 > 0,a OR b,r % 5 < 3}';
	lists text[] := '{"id, a, b, r","*","id, a::text || b","wide, id","day + id, b, r"}';
	sources text[] := '{click,click,few,"(SELECT id, day, k, name, wide FROM click ORDER BY id OFFSET 0) c","generate_series(1, 20) g, LATERAL (SELECT * FROM few WHERE id > g OFFSET 0) c"}';
	limits text[] := '{"","",""," LIMIT 7"," LIMIT 10011"," OFFSET 345"}';
	query text;
	outcome record;
	streamed int := 0;
	failed int := 0;
	wrong int := 0;
BEGIN
	PERFORM setseed(0.18), set_config('client_min_messages', 'error', true);
	FOR i IN 1..25 LOOP
		query := format('SELECT %s FROM (SELECT *, %s OVER w AS a, %s OVER w AS b, row_number() OVER w AS r FROM %s WINDOW w AS (%s)) x WHERE %s%s',
			lists[1 + floor(random() * 5)], calls[1 + floor(random() * 13)], calls[1 + floor(random() * 13)],
			sources[1 + floor(random() * 5)], windows[1 + floor(random() * 8)], conditions[1 + floor(random() * 9)], limits[1 + floor(random() * 6)]);
		outcome := compared(query);
		streamed := streamed + (outcome.nodes ~ 'StreamingWindow')::int;
		failed := failed + (outcome.error IS NOT NULL)::int;
		IF NOT outcome.same THEN
			wrong := wrong + 1;
			RAISE INFO 'differs: %', query;
		END IF;
	END LOOP;
	-- the queries are others where random() is another
	RAISE INFO '% streamed, % failed, % wrong', CASE WHEN streamed > 20 THEN 'most' ELSE streamed::text END, failed, wrong;
END $$;

-- queries of every kind around it

CREATE TABLE parts (id int, k bigint, day int) PARTITION BY LIST (day);
CREATE TABLE parts_0 PARTITION OF parts FOR VALUES IN (0, 1, 2);
CREATE TABLE parts_1 PARTITION OF parts DEFAULT;
INSERT INTO parts SELECT id, k, day FROM few;
ALTER TABLE few ADD COLUMN later int DEFAULT 7;
ALTER TABLE few ADD COLUMN gone int;
ALTER TABLE few DROP COLUMN gone;
CREATE VIEW barrier WITH (security_barrier) AS SELECT id, k, dedup_is_new(k) OVER (ORDER BY id) AS n FROM few WHERE day > 1;
SELECT what, rows, same, coalesce(nodes, '') ~ 'StreamingWindow' AS node FROM (VALUES
	('sets beside it', 'SELECT generate_series(1, 2), dedup_is_new(k) OVER (ORDER BY id) AS n, id FROM few'),
	('sets of it', 'SELECT generate_series(1, 1 + (dedup_is_new(k) OVER (ORDER BY id))::int) AS n, id FROM few'),
	('grouping sets', 'SELECT day, k, count(*), dedup_is_new(day, count(*)) OVER (ORDER BY day, k) FROM few GROUP BY ROLLUP (day, k)'),
	('HAVING', 'SELECT day, sum(k), dedup_is_new(sum(k) % 3) OVER (ORDER BY day) AS n FROM few GROUP BY day HAVING count(*) > 1'),
	('an aggregate by an index', 'SELECT min(id), dedup_is_new(min(id)) OVER () FROM click'),
	('DISTINCT ON', 'SELECT DISTINCT ON (day) day, id, dedup_is_new(k) OVER (ORDER BY id) FROM few ORDER BY day, id'),
	('sorted by it', 'SELECT id FROM few ORDER BY dedup_is_new(k) OVER (ORDER BY id), id'),
	('partitions', 'SELECT id, day, dedup_is_new(k, tableoid) OVER (ORDER BY id) FROM parts'),
	('an outer join below', 'SELECT f.id, c.x, dedup_is_new(c.x, f.k) OVER (ORDER BY f.id) AS n FROM few f LEFT JOIN (SELECT id, coalesce(name, ''none'') AS x FROM few WHERE day = 3) c ON c.id = f.id'),
	('outer joins on it', 'SELECT f.id, x.id AS i FROM few f LEFT JOIN (SELECT id, dedup_is_new(k) OVER (ORDER BY id) AS n FROM few) x ON x.id = f.id AND n ORDER BY 1'),
	('the missing side of one', 'SELECT f.id, x.id AS i FROM few f LEFT JOIN (SELECT id, dedup_is_new(k) OVER (ORDER BY id) AS n FROM few) x ON x.id = f.id WHERE n IS NOT TRUE ORDER BY 1'),
	('a barrier', 'SELECT * FROM barrier WHERE n AND id % 2 = 0'),
	('columns added later', 'SELECT *, dedup_is_new(later) OVER () AS n FROM few'),
	('one above another', 'SELECT * FROM (SELECT id, n, dedup_is_new(n, m) OVER (ORDER BY id) AS o FROM (SELECT id, dedup_is_new(k) OVER (ORDER BY id) AS n, dedup_is_new(day) OVER (ORDER BY id) AS m FROM few) x WHERE n) y WHERE o'),
	('no columns', 'SELECT dedup_is_new(1) OVER () FROM few'),
	('no table', 'SELECT dedup_is_new(1) OVER ()'),
	('not used', 'SELECT id FROM (SELECT id, dedup_is_new(k) OVER (ORDER BY id) AS n FROM few) x'),
	('twice', 'SELECT id, k, k, dedup_is_new(k) OVER w, NOT dedup_is_new(k) OVER w, 1, 1, NULL FROM few WINDOW w AS (ORDER BY id)'),
	('EXCEPT', 'SELECT id, dedup_is_new(k) OVER (ORDER BY id) FROM few EXCEPT SELECT id, dedup_is_new(day) OVER (ORDER BY id) FROM few ORDER BY 1, 2'),
	('a key from outside', 'SELECT f.id, n FROM few f, LATERAL (SELECT c.id, dedup_is_new(c.k * (f.id % 2)) OVER (ORDER BY c.id) AS n FROM few c LIMIT 30) x WHERE n'),
	('a prototype from outside', 'SELECT f.id, x.id AS i FROM few f, LATERAL (SELECT c.id, dedup_is_new(dedup_window(1 + f.id), c.k) OVER (PARTITION BY c.day ORDER BY c.id) AS n FROM few c) x WHERE n'),
	('NOT IN', 'SELECT id FROM few WHERE id NOT IN (SELECT id FROM (SELECT id, dedup_is_new(k) OVER (ORDER BY id) AS n FROM few) x WHERE n)'),
	('EXISTS', 'SELECT id FROM few f WHERE EXISTS (SELECT FROM (SELECT c.id, dedup_is_new(k) OVER (ORDER BY id) AS n FROM few c) x WHERE n AND x.id = f.id) ORDER BY id'),
	('WITH RECURSIVE', 'WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r WHERE i < 50) SELECT i, dedup_is_new(i % 7) OVER (ORDER BY i) FROM r'),
	('NULL as a partition', 'SELECT id, dedup_is_new(k) OVER (PARTITION BY CASE WHEN day > 3 THEN day END ORDER BY id) AS n FROM few'),
	('equal partitions', 'SELECT id, dedup_is_new(k) OVER (PARTITION BY CASE WHEN id % 2 = 0 THEN 1.0 ELSE 1.00 END ORDER BY id) AS n FROM few'),
	('the whole row', 'SELECT x FROM (SELECT id, dedup_is_new(k) OVER (ORDER BY id) AS n FROM few) x WHERE n'),
	('an aggregate above', 'SELECT day, count(*) FILTER (WHERE n) FROM (SELECT day, dedup_is_new(k) OVER (PARTITION BY day ORDER BY id) AS n FROM click) x GROUP BY day ORDER BY day'),
	('a window above', 'SELECT id, sum(n::int) OVER (ORDER BY id) FROM (SELECT id, dedup_is_new(k) OVER (ORDER BY id) AS n FROM few) x WHERE n')) q(what, query), compared(query);
DELETE FROM few WHERE ctid IN (SELECT ctid FROM (SELECT ctid, dedup_is_new(k) OVER (ORDER BY id) AS n FROM few) x WHERE NOT n);
SELECT count(*) = count(DISTINCT k) AS all_different FROM few;

-- a setting of the function is the function's

ALTER FUNCTION dedup_is_new("any") SET work_mem = '1MB';
SELECT nodes, same FROM compared('SELECT id, dedup_is_new(k) OVER (ORDER BY id) FROM click');
ALTER FUNCTION dedup_is_new("any") RESET work_mem;

\set QUIET on
SET client_min_messages = error;
DROP SCHEMA window_node CASCADE;
