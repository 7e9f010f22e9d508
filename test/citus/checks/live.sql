-- Live filters in distributed queries: where Citus evaluates is_new, dedup_seen and dedup_snapshot
-- of a name, what fails, and the forms that work. A live filter is on the node it was made on.

SELECT dedup_create('live', dedup_filter(60000, 1e-9)) \g /dev/null
CREATE FUNCTION keys_of(filter text) RETURNS text LANGUAGE sql AS 'SELECT count::text FROM dedup_stats(filter::regclass)';
SELECT count(DISTINCT user_id) AS users, count(DISTINCT (page, user_id)) AS pairs, count(*) - count(user_id) AS nulls FROM plain.clicks \gset
SELECT count(DISTINCT (page, user_id)) AS pairs FROM plain.clicks WHERE user_id IS NOT NULL \gset
CREATE TABLE one (x int);
INSERT INTO one VALUES (1);

-- in the query of a distributed table it is evaluated on the workers, which have no such filter
SELECT plan_has(call || ' is sent to the workers', 'SELECT count(*) FROM clicks WHERE ' || call, 'Query: SELECT count\(\*\) AS count FROM public.clicks_\d+ clicks WHERE public.*''live'''),
	expect(call || ' fails there', 'SELECT count(*) FROM clicks WHERE ' || call, '42P01 relation "live" does not exist'),
	expect(call || ' fails there, of one shard', 'SELECT count(*) FROM clicks WHERE page = 3 AND ' || call, '42P01 relation "live" does not exist')
FROM unnest(ARRAY['is_new(''live'', user_id)', 'dedup_seen(''live'', user_id)', 'dedup_contains(dedup_snapshot(''live''), user_id)']) call;
SELECT expect('in the select list', 'SELECT is_new(''live'', user_id) FROM clicks', '42P01 relation "live" does not exist'),
	expect('in a CTE that Citus inlines', 'WITH c AS (SELECT user_id FROM clicks) SELECT count(*) FROM c WHERE is_new(''live'', user_id)', '42P01 relation "live" does not exist'),
	expect('in INSERT ... SELECT', 'INSERT INTO visits SELECT page, user_id FROM clicks WHERE is_new(''live'', user_id)', '42P01 relation "live" does not exist'),
	expect('in DELETE', 'DELETE FROM visits WHERE dedup_seen(''live'', user_id)', '0A000 functions used in the WHERE/ON/WHEN clause of modification queries on distributed tables must not be VOLATILE'),
	expect('in UPDATE', 'UPDATE visits SET user_id = user_id WHERE dedup_contains(dedup_snapshot(''live''), user_id)', '0A000 functions used in the WHERE/ON/WHEN clause of modification queries on distributed tables must not be VOLATILE'),
	expect('in RETURNING', 'INSERT INTO visits VALUES (1, 1) RETURNING is_new(''live'', user_id)', '0A000 non-IMMUTABLE functions are not allowed in the RETURNING clause');
SELECT judge('no key was added', keys_of('live'), '0');

-- is_new: rows in a subquery with OFFSET 0, or in a CTE that is MATERIALIZED, come to the node of the session
CREATE TABLE forms (what text, query text);
INSERT INTO forms VALUES
	('OFFSET 0', 'SELECT user_id FROM (SELECT user_id FROM clicks WHERE user_id IS NOT NULL OFFSET 0) c WHERE is_new(''live'', user_id)'),
	('a CTE', 'WITH c AS MATERIALIZED (SELECT user_id FROM clicks WHERE user_id IS NOT NULL) SELECT user_id FROM c WHERE is_new(''live'', user_id)'),
	('a local table beside it', 'SELECT user_id FROM (SELECT user_id FROM clicks WHERE user_id IS NOT NULL OFFSET 0) c, one WHERE is_new(''live'', user_id)'),
	('dedup_new_keys', 'SELECT * FROM dedup_new_keys(''live'', (SELECT array_agg(user_id) FROM clicks WHERE user_id IS NOT NULL))');
