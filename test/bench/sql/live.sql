-- Inserting rows of which a tenth are duplicates: a guarded table beside a unique index
-- with ON CONFLICT DO NOTHING, and beside a trigger that does nothing. The guarded rows are read
-- ahead, and in another table as they come.
--
-- Variables: rows (inserted at a time), present (keys there before), rounds.

\pset footer off
SET client_min_messages = warning;
SET max_parallel_workers_per_gather = 0;
SET jit = off;
SET synchronous_commit = off;

CREATE EXTENSION IF NOT EXISTS streamdedup;

-- Seconds of CPU that this backend has used.
CREATE FUNCTION cpu() RETURNS float8 LANGUAGE sql AS $$
	SELECT (f[12]::float8 + f[13]::float8) / 100
	FROM (SELECT string_to_array(regexp_replace(pg_read_file('/proc/self/stat'), '^.*\) ', ''), ' ') AS f) s
$$;

CREATE TABLE live_run (present bigint, what text, round int, wall float8, cpu float8, wal numeric, rows bigint);

-- Keys are scattered; the last tenth of a batch repeats its first.
CREATE FUNCTION key_of(i bigint) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
	AS 'SELECT hashint8extended(i, 7)';

CREATE TABLE source (n bigint, k bigint, v int);
CREATE FUNCTION noop() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN NEW; END$$;

CREATE PROCEDURE live_round(present bigint, rows bigint, what text, round int, command text) LANGUAGE plpgsql AS $$
DECLARE
	began timestamptz;
	lsn pg_lsn;
	before float8;
	n bigint;
BEGIN
	before := cpu();
	lsn := pg_current_wal_insert_lsn();
	began := clock_timestamp();
	EXECUTE command;
	GET DIAGNOSTICS n = ROW_COUNT;
	COMMIT;
	INSERT INTO live_run VALUES (present, what, round, extract(epoch FROM clock_timestamp() - began),
		cpu() - before, pg_current_wal_insert_lsn() - lsn, n);
END
$$;

-- The filter takes some 64 MB, and is made for a little less than 20 million keys, so
-- that the oldest of those that are present are forgotten.
SELECT dedup_create('seen', dedup_window(19500000, 0.01, 42));
CREATE TABLE guarded (k bigint, v int);
SELECT dedup_guard('guarded', 'seen', '{k, v}');
SELECT dedup_create('seen_as_they_come', dedup_window(19500000, 0.01, 42));
CREATE TABLE as_they_come (k bigint, v int);
SELECT dedup_guard('as_they_come', 'seen_as_they_come', '{k, v}');
CREATE TABLE indexed (k bigint, v int);
CREATE TABLE plain (k bigint, v int);
CREATE TABLE with_noop (k bigint, v int);
CREATE TRIGGER noop BEFORE INSERT ON with_noop FOR EACH ROW EXECUTE FUNCTION noop();

-- An index that has grown with its table, as one does, not one built in one go.
CREATE UNIQUE INDEX indexed_k ON indexed (k, v);
INSERT INTO indexed SELECT k, k & 1023 FROM (SELECT key_of(-i) AS k FROM generate_series(1, :present::bigint) i) s;
-- In transactions of 200,000 rows: one of all would take overflow pages.
CREATE PROCEDURE fill_guarded() LANGUAGE plpgsql AS $$
DECLARE batch int8range;
BEGIN
	FOR i IN 0..(SELECT max(relpages) / 1000 FROM pg_class WHERE relname = 'indexed') LOOP
		INSERT INTO guarded SELECT k, v FROM indexed
		WHERE ctid >= ('(' || i * 1000 || ',0)')::tid AND ctid < ('(' || (i + 1) * 1000 || ',0)')::tid;
		COMMIT;
		INSERT INTO as_they_come SELECT k, v FROM indexed
		WHERE ctid >= ('(' || i * 1000 || ',0)')::tid AND ctid < ('(' || (i + 1) * 1000 || ',0)')::tid;
		COMMIT;
	END LOOP;
