-- The words that people type, SELECT DISTINCT and count(DISTINCT ...): as they are, and
-- through a filter. The queries are the same.
--
-- Finds a table clicks, and the psql variables key and who.

SELECT format('SELECT count(*) AS n FROM (SELECT DISTINCT %s FROM clicks) d', :'key') AS distinct_query,
	format('SELECT count(DISTINCT (%s)::text) AS n FROM clicks', :'who') AS count_query \gset

SELECT clock_timestamp() AS began \gset
:distinct_query \gset exact_
SELECT extract(epoch FROM clock_timestamp() - :'began') AS exact_seconds, clock_timestamp() AS began \gset
:count_query \gset exact_who_
SELECT extract(epoch FROM clock_timestamp() - :'began') AS exact_who_seconds \gset

SET streamdedup.approximate_distinct = on;
SELECT clock_timestamp() AS began \gset
:distinct_query \gset
SELECT extract(epoch FROM clock_timestamp() - :'began') AS seconds, clock_timestamp() AS began \gset
:count_query \gset who_
SELECT extract(epoch FROM clock_timestamp() - :'began') AS who_seconds \gset
RESET streamdedup.approximate_distinct;

INSERT INTO demo_broken
	SELECT format('SELECT DISTINCT through a filter gave %s rows instead of %s', :n, :exact_n)
	WHERE :n > :exact_n OR :exact_n - :n > demo_at_most(0.001, :exact_n);
INSERT INTO demo_broken
	SELECT format('count(DISTINCT ...) through a sketch gave %s instead of %s', :who_n, :exact_who_n)
	WHERE abs(:who_n - :exact_who_n) > 5 * 0.00566 * :exact_who_n;
