-- The aggregates over distributed tables: what one plain table gives, to the last digit.

-- keys of all kinds; ungrouped, by the distribution column, by another; on the workers
CREATE TEMP TABLE keys (name text, pushed boolean);
INSERT INTO keys SELECT trim(E'\n\t' FROM name), true FROM string_to_table($$user_id|number|small|id|at|stamp|day|bytes|amount|country|agent
	|country::name|agent::bpchar|country::"char"|user_id::float8|tenant > 3|ARRAY[tenant,number]|ROW(tenant, user_id)
	|country, agent|user_id, page|tenant, day, user_id|VARIADIC ARRAY[tenant,number]$$, '|') name;
-- the number means something else on another node, so the rows come
INSERT INTO keys VALUES ('number::oid::regclass', false);
-- a filter without a number of keys is compared by what it has: it depends on the order of its keys once it grows
CREATE TEMP TABLE results AS
	SELECT format(call, name) AS call, pushed, name, format(result, name) AS result FROM keys, (VALUES
		('approx_count_distinct(%s)', 'approx_count_distinct(%s)'),
		('dedup_agg(%s)', 'abs(dedup_count(dedup_agg(%1$s)) / approx_count_distinct(%1$s)::numeric - 1) < 0.03'),
		('dedup_agg(dedup_filter(50000), %s)', 'md5(dedup_agg(dedup_filter(50000), %s)::bytea)')) c(call, result);

SELECT same(call, 'SELECT ' || result || ' FROM clicks') FROM results;
SELECT same(call || ' by page', 'SELECT page, ' || result || ' FROM clicks GROUP BY page') FROM results;
SELECT same(call || ' by tenant', 'SELECT tenant, ' || result || ' FROM clicks GROUP BY tenant') FROM results;
SELECT expect(name || ': every key is there', format('SELECT count(*) FROM clicks WHERE NOT dedup_contains((SELECT dedup_agg(%s) FROM clicks), %1$s)', name), '(0)') FROM keys;
SELECT plan_has(call || ' is computed on the workers', 'SELECT ' || call || ' FROM clicks', 'worker_partial_agg', pushed) FROM results;
SELECT plan_has(call || ' by page is computed on the workers', 'SELECT page, ' || call || ' FROM clicks GROUP BY page', '->  Task.*Output: page, (dedup_agg|approx_count_distinct)') FROM results;
SELECT plan_has(call || ' by tenant is computed on the workers', 'SELECT tenant, ' || call || ' FROM clicks GROUP BY tenant', 'worker_partial_agg', pushed) FROM results;

