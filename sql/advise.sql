\set VERBOSITY terse

-- The first row of dedup_advise() is the filter that dedup_filter() makes with the same arguments, or that
-- dedup_window() makes if `forget` requests a window.

CREATE FUNCTION pg_temp.first_row(keys bigint, fpr float8, forget boolean) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	usual record;
	advised record;
	made record;
BEGIN
	BEGIN
		SELECT * INTO usual FROM dedup_stats(CASE WHEN forget THEN dedup_window(keys, fpr) ELSE dedup_filter(keys, fpr) END);
	EXCEPTION WHEN program_limit_exceeded THEN
		RETURN 'too large';
	END;
	SELECT * INTO advised FROM dedup_advise(keys, fpr, forget) LIMIT 1;
	EXECUTE format('SELECT * FROM dedup_stats(%s)', advised.prototype) INTO made;
	IF advised.method = usual.method AND advised.bytes = usual.bytes_full AND advised.parameters = usual.parameters
		AND advised.why LIKE (CASE WHEN forget THEN 'made by dedup_window(): %' ELSE 'made by dedup_filter(): %' END)
		AND made.method = usual.method AND made.bytes_full = usual.bytes_full AND made.parameters = usual.parameters THEN
		RETURN 'the same';
	END IF;
	RETURN format('%s keys at %s: %s instead of %s', keys, fpr, advised, usual);
END $$;
SELECT forget, pg_temp.first_row(keys, fpr, forget) AS first_row, count(*)
FROM unnest('{1,2,3,7,8,33,100,999,1234567,100000000}'::bigint[]) keys,
	unnest('{1e-9,1e-8,3e-7,0.00001,0.00009,0.0001,0.00011,0.001,0.01,0.05,0.2,0.3,0.5}'::float8[]) fpr,
	unnest('{true,false,NULL}'::boolean[]) forget
GROUP BY 1, 2 ORDER BY 1, 2;

-- with other wishes the first row is the usual filter if that fulfils them

SELECT n, method, why FROM (VALUES
	(1, false, NULL, true, false),
	(2, false, NULL, false, true),
	(3, true, NULL, false, true),
	(4, true, true, false, false),
	(5, true, false, false, false),
	(6, true, NULL, true, false)) v(n, forget, first_sight, deletes, merges),
	LATERAL (SELECT * FROM dedup_advise(1000000, 0.01, forget, first_sight, deletes, merges) LIMIT 1) a ORDER BY n;

-- it says so where that is not the first row, and of no other row

SELECT method, why FROM dedup_advise(1000000, 0.01) WHERE why LIKE 'made by%';

-- methods that are there for their papers come last, each says so, and all say why in a few words

SELECT count(*) FILTER (WHERE NOT paper) > 9 AS many, (array_agg(method ORDER BY n) FILTER (WHERE NOT paper))[1:3] AS to_use,
	count(*) FILTER (WHERE paper) > 9 AS many, bool_and(paper) FILTER (WHERE method ~ '^(a2|b_dbf|apbf|lru|fp_lru|qhtd|qqht|qqhtd|sbf|sqf|dsqf)$') AS of_papers,
	bool_or(paper) FILTER (WHERE method ~ '^(recent|ring|fifo|qht)$') AS of_none,
	max(n) FILTER (WHERE NOT paper) < min(n) FILTER (WHERE paper) AS last,
	max(length(why)) <= 72 AS few_words
FROM (SELECT *, row_number() OVER () AS n, why = 'only to compare with its paper' AS paper
	FROM dedup_advise(1000000, 0.01)) a;

-- figures have three digits; bytes are exact

SELECT count(*) > 700 AS many, max(length(rtrim(regexp_replace(regexp_replace(figure::text, 'e.*$', ''), '^0\.0*|\.', '', 'g'), '0'))) AS digits
FROM unnest('{3,100000,12345678}'::bigint[]) keys, unnest('{1e-8,0.00123456789,0.01,0.333}'::float8[]) fpr,
	dedup_advise(keys, fpr) a, unnest(ARRAY[bits_per_key, expected_fpr, missed]) figure;
SELECT method, bytes, bits_per_key, expected_fpr, missed FROM dedup_advise(1000000, 0.01) LIMIT 7;
