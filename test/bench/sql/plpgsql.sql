-- A filter of 1 MB in a PL/pgSQL variable: keys added one by one (up to
-- PostgreSQL 17 a variable is copied for every one), the same keys at once, and
-- one by one into a table with a unique index.

CREATE TABLE bench_filter AS
	SELECT dedup_agg(dedup_filter(845000, 0.01), i) AS f FROM generate_series(1, 500000) i;

CREATE FUNCTION bench_one_by_one(adds int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	f dedup_filter := (SELECT b.f FROM bench_filter b);
BEGIN
	FOR i IN 1..adds LOOP
		f := dedup_add(f, -i);
	END LOOP;
	RETURN dedup_count(f);
END
$$;

CREATE FUNCTION bench_at_once(adds int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	f dedup_filter := (SELECT b.f FROM bench_filter b);
BEGIN
	f := dedup_add_all(f, ARRAY(SELECT -i FROM generate_series(1, adds) i));
	RETURN dedup_count(f);
END
$$;

CREATE TEMP TABLE bench_unique (k int PRIMARY KEY);
CREATE FUNCTION bench_insert(adds int) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	TRUNCATE bench_unique;
	FOR i IN 1..adds LOOP
		INSERT INTO bench_unique VALUES (-i) ON CONFLICT DO NOTHING;
	END LOOP;
	RETURN (SELECT count(*) FROM bench_unique);
END
$$;

INSERT INTO bench_query (name, what, query)
	SELECT 'plpgsql', what, format(query, :adds) FROM (VALUES
		(1, 'f := dedup_add(f, key) for each key', 'SELECT bench_one_by_one(%s)'),
		(2, 'f := dedup_add_all(f, keys)', 'SELECT bench_at_once(%s)'),
		(3, 'INSERT ... ON CONFLICT DO NOTHING for each', 'SELECT bench_insert(%s)')
	) queries (n, what, query) ORDER BY n;
CALL bench('plpgsql', :rounds);

\echo :adds 'keys into a filter of 1 MB'
SELECT what, "min s", "median s", "times the first", answer FROM bench_report WHERE name = 'plpgsql' ORDER BY n;
SELECT pg_column_size(f) AS "bytes of the filter" FROM bench_filter;
