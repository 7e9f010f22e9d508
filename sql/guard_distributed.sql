-- Guards on distributed tables, as far as they can be tested without Citus: the errors, and the triggers that Citus
-- makes on each shard. A plain table whose name ends with a number represents a shard here. test/citus.sh tests the
-- rest.

SET client_min_messages = warning;
\set SHOW_CONTEXT never

-- Without Citus.
CREATE TABLE clicks (u int, k text, v int);
SELECT dedup_guard_distributed('clicks', dedup_filter(1000), '{u}');
SELECT dedup_create('clicks_seen', dedup_filter(1000));
SELECT dedup_guard_distributed('clicks', 'clicks_seen', '{u}');
SELECT dedup_guard_distributed('clicks', 'clicks_seen'::regclass, '{u}');
SELECT dedup_guard_distributed('clicks');
SELECT dedup_guard_distributed('clicks', 'nothing', '{u}');
SELECT dedup_guard_distributed(NULL);
SELECT dedup_guard_distributed('clicks', NULL::dedup_filter, '{u}');
SELECT dedup_guard_distributed('clicks', NULL::text, '{u}');
SELECT dedup_guard_distributed('clicks', NULL::regclass, '{u}');
SELECT dedup_guard_distributed('clicks', dedup_filter(1000), NULL);
SELECT dedup_guard_distributed('clicks', dedup_filter(1000), '{u}', exact => NULL);
SELECT * FROM dedup_guards_distributed;
SELECT * FROM dedup_guard_placements('clicks');
SELECT dedup_guard_shard();
SELECT dedup_guard_shard_made();
DROP TABLE clicks_seen;

-- Guards of shards need a server of 14 or later.
SELECT current_setting('server_version_num')::int < 140000 AS too_old \gset
\if :too_old
DROP TABLE clicks;
\quit
\endif

-- A shard: the trigger that refuses rows, then the one that says how it is guarded.
CREATE TABLE shard_1 (u int, "A key" text, v int);
INSERT INTO shard_1 VALUES (1, 'a', 1), (2, 'b', 1), (3, NULL, 1);
CREATE TRIGGER "~dedup_distributed_1" BEFORE INSERT OR UPDATE OR DELETE ON shard_1 FOR EACH ROW EXECUTE FUNCTION dedup_guard_shard();
ALTER TABLE shard_1 ENABLE ALWAYS TRIGGER "~dedup_distributed_1";
INSERT INTO shard_1 VALUES (4, 'x', 1);
UPDATE shard_1 SET v = 2;
COPY shard_1 FROM stdin;
4	x	1
\.
DELETE FROM shard_1 WHERE u = 3;
-- The same statement for several tables, with other arguments, and another WHEN condition.
CREATE FUNCTION define(relation regclass, condition text, VARIADIC other text[] DEFAULT '{}') RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	arguments text[] := '{filter=My seen,method=bloom,keys=1000,fpr=1e-09,hash=xxh3,seed=7,ttl=0,renew=off,unlogged=off,on_duplicate=skip,exact=off,nulls_not_distinct=off,too_old=keep,on_delete=keep}';
BEGIN
	arguments := ARRAY(SELECT coalesce((SELECT o FROM unnest(other) o WHERE split_part(o, '=', 1) = split_part(a, '=', 1)), a) FROM unnest(arguments) a)
		|| ARRAY(SELECT o FROM unnest(other) o WHERE NOT EXISTS (SELECT FROM unnest(arguments) a WHERE split_part(o, '=', 1) = split_part(a, '=', 1)));
	EXECUTE format('CREATE OR REPLACE TRIGGER "~dedup_distributed_delete_%s" BEFORE DELETE ON %s FOR EACH ROW WHEN (%s) EXECUTE FUNCTION dedup_guard_shard(%s)',
		substring(relation::text FROM '\d+'), relation, condition, (SELECT string_agg(quote_literal(a), ', ') FROM unnest(arguments) a));
