-- Exact guards: UNIQUE across partitions, without the partition key.

SET client_min_messages = warning;
\set VERBOSITY default

CREATE TABLE clicks (id bigint, page text, at date NOT NULL) PARTITION BY RANGE (at);
CREATE TABLE clicks_jan PARTITION OF clicks FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
-- Other attribute numbers, and a level more.
CREATE TABLE clicks_feb (gone int, at date NOT NULL, page text, id bigint) PARTITION BY HASH (id);
ALTER TABLE clicks_feb DROP COLUMN gone;
CREATE TABLE clicks_feb_0 PARTITION OF clicks_feb FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE clicks_feb_1 (page text, id bigint, at date NOT NULL);
ALTER TABLE clicks_feb ATTACH PARTITION clicks_feb_1 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
ALTER TABLE clicks ATTACH PARTITION clicks_feb FOR VALUES FROM ('2026-02-01') TO ('2026-03-01');
CREATE TABLE clicks_rest PARTITION OF clicks DEFAULT;

-- So small that the filter has seen nearly every key: each row is looked for.
SELECT dedup_create('seen', dedup_filter(1, 0.5, seed => 1));

-- ---- what it needs ----

SELECT dedup_guard('clicks', 'seen', '{id}', exact => true);
SELECT dedup_guard('clicks', 'seen', '{id}', exact => NULL);
CREATE INDEX ON clicks (page, id);
SELECT dedup_guard('clicks', 'seen', '{id}', exact => true);
-- One partition has none.
CREATE INDEX ON clicks_jan (id);
CREATE INDEX ON clicks_feb (id);
SELECT dedup_guard('clicks', 'seen', '{id}', exact => true);
CREATE INDEX ON clicks_rest (id);
SELECT dedup_create('lately', dedup_window(1000));
SELECT dedup_create('today', dedup_filter(1000), ttl => '1 day');
SELECT dedup_create('quick', dedup_filter(1000), unlogged => true);
SELECT dedup_guard('clicks', 'lately', '{id}', exact => true);
SELECT dedup_guard('clicks', 'today', '{id}', exact => true);
SELECT dedup_guard('clicks', 'quick', '{id}', exact => true);
DROP TABLE lately, today, quick;
SELECT dedup_guard('clicks', 'seen', '{id}', exact => true);
SELECT tgargs FROM pg_trigger WHERE tgrelid = 'clicks'::regclass AND tgname = '~dedup_guard';

-- Its filter guards nothing else; nor does one that guards serve an exact guard.
CREATE TABLE other (id bigint PRIMARY KEY);
SELECT dedup_guard('other', 'seen', '{id}');
SELECT dedup_guard('other', 'seen', '{id}', exact => true);
SELECT dedup_create('others', dedup_filter(1000));
SELECT dedup_guard('other', 'others', '{id}');
CREATE TABLE third (id bigint PRIMARY KEY);
SELECT dedup_guard('third', 'others', '{id}', exact => true);
DROP TABLE other, third, others;

-- ---- skip ----

INSERT INTO clicks SELECT g, 'first', '2026-01-01'::date + g % 80 FROM generate_series(1, 1000) g;
INSERT INTO clicks SELECT g, 'second', '2026-01-01'::date + g % 70 FROM generate_series(1, 1100) g;
SELECT page, count(*), count(DISTINCT id) FROM clicks GROUP BY page ORDER BY page;
-- In one statement, straight into a partition, twice.
INSERT INTO clicks VALUES (2000, 'x', '2026-01-02'), (2000, 'y', '2026-02-02'), (2001, 'x', '2026-03-03') RETURNING *;
INSERT INTO clicks_jan VALUES (2000, 'z', '2026-01-03'), (2002, 'z', '2026-01-03') RETURNING *;
INSERT INTO clicks_feb_1 (id, page, at) SELECT 3000 + g, 'z', '2026-02-03' FROM generate_series(1, 20) g
WHERE satisfies_hash_partition('clicks_feb'::regclass, 2, 1, (3000 + g)::bigint) AND g > 10;
-- A key without its row is free: deleted, truncated, dropped, detached.
DELETE FROM clicks WHERE id <= 10;
INSERT INTO clicks SELECT g, 'third', '2026-03-10' FROM generate_series(1, 12) g;
SELECT count(*) FROM clicks WHERE page = 'third';
TRUNCATE clicks_rest;
INSERT INTO clicks SELECT g, 'fourth', '2026-01-10' FROM generate_series(1, 10) g;
SELECT count(*) FROM clicks WHERE page = 'fourth';
BEGIN;
SELECT count(*) FROM clicks WHERE id = 2000;
DROP TABLE clicks_jan;
INSERT INTO clicks VALUES (2000, 'dropped', '2026-02-10') RETURNING *;
ROLLBACK;
-- NULL is no key.
INSERT INTO clicks VALUES (NULL, 'null', '2026-01-01'), (NULL, 'null', '2026-02-01');
SELECT count(*) FROM clicks WHERE page = 'null';

