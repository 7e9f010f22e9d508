-- Guards: options, triggers, and objects made by hand, in all combinations.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA crossed;
SET search_path = crossed, public;
CREATE ROLE regress_crossed_owner;
CREATE ROLE regress_crossed_other;
GRANT USAGE, CREATE ON SCHEMA crossed TO regress_crossed_owner, regress_crossed_other;
RESET client_min_messages;

-- keys that go with their rows: a row that is marked has no key of its own
CREATE TABLE m (id int PRIMARY KEY, k int, part int DEFAULT 1, again boolean);
SELECT dedup_guard('m', dedup_create('m_seen', dedup_filter(1000, 0.0001, 1)), '{k}', 'mark', on_delete => 'forget');
CREATE FUNCTION state(VARIADIC keys int[]) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(format('%s:%s/%s', key, (SELECT count(*) FROM m WHERE k = key AND again IS NOT TRUE),
		CASE WHEN dedup_seen('m_seen', key) THEN 'seen' ELSE 'free' END), ' ') FROM unnest(keys) key $$;
INSERT INTO m VALUES (1, 1), (2, 1);
-- ... its new key is not taken
UPDATE m SET k = 2 WHERE id = 2;
SELECT state(1, 2);
DELETE FROM m WHERE id = 2;
INSERT INTO m VALUES (3, 2) RETURNING again;
-- ... a row that is marked later frees its key, also while it gets another one
UPDATE m SET again = true WHERE id = 3;
SELECT state(2);
INSERT INTO m VALUES (4, 2) RETURNING again;
UPDATE m SET again = true, k = 5 WHERE id = 4;
SELECT state(2, 5);
-- ... one that is not marked any more takes its key, or it is taken
UPDATE m SET again = false WHERE id = 3;
UPDATE m SET k = 2 WHERE id = 4;
UPDATE m SET again = NULL WHERE id = 4;
UPDATE m SET again = NULL, k = 6 WHERE id = 4;
SELECT state(2, 5, 6);
DELETE FROM m;
SELECT state(1, 2, 5, 6);
DROP TABLE m;
-- ... in partitions too, between which rows move
CREATE TABLE m (id int, k int, part int DEFAULT 1, again boolean) PARTITION BY LIST (part);
CREATE TABLE m1 PARTITION OF m FOR VALUES IN (1);
CREATE TABLE m2 PARTITION OF m FOR VALUES IN (2);
TRUNCATE m_seen;
SELECT dedup_guard('m', 'm_seen', '{k}', 'mark', on_delete => 'forget');
INSERT INTO m VALUES (1, 1), (2, 1), (3, 3);
UPDATE m SET part = 2, again = NOT again WHERE id IN (2, 3);
UPDATE m SET part = 2, again = true WHERE id = 3;
SELECT state(1, 3);
UPDATE m SET part = 2, k = 4 WHERE id = 2;
SELECT state(1, 4);
UPDATE m SET part = 1, again = false WHERE id = 2;
SELECT state(1, 4);
SELECT id, k, part, again FROM m ORDER BY id;
DELETE FROM m;
SELECT state(1, 3, 4);

-- a row that is inserted again and deleted again while its first deletion is not over
CREATE TABLE n (k int);
SELECT dedup_guard('n', dedup_create('n_seen', dedup_filter(1000, 0.0001, 1)), '{k}', on_delete => 'forget');
CREATE FUNCTION again() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF pg_trigger_depth() = 1 THEN
		INSERT INTO n VALUES (OLD.k);
		DELETE FROM n WHERE k = OLD.k;
		IF OLD.k = 2 THEN
			INSERT INTO n VALUES (OLD.k);
		ELSIF OLD.k = 3 THEN
			BEGIN
				INSERT INTO n VALUES (OLD.k);
				DELETE FROM n WHERE k = OLD.k;
				RAISE SQLSTATE 'XX999';
			EXCEPTION WHEN SQLSTATE 'XX999' THEN
			END;
		END IF;
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER again AFTER DELETE ON n FOR EACH ROW EXECUTE FUNCTION again();
INSERT INTO n VALUES (1), (2), (3);
DELETE FROM n;
SELECT key, (SELECT count(*) FROM n WHERE k = key), dedup_seen('n_seen', key) FROM generate_series(1, 3) key;

