-- Need B1: a unique constraint on a partitioned table must contain the partition key, so a call that is retried a
-- moment later is stored twice. The guard is on the parent, and its key need not contain created_at.

\set QUIET on
CREATE SCHEMA need_b1;
SET search_path = need_b1, public;
SET timezone = 'UTC';
CREATE TABLE ev (tenant int, call_id text, created_at timestamptz) PARTITION BY RANGE (created_at);
CREATE TABLE ev1 PARTITION OF ev FOR VALUES FROM ('2024-01-01') TO ('2024-01-02');
CREATE TABLE ev2 PARTITION OF ev FOR VALUES FROM ('2024-01-02') TO ('2024-01-03');
SELECT dedup_create('calls', dedup_filter(100000, 1e-6, 42)) \gset
SELECT dedup_guard('ev', 'calls', ARRAY['tenant', 'call_id']) \gset
\set QUIET off

-- the retry is left out, also when it comes in another partition

INSERT INTO ev VALUES (1, 'abc-123', '2024-01-01 10:00Z'), (1, 'abc-123', '2024-01-01 10:00:30Z');
INSERT INTO ev VALUES (1, 'abc-123', '2024-01-02 00:00:01Z');

-- another tenant's call of the same id goes in

INSERT INTO ev VALUES (2, 'abc-123', '2024-01-01 10:00Z');
SELECT tableoid::regclass AS partition, * FROM ev ORDER BY tenant;

-- a NULL in the key is never a duplicate, as in a unique constraint

INSERT INTO ev VALUES (3, NULL, '2024-01-01 10:00Z'), (3, NULL, '2024-01-01 10:00Z');

\set QUIET on
SET client_min_messages = error;
DROP SCHEMA need_b1 CASCADE;
