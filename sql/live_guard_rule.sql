-- Rows that a query of a rule leaves out and whose twin another query of the same statement deletes: this raises an
-- error, in every way in which a rule makes several queries from a statement.

\set SHOW_CONTEXT never
\set VERBOSITY terse
\set QUIET on
CREATE SCHEMA live_guard_rule;
SET search_path = live_guard_rule, public;
SET client_min_messages = error;
SELECT dedup_create('f', dedup_filter(1000000, 1e-6, 42)) \gset
CREATE TABLE t (k int, v text);
CREATE TABLE archive (k int, v text);
SELECT dedup_guard('t', 'f', '{k}') \gset
SELECT dedup_guard('archive', 'f', '{k}') \gset
INSERT INTO t SELECT i, 'first' FROM generate_series(1, 100) i;
CREATE RULE keep AS ON DELETE TO t DO ALSO INSERT INTO archive VALUES (old.k, old.v);
-- shows which of the keys are in which table
CREATE FUNCTION places(low int, high int) RETURNS SETOF text STABLE LANGUAGE sql AS $$
	SELECT 't: ' || k || ' ' || v FROM t WHERE k BETWEEN low AND high
	UNION ALL SELECT 'archive: ' || k || ' ' || v FROM archive WHERE k BETWEEN low AND high ORDER BY 1 $$;
