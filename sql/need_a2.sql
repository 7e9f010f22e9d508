-- Need A2: find the few duplicates of a large table before a UNIQUE constraint is
-- added. One pass names a small set of candidates and misses none; the exact check
-- runs on the candidates only.

\set QUIET on
CREATE SCHEMA need_a2;
SET search_path = need_a2, public;
CREATE TABLE item AS SELECT i AS pk, CASE WHEN i % 100 = 0 THEN i / 2 ELSE i END AS key
FROM generate_series(1, 200000) i;
ALTER TABLE item ADD PRIMARY KEY (pk);
ANALYZE item;
SET work_mem = '4MB';
SET enable_sort = off;		-- the primary key has the order
SET max_parallel_workers_per_gather = 0;
\set QUIET off

-- one pass over the table, in its order

CREATE TABLE candidate AS SELECT pk
FROM (SELECT pk, dedup_is_new(dedup_filter(200000, 0.01), key) OVER (ORDER BY pk) AS is_new
	FROM item) x WHERE NOT is_new;

-- every row with an equal key before it is among them

SELECT count(*) AS duplicates, count(c.pk) = count(*) AS all_named
FROM (SELECT pk, row_number() OVER (PARTITION BY key ORDER BY pk) AS n FROM item) i LEFT
JOIN candidate c USING (pk) WHERE n > 1;

-- and few others are: one in a hundred rows

SELECT count(*) <= 1000 + 0.01 * 200000 + 4 * sqrt(2000) AS few FROM candidate;

-- the pass needs no temporary file

CREATE FUNCTION temp_blocks(query text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) ' || query INTO plan;
	RETURN plan -> 0 -> 'Plan' ->> 'Temp Written Blocks';
END $$;
SELECT temp_blocks('SELECT pk, dedup_is_new(dedup_filter(200000, 0.01), key) OVER (ORDER BY pk) FROM item') AS temp_blocks;

-- the candidates are checked, and the constraint can be added

RESET enable_sort;
DELETE FROM item USING candidate c
WHERE item.pk = c.pk AND EXISTS (SELECT FROM item o WHERE o.key = item.key AND o.pk < item.pk);
ALTER TABLE item ADD UNIQUE (key);

\set QUIET on
SET client_min_messages = error;
DROP SCHEMA need_a2 CASCADE;
