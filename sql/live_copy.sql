-- Pages of a live filter that COPY moves. A filter where they mean the same keys loads them. Any other filter raises
-- an error that names the difference.
\set QUIET on
\set SHOW_CONTEXT never
SELECT dedup_create('a', dedup_filter(20000, 0.0001, 1)) \gset
SELECT dedup_create('timed', dedup_window(2000, 0.0001, 1), ttl => '7 days') \gset
SELECT dedup_create('counted', dedup_window(20000, 0.0001, 1)) \gset
SELECT count(is_new('a', i)), count(is_new('timed', i)), count(is_new('counted', i)) FROM generate_series(1, 3000) i \gset
-- one page with lines, too
SELECT dedup_create('folded', dedup_window(1000, 0.0001, 1)) \gset
SELECT count(is_new('folded', i)) FROM generate_series(1, 600) i \gset
SELECT count(is_new('folded', i)) FROM generate_series(601, 1200) i \gset
\set QUIET off

-- the same parameters
SELECT dedup_create('b', dedup_filter(20000, 0.0001, 1));
COPY a TO PROGRAM 'cat > live_copy.txt';
COPY b FROM PROGRAM 'cat live_copy.txt';
SELECT count(*) FILTER (WHERE dedup_seen('b', i)) AS found, count(*) FILTER (WHERE dedup_seen('b', -i)) AS others FROM generate_series(1, 3000) i;
SELECT count(*) FROM dedup_check('b');
TRUNCATE b;

-- the same in binary
COPY a TO PROGRAM 'cat > live_copy.bin' (FORMAT binary);
COPY b FROM PROGRAM 'cat live_copy.bin' (FORMAT binary);
SELECT count(*) FILTER (WHERE dedup_seen('b', i)) AS found, count(*) FILTER (WHERE dedup_seen('b', -i)) AS others FROM generate_series(1, 3000) i;
DROP TABLE b;

-- windows, and lines
SELECT dedup_create('b', dedup_window(2000, 0.0001, 1), ttl => '168 hours');
COPY timed TO PROGRAM 'cat > live_copy_timed.txt';
COPY b FROM PROGRAM 'cat live_copy_timed.txt';
SELECT count(*) FILTER (WHERE dedup_seen('b', i)) AS found FROM generate_series(1, 3000) i;
DROP TABLE b;
SELECT dedup_create('b', dedup_window(1000, 0.0001, 1));
COPY folded TO PROGRAM 'cat > live_copy_folded.txt';
COPY b FROM PROGRAM 'cat live_copy_folded.txt';
SELECT count(*) FILTER (WHERE dedup_seen('b', i)) AS found FROM generate_series(1, 1200) i;
SELECT count(*) FROM dedup_check('b');
DROP TABLE b;

-- others: a random seed, another seed, hash, rate, number of pages, a window, a ttl
CREATE FUNCTION refused(prototype dedup_filter, ttl interval, source text) RETURNS TABLE (detail text, keys bigint) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM dedup_create('b', prototype, ttl);
	BEGIN
		EXECUTE format('COPY b FROM PROGRAM %L', 'cat ' || source);
		detail := 'loaded';
	EXCEPTION WHEN invalid_parameter_value THEN
		GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
		detail := SQLERRM || E'\n' || detail;
	END;
	keys := (SELECT count FROM dedup_stats('b'));
	DROP TABLE b;
	RETURN NEXT;
END $$;
\pset format unaligned
\pset tuples_only on
SELECT * FROM refused(dedup_filter(20000, 0.0001, 2), NULL, 'live_copy.txt');
SELECT * FROM refused(dedup_method('blocked_bloom', NULL, 'keys=20000 fpr=0.0001 hash=sip', 1), NULL, 'live_copy.txt');
SELECT * FROM refused(dedup_filter(20000, 0.01, 1), NULL, 'live_copy.txt');
SELECT * FROM refused(dedup_filter(20000, 1e-8, 1), NULL, 'live_copy.txt');
SELECT * FROM refused(dedup_filter(40000, 0.0001, 1), NULL, 'live_copy.txt');
SELECT * FROM refused(dedup_window(20000, 0.0001, 1), NULL, 'live_copy.txt');
SELECT * FROM refused(dedup_filter(20000, 0.0001, 1), '7 days', 'live_copy.txt');
SELECT * FROM refused(dedup_window(2000, 0.0001, 1), '7 days 00:00:00.000001', 'live_copy_timed.txt');
SELECT * FROM refused(dedup_window(2000, 0.0001, 1), '8 days', 'live_copy_timed.txt');
SELECT * FROM refused(dedup_window(2000, 0.0001, 1), NULL, 'live_copy_timed.txt');
SELECT * FROM refused(dedup_window(2000, 0.0001, 2), '7 days', 'live_copy_timed.txt');
SELECT (refused(dedup_filter(20000, 0.0001), NULL, 'live_copy.txt')).keys;
\pset format aligned
\pset tuples_only off

-- the whole message; in binary the same
SELECT dedup_create('b', dedup_filter(20000, 0.0001, 2));
COPY b FROM PROGRAM 'cat live_copy.txt';
COPY b FROM PROGRAM 'cat live_copy.bin' (FORMAT binary);
SELECT count(*) FILTER (WHERE dedup_seen('b', i)) AS found, count FROM generate_series(1, 3000) i, dedup_stats('b') GROUP BY count;
DROP TABLE b;

-- values: of the same parameters, and of others
SELECT dedup_create('b', dedup_filter(20000, 0.0001, 1));
SELECT dedup_load('b', dedup_snapshot('a'));
SELECT count(*) FILTER (WHERE dedup_seen('b', i)) AS found FROM generate_series(1, 3000) i;
DROP TABLE b;
CREATE FUNCTION not_loaded(prototype dedup_filter, ttl interval, source text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	detail text;
BEGIN
	PERFORM dedup_create('b', prototype, ttl);
	BEGIN
		PERFORM dedup_load('b', dedup_snapshot(source));
		detail := 'loaded';
	EXCEPTION WHEN invalid_parameter_value THEN
		GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
	END;
	detail := detail || E'\n' || (SELECT count FROM dedup_stats('b')) || ' keys';
	DROP TABLE b;
	RETURN detail;
END $$;
\pset format unaligned
\pset tuples_only on
SELECT not_loaded(dedup_filter(20000, 0.0001, 2), NULL, 'a');
SELECT not_loaded(dedup_method('blocked_bloom', NULL, 'keys=20000 fpr=0.0001 hash=sip', 1), NULL, 'a');
SELECT not_loaded(dedup_filter(20000, 0.01, 1), NULL, 'a');
SELECT not_loaded(dedup_filter(40000, 0.0001, 1), NULL, 'a');
SELECT not_loaded(dedup_window(20000, 0.0001, 1), '7 days', 'a');
SELECT not_loaded(dedup_window(2000, 0.0001, 1), '8 days', 'timed');
SELECT not_loaded(dedup_window(2000, 0.0001, 1), NULL, 'timed');
\pset format aligned
\pset tuples_only off

\set QUIET on
DROP TABLE a, timed, counted, folded;
DROP FUNCTION refused, not_loaded;
