-- Guards whose deleted rows free their keys: on_delete => 'forget'.
\set SHOW_CONTEXT never
SET client_min_messages = warning;
DROP SCHEMA IF EXISTS guard_forget CASCADE;
CREATE SCHEMA guard_forget;
SET search_path = guard_forget, public;
RESET client_min_messages;

SELECT dedup_create('seen', dedup_filter(1000, 1e-6, 42));
CREATE TABLE t (k int, v text);
SELECT dedup_guard('t', 'seen', '{k}', on_delete => 'forgets');
SELECT dedup_guard('t', 'seen', '{k}', exact => true, on_delete => 'forget');
SELECT dedup_guard('t', 'seen', '{k}', on_delete => NULL);
SELECT dedup_guard('t', 'seen', '{k}', on_delete => 'forget');
SELECT tgname, tgenabled FROM pg_trigger WHERE tgrelid = 't'::regclass ORDER BY tgname COLLATE "C";
SELECT "table", on_duplicate, on_delete, problem FROM dedup_guards WHERE "table" = 't'::regclass;

-- what the table has and what the filter says of it: the same
CREATE FUNCTION state(VARIADIC keys int[]) RETURNS text LANGUAGE sql AS
$$ SELECT string_agg(format('%s:%s/%s', key, (SELECT count(*) FROM t WHERE t.k = key),
	CASE WHEN dedup_seen('seen', key) THEN 'seen' ELSE 'free' END), ' ' ORDER BY key) FROM unnest(keys) key $$;

INSERT INTO t SELECT i, 'first' FROM generate_series(1, 9) i;
INSERT INTO t VALUES (1, 'again');
DELETE FROM t WHERE k IN (1, 2);
SELECT state(1, 2, 3);
INSERT INTO t VALUES (1, 'anew'), (2, 'anew'), (3, 'refused');
SELECT state(1, 2, 3), (SELECT string_agg(v, ',' ORDER BY k) FROM t WHERE k <= 3) AS v;

-- one that is rolled back frees nothing
BEGIN;
DELETE FROM t WHERE k = 1;
SELECT state(1);
ROLLBACK;
SELECT state(1);

-- inserted again in one transaction, and once more
BEGIN;
DELETE FROM t WHERE k = 1;
INSERT INTO t VALUES (1, 'back'), (1, 'refused');
DELETE FROM t WHERE k = 1;
INSERT INTO t VALUES (1, 'back again');
INSERT INTO t VALUES (1, 'refused');
COMMIT;
SELECT state(1);
-- ... by one statement: kept, and nothing is forgotten
WITH d AS (DELETE FROM t WHERE k <= 3 RETURNING *) INSERT INTO t SELECT k, 'moved' FROM d WHERE k <> 2;
SELECT state(1, 2, 3);
INSERT INTO t VALUES (1, 'refused'), (2, 'new'), (3, 'refused');
SELECT state(1, 2, 3);
-- ... of two rows with one key, which were there before the guard, one comes again: its key stays
SELECT dedup_unguard('t');
INSERT INTO t VALUES (20, 'a'), (20, 'b'), (21, 'a'), (21, 'b'), (22, 'a'), (22, 'b');
SELECT dedup_guard('t', 'seen', '{k}', on_delete => 'forget', load => true);
WITH d AS (DELETE FROM t WHERE k >= 20 RETURNING *) INSERT INTO t SELECT k, 'moved' FROM d WHERE k = 20 AND v = 'a' OR k = 21;
SELECT state(20, 21, 22);
DELETE FROM t WHERE k >= 20;
SELECT state(20, 21, 22);