CREATE FUNCTION firsts(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	got text;
BEGIN
	TRUNCATE live;
	EXECUTE 'CREATE TEMP TABLE firsts AS ' || query;
	SELECT concat_ws(' ', count(user_id), count(DISTINCT user_id)) INTO got FROM firsts AS f(user_id);
	DROP TABLE firsts;
	RETURN got;
END $$;
SELECT judge(what || ': each key once', firsts(query), :'users' || ' ' || :'users'),
	expect(what || ': no key is new again', query, '')
FROM forms;
SELECT plan_has(what || ': evaluated here', query, 'Distributed Subplan.*Task Count: 1\M')
FROM forms;
-- Citus sends such a query to a worker if it is told to take turns, but for one with a local table
SET citus.task_assignment_policy = 'round-robin';
SELECT expect(what || ', round-robin', query, CASE WHEN what ~ 'local table' THEN '' ELSE '42P01 relation "live" does not exist' END) FROM forms;
RESET citus.task_assignment_policy;

-- rows that come from here: INSERT ... SELECT, a COPY into a local table first
CREATE TABLE staging AS SELECT page, user_id FROM plain.clicks WHERE user_id IS NOT NULL;
CREATE TABLE taken (page int, user_id bigint);
SELECT create_distributed_table('taken', 'page', colocate_with => 'none') \g /dev/null
TRUNCATE live;
INSERT INTO taken SELECT * FROM staging WHERE is_new('live', page, user_id);
SELECT expect('INSERT ... SELECT from a local table', 'SELECT count(*), count(DISTINCT (page, user_id)) FROM taken', format('(%s,%s)', :pairs, :pairs));
INSERT INTO taken SELECT * FROM staging WHERE is_new('live', page, user_id);
INSERT INTO taken SELECT * FROM (SELECT page, user_id FROM clicks WHERE user_id IS NOT NULL OFFSET 0) c WHERE is_new('live', page, user_id);
INSERT INTO taken SELECT 1, 31 WHERE is_new('live', 1, 31);
SELECT expect('and again, from a distributed table, and one row', 'SELECT count(*) FROM taken', format('(%s)', :pairs + (SELECT count(*) FROM (SELECT 1, 31 EXCEPT SELECT page, user_id FROM staging) x)));
BEGIN;
INSERT INTO taken SELECT i, -i FROM generate_series(1, 100) i WHERE is_new('live', i, -i);
ROLLBACK;
INSERT INTO taken SELECT i, -i FROM generate_series(1, 100) i WHERE is_new('live', i, -i);
SELECT expect('after ROLLBACK no key is left behind', 'SELECT count(*) FROM taken WHERE user_id < 0', '(100)');

-- dedup_seen and dedup_snapshot: a sub-select is evaluated here, and its filter is sent to the workers
TRUNCATE live;
SELECT count(*) FROM plain.clicks WHERE tenant = 2 AND is_new('live', user_id) \g /dev/null
\set scan 'SELECT count(*) FROM clicks WHERE dedup_contains((SELECT dedup_snapshot(''live'')), user_id)'
SELECT count(*) AS wanted FROM plain.clicks WHERE dedup_contains((SELECT dedup_snapshot('live')), user_id) \gset
SELECT expect('a snapshot in a sub-select', :'scan', format('(%s)', :wanted)),
	expect('a snapshot in a CTE', 'WITH f AS (SELECT dedup_snapshot(''live'') AS filter) SELECT count(*) FROM clicks, f WHERE dedup_contains(filter, user_id)', format('(%s)', :wanted)),
	expect('dedup_seen of rows with OFFSET 0', 'SELECT count(*) FROM (SELECT user_id FROM clicks OFFSET 0) c WHERE dedup_seen(''live'', user_id)', format('(%s)', :wanted)),
	plan_has('the snapshot is sent to the scan', :'scan', 'Distributed Subplan.*dedup_snapshot.*Task Count: 16.*Seq Scan on public.clicks_.*Filter: dedup_contains\(\$0');
DELETE FROM taken;
INSERT INTO taken SELECT page, user_id FROM clicks WHERE user_id IS NOT NULL;
SELECT expect('DELETE by a snapshot', 'DELETE FROM taken WHERE dedup_contains((SELECT dedup_snapshot(''live'')), user_id)', ''),
	expect('the rows that are left', 'SELECT count(*) FROM taken', format('(%s)', (SELECT count(*) FROM plain.clicks WHERE user_id IS NOT NULL) - :wanted));

-- a filter of the same name on every node: each worker has its own, so the key must contain the distribution column
SELECT expect('a filter on every node', 'SELECT success, result FROM run_command_on_all_nodes($q$SELECT dedup_create(''everywhere'', dedup_filter(40000, 1e-9))$q$)', E'(t,everywhere)\n(t,everywhere)\n(t,everywhere)');
\set pairs_new 'SELECT count(*) FROM clicks WHERE user_id IS NOT NULL AND is_new(''everywhere'', page, user_id)'
SELECT expect('a key with the distribution column: each once', :'pairs_new', format('(%s)', :pairs)),
	expect('none again', :'pairs_new', '(0)'),
	expect('seen on the workers', 'SELECT count(*) FROM clicks WHERE dedup_seen(''everywhere'', page, user_id)', format('(%s)', 40000 - :nulls));
SELECT judge('nothing is here', keys_of('everywhere'), '0'),
	expect('each worker has its part', 'SELECT count(*) FILTER (WHERE result::int > 0), sum(result::int) FROM run_command_on_workers($q$SELECT count FROM dedup_stats(''everywhere'')$q$)', format('(2,%s)', :pairs));
SELECT expect('truncated', 'SELECT DISTINCT success FROM run_command_on_all_nodes(''TRUNCATE everywhere'')', '(t)');
BEGIN;
:pairs_new \g /dev/null
ROLLBACK;
SELECT expect('after ROLLBACK each is new', :'pairs_new', format('(%s)', :pairs));
-- after a move the other worker knows nothing of the shard's keys
SELECT shardid AS shard, nodename AS source, other FROM citus_shards, unnest(ARRAY[:'one', :'two']) other
WHERE table_name = 'clicks'::regclass AND nodename <> other ORDER BY shard_size DESC LIMIT 1 \gset
SELECT result AS moved FROM run_command_on_placements('clicks', 'SELECT count(DISTINCT (page, user_id)) FROM %s WHERE user_id IS NOT NULL') WHERE shardid = :shard \gset
SELECT citus_move_shard_placement(:shard, :'source', 5432, :'other', 5432, 'block_writes') \g /dev/null
SELECT expect('keys that a move made new', :'pairs_new', format('(%s)', :moved));
-- a key without it: the shards of a worker wait for each other, and each worker calls a key new
SET citus.max_adaptive_executor_pool_size = 1;
SELECT expect('truncated again', 'SELECT DISTINCT success FROM run_command_on_all_nodes(''TRUNCATE everywhere'')', '(t)');
SELECT expect('a key without the distribution column is new on each worker', format('SELECT count(*) > %s FROM clicks WHERE user_id IS NOT NULL AND is_new(''everywhere'', user_id)', :users), '(t)');
RESET citus.max_adaptive_executor_pool_size;

-- a live filter cannot be distributed
SELECT expect('create_distributed_table', 'SELECT create_distributed_table(''live'', ''block'')', '%cannot distribute relation "live" because it has triggers'),
	expect('create_reference_table', 'SELECT create_reference_table(''live'')', '%cannot distribute relation "live" because it has triggers'),
	expect('citus_add_local_table_to_metadata', 'SELECT citus_add_local_table_to_metadata(''live'')', '%cannot create a trigger on live filter "live"'),
	judge('the filter is whole', (SELECT problem IS NULL FROM dedup_filters WHERE name = 'live'::regclass)::text, 'true');
ALTER TABLE live RENAME TO renamed;
SELECT expect('renamed', 'SELECT dedup_seen(''renamed'', -1)', '(f)');
DROP TABLE renamed;
SELECT expect('dropped', 'SELECT dedup_seen(''renamed'', -1)', '42P01 relation "renamed" does not exist');
