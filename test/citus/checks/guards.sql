-- Guards on distributed tables: made by one call on every shard, for all forms of INSERT and all options; carried
-- along when shards move, are copied and split; refused where they cannot work.

-- What each node says to a statement about a table; one row a placement.
CREATE FUNCTION on_shards(relation regclass, statement text) RETURNS SETOF text LANGUAGE sql AS
	$$SELECT result FROM run_command_on_placements(relation, statement) ORDER BY shardid, nodename$$;
CREATE FUNCTION filters() RETURNS text LANGUAGE sql AS
	$$SELECT coalesce(sum(result::int), 0) FROM run_command_on_all_nodes('SELECT count(*) FROM dedup_filters')$$;
-- All shards of a table are guarded.
CREATE FUNCTION whole(relation regclass) RETURNS text LANGUAGE sql AS
	$$SELECT string_agg(coalesce(problem, 'whole'), ', ') FROM (SELECT DISTINCT problem FROM dedup_guards_distributed WHERE "table" = relation) x$$;
-- Moves all shards of a table to the other worker.
CREATE FUNCTION other_node(node text) RETURNS text LANGUAGE sql AS
	$$SELECT nodename FROM pg_dist_node WHERE nodename <> node AND groupid <> 0 ORDER BY nodename LIMIT 1$$;
CREATE VIEW places AS SELECT logicalrelid AS relation, shardid, nodename, nodeport FROM pg_dist_shard JOIN pg_dist_shard_placement USING (shardid);
CREATE FUNCTION moves(name regclass, mode text) RETURNS SETOF text LANGUAGE sql AS
	$$SELECT format('SELECT citus_move_shard_placement(%s, %L, %s, %L, 5432, %L)', shardid, nodename, nodeport, other_node(nodename), mode)
		FROM places WHERE relation = name ORDER BY shardid$$;

SET citus.shard_count = 4;

-- ---- what is refused ----

CREATE TABLE hits (u bigint, k bigint, v int DEFAULT 0, is_duplicate boolean, at timestamptz DEFAULT '2025-03-01Z');
SELECT expect('a local table', $$SELECT dedup_guard_distributed('hits', dedup_filter(1000, 1e-9), '{u, k}')$$, '42809 table "hits" is not distributed');
SELECT expect('a reference table', $$SELECT dedup_guard_distributed('pages', dedup_filter(1000, 1e-9), '{page}')$$, '42809 table "pages" is a reference table');
SELECT create_distributed_table('hits', 'u', colocate_with => 'none') \g /dev/null
SELECT expect('dedup_guard()', $$SELECT dedup_guard('hits', 'hits', '{u, k}')$$, '0A000 table "hits" is distributed');
SELECT expect('a key without the distribution column', $$SELECT dedup_guard_distributed('hits', dedup_filter(1000, 1e-9), '{k}')$$,
	'0A000 the key of a guard of distributed table "hits" must contain its distribution column "u"');
SELECT expect('an expression of the distribution column', $$SELECT dedup_guard_distributed('hits', dedup_filter(1000, 1e-9), '{k, u + 0}')$$,
	'0A000 the key of a guard of distributed table "hits" must contain its distribution column "u"');
SELECT expect('an unknown column', $$SELECT dedup_guard_distributed('hits', dedup_filter(1000, 1e-9), '{u, x}')$$, '42703 column "x" of table "hits" does not exist');
SELECT expect('no filter', $$SELECT dedup_guard_distributed('hits', 'nothing', '{u, k}')$$, '42P01 live filter "nothing" does not exist');
SELECT expect('no live filter', $$SELECT dedup_guard_distributed('hits', 'hits', '{u, k}')$$, '42809 "hits" is not a live filter');
SELECT expect('NULL', $$SELECT dedup_guard_distributed('hits', dedup_filter(1000), NULL)$$, '22004 argument "columns" must not be null');
SELECT expect('at without a ttl', $$SELECT dedup_guard_distributed('hits', dedup_filter(1000), '{u}', at => 'at')$$, '42809 cannot guard "hits" with filters of this kind');
SELECT expect('an exact guard by a window', $$SELECT dedup_guard_distributed('hits', dedup_window(1000), '{u}', exact => true)$$, '42809 cannot guard "hits" with filters of this kind');
SELECT expect('an exact guard without an index', $$SELECT dedup_guard_distributed('hits', dedup_filter(1000), '{u}', exact => true)$$,
	'55000 table "hits" has no index by which an exact guard can find rows');