-- savepoints
BEGIN;
INSERT INTO t VALUES (10, 'mine');
SAVEPOINT a;
DELETE FROM t WHERE k = 10;
SELECT state(10);
SAVEPOINT b;
INSERT INTO t VALUES (10, 'mine again');
SELECT state(10);
ROLLBACK TO b;
SELECT state(10);
ROLLBACK TO a;
SELECT state(10);
INSERT INTO t VALUES (10, 'refused');
DELETE FROM t WHERE k = 10;
RELEASE a;
SELECT state(10);
COMMIT;
SELECT state(10);
DO $$ BEGIN
	FOR i IN 1 .. 300 LOOP
		BEGIN
			DELETE FROM t WHERE k = 4;
			INSERT INTO t VALUES (4, i);
			IF i % 7 = 0 THEN
				RAISE EXCEPTION SQLSTATE 'XX999';
			END IF;
			IF i % 11 = 0 THEN
				DELETE FROM t WHERE k = 4;
				RAISE EXCEPTION SQLSTATE 'XX999';
			END IF;
		EXCEPTION WHEN SQLSTATE 'XX999' THEN
			NULL;
		END;
		IF (SELECT count(*) FROM t WHERE k = 4) <> 1 OR NOT dedup_seen('seen', 4) THEN
			RAISE 'wrong after %: %', i, state(4);
		END IF;
	END LOOP;
END $$;
SELECT state(4);

-- an UPDATE of the key; of another column; to NULL
UPDATE t SET k = 40 WHERE k = 4;
SELECT state(4, 40);
UPDATE t SET v = 'other' WHERE k = 40;
UPDATE t SET k = 5 WHERE k = 40;
SELECT state(5, 40);
UPDATE t SET k = NULL WHERE k = 40;
SELECT state(40);
UPDATE t SET k = 40 WHERE k IS NULL;
SELECT state(40);
-- each row takes the key of the one before it: only the last one is free
CREATE TABLE chain (k int);
SELECT dedup_create('chain_seen', dedup_filter(1000, 1e-6, 42));
SELECT dedup_guard('chain', 'chain_seen', '{k}', on_delete => 'forget');
INSERT INTO chain SELECT generate_series(1, 5);
UPDATE chain SET k = k - 1;
SELECT string_agg(k::text, ' ') AS seen FROM generate_series(0, 5) k WHERE dedup_seen('chain_seen', k);
INSERT INTO chain SELECT generate_series(0, 5) RETURNING *;
DROP TABLE chain, chain_seen;

