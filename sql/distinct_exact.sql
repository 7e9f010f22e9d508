-- Everything that docs/distinct.md promises to be exact is exact, whatever is between a DISTINCT and the result. The
-- filter is as small and as coarse as possible, so a statement that is planned through it loses rows.
LOAD 'streamdedup';
SET max_parallel_workers_per_gather = 0;
SET jit = off;
SET client_min_messages = warning;
CREATE SCHEMA distinct_exact;
SET search_path = distinct_exact, public;
CREATE TABLE big AS SELECT g AS k, g::varchar(20) AS v, g % 100 AS grp FROM generate_series(1, 12000) g;
CREATE TABLE few AS SELECT k, v FROM big WHERE k > 11500;
-- for functions that are called for each row
CREATE TABLE one AS SELECT array_agg(k) AS a FROM few;
CREATE TABLE target (k int PRIMARY KEY, n bigint);
ANALYZE big, few, one, target;
CREATE VIEW keys AS SELECT DISTINCT k FROM big;

-- Functions that return all keys, of each kind.
CREATE FUNCTION keys_sql() RETURNS int[] LANGUAGE sql AS 'SELECT ARRAY(SELECT DISTINCT k FROM distinct_exact.big)';
CREATE FUNCTION keys_stable() RETURNS int[] LANGUAGE sql STABLE AS 'SELECT ARRAY(SELECT DISTINCT k FROM distinct_exact.big)';
CREATE FUNCTION keys_volatile() RETURNS int[] LANGUAGE plpgsql
	AS 'BEGIN RETURN ARRAY(SELECT DISTINCT k FROM distinct_exact.big); END';
CREATE FUNCTION keys_immutable() RETURNS int[] LANGUAGE plpgsql IMMUTABLE
	AS 'BEGIN RETURN ARRAY(SELECT DISTINCT k FROM distinct_exact.big); END';
CREATE FUNCTION keys_path() RETURNS int[] LANGUAGE plpgsql SET search_path = distinct_exact
	AS 'BEGIN RETURN ARRAY(SELECT DISTINCT k FROM big); END';
CREATE FUNCTION keys_rows() RETURNS SETOF int LANGUAGE plpgsql
	AS 'BEGIN RETURN QUERY SELECT DISTINCT k FROM distinct_exact.big; END';
CREATE FUNCTION keys_inlined() RETURNS SETOF int LANGUAGE sql STABLE AS 'SELECT DISTINCT k FROM distinct_exact.big';
CREATE FUNCTION same(int[]) RETURNS int[] LANGUAGE sql IMMUTABLE AS 'SELECT $1';
CREATE FUNCTION keys_counted() RETURNS bigint LANGUAGE plpgsql
	AS 'BEGIN RETURN (SELECT count(DISTINCT k) FROM distinct_exact.big); END';

SET streamdedup.distinct_memory = '64kB';
SET streamdedup.distinct_fpr = 0.1;

-- Whether a query's plan is approximate anywhere.
CREATE FUNCTION approximate(query text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF, VERBOSE) ' || query LOOP
		IF line LIKE '%(ApproximateDistinct)%' OR line LIKE '%approx_count_distinct(%' THEN RETURN true; END IF;
	END LOOP;
	RETURN false;
