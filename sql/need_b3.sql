-- Need B3: a direct insert into a partition must be checked as an insert into the parent is, also for a partition
-- that is made or attached later.

\set QUIET on
CREATE SCHEMA need_b3;
SET search_path = need_b3, public;
CREATE TABLE ev (k int, d date) PARTITION BY RANGE (d);
CREATE TABLE ev1 PARTITION OF ev FOR VALUES FROM ('2024-01-01') TO ('2024-02-01');
SELECT dedup_create('ev_seen', dedup_filter(100000, 1e-6, 42)) \gset
SELECT dedup_guard('ev', 'ev_seen', ARRAY['k']) \gset
\set QUIET off

INSERT INTO ev VALUES (1, '2024-01-05');
INSERT INTO ev1 VALUES (1, '2024-01-06');

-- made later

CREATE TABLE ev2 PARTITION OF ev FOR VALUES FROM ('2024-02-01') TO ('2024-03-01');
INSERT INTO ev2 VALUES (1, '2024-02-05');
INSERT INTO ev VALUES (1, '2024-02-06');

-- attached later, and itself partitioned

CREATE TABLE ev3 (d date, k int) PARTITION BY RANGE (d);
ALTER TABLE ev ATTACH PARTITION ev3 FOR VALUES FROM ('2024-03-01') TO ('2024-04-01');
CREATE TABLE ev3a (other text, d date, k int);
ALTER TABLE ev3a DROP COLUMN other;
ALTER TABLE ev3 ATTACH PARTITION ev3a FOR VALUES FROM ('2024-03-01') TO ('2024-03-15');
INSERT INTO ev3a (k, d) VALUES (1, '2024-03-05');
INSERT INTO ev (k, d) VALUES (1, '2024-03-06');
SELECT count(*) FROM ev;

-- either road makes the key known to the other

INSERT INTO ev3a (k, d) VALUES (2, '2024-03-05');
INSERT INTO ev VALUES (2, '2024-01-05'), (3, '2024-01-05');
INSERT INTO ev1 VALUES (2, '2024-01-05'), (3, '2024-01-05'), (4, '2024-01-05');
INSERT INTO ev2 VALUES (4, '2024-02-05');
SELECT tableoid::regclass AS partition, k FROM ev ORDER BY k;

-- a partition that is detached is a table of its own, as far as its key goes

ALTER TABLE ev DETACH PARTITION ev2;
INSERT INTO ev2 VALUES (4, '2024-02-05');

\set QUIET on
SET client_min_messages = error;
DROP SCHEMA need_b3 CASCADE;