-- the column of a CASCADE
CREATE TABLE parent (id int PRIMARY KEY);
INSERT INTO parent VALUES (1), (2), (3);
CREATE TABLE child (id int REFERENCES parent ON DELETE CASCADE ON UPDATE CASCADE, n int);
SELECT dedup_create('child_seen', dedup_filter(1000, 1e-6, 42));
SELECT dedup_guard('child', 'child_seen', '{id}', 'reject', on_delete => 'forget');
INSERT INTO child SELECT id, 1 FROM parent;
DELETE FROM parent WHERE id = 1;
UPDATE parent SET id = 20 WHERE id = 2;
SELECT k, dedup_seen('child_seen', k) FROM unnest('{1,2,3,20}'::int[]) k;
INSERT INTO child VALUES (3, 2);
-- TRUNCATE ... CASCADE reaches it, too
BEGIN;
TRUNCATE parent CASCADE;
SELECT k, dedup_seen('child_seen', k) FROM unnest('{3,20}'::int[]) k;
ROLLBACK;
-- a deferred constraint trigger that deletes, in the middle of the commit
CREATE FUNCTION deletes() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN DELETE FROM child WHERE n = 3; RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER deletes AFTER INSERT ON parent DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION deletes();
BEGIN;
INSERT INTO parent VALUES (4), (5);
INSERT INTO child VALUES (4, 3), (5, 4);
SELECT k, dedup_seen('child_seen', k) FROM unnest('{4,5}'::int[]) k;
COMMIT;
SELECT k, dedup_seen('child_seen', k) FROM unnest('{4,5}'::int[]) k;
-- a function in the statement, which deletes and inserts: its own statements are over first
CREATE FUNCTION again(k int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	DELETE FROM child WHERE id = k;
	INSERT INTO child VALUES (k, 9);
	RETURN k;
END $$;
SELECT again(3), again(3);
DELETE FROM child WHERE id = 3 AND again(5) = 5;
SELECT k, dedup_seen('child_seen', k), (SELECT count(*) FROM child WHERE id = k) FROM unnest('{3,5}'::int[]) k;
DROP TABLE child;

-- a later BEFORE trigger that keeps the row
CREATE FUNCTION keeps() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN IF OLD.v = 'kept' THEN RETURN NULL; END IF; RETURN OLD; END $$;
CREATE TRIGGER "~~keeps" BEFORE DELETE ON t FOR EACH ROW EXECUTE FUNCTION keeps();
INSERT INTO t VALUES (50, 'kept'), (51, 'goes');
DELETE FROM t WHERE k IN (50, 51);
SELECT state(50, 51);
INSERT INTO t VALUES (50, 'refused'), (51, 'new');
SELECT state(50, 51);
DROP TRIGGER "~~keeps" ON t;

-- MERGE, or what does the same on a server before 15
SELECT current_setting('server_version_num')::int >= 150000 AS has_merge \gset
\if :has_merge
MERGE INTO t USING (VALUES (50), (52)) s (k) ON t.k = s.k
WHEN MATCHED AND t.k = 50 THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (s.k, 'merged');
\else
WITH gone AS (DELETE FROM t WHERE k = 50) INSERT INTO t VALUES (52, 'merged');
\endif
SELECT state(50, 52);
\if :has_merge
MERGE INTO t USING (VALUES (52)) s (k) ON t.k = s.k WHEN MATCHED THEN UPDATE SET k = 53;
\else
UPDATE t SET k = 53 WHERE k = 52;
\endif
SELECT state(52, 53);

-- ON CONFLICT DO UPDATE on another index
CREATE TABLE u (id int PRIMARY KEY, k int);
SELECT dedup_create('u_seen', dedup_filter(1000, 1e-6, 42));
SELECT dedup_guard('u', 'u_seen', '{k}', 'reject', on_delete => 'forget');
INSERT INTO u VALUES (1, 1), (2, 2);
INSERT INTO u VALUES (1, 10) ON CONFLICT (id) DO UPDATE SET k = excluded.k;
SELECT k, dedup_seen('u_seen', k) FROM unnest('{1,2,10}'::int[]) k;
INSERT INTO u VALUES (2, 20) ON CONFLICT (id) DO NOTHING;
INSERT INTO u VALUES (3, 1);
INSERT INTO u VALUES (4, 10);
SELECT k, dedup_seen('u_seen', k) FROM unnest('{1,2,10,20}'::int[]) k;

-- duplicates that are marked free nothing
CREATE TABLE m (k int, is_duplicate boolean);
SELECT dedup_create('m_seen', dedup_filter(1000, 1e-6, 42));
SELECT dedup_guard('m', 'm_seen', '{k}', 'mark', on_delete => 'forget');
INSERT INTO m VALUES (1), (1), (2), (2) RETURNING *;
DELETE FROM m WHERE k = 1 AND is_duplicate;
DELETE FROM m WHERE k = 2 AND is_duplicate IS NOT TRUE;
SELECT dedup_seen('m_seen', 1) AS "1", dedup_seen('m_seen', 2) AS "2";
DROP TABLE m, m_seen, u, u_seen, parent;

-- a predicate: a row that leaves it frees its key, one that was never in it does not
CREATE TABLE soft (k int, deleted_at timestamptz);
SELECT dedup_create('soft_seen', dedup_filter(1000, 1e-6, 42));
SELECT dedup_guard('soft', 'soft_seen', '{k}', "where" => 'deleted_at IS NULL', on_delete => 'forget');
INSERT INTO soft VALUES (1), (2), (3);
UPDATE soft SET deleted_at = '2025-01-01' WHERE k IN (1, 2);
INSERT INTO soft VALUES (1), (3);
DELETE FROM soft WHERE deleted_at IS NOT NULL;
SELECT k, dedup_seen('soft_seen', k), (SELECT count(*) FROM soft WHERE soft.k = s.k) FROM unnest('{1,2,3}'::int[]) s (k);
DROP TABLE soft, soft_seen;
-- an expression, and a key with a NULL
CREATE TABLE mail (address text, n int);
SELECT dedup_create('mail_seen', dedup_filter(1000, 1e-6, 42));
SELECT dedup_guard('mail', 'mail_seen', '{lower(address),n}', on_delete => 'forget');
INSERT INTO mail VALUES ('A@b', 1), ('a@B', 1), (NULL, 1), (NULL, 1) RETURNING *;
UPDATE mail SET address = 'a@b' WHERE n = 1;
INSERT INTO mail VALUES ('A@B', 1);
DELETE FROM mail;
INSERT INTO mail VALUES ('A@B', 1) RETURNING *;
DROP TABLE mail, mail_seen;

-- two tables with one filter
CREATE TABLE other (k int);
SELECT dedup_guard('other', 'seen', '{k}');
INSERT INTO other VALUES (60), (61);
INSERT INTO t VALUES (60, 'refused');
DELETE FROM other WHERE k = 60;
INSERT INTO t VALUES (60, 'refused: a ledger keeps it'), (62, 'x');
DELETE FROM t WHERE k = 62;
INSERT INTO other VALUES (62);
SELECT state(60, 61, 62);
-- TRUNCATE keeps the keys of the other one
TRUNCATE t;
SELECT state(1, 61);
DROP TABLE other;

-- TRUNCATE of the only table empties the filter, if it commits
INSERT INTO t VALUES (70, 'a'), (71, 'b');
BEGIN;
TRUNCATE t;
SELECT state(70, 71);
INSERT INTO t VALUES (70, 'again'), (70, 'refused');
SELECT state(70, 71);
ROLLBACK;
SELECT state(70, 71);
BEGIN;
SAVEPOINT a;
TRUNCATE t;
ROLLBACK TO a;
SELECT state(70, 71);
TRUNCATE t;
INSERT INTO t VALUES (71, 'again');
TRUNCATE t;
INSERT INTO t VALUES (70, 'again');
COMMIT;
SELECT state(70, 71);
-- both at once, and what was added before by the same transaction
BEGIN;
INSERT INTO t VALUES (71, 'x');
TRUNCATE t, seen;
SELECT state(70, 71);
INSERT INTO t VALUES (71, 'x'), (71, 'refused');
COMMIT;
SELECT state(70, 71);
-- with rows that another trigger inserts then
CREATE FUNCTION fills() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t VALUES (80, 'filled'); RETURN NULL; END $$;
CREATE TRIGGER fills AFTER TRUNCATE ON t EXECUTE FUNCTION fills();
INSERT INTO t VALUES (81, 'x');
TRUNCATE t;
SELECT state(80, 81);
DROP TRIGGER fills ON t;
-- whoever may truncate the table needs no right on the filter
CREATE ROLE guard_forget_user;
GRANT USAGE ON SCHEMA guard_forget TO guard_forget_user;
GRANT SELECT, INSERT, DELETE, TRUNCATE ON t TO guard_forget_user;
SET ROLE guard_forget_user;
INSERT INTO t VALUES (82, 'x'), (83, 'y');
DELETE FROM t WHERE k = 82;
RESET ROLE;
SELECT state(80, 82, 83);
SET ROLE guard_forget_user;
TRUNCATE t;
RESET ROLE;
SELECT state(80, 82, 83);

-- partitions: keys go along with rows that move; TRUNCATE, DETACH and DROP of one keep keys
CREATE TABLE p (k int, at int) PARTITION BY RANGE (at);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);
CREATE TABLE p2 (dropped int, at int, k int);
ALTER TABLE p2 DROP COLUMN dropped;
ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (10) TO (20);
SELECT dedup_create('p_seen', dedup_filter(1000, 1e-6, 42));
SELECT dedup_guard('p', 'p_seen', '{k}', on_delete => 'forget');
CREATE TABLE p3 PARTITION OF p FOR VALUES FROM (20) TO (30);
CREATE FUNCTION p_state() RETURNS text LANGUAGE sql AS
$$ SELECT string_agg(format('%s:%s/%s', key, (SELECT count(*) FROM p WHERE p.k = key),
	CASE WHEN dedup_seen('p_seen', key) THEN 'seen' ELSE 'free' END), ' ' ORDER BY key) FROM generate_series(1, 6) key $$;
