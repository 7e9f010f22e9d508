-- COPY of a file with a tenth of duplicates: into a guarded table, and the usual way,
-- into a staging table and from there with ON CONFLICT DO NOTHING.
\pset footer off
SET client_min_messages = warning;
SET synchronous_commit = off;
CREATE EXTENSION streamdedup;

COPY (SELECT hashint8extended(CASE WHEN i > :rows * 0.9 THEN (i - :rows * 0.9)::bigint ELSE i END, 7), 0
	FROM generate_series(1, :rows::bigint) i) TO PROGRAM 'cat > rows.txt';

CREATE TABLE copy_run (what text, round int, wall float8, stored bigint);
CREATE PROCEDURE copy_round(round int) LANGUAGE plpgsql AS $$
DECLARE
	began timestamptz;
	n bigint;
BEGIN
	FOR i IN 1..2 LOOP
		DROP TABLE IF EXISTS guarded, indexed, staging;
		DROP TABLE IF EXISTS seen;
		CREATE TABLE guarded (k bigint, v int);
		PERFORM dedup_create('seen', dedup_window(19500000, 0.01, 42));
		PERFORM dedup_guard('guarded', 'seen', '{k, v}');
		CREATE TABLE indexed (k bigint, v int, UNIQUE (k, v));
		CREATE TABLE staging (k bigint, v int);
		COMMIT;
		began := clock_timestamp();
		IF i = 1 THEN
			EXECUTE 'COPY guarded FROM PROGRAM ''cat rows.txt''';
			GET DIAGNOSTICS n = ROW_COUNT;
		ELSE
			EXECUTE 'COPY staging FROM PROGRAM ''cat rows.txt''';
			INSERT INTO indexed SELECT * FROM staging ON CONFLICT DO NOTHING;
			GET DIAGNOSTICS n = ROW_COUNT;
		END IF;
		COMMIT;
		INSERT INTO copy_run VALUES (CASE i WHEN 1 THEN 'COPY into a guarded table' ELSE 'COPY into staging, INSERT ... ON CONFLICT' END,
			round, extract(epoch FROM clock_timestamp() - began), n);
	END LOOP;
END
$$;
SELECT format('CALL copy_round(%s)', i) FROM generate_series(1, :rounds) i \gexec
\echo COPY of :rows rows, a tenth of them duplicates, from empty
SELECT what, round(min(wall)::numeric, 2) AS "min s", round(percentile_cont(0.5) WITHIN GROUP (ORDER BY wall)::numeric, 2) AS "median s",
	round((:rows / min(wall) / 1000)::numeric) AS "thousand rows/s", max(stored) AS stored
FROM copy_run GROUP BY what ORDER BY 2;