END $$;
-- Runs a query with the setting off and on: whether the one result is the other.
CREATE FUNCTION same_result(query text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	exact text[]; these text[];
BEGIN
	PERFORM set_config('client_min_messages', 'error', true);
	PERFORM set_config('streamdedup.approximate_distinct', 'off', true);
	EXECUTE 'CREATE TEMP TABLE exact_rows AS ' || query;
	PERFORM set_config('streamdedup.approximate_distinct', 'on', true);
	EXECUTE 'CREATE TEMP TABLE these_rows AS ' || query;
	PERFORM set_config('streamdedup.approximate_distinct', 'off', true);
	SELECT array_agg(r::text ORDER BY r::text) INTO exact FROM exact_rows r;
	SELECT array_agg(r::text ORDER BY r::text) INTO these FROM these_rows r;
	PERFORM set_config('streamdedup.approximate_distinct', 'on', true);
	DROP TABLE exact_rows, these_rows;
	RETURN exact IS NOT DISTINCT FROM these;
END $$;
-- Returns the queries whose plan or answer is not exact.
CREATE FUNCTION check_exact(queries text[], run boolean DEFAULT true) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE query text;
BEGIN
	FOREACH query IN ARRAY queries LOOP
		IF approximate(query) THEN RETURN NEXT 'approximate: ' || query; END IF;
		IF run AND NOT same_result(query) THEN RETURN NEXT 'differs: ' || query; END IF;
	END LOOP;
END $$;
CREATE FUNCTION check_approximate(queries text[]) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE query text;
BEGIN
	FOREACH query IN ARRAY queries LOOP
		IF NOT approximate(query) THEN RETURN NEXT 'exact: ' || query; END IF;
	END LOOP;
END $$;

SET streamdedup.approximate_distinct = on;
-- this filter loses rows
SELECT count(*) < 12000 AS approximate FROM (SELECT DISTINCT k FROM big) d;

-- What is useful stays approximate.
SELECT check_approximate(ARRAY[
	'SELECT DISTINCT k FROM big',
	'SELECT DISTINCT ON (k) * FROM big',
	'SELECT DISTINCT k FROM big WHERE k <> 3 ORDER BY k DESC LIMIT 10 OFFSET 2',
	'SELECT * FROM (SELECT DISTINCT k FROM big) d WHERE k > 5',
	'SELECT count(*) FROM (SELECT DISTINCT k FROM big) d',
	'SELECT count(*) > 5, avg(k) + 1, max(k) FROM (SELECT DISTINCT k FROM big) d WHERE k > 7',
	'SELECT grp, count(*) FROM (SELECT DISTINCT grp, v FROM big) d GROUP BY grp ORDER BY 2 DESC LIMIT 10',
	'SELECT grp, n FROM (SELECT grp, count(*) AS n FROM (SELECT DISTINCT grp, v FROM big) d GROUP BY grp) s ORDER BY n LIMIT 3',
	'SELECT sum(n) FROM (SELECT grp, count(*) AS n FROM (SELECT DISTINCT grp, v FROM big) d GROUP BY grp) s',
	'SELECT k, row_number() OVER () FROM (SELECT DISTINCT k FROM big) d',
	'SELECT array_agg(k) FROM (SELECT DISTINCT k FROM big) d',
	'SELECT few.* FROM few JOIN (SELECT DISTINCT k FROM big) d USING (k)',
	'SELECT few.* FROM few, keys WHERE few.k = keys.k',
	'SELECT * FROM (SELECT DISTINCT k FROM big) d LEFT JOIN few USING (k)',
	'SELECT * FROM few RIGHT JOIN (SELECT DISTINCT k FROM big) d USING (k)',
	'SELECT * FROM few f CROSS JOIN LATERAL (SELECT DISTINCT v FROM big WHERE k > f.k) d',
	'SELECT ARRAY(SELECT DISTINCT k FROM big)',
	'SELECT (SELECT count(*) FROM (SELECT DISTINCT k FROM big) d), 1',
	'SELECT v, ARRAY(SELECT DISTINCT k FROM big) FROM few',
	'WITH w AS (SELECT DISTINCT k FROM big) SELECT * FROM w',
	'WITH w AS MATERIALIZED (SELECT DISTINCT k FROM big), x AS (SELECT k + 1 AS k FROM w) SELECT count(*) FROM x',
	'SELECT DISTINCT k FROM big UNION ALL SELECT DISTINCT k FROM big',
	'SELECT DISTINCT k FROM big UNION SELECT k FROM few',
	'SELECT DISTINCT k FROM big EXCEPT SELECT k FROM few',
	'SELECT DISTINCT k FROM big INTERSECT SELECT k FROM few',
	'CREATE TABLE made AS SELECT DISTINCT k FROM big',
	'INSERT INTO target SELECT DISTINCT k, 1 FROM big',
	'INSERT INTO target SELECT DISTINCT k, 1 FROM big ON CONFLICT DO NOTHING',
	'INSERT INTO target SELECT k, count(*) FROM (SELECT DISTINCT k, v FROM big) d GROUP BY k',
	'WITH w AS (INSERT INTO target SELECT DISTINCT k, 1 FROM big RETURNING k) SELECT count(*) FROM w',
	'DECLARE c CURSOR FOR SELECT DISTINCT k FROM big',
	'SELECT count(DISTINCT k) FROM big',
	'SELECT grp, count(DISTINCT k) FROM big GROUP BY grp HAVING count(DISTINCT k) > 10',
	'SELECT few.k, n FROM few LEFT JOIN (SELECT grp, count(DISTINCT k) AS n FROM big GROUP BY grp) d ON grp = few.k']);

-- A set of keys, however it is turned into an array, and however that is asked.
DO $$
DECLARE
	source text; made text; asked text; query text;
	sources text[] := ARRAY[
		'SELECT DISTINCT k FROM big',
		'SELECT k FROM (SELECT DISTINCT k FROM big OFFSET 0) d',
		'SELECT k FROM keys',
		'WITH w AS MATERIALIZED (SELECT DISTINCT k FROM big) SELECT k FROM w'];
	arrays text[] := ARRAY[
		'ARRAY(%s)', 'ARRAY(%s)::bigint[]::int[]', 'coalesce(ARRAY(%s), ''{}'')', 'CASE WHEN few.k > 0 THEN ARRAY(%s) END',
		'ARRAY(%s) || 7', 'array_remove(ARRAY(%s), NULL)', 'same(ARRAY(%s))', '(SELECT ARRAY(%s))::int[]',
		'(SELECT array_agg(s.k) FROM (%s) s)::int[]', '(SELECT x.a FROM (SELECT ARRAY(%s) AS a OFFSET 0) x)::int[]',
		'string_to_array((SELECT string_agg(s.k::text, '','') FROM (%s) s), '','')::int[]',
		'(ARRAY(%s))[1:]', 'greatest(ARRAY(%s), ''{}'')', 'nullif(ARRAY(%s), ''{}'')'];
	questions text[] := ARRAY[
		'SELECT count(*) FROM few WHERE few.k <> ALL (%s)',
		'SELECT count(*) FROM few WHERE few.k = ANY (%s)',
		'SELECT count(*) FROM few WHERE NOT (%s @> ARRAY[few.k])',
		'SELECT count(*) FROM few WHERE few.k NOT IN (SELECT unnest(%s))',
		'SELECT count(*) FILTER (WHERE few.k <> ALL (%s)) FROM few',
		'SELECT few.k, few.k = ANY (%s) FROM few'];
BEGIN
	FOREACH source IN ARRAY sources LOOP
		FOREACH made IN ARRAY arrays LOOP
			FOREACH asked IN ARRAY questions LOOP
				query := format(asked, format(made, source));
				IF approximate(query) THEN RAISE WARNING 'approximate: %', query; END IF;
			END LOOP;
		END LOOP;
	END LOOP;
END $$;
SELECT check_exact(ARRAY[
	'SELECT count(*) FROM few WHERE v <> ALL (ARRAY(SELECT DISTINCT v FROM big))',
	'SELECT count(*) FROM few WHERE k::bigint <> ALL (ARRAY(SELECT DISTINCT k FROM big)::bigint[])',
	'SELECT count(*) FROM few WHERE k <> ALL (coalesce(ARRAY(SELECT DISTINCT k FROM big), ''{}''))',
	'SELECT count(*) FROM few LEFT JOIN unnest(ARRAY(SELECT DISTINCT k FROM big)) u ON u = k WHERE u IS NULL',
	'SELECT k FROM few EXCEPT SELECT unnest(ARRAY(SELECT DISTINCT k FROM big))',
	'WITH x AS (SELECT ARRAY(SELECT DISTINCT k FROM big) AS a) SELECT count(*) FROM few, x WHERE few.k <> ALL (x.a)',
	'WITH x AS (SELECT array_agg(k) AS a FROM (SELECT DISTINCT k FROM big) d) SELECT count(*) FROM few, x WHERE few.k <> ALL (x.a)',
	'SELECT count(*) FROM few, LATERAL (SELECT few.k = ANY (ARRAY(SELECT DISTINCT k FROM big)) AS there) l WHERE NOT there',
	'SELECT count(*) FROM few, (SELECT array_agg(d.k) OVER () AS a FROM (SELECT DISTINCT k FROM big) d LIMIT 1) s WHERE few.k <> ALL (a)',
	'SELECT 11600 <> ALL (array_agg(k)) AS missing FROM (SELECT DISTINCT k FROM big) d',
	'SELECT 11600 <> ALL (a) AS missing FROM (SELECT array_agg(k) AS a FROM (SELECT DISTINCT k FROM big) d) s',
	'SELECT bool_or(k = 11600) AS there FROM (SELECT DISTINCT k FROM big) d',
	'SELECT k, (SELECT DISTINCT b.v FROM big b WHERE b.k = few.k) AS v FROM few WHERE k > 11950',
	'SELECT k, (SELECT d.v FROM (SELECT DISTINCT k, v FROM big OFFSET 0) d WHERE d.k = 11000 + few.k % 10) AS v FROM few WHERE k > 11950',
	'SELECT jsonb_agg(k) @> ''[11600]'' AS there FROM (SELECT DISTINCT k FROM big) d',
	'SELECT ARRAY(SELECT DISTINCT k FROM big ORDER BY 1) UNION SELECT ARRAY(SELECT k FROM big ORDER BY 1)',
	'SELECT count(*) FROM one WHERE NOT a <@ keys_sql()',
	'SELECT count(*) FROM one WHERE NOT a <@ keys_stable()',
	'SELECT count(*) FROM few WHERE k <> ALL (keys_immutable())',
	'SELECT count(*) FROM one WHERE NOT a <@ same(keys_path())',
	'SELECT count(*) FROM few WHERE k NOT IN (SELECT keys_rows())',
	'SELECT count(*) FROM few LEFT JOIN keys_rows() r ON r = k WHERE r IS NULL',
	'SELECT count(*) FROM few LEFT JOIN keys_inlined() r ON r = k WHERE r IS NULL',
	'SELECT k FROM few EXCEPT SELECT keys_rows()',
	'SELECT count(*) FILTER (WHERE k <> ALL (a)) FROM few, (SELECT keys_volatile() AS a OFFSET 0) s',
	'SELECT count(*) FROM one WHERE keys_counted() <> 12000']);

-- Rows that are missing where they are not shown themselves.
SELECT check_exact(ARRAY[
	'SELECT count(*) FROM few LEFT JOIN (SELECT DISTINCT k FROM big) d USING (k) WHERE d.k IS NULL',
	'SELECT count(*) FROM (SELECT DISTINCT k FROM big) d RIGHT JOIN few USING (k) WHERE d.k IS NULL',
	'SELECT count(*) FROM (SELECT DISTINCT k FROM big) d FULL JOIN few USING (k) WHERE d.k IS NULL',
	'SELECT count(*) FROM few LEFT JOIN (keys JOIN few f2 USING (k)) USING (k) WHERE keys.k IS NULL',
	'SELECT count(*) FROM few LEFT JOIN LATERAL (SELECT DISTINCT v FROM big WHERE big.k = few.k OFFSET 0) d ON true WHERE d.v IS NULL',
	'WITH w AS (SELECT DISTINCT k FROM big) SELECT count(*) FROM few LEFT JOIN w USING (k) WHERE w.k IS NULL',
	'WITH w AS (SELECT DISTINCT k FROM big), x AS (SELECT k FROM w WHERE k > 3) SELECT count(*) FROM w LEFT JOIN x USING (k)',
	'SELECT count(*) FROM few WHERE NOT EXISTS (SELECT 1 FROM (SELECT DISTINCT k FROM big) d WHERE d.k = few.k)',
	'SELECT count(*) FROM few WHERE k NOT IN (SELECT k FROM keys)',
	'SELECT count(*) FROM few WHERE (k, v) NOT IN (SELECT DISTINCT k, v FROM big)',
	'SELECT count(*) FROM few WHERE (SELECT d.k FROM (SELECT DISTINCT k FROM big) d WHERE d.k = few.k) IS NULL',
	'SELECT count(*) FROM few WHERE (SELECT count(*) FROM (SELECT DISTINCT k FROM big) d) < 12000',
	'SELECT count(*) FROM few JOIN (SELECT count(*) AS n FROM (SELECT DISTINCT k FROM big) d) c ON c.n < 12000',
	'SELECT count(*) FROM few JOIN (SELECT DISTINCT k FROM big ORDER BY k DESC LIMIT 500) d USING (k)',
	'SELECT count(*) FROM few JOIN (SELECT k FROM (SELECT DISTINCT k FROM big) d ORDER BY k DESC OFFSET 100) d USING (k)',
	'SELECT count(*) FROM few JOIN (SELECT max(k) AS k FROM (SELECT DISTINCT k, grp FROM big) d GROUP BY grp) d USING (k)',
	'SELECT * FROM (SELECT k, lead(k) OVER (ORDER BY k) AS next FROM (SELECT DISTINCT k FROM big) d) s WHERE next <> k + 1',
	'SELECT grp FROM (SELECT DISTINCT grp, k FROM big) d GROUP BY grp HAVING count(*) < 120',
	'SELECT k FROM few EXCEPT SELECT DISTINCT k FROM big',
	'SELECT k FROM few EXCEPT ALL (SELECT DISTINCT k FROM big UNION ALL SELECT 1)',
	'SELECT k FROM few EXCEPT (SELECT k FROM few INTERSECT SELECT k FROM keys)',
	'(SELECT k FROM few EXCEPT SELECT k FROM few WHERE k > 11600) EXCEPT SELECT * FROM (SELECT DISTINCT k FROM big) d',
	'WITH RECURSIVE r(k) AS (SELECT 11800 UNION ALL SELECT d.k FROM r JOIN (SELECT DISTINCT k FROM big) d ON d.k = r.k + 1) SELECT k FROM r',
	'SELECT count(*) FROM few JOIN (SELECT DISTINCT ON (grp) grp, k FROM (SELECT DISTINCT grp, k FROM big) d ORDER BY grp, k DESC) e USING (k)',
	'SELECT few.k FROM few JOIN (SELECT DISTINCT k FROM big) d USING (k) FOR UPDATE OF few',
	'SELECT grp, count(DISTINCT k) AS n FROM big GROUP BY grp EXCEPT SELECT grp, count(*) FROM big GROUP BY grp',
	'SELECT count(*) FROM few WHERE k <= (SELECT count(DISTINCT k) FROM big)',
	'SELECT grp FROM big GROUP BY grp HAVING max(k) >= (SELECT count(DISTINCT v) FROM big)',
	'SELECT 1 FROM few WHERE k <> ALL (coalesce(ARRAY(SELECT count(DISTINCT k)::int FROM big), ''{}''))']);

-- What decides about rows that a user may see.
CREATE TABLE secured AS SELECT k FROM few;
ALTER TABLE secured ENABLE ROW LEVEL SECURITY;
ALTER TABLE secured FORCE ROW LEVEL SECURITY;
CREATE POLICY mine ON secured USING (k < 11550 OR (k > 11950 AND k = ANY (keys_stable())));
CREATE VIEW barrier WITH (security_barrier) AS SELECT DISTINCT k FROM big;
CREATE ROLE regress_distinct_exact;
GRANT USAGE ON SCHEMA distinct_exact TO regress_distinct_exact;
GRANT ALL ON ALL TABLES IN SCHEMA distinct_exact TO regress_distinct_exact;
SET ROLE regress_distinct_exact;
SELECT count(*) FROM secured;
RESET ROLE;
SELECT check_exact(ARRAY['SELECT * FROM barrier']);

-- Statements that change data.
SELECT check_exact(ARRAY[
	'INSERT INTO target SELECT DISTINCT k, 1 FROM big ON CONFLICT (k) DO UPDATE SET n = target.n + 1',
	'INSERT INTO target SELECT k, count(*) FROM (SELECT DISTINCT k, v FROM big) d GROUP BY k ON CONFLICT (k) DO UPDATE SET n = 0',
	'INSERT INTO target WITH w AS (SELECT DISTINCT k FROM big) SELECT k, 1 FROM w ON CONFLICT (k) DO UPDATE SET n = 0',
	'WITH w AS (SELECT DISTINCT k FROM big) INSERT INTO target SELECT k, 1 FROM w ON CONFLICT (k) DO UPDATE SET n = 0',
	'INSERT INTO target SELECT k, (SELECT count(DISTINCT v) FROM big) FROM few ON CONFLICT (k) DO UPDATE SET n = excluded.n',
	'INSERT INTO target VALUES (1, 1) ON CONFLICT (k) DO UPDATE SET n = (SELECT count(*) FROM (SELECT DISTINCT k FROM big) d)',
	'WITH w AS (INSERT INTO target SELECT DISTINCT k, 1 FROM big ON CONFLICT (k) DO UPDATE SET n = 0 RETURNING k) SELECT count(*) FROM w',
	'WITH w AS (INSERT INTO target VALUES (1) ON CONFLICT (k) DO UPDATE SET n = 0) SELECT DISTINCT k FROM big',
	'WITH w AS (INSERT INTO target SELECT DISTINCT k, 1 FROM big RETURNING k) SELECT k FROM few WHERE k NOT IN (SELECT k FROM w)',
	'UPDATE target SET n = (SELECT count(*) FROM (SELECT DISTINCT k FROM big) d)',
	'UPDATE target SET n = 0 FROM keys WHERE keys.k = target.k',
	'DELETE FROM target USING (SELECT DISTINCT k FROM big) d WHERE d.k = target.k',
	'DELETE FROM target WHERE k NOT IN (SELECT DISTINCT k FROM big)',
	'DELETE FROM target WHERE n < (SELECT count(DISTINCT k) FROM big)',
	'WITH w AS (SELECT DISTINCT k FROM big) DELETE FROM target WHERE k NOT IN (SELECT k FROM w)',
	'WITH gone AS (DELETE FROM target USING keys WHERE keys.k = target.k RETURNING target.k) SELECT DISTINCT k FROM gone',
	CASE WHEN current_setting('server_version_num')::int >= 150000
		THEN 'MERGE INTO target USING (SELECT DISTINCT k FROM big) s ON s.k = target.k WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (s.k, 1)'
		ELSE 'DELETE FROM target WHERE k IN (SELECT k FROM keys)' END], run => false);
INSERT INTO target SELECT DISTINCT k, 1 FROM big ON CONFLICT (k) DO UPDATE SET n = target.n + 1;
CREATE VIEW through AS SELECT * FROM target;
INSERT INTO through SELECT DISTINCT k, 1 FROM big ON CONFLICT (k) DO UPDATE SET n = through.n + 1;
PREPARE upsert AS INSERT INTO target SELECT DISTINCT k, 1 FROM big ON CONFLICT (k) DO UPDATE SET n = target.n + 1;
EXECUTE upsert;
SELECT n, count(*) FROM target GROUP BY n;

-- Functions that a statement calls to change data, triggers included, are exact, also those
-- whose approximate plan is from before.
CREATE TABLE primed AS SELECT keys_volatile() AS a, keys_path() AS b;
SELECT cardinality(a) < 12000 AS approximate, cardinality(b) < 12000 AS approximate, keys_counted() <> 12000 AS approximate FROM primed;
DELETE FROM target USING one WHERE target.k = 12000 AND NOT a <@ keys_volatile();
UPDATE target SET n = cardinality(keys_volatile()) WHERE k < 10;
INSERT INTO target SELECT 12001, keys_counted();
SELECT count(*), count(*) FILTER (WHERE n = 12000) AS exact FROM target;
SELECT keys_counted() <> 12000 AS approximate;
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.n := distinct_exact.keys_counted() + cardinality(distinct_exact.keys_path()); RETURN NEW; END';
CREATE TRIGGER note BEFORE INSERT ON target FOR EACH ROW EXECUTE FUNCTION note();
INSERT INTO target VALUES (12002);
COPY target (k) FROM stdin;
12003
\.
SELECT k, n FROM target WHERE k > 12001;
CREATE TABLE defaults (k int, n bigint DEFAULT distinct_exact.keys_counted());
SELECT keys_counted() <> 12000 AS approximate;
COPY defaults (k) FROM stdin;
1
\.
SELECT keys_counted() <> 12000 AS approximate;
ALTER TABLE defaults ADD COLUMN m bigint DEFAULT distinct_exact.keys_counted();
SELECT * FROM defaults;
SELECT keys_counted() <> 12000 AS approximate;
DROP SCHEMA distinct_exact CASCADE;
DROP ROLE regress_distinct_exact;