-- FILTER, HAVING, ORDER BY, several in one query, beside others, under expressions, over nothing
SELECT same(what, statement) FROM (VALUES
	('FILTER', 'SELECT approx_count_distinct(user_id) FILTER (WHERE tenant = 2) FROM clicks'),
	('FILTER by tenant', 'SELECT tenant, approx_count_distinct(user_id) FILTER (WHERE day > ''2025-03-04'') FROM clicks GROUP BY tenant'),
	('FILTER that passes nothing', 'SELECT approx_count_distinct(user_id) FILTER (WHERE tenant > 100), dedup_agg(user_id) FILTER (WHERE tenant > 100) FROM clicks'),
	('FILTER of dedup_agg', 'SELECT dedup_count(dedup_agg(dedup_filter(50000), user_id) FILTER (WHERE tenant = 2)) FROM clicks'),
	('FILTER of text', 'SELECT approx_count_distinct(country) FILTER (WHERE tenant = 2), approx_count_distinct(agent, country) FILTER (WHERE tenant = 3) FROM clicks'),
	('HAVING', 'SELECT tenant FROM clicks GROUP BY tenant HAVING approx_count_distinct(user_id) > 3500'),
	('HAVING by page', 'SELECT page FROM clicks GROUP BY page HAVING approx_count_distinct(user_id) < 79'),
	('HAVING of dedup_agg', 'SELECT tenant FROM clicks GROUP BY tenant HAVING dedup_contains(dedup_agg(dedup_filter(50000), user_id), 31)'),
	('HAVING of text', 'SELECT tenant FROM clicks GROUP BY tenant HAVING approx_count_distinct(agent) > 100'),
	('several', 'SELECT count(*), approx_count_distinct(user_id), approx_count_distinct(page), dedup_count(dedup_agg(dedup_filter(50000), id)), dedup_count(dedup_agg(dedup_filter(50000), at)), sum(amount), avg(number) FROM clicks'),
	('several by tenant', 'SELECT tenant, count(*), approx_count_distinct(user_id), approx_count_distinct(page), dedup_count(dedup_agg(dedup_filter(50000), id)), max(day) FROM clicks GROUP BY tenant'),
	('with text', 'SELECT count(*), approx_count_distinct(user_id), approx_count_distinct(country), approx_count_distinct(country, agent) FROM clicks'),
	('with count(DISTINCT)', 'SELECT count(DISTINCT user_id), approx_count_distinct(user_id), approx_count_distinct(country) FROM clicks'),
	('with count(DISTINCT) by tenant', 'SELECT tenant, count(DISTINCT user_id), approx_count_distinct(user_id) FROM clicks GROUP BY tenant'),
	('DISTINCT', 'SELECT approx_count_distinct(DISTINCT user_id) FROM clicks'),
	('ORDER BY', 'SELECT tenant, approx_count_distinct(user_id) AS users FROM clicks GROUP BY tenant ORDER BY users DESC LIMIT 3'),
	('an expression', 'SELECT tenant, approx_count_distinct(user_id % 100 + tenant) * 2 + 1 FROM clicks GROUP BY tenant'),
	('no rows', 'SELECT approx_count_distinct(user_id), dedup_agg(user_id), dedup_agg(dedup_filter(100), user_id) FROM clicks WHERE tenant > 100'),
	('no rows of one shard', 'SELECT approx_count_distinct(user_id), dedup_agg(user_id) FROM clicks WHERE page = 1000'),
	('one shard', 'SELECT approx_count_distinct(user_id), dedup_count(dedup_agg(user_id)) FROM clicks WHERE page = 7'),
	('only NULLs', 'SELECT approx_count_distinct(user_id), dedup_count(dedup_agg(dedup_filter(100), user_id)) FROM clicks WHERE user_id IS NULL'),
	('a literal', 'SELECT approx_count_distinct(1), approx_count_distinct(''x''::text), approx_count_distinct(''1''::int) FROM clicks'),
	('a join with co-located rows', 'SELECT approx_count_distinct(v.user_id), dedup_count(dedup_agg(dedup_filter(50000), c.user_id)) FROM clicks c JOIN visits v USING (page)'),
	('a join with a reference table', 'SELECT title, approx_count_distinct(user_id) FROM clicks JOIN pages USING (page) GROUP BY title'),
	('over a subquery', 'SELECT approx_count_distinct(user_id) FROM (SELECT user_id FROM clicks WHERE tenant < 4 OFFSET 0) x'),
	('in a CTE', 'WITH c AS MATERIALIZED (SELECT tenant, approx_count_distinct(user_id) AS n FROM clicks GROUP BY tenant) SELECT c.tenant, n, count(*) FROM c JOIN clicks k ON k.tenant = c.tenant GROUP BY 1, 2'),
	('in a sub-select', 'SELECT count(*) FROM clicks WHERE number < (SELECT approx_count_distinct(user_id) FROM visits)'),
	('a union', 'SELECT approx_count_distinct(user_id) FROM clicks UNION ALL SELECT approx_count_distinct(user_id) FROM visits'),
	('grouping sets', 'SELECT tenant, day, approx_count_distinct(user_id) FROM (SELECT tenant, day, user_id FROM clicks OFFSET 0) x GROUP BY GROUPING SETS ((tenant), (day), ())'),
	('a window', 'SELECT DISTINCT page, approx_count_distinct(user_id) OVER (PARTITION BY page) FROM clicks'),
	('a window of all', 'SELECT DISTINCT tenant, approx_count_distinct(user_id) OVER (PARTITION BY tenant) FROM clicks'),
	('merged filters', 'SELECT dedup_count(dedup_merge_agg(f)) FROM (SELECT page, dedup_agg(dedup_filter(50000), user_id) AS f FROM clicks GROUP BY page) x')
	) v(what, statement);

