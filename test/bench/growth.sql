-- What filters are like while they are filled: bytes, whether they are exact, and the false-positive rate,
-- by the number of keys. One that grows, and two for a number of keys. All are asked for a rate of 0.01.
--
-- psql -X -f test/bench/growth.sql > test/bench/data/growth.tsv
\set QUIET on
\pset format unaligned
\pset fieldsep '\t'
\pset footer off
SET client_min_messages = error;	-- a filter with more keys than it was made for warns
-- With the keys 1 to n, for n in steps of 1.12 up to `most`, and for those in `also`.
CREATE FUNCTION pg_temp.filled(filter dedup_filter, most int, also int[])
	RETURNS TABLE (keys int, bytes bigint, exact boolean, fpr text) LANGUAGE plpgsql AS $$
DECLARE
	had int = 0;
	s record;
BEGIN
	FOR keys IN SELECT floor(power(1.12::numeric, i))::int FROM generate_series(0, 200) i WHERE power(1.12::numeric, i) <= most
		UNION SELECT unnest(also) ORDER BY 1
	LOOP
		filter := dedup_add_all(filter, ARRAY(SELECT generate_series(had + 1, keys)));
		had := keys;
		s := dedup_stats(filter);
		bytes := s.bytes;
		exact := s.exact;
		fpr := CASE WHEN s.exact THEN '0' ELSE trim(to_char(s.fpr_now, '9.99EEEE')) END;
		RETURN NEXT;
	END LOOP;
END $$;
SELECT 'dedup_filter()' AS filter, * FROM pg_temp.filled(dedup_filter(), 4000000, '{512,513,4000000}')
UNION ALL
SELECT 'dedup_filter(10000)', * FROM pg_temp.filled(dedup_filter(10000), 40000, '{1552,1553,10000,40000}')
UNION ALL
SELECT 'dedup_filter(1000000)', *
FROM pg_temp.filled(dedup_filter(1000000), 4000000, '{154976,154977,1000000,4000000}');