INSERT INTO p VALUES (1, 1), (2, 2), (3, 11), (4, 12), (5, 21), (6, 22);
UPDATE p SET at = at + 10 WHERE k <= 2;
SELECT p_state();
UPDATE p SET at = at - 10, k = 60 WHERE k = 2;
SELECT p_state(), dedup_seen('p_seen', 60) AS "60";
DELETE FROM p WHERE k IN (1, 3, 60);
SELECT p_state(), dedup_seen('p_seen', 60) AS "60";
\if :has_merge
MERGE INTO p USING (VALUES (4)) s (k) ON p.k = s.k WHEN MATCHED THEN UPDATE SET at = 1;
\else
UPDATE p SET at = 1 WHERE k = 4;
\endif
SELECT p_state();
BEGIN;
TRUNCATE p1;
SELECT p_state();
INSERT INTO p VALUES (4, 13), (4, 13);
SELECT p_state();
ROLLBACK;
BEGIN;
ALTER TABLE p DETACH PARTITION p1;
INSERT INTO p VALUES (4, 13);
SELECT p_state();
ROLLBACK;
BEGIN;
DROP TABLE p1;
SELECT p_state();
ROLLBACK;
BEGIN;
DROP TABLE p1, p;
ROLLBACK;
BEGIN;
TRUNCATE p;
SELECT p_state();
INSERT INTO p VALUES (4, 13), (4, 13);
SELECT p_state();
ROLLBACK;
SELECT p_state();
SELECT "table", on_delete, partitions_guarded, partitions_unguarded, problem FROM dedup_guards WHERE "table" = 'p'::regclass;

