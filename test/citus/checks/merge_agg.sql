-- dedup_merge_agg(dedup_add(prototype, key...)): pushed down for every type and several columns.

CREATE TEMP TABLE forms AS SELECT name, format('dedup_merge_agg(dedup_add(dedup_filter(50000), %s))', name) AS merged,
	format('dedup_agg(dedup_filter(50000), %s)', name) AS wanted
FROM unnest('{country,agent,"country, agent","user_id, page","tenant, day, user_id",user_id,id,at,amount,bytes,ROW(tenant\, user_id),ARRAY[tenant\,number],country::name,agent::bpchar}'::text[]) name;

SELECT judge(merged, rows_of(format('SELECT %s::text FROM clicks', merged)), rows_of(format('SELECT %s::text FROM plain.clicks', wanted))),
	judge(merged || ' by page', rows_of(format('SELECT page, md5(%s::bytea) FROM clicks GROUP BY page', merged)), rows_of(format('SELECT page, md5(%s::bytea) FROM plain.clicks GROUP BY page', wanted))),
	judge(merged || ' by tenant', rows_of(format('SELECT tenant, md5(%s::bytea) FROM clicks GROUP BY tenant', merged)), rows_of(format('SELECT tenant, md5(%s::bytea) FROM plain.clicks GROUP BY tenant', wanted))),
	plan_has(merged || ' is pushed down', format('SELECT %s FROM clicks', merged), 'worker_partial_agg'),
	plan_has(merged || ' by tenant is pushed down', format('SELECT tenant, %s FROM clicks GROUP BY tenant', merged), 'worker_partial_agg')
FROM forms;
SELECT same(what, statement) FROM (VALUES
	('FILTER', 'SELECT dedup_count(dedup_merge_agg(dedup_add(dedup_filter(50000), country, agent)) FILTER (WHERE tenant = 2)) FROM clicks'),
	('HAVING', 'SELECT tenant FROM clicks GROUP BY tenant HAVING dedup_count(dedup_merge_agg(dedup_add(dedup_filter(50000), country, agent))) > 3000'),
	('a sketch', 'SELECT dedup_count(dedup_merge_agg(dedup_add(dedup_method(''exaloglog'', ''2 kB''), country, agent))) FROM clicks'),
	('a sketch by tenant', 'SELECT tenant, dedup_count(dedup_merge_agg(dedup_add(dedup_method(''exaloglog'', ''2 kB''), country, agent))) FROM clicks GROUP BY tenant'),
	('a window', 'SELECT dedup_count(dedup_merge_agg(dedup_add(dedup_window(50000), user_id))) FROM clicks'),
	('no rows', 'SELECT dedup_merge_agg(dedup_add(dedup_filter(50000), country, agent)) FROM clicks WHERE tenant > 100'),
	('only NULLs', 'SELECT dedup_count(dedup_merge_agg(dedup_add(dedup_filter(50000), user_id))) FROM clicks WHERE user_id IS NULL')
	) v(what, statement);
