-- Exact guards with a ttl search only those inheriting tables that can have rows of the time, by their CHECK
-- constraints.

SET client_min_messages = warning;
CREATE SCHEMA guard_inherit_times;
SET search_path = guard_inherit_times, public;
SET timezone = 'UTC';
SELECT dedup_create('w', dedup_filter(100000, 1e-6, 42), ttl => '1 hour') \gset
CREATE TABLE h (k int, at timestamptz);
CREATE INDEX ON h (k);
SELECT dedup_guard('h', 'w', '{k}', exact => true, at => 'at') \gset
CREATE TABLE h1 (at timestamptz NOT NULL, CHECK (at >= '2026-01-01' AND at < '2026-01-02')) INHERITS (h);
CREATE TABLE h2 (at timestamptz NOT NULL, CHECK ('2026-01-02' <= at AND at < '2026-01-03')) INHERITS (h);
CREATE TABLE h3 (at timestamptz NOT NULL, CONSTRAINT until CHECK (at < '2026-01-04'), CONSTRAINT since CHECK (at >= '2026-01-03')) INHERITS (h);
-- by no constraint, by one that proves nothing
CREATE TABLE h4 (at timestamptz NOT NULL, CHECK (at >= '2026-01-04' OR k < 0)) INHERITS (h);
INSERT INTO h1 VALUES (1, '2026-01-01 10:00'), (2, '2026-01-01 23:50'), (3, '2026-01-01 22:59'), (4, '2026-01-01 12:00');
INSERT INTO h2 VALUES (1, '2026-01-02 10:00'), (1, '2026-01-02 10:30'), (2, '2026-01-02 00:10'), (3, '2026-01-02 00:00');
SELECT tableoid::regclass, * FROM h ORDER BY k, at;

-- tables that are too far away are not opened: this one cannot be searched any more
DROP INDEX h1_k_idx;
INSERT INTO h2 VALUES (4, '2026-01-02 12:00'), (4, '2026-01-02 12:30'), (2, '2026-01-02 01:00');
INSERT INTO h2 VALUES (4, '2026-01-02 01:00');
INSERT INTO h3 VALUES (4, '2026-01-03 12:00'), (4, '2026-01-03 12:30');
INSERT INTO h4 VALUES (4, '2026-01-01 05:00');

-- a constraint that is gone, that not all rows need to meet, and a time that may be missing

ALTER TABLE h1 DROP CONSTRAINT h1_at_check;
INSERT INTO h2 VALUES (4, '2026-01-02 15:00');
ALTER TABLE h1 ADD CHECK (at < '2026-01-02') NOT VALID;
INSERT INTO h2 VALUES (4, '2026-01-02 15:00');
ALTER TABLE h1 VALIDATE CONSTRAINT h1_at_check;
INSERT INTO h2 VALUES (4, '2026-01-02 15:00'), (4, '2026-01-02 15:30');
ALTER TABLE h1 ALTER at DROP NOT NULL;
INSERT INTO h2 VALUES (4, '2026-01-02 17:00');
ALTER TABLE h1 ALTER at SET NOT NULL;
ALTER TABLE h1 RENAME at TO "At";

-- the time has one name in all of them

ALTER TABLE h RENAME at TO "At";
INSERT INTO h2 VALUES (4, '2026-01-02 17:00');

-- too far away on the other side

CREATE INDEX ON h1 (k);
DROP INDEX h3_k_idx;
INSERT INTO h1 VALUES (4, '2026-01-01 18:00');
INSERT INTO h2 VALUES (4, '2026-01-02 23:00:00.000001');
INSERT INTO h2 VALUES (4, '2026-01-02 23:00');
SELECT tableoid::regclass, * FROM h ORDER BY k, "At";

SET client_min_messages = error;
DROP SCHEMA guard_inherit_times CASCADE;
