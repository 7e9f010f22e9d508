-- Statements that a live filter refuses, and statements that it must not refuse. A statement marked "refused" fails
-- with the message beside it; every other one succeeds.
\set VERBOSITY terse
-- What only later servers have, and for earlier ones an error of the same text.
SELECT current_setting('server_version_num')::int >= 150000 AS from_15 \gset
\if :from_15
\set merge_delete 'MERGE INTO seen USING ordinary ON id = block WHEN MATCHED THEN DELETE'
\set merge_nothing 'MERGE INTO seen USING ordinary ON id = block WHEN NOT MATCHED THEN DO NOTHING'
\set to_heap 'ALTER TABLE seen SET ACCESS METHOD heap'
\set to_heap_unlogged 'ALTER TABLE seen SET ACCESS METHOD heap, SET UNLOGGED'
\set to_filter 'ALTER TABLE ordinary SET ACCESS METHOD streamdedup'
\set to_same 'ALTER TABLE seen SET ACCESS METHOD streamdedup'
\else
\set merge_delete 'DO $$BEGIN RAISE ''cannot merge into live filter "seen"''; END$$'
\set merge_nothing :merge_delete
\set to_heap 'DO $$BEGIN RAISE ''cannot change the access method of live filter "seen"''; END$$'
\set to_heap_unlogged :to_heap
\set to_filter 'DO $$BEGIN RAISE SQLSTATE ''42P16''; END$$'
\set to_same ''
\endif
SELECT dedup_create('seen', dedup_window(1000));
CREATE TABLE ordinary (id int PRIMARY KEY, page text);
INSERT INTO ordinary VALUES (1, 'a');

-- ---- DML: refused with 42809, though the filter is empty ----
INSERT INTO seen (block) VALUES (0);                                -- refused: cannot insert into live filter "seen"
INSERT INTO seen (block) SELECT 0 WHERE false;                      -- refused: cannot insert
INSERT INTO seen DEFAULT VALUES;                                    -- refused: cannot insert
INSERT INTO seen (block) VALUES (0) ON CONFLICT DO NOTHING;         -- refused: cannot insert
UPDATE seen SET block = 1;                                          -- refused: cannot update live filter "seen"
UPDATE seen SET block = 1 WHERE false;                              -- refused: cannot update
DELETE FROM seen;                                                   -- refused: cannot delete from live filter "seen"
DELETE FROM seen USING ordinary WHERE id = block;                   -- refused: cannot delete
WITH d AS (DELETE FROM seen RETURNING block) SELECT count(*) FROM d;    -- refused: cannot delete
WITH d AS (DELETE FROM seen RETURNING block) INSERT INTO ordinary SELECT block FROM d;  -- refused: cannot delete
COPY (INSERT INTO seen (block) VALUES (0) RETURNING block) TO STDOUT;   -- refused: cannot insert
EXPLAIN (COSTS off) DELETE FROM seen;                               -- refused: cannot delete
PREPARE p AS UPDATE seen SET block = block;                         -- passes
EXECUTE p;                                                          -- refused: cannot update
DEALLOCATE p;
CREATE VIEW seen_view AS SELECT block, page FROM seen;              -- passes
INSERT INTO seen_view (block) VALUES (0);                           -- refused: cannot insert into live filter "seen"
DELETE FROM seen_view;                                              -- refused: cannot delete
SELECT block FROM seen_view FOR UPDATE;                             -- refused: cannot lock rows
DROP VIEW seen_view;
:merge_delete;                                                      -- refused: cannot merge into live filter "seen"
:merge_nothing;                                                     -- refused: cannot merge