SELECT expect('a side table of Citus', $$SELECT dedup_guard_distributed('hits', dedup_filter(1000), '{u}', 'divert:clicks')$$,
	'42809 "clicks" cannot be the table that refused rows go into');
SELECT expect('nothing to mend', $$SELECT dedup_guard_distributed('hits')$$, '42704 table "hits" is not guarded');
SELECT expect('nothing to take off', $$SELECT dedup_unguard('hits')$$, '42704 table "hits" is not guarded');
INSERT INTO hits VALUES (1, 1), (1, 1), (2, 2);
SELECT expect('duplicates in mode reject', $$SELECT dedup_guard_distributed('hits', dedup_filter(1000, 1e-9), '{u, k}', 'reject')$$, '23505 could not load the keys of table "hits_%');
SELECT expect('all or nothing: no filters', 'SELECT filters()', '(0)');
SELECT expect('all or nothing: no triggers', $$SELECT DISTINCT on_shards('hits', 'SELECT count(*) FROM pg_trigger WHERE tgname LIKE ''~dedup%%'' AND %L <> ''''')$$, '(0)');
BEGIN;
SELECT dedup_guard_distributed('hits', dedup_filter(1000, 1e-9), '{u, k}') \g /dev/null
ROLLBACK;
SELECT expect('a call that is rolled back: no filters', 'SELECT filters()', '(0)');

-- ---- filters that grow, by a prototype and by a filter that is like them ----

CREATE TABLE many (u bigint);
SELECT create_distributed_table('many', 'u', colocate_with => 'none') \g /dev/null
SELECT dedup_guard_distributed('many', dedup_filter(fpr => 1e-9), '{u}') \g /dev/null
SELECT expect('every shard is guarded by a filter that grows', $$SELECT whole('many'), filters()$$, '(whole,4)');
INSERT INTO many SELECT i % 20000 FROM generate_series(1, 40000) i;
SELECT expect('each key once, whatever the number', 'SELECT count(*), count(DISTINCT u) FROM many', '(20000,20000)');
SELECT expect('the filters have split', $$SELECT sum(result::int) > 4 FROM run_command_on_all_nodes('SELECT coalesce(sum(splits), 0) FROM dedup_filters')$$, '(t)');
SELECT dedup_unguard('many') \g /dev/null
SELECT dedup_create('like_these', dedup_filter(fpr => 1e-9)) \g /dev/null
SELECT dedup_guard_distributed('many', 'like_these', '{u}', 'reject') \g /dev/null
SELECT expect('their keys are loaded', 'INSERT INTO many VALUES (7)', '23505%');
SELECT dedup_unguard('many') \g /dev/null
DROP TABLE many, like_these;

-- ---- rows ----

SELECT dedup_guard_distributed('hits', dedup_filter(1000, 1e-9), '{u, k}') \g /dev/null
SELECT expect('every shard is guarded', $$SELECT whole('hits')$$, '(whole)');
SELECT expect('a filter a shard', 'SELECT filters()', '(4)');
SELECT expect('INSERT', 'INSERT INTO hits VALUES (1, 1) RETURNING u, k', '');
SELECT expect('INSERT of several rows', 'INSERT INTO hits VALUES (1, 1), (3, 3), (4, 4), (3, 3), (2, 2) RETURNING u, k', E'(3,3)\n(4,4)');
COPY hits (u, k) FROM STDIN;
4	4
5	5
5	5
6	6
\.
CREATE TABLE more (u bigint, k bigint);
SELECT create_distributed_table('more', 'u', colocate_with => 'hits') \g /dev/null
INSERT INTO more SELECT i, i FROM generate_series(1, 20) i;
INSERT INTO hits (u, k) SELECT u, k FROM more;
INSERT INTO hits (u, k) SELECT k + 5, k + 5 FROM more;
INSERT INTO hits (u, k) SELECT i, i FROM generate_series(1, 30) i;
SELECT expect('each key once', 'SELECT count(*), count(DISTINCT (u, k)), min(k), max(k) FROM hits WHERE u > 1', '(29,29,2,30)');
SELECT expect('UPDATE of the key', 'UPDATE hits SET k = 100 WHERE u = 3 RETURNING k', '(100)');
SELECT expect('UPDATE to a key that is taken', 'INSERT INTO hits VALUES (3, 101); UPDATE hits SET k = 100 WHERE u = 3 AND k = 101', '23505 duplicate key value%');
SELECT expect('a key that was updated stays taken', 'INSERT INTO hits VALUES (3, 3) RETURNING k', '');
DELETE FROM hits WHERE u = 4;
SELECT expect('the key of a deleted row stays taken', 'INSERT INTO hits VALUES (4, 4) RETURNING k', '');
BEGIN;
INSERT INTO hits (u, k) SELECT i, i FROM generate_series(31, 60) i;
SAVEPOINT s;
INSERT INTO hits (u, k) SELECT i, i FROM generate_series(61, 90) i;
ROLLBACK TO s;
COMMIT;
BEGIN;
INSERT INTO hits (u, k) SELECT i, i FROM generate_series(61, 120) i;
ROLLBACK;
INSERT INTO hits (u, k) SELECT i, i FROM generate_series(31, 120) i;
SELECT expect('keys that were rolled back are new', 'SELECT count(*), count(DISTINCT (u, k)) FROM hits WHERE u > 30', '(90,90)');
-- through a worker
\c - - :one
INSERT INTO hits (u, k) VALUES (1, 1), (121, 121), (122, 122), (120, 120);
\c - - :two
INSERT INTO hits (u, k) VALUES (121, 121), (122, 122), (123, 123);
\c - - :coordinator
SET client_min_messages = warning;
SET citus.shard_count = 4;
SELECT expect('rows by way of a worker', 'SELECT count(*), count(DISTINCT (u, k)) FROM hits WHERE u > 30', '(93,93)');
SELECT expect('the view of a worker', $$SELECT result FROM run_command_on_workers('SELECT count(*) FROM dedup_guards_distributed WHERE whole')$$, E'(4)\n(4)');

-- ---- again, in another way, off ----

SELECT dedup_guard_distributed('hits', dedup_filter(1000, 1e-9), '{u, k}') \g /dev/null
SELECT dedup_guard_distributed('hits') \g /dev/null
SELECT expect('a second call changes nothing', 'SELECT sum(refused) > 50 FROM dedup_guards_distributed', '(t)');
SELECT expect('another key', $$SELECT dedup_guard_distributed('hits', dedup_filter(1000, 1e-9), '{u}')$$, '42710 table "hits" is guarded already, in another way');
SELECT expect('another size', $$SELECT dedup_guard_distributed('hits', dedup_filter(2000, 1e-9), '{u, k}')$$, '42710 table "hits" is guarded already, in another way');
SELECT expect('another mode', $$SELECT dedup_guard_distributed('hits', dedup_filter(1000, 1e-9), '{u, k}', 'reject')$$, '42710 table "hits" is guarded already, in another way');

-- A shard loses its guard: it takes no rows until the guard is mended.
SELECT on_shards('hits', 'SELECT dedup_unguard(%L)') \g /dev/null
SELECT expect('a shard without its guard', 'INSERT INTO hits VALUES (4, 4)', '55000 shard "hits_%" has lost its guard');
SELECT expect('shards without their guards', $$SELECT whole('hits')$$, '("it has no guard")');
SELECT expect('rows of a shard without its guard can be deleted', 'DELETE FROM hits WHERE u = 123 RETURNING k', '(123)');
SELECT dedup_guard_distributed('hits') \g /dev/null
SELECT expect('mended', $$SELECT whole('hits')$$, '(whole)');
SELECT expect('mended: what the filter knew', 'INSERT INTO hits VALUES (4, 4), (123, 123), (1, 1), (4, 5) RETURNING k', '(5)');
SELECT on_shards('hits', 'SELECT dedup_unguard(%L)') \g /dev/null
SELECT on_shards('hits', $$DO 'BEGIN EXECUTE ''DROP TABLE '' || replace(''%s'', ''hits_'', ''hits_seen_''); END'$$) \g /dev/null
SELECT expect('no filters', 'SELECT filters()', '(0)');
SELECT dedup_guard_distributed('hits') \g /dev/null
SELECT expect('mended with new filters: the rows', 'INSERT INTO hits VALUES (123, 123), (1, 1), (4, 5) RETURNING k', '(123)');
SELECT dedup_unguard('hits') \g /dev/null
SELECT expect('off: no filters', 'SELECT filters()', '(0)');
SELECT expect('off: no guards', 'SELECT count(*) FROM dedup_guards_distributed', '(0)');
INSERT INTO hits VALUES (123, 123);
SELECT expect('off: rows', 'SELECT count(*) FROM hits WHERE u = 123', '(2)');

-- ---- options ----

TRUNCATE hits;
CREATE INDEX ON hits (u, k);
SELECT dedup_guard_distributed('hits', dedup_filter(1000, 1e-9), '{u, k}', 'reject', exact => true) \g /dev/null
INSERT INTO hits VALUES (1, 1), (2, 2);
SELECT expect('exact: a duplicate', 'INSERT INTO hits VALUES (3, 3), (1, 1)', '23505 duplicate key value violates unique constraint "hits_%');
DELETE FROM hits WHERE u = 1;
SELECT expect('exact: the key is free', 'INSERT INTO hits VALUES (1, 1) RETURNING k', '(1)');
SELECT dedup_unguard('hits') \g /dev/null
SELECT expect('exact, load => false', $$SELECT dedup_guard_distributed('hits', dedup_filter(1000, 1e-9), '{u, k}', exact => true, load => false)$$, '55000 an exact guard must know%');

SELECT dedup_guard_distributed('hits', dedup_filter(1000, 1e-9), '{u, k}', load => false) \g /dev/null
SELECT expect('load => false', 'INSERT INTO hits VALUES (1, 1), (1, 1) RETURNING k', '(1)');
SELECT dedup_unguard('hits') \g /dev/null

SELECT dedup_guard_distributed('hits', dedup_filter(1000, 1e-9), '{u, k}', 'mark') \g /dev/null
SELECT expect('mark', 'INSERT INTO hits VALUES (1, 1), (5, 5) RETURNING k, is_duplicate', E'(1,t)\n(5,f)');
SELECT dedup_guard_distributed('hits') \g /dev/null
SELECT dedup_unguard('hits') \g /dev/null

SELECT dedup_guard_distributed('hits', dedup_filter(1000, 1e-9), '{u, k}', 'divert', on_delete => 'forget') \g /dev/null
SELECT expect('divert', 'INSERT INTO hits VALUES (1, 1), (5, 5), (6, 6) RETURNING k', '(6)');
SELECT expect('divert: beside the shard', $$SELECT sum(n::int) FROM on_shards('hits', 'SELECT count(*) FROM %s_refused') n$$, '(2)');
DELETE FROM hits WHERE u = 6;
SELECT expect('forget', 'INSERT INTO hits VALUES (6, 6) RETURNING k', '(6)');
TRUNCATE hits;
SELECT expect('forget: TRUNCATE', 'INSERT INTO hits VALUES (1, 1), (6, 6), (6, 6) RETURNING k', E'(1)\n(6)');
INSERT INTO hits VALUES (5, 5);
SELECT dedup_unguard('hits') \g /dev/null
SELECT dedup_guard_distributed('hits', dedup_filter(1000, 1e-9), '{u, k}', 'divert:bin') \g /dev/null
SELECT expect('divert: into one table on each node', 'INSERT INTO hits VALUES (1, 1), (5, 5), (7, 7) RETURNING k', '(7)');
SELECT expect('divert: on the workers', $$SELECT sum(result::int) FROM run_command_on_workers('SELECT count(*) FROM bin')$$, '(2)');
SELECT dedup_unguard('hits') \g /dev/null

TRUNCATE hits;
SELECT dedup_create('day_seen', dedup_window(1000, 1e-6, 7), ttl => '1 day') \g /dev/null
SELECT dedup_guard_distributed('hits', 'day_seen', '{u, k}', "where" => 'v >= 0', at => 'at', too_old => 'skip') \g /dev/null
SELECT expect('a filter as the model: its parameters', $$SELECT DISTINCT on_shards('hits', 'SELECT (kind, keys, fpr, seed, ttl)::text FROM dedup_stats(replace(%L, ''hits_'', ''day_seen_''))')$$,
	'("(""window of time"",1000,1e-06,7,""1 day"")")');
SELECT expect('where and at', $$INSERT INTO hits VALUES (1, 1, 0, NULL, '2025-03-01Z'), (1, 1, 0, NULL, '2025-03-01 12:00Z'), (1, 1, -1, NULL, '2025-03-01Z'),
	(1, 1, 0, NULL, '2025-03-03Z'), (1, 2, 0, NULL, '2025-02-01Z') RETURNING v, at AT TIME ZONE 'UTC'$$,
	E'(-1,"2025-03-01 00:00:00")\n(0,"2025-03-01 00:00:00")\n(0,"2025-03-03 00:00:00")');
SELECT dedup_unguard('hits') \g /dev/null
SELECT dedup_guard_distributed('hits', 'day_seen'::regclass, ARRAY['u', 'k % 10'], at => 'at', nulls_not_distinct => true) \g /dev/null
SELECT expect('a key of expressions', $$INSERT INTO hits VALUES (9, 1), (9, 11), (9, NULL), (9, NULL) RETURNING k$$, E'()\n(1)');
DROP TABLE hits;
SELECT expect('DROP TABLE: no filters but the model', 'SELECT filters()', '(1)');
DROP TABLE day_seen;

-- ---- an owner without other rights, names that need quotes, an empty search path ----

CREATE ROLE "The Owner" LOGIN;
CREATE SCHEMA "My Schema" AUTHORIZATION "The Owner";
SET ROLE "The Owner";
SET search_path = '';
CREATE TABLE "My Schema"."It's ""A"" Table" ("User Id" bigint, "Click ""Id""" text);
SELECT pg_catalog.create_distributed_table('"My Schema"."It''s ""A"" Table"', 'User Id', colocate_with => 'none') \g /dev/null
INSERT INTO "My Schema"."It's ""A"" Table" VALUES (1, 'a'), (2, 'b'), (5, 'b');
SELECT public.dedup_guard_distributed('"My Schema"."It''s ""A"" Table"', public.dedup_filter(1000, 1e-9), ARRAY['User Id', $$lower("Click ""Id""")$$]) \g /dev/null
INSERT INTO "My Schema"."It's ""A"" Table" VALUES (1, 'A'), (2, 'B'), (3, 'b'), (3, 'B');
DELETE FROM "My Schema"."It's ""A"" Table" WHERE "User Id" = 5;
ALTER TABLE "My Schema"."It's ""A"" Table" RENAME "Click ""Id""" TO "New Name";
ALTER TABLE "My Schema"."It's ""A"" Table" RENAME TO "Renamed";
RESET search_path;
SELECT public.expect('an owner: each key once', 'SELECT count(*) FROM "My Schema"."Renamed"', '(3)');
SELECT public.expect('an owner: whole', $$SELECT whole('"My Schema"."Renamed"')$$, '(whole)');
RESET ROLE;
SELECT moves('"My Schema"."Renamed"', 'block_writes') \gexec
SELECT moves('"My Schema"."Renamed"', 'force_logical') LIMIT 2 \gexec
SET ROLE "The Owner";
SELECT expect('after moves and renames', $$SELECT whole('"My Schema"."Renamed"')$$, '(whole)');
INSERT INTO "My Schema"."Renamed" VALUES (1, 'A'), (2, 'B'), (3, 'b'), (4, 'x'), (5, 'B');
SELECT expect('after moves: keys of rows and of deleted rows', 'SELECT "User Id" FROM "My Schema"."Renamed"', E'(1)\n(2)\n(3)\n(4)');
RESET ROLE;
CREATE ROLE "Another" LOGIN;
SET ROLE "Another";
SELECT expect('a table of another role', $$SELECT dedup_guard_distributed('"My Schema"."Renamed"')$$, '42501 %');
RESET ROLE;
DROP TABLE "My Schema"."Renamed";

-- ---- shards that move, are split, are made anew ----

CREATE TABLE stays (u bigint, k bigint, PRIMARY KEY (u, k, id), id bigint DEFAULT (random() * 1e15)::bigint);
SELECT create_distributed_table('stays', 'u', colocate_with => 'none') \g /dev/null
INSERT INTO stays SELECT i % 50, i FROM generate_series(1, 500) i;
SELECT dedup_guard_distributed('stays', dedup_filter(5000, 1e-9), '{u, k}') \g /dev/null
INSERT INTO stays SELECT i % 50, i FROM generate_series(501, 600) i;
DELETE FROM stays WHERE k > 550;
SELECT moves('stays', 'force_logical') LIMIT 1 \gexec
INSERT INTO stays SELECT i % 50, i FROM generate_series(1, 700) i;
SELECT expect('a move by logical replication: keys of deleted rows, too', 'SELECT count(*), count(DISTINCT (u, k)), count(*) FILTER (WHERE k BETWEEN 551 AND 600) FROM stays', '(650,650,0)');
SELECT shardid AS shard, (shardminvalue::bigint + shardmaxvalue::bigint) / 2 AS middle FROM pg_dist_shard WHERE logicalrelid = 'stays'::regclass ORDER BY shardid LIMIT 1 \gset
SELECT array_agg(nodeid) AS nodes FROM pg_dist_node WHERE groupid <> 0 \gset
SELECT citus_split_shard_by_split_points(:shard, ARRAY[:'middle'], :'nodes', 'block_writes') \g /dev/null
SELECT isolate_tenant_to_new_shard('stays', 7, shard_transfer_mode => 'block_writes') \g /dev/null
SELECT expect('split: whole', $$SELECT count(*) > 6, whole('stays') FROM places WHERE relation = 'stays'::regclass$$, '(t,whole)');
INSERT INTO stays SELECT i % 50, i FROM generate_series(1, 550) i;
INSERT INTO stays SELECT i % 50, i FROM generate_series(601, 800) i;
SELECT expect('split: each key once', 'SELECT count(*), count(DISTINCT (u, k)) FROM stays WHERE k NOT BETWEEN 551 AND 600', '(750,750)');
SELECT expect('alter_distributed_table', $$SELECT alter_distributed_table('stays', shard_count => 3)$$, '%triggers are not supported on distributed tables');
SET citus.enable_unsafe_triggers = on;
SELECT alter_distributed_table('stays', shard_count => 3) \g /dev/null
RESET citus.enable_unsafe_triggers;
SELECT expect('alter_distributed_table: whole', $$SELECT count(*), whole('stays') FROM places WHERE relation = 'stays'::regclass$$, '(3,whole)');
INSERT INTO stays SELECT i % 50, i FROM generate_series(1, 550) i;
SELECT expect('alter_distributed_table: each key once', 'SELECT count(*), count(DISTINCT (u, k)) FROM stays WHERE k <= 550', '(550,550)');
SELECT undistribute_table('stays') \g /dev/null
SELECT expect('undistribute_table', 'INSERT INTO stays VALUES (1, 1)', '55000 table "stays" is not guarded any more');
SELECT dedup_unguard('stays') \g /dev/null
SELECT expect('undistribute_table, off', 'INSERT INTO stays VALUES (1, 1) RETURNING k', '(1)');
DROP TABLE stays;

-- ---- partitions, one shard, shards on the coordinator, several placements ----

CREATE TABLE parts (u bigint, k bigint, at date) PARTITION BY RANGE (at);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM ('2025-01-01') TO ('2025-02-01');
CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM ('2025-02-01') TO ('2025-03-01');
SELECT create_distributed_table('parts', 'u', colocate_with => 'none') \g /dev/null
INSERT INTO parts SELECT i % 10, i, '2025-01-05' FROM generate_series(1, 100) i;
SELECT dedup_guard_distributed('parts', dedup_filter(1000, 1e-9), '{u, k}') \g /dev/null
INSERT INTO parts SELECT i % 10, i, '2025-02-05' FROM generate_series(51, 150) i;
CREATE TABLE parts_3 PARTITION OF parts FOR VALUES FROM ('2025-03-01') TO ('2025-04-01');
INSERT INTO parts_3 SELECT i % 10, i, '2025-03-05' FROM generate_series(101, 200) i;
CREATE TABLE parts_4 (u bigint, k bigint, at date);
SELECT create_distributed_table('parts_4', 'u', colocate_with => 'parts') \g /dev/null
INSERT INTO parts_4 SELECT i % 10, i, '2025-04-05' FROM generate_series(201, 250) i;
ALTER TABLE parts ATTACH PARTITION parts_4 FOR VALUES FROM ('2025-04-01') TO ('2025-05-01');
INSERT INTO parts SELECT i % 10, i, '2025-02-05' FROM generate_series(1, 260) i;
SELECT expect('partitions', $$SELECT count(*), count(DISTINCT (u, k)), whole('parts') FROM parts$$, '(260,260,whole)');
SELECT moves('parts', 'block_writes') LIMIT 2 \gexec
SELECT moves('parts', 'force_logical') LIMIT 1 \gexec
SELECT shardid AS shard, (shardminvalue::bigint + shardmaxvalue::bigint) / 2 AS middle FROM pg_dist_shard WHERE logicalrelid = 'parts'::regclass ORDER BY shardid DESC LIMIT 1 \gset
SELECT citus_split_shard_by_split_points(:shard, ARRAY[:'middle'], :'nodes', 'block_writes') \g /dev/null
INSERT INTO parts SELECT i % 10, i, '2025-03-05' FROM generate_series(1, 270) i;
SELECT expect('partitions after moves and a split', $$SELECT count(*), count(DISTINCT (u, k)), whole('parts') FROM parts$$, '(270,270,whole)');
DROP TABLE parts;

-- A column of the key is dropped: rows are refused, and what is left of the guard can be taken off.
CREATE TABLE lost (u bigint, k int);
SELECT create_distributed_table('lost', 'u', colocate_with => 'none') \g /dev/null
SELECT dedup_guard_distributed('lost', dedup_filter(1000, 1e-9), '{u, k}') \g /dev/null
INSERT INTO lost VALUES (1, 1), (1, 2), (2, 1), (3, 3);
ALTER TABLE lost DROP COLUMN k CASCADE;
SELECT expect('a column of the key is dropped', 'INSERT INTO lost VALUES (1)', '55000 shard "lost_%" has lost its guard');
SELECT dedup_unguard('lost') \g /dev/null
SELECT expect('what is left of the guard is taken off', 'INSERT INTO lost VALUES (1) RETURNING u', '(1)');
SELECT expect('and the filters', $$SELECT sum(result::int) FROM run_command_on_all_nodes('SELECT count(*) FROM pg_class WHERE relname LIKE ''lost_seen%''')$$, '(0)');
SELECT dedup_guard_distributed('lost', dedup_filter(500, 1e-9), '{u}') \g /dev/null
SELECT expect('another guard', 'INSERT INTO lost VALUES (1), (3), (4) RETURNING u', '(4)');
DROP TABLE lost;

