-- Clicks into tables that refuse duplicates in different ways, beside one that does not.
--
-- Variables: present (rows in each table before), rows (inserted at a time), rounds,
-- days (partitions), kinds (of exact, approximate, no_index, exists, none, unique). "no_index" is an
-- approximate guard of a table that has no index on the key.

\pset footer off
SET client_min_messages = warning;
SET max_parallel_workers_per_gather = 0;
SET jit = off;
SET synchronous_commit = off;
SET maintenance_work_mem = '512MB';

CREATE EXTENSION streamdedup;
CREATE EXTENSION pg_prewarm;

-- Seconds of CPU that this backend has used.
CREATE FUNCTION cpu() RETURNS float8 LANGUAGE sql AS $$
	SELECT split_part(pg_read_file('/proc/self/schedstat'), ' ', 1)::float8 / 1e9
$$;

CREATE TABLE setting AS SELECT :present::bigint AS present, :rows::bigint AS rows, :days AS days, :'kinds'::text[] AS kinds;
CREATE TABLE result (what text, kind text, round int, rows bigint, stored bigint, wall float8, cpu float8, wal numeric);

-- The rows: scattered keys. Row i of those that are present belongs to day day_of(i).
CREATE FUNCTION key_of(i bigint) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
	AS 'SELECT hashint8extended(i, 7)';
CREATE FUNCTION start_of(day int) RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE
	AS $$SELECT timestamptz '2020-01-01 00:00+00' + day * interval '24 hours'$$;

-- One kind of table, with its rows and its check.
CREATE PROCEDURE make(kind text, present bigint, days int, rounds int, rows bigint) LANGUAGE plpgsql AS $$
DECLARE
	began timestamptz;
BEGIN
	EXECUTE format('CREATE TABLE %I (click_id bigint NOT NULL, user_id bigint NOT NULL, at timestamptz NOT NULL) %s',
		kind, CASE WHEN kind <> 'unique' THEN 'PARTITION BY RANGE (at)' END);
	FOR day IN 0 .. days - 1 LOOP
		EXIT WHEN kind = 'unique';
		EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%L) TO (%L)',
			kind || day, kind, start_of(day), start_of(day + 1));
	END LOOP;
	EXECUTE format('INSERT INTO %I SELECT key_of(i), i, start_of(((i - 1) * $2 / $1)::int) FROM generate_series(1, $1) i', kind)
		USING present, days;
	COMMIT;
	-- As full as an index that has grown with scattered keys.
	IF kind <> 'no_index' THEN
		EXECUTE format('CREATE %s INDEX ON %I (click_id) WITH (fillfactor = 70)', CASE WHEN kind = 'unique' THEN 'UNIQUE' END, kind);
	END IF;
	began := clock_timestamp();
	IF kind IN ('exact', 'approximate', 'no_index') THEN
		PERFORM dedup_guard(kind::regclass, dedup_create(kind || '_seen', dedup_filter(present + 4 * rounds * rows, 0.0001, 42)),
			'{click_id}', 'skip', exact => kind = 'exact', load => true);
		COMMIT;
		RAISE WARNING '% guard made and % rows loaded in % s', kind, present,
			round(extract(epoch FROM clock_timestamp() - began)::numeric, 2);
	ELSIF kind = 'exists' THEN
		CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $f$
		BEGIN
			IF EXISTS (SELECT FROM public.exists WHERE click_id = NEW.click_id) THEN
				RETURN NULL;
			END IF;
			RETURN NEW;
		END $f$;
		CREATE TRIGGER refuse BEFORE INSERT ON public.exists FOR EACH ROW EXECUTE FUNCTION refuse();
	END IF;
END $$;

-- A batch of rows: i is its number in the round, `first` the first key that nobody has used. All arrive today.
CREATE UNLOGGED TABLE batch (click_id bigint, user_id bigint, at timestamptz);
CREATE PROCEDURE fill(what text, rows bigint, present bigint, days int, first bigint) LANGUAGE plpgsql AS $$
BEGIN
	TRUNCATE batch;
	INSERT INTO batch
	SELECT key_of(CASE
			WHEN what = 'duplicates of today' OR what = 'mixed' AND i % 20 = 0 THEN today
			WHEN what = 'duplicates of any day' OR what = 'mixed' AND i % 20 = 10 THEN any_day
			ELSE first + i END),
		i, start_of(days - 1)
	FROM (SELECT i, 1 + (random * present)::bigint % present AS any_day,
			present - (random * (present / days - 1))::bigint AS today
		FROM (SELECT i, (hashint8extended(first + i, 8) & 1073741823) / 1073741824.0 AS random FROM generate_series(1, rows) i) r) s;
	ANALYZE batch;
