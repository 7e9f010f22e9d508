-- Sets the table found beside the table exact, writes a line of the report,
-- and drops it.
--
-- psql variables: part, line, how, bytes, seconds; the promise: fpr (share of
-- new keys refused), fnr (share of duplicates let through, of those whose key
-- was among the latest so many distinct ones: horizon).

-- Within so many rows there are at most as many distinct keys.
SELECT count(*) FILTER (WHERE is_new) AS kept,
	count(*) FILTER (WHERE previous IS NULL AND NOT is_new) AS false_positives,
	count(*) FILTER (WHERE previous IS NOT NULL AND is_new) AS false_negatives,
	count(*) FILTER (WHERE id - previous <= :horizon) AS remembered,
	count(*) FILTER (WHERE id - previous <= :horizon AND is_new) AS missed,
	count(*) AS answers
	FROM exact JOIN found USING (id) \gset

INSERT INTO demo_line VALUES (:part, :line, :'how', :kept, :distinct_keys, :false_positives, :false_negatives, :bytes, :seconds);

INSERT INTO demo_broken
	SELECT format('%s: %s of %s new keys refused, %s %% was promised', :'how', :false_positives, :distinct_keys, 100 * :fpr)
		WHERE :false_positives > demo_at_most(:fpr, :distinct_keys)
	UNION ALL
	SELECT format('%s: %s of %s duplicates missed, %s %% was promised', :'how', :missed, :remembered, 100 * :fnr)
		WHERE :missed > demo_at_most(:fnr, :remembered)
	UNION ALL
	SELECT format('%s: %s false negatives, none was promised', :'how', :false_negatives) WHERE :fnr = 0 AND :false_negatives > 0
	UNION ALL
	SELECT format('%s: %s answers about %s rows', :'how', :answers, :distinct_keys + :duplicates) WHERE :answers <> :distinct_keys + :duplicates;

DROP TABLE found;