END $$;
SELECT define('shard_1', 'false AND OLD.u IS NULL AND lower(OLD."A key") IS NULL');
SELECT "table", filter, columns, on_duplicate, exact, on_delete, problem FROM dedup_guards;
SELECT kind, keys, fpr, seed, count FROM dedup_stats('"My seen_1"');
INSERT INTO shard_1 VALUES (1, 'A', 1), (4, 'x', 1), (5, 'y', 1), (5, 'Y', 1) RETURNING *;
-- Again, nothing changes. Renames are followed.
ALTER TABLE shard_1 RENAME "A key" TO k;
SELECT define('shard_1', 'false AND OLD.u IS NULL AND lower(OLD.k) IS NULL');
SELECT columns, refused, problem FROM dedup_guards;
-- The guard is lost, and mended with the filter that is there.
DELETE FROM shard_1 WHERE u = 5;
SELECT dedup_unguard('shard_1');
INSERT INTO shard_1 VALUES (6, 'z', 1);
SELECT define('shard_1', 'false AND OLD.u IS NULL AND lower(OLD.k) IS NULL');
INSERT INTO shard_1 VALUES (5, 'Y', 1), (6, 'z', 1) RETURNING *;
-- A part of the guard is lost, or disabled.
DROP INDEX shard_1_dedup_guard;
INSERT INTO shard_1 VALUES (7, 'z', 1);
SELECT define('shard_1', 'false AND OLD.u IS NULL AND lower(OLD.k) IS NULL');
DROP TRIGGER "~dedup_guard" ON shard_1;
INSERT INTO shard_1 VALUES (7, 'z', 1);
SELECT define('shard_1', 'false AND OLD.u IS NULL AND lower(OLD.k) IS NULL');
ALTER TABLE shard_1 DISABLE TRIGGER "~dedup_guard";
INSERT INTO shard_1 VALUES (7, 'z', 1);
SELECT define('shard_1', 'false AND OLD.u IS NULL AND lower(OLD.k) IS NULL');
INSERT INTO shard_1 VALUES (7, 'z', 1), (7, 'Z', 1) RETURNING *;

-- Rows that logical replication copies: the filter follows them, and nothing is refused.
SET session_replication_role = replica;
INSERT INTO shard_1 VALUES (8, 'z', 1), (1, 'a', 2), (9, 'x', 1);
UPDATE shard_1 SET k = 'c' WHERE u = 8;
DELETE FROM shard_1 WHERE u = 9;
RESET session_replication_role;
SELECT count(*) FROM shard_1 WHERE u IN (1, 8, 9);
INSERT INTO shard_1 VALUES (8, 'z', 1), (8, 'c', 1), (9, 'x', 1), (10, 'x', 1) RETURNING *;
-- In the same way rolled back.
BEGIN;
SET LOCAL session_replication_role = replica;
INSERT INTO shard_1 VALUES (11, 'z', 1);
ROLLBACK;
INSERT INTO shard_1 VALUES (11, 'z', 1) RETURNING *;

-- The filter goes with the shard, and with the trigger.
DROP TRIGGER "~dedup_distributed_delete_1" ON shard_1;
SELECT count(*) FROM dedup_guards;
SELECT to_regclass('"My seen_1"');
SELECT define('shard_1', 'false AND OLD.u IS NULL', 'on_delete=forget');
SET session_replication_role = replica;
DELETE FROM shard_1 WHERE u = 11;
UPDATE shard_1 SET u = 12 WHERE u = 7;
RESET session_replication_role;
INSERT INTO shard_1 VALUES (11, 'z', 1), (7, 'z', 1), (12, 'z', 1), (1, 'z', 1) RETURNING *;
DROP TABLE shard_1;
SELECT count(*) FROM dedup_filters;

