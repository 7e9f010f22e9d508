-- Streaming queries over distributed tables: dedup_is_new as a window function, dedup_new_keys and
-- dedup_rows, and functions of values.

SELECT same(what, statement) FROM (VALUES
	('a window by the distribution column', 'SELECT click_id, dedup_is_new(user_id) OVER (PARTITION BY page ORDER BY click_id) FROM clicks'),
	('counted by page', 'SELECT page, count(*) FILTER (WHERE new), count(*) FROM (SELECT page, dedup_is_new(dedup_filter(60000, 1e-9), user_id) OVER (PARTITION BY page ORDER BY click_id) AS new FROM clicks) x GROUP BY page'),
	('a window of all rows', 'SELECT click_id, dedup_is_new(dedup_filter(60000, 1e-9), user_id) OVER (ORDER BY click_id) FROM clicks'),
	('a window by another column', 'SELECT click_id, dedup_is_new(dedup_filter(60000, 1e-9), country, agent) OVER (PARTITION BY tenant ORDER BY at, click_id) FROM clicks'),
	('new rows', 'SELECT count(*) FROM (SELECT dedup_is_new(dedup_filter(60000, 1e-9), user_id) OVER () AS new FROM clicks) x WHERE new'),
	('a window over a join', 'SELECT click_id, v.user_id, dedup_is_new(v.user_id) OVER (PARTITION BY page ORDER BY click_id, v.user_id) FROM clicks c JOIN visits v USING (page) WHERE page < 40 AND tenant < 2'),
	('dedup_new_keys', 'SELECT * FROM dedup_new_keys(dedup_filter(60000, 1e-9), (SELECT array_agg(user_id) FROM clicks))'),
	('dedup_new_keys of each page', 'SELECT count(k) FROM (SELECT page, dedup_new_keys(dedup_filter(600), array_agg(user_id)) AS k FROM clicks GROUP BY page) x'),
	('dedup_rows', 'SELECT user_id FROM dedup_rows(dedup_filter(60000, 1e-9), ''SELECT page, user_id FROM clicks'', ''user_id'') AS t(page int, user_id bigint)'),
	('dedup_rows of two columns', 'SELECT page, user_id FROM dedup_rows(dedup_filter(60000, 1e-9), ''SELECT page, user_id FROM clicks'', ''page'', ''user_id'') AS t(page int, user_id bigint)'),
	('dedup_rows beside a reference table', 'SELECT title, user_id FROM dedup_rows(dedup_filter(60000, 1e-9), ''SELECT page, user_id FROM clicks'', ''page'', ''user_id'') AS t(page int, user_id bigint) JOIN pages USING (page)'),
	('dedup_rows beside a distributed table', 'SELECT t.page, count(*) FROM dedup_rows(dedup_filter(60000, 1e-9), ''SELECT page, user_id FROM clicks'', ''page'', ''user_id'') AS t(page int, user_id bigint) JOIN visits USING (page) GROUP BY 1'),
	('is_new of a constant filter', 'SELECT count(*) FROM clicks WHERE is_new(dedup_add(dedup_filter(100), 31), user_id)'),
	('dedup_contains by page', 'SELECT page, count(*) FROM clicks WHERE dedup_contains(dedup_add(dedup_add(dedup_filter(100), 31), 124), user_id) GROUP BY page'),
	('dedup_count by page', 'SELECT page, dedup_count(dedup_merge_agg(dedup_add(dedup_filter(600), user_id))) FROM clicks GROUP BY page')
	) v(what, statement);
SELECT plan_has('a window by the distribution column runs on the workers', 'SELECT dedup_is_new(user_id) OVER (PARTITION BY page ORDER BY click_id) FROM clicks', 'Task Count: 16.*Query: SELECT public.dedup_is_new'),
	plan_has('a window of all rows runs here', 'SELECT dedup_is_new(dedup_filter(60000, 1e-9), user_id) OVER (ORDER BY click_id) FROM clicks', '^WindowAgg.*dedup_is_new.*Custom Scan .Citus Adaptive'),
	plan_has('a constant filter is sent with the query', 'SELECT count(*) FROM clicks WHERE is_new(dedup_add(dedup_filter(100), 31), user_id)', 'Query: SELECT count\(\*\) AS count FROM public.clicks_.* WHERE public.is_new');
