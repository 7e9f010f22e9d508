-- dedup_new_keys() of 100 bigint keys at a time, each a transaction of its own.
\pset footer off
SET client_min_messages = warning;
SET synchronous_commit = off;
CREATE EXTENSION streamdedup;
SELECT dedup_create('seen', dedup_window(19500000, 0.01, 42));
CREATE TABLE batch_run (what text, keys bigint, seconds float8);
CREATE PROCEDURE batches(what text, from_key bigint, n int) LANGUAGE plpgsql AS $$
DECLARE
	began timestamptz;
	arrays bigint[][];
	keys bigint[];
	found bigint := 0;
	spent float8 := 0;
BEGIN
	FOR i IN 0..n - 1 LOOP
		keys := ARRAY(SELECT hashint8extended(from_key + i * 100 + j, 7) FROM generate_series(1, 100) j);
		began := clock_timestamp();
		PERFORM dedup_new_keys('seen', keys);
		COMMIT;
		spent := spent + extract(epoch FROM clock_timestamp() - began);
	END LOOP;
	INSERT INTO batch_run VALUES (what, n * 100, spent);
END
$$;
SELECT format('CALL batches(%L, %s, 5000)', what, 0)
FROM (VALUES (1, 'first touch of the pages'), (3, 'known keys'), (5, 'known keys')) v (n, what) ORDER BY n \gexec
SELECT format('CALL batches(%L, %s, 5000)', 'new keys', i * 1000000) FROM generate_series(1, :rounds) i \gexec
\echo dedup_new_keys of 100 bigint keys, a transaction each, 63 MB filter
SELECT what, round(min(seconds / keys * 1e6)::numeric, 2) AS "min us a key", round((max(keys / seconds) / 1000)::numeric) AS "thousand keys/s"
FROM batch_run GROUP BY what;
