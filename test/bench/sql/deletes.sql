-- What deletes.sh needs on each server. Variable: rows.
SET client_min_messages = warning;
CREATE EXTENSION streamdedup;
SELECT dedup_create('seen', dedup_filter(:rows, 0.0001, 42));
CREATE TABLE guarded (k bigint, v int);
SELECT dedup_guard('guarded', 'seen', '{k}');
CREATE TABLE plain (k bigint, v int);

-- Seconds of CPU that this backend has used.
CREATE FUNCTION cpu() RETURNS float8 LANGUAGE sql AS $$
	SELECT (f[12]::float8 + f[13]::float8) / 100
	FROM (SELECT string_to_array(regexp_replace(pg_read_file('/proc/self/stat'), '^.*\) ', ''), ' ') AS f) s
$$;

-- Scattered keys from one number to another.
CREATE FUNCTION keys_of(first bigint, last bigint) RETURNS TABLE (k bigint, v int) LANGUAGE sql
	AS 'SELECT hashint8extended(i, 7), 0 FROM generate_series($1, $2) i';

-- In transactions of 200,000 rows: a single one would take overflow pages.
CREATE PROCEDURE fill(name regclass, rows bigint) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 0 .. (rows - 1) / 200000 LOOP
		EXECUTE format('INSERT INTO %s SELECT * FROM keys_of($1, $2)', name)
			USING i * 200000 + 1, least((i + 1) * 200000, rows);
		COMMIT;
	END LOOP;
END $$;

-- Reports wall time and CPU time in seconds, and the number of rows. The DELETE alone is
-- rolled back, so that the next one meets the same rows.
CREATE TYPE measured AS (wall float8, cpu float8, deleted bigint, inserted bigint);
CREATE PROCEDURE measure(name regclass, rows bigint, again boolean, INOUT result measured) LANGUAGE plpgsql AS $$
DECLARE
	began timestamptz := clock_timestamp();
	cpu_before float8 := cpu();
BEGIN
	EXECUTE format('DELETE FROM %s', name);
	GET DIAGNOSTICS result.deleted = ROW_COUNT;
	IF again THEN
		EXECUTE format('INSERT INTO %s SELECT * FROM keys_of(1, $1)', name) USING rows;
		GET DIAGNOSTICS result.inserted = ROW_COUNT;
		COMMIT;
	ELSE
		ROLLBACK;
	END IF;
	result.wall := extract(epoch FROM clock_timestamp() - began);
	result.cpu := cpu() - cpu_before;
END $$;
