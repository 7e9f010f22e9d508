-- The tables are what the other checks take them for, and the comparisons can fail.

SELECT same('the rows of clicks', 'SELECT * FROM clicks');
SELECT same('the rows of visits', 'SELECT * FROM visits');
SELECT same('the rows of orders', 'SELECT * FROM orders');
SELECT same('the rows of pages', 'SELECT * FROM pages');
SELECT expect('the nodes', 'SELECT count(*) FROM citus_get_active_worker_nodes()', '(2)');
SELECT expect('shards on both workers', $$SELECT count(DISTINCT nodename), count(*) >= 32 FROM citus_shards WHERE citus_table_type = 'distributed'$$, '(2,t)');
SELECT expect('a comparison that fails', $$SELECT judge('one', '1', '2')$$, 'P0001 one is: 1 and must be: 2');
SELECT expect('a comparison of different rows', $$SELECT same('sizes', 'SELECT count(*) FROM clicks WHERE tableoid = ''plain.clicks''::regclass')$$, 'P0001 sizes is: (0) and must be: (40000)');
SELECT expect('a plan that lacks something', $$SELECT plan_has('scan', 'SELECT * FROM clicks', 'Hash Join')$$, 'P0001 scan: the plan lacks "Hash Join"%');
