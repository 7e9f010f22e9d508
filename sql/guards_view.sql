-- The view dedup_guards.

\set SHOW_CONTEXT never
\set QUIET on
CREATE SCHEMA guards_view;
SET search_path = guards_view, public;
SET client_min_messages = error;
SELECT dedup_create('f', dedup_filter(100000, 1e-6, 42)) \gset
SELECT dedup_create('g', dedup_filter(100000, 1e-6, 42)) \gset
SELECT dedup_create('h', dedup_filter(100000, 1e-6, 42)) \gset
CREATE TABLE clicks (id int, day int, dup boolean) PARTITION BY LIST (day);
CREATE INDEX ON clicks (id);
CREATE TABLE clicks1 PARTITION OF clicks FOR VALUES IN (1);
CREATE TABLE clicks2 (gone int, dup boolean, day int, id int);
ALTER TABLE clicks2 DROP COLUMN gone;
ALTER TABLE clicks ATTACH PARTITION clicks2 FOR VALUES IN (2);
CREATE TABLE clicks3 PARTITION OF clicks FOR VALUES IN (3) PARTITION BY LIST (id);
CREATE TABLE clicks31 PARTITION OF clicks3 DEFAULT;
CREATE TABLE "Odd table" ("the key" int, other text);
CREATE TABLE rejects (k int);
RESET client_min_messages;
\set QUIET off

SELECT count(*) FROM dedup_guards WHERE filter IN ('f'::regclass, 'g'::regclass, 'h'::regclass);
CREATE INDEX ON clicks (day, id);
SELECT dedup_guard('clicks', 'f', '{day,id}', 'mark', exact => true);
SELECT dedup_guard('"Odd table"', 'g', '{other,"the key"}');
SELECT dedup_guard('rejects', 'h', '{k}', 'reject');
INSERT INTO "Odd table" VALUES (1, 'a'), (1, 'a'), (1, 'a'), (2, 'a');
INSERT INTO rejects VALUES (1);
INSERT INTO rejects VALUES (1);
CREATE VIEW ours AS SELECT * FROM dedup_guards WHERE filter::text !~ '\.' ORDER BY "table"::text COLLATE "C";
\x on
SELECT * FROM ours;
\x off

-- a foreign table that becomes a partition later: this server cannot tell what lands there
CREATE TABLE far (k int) PARTITION BY LIST (k);
SELECT dedup_create('far_seen', dedup_filter(1000, 0.01, 42)) \gset
SELECT dedup_guard('far', 'far_seen', '{k}') \gset
CREATE FOREIGN DATA WRAPPER guards_view_wrapper;
CREATE SERVER guards_view_server FOREIGN DATA WRAPPER guards_view_wrapper;
CREATE FOREIGN TABLE far1 PARTITION OF far FOR VALUES IN (1) SERVER guards_view_server;
SELECT "table", partitions_guarded, partitions_unguarded, problem FROM ours WHERE "table" = 'far'::regclass;
INSERT INTO far VALUES (1);
DROP FOREIGN TABLE far1;
SELECT "table", partitions_guarded, partitions_unguarded, problem FROM ours WHERE "table" = 'far'::regclass;
DROP TABLE far, far_seen;
DROP SERVER guards_view_server;
DROP FOREIGN DATA WRAPPER guards_view_wrapper;

-- partitions that are not guarded, for any reason
ALTER TABLE clicks1 DISABLE TRIGGER "~dedup_guard";
ALTER TABLE clicks31 ENABLE REPLICA TRIGGER "~dedup_guard_delete";
SELECT "table", partitions_guarded, partitions_unguarded, problem FROM ours WHERE "table" = 'clicks'::regclass;
ALTER TABLE clicks1 ENABLE ALWAYS TRIGGER "~dedup_guard";
ALTER TABLE clicks31 ENABLE TRIGGER "~dedup_guard_delete";
SELECT "table", partitions_guarded, partitions_unguarded, problem FROM ours WHERE "table" = 'clicks'::regclass;
UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'clicks1_day_id_dup_idx'::regclass;
SELECT "table", partitions_guarded, partitions_unguarded, problem FROM ours WHERE "table" = 'clicks'::regclass;
UPDATE pg_index SET indisvalid = true WHERE indexrelid = 'clicks1_day_id_dup_idx'::regclass;
ALTER TABLE clicks3 DETACH PARTITION clicks31;
SELECT "table", partitions_guarded, partitions_unguarded, problem FROM ours WHERE "table" = 'clicks'::regclass;

-- one partition alone
CREATE TABLE alone (k int, p int) PARTITION BY LIST (p);
CREATE TABLE alone1 PARTITION OF alone FOR VALUES IN (1);
SELECT dedup_create('i', dedup_filter(1000, 0.01, 42));
SELECT dedup_guard('alone1', 'i', '{k}');
SELECT "table", filter, columns, partitions_guarded, partitions_unguarded, problem FROM ours WHERE filter = 'i'::regclass;

