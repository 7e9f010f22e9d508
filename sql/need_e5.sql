-- Need E5: widening a column from integer to bigint must not invalidate stored filters: equal integers are one key.

SELECT bool_and(dedup_contains(f, 5::int2) AND dedup_contains(f, 5::int4)
			AND dedup_contains(f, 5::int8)) AS one_key, count(DISTINCT f::text) AS filters
FROM (VALUES (dedup_add(dedup_filter(10), 5::int2)), (dedup_add(dedup_filter(10), 5::int4)),
		(dedup_add(dedup_filter(10), 5::int8))) v(f);
SELECT dedup_count(dedup_merge_agg(f)) AS distinct_of_the_three
FROM (SELECT dedup_agg(5::int2) UNION ALL SELECT dedup_agg(5::int4)
	UNION ALL SELECT dedup_agg(5::int8)) v(f);

-- negative and large ones, too, among other columns, and in arrays

SELECT bool_and(dedup_contains(dedup_add(dedup_filter(10), i::int2, 'x'), i::int8, 'x')
		AND dedup_contains(dedup_add(dedup_filter(10), ARRAY[i::int2]), ARRAY[i::int8])) AS one_key
FROM unnest('{-32768,-1,0,1,32767}'::int[]) i;

-- a filter made before the column was widened goes on answering

CREATE TEMP TABLE t AS SELECT i AS id FROM generate_series(-500, 500) i;
CREATE TEMP TABLE kept AS SELECT dedup_agg(id) AS f FROM t;
ALTER TABLE t ALTER id TYPE bigint;
SELECT count(*) FILTER (WHERE is_new(f, id)) AS missed,
	bool_and(is_new(f, id + 1001)) AS others_are_new FROM t, kept;
