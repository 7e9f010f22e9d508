-- A stream of records from psql's standard input.
--
-- psql variables: name (of the file); columns (with their types); tabbed
-- (whether it has columns and COPY's escapes, or every line is one value); key,
-- who (lists of columns); time (an expression, or empty).

\ir common.sql

SELECT clock_timestamp() AS began, :'time' <> '' AS has_time \gset

CREATE UNLOGGED TABLE record (:columns);
\if :tabbed
	\copy record FROM PSTDIN
\else
	\copy record FROM PSTDIN WITH (FORMAT csv, DELIMITER E'\x01', QUOTE E'\x02')
\endif
SELECT count(*) AS records FROM record \gset
DO $$
BEGIN
	IF (SELECT count(*) < 100 FROM record) THEN
		RAISE EXCEPTION 'too few records to show anything: %', (SELECT count(*) FROM record);
	END IF;
END
$$;

-- The days of the file; if it has no time, or all of it is one day, its tenths.
\set slice 'tenth of the file'
\if :has_time
	SELECT CASE WHEN max(:time)::date > min(:time)::date THEN 'day' ELSE :'slice' END AS slice,
		max(:time)::date > min(:time)::date AS has_time, min(:time)::date AS first_day
		FROM record \gset
\endif

-- Rows are numbered as they lie, which is as they came.
SET max_parallel_workers_per_gather = 0;
SET synchronize_seqscans = off;
\if :has_time
	CREATE UNLOGGED TABLE clicks AS
		SELECT row_number() OVER () AS id, (:time)::date - date :'first_day' + 1 AS day, record.* FROM record;
\else
	CREATE UNLOGGED TABLE clicks AS
		SELECT ((id - 1) * 10 / :records)::int + 1 AS day, numbered.*
		FROM (SELECT row_number() OVER () AS id, record.* FROM record) numbered;
\endif
RESET max_parallel_workers_per_gather;
DROP TABLE record;
ALTER TABLE clicks ADD PRIMARY KEY (id);

SELECT format('%s: %s rows; loaded in %s s', :'name', demo_number(:records),
	round(extract(epoch FROM clock_timestamp() - :'began')::numeric, 1));

\ir dedup.sql
\ir live.sql
\ir distinct.sql
\ir finish.sql
