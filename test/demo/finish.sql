-- The report, and whether the promises held.

CREATE VIEW report AS
	SELECT part, line, format('%-42s %10s %18s %16s %12s %8s', how, demo_number(kept),
		demo_number(false_positives) || coalesce(' (' || round(100.0 * false_positives / nullif(truly_new, 0), 3) || ' %)', ''),
		demo_number(false_negatives), coalesce(demo_number(bytes), 'too long'), round(seconds::numeric, 2)) AS text
	FROM demo_line
	UNION ALL
	SELECT part, 0, format('%-42s %10s %18s %16s %12s %8s', '', first, 'false positives', 'false negatives', 'bytes', 'seconds')
	FROM (VALUES (1, 'rows kept'), (2, 'new')) heading (part, first);

SELECT format(E'\n1. Keep the first row of each key (%s), in the order of arrival\n   %s distinct keys, %s duplicates\n',
	:'key', demo_number(:distinct_keys), demo_number(:duplicates));
SELECT text FROM report WHERE part = 1 ORDER BY line;
SELECT format(E'   Of the window''s false negatives %s are of keys that came in the last %s rows (which\n   %s duplicates did); the others are of keys older than the window.',
	demo_number(:missed), demo_number(:horizon), demo_number(:remembered));

SELECT format(E'\n2. One filter for each %s but the last, stored; which of the last one''s (%s) are new?\n   %s there, %s of them new; the %s filters took %s s to make\n',
	:'slice', :'who', demo_number(:all_today), demo_number(:new_today), :days - 1, round(:made_seconds, 2));
SELECT text FROM report WHERE part = 2 ORDER BY line;

\if :guardable
SELECT format(E'\n3. A table partitioned by %s that refuses duplicates as they arrive (%s)\n   the live filter takes %s bytes; at most two new rows in a million may be refused\n',
	:'slice', :'key', demo_number(:live_bytes));
SELECT rtrim(format('%-42s %10s %18s %16s %21s', how, sent, stored, refused, seconds))
FROM (
	SELECT 0 AS line, '' AS how, 'rows sent' AS sent, 'stored' AS stored, 'refused' AS refused, 'seconds' AS seconds
	UNION ALL
	SELECT line, how, coalesce(demo_number(sent), '-'), demo_number(stored), demo_number(refused), round(seconds::numeric, 2)::text FROM demo_load
	UNION ALL
	SELECT 9, 'sent = stored + refused', demo_number(:sent), demo_number(:stored), demo_number(:refused), ''
) load ORDER BY line;
SELECT format(E'   SELECT DISTINCT finds %s keys in the stream and %s in the table: %s new refused, %s duplicates stored',
	demo_number(:distinct_sent), demo_number(:distinct_stored), demo_number(:lost), demo_number(:keyed_stored - :distinct_stored));
\endif

SELECT format(E'\n%s. SELECT DISTINCT as it is, and after SET streamdedup.approximate_distinct = on\n\n%-42s %10s %18s %16s %12s', CASE WHEN :'guardable' THEN 4 ELSE 3 END, '', 'as it is', 'seconds', 'then', 'seconds');
SELECT rtrim(format('%-42s %10s %18s %16s %12s', what, demo_number(exact), round(exact_seconds::numeric, 2), demo_number(n), round(seconds::numeric, 2)))
FROM (VALUES (1, 'rows of SELECT DISTINCT key', :exact_n, :exact_seconds, :n, :seconds),
	(2, 'count(DISTINCT who)', :exact_who_n, :exact_who_seconds, :who_n, :who_seconds)) d (line, what, exact, exact_seconds, n, seconds)
ORDER BY line;

\echo
\echo 'False positive: a new key called a duplicate. False negative: a duplicate called new.'

DO $$
DECLARE
	broken text;
BEGIN
	SELECT string_agg(what, '; ') INTO broken FROM demo_broken;
	IF broken IS NOT NULL THEN
		RAISE EXCEPTION 'promise broken: %', broken;
	END IF;
END
$$;
\echo 'Every promise was kept.'
