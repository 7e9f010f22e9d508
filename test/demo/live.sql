-- The same stream once more, now as it arrives: by COPY into a table that refuses
-- duplicates itself. It is partitioned by day, and a retry may come on the next, so no
-- unique index could do that.
--
-- Finds clicks and the psql variables key, slice and distinct_keys, as dedup.sql does.

CREATE VIEW click_key AS SELECT :key FROM clicks WHERE (:key) IS NOT NULL;
SELECT array_agg(attname ORDER BY attnum) AS key_columns, count(*) <= 32 AS guardable
	FROM pg_attribute WHERE attrelid = 'click_key'::regclass AND attnum > 0 \gset
\if :guardable

CREATE TABLE arrived (LIKE clicks) PARTITION BY LIST (day);
CREATE TABLE arrived_other PARTITION OF arrived DEFAULT;
SELECT format('CREATE TABLE arrived_%s PARTITION OF arrived FOR VALUES IN (%1$s)', day)
	FROM (SELECT DISTINCT day FROM clicks WHERE day IS NOT NULL ORDER BY day LIMIT 100) days \gexec

-- The live filter, and the guard. That is all.

SELECT dedup_create('clicks_seen', dedup_filter(:distinct_keys, 0.000002)) \gset
SELECT dedup_guard('arrived', 'clicks_seen', :'key_columns') \gset

-- What is sent: a file a day.

\set folder `pwd`
SELECT format('COPY (SELECT * FROM clicks WHERE day IS NOT DISTINCT FROM %L ORDER BY id) TO %L', day, :'folder' || '/' || coalesce(day, 0))
	FROM (SELECT DISTINCT day FROM clicks) days \gexec
SELECT max(day) AS today FROM clicks \gset
SELECT count(*) FILTER (WHERE day = :today) AS last_rows, count(*) FILTER (WHERE day IS DISTINCT FROM :today) AS other_rows FROM clicks \gset
\set last :folder / :today

-- Writes down what came of a step: rows stored by the table, rows refused by the filter's counter.
CREATE UNLOGGED TABLE demo_load (line serial, how text, sent bigint, stored bigint, refused bigint, seconds float8);
CREATE FUNCTION demo_loaded(how text, sent bigint, began timestamptz) RETURNS void LANGUAGE sql AS $$
	INSERT INTO demo_load (how, sent, seconds, stored, refused)
		SELECT $1, $2, extract(epoch FROM clock_timestamp() - began), (SELECT count(*) FROM arrived) - before.stored, skipped - before.refused
		FROM dedup_stats('clicks_seen'), (SELECT coalesce(sum(stored), 0) AS stored, coalesce(sum(refused), 0) AS refused FROM demo_load) before
$$;

SELECT clock_timestamp() AS began \gset
SELECT format('COPY arrived FROM %L', :'folder' || '/' || coalesce(day, 0))
	FROM (SELECT DISTINCT day FROM clicks WHERE day IS DISTINCT FROM :today ORDER BY day) days \gexec
SELECT demo_loaded(format('COPY of each %s but the last', :'slice'), :other_rows, :'began') \gset

-- The last day breaks off: none of its keys stays. So the retry is no duplicate.

SELECT clock_timestamp() AS began \gset
BEGIN;
COPY arrived FROM :'last';
ROLLBACK;
SELECT demo_loaded('COPY of the last, then ROLLBACK', NULL, :'began') \gset

SELECT clock_timestamp() AS began \gset
COPY arrived FROM :'last';
SELECT demo_loaded('COPY of the last, the retry', :last_rows, :'began') \gset

-- The sender did not hear that it worked.

SELECT clock_timestamp() AS began \gset
COPY arrived FROM :'last';
SELECT demo_loaded('COPY of the last, once more', :last_rows, :'began') \gset

-- Reconciliation, to the row. A key with a NULL is no duplicate of another, as in a unique index.

SELECT sum(sent) AS sent, sum(stored) AS stored, sum(refused) AS refused FROM demo_load \gset
SELECT count(*) AS distinct_sent FROM (SELECT DISTINCT * FROM click_key) keys \gset
SELECT count(*) AS distinct_stored FROM (SELECT DISTINCT :key FROM arrived WHERE (:key) IS NOT NULL) keys \gset
SELECT count(*) AS keyed_stored FROM arrived WHERE (:key) IS NOT NULL \gset
SELECT count(*) AS lost FROM (SELECT * FROM click_key EXCEPT SELECT :key FROM arrived) keys \gset
SELECT bytes AS live_bytes FROM dedup_stats('clicks_seen') \gset

INSERT INTO demo_broken
	SELECT format('live filter: %s rows sent are not %s stored and %s refused', :sent, :stored, :refused) WHERE :sent <> :stored + :refused
	UNION ALL
	SELECT format('live filter: %s duplicates stored', :keyed_stored - :distinct_stored) WHERE :keyed_stored <> :distinct_stored
	UNION ALL
	SELECT format('live filter: %s distinct keys stored and %s lost, of %s', :distinct_stored, :lost, :distinct_sent)
		WHERE :distinct_stored + :lost <> :distinct_sent
	UNION ALL
	SELECT format('live filter: %s of %s new keys refused, two of a million were promised', :lost, :distinct_sent)
		WHERE :lost > demo_at_most(0.000002, :distinct_sent)
	UNION ALL
	SELECT format('live filter: block %s: %s', block, problem) FROM dedup_check('clicks_seen');

\endif