-- The table is distributed by another column.
CREATE TABLE other (u bigint, k int, v int);
SELECT create_distributed_table('other', 'u', colocate_with => 'none') \g /dev/null
SELECT dedup_guard_distributed('other', dedup_filter(1000, 1e-9), '{u, k}') \g /dev/null
INSERT INTO other VALUES (1, 1, 1), (1, 1, 2), (2, 2, 2);
SET citus.enable_unsafe_triggers = on;
SELECT expect('distributed by a column that is not in the key', $$SELECT alter_distributed_table('other', distribution_column => 'v')$$,
	'0A000 the key of a guard of distributed table "other%" must contain its distribution column "v"');
SELECT alter_distributed_table('other', distribution_column => 'k') \g /dev/null
INSERT INTO other VALUES (1, 1, 1), (2, 2, 3), (1, 2, 1);
SELECT expect('distributed by another column of the key', $$SELECT count(*), whole('other') FROM other$$, '(3,whole)');
SELECT undistribute_table('other') \g /dev/null
SELECT create_distributed_table('other', 'v', colocate_with => 'none') \g /dev/null
RESET citus.enable_unsafe_triggers;
SELECT expect('distributed anew by a column that is not in the key', $$SELECT whole('other')$$, '("the table is distributed by a column that is not in the key")');
SELECT expect('such a guard cannot be mended', $$SELECT dedup_guard_distributed('other')$$, '0A000 the key of a guard of distributed table "other" must contain%');
DROP TABLE other;

