-- Need E2: an error of a merge must name the merge and both sides in the user's own
-- words, capacity and rate.

SELECT dedup_filter(1000, 0.01) || dedup_filter(50000, 0.001);
\echo :LAST_ERROR_SQLSTATE
SELECT dedup_merge_agg(f)
FROM (VALUES (dedup_add(dedup_filter(1000, 0.01), 1)), (dedup_add(dedup_filter(50000, 0.001), 1)))
	v(f);
\echo :LAST_ERROR_SQLSTATE

-- of three columns the one that differs can be told

CREATE TEMP TABLE day AS SELECT dedup_filter(1000) AS a, dedup_filter(1000) AS b,
	dedup_filter(1000) AS c
UNION ALL SELECT dedup_filter(1000), dedup_filter(2000), dedup_filter(1000);
SELECT dedup_merge_agg(a) IS NOT NULL AS a, dedup_merge_agg(c) IS NOT NULL AS c FROM day;
SELECT dedup_merge_agg(b) FROM day;
