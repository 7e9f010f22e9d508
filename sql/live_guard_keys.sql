-- A key stays only if its row was inserted, whatever else happens to the filter or the table in the same transaction.
-- A forgotten key does not come back.

\set SHOW_CONTEXT never
\set VERBOSITY terse
\set QUIET on
CREATE SCHEMA live_guard_keys;
SET search_path = live_guard_keys, public;
SET client_min_messages = error;
SET allow_in_place_tablespaces = on;
CREATE TABLESPACE regress_dedup_space LOCATION '';
SELECT dedup_create('f', dedup_filter(100000, 1e-6, 42)) \gset
CREATE TABLE a (k int, u int UNIQUE, v text);
SELECT dedup_guard('a', 'f', '{k}') \gset
CREATE FUNCTION seen(VARIADIC k int[]) RETURNS boolean[] LANGUAGE sql AS
	$$ SELECT array_agg(dedup_seen('f'::regclass, x)) FROM unnest(k) x $$;
INSERT INTO a VALUES (100, 100), (101, 101);
SET client_min_messages = notice;
\set QUIET off

-- ---- the filter gets another file with the same keys ----

BEGIN;
INSERT INTO a VALUES (1, 100) ON CONFLICT DO NOTHING;
ALTER TABLE f SET TABLESPACE regress_dedup_space;
INSERT INTO a VALUES (2, 100) ON CONFLICT DO NOTHING;
INSERT INTO a VALUES (3, 103) ON CONFLICT DO NOTHING;
ALTER TABLE f SET TABLESPACE pg_default;
COMMIT;
SELECT seen(1, 2, 3, 100);

-- by COPY, whose row a later trigger leaves out: it is settled after the move only

\set QUIET on
CREATE FUNCTION skip_row() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE TRIGGER "~~skip" BEFORE INSERT ON a FOR EACH ROW WHEN (NEW.v = 'skip') EXECUTE FUNCTION skip_row();
\set QUIET off
BEGIN;
COPY a FROM STDIN;
4	104	skip
\.
ALTER TABLE f SET TABLESPACE regress_dedup_space;
SAVEPOINT s;
ALTER TABLE f SET TABLESPACE pg_default;
ROLLBACK TO s;
ALTER TABLE f SET TABLESPACE pg_default;
COMMIT;
BEGIN;
COPY a FROM STDIN;
5	105	skip
\.
SAVEPOINT s;
ALTER TABLE f SET TABLESPACE regress_dedup_space;
SELECT seen(5);
ROLLBACK TO s;
COMMIT;
SELECT seen(4, 5, 100);

-- renamed, moved to another schema, vacuumed, reindexed

\set QUIET on
CREATE SCHEMA live_guard_keys_2;
\set QUIET off
BEGIN;
COPY a FROM STDIN;
6	106	skip
\.
ALTER TABLE f RENAME TO g;
ALTER TABLE g SET SCHEMA live_guard_keys_2;
REINDEX TABLE a;
ALTER TABLE a SET TABLESPACE regress_dedup_space;
ALTER TABLE live_guard_keys_2.g SET SCHEMA live_guard_keys;
ALTER TABLE g RENAME TO f;
ALTER TABLE a SET TABLESPACE pg_default;
COMMIT;
VACUUM FULL f;
VACUUM FULL a;
CLUSTER a USING a_u_key;
SELECT seen(6, 100, 101);
BEGIN;
COPY a FROM STDIN;
7	107	skip
\.
CLUSTER a USING a_u_key;
COMMIT;
SELECT seen(7, 100);

-- truncated in a savepoint that is undone, or not

BEGIN;
COPY a FROM STDIN;
8	108	skip
\.
SAVEPOINT s;
TRUNCATE f;
INSERT INTO a VALUES (9, 109);
ROLLBACK TO s;
COMMIT;
SELECT seen(8, 9, 100);
BEGIN;
COPY a FROM STDIN;
8	108	skip
\.
SAVEPOINT s;
TRUNCATE f;
INSERT INTO a VALUES (8, 108), (9, 109);
RELEASE s;
COMMIT;
SELECT seen(8, 9, 100);
\set QUIET on
TRUNCATE a, f;
INSERT INTO a VALUES (100, 100), (101, 101);
\set QUIET off

-- ---- forgotten, before and after a row that does not land ----

SELECT is_new('f', 50), is_new('f', 51), is_new('f', 52);
BEGIN;
SELECT dedup_forget('f', 50);
INSERT INTO a VALUES (50, 100) ON CONFLICT DO NOTHING;
SAVEPOINT s; SELECT seen(50); ROLLBACK TO s;
COMMIT;
BEGIN;
SELECT dedup_forget('f', 51);
COPY a FROM STDIN;
51	151	skip
\.
SAVEPOINT s; SELECT seen(51); ROLLBACK TO s;
COMMIT;
BEGIN;
SELECT dedup_forget('f', 52);
COPY a FROM STDIN;
52	152	skip
\.
SAVEPOINT s; SELECT dedup_forget('f', 52); SELECT seen(52); RELEASE s;
SELECT seen(52);
COMMIT;
SELECT seen(50, 51, 52);