CREATE TABLE single (k int);
SELECT create_distributed_table('single', NULL) \g /dev/null
SELECT dedup_guard_distributed('single', dedup_filter(1000, 1e-9), '{k}') \g /dev/null
INSERT INTO single VALUES (1), (1), (2);
SELECT expect('one shard: any key', 'SELECT k FROM single', E'(1)\n(2)');
DROP TABLE single;

SELECT citus_set_node_property(:'coordinator', 5432, 'shouldhaveshards', true) \g /dev/null
SET citus.shard_count = 6;
CREATE TABLE here (k int PRIMARY KEY, v int);
SELECT create_distributed_table('here', 'k', colocate_with => 'none') \g /dev/null
INSERT INTO here SELECT i FROM generate_series(1, 100) i;
SELECT dedup_guard_distributed('here', dedup_filter(1000, 1e-9), '{k, v}') \g /dev/null
INSERT INTO here SELECT i, 1 FROM generate_series(101, 200) i;
INSERT INTO here SELECT i, 1 FROM generate_series(151, 250) i;
SELECT expect('ON CONFLICT', 'INSERT INTO here VALUES (251, 1), (1, 1), (2, 1), (250, 1) ON CONFLICT (k) DO UPDATE SET v = -1 RETURNING *', E'(1,-1)\n(2,-1)\n(251,1)');
SELECT format('SELECT citus_move_shard_placement(%s, %L, 5432, %L, 5432)', shardid, :'coordinator', :'one') FROM places WHERE relation = 'here'::regclass AND nodename = :'coordinator' \gexec
INSERT INTO here SELECT i, 1 FROM generate_series(101, 260) i ON CONFLICT DO NOTHING;
SELECT expect('shards of the coordinator', $$SELECT count(*), whole('here') FROM here$$, '(260,whole)');
SELECT dedup_unguard('here') \g /dev/null
CALL citus_cleanup_orphaned_resources();
SELECT expect('shards of the coordinator: off', 'SELECT filters()', '(0)');
DROP TABLE here;
SELECT citus_set_node_property(:'coordinator', 5432, 'shouldhaveshards', false) \g /dev/null

SET citus.shard_replication_factor = 2;
CREATE TABLE twice (k int, v int);
SELECT create_distributed_table('twice', 'k', colocate_with => 'none') \g /dev/null
SELECT expect('several placements', $$SELECT dedup_guard_distributed('twice', dedup_filter(1000), '{k}')$$, '0A000 cannot guard "twice": its shards have several placements');
CREATE INDEX ON twice (k, v);
SELECT dedup_guard_distributed('twice', dedup_filter(1000, 1e-9), '{k, v}', exact => true) \g /dev/null
INSERT INTO twice SELECT i % 10, i % 20 FROM generate_series(1, 100) i;
SELECT expect('several placements: exact', $$SELECT sum(n::int), whole('twice') FROM on_shards('twice', 'SELECT count(*) FROM %s') n$$, '(40,whole)');
DROP TABLE twice;
SELECT expect('no filter is left', 'SELECT filters()', '(0)');
