-- is_new() row by row beside dedup_new_keys() of all rows, in one transaction each.
--
-- Variables: keys (300000), rounds.
\pset footer off
SET client_min_messages = warning;
SET synchronous_commit = off;
SET max_parallel_workers_per_gather = 0;
SET jit = off;
CREATE EXTENSION streamdedup;
CREATE TABLE row_run (made_for bigint, what text, seconds float8);
CREATE TABLE key AS SELECT hashint8extended(i, 7) AS k FROM generate_series(1, :keys::bigint) i;
VACUUM ANALYZE key;

-- Each in a filter of its own that is empty, and then once more for keys that are known.
CREATE PROCEDURE rows_and_batch(made_for bigint, first_batch boolean) LANGUAGE plpgsql AS $$
DECLARE
	began timestamptz;
	expected bigint := (SELECT count(DISTINCT k) FROM key);
	n bigint;
BEGIN
	PERFORM dedup_create('rows', dedup_filter(made_for, 0.0001));
	PERFORM dedup_create('batch', dedup_filter(made_for, 0.0001));
	COMMIT;
	CHECKPOINT;
	FOR known IN 0..1 LOOP
		FOR turn IN 0..1 LOOP
			began := clock_timestamp();
			IF (turn = 0) = first_batch THEN
				SELECT count(*) INTO n FROM dedup_new_keys('batch', (SELECT array_agg(k) FROM key));
			ELSE
				SELECT count(*) INTO n FROM key WHERE is_new('rows', k);
			END IF;
			COMMIT;
			IF n NOT BETWEEN expected * 0.999 * (1 - known) AND expected * (1 - known) THEN
				RAISE 'found % new keys', n;
			END IF;
			INSERT INTO row_run VALUES (made_for,
				CASE WHEN (turn = 0) = first_batch THEN 'batch' ELSE 'rows' END || CASE known WHEN 1 THEN ', known' ELSE '' END,
				extract(epoch FROM clock_timestamp() - began));
		END LOOP;
	END LOOP;
	DROP TABLE rows, batch;
END
$$;
SELECT format('CALL rows_and_batch(%s, %L)', made_for, round % 2 = 0)
FROM generate_series(1, :rounds) round, unnest(ARRAY[300000, 1000000, 10000000]) made_for \gexec
\echo :keys keys in one transaction: is_new() of each row, and dedup_new_keys() of all
WITH run AS (SELECT made_for, what, min(seconds) AS least, percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds) AS median
	FROM row_run GROUP BY made_for, what)
SELECT made_for AS "filter made for", replace(batch.what, 'batch', 'new') AS keys,
	round(rows.least::numeric, 3) AS "rows, least", round(batch.least::numeric, 3) AS "batch, least",
	round((batch.least / rows.least)::numeric, 2) AS times,
	round(rows.median::numeric, 3) AS "rows, median", round(batch.median::numeric, 3) AS "batch, median",
	round((batch.median / rows.median)::numeric, 2) AS times
FROM run rows JOIN run batch USING (made_for)
WHERE replace(rows.what, 'rows', 'batch') = batch.what AND rows.what <> batch.what ORDER BY 1, 2;
