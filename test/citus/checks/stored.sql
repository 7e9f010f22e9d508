-- Stored filters, one a tenant and day: made on the workers, merged there, asked in the scan of
-- another distributed table, carried along by moves and copies of shards.

-- sessions and daily are distributed by tenant and co-located
CREATE TABLE sessions (tenant int NOT NULL, day date NOT NULL, user_id bigint, country text NOT NULL);
SELECT create_distributed_table('sessions', 'tenant', colocate_with => 'none') \g /dev/null
CREATE TABLE daily (tenant int, day date, users dedup_filter NOT NULL, PRIMARY KEY (tenant, day));
SELECT create_distributed_table('daily', 'tenant', colocate_with => 'sessions') \g /dev/null
CREATE TABLE plain.sessions (LIKE public.sessions);
CREATE TABLE plain.daily (LIKE public.daily);
-- tenant 3 is a big one, so that its filters are not exact any more
INSERT INTO plain.sessions SELECT CASE WHEN click_id % 3 = 0 THEN 3 ELSE click_id / 10 % 16 END, day, user_id, country FROM plain.clicks;
INSERT INTO sessions SELECT * FROM plain.sessions;

-- INSERT ... SELECT runs on the workers alone
\set insert 'INSERT INTO daily SELECT tenant, day, dedup_agg(dedup_filter(10000), user_id) FROM sessions GROUP BY tenant, day'
SELECT plan_has('INSERT ... SELECT is pushed down', :'insert', 'Task Count: 16.*Insert on public.daily_.*Aggregate.*Seq Scan on public.sessions_'),
	plan_has('no row comes to the coordinator', :'insert', 'pull to coordinator|repartition', false);
:insert;
INSERT INTO plain.daily SELECT tenant, day, dedup_agg(dedup_filter(10000), user_id) FROM plain.sessions GROUP BY tenant, day;
-- the bytes are equal: blocked_bloom while it is exact, and beyond, does not depend on the order
SELECT same('the filters', 'SELECT tenant, day, md5(users::bytea) FROM daily');
SELECT same('their counts', 'SELECT tenant, day, dedup_count(users) FROM daily');

-- more rows of a day: ON CONFLICT adds them
\set again 'INSERT INTO daily AS d SELECT tenant, day, dedup_agg(dedup_filter(10000), user_id + 1) FROM sessions WHERE day = ''2025-03-05'' GROUP BY tenant, day ON CONFLICT (tenant, day) DO UPDATE SET users = dedup_merge(d.users, excluded.users)'
SELECT plan_has('ON CONFLICT is pushed down', :'again', 'Task Count: 16.*Conflict Resolution: UPDATE');
:again;
CREATE UNIQUE INDEX ON plain.daily (tenant, day);
SET search_path = plain, public;
:again;
SET search_path = public;
SELECT same('the filters with more keys', 'SELECT tenant, day, md5(users::bytea) FROM daily');
UPDATE daily SET users = dedup_add(users, 7777777) WHERE tenant = 3 AND day = '2025-03-02';
UPDATE plain.daily SET users = dedup_add(users, 7777777) WHERE tenant = 3 AND day = '2025-03-02';
SELECT same('a filter with one more', 'SELECT dedup_contains(users, 7777777), dedup_contains(users, 7777778), dedup_count(users) FROM daily WHERE tenant = 3 AND day = ''2025-03-02''');

-- merged on the workers
SELECT same('the users of a tenant', 'SELECT tenant, dedup_count(dedup_merge_agg(users)) FROM daily GROUP BY tenant'),
	same('the users of a day', 'SELECT day, dedup_count(dedup_merge_agg(users)) FROM daily GROUP BY day'),
	same('the users of all', 'SELECT md5(dedup_merge_agg(users)::bytea) FROM daily WHERE day < ''2025-03-05'''),
	plan_has('merged on the workers, by tenant', 'SELECT tenant, dedup_count(dedup_merge_agg(users)) FROM daily GROUP BY tenant', 'Query: SELECT tenant, public.dedup_count\(public.dedup_merge_agg\(users\)\)'),
	plan_has('merged on the workers, by day', 'SELECT day, dedup_count(dedup_merge_agg(users)) FROM daily GROUP BY day', 'worker_partial_agg\(''public.dedup_merge_agg'),
	plan_has('merged on the workers, all', 'SELECT dedup_merge_agg(users) FROM daily', 'worker_partial_agg\(''public.dedup_merge_agg');

-- asked in the scan of a table: co-located, and any other
\set yesterday 'SELECT count(*) FROM sessions s JOIN daily d ON s.tenant = d.tenant AND d.day = s.day - 1 WHERE NOT dedup_contains(d.users, s.user_id)'
\set week 'SELECT count(*) FROM clicks WHERE day >= ''2025-03-08'' AND NOT dedup_contains((SELECT dedup_merge_agg(users) FROM daily WHERE day < ''2025-03-08''), user_id)'
\set reference 'SELECT count(*) FROM clicks c WHERE is_new((SELECT users FROM daily WHERE tenant = 3 AND day = ''2025-03-02''), user_id)'
SELECT same('users that were not there yesterday', :'yesterday'),
	plan_has('asked on the workers', :'yesterday', 'Task Count: 16.*Join Filter: \(NOT dedup_contains'),
	same('users of another table that were not there last week', :'week'),
	plan_has('the merged filter is sent to the scan', :'week', 'Distributed Subplan.*worker_partial_agg.*Seq Scan on public.clicks_.*Filter: .*NOT dedup_contains\(\$0'),
	same('is_new of a stored filter', :'reference'),
	plan_has('is_new in the scan', :'reference', 'Seq Scan on public.clicks_.*Filter: is_new\(\$0');