-- ... and undone: it is there as it was before

SELECT is_new('f', 53);
BEGIN;
SAVEPOINT s;
SELECT dedup_forget('f', 53);
INSERT INTO a VALUES (53, 100) ON CONFLICT DO NOTHING;
ROLLBACK TO s;
SELECT seen(53);
COMMIT;
BEGIN;
SELECT dedup_forget('f', 53);
COPY a FROM STDIN;
53	153	skip
\.
ROLLBACK;
SELECT seen(53);

-- forgotten after the row was added, and before; a row that lands stays

BEGIN;
INSERT INTO a VALUES (54, 154);
SELECT dedup_forget('f', 54);
COMMIT;
BEGIN;
SELECT dedup_forget('f', 54);
INSERT INTO a VALUES (54, 254);
COMMIT;
BEGIN;
INSERT INTO a VALUES (55, 100) ON CONFLICT DO NOTHING;
SELECT dedup_forget('f', 55);
INSERT INTO a VALUES (55, 155);
COMMIT;
SELECT seen(54, 55), count(*) FROM a WHERE k IN (54, 55);

-- ---- other rows of the same table land in between, unseen by the guard ----

-- a later trigger writes to the table in a session whose role keeps the guard quiet, and leaves its own row out

\set QUIET on
CREATE FUNCTION quietly() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.v LIKE 'quiet%' THEN
		PERFORM set_config('session_replication_role', substr(NEW.v, 7), true);
		INSERT INTO a VALUES (NEW.k + 1000, NEW.u + 1000, 'nested');
		INSERT INTO a VALUES (NEW.k + 2000, NEW.u + 2000, 'nested') ON CONFLICT (u) DO NOTHING;
		PERFORM set_config('session_replication_role', 'origin', true);
		RETURN NULL;
	END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER "~~quietly" BEFORE INSERT ON a FOR EACH ROW EXECUTE FUNCTION quietly();
ALTER TABLE a ENABLE ALWAYS TRIGGER "~~quietly";
\set QUIET off
INSERT INTO a VALUES (60, 160, 'quiet:replica');
INSERT INTO a VALUES (61, 161, 'quiet:local');
INSERT INTO a VALUES (62, 162, 'quiet:origin');
SELECT seen(60, 1060, 2060, 61, 1061, 2061, 62, 1062, 2062);
SELECT * FROM a WHERE k BETWEEN 60 AND 2100 ORDER BY k;
INSERT INTO a VALUES (60, 160), (61, 161), (62, 162);
\set QUIET on
DROP TRIGGER "~~quietly" ON a;
DROP TRIGGER "~~skip" ON a;

-- the same in a constraint, at the depth of triggers of the row itself

CREATE FUNCTION is_fine(k int, v text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	IF v = 'outer' THEN
		PERFORM set_config('session_replication_role', 'replica', true);
		INSERT INTO a VALUES (k + 1000, k + 1000, 'nested');
		PERFORM set_config('session_replication_role', 'origin', true);
	END IF;
	RETURN true;
END $$;
ALTER TABLE a ADD CONSTRAINT is_fine CHECK (is_fine(k, v));
\set QUIET off
INSERT INTO a VALUES (70, 100, 'outer') ON CONFLICT DO NOTHING;
INSERT INTO a VALUES (71, 171, 'outer') ON CONFLICT DO NOTHING;
SELECT seen(70, 71, 1070, 1071);
\set QUIET on
ALTER TABLE a DROP CONSTRAINT is_fine;
\set QUIET off

-- ---- a trigger that fires after the guard's and changes the key: an error, since the new key was not tested ----

\set QUIET on
CREATE FUNCTION change_key() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.k = NEW.k + 10000; RETURN NEW; END $$;
CREATE TRIGGER "~~change" BEFORE INSERT OR UPDATE ON a FOR EACH ROW WHEN (NEW.v = 'change') EXECUTE FUNCTION change_key();
CREATE FUNCTION set_key() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.k = 100; RETURN NEW; END $$;
CREATE TRIGGER "~~set" BEFORE INSERT OR UPDATE ON a FOR EACH ROW WHEN (NEW.v = 'set') EXECUTE FUNCTION set_key();
\set QUIET off
INSERT INTO a VALUES (80, 180, 'change');
INSERT INTO a VALUES (NULL, 180, 'set');
UPDATE a SET v = 'change' WHERE k = 101;
UPDATE a SET v = 'set' WHERE k = 101;
UPDATE a SET v = 'set', k = 81 WHERE k = 101;
INSERT INTO a VALUES (81, 181, 'as it is');
SELECT seen(80, 81, 10080, 10101), count(*) FROM a WHERE k = 100;
\set QUIET on
DROP TRIGGER "~~change" ON a;
DROP TRIGGER "~~set" ON a;

SET client_min_messages = error;
DROP SCHEMA live_guard_keys CASCADE;
DROP SCHEMA live_guard_keys_2;
DROP TABLESPACE regress_dedup_space;