-- triggers that are disabled or gone
ALTER TABLE t DISABLE TRIGGER "~dedup_guard_forget";
INSERT INTO t VALUES (90, 'x');
SELECT problem FROM dedup_guards WHERE "table" = 't'::regclass;
DELETE FROM t WHERE k = 80;
ALTER TABLE t ENABLE ALWAYS TRIGGER "~dedup_guard_forget";
INSERT INTO t VALUES (90, 'x');
ALTER TABLE t ENABLE TRIGGER "~dedup_guard_forget";
ALTER TABLE t DISABLE TRIGGER "~dedup_guard_truncate";
INSERT INTO t VALUES (90, 'x');
SELECT problem FROM dedup_guards WHERE "table" = 't'::regclass;
ALTER TABLE t ENABLE TRIGGER "~dedup_guard_truncate";
ALTER TABLE p2 DISABLE TRIGGER "~dedup_guard_forget";
INSERT INTO p VALUES (7, 11);
INSERT INTO p VALUES (7, 1);
SELECT partitions_guarded, partitions_unguarded, problem FROM dedup_guards WHERE "table" = 'p'::regclass;
DELETE FROM p WHERE at BETWEEN 10 AND 19;
SELECT p_state();
ALTER TABLE p2 ENABLE TRIGGER "~dedup_guard_forget";
INSERT INTO t VALUES (91, 'x');
ALTER TABLE t DISABLE TRIGGER ALL;
DELETE FROM t WHERE k = 91;
ALTER TABLE t ENABLE TRIGGER ALL;
SELECT state(91);
SET session_replication_role = replica;
INSERT INTO t VALUES (92, 'unknown');
DELETE FROM t;
RESET session_replication_role;
SELECT state(91, 92);
BEGIN;
DROP TRIGGER "~dedup_guard_forget" ON t;
INSERT INTO t VALUES (93, 'x');
ROLLBACK;
BEGIN;
DROP TRIGGER "~dedup_guard_truncate" ON t;
SELECT problem FROM dedup_guards WHERE "table" = 't'::regclass;
DELETE FROM t;
TRUNCATE t;
INSERT INTO t VALUES (93, 'x');
ROLLBACK;
-- made by hand
BEGIN;
DROP TRIGGER "~dedup_guard_forget" ON t;
CREATE TRIGGER "~dedup_guard_forget" AFTER DELETE OR UPDATE OF k ON t FOR EACH ROW EXECUTE FUNCTION dedup_guard_trigger();
DELETE FROM t;
INSERT INTO t VALUES (93, 'x');
ROLLBACK;
BEGIN;
CREATE CONSTRAINT TRIGGER again AFTER DELETE OR UPDATE ON t DEFERRABLE FOR EACH ROW EXECUTE FUNCTION dedup_guard_trigger();
DELETE FROM t;
INSERT INTO t VALUES (93, 'x');
ROLLBACK;
BEGIN;
CREATE TRIGGER again AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION dedup_guard_trigger();
INSERT INTO t VALUES (93, 'x');
ROLLBACK;
CREATE TABLE ledger (k int);
SELECT dedup_create('ledger_seen', dedup_filter(1000, 1e-6, 42));
SELECT dedup_guard('ledger', 'ledger_seen', '{k}');
INSERT INTO ledger VALUES (1);
BEGIN;
CREATE TRIGGER again AFTER TRUNCATE ON ledger EXECUTE FUNCTION dedup_guard_trigger();
TRUNCATE ledger;
SELECT dedup_seen('ledger_seen', 1);
INSERT INTO ledger VALUES (2);
ROLLBACK;
BEGIN;
CREATE TRIGGER again AFTER DELETE OR UPDATE ON ledger FOR EACH ROW EXECUTE FUNCTION dedup_guard_trigger();
DELETE FROM ledger;
SELECT dedup_seen('ledger_seen', 1);
INSERT INTO ledger VALUES (2);
ROLLBACK;
-- the owner may not add keys: nothing is forgotten, nothing fails
CREATE ROLE guard_forget_owner;
GRANT USAGE, CREATE ON SCHEMA guard_forget TO guard_forget_owner;
INSERT INTO t VALUES (95, 'x');
ALTER TABLE t OWNER TO guard_forget_owner;
DELETE FROM t WHERE k = 95;
SELECT state(95);
TRUNCATE t;
GRANT INSERT ON seen TO guard_forget_owner;
INSERT INTO t VALUES (96, 'x');
DELETE FROM t WHERE k = 96;
SELECT state(95, 96);