-- UPDATE: of another column, of the key, to another partition.
UPDATE clicks SET page = 'updated' WHERE id = 2000;
UPDATE clicks SET id = 2002 WHERE id = 2000;
UPDATE clicks SET id = 2003 WHERE id = 2000 RETURNING id;
UPDATE clicks SET id = 2000 WHERE id = 2003 RETURNING id;
UPDATE clicks SET at = '2026-05-01' WHERE id = 2000 RETURNING *;
UPDATE clicks SET at = '2026-01-05', id = 2004 WHERE id = 2000 RETURNING *;
UPDATE clicks SET at = '2026-05-01', id = 2002 WHERE id = 2004;
UPDATE clicks SET at = at + 20;
SELECT count(*), count(DISTINCT id) FROM clicks;

-- Savepoints.
BEGIN;
INSERT INTO clicks VALUES (4000, 'kept', '2026-01-01');
SAVEPOINT s;
INSERT INTO clicks VALUES (4001, 'rolled back', '2026-01-01');
DELETE FROM clicks WHERE id = 4000;
INSERT INTO clicks VALUES (4000, 'rolled back', '2026-02-01');
ROLLBACK TO s;
INSERT INTO clicks VALUES (4000, 'refused', '2026-03-01'), (4001, 'kept', '2026-03-01');
DELETE FROM clicks WHERE id = 4000;
SAVEPOINT s;
INSERT INTO clicks VALUES (4000, 'again', '2026-03-01');
RELEASE s;
INSERT INTO clicks VALUES (4000, 'refused', '2026-01-01');
COMMIT;
SELECT * FROM clicks WHERE id IN (4000, 4001) ORDER BY id, page;

-- A row that a later trigger leaves out takes no key; a key in hand is taken.
CREATE FUNCTION leave_out() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.page = 'leave out' THEN RETURN NULL; END IF;
	IF NEW.page = 'nested' THEN INSERT INTO clicks VALUES (NEW.id, 'inner', '2026-02-02'); END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER "~later" BEFORE INSERT ON clicks FOR EACH ROW EXECUTE FUNCTION leave_out();
INSERT INTO clicks VALUES (5000, 'leave out', '2026-01-01'), (5000, 'kept', '2026-01-01'), (5001, 'nested', '2026-01-01');
SELECT id, page FROM clicks WHERE id >= 5000 ORDER BY id, page;
DROP TRIGGER "~later" ON clicks;

-- Rows that land without the trigger add their keys; under skip nobody can leave them out.
SET session_replication_role = replica;
INSERT INTO clicks VALUES (6000, 'replica', '2026-01-01'), (2002, 'replica', '2026-01-01');
RESET session_replication_role;
INSERT INTO clicks VALUES (6000, 'refused', '2026-02-01');
SELECT id, page FROM clicks WHERE id IN (6000, 2002) ORDER BY id, page;
DELETE FROM clicks WHERE page = 'replica';

-- An index that goes is missed by the next row that needs it, and by no other.
DROP INDEX clicks_jan_id_idx;
INSERT INTO clicks VALUES (2001, 'refused', '2026-02-01');
INSERT INTO clicks VALUES (7000, 'no index', '2026-02-01');
CREATE INDEX ON clicks_jan USING hash (id);
INSERT INTO clicks VALUES (7000, 'refused', '2026-02-01'), (2004, 'refused', '2026-02-01') RETURNING *;
INSERT INTO clicks SELECT g, 'refused', '2026-02-01' FROM generate_series(11, 1100) g;

-- The sums hold.
SELECT count(*) - count(DISTINCT id) AS nulls FROM clicks;
SELECT skipped, rejected, marked, checked_found > 1000 AS checked_found, checked_not_found > 100 AS checked_not_found FROM dedup_stats('seen');
SELECT dedup_unguard('clicks');
DROP TABLE clicks, seen;

-- ---- reject: a unique constraint ----

CREATE TABLE events (event text, n numeric, at date NOT NULL, other int UNIQUE, PRIMARY KEY (other)) ;
CREATE INDEX ON events (n, event);
SELECT dedup_create('events_seen', dedup_filter(1, 0.5, seed => 1));
SELECT dedup_guard('events', 'events_seen', '{event, n}', 'reject', exact => true);
INSERT INTO events SELECT 'e', g, '2026-01-01', g FROM generate_series(1, 100) g;
DO $$ BEGIN
	INSERT INTO events VALUES ('e', 2.00, '2026-01-02', 1000);
EXCEPTION WHEN unique_violation THEN
	DECLARE s text; t text; c text; m text; d text; BEGIN
		GET STACKED DIAGNOSTICS s = SCHEMA_NAME, t = TABLE_NAME, c = CONSTRAINT_NAME, m = MESSAGE_TEXT, d = PG_EXCEPTION_DETAIL;
		RAISE WARNING '% % % | % | %', s, t, c, m, d;
	END;
