-- Many small groups: a filter each, beside an array each.

CREATE UNLOGGED TABLE bench_group AS
	SELECT (hashint8extended(i, 2) & 9223372036854775807) % :groups AS g, i AS k FROM generate_series(1, :groups::bigint * 10) i;
VACUUM ANALYZE bench_group;

INSERT INTO bench_query (name, what, work_mem, query)
	SELECT 'groups ' || work_mem, what, work_mem, query FROM (VALUES ('4MB'), ('1GB')) memory (work_mem), (VALUES
		(1, 'dedup_agg(k)', 'SELECT count(a) FROM (SELECT g, dedup_agg(k) AS a FROM bench_group GROUP BY g) s'),
		(2, 'array_agg(k)', 'SELECT count(a) FROM (SELECT g, array_agg(k) AS a FROM bench_group GROUP BY g) s'),
		(3, 'count(DISTINCT k)', 'SELECT count(a) FROM (SELECT g, count(DISTINCT k) AS a FROM bench_group GROUP BY g) s')
	) queries (n, what, query)
	ORDER BY work_mem, n;
CALL bench('groups 4MB', :rounds);
CALL bench('groups 1GB', :rounds);

\echo :groups 'groups of about ten rows'
SELECT what, work_mem, "min s", "median s", "times the first", answer FROM bench_report WHERE name LIKE 'groups %' ORDER BY name DESC, n;
\echo 'the plan of dedup_agg(k):'
EXPLAIN (COSTS off) SELECT g, dedup_agg(k) AS a FROM bench_group GROUP BY g;
DROP TABLE bench_group;
