-- Need C1: one duplicate must not discard the whole batch. The sink can only send plain INSERTs, and would lose all
-- four records because of one that came before.

\set QUIET on
CREATE SCHEMA need_c1;
SET search_path = need_c1, public;
SET timezone = 'UTC';
CREATE TABLE rec (tag text, d timestamptz);
SELECT dedup_create('rec_seen', dedup_filter(100000, 1e-6, 42)) \gset
SELECT dedup_guard('rec', 'rec_seen', ARRAY['tag', 'd']) \gset
\set QUIET off

INSERT INTO rec VALUES ('a', '2024-01-01Z');
INSERT INTO rec VALUES ('a', '2024-01-01Z'), ('b', '2024-01-01Z'), ('c', '2024-01-01Z'), ('d', '2024-01-01Z');
SELECT * FROM rec ORDER BY tag;

-- a batch that fails as a whole and is sent again is not lost as duplicates

INSERT INTO rec SELECT t, '2024-01-02Z'::timestamptz + '0 days'::interval / (t <> 'f')::int
FROM unnest('{d,e,f}'::text[]) t;
INSERT INTO rec SELECT t, '2024-01-02Z' FROM unnest('{d,e,f}'::text[]) t;
SELECT count(*) FROM rec;

\set QUIET on
SET client_min_messages = error;
DROP SCHEMA need_c1 CASCADE;