-- a row whose time leaves the window frees its key then: when it goes, its time says that it has none
CREATE TABLE w (k int, at timestamptz);
SELECT dedup_guard('w', dedup_create('w_seen', dedup_window(1000, 0.0001, 1), ttl => '7 days'), '{k}', at => 'at', on_delete => 'forget');
INSERT INTO w VALUES (1, now()), (2, now()), (3, now());
UPDATE w SET at = now() - interval '30 days' WHERE k = 1;
UPDATE w SET at = now() - interval '1 day' WHERE k = 2;
SELECT k, dedup_seen('w_seen', k) FROM w ORDER BY k;
DELETE FROM w;
SELECT key, dedup_seen('w_seen', key) FROM generate_series(1, 3) key;

-- a trigger that is replaced makes the guard another one: the filter does not cover the table any more. A server
-- before 14 cannot replace it in one statement
SELECT current_setting('server_version_num')::int < 140000 AS drops_first \gset
\if :drops_first
\set replace CREATE
\else
\set replace 'CREATE OR REPLACE'
\endif
CREATE TABLE e (a int, b int);
CREATE INDEX ON e (a);
CREATE INDEX ON e (a, b);
SELECT dedup_guard('e', dedup_create('e_seen', dedup_filter(1000, 0.0001, 1)), '{a,b}', exact => true);
INSERT INTO e VALUES (1, 1);
CREATE FUNCTION as_it_is() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
SELECT replace(pg_get_triggerdef(oid), 'CREATE', :'replace') AS command FROM pg_trigger WHERE tgrelid = 'e'::regclass AND tgname = '~dedup_guard' \gset
\if :drops_first
DROP TRIGGER "~dedup_guard" ON e;
\endif
:replace TRIGGER "~dedup_guard" BEFORE INSERT OR UPDATE ON e FOR EACH ROW EXECUTE FUNCTION as_it_is();
INSERT INTO e VALUES (2, 2);
\if :drops_first
DROP TRIGGER "~dedup_guard" ON e;
\endif
:command;
INSERT INTO e VALUES (2, 2);
SELECT dedup_rebuild('e_seen');
INSERT INTO e VALUES (2, 2), (3, 3);
\if :drops_first
DROP TRIGGER "~dedup_guard_delete" ON e;
\endif
:replace TRIGGER "~dedup_guard_delete" BEFORE DELETE ON e FOR EACH ROW WHEN ('e_seen'::regclass IS NOT NULL OR OLD.a IS NULL) EXECUTE FUNCTION dedup_guard_trigger();
INSERT INTO e VALUES (2, 4);
TABLE e;
SELECT dedup_rebuild('e_seen');
INSERT INTO e VALUES (2, 4), (4, 4);
TABLE e;
-- ... other triggers do not matter
:replace TRIGGER other BEFORE INSERT ON e FOR EACH ROW EXECUTE FUNCTION as_it_is();
\if :drops_first
DROP TRIGGER other ON e;
\endif
:replace TRIGGER other BEFORE INSERT OR UPDATE ON e FOR EACH ROW EXECUTE FUNCTION as_it_is();
INSERT INTO e VALUES (4, 5), (5, 5) RETURNING *;

-- a guard by hand that would forget keys of an exact guard's filter, or of which the filter has no keys
CREATE TABLE second (k int);
INSERT INTO second VALUES (7);
CREATE INDEX ON second (k);
CREATE INDEX ON second USING streamdedup_guard (k);
CREATE TRIGGER "~dedup_guard" BEFORE INSERT OR UPDATE ON second FOR EACH ROW EXECUTE FUNCTION dedup_guard_trigger('skip', 'second', 'forget');
CREATE TRIGGER "~dedup_guard_delete" BEFORE DELETE ON second FOR EACH ROW WHEN ('e_seen'::regclass IS NOT NULL OR OLD.k IS NULL) EXECUTE FUNCTION dedup_guard_trigger();
CREATE TRIGGER "~dedup_guard_forget" AFTER DELETE OR UPDATE ON second FOR EACH ROW EXECUTE FUNCTION dedup_guard_trigger();
CREATE TRIGGER "~dedup_guard_truncate" AFTER TRUNCATE ON second EXECUTE FUNCTION dedup_guard_trigger();
\set VERBOSITY default
INSERT INTO second VALUES (8);
\set VERBOSITY terse
INSERT INTO e VALUES (7, 7);
DELETE FROM second;
INSERT INTO e VALUES (7, 8);
SET session_replication_role = replica;
INSERT INTO second VALUES (7);
RESET session_replication_role;
UPDATE second SET k = 9;
TRUNCATE second;
INSERT INTO e VALUES (7, 8);
DROP TABLE second;