-- a filter that grows: the count is that of one table while it is exact, its keys are all there later
SELECT same('a growing filter has every key', 'SELECT count(*) FROM clicks WHERE dedup_contains((SELECT dedup_agg(user_id) FROM clicks), user_id)');
SELECT same('no more than its rate', 'SELECT count(*) < 400 FROM generate_series(1000000, 1019999) i WHERE dedup_contains((SELECT dedup_agg(user_id) FROM clicks), i)');

-- worker_partial_agg itself, as it runs where the library is not loaded: aggregates of one session with two methods
SELECT expect('worker_partial_agg', $$SELECT (dedup_stats(a::text::dedup_filter)).method, (dedup_stats(b::text::dedup_filter)).method FROM (
	SELECT worker_partial_agg((SELECT 'dedup_agg_hashes(bigint)'::regprocedure::oid), dedup_hash(NULL, user_id)) AS a,
		worker_partial_agg((SELECT 'approx_count_distinct_hashes(bigint)'::regprocedure::oid), dedup_hash(NULL, user_id)) AS b FROM plain.clicks) x$$, '(infini,exaloglog)');

-- EXPLAIN ANALYZE, also of aggregates that are planned apart
SELECT expect('EXPLAIN ANALYZE: ' || statement, 'SELECT rows_of(''EXPLAIN (ANALYZE, TIMING off, SUMMARY off) ' || statement || ''') LIKE ''%Distributed Subplan%''', '(t)') FROM unnest(ARRAY[
	'WITH c AS MATERIALIZED (SELECT tenant, approx_count_distinct(user_id) AS n FROM clicks GROUP BY tenant) SELECT count(*) FROM c JOIN clicks k ON k.tenant = c.tenant',
	'SELECT count(*) FROM clicks WHERE page < (SELECT approx_count_distinct(user_id) FROM visits)',
	'WITH c AS MATERIALIZED (SELECT tenant, dedup_agg(user_id) AS n FROM clicks GROUP BY tenant) SELECT * FROM c']) statement;

-- prepared statements; Citus has no generic plans of multi-shard queries
PREPARE counted(int) AS SELECT approx_count_distinct(user_id) FROM clicks WHERE tenant = $1;
PREPARE filters(dedup_filter, int) AS SELECT dedup_count(dedup_agg($1, user_id)) FROM clicks WHERE tenant = $2;
CREATE FUNCTION run_prepared(mode text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	one bigint;
	two bigint;
	rows text := '';
BEGIN
	PERFORM set_config('plan_cache_mode', mode, false);
	FOR i IN 0..6 LOOP
		EXECUTE format('EXECUTE counted(%s)', i) INTO one;
		EXECUTE format('EXECUTE filters(dedup_filter(50000), %s)', i) INTO two;
		rows := rows || format('(%s,%s)', one, two);
	END LOOP;
	RETURN rows;
END $$;
CREATE TABLE plain.prepared AS SELECT string_agg(format('(%s,%s)', one, two), '' ORDER BY tenant) AS rows
FROM (SELECT tenant, approx_count_distinct(user_id) AS one, dedup_count(dedup_agg(dedup_filter(50000), user_id)) AS two FROM plain.clicks GROUP BY tenant) x;
SELECT judge('prepared, ' || mode, run_prepared(mode), rows)
FROM unnest('{auto,force_custom_plan}'::text[]) mode, plain.prepared;
RESET plan_cache_mode;

-- by rows alone, as a session may set it, and with a worker asked
SET citus.coordinator_aggregation_strategy = 'disabled';
SELECT same('without gathering rows', 'SELECT approx_count_distinct(user_id), dedup_count(dedup_agg(dedup_filter(50000), user_id)) FROM clicks');
RESET citus.coordinator_aggregation_strategy;
\connect - - :one
SELECT rows_of('SELECT approx_count_distinct(user_id) FROM clicks') AS on_worker \gset
\connect - - :coordinator
SELECT judge('asked on a worker', :'on_worker', rows_of('SELECT approx_count_distinct(user_id) FROM clicks', 'plain, public'));
