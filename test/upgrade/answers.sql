-- What the objects of fill.sql answer. Changes nothing. A version whose answer changes on purpose
-- (a new column of a view, say) changes the query, not its output.
SELECT method, keys, dedup_count(filter) > 0 OR keys = 0, md5(filter::text), md5(dedup_filter_send(filter)) FROM value ORDER BY 1, 2;
SELECT * FROM seen_by ORDER BY 1, 2;
SELECT dedup_count(filter) FROM merged;
SELECT name, (SELECT count(*) FROM generate_series(1, 3000) k WHERE dedup_seen(name::regclass, k)), s.kind, s.keys, s.fpr, s.seed,
	s.ttl, s.renew, s.logged, s.new, s.duplicate
FROM live, dedup_stats(name) s ORDER BY 1;
SELECT name, c.* FROM live, dedup_check(name::regclass) c;
SELECT "table", filter, columns, on_duplicate, exact, "where", nulls_not_distinct, at, on_delete, side_table, refused, problem
FROM dedup_guards ORDER BY 1;
SELECT 'skips', * FROM skips ORDER BY 3;
SELECT 'rejects', * FROM rejects;
SELECT 'marks', * FROM marks ORDER BY 3;
SELECT 'diverts', * FROM diverts;
SELECT 'forgets', * FROM forgets;
SELECT 'expressions', * FROM expressions ORDER BY 2;
SELECT 'exacts', count(*), sum(k) FROM exacts;
SELECT 'parent', tableoid::regclass, k FROM parent ORDER BY 3;