-- Exact, with marks, a condition and a time.
CREATE TABLE shard_2 (k int, v int, at timestamptz, dup boolean);
INSERT INTO shard_2 VALUES (1, 1, '2025-03-01Z');
SELECT define('shard_2', 'false AND OLD.k IS NULL AND OLD.dup IS NOT NULL AND (OLD.v > 0) IS NOT TRUE AND OLD.at IS NOT NULL', 'ttl=86400000000', 'exact=on', 'on_duplicate=mark');
CREATE INDEX ON shard_2 (k);
SELECT define('shard_2', 'false AND OLD.k IS NULL AND OLD.dup IS NOT NULL AND (OLD.v > 0) IS NOT TRUE AND OLD.at IS NOT NULL', 'ttl=86400000000', 'exact=on', 'on_duplicate=mark');
SELECT filter, columns, on_duplicate, exact, "where", at, problem FROM dedup_guards;
INSERT INTO shard_2 VALUES (1, 1, '2025-03-01 12:00Z'), (1, 0, '2025-03-01 12:00Z'), (1, 1, '2025-03-03Z') RETURNING v, dup;
SELECT ttl FROM dedup_stats('"My seen_2"');
DROP TABLE shard_2;

-- Partitions: rows of those that are attached are loaded.
CREATE TABLE shard_3 (k int, v int) PARTITION BY LIST (v);
CREATE TABLE part_1_3 PARTITION OF shard_3 FOR VALUES IN (1);
INSERT INTO shard_3 VALUES (1, 1);
CREATE TRIGGER "~dedup_distributed_3" BEFORE INSERT OR UPDATE OR DELETE ON shard_3 FOR EACH ROW EXECUTE FUNCTION dedup_guard_shard();
INSERT INTO part_1_3 VALUES (2, 1);
SELECT define('shard_3', 'false AND OLD.k IS NULL');
CREATE TABLE part_2_3 (k int, v int);
INSERT INTO part_2_3 VALUES (2, 2), (3, 2);
ALTER TABLE shard_3 ATTACH PARTITION part_2_3 FOR VALUES IN (2);
INSERT INTO shard_3 VALUES (1, 2), (2, 1), (3, 1), (4, 2) RETURNING *;
DROP TABLE shard_3;

-- What is no guard of a shard: not for a table without a number, or with another one.
CREATE TABLE shard_4 (k int);
CREATE TRIGGER "~dedup_distributed_delete_5" BEFORE DELETE ON shard_4 FOR EACH ROW WHEN (false AND OLD.k IS NULL) EXECUTE FUNCTION dedup_guard_shard();
SELECT count(*) FROM dedup_guards;
DROP TRIGGER "~dedup_distributed_delete_5" ON shard_4;
-- Conditions and arguments that we do not write.
SELECT define('shard_4', 'OLD.k IS NULL');
SELECT define('shard_4', 'true AND OLD.k IS NULL');
SELECT define('shard_4', 'false AND OLD.k > 1');
SELECT define('shard_4', 'false');
SELECT define('shard_4', 'false AND OLD.k IS NULL', 'nonsense=1');
SELECT define('shard_4', 'false AND OLD.k IS NULL', 'on_duplicate=whatever');
SELECT define('shard_4', 'false AND OLD.k IS NULL', 'method=none');
SELECT define('shard_4', 'false AND OLD.k IS NULL', 'exact=perhaps');
SELECT define('shard_4', 'false AND random() IS NULL AND OLD.k IS NULL');
CREATE TRIGGER "~dedup_distributed_delete_4" BEFORE DELETE ON shard_4 FOR EACH ROW WHEN (false AND OLD.k IS NULL) EXECUTE FUNCTION dedup_guard_shard('filter=a');
CREATE TRIGGER "~dedup_distributed_delete_4" BEFORE DELETE ON shard_4 FOR EACH ROW EXECUTE FUNCTION dedup_guard_shard();
CREATE TRIGGER "~dedup_distributed_4" AFTER INSERT ON shard_4 FOR EACH ROW EXECUTE FUNCTION dedup_guard_shard();
INSERT INTO shard_4 VALUES (1);
DROP TRIGGER "~dedup_distributed_4" ON shard_4;
-- The filter's name is taken.
CREATE TABLE "My seen_4" (a int);
SELECT define('shard_4', 'false AND OLD.k IS NULL');
DROP TABLE "My seen_4";
SELECT dedup_create('"My seen_4"', dedup_filter(1000));
SELECT define('shard_4', 'false AND OLD.k IS NULL');
DROP TABLE "My seen_4";