-- ---- row locks: 42809 ----
SELECT block FROM seen FOR UPDATE;                                  -- refused: cannot lock rows of live filter "seen"
SELECT block FROM seen FOR NO KEY UPDATE SKIP LOCKED;               -- refused: cannot lock rows
SELECT block FROM seen FOR SHARE;                                   -- refused: cannot lock rows
SELECT block FROM seen FOR KEY SHARE;                               -- refused: cannot lock rows
SELECT id FROM ordinary JOIN seen ON id = block FOR UPDATE;         -- refused: cannot lock rows
SELECT id FROM ordinary WHERE id NOT IN (SELECT block FROM seen) FOR UPDATE;    -- passes: 1
SELECT id FROM ordinary LEFT JOIN seen ON id = block FOR UPDATE OF ordinary;    -- passes: 1
UPDATE ordinary SET page = 'b' FROM seen WHERE id = block;          -- passes: UPDATE 0

-- ---- samples: 0A000; rows by their place: a page's row is (block, 1) ----
SELECT * FROM seen TABLESAMPLE SYSTEM (100);                        -- refused: cannot take a sample of live filter "seen"
SELECT count(*) FROM seen TABLESAMPLE BERNOULLI (0.1);              -- refused
SELECT count(*) FROM ordinary JOIN seen TABLESAMPLE SYSTEM (100) REPEATABLE (1) ON id = block;  -- refused
SELECT dedup_create('placed', dedup_filter(20000, 0.01, 42));
SELECT count(is_new('placed', k)) FROM generate_series(1, 100) k;
SELECT ctid, block, tableoid::regclass FROM placed WHERE block IN (0, 2) ORDER BY block;   -- (0,1) and (2,1)
SET enable_seqscan = off;
EXPLAIN (COSTS off) SELECT block FROM placed WHERE ctid = '(2,1)';  -- a Tid Scan
SELECT block FROM placed WHERE ctid = '(2,1)';                      -- 2
SELECT block FROM placed WHERE ctid = ANY ('{"(1,1)","(1,2)","(0,0)","(99,1)","(4294967295,1)"}');    -- 1
SELECT block FROM placed WHERE ctid >= '(1,1)' AND ctid < '(3,0)' ORDER BY block;    -- 1 and 2
SELECT count(*) FROM placed a JOIN placed b ON a.ctid = b.ctid AND a.block = b.block AND a.page::text = b.page::text;   -- as many as there are pages
SELECT count(*) FROM placed;
RESET enable_seqscan;
SELECT block FROM placed WHERE ctid = '(2,1)';                      -- 2
SELECT xmin FROM placed;                                            -- the server's: cannot retrieve a system column in this context
DROP TABLE placed;

-- ---- cursors, both ways ----
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT block FROM seen;
FETCH c;                                                            -- none: the filter is empty
UPDATE seen SET block = 1 WHERE CURRENT OF c;                       -- refused: cannot update
ROLLBACK;
BEGIN;
SELECT is_new('seen', 1);
DECLARE c SCROLL CURSOR FOR SELECT block FROM seen;
FETCH c;                                                            -- 0
FETCH c;                                                            -- none
FETCH BACKWARD FROM c;                                              -- 0
FETCH BACKWARD FROM c;                                              -- none
FETCH c;                                                            -- 0
ROLLBACK;

-- ---- privileges and READ ONLY win over the refusal ----
CREATE ROLE regress_dedup_nobody;
SET ROLE regress_dedup_nobody;
INSERT INTO seen (block) VALUES (0);                                -- permission denied for table seen
RESET ROLE;
DROP ROLE regress_dedup_nobody;
BEGIN READ ONLY;
DELETE FROM seen;                                                   -- cannot execute DELETE in a read-only transaction
ROLLBACK;

-- ---- columns: 0A000 ----
ALTER TABLE seen ADD COLUMN more int;                               -- refused: cannot add a column to live filter "seen"
ALTER TABLE seen ADD COLUMN more int DEFAULT 1;                     -- refused: cannot add a column
\set VERBOSITY sqlstate
ALTER TABLE seen DROP COLUMN block;                                 -- refused: cannot drop column "block" of live filter "seen", or the constraint that names it
ALTER TABLE seen DROP COLUMN page CASCADE;                          -- refused: cannot drop column "page", or its constraint, or change its default
\set VERBOSITY terse
ALTER TABLE seen RENAME COLUMN block TO b;                          -- refused: cannot alter column "block" of live filter "seen"
ALTER TABLE seen ALTER COLUMN block TYPE int8;                      -- refused: cannot alter column "block"
ALTER TABLE seen ALTER COLUMN block SET STATISTICS 10;              -- refused: cannot alter column "block"
ALTER TABLE seen ALTER COLUMN block SET (n_distinct = 5);           -- refused: cannot alter column "block"
ALTER TABLE seen ALTER COLUMN page SET STORAGE PLAIN;               -- refused: cannot alter column "page"
ALTER TABLE seen ALTER COLUMN block ADD GENERATED ALWAYS AS IDENTITY;   -- refused: cannot alter column "block"

