-- After the load; test/timescaledb.sh runs this.

SELECT expect(t || ': each key once', format('SELECT count(*) - count(DISTINCT k) FROM %I', t), '0'),
	expect(t || ': nearly each', format('SELECT count(*) > 2900 FROM %I', t), 'true'),
	expect(t || ': all chunks are guarded', format('SELECT partitions_unguarded FROM dedup_guards WHERE "table" = %L::regclass', t), '0')
FROM unnest('{load_exact,load_quick}'::text[]) t;
SELECT expect('the two agree', 'SELECT count(*) FROM (SELECT k FROM load_exact EXCEPT SELECT k FROM load_quick) x', '0');