-- The right to make triggers is not enough: functions run as the owner.
CREATE ROLE regress_shard_owner;
CREATE ROLE regress_shard_other;
GRANT CREATE ON SCHEMA public TO regress_shard_owner, regress_shard_other;
ALTER TABLE shard_4 OWNER TO regress_shard_owner;
GRANT TRIGGER, INSERT ON shard_4 TO regress_shard_other;
SET ROLE regress_shard_other;
SELECT define('shard_4', 'false AND OLD.k IS NULL');
RESET ROLE;
-- A superuser makes what is the owner's. Operators that others make are not called, when it is made or dropped.
SET ROLE regress_shard_other;
CREATE FUNCTION spy(oid, regclass) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE WARNING 'called by %', current_user; RETURN $1 OPERATOR(pg_catalog.=) $2::oid; END $$;
CREATE FUNCTION spy(regclass, oid) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE WARNING 'called by %', current_user; RETURN $1::oid OPERATOR(pg_catalog.=) $2; END $$;
CREATE OPERATOR = (LEFTARG = oid, RIGHTARG = regclass, FUNCTION = spy);
CREATE OPERATOR = (LEFTARG = regclass, RIGHTARG = oid, FUNCTION = spy);
RESET ROLE;
SELECT define('shard_4', 'false AND OLD.k IS NULL');
SELECT owner FROM dedup_filters;
DROP TRIGGER "~dedup_distributed_delete_4" ON shard_4;
SELECT define('shard_4', 'false AND OLD.k IS NULL');
SELECT dedup_unguard('shard_4');
SELECT define('shard_4', 'false AND OLD.k IS NULL');
SET ROLE regress_shard_other;
DROP FUNCTION spy(oid, regclass) CASCADE;
DROP FUNCTION spy(regclass, oid) CASCADE;
INSERT INTO shard_4 VALUES (1), (1), (2);
SELECT dedup_unguard('shard_4');
RESET ROLE;
SELECT count(*) FROM shard_4;
SET ROLE regress_shard_owner;
DROP TRIGGER "~dedup_distributed_delete_4" ON shard_4;
RESET ROLE;
SELECT count(*) FROM dedup_filters;

-- A table that is not distributed any more, as undistribute_table() leaves it.
CREATE TABLE undone (k int);
CREATE TRIGGER "~dedup_distributed" BEFORE INSERT OR UPDATE OR DELETE ON undone FOR EACH ROW EXECUTE FUNCTION dedup_guard_shard();
CREATE TRIGGER "~dedup_distributed_delete" BEFORE DELETE ON undone FOR EACH ROW WHEN (false AND OLD.k IS NULL) EXECUTE FUNCTION dedup_guard_shard('filter=a');
INSERT INTO undone VALUES (1);
SELECT dedup_create('undone_seen', dedup_filter(1000));
SELECT dedup_guard('undone', 'undone_seen', '{k}');
INSERT INTO undone VALUES (1), (1) RETURNING *;
SELECT dedup_unguard('undone');
INSERT INTO undone VALUES (1) RETURNING *;
SELECT count(*) FROM pg_trigger WHERE tgrelid = 'undone'::regclass;
SELECT dedup_unguard('undone');

DROP TABLE undone, undone_seen, shard_4, clicks;
DROP FUNCTION define;
REVOKE CREATE ON SCHEMA public FROM regress_shard_owner, regress_shard_other;
DROP ROLE regress_shard_owner, regress_shard_other;