-- ---- defaults: 0A000 ----
ALTER TABLE seen ALTER COLUMN page SET DEFAULT NULL;                -- refused: cannot change the default of column "page" of live filter "seen"
ALTER TABLE seen ALTER COLUMN page SET DEFAULT 'x';                 -- refused (the type's input function may come first)
ALTER TABLE seen ALTER COLUMN page DROP DEFAULT;                    -- refused: cannot change the default of column "page"
ALTER TABLE seen ALTER COLUMN block SET DEFAULT 7;                  -- refused: cannot change the default of column "block"
ALTER TABLE seen ALTER COLUMN block DROP DEFAULT;                   -- passes: there is none
BEGIN;
SELECT dedup_create('seen_now', dedup_window(1000));
ALTER TABLE seen_now ALTER COLUMN page DROP DEFAULT;                -- refused, in the transaction that made it too
ROLLBACK;
BEGIN;
SELECT dedup_create('seen_now', dedup_window(1000));
ALTER TABLE seen_now ALTER COLUMN block SET DEFAULT 7;              -- refused: cannot change the default of column "block" of live filter "seen_now"
ROLLBACK;
BEGIN;
SELECT dedup_create('seen_now', dedup_window(1000));
ALTER TABLE seen_now ADD CHECK (block < 100);                       -- refused: cannot add a constraint
ROLLBACK;
BEGIN;
SELECT dedup_create('seen_now', dedup_window(1000));
ALTER TABLE seen_now SET UNLOGGED;                                  -- refused: cannot make live filter "seen_now" unlogged
ROLLBACK;
BEGIN;
SELECT dedup_create('seen_now', dedup_window(1000));
DROP TABLE seen_now;                                                -- passes
COMMIT;

-- ---- constraints: 0A000 ----
ALTER TABLE seen ADD CHECK (block >= 0);                            -- refused: cannot add a constraint to live filter "seen"
ALTER TABLE seen ADD CHECK (block >= 0) NOT VALID;                  -- refused
ALTER TABLE seen ADD PRIMARY KEY (block);                           -- refused: cannot add a constraint
ALTER TABLE seen ADD UNIQUE (block);                                -- refused: cannot add a constraint
ALTER TABLE seen ADD UNIQUE (page), ADD EXCLUDE USING gist (page WITH =);   -- refused: cannot add a constraint, though page has no operator class
ALTER TABLE seen ADD EXCLUDE USING btree (block WITH =);            -- refused: cannot add a constraint
ALTER TABLE seen ADD FOREIGN KEY (block) REFERENCES ordinary;       -- refused: cannot add a constraint
ALTER TABLE ordinary ADD FOREIGN KEY (id) REFERENCES seen (block);  -- the server's: there is no unique constraint matching given keys ...
ALTER TABLE seen DROP CONSTRAINT live_filter;                        -- refused: cannot drop constraint "live_filter" of live filter "seen" (give the name that dedup_create gives)

-- ---- indexes, triggers, rules, policies, row security: 0A000 ----
CREATE INDEX ON seen (block);                                       -- refused: cannot create an index on live filter "seen"
CREATE UNIQUE INDEX ON seen (block);                                -- refused
CREATE INDEX ON seen (page);                                        -- refused, though page has no operator class
CREATE INDEX ON seen USING brin (page);                             -- refused
CREATE INDEX ON seen (key);                                         -- refused, though there is no such column
CREATE INDEX CONCURRENTLY seen_index ON seen (block);               -- refused, and leaves nothing behind
SELECT count(*) FROM pg_index WHERE indrelid = 'seen'::regclass;    -- 0
CREATE FUNCTION noop() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER t BEFORE INSERT ON seen FOR EACH ROW EXECUTE FUNCTION noop();        -- refused: cannot create a trigger on live filter "seen"
CREATE TRIGGER t AFTER TRUNCATE ON seen FOR EACH STATEMENT EXECUTE FUNCTION noop(); -- refused
CREATE CONSTRAINT TRIGGER t AFTER INSERT ON seen FOR EACH ROW EXECUTE FUNCTION noop();  -- refused: cannot add a constraint
DROP FUNCTION noop();
CREATE RULE r AS ON INSERT TO seen DO INSTEAD NOTHING;              -- refused: cannot create a rule on live filter "seen"
DO $$
BEGIN
	CREATE RULE "_RETURN" AS ON SELECT TO seen DO INSTEAD SELECT 1::int4 AS block, NULL::dedup_page AS page;    -- the server's: could not convert table "seen" to a view because it has triggers; from 16 on: relation "seen" cannot have ON SELECT rules
	RAISE WARNING 'the live filter is a view now';
EXCEPTION WHEN object_not_in_prerequisite_state OR wrong_object_type THEN
END $$;
CREATE POLICY y ON seen;                                            -- refused: cannot create a policy on live filter "seen"
-- from PostgreSQL 18 on; earlier servers call no hook and let them pass:
-- ALTER TABLE seen ENABLE ROW LEVEL SECURITY;                      -- 18: refused: cannot enable row security on live filter "seen"
-- ALTER TABLE seen FORCE ROW LEVEL SECURITY;                       -- 18: refused
ALTER TABLE seen DISABLE ROW LEVEL SECURITY;                        -- passes
ALTER TABLE seen NO FORCE ROW LEVEL SECURITY;                       -- passes

-- ---- inheritance and partitions, either way: 0A000 ----
CREATE TABLE parent (block int4, page dedup_page);
CREATE TABLE parted (block int4, page dedup_page) PARTITION BY LIST (block);
ALTER TABLE seen INHERIT parent;                                    -- refused: live filter "seen" cannot be a child or a partition of a table
ALTER TABLE parted ATTACH PARTITION seen DEFAULT;                   -- refused: live filter "seen" cannot be a child or a partition of a table
\set VERBOSITY sqlstate
ALTER TABLE parent INHERIT seen;                                    -- the server's: column "block" in child table must be marked NOT NULL
\set VERBOSITY terse
CREATE TABLE child () INHERITS (seen);                              -- refused: cannot inherit from live filter "seen"
CREATE TABLE child () INHERITS (parent) USING streamdedup;          -- refused: live filter "child" cannot be ...
CREATE TABLE child PARTITION OF parted DEFAULT USING streamdedup;   -- refused: live filter "child" cannot be ...
DROP TABLE parent, parted;

-- ---- typed tables: a type cannot reach around ----
CREATE TYPE two AS (block int4, page dedup_page);
ALTER TABLE seen OF two;                                            -- passes
ALTER TYPE two ADD ATTRIBUTE more int CASCADE;                      -- refused: cannot add a column to live filter "seen"
\set VERBOSITY sqlstate
ALTER TYPE two DROP ATTRIBUTE block CASCADE;                        -- refused: cannot drop column "block", or the constraint that names it
\set VERBOSITY terse
ALTER TYPE two RENAME ATTRIBUTE block TO b CASCADE;                 -- refused: cannot alter column "block"
ALTER TABLE seen NOT OF;
DROP TYPE two;

-- ---- rewrites: 0A000 ----
ALTER TABLE seen SET UNLOGGED;                                      -- refused: cannot make live filter "seen" unlogged
ALTER TABLE seen SET LOGGED;                                        -- passes: it is
:to_heap;                                                           -- refused: cannot change the access method of live filter "seen"
:to_heap_unlogged;                                                  -- refused: cannot change the access method
\set VERBOSITY sqlstate
:to_filter;                                                         -- refused: 42P16, table "pg_temp_..." cannot be a live filter
\set VERBOSITY terse
:to_same;                                                           -- passes: it is
SELECT dedup_create('seen_unlogged', dedup_window(1000), unlogged => true);
ALTER TABLE seen_unlogged SET LOGGED;                               -- refused: cannot make live filter "seen_unlogged" logged
VACUUM FULL seen_unlogged;                                          -- passes
DROP TABLE seen_unlogged;

-- ---- CREATE TABLE by hand ----
CREATE TABLE odd (block int4 DEFAULT 1, page dedup_page) USING streamdedup;         -- refused: cannot change the default of column "block" of live filter "odd"
CREATE TABLE odd (block int4 PRIMARY KEY, page dedup_page) USING streamdedup;       -- refused: cannot add a constraint to live filter "odd"
CREATE TABLE odd (block int4 REFERENCES ordinary, page dedup_page) USING streamdedup;   -- refused: cannot add a constraint
CREATE TABLE odd (block int4 CHECK (block > 0), page dedup_page CHECK (page IS NOT NULL)) USING streamdedup;    -- refused: cannot add a constraint

CREATE TABLE odd (block int4 NOT NULL, page dedup_page NOT NULL DEFAULT NULL, CONSTRAINT odd_check CHECK (block >= 0)) USING streamdedup;   -- passes, unless the access method asks for more
\set VERBOSITY sqlstate
ALTER TABLE odd ALTER COLUMN block DROP NOT NULL;                   -- refused: cannot alter column "block"; 18: cannot drop constraint "odd_block_not_null" of live filter "odd"
ALTER TABLE odd ADD PRIMARY KEY (block);                            -- refused: cannot add a constraint
\set VERBOSITY terse
VACUUM odd;
VACUUM FULL odd;
SELECT kind, problem FROM dedup_filters WHERE name = 'odd'::regclass;    -- it has no parameters
TRUNCATE odd;
DROP TABLE odd;
CREATE TABLE odd (LIKE seen INCLUDING DEFAULTS INCLUDING CONSTRAINTS) USING streamdedup;    -- passes: a filter with the same parameters
ALTER TABLE odd ALTER COLUMN page DROP DEFAULT;                     -- refused: it has one
DROP TABLE odd;
CREATE TABLE odd USING streamdedup AS SELECT 0 AS block, NULL::dedup_page AS page;  -- refused: cannot insert into live filter "odd"
CREATE MATERIALIZED VIEW odd USING streamdedup AS SELECT block, page FROM seen;     -- refused: materialized view "odd" cannot be a live filter
CREATE TEMP TABLE odd (LIKE seen INCLUDING DEFAULTS) USING streamdedup ON COMMIT DELETE ROWS;    -- refused: a live filter cannot be temporary

-- ---- what keeps working ----
ALTER TABLE seen RENAME TO seen2;
ALTER TABLE seen2 RENAME TO seen;
CREATE SCHEMA aside;
ALTER TABLE seen SET SCHEMA aside;
ALTER TABLE aside.seen SET SCHEMA public;
DROP SCHEMA aside;
ALTER TABLE seen SET TABLESPACE pg_default;
CREATE ROLE regress_dedup_owner;
GRANT CREATE ON SCHEMA public TO regress_dedup_owner;
ALTER TABLE seen OWNER TO regress_dedup_owner;
ALTER TABLE seen OWNER TO CURRENT_USER;
GRANT SELECT, INSERT ON seen TO regress_dedup_owner;
GRANT SELECT (block) ON seen TO regress_dedup_owner;
REVOKE ALL ON seen FROM regress_dedup_owner;
TRUNCATE seen;
BEGIN;
LOCK TABLE seen IN ACCESS EXCLUSIVE MODE;
TRUNCATE seen;
DECLARE c CURSOR FOR SELECT block FROM seen;
FETCH c;
COMMIT;
COMMENT ON TABLE seen IS 'a filter';
COMMENT ON COLUMN seen.page IS 'its parameters';
VACUUM seen;
VACUUM (FREEZE, ANALYZE) seen;
VACUUM FULL seen;
ANALYZE seen;
REINDEX TABLE seen;
ALTER TABLE seen SET (autovacuum_enabled = off);                    -- passes, if the access method takes reloptions
ALTER TABLE seen RESET (autovacuum_enabled);
ALTER TABLE seen DISABLE TRIGGER ALL;
ALTER TABLE seen ENABLE TRIGGER ALL;
ALTER TABLE seen REPLICA IDENTITY NOTHING;
ALTER TABLE seen SET WITHOUT CLUSTER;
ALTER TABLE seen RENAME CONSTRAINT live_filter TO other_name;
ALTER TABLE seen RENAME CONSTRAINT other_name TO live_filter;
ALTER EXTENSION streamdedup ADD TABLE seen;
ALTER EXTENSION streamdedup DROP TABLE seen;
\set VERBOSITY sqlstate
CREATE STATISTICS seen_stats (ndistinct) ON block, page FROM seen;  -- passes (or the server's: data type dedup_page has no default btree operator class)
\set VERBOSITY default
DROP STATISTICS IF EXISTS seen_stats;
SET client_min_messages = error;                                    -- wal_level of the test server
CREATE PUBLICATION regress_dedup_publication FOR TABLE seen;
DROP PUBLICATION regress_dedup_publication;
RESET client_min_messages;
COPY seen FROM STDIN;
\.
COPY seen TO STDOUT;
SELECT count(*) FROM seen;
SELECT count(*) FROM pg_trigger WHERE tgrelid = 'seen'::regclass;   -- 1: the restore trigger of dedup_create, which passed
-- a default that was forgotten at CREATE TABLE may still be given, once
CREATE TABLE late (block int4, page dedup_page) USING streamdedup;  -- passes, unless the access method asks for one
DROP TABLE late;

-- the ordinary table: nothing has changed for it
ALTER TABLE ordinary ADD COLUMN more int NOT NULL DEFAULT 1, ALTER COLUMN id SET DEFAULT 5, ADD CHECK (id > 0);
ALTER TABLE ordinary ALTER COLUMN more TYPE int8, ALTER COLUMN more DROP DEFAULT, ALTER COLUMN page SET STATISTICS 5;
ALTER TABLE ordinary DROP COLUMN more;
ALTER TABLE ordinary SET UNLOGGED;
ALTER TABLE ordinary SET LOGGED;
CREATE INDEX ON ordinary (page);
CREATE TABLE ordinary_child () INHERITS (ordinary);
VACUUM FULL ordinary;
CLUSTER ordinary USING ordinary_pkey;
INSERT INTO ordinary VALUES (2, 'c') ON CONFLICT (id) DO UPDATE SET page = 'd';
SELECT id FROM ordinary ORDER BY id FOR UPDATE;                     -- 1, 2
CREATE TABLE pg_temp_16384 (a int DEFAULT 1);                       -- the name of a rewrite's relation, no rewrite
DROP TABLE pg_temp_16384;
DROP TABLE ordinary_child, ordinary;

-- dropped in every way
SELECT dedup_create('seen3', dedup_window(1000));
CREATE TABLE seen6 (LIKE seen3 INCLUDING ALL) USING streamdedup;
DROP TABLE seen6;
CREATE SCHEMA aside;
SELECT dedup_create('aside.seen4', dedup_window(1000));
SET client_min_messages = warning;
DROP SCHEMA aside CASCADE;
REVOKE ALL ON SCHEMA public FROM regress_dedup_owner;
ALTER TABLE seen OWNER TO regress_dedup_owner;
DROP OWNED BY regress_dedup_owner;
DROP ROLE regress_dedup_owner;
SELECT to_regclass('seen');                                         -- NULL
DROP TABLE seen3;
BEGIN;
SELECT dedup_create('seen5', dedup_window(1000));
DROP EXTENSION streamdedup CASCADE;                                 -- passes
SELECT to_regclass('seen5');                                        -- NULL
ROLLBACK;
SELECT to_regclass('seen5');                                        -- NULL
