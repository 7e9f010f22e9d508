-- Aggregates over windows hash each column by its own collation, as plain aggregates do.
SELECT count(*) = 0 AS no_icu FROM pg_collation WHERE collprovider = 'i' \gset
\if :no_icu
\quit
\endif
CREATE COLLATION ignore_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TEMP TABLE c (a text COLLATE ignore_case, b text, c text COLLATE "C");
INSERT INTO c VALUES ('Ab', 'x', 'y');
SELECT dedup_contains(dedup_agg(a, b), 'AB' COLLATE ignore_case, 'x') AS plain FROM c;
SELECT dedup_contains(dedup_agg(a, b) OVER (), a, b) AS default_and_own,
	dedup_contains(dedup_agg(a, c) OVER (), 'AB' COLLATE ignore_case, c) AS c_and_own FROM c;

-- two that nothing tells apart are refused, not guessed

SELECT dedup_count(dedup_agg(a, b) OVER ()), dedup_count(dedup_agg(b, a) OVER ()) FROM c;
DROP COLLATION ignore_case CASCADE;
