-- In a database that was restored; test/timescaledb.sh runs this.

SELECT expect('restored: the guard of ' || "table", format('SELECT %L', concat_ws(' ', partitions_unguarded, problem)), '0') FROM dedup_guards;
SELECT expect('restored: as many guards', 'SELECT count(*) FROM dedup_guards', '18'),
	expect('restored: duplicates', 'WITH i AS (INSERT INTO load_exact SELECT k, ''2026-01-01Z'' FROM load_quick RETURNING k) SELECT count(*) FROM i', '0'),
	expect('restored: duplicates, approximate', 'WITH i AS (INSERT INTO load_quick SELECT k, ''2026-01-01Z'' FROM load_exact RETURNING k) SELECT count(*) FROM i', '0'),
	expect('restored: new keys, in a new chunk', 'WITH i AS (INSERT INTO load_exact VALUES (5000, ''2026-01-02Z''), (5000, ''2026-01-03Z'') RETURNING k) SELECT count(*) FROM i', '1');