SELECT same('deleted by a filter', 'SELECT count(*) FROM sessions WHERE dedup_contains((SELECT users FROM daily WHERE tenant = 3 AND day = ''2025-03-02''), user_id)');
SET citus.log_remote_commands = off;
DELETE FROM sessions WHERE dedup_contains((SELECT users FROM daily WHERE tenant = 3 AND day = '2025-03-02'), user_id);
DELETE FROM plain.sessions WHERE dedup_contains((SELECT users FROM plain.daily WHERE tenant = 3 AND day = '2025-03-02'), user_id);
SELECT same('the rows that are left', 'SELECT tenant, count(*) FROM sessions GROUP BY tenant');

-- reference tables: on every node, so also in a join
CREATE TABLE blocked (list text PRIMARY KEY, users dedup_filter NOT NULL);
SELECT create_reference_table('blocked') \g /dev/null
CREATE TABLE plain.blocked (LIKE public.blocked);
INSERT INTO blocked SELECT 'odd', dedup_agg(dedup_filter(10000), user_id) FROM plain.clicks WHERE user_id % 2 = 1;
INSERT INTO plain.blocked SELECT 'odd', dedup_agg(dedup_filter(10000), user_id) FROM plain.clicks WHERE user_id % 2 = 1;
SELECT same('a filter in a reference table', 'SELECT count(*) FROM clicks, blocked WHERE list = ''odd'' AND NOT dedup_contains(users, user_id)'),
	plan_has('asked on the workers, of a reference table', 'SELECT count(*) FROM clicks, blocked WHERE list = ''odd'' AND NOT dedup_contains(users, user_id)', 'Task Count: 16.*NOT dedup_contains'),
	same('a sub-select of a reference table', 'SELECT count(*) FROM clicks WHERE NOT dedup_contains((SELECT users FROM blocked WHERE list = ''odd''), user_id)');

-- shards that move, by logical replication and by blocking, are copied, split and rebalanced
SELECT shardid AS shard, nodename AS source, other FROM citus_shards, unnest(ARRAY[:'one', :'two']) other
WHERE table_name = 'daily'::regclass AND nodename <> other ORDER BY shard_size DESC LIMIT 1 \gset
CREATE FUNCTION node_of(shard bigint) RETURNS text LANGUAGE sql AS 'SELECT nodename FROM citus_shards WHERE shardid = shard';
SELECT citus_move_shard_placement(:shard, :'source', 5432, :'other', 5432, 'force_logical') \g /dev/null
SELECT judge('moved by logical replication', node_of(:shard), :'other'),
	same('the filters after it', 'SELECT tenant, day, md5(users::bytea) FROM daily');
CALL citus_cleanup_orphaned_resources();
SELECT citus_move_shard_placement(:shard, :'other', 5432, :'source', 5432, 'block_writes') \g /dev/null
SELECT judge('moved by blocking', node_of(:shard), :'source'),
	same('the filters after that', 'SELECT tenant, day, md5(users::bytea) FROM daily'),
	same('asked after that', :'yesterday');
CALL citus_cleanup_orphaned_resources();
SELECT isolate_tenant_to_new_shard('daily', 3, 'CASCADE', shard_transfer_mode => 'block_writes') \g /dev/null
SELECT same('the filters after a split', 'SELECT tenant, day, md5(users::bytea) FROM daily'), same('asked after a split', :'yesterday');
SELECT alter_distributed_table('daily', shard_count => 4, cascade_to_colocated => true) \g /dev/null
SELECT same('the filters in four shards', 'SELECT tenant, day, md5(users::bytea) FROM daily');

-- two copies of each shard
SET citus.shard_replication_factor = 2;
CREATE TABLE copied (tenant int, day date, users dedup_filter NOT NULL, PRIMARY KEY (tenant, day));
SELECT create_distributed_table('copied', 'tenant', colocate_with => 'none') \g /dev/null
INSERT INTO copied SELECT * FROM daily;
UPDATE copied SET users = dedup_add(users, -tenant);
SELECT judge('copies are equal', (SELECT count(*) FILTER (WHERE n = 2 AND sums = 1) || ' of ' || count(*) FROM
		(SELECT count(*) AS n, count(DISTINCT result) AS sums FROM run_command_on_placements('copied', 'SELECT md5(string_agg(users::text, '''' ORDER BY tenant, day)) FROM %s') GROUP BY shardid) x), '16 of 16');
UPDATE plain.daily SET users = dedup_add(users, -tenant);
SELECT judge('the filters with copies', rows_of('SELECT tenant, day, md5(users::bytea) FROM copied'), rows_of('SELECT tenant, day, md5(users::bytea) FROM plain.daily'));
