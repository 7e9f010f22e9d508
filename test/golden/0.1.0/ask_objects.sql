-- What the filters and guards of dump.sql and pages.tar.gz must answer, in every later version. A
-- version whose answer changes on purpose changes this query and objects.out by hand.
-- Leaves nothing behind.
SET client_min_messages = error;
SET timezone = 'UTC';
BEGIN;

-- What each filter was made for.
SELECT name, s.kind, s.keys, s.fpr, s.seed, s.ttl, s.renew, s.logged, s.overfull, s.forgotten_early
FROM (SELECT name FROM live UNION SELECT filter::text FROM dedup_guards) f, dedup_stats(name) s ORDER BY name COLLATE "C";

-- No page is damaged.
SELECT 'damaged', name, c.* FROM (SELECT name FROM live UNION SELECT filter::text FROM dedup_guards) f, dedup_check(name) c;

-- Each key that a filter must have, it has: no row. Of the others at most few.
CREATE FUNCTION has(live, int) RETURNS boolean LANGUAGE sql AS $$
	SELECT CASE WHEN $1.timed THEN NOT is_new_at($1.name::regclass, at(700), $2) ELSE dedup_seen($1.name::regclass, $2) END
$$;
SELECT 'missing', s.name, s.k FROM said s JOIN live USING (name) WHERE s.seen AND NOT has(live, s.k);
SELECT name, count(*) FILTER (WHERE s.seen) AS must, count(*) FILTER (WHERE NOT s.seen AND has(live, s.k)) AS must_not,
	(SELECT count(*) FROM generate_series(10001, 12000) k WHERE has(live, k)) <= 40 AS few_others
FROM said s JOIN live USING (name) GROUP BY live, name ORDER BY name COLLATE "C";

-- Filters take new keys, once.
SELECT name, is_new_at(name::regclass, at(701), -1000), is_new_at(name::regclass, at(701), -1000) FROM live WHERE timed ORDER BY name COLLATE "C";
SELECT name, is_new(name::regclass, -1000), is_new(name::regclass, -1000) FROM live WHERE NOT timed ORDER BY name COLLATE "C";

-- The guards with their options.
SELECT "table", filter, columns, on_duplicate, exact, "where", nulls_not_distinct, at, too_old, on_delete, side_table,
	partitions_guarded, partitions_unguarded, problem
FROM dedup_guards ORDER BY "table"::text COLLATE "C";

-- What each guard does with the keys 1 to 5: how many rows are in the table before and after. A
-- rejected row is its SQLSTATE.
CREATE FUNCTION tried("table" text, "values" text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	n bigint;
BEGIN
	EXECUTE format('INSERT INTO %I VALUES %s', "table", "values");
	GET DIAGNOSTICS n = ROW_COUNT;
	RETURN n;
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE;
END $$;
CREATE TEMP TABLE try (number serial, "table" text, "values" text);
INSERT INTO try ("table", "values")
SELECT t, format(v, k)
FROM (VALUES ('skips', '(%s, false)'), ('skips', '(%s, true)'), ('rejects', '(''key %s'')'),
	('marks', '(''a1b2c3d4-0000-4000-8000-00000000000%1$s'', %1$s)'), ('diverts', '(%s, ''2025-01-03'')'), ('diverts_to_bin', '(%s, ''later'')'),
	('forgets', '(%s)'), ('expressions', '(''KEY%s'', NULL)'), ('times', '(%s, at(1000))'), ('times', '(%s, at(-5000))'), ('parent', '(%s)'),
	('shares_1', '(%s)'), ('shares_2', '(%s)'), ('exact_skips', '(%s, at(90))'), ('exact_rejects', '(%s, at(90))'),
	('exact_marks', '(%s, at(90))'), ('exact_diverts', '(%s, at(90))'), ('exact_where', '(%s, at(90))'), ('exact_where', '(%s, at(90), true)'),
	('exact_times', '(%s, at(3000))'), ('exact_times', '(%s, at(3001))'), ('exact_grows', '(%s, at(90))')) g(t, v),
	generate_series(1, 5) k;
DO $$
DECLARE
	t record;
BEGIN
	FOR t IN SELECT * FROM try ORDER BY number LOOP
		UPDATE try SET "values" = t."values" || ': ' || tried(t."table", t."values") WHERE number = t.number;
	END LOOP;
END $$;
SELECT "table", "values" FROM try ORDER BY number;
SELECT k, more, again FROM marks ORDER BY k, more, again;
SELECT k, at, again FROM exact_marks ORDER BY k, at, again;
SELECT refused_by, k, at FROM diverts_refused ORDER BY k, at;
SELECT refused_by, k, rest FROM bin ORDER BY k, rest->>'more';
SELECT refused_by, k, at FROM exact_diverts_refused ORDER BY k, at;

-- Deleted rows free their keys, where they do.
DELETE FROM forgets WHERE k = 1;
DELETE FROM exact_rejects WHERE k = 1;
SELECT tried('forgets', '(1)'), tried('exact_rejects', '(1, at(91))'), tried('exact_rejects', '(2, at(91))');
-- Of the refused rows with key 3 the oldest comes back when the row with the key has gone.
DELETE FROM exact_diverts WHERE k = 3;
SELECT dedup_readmit('exact_diverts');
SELECT * FROM exact_diverts WHERE k = 3;
-- A filter can be filled anew.
SELECT dedup_rebuild('exact_grows_seen');
SELECT tried('exact_grows', '(2, at(91))'), tried('exact_grows', '(6, at(91))');
ROLLBACK;
