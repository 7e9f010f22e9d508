-- The objects of fill.sql take new keys and refuse old ones. Each statement fails if that is not so.
DO $$
DECLARE
	n bigint;
BEGIN
	UPDATE value SET filter = dedup_add(filter, 1000000) WHERE method NOT IN ('exaloglog', 'count_min');
	ASSERT (SELECT bool_and(dedup_contains(filter, 1000000)) FROM value WHERE method IN ('blocked_bloom', 'bloom', 'infini', 'recent')),
		'a stored filter takes a key';
	INSERT INTO defaults DEFAULT VALUES;
	REFRESH MATERIALIZED VIEW merged;
	ASSERT first_time(-1) AND NOT first_time(-1), 'a function with is_new';
	ASSERT (SELECT bool_and(is_new(name::regclass, -2) AND NOT is_new(name::regclass, -2)) FROM live),
		'live filters take a key once';

	INSERT INTO skips VALUES (1, false), (2, false);
	GET DIAGNOSTICS n = ROW_COUNT;
	ASSERT n = 1, 'skip';
	BEGIN
		INSERT INTO rejects VALUES (1);
		ASSERT false, 'reject';
	EXCEPTION WHEN unique_violation THEN
		NULL;
	END;
	INSERT INTO marks VALUES (1), (2);
	ASSERT (SELECT count(*) FROM marks WHERE is_duplicate) = 2, 'mark';
	INSERT INTO diverts VALUES (1), (2);
	ASSERT (SELECT array_agg(k ORDER BY k) FROM diverts) = '{1,2}', 'divert';
	INSERT INTO forgets VALUES (1), (2);
	ASSERT (SELECT array_agg(k ORDER BY k) FROM forgets) = '{1,2}', 'forget';
	INSERT INTO expressions VALUES ('A@b'), (NULL), ('c@d');
	ASSERT (SELECT count(*) FROM expressions) = 3, 'expressions';
	BEGIN
		INSERT INTO exacts VALUES (1, '2025-02-27');
		ASSERT false, 'exact';
	EXCEPTION WHEN unique_violation THEN
		NULL;
	END;
	INSERT INTO exacts VALUES (1001, '2025-02-27');
	INSERT INTO child VALUES (3);
	INSERT INTO parent VALUES (1), (3), (4);
	ASSERT (SELECT array_agg(k ORDER BY k) FROM parent) = '{1,2,3,4}', 'inheritance';
END $$;
SELECT dedup_unguard('skips');
SELECT dedup_rebuild('exacts_seen');
DROP TABLE live_set CASCADE;