END $$;

CREATE PROCEDURE measure(what text, kind text, round int, rows bigint) LANGUAGE plpgsql AS $$
DECLARE
	lsn pg_lsn;
	before float8;
	began timestamptz;
	stored bigint;
	command text := format(CASE kind WHEN 'reading' THEN 'SELECT count(click_id + user_id) FROM (SELECT * FROM batch LIMIT %2$s) b'
		WHEN 'unique' THEN 'INSERT INTO %I SELECT * FROM batch LIMIT %s ON CONFLICT DO NOTHING'
		ELSE 'INSERT INTO %I SELECT * FROM batch LIMIT %s' END, kind, rows);
BEGIN
	lsn := pg_current_wal_insert_lsn();
	before := cpu();
	began := clock_timestamp();
	EXECUTE command;
	GET DIAGNOSTICS stored = ROW_COUNT;
	COMMIT;
	INSERT INTO result VALUES (what, kind, round, rows, CASE WHEN kind = 'reading' THEN NULL ELSE stored END,
		extract(epoch FROM clock_timestamp() - began), cpu() - before, pg_current_wal_insert_lsn() - lsn);
END $$;

SELECT format('CALL make(%L, %s, %s, %s, %s)', kind, present, days, :rounds, rows)
FROM setting, unnest(kinds) kind \gexec
VACUUM (FREEZE, ANALYZE);
CHECKPOINT;

-- What a server that has run for a while holds in memory, as far as it fits: indexes, filters, and today.
SELECT count(pg_prewarm(c.oid::regclass)) AS warmed FROM pg_class c, setting
WHERE relnamespace = 'public'::regnamespace AND relpersistence = 'p' AND pg_relation_filenode(c.oid) IS NOT NULL
	AND (relkind = 'i' AND relam <> (SELECT oid FROM pg_am WHERE amname = 'streamdedup_guard')
		OR relname LIKE '%\_seen' OR relname ~ ('^[a-z_]+' || days - 1 || '$')) \gset

-- Each kind is measured with the same rows, in an order that turns with the round. A trigger
-- that asks EXISTS gets fewer of them, since it is slow. A round begins with a checkpoint: so
-- "mixed" logs each page that it changes as a whole, and what follows does not.
SELECT command
FROM setting, generate_series(1, :rounds) round,
	LATERAL (VALUES (1, 'mixed', rows), (2, 'new rows', rows), (3, 'duplicates of today', rows / 5),
		(4, 'duplicates of any day', rows / 5)) measures (m, what, n),
	LATERAL (
		SELECT 0 AS at, format('CALL fill(%L, %s, %s, %s, %s)', what, n, present, days, present + (4 * round + m) * rows) AS command
		UNION ALL
		SELECT 1, 'CHECKPOINT' WHERE m = 1
		UNION ALL
		SELECT 2 + (o + round) % (cardinality(kinds) + 1), format('CALL measure(%L, %L, %s, %s)', what, kind, round,
			CASE WHEN kind <> 'exists' THEN n WHEN days <= 30 THEN n / 10 WHEN days <= 300 THEN n / 100 ELSE n / 1000 END)
		FROM unnest(kinds || '{reading}'::text[]) WITH ORDINALITY k (kind, o)) commands
ORDER BY round, m, at \gexec

SELECT pg_size_pretty(sum(pg_total_relation_size(c.oid)) FILTER (WHERE relkind IN ('r', 'm') AND relname LIKE 'none%')) AS "a table with its indexes",
	pg_size_pretty(sum(pg_relation_size(c.oid)) FILTER (WHERE relname = 'exact_seen')) AS filter
FROM pg_class c WHERE relnamespace = 'public'::regnamespace;