-- a part of a guard goes while the owner of its table may not add keys, and comes again when he may
CREATE TABLE lent (k int);
CREATE INDEX ON lent (k);
ALTER TABLE lent OWNER TO regress_crossed_owner;
SELECT dedup_create('lent_seen', dedup_filter(1000, 0.0001, 1));
GRANT INSERT ON lent_seen TO regress_crossed_owner;
SELECT dedup_guard('lent', 'lent_seen', '{k}', exact => true);
SELECT pg_get_triggerdef(oid) AS command FROM pg_trigger WHERE tgrelid = 'lent'::regclass AND tgname = '~dedup_guard' \gset
REVOKE INSERT ON lent_seen FROM regress_crossed_owner;
DROP TRIGGER "~dedup_guard" ON lent;
GRANT INSERT ON lent_seen TO regress_crossed_owner;
INSERT INTO lent VALUES (1);
:command;
INSERT INTO lent VALUES (1);
SELECT dedup_rebuild('lent_seen');
INSERT INTO lent VALUES (1), (2) RETURNING *;

-- who may make triggers for a table does nothing as its owner
CREATE TABLE owned (k int, v text);
ALTER TABLE owned OWNER TO regress_crossed_owner;
SELECT dedup_create('owned_seen', dedup_filter(1000, 0.0001, 1));
GRANT INSERT ON owned_seen TO regress_crossed_owner;
SELECT dedup_guard('owned', 'owned_seen', '{k}', 'divert');
GRANT INSERT, TRIGGER ON owned TO regress_crossed_other;
SET ROLE regress_crossed_other;
CREATE FUNCTION as_whom(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RAISE WARNING 'as %', current_user; RETURN 1; END $$;
\if :drops_first
RESET ROLE;
DROP TRIGGER "~dedup_guard_delete" ON owned;
SET ROLE regress_crossed_other;
\endif
:replace TRIGGER "~dedup_guard_delete" BEFORE DELETE ON owned FOR EACH ROW
	WHEN ('owned_seen'::regclass IS NOT NULL OR OLD.k IS NULL OR (OLD.k = as_whom(1)) IS NOT TRUE OR 'owned_refused'::regclass IS NULL) EXECUTE FUNCTION dedup_guard_trigger();
INSERT INTO owned VALUES (1);
-- ... nor whoever owns the side table
CREATE TABLE mine (k int, v text, refused_at timestamptz, refused_by regclass);
GRANT INSERT ON mine TO regress_crossed_owner;
\if :drops_first
RESET ROLE;
DROP TRIGGER "~dedup_guard_delete" ON owned;
SET ROLE regress_crossed_other;
\endif
:replace TRIGGER "~dedup_guard_delete" BEFORE DELETE ON owned FOR EACH ROW
	WHEN ('owned_seen'::regclass IS NOT NULL OR OLD.k IS NULL OR 'mine'::regclass IS NULL) EXECUTE FUNCTION dedup_guard_trigger();
INSERT INTO owned VALUES (1, 'a'), (1, 'b');
CREATE FUNCTION as_whom() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE WARNING 'as %', current_user; RETURN NEW; END $$;
CREATE TRIGGER as_whom BEFORE INSERT ON mine FOR EACH ROW EXECUTE FUNCTION as_whom();
\set VERBOSITY default
INSERT INTO owned VALUES (1, 'c');
\set VERBOSITY terse
RESET ROLE;
ALTER TABLE mine OWNER TO regress_crossed_owner;
INSERT INTO owned VALUES (1, 'd');
SELECT k, v FROM mine ORDER BY v;

SET client_min_messages = error;
DROP SCHEMA crossed CASCADE;
DROP ROLE regress_crossed_owner, regress_crossed_other;
