-- Need D5: without binary input and output COPY BINARY fails, and so do drivers and
-- engines that move rows in binary.

\set QUIET on
CREATE TEMP TABLE day AS SELECT d, dedup_agg(dedup_filter(1000), i) AS f
FROM generate_series(1, 3) d, generate_series(1, 400 * d - 399) i GROUP BY d;
CREATE TEMP TABLE back (LIKE day);
\set QUIET off

SELECT typsend <> 0 AS send, typreceive <> 0 AS receive FROM pg_type WHERE typname = 'dedup_filter';

-- out and in again, byte for byte

\copy day TO 'results/need_d5.bin' WITH (FORMAT binary)
\copy back FROM 'results/need_d5.bin' WITH (FORMAT binary)
SELECT count(*) AS filters, bool_and(day.f::text = back.f::text) AS same FROM day
JOIN back USING (d);

-- what is no filter does not come in

CREATE TEMP TABLE bytes AS SELECT '\xdf0101'::bytea AS b;
\copy bytes TO 'results/need_d5.bin' WITH (FORMAT binary)
CREATE TEMP TABLE refused (f dedup_filter);
\set VERBOSITY terse
\copy refused FROM 'results/need_d5.bin' WITH (FORMAT binary)
