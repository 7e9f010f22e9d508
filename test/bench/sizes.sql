-- The sizes of filters by their rate: bits a key when a filter is full, of the methods that most filters
-- have. Filters for a number of keys are for a million. A filter that grows has the most bits just after
-- it has grown.
--
-- psql -X -f test/bench/sizes.sql > test/bench/data/sizes.tsv
\set QUIET on
\pset format unaligned
\pset fieldsep '\t'
\pset footer off
SELECT method, fpr, bits_per_key AS bits
FROM generate_series(11, 120) i,
	LATERAL (SELECT round(power(10::numeric, -i / 20.0), 10)::float8 AS fpr) r,
	LATERAL (SELECT method, bits_per_key FROM dedup_advise(1000000, fpr)
		WHERE method IN ('blocked_bloom', 'bloom', 'recent')
		UNION ALL SELECT method, bits_per_key FROM dedup_advise(NULL, fpr)) a
ORDER BY method COLLATE "C", fpr;
