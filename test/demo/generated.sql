-- The generated stream: ten days of clicks on advertisements. A few users and
-- advertisements get most of the clicks (Zipf). One row in twenty is a retry: a
-- click of the last five minutes delivered again, under the same click_id.
-- The same every time.
--
-- psql variables: clicks (how many rows).

\ir common.sql

\set key click_id
\set who user_id

SELECT clock_timestamp() AS began \gset

-- u(i, n) is the n-th of many series of numbers drawn evenly from (0, 1).
CREATE FUNCTION pg_temp.u(i bigint, series int) RETURNS float8 LANGUAGE sql IMMUTABLE
	AS $$ SELECT ((hashint8extended(i, series) & 9223372036854775807) + 0.5) / 9223372036854775808 $$;

-- A retry is given the number of a click that came before it; all that
-- describes a click follows from its number.
CREATE UNLOGGED TABLE clicks AS
	SELECT i AS id, (1 + (i - 1) * 10 / :clicks)::int AS day,
		timestamptz '2026-03-02 00:00:00Z' + i * (interval '10 days' / :clicks) AS at,
		md5(click::text)::uuid AS click_id,
		power(200000, pg_temp.u(click, 3))::int AS user_id,
		power(5000, pg_temp.u(click, 4))::int AS ad_id,
		retry
	FROM (
		SELECT i, retry, click - CASE WHEN retry THEN floor(pg_temp.u(i, 2) * least(click, :clicks / 3000))::bigint ELSE 0 END AS click
		FROM (
			SELECT i, retry, count(*) FILTER (WHERE NOT retry) OVER (ORDER BY i ROWS UNBOUNDED PRECEDING) AS click
			FROM (SELECT i, i > 1 AND pg_temp.u(i, 1) < 0.05 AS retry FROM generate_series(1, :clicks::bigint) i) drawn
		) numbered
	) chosen;
ALTER TABLE clicks ADD PRIMARY KEY (id);

SELECT format('%s generated clicks of %s users in 10 days, %s of them retries; loaded in %s s',
		demo_number(count(*)), demo_number(count(DISTINCT user_id)), demo_number(count(*) FILTER (WHERE retry)),
		round(extract(epoch FROM clock_timestamp() - :'began')::numeric, 1))
	FROM clicks;
\set slice day

\ir dedup.sql
\ir live.sql
\ir distinct.sql

-- What the generator knows must be what the exact query found.
INSERT INTO demo_broken
	SELECT format('the generator and the exact query disagree on %s rows', count(*))
	FROM clicks JOIN exact USING (id) WHERE retry <> (previous IS NOT NULL) HAVING count(*) > 0;

\ir finish.sql