CREATE FUNCTION attempt(command text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE command;
	RETURN 'done';
EXCEPTION WHEN object_not_in_prerequisite_state THEN
	RETURN sqlerrm;
END $$;
\set QUIET off

-- ---- DELETE, by a client ----

DELETE FROM t WHERE k = 1;
DELETE FROM t WHERE k = 1 RETURNING k;
DELETE FROM t USING generate_series(1, 1) g WHERE t.k = g;
EXPLAIN ANALYZE DELETE FROM t WHERE k = 1 \g /dev/null
BEGIN;
SAVEPOINT s;
DELETE FROM t WHERE k = 1;
ROLLBACK TO s;
DELETE FROM t WHERE k = 1000;
COMMIT;
SELECT places(1, 1);

-- ---- prepared statements ----

SET plan_cache_mode = force_generic_plan;
PREPARE del(int) AS DELETE FROM t WHERE k = $1;
EXECUTE del(1000);
EXECUTE del(2);
EXECUTE del(2);
EXPLAIN ANALYZE EXECUTE del(2) \g /dev/null
SET plan_cache_mode = force_custom_plan;
EXECUTE del(2);
RESET plan_cache_mode;
SELECT places(2, 2);

-- ---- functions ----

\set QUIET on
CREATE FUNCTION del_plpgsql(key int) RETURNS void LANGUAGE plpgsql AS $$ BEGIN DELETE FROM t WHERE k = key; END $$;
CREATE FUNCTION del_dynamic(key int) RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'DELETE FROM t WHERE k = $1' USING key; END $$;
CREATE FUNCTION del_sql(key int) RETURNS void LANGUAGE sql AS 'SELECT 1; DELETE FROM t WHERE k = key; SELECT 2';
CREATE FUNCTION del_explain(key int) RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE format('EXPLAIN ANALYZE DELETE FROM t WHERE k = %s', key); END $$;
\set QUIET off
SELECT del_plpgsql(3);
SELECT del_dynamic(3);
SELECT del_sql(3);
SELECT del_explain(3);
SELECT attempt('DELETE FROM t WHERE k = 3');
SELECT count(del_sql(k)) FROM generate_series(3, 5) k;
DO $$
BEGIN
	FOR i IN 1..10 LOOP
		BEGIN
			PERFORM del_plpgsql(3), del_sql(3);
			RAISE 'lost';
		EXCEPTION WHEN object_not_in_prerequisite_state THEN
			NULL;
		END;
		BEGIN
			DELETE FROM t WHERE k = 3 + i % 3;
			RAISE 'lost';
		EXCEPTION WHEN object_not_in_prerequisite_state THEN
			NULL;
		END;
	END LOOP;
END $$;
SELECT places(3, 5);

-- a body that is kept in parsed form
\set QUIET on
SELECT current_setting('server_version_num')::int >= 140000 AS has_atomic \gset
\if :has_atomic
CREATE FUNCTION del_atomic(key int) RETURNS void LANGUAGE sql BEGIN ATOMIC SELECT 1; DELETE FROM t WHERE k = key; DELETE FROM t WHERE k = key + 1; END;
\else
CREATE FUNCTION del_atomic(key int) RETURNS void LANGUAGE sql AS 'SELECT 1; DELETE FROM t WHERE k = key; DELETE FROM t WHERE k = key + 1;';
\endif
\set QUIET off
SELECT del_atomic(1000);
SELECT del_atomic(3);
SELECT del_atomic(2);
SELECT del_atomic(0);
SELECT places(1, 5);

-- ---- a row left out by a trigger of the rule's query, and a row that is deleted by a cascade ----

\set QUIET on
CREATE TABLE log (k int);
CREATE FUNCTION copy_log() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO archive VALUES (new.k, 'log'); RETURN NULL; END $$;
CREATE TRIGGER copy_log AFTER INSERT ON log FOR EACH ROW EXECUTE FUNCTION copy_log();
CREATE TABLE logged (k int, v text);
SELECT dedup_guard('logged', 'f', '{k}') \gset
INSERT INTO logged VALUES (201, 'first'), (202, 'first');
CREATE RULE keep AS ON DELETE TO logged DO ALSO INSERT INTO log VALUES (old.k);
CREATE TABLE p (id int PRIMARY KEY, k int);
CREATE TABLE c (k int, id int REFERENCES p ON DELETE CASCADE);
SELECT dedup_guard('c', 'f', '{k}') \gset
INSERT INTO p VALUES (1, 301);
INSERT INTO c VALUES (301, 1);
CREATE RULE keep AS ON DELETE TO p DO ALSO INSERT INTO archive VALUES (old.k);
CREATE TABLE p2 (id int PRIMARY KEY);
CREATE TABLE c2 (k int, id int REFERENCES p2 ON DELETE CASCADE);
SELECT dedup_guard('c2', 'f', '{k}') \gset
INSERT INTO p2 VALUES (1);
INSERT INTO c2 VALUES (302, 1);
CREATE RULE keep AS ON DELETE TO c2 DO ALSO INSERT INTO archive VALUES (old.k);
\set QUIET off
DELETE FROM logged WHERE k = 201;
DELETE FROM p;
DELETE FROM p2;
SELECT (SELECT count(*) FROM logged) AS logged, (SELECT count(*) FROM c) AS c, (SELECT count(*) FROM c2) AS c2;

-- ---- rows that are deleted inside of a query that a rule has made ----

\set QUIET on
CREATE TABLE w (k int, v text);
SELECT dedup_guard('w', 'f', '{k}') \gset
INSERT INTO w SELECT 900 + n, 'first' FROM generate_series(1, 10) n;
CREATE VIEW vw AS SELECT * FROM w;
CREATE FUNCTION del_w(key int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN DELETE FROM w WHERE k = key; RETURN key; END $$;
-- leaves a row out, then deletes the row that it repeats, in statements that follow each other
CREATE FUNCTION again_w(key int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO w VALUES (key, 'dup');
	DELETE FROM w WHERE k = key;
	INSERT INTO w VALUES (key, 'again'), (key, 'dup');
	RETURN key;
END $$;
CREATE FUNCTION again_after_w(key int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO w VALUES (key, 'dup');
	DELETE FROM w WHERE k = key;
	RETURN key;
END $$;
CREATE RULE del AS ON DELETE TO vw DO INSTEAD (INSERT INTO archive VALUES (old.k, old.v); SELECT del_w(old.k));
CREATE RULE upd AS ON UPDATE TO vw DO INSTEAD (INSERT INTO log VALUES (1000); SELECT again_w(old.k));
CREATE RULE ins AS ON INSERT TO vw DO INSTEAD (INSERT INTO archive VALUES (new.k, new.v); SELECT again_after_w(new.k));
CREATE TABLE pw (k int);
CREATE FUNCTION del_pw() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN DELETE FROM w WHERE k = old.k; RETURN old; END $$;
CREATE TRIGGER after_pw AFTER DELETE ON pw FOR EACH ROW EXECUTE FUNCTION del_pw();
CREATE TABLE pw2 (k int);
CREATE TRIGGER before_pw BEFORE DELETE ON pw2 FOR EACH ROW EXECUTE FUNCTION del_pw();
INSERT INTO pw VALUES (902);
INSERT INTO pw2 VALUES (903);
CREATE RULE keep AS ON DELETE TO pw DO ALSO INSERT INTO archive VALUES (old.k);
CREATE RULE keep AS ON DELETE TO pw2 DO ALSO INSERT INTO archive VALUES (old.k);
\set QUIET off
DELETE FROM vw WHERE k = 901;
UPDATE vw SET v = 'x' WHERE k = 904;
INSERT INTO vw VALUES (905, 'moved');
DELETE FROM pw;
DELETE FROM pw2;
SELECT * FROM w ORDER BY k;

-- ---- UPDATE: the old key goes, or it stays ----

\set QUIET on
CREATE TABLE u (k int, v text);
SELECT dedup_guard('u', 'f', '{k}') \gset
INSERT INTO u VALUES (401, 'first'), (402, 'first'), (403, 'first');
CREATE RULE keep AS ON UPDATE TO u DO ALSO INSERT INTO archive VALUES (old.k, old.v);
\set QUIET off
UPDATE u SET k = 451 WHERE k = 401;
UPDATE u SET v = 'changed' WHERE k = 402;
UPDATE u SET k = 453 WHERE k = 403 RETURNING k;
SELECT * FROM u ORDER BY k;
SELECT places(400, 499);

-- ---- INSTEAD: several actions, conditions, views ----

\set QUIET on
CREATE TABLE i (k int, v text);
SELECT dedup_guard('i', 'f', '{k}') \gset
INSERT INTO i SELECT 500 + n, 'first' FROM generate_series(1, 20) n;
CREATE TABLE calls (k int);
CREATE VIEW vi AS SELECT * FROM i;
CREATE RULE del AS ON DELETE TO vi DO INSTEAD
	(INSERT INTO calls VALUES (old.k); INSERT INTO archive VALUES (old.k, old.v); DELETE FROM i WHERE k = old.k);
CREATE RULE upd AS ON UPDATE TO vi DO INSTEAD
	(INSERT INTO archive VALUES (old.k, old.v); DELETE FROM i WHERE k = old.k; INSERT INTO calls VALUES (new.k));
CREATE VIEW vs AS SELECT * FROM i;
CREATE RULE ins AS ON INSERT TO vs DO INSTEAD (INSERT INTO archive VALUES (new.k, new.v); DELETE FROM i WHERE k = new.k);
CREATE VIEW vd AS SELECT n AS k FROM generate_series(501, 520) n;
CREATE RULE del AS ON DELETE TO vd DO INSTEAD (DELETE FROM i WHERE k = old.k; INSERT INTO archive VALUES (old.k, 'again'));
CREATE TABLE cond (k int, v text);
SELECT dedup_guard('cond', 'f', '{k}') \gset
INSERT INTO cond SELECT 600 + n, 'first' FROM generate_series(1, 6) n;
CREATE RULE odd AS ON DELETE TO cond WHERE old.k % 2 = 1 DO ALSO INSERT INTO archive VALUES (old.k, old.v);
CREATE RULE third AS ON DELETE TO cond WHERE old.k % 3 = 0 DO INSTEAD UPDATE cond SET v = 'kept' WHERE k = old.k;
\set QUIET off
DELETE FROM vi WHERE k = 501;
DELETE FROM vi WHERE k = 501 AND v = 'other';
UPDATE vi SET v = 'x' WHERE k = 502;
INSERT INTO vs VALUES (503, 'moved');
INSERT INTO vs VALUES (550, 'new');
DELETE FROM cond WHERE k = 601;
DELETE FROM cond WHERE k = 602;
DELETE FROM cond WHERE k = 603;
SELECT * FROM cond ORDER BY k;
-- deleted first: it has the right to come again
DELETE FROM vd WHERE k = 504;
SELECT places(500, 699);
SELECT count(*) FROM i;

-- ---- several rules and tables, updatable views ----

\set QUIET on
CREATE TABLE m (k int, v text);
CREATE TABLE archive2 (k int, v text);
SELECT dedup_guard('m', 'f', '{k}') \gset
SELECT dedup_create('f2', dedup_filter(1000000, 1e-6, 42)) \gset
SELECT dedup_guard('archive2', 'f2', '{k}') \gset
INSERT INTO m SELECT 800 + n, 'first' FROM generate_series(1, 5) n;
INSERT INTO archive2 VALUES (801, 'first');
CREATE VIEW vm AS SELECT * FROM m;
CREATE RULE a AS ON DELETE TO m DO ALSO INSERT INTO archive2 VALUES (old.k, old.v);
\set QUIET off
-- the archive has a filter of its own
DELETE FROM m WHERE k IN (801, 802);
DELETE FROM vm WHERE k = 803;
SELECT * FROM archive2 ORDER BY k;
\set QUIET on
CREATE RULE b AS ON DELETE TO m DO ALSO (INSERT INTO archive2 VALUES (old.k + 100, 'b'); INSERT INTO archive VALUES (old.k, old.v); UPDATE m SET v = 'c' WHERE k = old.k);
\set QUIET off
DELETE FROM m WHERE k = 804;
DELETE FROM vm WHERE k = 804;
\set QUIET on
DROP RULE b ON m;
CREATE RULE v AS ON DELETE TO vm DO ALSO INSERT INTO archive VALUES (old.k, old.v);
\set QUIET off
DELETE FROM vm WHERE k = 804;
SELECT * FROM m ORDER BY k;
SELECT * FROM archive2 ORDER BY k;

-- ---- rules of rules ----

\set QUIET on
CREATE TABLE outbox (k int);
CREATE RULE forward AS ON INSERT TO outbox DO INSTEAD INSERT INTO archive VALUES (new.k, 'forward');
CREATE TABLE source (k int);
SELECT dedup_guard('source', 'f', '{k}') \gset
INSERT INTO source VALUES (701), (702);
CREATE RULE send AS ON DELETE TO source DO ALSO INSERT INTO outbox VALUES (old.k);
CREATE TABLE stage (k int);
SELECT dedup_guard('stage', 'f', '{k}') \gset
INSERT INTO stage VALUES (711);
CREATE RULE clean AS ON INSERT TO stage DO ALSO DELETE FROM stage WHERE k = new.k AND pg_trigger_depth() = 0;
\set QUIET off
DELETE FROM source WHERE k = 701;
INSERT INTO stage VALUES (711);
SELECT (SELECT count(*) FROM source) AS source, (SELECT count(*) FROM stage) AS stage;

-- ---- exact guards ----

\set QUIET on
CREATE TABLE ex (k int PRIMARY KEY DEFERRABLE, v text);
SELECT dedup_create('ex_seen', dedup_filter(1000, 1e-6, 42)) \gset
SELECT dedup_guard('ex', 'ex_seen', '{k}', exact => true) \gset
INSERT INTO ex VALUES (1, 'first'), (2, 'first');
CREATE RULE keep AS ON DELETE TO ex DO ALSO INSERT INTO ex VALUES (old.k, 'kept');
CREATE RULE keep_old AS ON UPDATE TO ex WHERE old.k <> new.k DO ALSO INSERT INTO ex VALUES (old.k, 'kept');
\set QUIET off
DELETE FROM ex WHERE k = 1;
UPDATE ex SET k = 3 WHERE k = 2;
UPDATE ex SET v = 'changed' WHERE k = 2;
SELECT * FROM ex ORDER BY k;

-- ---- nothing is lost in the other modes ----

\set QUIET on
SELECT dedup_create('g_seen', dedup_filter(1000000, 1e-6, 42)) \gset
CREATE TABLE g (k int, v text);
CREATE TABLE rejects (k int);
CREATE TABLE marks (k int, dup boolean NOT NULL DEFAULT false);
CREATE TABLE diverts (k int);
SELECT dedup_guard('g', 'g_seen', '{k}') \gset
SELECT dedup_guard('rejects', 'g_seen', '{k}', 'reject') \gset
SELECT dedup_guard('marks', 'g_seen', '{k}', 'mark:dup') \gset
SELECT dedup_guard('diverts', 'g_seen', '{k}', 'divert') \gset
INSERT INTO g VALUES (1, 'reject'), (2, 'mark'), (3, 'divert');
CREATE RULE r AS ON DELETE TO g WHERE old.v = 'reject' DO ALSO INSERT INTO rejects VALUES (old.k);
CREATE RULE m AS ON DELETE TO g WHERE old.v = 'mark' DO ALSO INSERT INTO marks VALUES (old.k);
CREATE RULE d AS ON DELETE TO g WHERE old.v = 'divert' DO ALSO INSERT INTO diverts VALUES (old.k);
\set QUIET off
DELETE FROM g WHERE k = 1;
DELETE FROM g WHERE k = 2;
DELETE FROM g WHERE k = 3;
SELECT * FROM g;
SELECT * FROM marks;
SELECT count(*) FROM diverts_refused;

-- ---- no error: another row is left out, another statement deletes, or the same one runs again ----

\set QUIET on
CREATE TABLE n (k int, v text);
CREATE TABLE next (k int);
SELECT dedup_create('n_seen', dedup_filter(1000000, 1e-6, 42)) \gset
SELECT dedup_guard('n', 'n_seen', '{k}') \gset
SELECT dedup_guard('next', 'n_seen', '{k}') \gset
INSERT INTO n SELECT i, 'first' FROM generate_series(1, 100) i;
-- leaves out the row after the one that is deleted
CREATE RULE touch AS ON DELETE TO n DO ALSO (UPDATE n SET v = 'touched' WHERE k = old.k; INSERT INTO next VALUES (old.k + 1));
CREATE FUNCTION del_n(key int) RETURNS void LANGUAGE plpgsql AS $$ BEGIN DELETE FROM n WHERE k = key; END $$;
CREATE FUNCTION del_n_sql(key int) RETURNS void LANGUAGE sql AS 'DELETE FROM n WHERE k = key; DELETE FROM n WHERE k = key + 1';
PREPARE del_n AS DELETE FROM n WHERE k = $1;
\set QUIET off
DELETE FROM n WHERE k = 1;
DELETE FROM n WHERE k = 2;
BEGIN;
DELETE FROM n WHERE k = 3;
DELETE FROM n WHERE k = 4;
EXECUTE del_n(5);
EXECUTE del_n(6);
EXPLAIN ANALYZE DELETE FROM n WHERE k = 7 \g /dev/null
DELETE FROM n WHERE k = 8;
COMMIT;
DO $$ BEGIN FOR i IN 11..30 LOOP DELETE FROM n WHERE k = i; END LOOP; END $$;
DO $$ BEGIN FOR i IN 31..40 LOOP EXECUTE 'DELETE FROM n WHERE k = ' || i; END LOOP; END $$;
DO $$ BEGIN FOR i IN 41..50 LOOP EXECUTE 'DELETE FROM n WHERE k = $1' USING i; END LOOP; END $$;
DO $$ BEGIN FOR i IN 51..60 LOOP PERFORM del_n(i); END LOOP; END $$;
DO $$ BEGIN FOR i IN 61..70 LOOP EXECUTE 'EXECUTE del_n(' || i || ')'; END LOOP; END $$;
SELECT count(del_n(k)) FROM generate_series(71, 80) k;
DO $$ BEGIN FOR i IN 81..89 BY 2 LOOP PERFORM del_n_sql(i); END LOOP; END $$;
SET plan_cache_mode = force_custom_plan;
SELECT count(del_n(k)) FROM generate_series(91, 96) k;
RESET plan_cache_mode;
SELECT k FROM n ORDER BY k;
SELECT k FROM next ORDER BY k;

-- statements of one SQL function: the first one leaves a row out, the second one deletes it
\set QUIET on
DROP RULE touch ON n;
CREATE FUNCTION put_del_n(key int) RETURNS void LANGUAGE sql AS 'INSERT INTO next VALUES (key); DELETE FROM n WHERE k = key; INSERT INTO next VALUES (key)';
CREATE FUNCTION del_put_n(key int) RETURNS void LANGUAGE sql AS 'DELETE FROM n WHERE k = key; INSERT INTO next VALUES (key)';
\set QUIET off
SELECT put_del_n(97);
SELECT del_put_n(98);
SELECT k FROM n ORDER BY k;
SELECT k FROM next ORDER BY k;

-- ---- the first statement of a session ----

\set QUIET on
\c -
SET search_path = live_guard_rule, public;
\set QUIET off
EXPLAIN ANALYZE DELETE FROM t WHERE k = 10 \g /dev/null
\set QUIET on
\c -
SET search_path = live_guard_rule, public;
\set QUIET off
DELETE FROM t WHERE k = 10;
SELECT places(10, 10);

\set QUIET on
SET client_min_messages = error;
DROP SCHEMA live_guard_rule CASCADE;
