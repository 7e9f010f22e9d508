-- Exact guards whose parts are dropped by hand: after that, the filter does not cover the table.

SET client_min_messages = warning;

CREATE TABLE clicks (id int, at date NOT NULL) PARTITION BY RANGE (at);
CREATE TABLE clicks_jan PARTITION OF clicks FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
CREATE TABLE clicks_rest PARTITION OF clicks DEFAULT;
CREATE INDEX ON clicks (id);
SELECT dedup_create('seen', dedup_filter(1000));
SELECT dedup_guard('clicks', 'seen', '{id}', 'reject', exact => true);
INSERT INTO clicks VALUES (1, '2026-01-01');

-- A session that has not loaded the library drops and makes a trigger.
SELECT pg_get_triggerdef(oid) AS make FROM pg_trigger WHERE tgrelid = 'clicks'::regclass AND tgname = '~dedup_guard' \gset
\c -
SET client_min_messages = warning;
BEGIN;
DROP TRIGGER "~dedup_guard" ON clicks;
ROLLBACK;
INSERT INTO clicks VALUES (2, '2026-01-01');
DROP TRIGGER "~dedup_guard" ON clicks;
SET session_replication_role = replica;
INSERT INTO clicks VALUES (3, '2026-01-01');
RESET session_replication_role;
:make;
INSERT INTO clicks VALUES (3, '2026-02-01');
SELECT dedup_rebuild('seen');
INSERT INTO clicks VALUES (3, '2026-02-01');
INSERT INTO clicks VALUES (4, '2026-02-01');

-- The index.
SELECT replace(pg_get_indexdef('clicks_dedup_guard'::regclass), 'ONLY ', '') AS make \gset
DROP INDEX CONCURRENTLY clicks_dedup_guard;
DROP INDEX clicks_jan_dedup_guard;
INSERT INTO clicks VALUES (5, '2026-02-01');
DROP INDEX clicks_dedup_guard;
INSERT INTO clicks VALUES (6, '2026-02-01');
SET session_replication_role = replica;
INSERT INTO clicks VALUES (5, '2026-01-01');
RESET session_replication_role;
:make;
INSERT INTO clicks VALUES (6, '2026-02-01');
SELECT dedup_rebuild('seen');
DELETE FROM clicks WHERE at = '2026-01-01' AND id = 5;
SELECT dedup_rebuild('seen');
INSERT INTO clicks VALUES (5, '2026-01-01');
INSERT INTO clicks VALUES (6, '2026-02-01');

-- Others may not even touch it, and what is no part of a guard does nothing.
CREATE ROLE regress_exact_other;
SET ROLE regress_exact_other;
DROP TRIGGER "~dedup_guard" ON clicks;
DROP INDEX clicks_dedup_guard;
DROP TRIGGER IF EXISTS "~dedup_guard" ON nothing;
DROP INDEX IF EXISTS nothing;
RESET ROLE;
DROP ROLE regress_exact_other;
CREATE INDEX plain ON clicks (at);
DROP INDEX plain;
INSERT INTO clicks VALUES (7, '2026-02-01');
SELECT dedup_guard_dropped();

-- A new partition needs an index, too; one that is attached as well.
DROP INDEX clicks_id_idx;
CREATE TABLE clicks_feb PARTITION OF clicks FOR VALUES FROM ('2027-02-01') TO ('2027-03-01');
CREATE TABLE clicks_feb (id int, at date NOT NULL);
ALTER TABLE clicks ATTACH PARTITION clicks_feb FOR VALUES FROM ('2027-02-01') TO ('2027-03-01');
CREATE INDEX ON clicks_feb (id);
ALTER TABLE clicks ATTACH PARTITION clicks_feb FOR VALUES FROM ('2027-02-01') TO ('2027-03-01');
ALTER TABLE clicks DETACH PARTITION clicks_feb;
CREATE INDEX ON clicks (id);
-- Rows that a detached partition has taken meanwhile are looked for by the indexes.
INSERT INTO clicks SELECT g, '2026-03-01' FROM generate_series(100, 20000) g;
INSERT INTO clicks_feb SELECT g, '2027-02-02' FROM generate_series(30000, 30100) g;
INSERT INTO clicks_feb VALUES (200, '2027-02-02'), (50001, '2027-02-02');
ALTER TABLE clicks ATTACH PARTITION clicks_feb FOR VALUES FROM ('2027-02-01') TO ('2027-03-01');
DELETE FROM clicks WHERE id = 200;
ALTER TABLE clicks ATTACH PARTITION clicks_feb FOR VALUES FROM ('2027-02-01') TO ('2027-03-01');
INSERT INTO clicks VALUES (50001, '2026-01-01');
ALTER TABLE clicks DETACH PARTITION clicks_feb;
INSERT INTO clicks VALUES (50001, '2026-01-01');
ALTER TABLE clicks ATTACH PARTITION clicks_feb FOR VALUES FROM ('2027-02-01') TO ('2027-03-01');
DROP TABLE clicks, clicks_feb, seen;

-- Rows in a partition that the same transaction has attached keep other writers out.
CREATE TABLE clicks (id int, at date NOT NULL) PARTITION BY RANGE (at);
CREATE TABLE clicks_jan PARTITION OF clicks FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
CREATE INDEX ON clicks (id);
SELECT dedup_create('seen', dedup_filter(1000));
SELECT dedup_guard('clicks', 'seen', '{id}', exact => true);
CREATE TABLE clicks_feb (id int, at date NOT NULL);
BEGIN;
INSERT INTO clicks VALUES (1, '2026-01-01');
SELECT count(*) FROM pg_locks WHERE relation = 'clicks'::regclass AND pid = pg_backend_pid() AND mode = 'ShareRowExclusiveLock';
ALTER TABLE clicks ATTACH PARTITION clicks_feb FOR VALUES FROM ('2026-02-01') TO ('2026-03-01');
SELECT count(*) FROM pg_locks WHERE relation = 'clicks'::regclass AND pid = pg_backend_pid() AND mode = 'ShareRowExclusiveLock';
INSERT INTO clicks VALUES (1, '2026-02-01'), (2, '2026-02-01') RETURNING id;
SELECT count(*) FROM pg_locks WHERE relation = 'clicks'::regclass AND pid = pg_backend_pid() AND mode = 'ShareRowExclusiveLock';
COMMIT;

-- A foreign table cannot be searched.
CREATE FOREIGN DATA WRAPPER regress_exact_wrapper;
CREATE SERVER regress_exact_server FOREIGN DATA WRAPPER regress_exact_wrapper;
CREATE FOREIGN TABLE clicks_far PARTITION OF clicks FOR VALUES FROM ('2026-03-01') TO ('2026-04-01') SERVER regress_exact_server;
CREATE FOREIGN TABLE clicks_far (id int, at date NOT NULL) SERVER regress_exact_server;
ALTER TABLE clicks ATTACH PARTITION clicks_far FOR VALUES FROM ('2026-03-01') TO ('2026-04-01');
SELECT dedup_unguard('clicks');
ALTER TABLE clicks ATTACH PARTITION clicks_far FOR VALUES FROM ('2026-03-01') TO ('2026-04-01');
SELECT dedup_guard('clicks', 'seen', '{id}', exact => true);
DROP TABLE clicks, seen;
DROP FOREIGN DATA WRAPPER regress_exact_wrapper CASCADE;