-- a window of time: without a time of its own a row's key is that of the latest row
SELECT dedup_create('hour_seen', dedup_window(1000, 1e-6, 42), ttl => '1 hour');
CREATE TABLE hour (k int);
SELECT dedup_guard('hour', 'hour_seen', '{k}', on_delete => 'forget');
INSERT INTO hour VALUES (1), (1), (2) RETURNING *;
DELETE FROM hour WHERE k = 1;
INSERT INTO hour VALUES (1), (2) RETURNING *;

-- what a false positive can do: a forgotten key takes another along at the rate of the filter,
-- once its keys have become fingerprints
SELECT dedup_create('rough_seen', dedup_filter(4000, 0.05, 42));
CREATE TABLE rough AS SELECT generate_series(1, 4000) AS k;
SELECT dedup_guard('rough', 'rough_seen', '{k}', on_delete => 'forget', load => true);
DELETE FROM rough WHERE k % 2 = 0;
SELECT count(*) FILTER (WHERE NOT dedup_seen('rough_seen', k)) BETWEEN 1 AND 0.05 * 2000 AS went_along, count(*) FROM rough;

-- renames, another schema; and off
ALTER TABLE t RENAME TO renamed;
ALTER TABLE seen RENAME TO renamed_seen;
ALTER TABLE renamed RENAME k TO key;
INSERT INTO renamed VALUES (97, 'x'), (97, 'y');
DELETE FROM renamed;
SELECT dedup_seen('renamed_seen', 97);
SELECT dedup_unguard('renamed');
SELECT count(*) FROM pg_trigger WHERE tgrelid = 'renamed'::regclass;
SELECT c.relname, f.* FROM pg_class c, dedup_check(c.oid) f WHERE c.relnamespace = 'guard_forget'::regnamespace AND c.relam = (SELECT oid FROM pg_am WHERE amname = 'streamdedup');
SET client_min_messages = warning;
DROP SCHEMA guard_forget CASCADE;
DROP ROLE guard_forget_owner, guard_forget_user;
