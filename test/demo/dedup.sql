-- The job itself, each step beside the exact answer.
--
-- Finds a table clicks (id, day, ...) with an index on id, and the psql
-- variables key and who (lists of its columns) and slice (what a day is).

VACUUM ANALYZE clicks;

-- 1. Keep the first row of each key.

-- The exact way sorts everything: the previous row of the same key, if any.

SELECT clock_timestamp() AS began \gset
CREATE UNLOGGED TABLE exact AS
	SELECT id, lag(id) OVER (PARTITION BY :key ORDER BY id) AS previous FROM clicks;
SELECT extract(epoch FROM clock_timestamp() - :'began') AS exact_seconds \gset

SELECT count(*) FILTER (WHERE previous IS NULL) AS distinct_keys, count(previous) AS duplicates FROM exact \gset

-- What a unique index would take, which is the exact way to ask as rows
-- arrive. Some texts are too long for one.

CREATE UNLOGGED TABLE first_row AS SELECT :key FROM clicks JOIN exact USING (id) WHERE previous IS NULL;
\set ON_ERROR_STOP off
CREATE UNIQUE INDEX first_row_key ON first_row (:key);
\set ON_ERROR_STOP on
INSERT INTO demo_line
	SELECT 1, 1, 'exact: sort, lag(); a unique index', :distinct_keys, NULL, 0, 0, pg_relation_size(to_regclass('first_row_key')), :exact_seconds;

-- With streamdedup: one pass in the order of id, and memory that is bounded.
-- By itself dedup_is_new takes as much as a hash table may.

SELECT clock_timestamp() AS began \gset
CREATE UNLOGGED TABLE found AS
	SELECT id, dedup_is_new(:key) OVER (ORDER BY id) AS is_new FROM clicks;
SELECT 1 AS part, 2 AS line, 'dedup_is_new(key), which may fill hash_mem' AS how,
	extract(epoch FROM clock_timestamp() - :'began') AS seconds,
	(pg_size_bytes(current_setting('work_mem')) * current_setting('hash_mem_multiplier')::float8)::bigint AS bytes,
	0.001 AS fpr, 0.001 AS fnr \gset
-- A key takes 20.6 bits.
SELECT least(:distinct_keys + :duplicates, :bytes * 8 / 21) AS horizon \gset
\ir compare.sql

-- With a filter that never forgets, sized for the keys.

SELECT clock_timestamp() AS began \gset
CREATE UNLOGGED TABLE found AS
	SELECT id, dedup_is_new(dedup_filter(:distinct_keys, 0.01), :key) OVER (ORDER BY id) AS is_new FROM clicks;
SELECT 1 AS part, 3 AS line, 'with dedup_filter(' || :distinct_keys || ', 0.01)' AS how,
	extract(epoch FROM clock_timestamp() - :'began') AS seconds, 0.01 AS fpr, 0 AS fnr \gset
SELECT pg_column_size(dedup_agg(dedup_filter(:distinct_keys, 0.01), :key)) AS bytes FROM clicks \gset
\ir compare.sql

-- With a window that remembers a twentieth of them.

SELECT greatest(:distinct_keys / 20, 100) AS horizon \gset
SELECT clock_timestamp() AS began \gset
CREATE UNLOGGED TABLE found AS
	SELECT id, dedup_is_new(dedup_window(:horizon, 0.001), :key) OVER (ORDER BY id) AS is_new FROM clicks;
SELECT 1 AS part, 4 AS line, 'with dedup_window(' || :horizon || ', 0.001)' AS how,
	extract(epoch FROM clock_timestamp() - :'began') AS seconds, 0.001 AS fpr, 0.001 AS fnr \gset
SELECT pg_column_size(dedup_agg(dedup_window(:horizon, 0.001), :key)) AS bytes FROM clicks \gset
\ir compare.sql

-- 2. One filter a day, stored; who is new on the last day?

CREATE VIEW visit AS SELECT day, :who FROM clicks WHERE (:who) IS NOT NULL;
SELECT max(day) AS today, count(DISTINCT day) AS days FROM visit \gset
SELECT count(*) AS everyone FROM (SELECT DISTINCT :who FROM visit) people \gset

-- The exact way reads all the days again.

SELECT clock_timestamp() AS began \gset
CREATE UNLOGGED TABLE known AS
	SELECT :who, bool_or(day < :today) AS known FROM visit GROUP BY :who HAVING bool_or(day = :today);
SELECT extract(epoch FROM clock_timestamp() - :'began') AS exact_seconds, count(*) FILTER (WHERE NOT known) AS new_today,
	count(*) FILTER (WHERE known) AS back_today, count(*) AS all_today FROM known \gset

CREATE UNLOGGED TABLE day_who AS SELECT DISTINCT day, :who FROM visit WHERE day < :today;
\set ON_ERROR_STOP off
CREATE UNIQUE INDEX day_who_key ON day_who (:who, day);
\set ON_ERROR_STOP on
INSERT INTO demo_line
	SELECT 2, 1, 'exact: reads all days; a unique index', :new_today, NULL, 0, 0, pg_relation_size(to_regclass('day_who_key')), :exact_seconds;

-- With streamdedup: the filter of each day is made when the day is over ...

SELECT clock_timestamp() AS began \gset
CREATE TABLE seen (day int PRIMARY KEY, who dedup_filter NOT NULL);
INSERT INTO seen
	SELECT day, dedup_agg(dedup_filter(:everyone, 0.01), :who) FROM visit WHERE day < :today GROUP BY day;
SELECT extract(epoch FROM clock_timestamp() - :'began') AS made_seconds,
	sum(pg_column_size(who)) AS bytes FROM seen \gset

-- ... and today only today's rows are read.

SELECT clock_timestamp() AS began \gset
CREATE UNLOGGED TABLE answer AS
	SELECT today.*, is_new(past.seen, :who) AS is_new, dedup_contains(past.seen, :who) AS contained
	FROM (SELECT DISTINCT :who FROM visit WHERE day = :today) today,
		(SELECT dedup_merge_agg(who) AS seen FROM seen WHERE day < :today) past;
SELECT extract(epoch FROM clock_timestamp() - :'began') AS seconds \gset

SELECT count(*) FILTER (WHERE is_new) AS kept,
	count(*) FILTER (WHERE NOT known AND NOT is_new) AS false_positives,
	count(*) FILTER (WHERE known AND is_new) AS false_negatives,
	count(*) FILTER (WHERE is_new IS DISTINCT FROM NOT contained) AS differing, count(*) AS answers
	FROM known JOIN answer USING (:who) \gset
INSERT INTO demo_line VALUES (2, 2, 'dedup_merge_agg of the stored filters', :kept, :new_today, :false_positives, :false_negatives, :bytes, :seconds);

INSERT INTO demo_broken
	SELECT format('%s: %s false negatives, none was promised', 'stored filters', :false_negatives) WHERE :false_negatives > 0
	UNION ALL
	SELECT format('%s: %s of %s new keys refused, 1 %% was promised', 'stored filters', :false_positives, :new_today)
		WHERE :false_positives > demo_at_most(0.01, :new_today)
	UNION ALL
	SELECT format('is_new and dedup_contains contradict each other %s times', :differing) WHERE :differing > 0
	UNION ALL
	SELECT format('%s answers about %s keys', :answers, :all_today) WHERE :answers <> :all_today;