-- By microseconds a row. Expected: the rows that are new.
CREATE TABLE figure AS
SELECT what, kind, min(cpu / rows) * 1e6 AS cpu, percentile_cont(0.5) WITHIN GROUP (ORDER BY cpu / rows) * 1e6 AS median_cpu,
	min(wall / rows) * 1e6 AS wall, percentile_cont(0.5) WITHIN GROUP (ORDER BY wall / rows) * 1e6 AS median_wall,
	min(wal / rows) AS wal, sum(rows) AS rows, sum(stored) AS stored
FROM result GROUP BY what, kind;
SELECT what, kind, round(cpu::numeric, 2) AS "min cpu us", round(median_cpu::numeric, 2) AS "median cpu us",
	round(wall::numeric, 2) AS "min us", round(median_wall::numeric, 2) AS "median us", round(wal) AS "WAL bytes", rows::bigint, stored::bigint,
	CASE what WHEN 'new rows' THEN rows::bigint WHEN 'mixed' THEN (rows * 9 / 10)::bigint ELSE 0 END AS "new"
FROM figure ORDER BY what, cpu;

-- What one would write instead is a trigger that asks EXISTS.
SELECT what, a.kind, round((e.cpu / nullif(a.cpu, 0))::numeric, 1) AS "times as fast as EXISTS, best",
	round((e.median_cpu / nullif(a.median_cpu, 0))::numeric, 1) AS "median"
FROM figure a JOIN figure e USING (what) WHERE a.kind IN ('exact', 'approximate', 'no_index') AND e.kind = 'exists'
ORDER BY a.kind, what;

-- The aims are those of the exact guard. A check is what it takes more than no check, and of a
-- duplicate, which is not stored, more than reading the row.
SELECT title AS "exact guard", round((a.cpu / nullif(b.cpu, 0))::numeric, 2) AS "min cpu", round((a.median_cpu / nullif(b.median_cpu, 0))::numeric, 2) AS "median cpu",
	round((a.wall / b.wall)::numeric, 2) AS "min wall", round((a.median_wall / b.median_wall)::numeric, 2) AS "median wall", aim
FROM (VALUES
	(1, 'mixed: EXISTS takes times as long', 'mixed', 'exists', 'exact', 'at least 10'),
	(2, 'new rows: times the approximate guard', 'new rows', 'exact', 'approximate', 'at most 1.15'),
	(3, 'new rows: times no check', 'new rows', 'exact', 'none', 'at most 1.7'),
	(4, 'mixed: times the unique index', 'mixed', 'exact', 'unique', 'at most 1'),
	(5, 'new rows: times the unique index', 'new rows', 'exact', 'unique', ''),
	(6, 'new rows: EXISTS takes times as long', 'new rows', 'exists', 'exact', ''),
	(7, 'duplicates of today: EXISTS takes times as long', 'duplicates of today', 'exists', 'exact', ''),
	(8, 'duplicates of any day: EXISTS takes times as long', 'duplicates of any day', 'exists', 'exact', '')
) r (n, title, what, kind, other, aim)
JOIN figure a USING (what, kind) JOIN figure b ON b.what = r.what AND b.kind = r.other
ORDER BY n;

SELECT 'a duplicate of ' || day AS "the check of", round(check_of::numeric, 2) AS "cpu us", round((check_of / nullif(of_new, 0))::numeric, 2) AS "times that of a new row",
	CASE day WHEN 'today' THEN 'at most 3' END AS aim
FROM (SELECT day, e.median_cpu - r.median_cpu AS check_of FROM (VALUES ('today'), ('any day')) d (day)
		JOIN figure e ON e.kind = 'exact' AND e.what = 'duplicates of ' || day
		JOIN figure r ON r.kind = 'reading' AND r.what = e.what) d,
	(SELECT e.median_cpu - n.median_cpu AS of_new FROM figure e, figure n
		WHERE e.kind = 'exact' AND n.kind = 'none' AND e.what = 'new rows' AND n.what = 'new rows') n
UNION ALL
SELECT 'a new row', round((e.median_cpu - n.median_cpu)::numeric, 2), 1, NULL FROM figure e, figure n
WHERE e.kind = 'exact' AND n.kind = 'none' AND e.what = 'new rows' AND n.what = 'new rows'
ORDER BY 1;
SELECT skipped, checked_found, checked_not_found, overflow_pages, round(fpr_now::numeric, 7) AS fpr_now, pg_size_pretty(bytes) AS bytes
FROM dedup_stats('exact_seen');