END $$;
-- An upsert that becomes an UPDATE passes.
INSERT INTO events VALUES ('e', 2, '2026-01-02', 2) ON CONFLICT (other) DO UPDATE SET at = excluded.at RETURNING *;
INSERT INTO events VALUES ('e', 3, '2026-01-02', 2) ON CONFLICT (other) DO UPDATE SET n = excluded.n;
INSERT INTO events VALUES ('e', 1000, '2026-01-02', 2) ON CONFLICT (other) DO UPDATE SET n = excluded.n RETURNING *;
INSERT INTO events VALUES ('e', 2, '2026-01-02', 1001) ON CONFLICT (other) DO NOTHING RETURNING *;
INSERT INTO events VALUES ('e', 3, '2026-01-02', 1002) ON CONFLICT (other) DO NOTHING;
INSERT INTO events VALUES ('e', 3, '2026-01-02', 1003);
-- Equal, and not the same bytes.
UPDATE events SET n = 5.00 WHERE n = 5 RETURNING n;
UPDATE events SET n = 6.00 WHERE n = 5;
UPDATE events SET n = n + 1;
UPDATE events SET n = -n;
SET session_replication_role = replica;
INSERT INTO events VALUES ('e', -3, '2026-01-02', 1004);
RESET session_replication_role;
ALTER TABLE events DISABLE TRIGGER "~dedup_guard", DISABLE TRIGGER "~dedup_guard_delete";
INSERT INTO events VALUES ('e', -3, '2026-01-02', 1005);
INSERT INTO events VALUES ('e', -3.5, '2026-01-02', 1006);
ALTER TABLE events ENABLE TRIGGER "~dedup_guard", ENABLE TRIGGER "~dedup_guard_delete";
INSERT INTO events VALUES ('e', -3.5, '2026-01-02', 1007);
SELECT count(*), count(DISTINCT (event, n)) FROM events;
-- Who may not see the key does not.
CREATE ROLE regress_exact_writer;
GRANT INSERT ON events TO regress_exact_writer;
SET ROLE regress_exact_writer;
INSERT INTO events VALUES ('e', -4, '2026-01-02', 1008);
RESET ROLE;
DROP TABLE events, events_seen;
DROP ROLE regress_exact_writer;

-- ---- mark ----

CREATE TABLE marked (id int, is_duplicate boolean, v text, nn boolean NOT NULL DEFAULT false);
CREATE INDEX partial_null ON marked (id) WHERE NOT is_duplicate;
SELECT dedup_create('marked_seen', dedup_filter(1, 0.5, seed => 1));
-- NULL marks nothing, so this index does not have all rows that count.
SELECT dedup_guard('marked', 'marked_seen', '{id}', 'mark', exact => true);
DROP INDEX partial_null;
CREATE INDEX ON marked (id) WHERE is_duplicate IS NOT TRUE AND id IS NOT NULL;
SELECT dedup_guard('marked', 'marked_seen', '{id}', 'mark', exact => true);
SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indexrelid = 'marked_dedup_guard'::regclass;
INSERT INTO marked (id, v) SELECT g % 10, 'a' FROM generate_series(1, 20) g;
SELECT is_duplicate, count(*), count(DISTINCT id) FROM marked GROUP BY 1 ORDER BY 1;
-- A marked row is no row with the key; to take its mark away is to insert it.
UPDATE marked SET is_duplicate = false WHERE id = 3 AND is_duplicate;
DELETE FROM marked WHERE id = 3 AND NOT is_duplicate;
UPDATE marked SET is_duplicate = false WHERE id = 3 AND is_duplicate RETURNING *;
INSERT INTO marked VALUES (3, false, 'b') RETURNING *;
UPDATE marked SET id = 4 WHERE id = 5 AND is_duplicate RETURNING *;
UPDATE marked SET id = 4 WHERE id = 5;
UPDATE marked SET is_duplicate = true WHERE id = 5 RETURNING *;
INSERT INTO marked VALUES (5, true, 'b'), (5, false, 'c') RETURNING *;
SELECT id, count(*) FROM marked WHERE is_duplicate IS NOT TRUE GROUP BY id HAVING count(*) > 1;
SELECT dedup_unguard('marked');
DELETE FROM marked WHERE is_duplicate;
-- A partial index by a column that is NOT NULL.
DROP INDEX marked_id_idx;
CREATE INDEX ON marked (id) WHERE NOT nn;
SELECT dedup_guard('marked', 'marked_seen', '{id}', 'mark', exact => true);
SELECT dedup_guard('marked', 'marked_seen', '{id}', 'mark:nn', exact => true);
SELECT dedup_unguard('marked');
DROP TABLE marked, marked_seen;
DROP FUNCTION leave_out;