-- what somebody else sees
CREATE ROLE regress_guards_view;
GRANT USAGE ON SCHEMA guards_view TO regress_guards_view;
GRANT SELECT ON h TO regress_guards_view;
SET ROLE regress_guards_view;
SET search_path = '';
SELECT "table", filter, columns, exact, refused, checked_found, checked_not_found, problem
FROM public.dedup_guards WHERE filter::text ~ '^guards_view\.' ORDER BY "table"::text COLLATE "C";
-- who names a filter that is not his
SET search_path = guards_view, public;
RESET ROLE;
GRANT CREATE ON SCHEMA guards_view TO regress_guards_view;
SET ROLE regress_guards_view;
CREATE TABLE his (k int);
CREATE TRIGGER a BEFORE INSERT OR UPDATE ON his FOR EACH ROW EXECUTE FUNCTION dedup_guard_trigger('skip', 'x', 'exact');
CREATE TRIGGER b BEFORE DELETE ON his FOR EACH ROW WHEN ('f'::regclass IS NOT NULL OR old.k IS NULL) EXECUTE FUNCTION dedup_guard_trigger();
CREATE INDEX ON his USING streamdedup_guard (k);
SELECT "table", filter, exact, refused, problem FROM dedup_guards WHERE "table" = 'his'::regclass;
RESET ROLE;
-- it neither protects a filter nor spoils it
SELECT dedup_create('free', dedup_filter(1000, 0.01, 42));
SET ROLE regress_guards_view;
CREATE TABLE hers (k int);
CREATE TRIGGER a BEFORE INSERT OR UPDATE ON hers FOR EACH ROW EXECUTE FUNCTION dedup_guard_trigger('skip', 'x', 'exact');
CREATE TRIGGER b BEFORE DELETE ON hers FOR EACH ROW WHEN ('free'::regclass IS NOT NULL OR old.k IS NULL) EXECUTE FUNCTION dedup_guard_trigger();
RESET ROLE;
TRUNCATE free;
GRANT INSERT ON free TO regress_guards_view;
TRUNCATE free;
SELECT dedup_forget('g', 'a', 2);
ALTER TABLE clicks DISABLE TRIGGER USER;
BEGIN; SELECT dedup_forget('f', 1, 1); ROLLBACK;
ALTER TABLE clicks ENABLE TRIGGER USER;
SET ROLE regress_guards_view;
SELECT dedup_unguard('his');
RESET ROLE;
SELECT "table", problem FROM dedup_guards WHERE filter = 'f'::regclass;

-- guards by hand, and what is left of others
DROP TRIGGER "~dedup_guard" ON rejects;
DROP INDEX guards_view."Odd table_dedup_guard";
SELECT "table", on_duplicate, exact, problem FROM ours WHERE filter IN ('g'::regclass, 'h'::regclass);
DROP TRIGGER "~dedup_guard_delete" ON rejects;
SELECT count(*) FROM dedup_guards WHERE filter = 'h'::regclass;
CREATE TRIGGER x BEFORE DELETE ON rejects FOR EACH ROW WHEN (old.k > 0) EXECUTE FUNCTION dedup_guard_trigger();
CREATE TRIGGER y BEFORE INSERT OR UPDATE ON rejects FOR EACH ROW EXECUTE FUNCTION dedup_guard_trigger();
SELECT count(*) FROM dedup_guards WHERE "table" = 'rejects'::regclass;
CREATE TABLE no_filter (k int);
CREATE TRIGGER y BEFORE INSERT OR UPDATE ON no_filter FOR EACH ROW EXECUTE FUNCTION dedup_guard_trigger();
CREATE TRIGGER z BEFORE DELETE ON no_filter FOR EACH ROW WHEN ('pg_class'::regclass IS NOT NULL OR old.k IS NULL) EXECUTE FUNCTION dedup_guard_trigger();
SELECT "table", filter, on_duplicate, columns, refused, problem FROM dedup_guards WHERE "table" = 'no_filter'::regclass;

-- options; expressions as the server has them
CREATE TABLE opted (id int, email text, "Key one" text, gone timestamptz, odd boolean);
SELECT dedup_create('o', dedup_filter(1000, 0.01, 42));
SELECT dedup_guard('opted', 'o', ARRAY['id', 'lower(email)', '"Key one" || email'], "where" => 'gone IS NULL OR odd');
ALTER TABLE opted RENAME COLUMN gone TO "Deleted at";
ALTER TABLE opted RENAME COLUMN email TO mail;
\x on
SELECT columns, on_duplicate, exact, "where", nulls_not_distinct, at, too_old, on_delete, side_table, problem FROM ours WHERE filter = 'o'::regclass;
-- of a guard that is exact
CREATE INDEX ON opted (lower(mail));
SELECT dedup_unguard('opted');
SELECT dedup_guard('opted', 'o', '{lower(mail)}', exact => true);
SELECT columns, on_duplicate, exact, "where", nulls_not_distinct, at, too_old, on_delete, side_table, problem FROM ours WHERE filter = 'o'::regclass;
\x off

-- the function itself, of anything
SELECT (dedup_guard_state(o)).* FROM unnest('{0,1,1259,4294967295}'::oid[]) o;
SELECT dedup_guard_state(NULL);

\set QUIET on
SET client_min_messages = error;
DROP SCHEMA guards_view CASCADE;
DROP ROLE regress_guards_view;
