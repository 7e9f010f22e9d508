-- The requirements of a distributed engine such as Citus for an aggregate, and for the bytes that it moves.
-- test/tap/distributed.pl tests them with two servers.

\set QUIET on
CREATE SCHEMA distributed;
SET search_path = distributed, public;

-- what keeps an aggregate from being computed in parts: nothing, if all is well
CREATE FUNCTION faults(aggregate regproc) RETURNS text[] LANGUAGE sql AS $$
	SELECT array_remove(ARRAY[
		CASE WHEN aggkind <> 'n' THEN 'not a plain aggregate' END,
		CASE WHEN aggcombinefn = 0 THEN 'no combine function' END,
		CASE WHEN typtype = 'p' THEN 'the state is a pseudo-type' END,
		CASE WHEN typsend = 0 OR typreceive = 0 THEN 'the state has no binary form' END,
		CASE WHEN aggserialfn <> 0 OR aggdeserialfn <> 0 THEN 'the state is serialised' END,
		CASE WHEN proparallel <> 's' THEN 'not parallel safe' END,
		CASE WHEN provolatile <> 'i' THEN 'not immutable' END,
		CASE WHEN pronargs = 0 THEN 'no argument' END], NULL)
	FROM pg_aggregate JOIN pg_proc p ON p.oid = aggfnoid JOIN pg_type t ON t.oid = aggtranstype
	WHERE aggfnoid = aggregate $$;
\set QUIET off

-- every aggregate of the extension can be but those over keys, which Citus would fail to
-- compute in parts, since VARIADIC "any" is no argument's type; the check sees what others lack

SELECT p.oid::regprocedure AS aggregate, faults(p.oid) FROM pg_proc p
JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
JOIN pg_extension e ON e.oid = d.refobjid AND d.refclassid = 'pg_extension'::regclass
WHERE extname = 'streamdedup' AND prokind = 'a' AND faults(p.oid) IS DISTINCT FROM '{}';
SELECT count(*) >= 3 AS looked_at FROM pg_proc p
JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
JOIN pg_extension e ON e.oid = d.refobjid AND d.refclassid = 'pg_extension'::regclass
WHERE extname = 'streamdedup' AND prokind = 'a' AND faults(p.oid) = '{}';
SELECT a.oid::regprocedure AS aggregate, faults(a.oid)
FROM unnest('{count(),avg(numeric),"percentile_disc(float8,anyelement)"}'::regprocedure[]) WITH ORDINALITY a(oid, n) ORDER BY n;

-- so is what they and the casts call, and every function over filters that reads no more
-- than its arguments, so not dedup_rows, which runs a query

SELECT p.oid::regprocedure AS function, provolatile, proparallel FROM pg_proc p
JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
JOIN pg_extension e ON e.oid = d.refobjid AND d.refclassid = 'pg_extension'::regclass
WHERE extname = 'streamdedup' AND proargtypes[0] = 'dedup_filter'::regtype
	AND proname <> 'dedup_rows' AND (provolatile <> 'i' OR proparallel <> 's');

-- as Citus does it: the transition function on each part, its state through the type's
-- output and input, the combine and the final function on what arrives

\set QUIET on
CREATE AGGREGATE partial_agg (prototype dedup_filter, VARIADIC key "any") (
	SFUNC = dedup_agg_trans, STYPE = dedup_filter, PARALLEL = SAFE);
CREATE AGGREGATE combine_agg (state dedup_filter) (
	SFUNC = dedup_agg_combine, STYPE = dedup_filter, FINALFUNC = dedup_agg_final, PARALLEL = SAFE);
CREATE AGGREGATE partial_merge_agg (filter dedup_filter) (
	SFUNC = dedup_merge_agg_trans, STYPE = dedup_filter, PARALLEL = SAFE);
CREATE TABLE prototypes AS SELECT * FROM (VALUES
	('exact', dedup_filter(1000000)), ('full', dedup_filter(4000)), ('bloom', dedup_filter(4000, 0.00001)),
	('sip', dedup_method('bloom', NULL, 'keys=4000 hash=sip', 7)))
	v(name, prototype);
\set QUIET off
SELECT name, combine_agg(state::text::dedup_filter)::text = whole::text AS through_text,
	combine_agg(state::bytea::dedup_filter)::text = whole::text AS through_bytes, count(*) AS parts
FROM (SELECT name, partial_agg(prototype, i) AS state FROM prototypes, generate_series(1, 3000) i
		GROUP BY name, i % 7) p
JOIN (SELECT name, dedup_agg(prototype, i) AS whole FROM prototypes, generate_series(1, 3000) i
		GROUP BY name) w USING (name)
GROUP BY name, whole::text ORDER BY name COLLATE "C";
SELECT name, combine_agg(state::text::dedup_filter)::text = whole::text AS merged
FROM (SELECT name, partial_merge_agg(filter) AS state
		FROM (SELECT name, i % 7 AS part, dedup_agg(prototype, i) AS filter
			FROM prototypes, generate_series(1, 3000) i GROUP BY name, i % 7) f GROUP BY name, part % 2) p
JOIN (SELECT name, dedup_agg(prototype, i) AS whole FROM prototypes, generate_series(1, 3000) i
		GROUP BY name) w USING (name)
GROUP BY name, whole::text ORDER BY name COLLATE "C";

-- a part without rows has no state, one without keys an empty one: neither changes the rest

SELECT combine_agg(state)::text = (SELECT dedup_agg(dedup_filter(4000), i) FROM generate_series(1, 3000) i)::text AS all
FROM (SELECT partial_agg(dedup_filter(4000), i) AS state FROM generate_series(1, 3000) i
	UNION ALL SELECT partial_agg(dedup_filter(4000), i) FROM generate_series(1, 0) i
	UNION ALL SELECT partial_agg(dedup_filter(4000), NULL::int) FROM generate_series(1, 5) i) p;

-- a state that did not go through them is refused

CREATE TABLE states AS SELECT partial_agg(dedup_filter(4000), i) AS state FROM generate_series(1, 3000) i;
SELECT combine_agg(state) FROM states;

-- no OID is in the bytes: types made again, after others, give the same

\set QUIET on
CREATE FUNCTION of_own_types() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	filter text;
BEGIN
	CREATE TYPE colour AS ENUM ('red', 'green', 'blue');
	CREATE TYPE dot AS (x int, c colour);
	CREATE DOMAIN shade AS colour;
	CREATE TYPE colours AS RANGE (subtype = colour);
	EXECUTE $q$ SELECT dedup_agg(dedup_filter(100), c, ARRAY[c], ROW(1, c)::dot, c::shade, colours('red', c))::text
		FROM unnest(enum_range(NULL::colour)) c $q$ INTO filter;
	DROP TYPE colours;
	DROP DOMAIN shade;
	DROP TYPE dot;
	DROP TYPE colour;
	RETURN filter;
END $$;
CREATE TABLE before AS SELECT of_own_types() AS filter;
CREATE TYPE other AS ENUM ('blue', 'red');
\set QUIET off
SELECT of_own_types() = filter AS no_oids, dedup_count(filter::dedup_filter) AS keys FROM before;

\set QUIET on
SET client_min_messages = error;
DROP SCHEMA distributed CASCADE;