END
$$;
VACUUM ANALYZE indexed;
CALL fill_guarded();
VACUUM ANALYZE indexed, guarded, as_they_come;
VACUUM seen, seen_as_they_come;

SELECT pg_size_pretty(pg_relation_size('seen')) AS filter, pg_size_pretty(pg_relation_size('indexed_k')) AS index;

SELECT format(command, round, :'rows', :'present')
FROM generate_series(1, :rounds) round, (VALUES
	(1, 'TRUNCATE source'),
	(2, 'INSERT INTO source SELECT i, key_of(%1$s * 1000000000::bigint + (CASE WHEN i > %2$s * 0.9 THEN i - %2$s * 0.9 ELSE i END)::bigint), 0 FROM generate_series(1, %2$s::bigint) i'),
	(3, 'UPDATE source SET v = k & 1023'),
	(3, 'VACUUM FULL source'),
	(4, 'CHECKPOINT'),
	(5, $$CALL live_round(%3$s, %2$s, 'no check', %1$s, 'INSERT INTO plain SELECT k, v FROM source')$$),
	(6, $$CALL live_round(%3$s, %2$s, 'trigger that does nothing', %1$s, 'INSERT INTO with_noop SELECT k, v FROM source')$$),
	(7, $$CALL live_round(%3$s, %2$s, 'guarded by a live filter', %1$s, 'INSERT INTO guarded SELECT k, v FROM source')$$),
	(8, 'SET streamdedup.guard_read_ahead = off'),
	(9, $$CALL live_round(%3$s, %2$s, 'guarded, not read ahead', %1$s, 'INSERT INTO as_they_come SELECT k, v FROM source')$$),
	(10, 'RESET streamdedup.guard_read_ahead'),
	(11, $$CALL live_round(%3$s, %2$s, 'unique index, ON CONFLICT DO NOTHING', %1$s, 'INSERT INTO indexed SELECT k, v FROM source ON CONFLICT DO NOTHING')$$),
	(12, $$CALL live_round(%3$s, %2$s, 'guarded, the same rows again', %1$s, 'INSERT INTO guarded SELECT k, v FROM source')$$),
	(13, $$CALL live_round(%3$s, %2$s, 'unique index, the same rows again', %1$s, 'INSERT INTO indexed SELECT k, v FROM source ON CONFLICT DO NOTHING')$$)
) commands (n, command)
ORDER BY round, n \gexec

\echo :rows 'rows, a tenth of them duplicates;' :present 'keys present'
SELECT what, round(min(cpu)::numeric, 2) AS "min cpu s", round(percentile_cont(0.5) WITHIN GROUP (ORDER BY cpu)::numeric, 2) AS "median cpu s",
	round(min(wall)::numeric, 2) AS "min s", round(percentile_cont(0.5) WITHIN GROUP (ORDER BY wall)::numeric, 2) AS "median s",
	round((:rows / min(wall) / 1000)::numeric) AS "thousand rows/s", round(min(wal) / 1e6, 1) AS "min WAL MB", round(max(wal) / 1e6, 1) AS "max WAL MB",
	max(rows) AS stored
FROM live_run GROUP BY what ORDER BY min(cpu);
\echo times as long as the guarded table takes
SELECT o.what, round((min(o.cpu) / min(g.cpu))::numeric, 2) AS "min cpu",
	round((percentile_cont(0.5) WITHIN GROUP (ORDER BY o.cpu) / percentile_cont(0.5) WITHIN GROUP (ORDER BY g.cpu))::numeric, 2) AS "median cpu",
	round((min(o.wall) / min(g.wall))::numeric, 2) AS "min wall",
	round((percentile_cont(0.5) WITHIN GROUP (ORDER BY o.wall) / percentile_cont(0.5) WITHIN GROUP (ORDER BY g.wall))::numeric, 2) AS "median wall"
FROM live_run o JOIN live_run g USING (round)
WHERE g.what = 'guarded by a live filter' AND o.what <> g.what AND o.what NOT LIKE '%same rows%'
GROUP BY o.what ORDER BY 2;
SELECT new, skipped, overflow_pages, pg_size_pretty(bytes) AS bytes FROM dedup_stats('seen');
