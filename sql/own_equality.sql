-- A type's own equality decides which values are one key, wherever the type is contained: in arrays, rows, domains,
-- ranges. The type is fractions: 1/2 is 2/4. Its operator classes are made step by step, because these decide.

\set QUIET on
CREATE SCHEMA own_test;
SET search_path = own_test, public;
SET client_min_messages = warning;
SET max_parallel_workers_per_gather = 0;

-- the class for btree, with a class for hash, or another class for hash, or none
CREATE FUNCTION make_fraction(name text, btree boolean, hash text, extended boolean DEFAULT true) RETURNS void
	LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE TYPE %s AS (n int, d int)', name);
	EXECUTE format('CREATE FUNCTION %1$s_cmp(a %1$s, b %1$s) RETURNS int IMMUTABLE STRICT LANGUAGE sql AS ''SELECT sign(a.n * b.d - b.n * a.d)::int''', name);
	EXECUTE format('CREATE FUNCTION %1$s_hash(a %1$s) RETURNS int IMMUTABLE STRICT LANGUAGE sql AS ''SELECT hashint4(a.n * 1000 / a.d)''', name);
	EXECUTE format('CREATE FUNCTION %1$s_hash(a %1$s, s bigint) RETURNS bigint IMMUTABLE STRICT LANGUAGE sql AS ''SELECT hashint4extended(a.n * 1000 / a.d, s)''', name);
	EXECUTE format('CREATE FUNCTION %1$s_eq(a %1$s, b %1$s) RETURNS bool IMMUTABLE STRICT LANGUAGE sql AS ''SELECT a.n * b.d = b.n * a.d''', name);
	EXECUTE format('CREATE FUNCTION %1$s_lt(a %1$s, b %1$s) RETURNS bool IMMUTABLE STRICT LANGUAGE sql AS ''SELECT a.n * b.d < b.n * a.d''', name);
	EXECUTE format('CREATE FUNCTION %1$s_le(a %1$s, b %1$s) RETURNS bool IMMUTABLE STRICT LANGUAGE sql AS ''SELECT a.n * b.d <= b.n * a.d''', name);
	EXECUTE format('CREATE FUNCTION %1$s_ge(a %1$s, b %1$s) RETURNS bool IMMUTABLE STRICT LANGUAGE sql AS ''SELECT a.n * b.d >= b.n * a.d''', name);
	EXECUTE format('CREATE FUNCTION %1$s_gt(a %1$s, b %1$s) RETURNS bool IMMUTABLE STRICT LANGUAGE sql AS ''SELECT a.n * b.d > b.n * a.d''', name);
	EXECUTE format('CREATE OPERATOR = (leftarg = %1$s, rightarg = %1$s, function = %1$s_eq, commutator = =, hashes, merges)', name);
	EXECUTE format('CREATE OPERATOR < (leftarg = %1$s, rightarg = %1$s, function = %1$s_lt)', name);
	EXECUTE format('CREATE OPERATOR <= (leftarg = %1$s, rightarg = %1$s, function = %1$s_le)', name);
	EXECUTE format('CREATE OPERATOR >= (leftarg = %1$s, rightarg = %1$s, function = %1$s_ge)', name);
	EXECUTE format('CREATE OPERATOR > (leftarg = %1$s, rightarg = %1$s, function = %1$s_gt)', name);
	IF btree THEN
		EXECUTE format('CREATE OPERATOR CLASS %1$s_btree DEFAULT FOR TYPE %1$s USING btree AS OPERATOR 1 <, OPERATOR 2 <=,
			OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 %1$s_cmp(%1$s, %1$s)', name);
	END IF;
	IF hash IS NOT NULL THEN
		EXECUTE format('CREATE OPERATOR CLASS %1$s_hash %2$s FOR TYPE %1$s USING hash AS OPERATOR 1 =, FUNCTION 1 %1$s_hash(%1$s)', name, hash) ||
			CASE WHEN extended THEN format(', FUNCTION 2 %1$s_hash(%1$s, bigint)', name) ELSE '' END;
	END IF;
END $$;
SELECT make_fraction('frac', true, 'DEFAULT');
SELECT make_fraction('hash_only', false, 'DEFAULT');
SELECT make_fraction('narrow', true, 'DEFAULT', extended => false);
SELECT make_fraction('joined', true, '');
SELECT make_fraction('btree_only', true, NULL);
SELECT make_fraction('operator_only', false, NULL);
CREATE TYPE plain AS (n int, d int);

CREATE DOMAIN frac_domain AS frac CHECK ((VALUE).d <> 0);
CREATE DOMAIN frac_array_domain AS frac_domain[];
CREATE TYPE fracrange AS RANGE (subtype = frac);
CREATE TYPE domainrange AS RANGE (subtype = frac_domain, subtype_opclass = frac_btree);
CREATE TYPE holder AS (id int, gone text, f frac, fs frac[]);
ALTER TYPE holder DROP ATTRIBUTE gone;
CREATE TYPE outer_holder AS (h holder, r fracrange);

-- Of all pairs of these spellings: whether a filter of the one finds the other exactly
-- where the type calls them equal; and the aggregate and the window function must count
-- as many as DISTINCT does.
CREATE FUNCTION keys_of(type text, spellings text[], OUT spelled bigint, OUT keys bigint,
	OUT pairs_right boolean, OUT agg_right boolean, OUT count_right boolean, OUT window_right boolean)
	LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('SELECT count(*), bool_and(
			dedup_contains(dedup_add(dedup_filter(10), a.v::%1$s), b.v::%1$s) = (a.v::%1$s = b.v::%1$s))
		FROM unnest($1) a(v), unnest($1) b(v)', type) INTO spelled, pairs_right USING spellings;
	spelled := cardinality(spellings);
	EXECUTE format('SELECT count(*) FROM (SELECT DISTINCT v::%s FROM unnest($1) v) x', type) INTO keys USING spellings;
	EXECUTE format('SELECT dedup_count(dedup_agg(v::%1$s)) = $2, approx_count_distinct(v::%1$s) = $2 FROM unnest($1) v', type)
		INTO agg_right, count_right USING spellings, keys;
	EXECUTE format('SELECT count(*) FILTER (WHERE is_new) = $2 FROM (SELECT dedup_is_new(v::%s) OVER () AS is_new FROM unnest($1) v) x', type)
		INTO window_right USING spellings, keys;
END $$;
\set QUIET off

-- every container, against its own = operator

SELECT type, k.* FROM (VALUES
	('frac', '{"(1,2)","(2,4)","(3,6)","(1,3)","(2,6)"}'::text[]),
	('narrow', '{"(1,2)","(2,4)","(3,6)","(1,3)","(2,6)"}'),
	('joined', '{"(1,2)","(2,4)","(3,6)","(1,3)","(2,6)"}'),
	('frac_domain', '{"(1,2)","(2,4)","(1,3)"}'),
	('frac[]', '{"{}","{\"(1,2)\"}","{\"(2,4)\"}","{\"(1,2)\",\"(1,3)\"}","{\"(2,4)\",\"(2,6)\"}","{NULL,\"(1,2)\"}","{NULL,\"(2,4)\"}","[0:0]={\"(2,4)\"}"}'),
	('frac_array_domain', '{"{\"(1,2)\"}","{\"(2,4)\"}","{\"(1,3)\"}"}'),
	('fracrange', '{"[\"(1,2)\",\"(1,1)\")","[\"(2,4)\",\"(2,2)\")","[\"(1,2)\",\"(1,1)\"]","[\"(1,2)\",)","[\"(2,4)\",)",empty}'),
	('fracrange[]', '{"{\"[\\\"(1,2)\\\",)\"}","{\"[\\\"(2,4)\\\",)\"}","{\"[\\\"(1,3)\\\",)\"}"}'),
	('domainrange', '{"[\"(1,2)\",\"(1,1)\")","[\"(2,4)\",\"(2,2)\")","[\"(1,3)\",)"}'),
	('holder', '{"(1,\"(1,2)\",\"{\"\"(1,3)\"\"}\")","(1,\"(2,4)\",\"{\"\"(2,6)\"\"}\")","(1,\"(2,4)\",)","(1,\"(1,2)\",)","(1,,)","(,,)","(2,\"(1,2)\",)"}'),
	('holder[]', '{"{\"(1,\\\"(1,2)\\\",)\"}","{\"(1,\\\"(2,4)\\\",)\"}","{\"(2,\\\"(2,4)\\\",)\"}"}')
) v(type, spellings), keys_of(type, spellings) k;

-- multiranges compare the bounds themselves

SELECT CASE WHEN current_setting('server_version_num')::int < 140000 THEN true
	ELSE (SELECT k.keys = 2 AND pairs_right AND agg_right AND count_right AND window_right
		FROM keys_of('fracmultirange', '{"{[\"(1,2)\",\"(1,1)\")}","{[\"(2,4)\",\"(2,2)\")}","{[\"(1,3)\",\"(1,2)\"),[\"(2,4)\",\"(1,1)\")}","{[\"(1,3)\",\"(1,1)\")}"}') k) END AS multirange;

-- rows: named, nested and anonymous; arrays of records; whole rows of a table

CREATE TABLE pairs (a frac, b frac, c text);
INSERT INTO pairs VALUES (ROW(1, 2), ROW(2, 4), 'x'), (ROW(3, 6), ROW(1, 2), 'x'), (ROW(1, 3), ROW(1, 2), 'x'), (NULL, ROW(1, 2), 'x'), (NULL, ROW(2, 4), 'x');
SELECT dedup_contains(dedup_add(dedup_filter(10), ROW(1, ROW(1, 2)::frac)), ROW(1, ROW(2, 4)::frac)) AS anonymous,
	dedup_contains(dedup_add(dedup_filter(10), ROW(1, ROW(1, 2))), ROW(1, ROW(2, 4))) AS no_fraction,
	dedup_contains(dedup_add(dedup_filter(10), ARRAY[ROW(1, ROW(1, 2)::frac)]), ARRAY[ROW(1, ROW(2, 4)::frac)]) AS record_array,
	dedup_contains(dedup_add(dedup_filter(10), ROW(ROW(1, ROW(1, 2), NULL)::holder, NULL)::outer_holder),
		ROW(ROW(1, ROW(2, 4), NULL)::holder, NULL)::outer_holder) AS nested,
	dedup_contains(dedup_add(dedup_filter(10), ROW(ROW(1, 2)::btree_only IS NULL, ROW(1, 2)::frac)), ROW(false, ROW(3, 6)::frac)) AS other,
	dedup_contains(dedup_add(dedup_filter(10), 7, ROW(1, 2)::frac), 7, ROW(2, 4)::frac) AS columns,
	dedup_contains(dedup_add(dedup_filter(10), VARIADIC ARRAY[ROW(1, 2)::frac, ROW(1, 3)::frac]), ROW(2, 4)::frac, ROW(2, 6)::frac) AS variadic;
SELECT approx_count_distinct(p) AS rows, (SELECT count(*) FROM (SELECT DISTINCT p FROM pairs p) d) AS exact,
	dedup_count(dedup_agg(a, b)) AS without_nulls, dedup_count(dedup_add_all(dedup_filter(10), array_agg(a) || array_agg(b))) AS all_of FROM pairs p;
SELECT array_agg(is_new ORDER BY n) AS window FROM (SELECT n, dedup_is_new(a, b) OVER (ORDER BY n) AS is_new FROM (SELECT *, row_number() OVER () AS n FROM pairs) p) w;
SELECT count(*) AS dedup_rows FROM dedup_rows('SELECT * FROM pairs', 'a', 'b') AS (a frac, b frac, c text);
SELECT dedup_new_keys(dedup_add(dedup_filter(10), ROW(1, 2)::frac), ARRAY[ROW(2, 4), ROW(1, 3), ROW(3, 6)]::frac[]);

-- enums, arrays, ranges and a base type's kin with an equality of their own

\set QUIET on
CREATE TYPE answer AS ENUM ('yes', 'YES', 'no');
CREATE FUNCTION answer_eq(a answer, b answer) RETURNS bool IMMUTABLE STRICT LANGUAGE sql AS 'SELECT lower(a::text) = lower(b::text)';
CREATE FUNCTION answer_hash(a answer) RETURNS int IMMUTABLE STRICT LANGUAGE plpgsql AS 'BEGIN RETURN hashtext(lower(a::text)); END';
CREATE OPERATOR = (leftarg = answer, rightarg = answer, function = answer_eq, hashes);
CREATE OPERATOR CLASS answer_hash DEFAULT FOR TYPE answer USING hash AS OPERATOR 1 =, FUNCTION 1 answer_hash(answer);
CREATE TYPE plain_answer AS ENUM ('yes', 'YES', 'no');

-- an array is a bag
CREATE FUNCTION bag(a plain[]) RETURNS text IMMUTABLE STRICT LANGUAGE sql AS 'SELECT string_agg(e::text, '';'' ORDER BY e::text) FROM unnest(a) e';
CREATE FUNCTION bag_eq(a plain[], b plain[]) RETURNS bool IMMUTABLE STRICT LANGUAGE sql AS 'SELECT own_test.bag(a) IS NOT DISTINCT FROM own_test.bag(b)';
CREATE FUNCTION bag_hash(a plain[]) RETURNS int IMMUTABLE STRICT LANGUAGE sql AS 'SELECT hashtext(coalesce(own_test.bag(a), ''''))';
CREATE OPERATOR = (leftarg = plain[], rightarg = plain[], function = bag_eq, hashes);
CREATE OPERATOR CLASS bag_hash DEFAULT FOR TYPE plain[] USING hash AS OPERATOR 1 =, FUNCTION 1 bag_hash(plain[]);

-- a range is its length; the multirange of it is not concerned
CREATE TYPE span AS RANGE (subtype = int);
CREATE FUNCTION span_eq(a span, b span) RETURNS bool IMMUTABLE STRICT LANGUAGE sql AS 'SELECT upper(a) - lower(a) = upper(b) - lower(b)';
CREATE FUNCTION span_hash(a span) RETURNS int IMMUTABLE STRICT LANGUAGE sql AS 'SELECT upper(a) - lower(a)';
CREATE OPERATOR = (leftarg = span, rightarg = span, function = span_eq, hashes);
CREATE OPERATOR CLASS span_hash DEFAULT FOR TYPE span USING hash AS OPERATOR 1 =, FUNCTION 1 span_hash(span);

CREATE FUNCTION asked(query text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	answer boolean;
BEGIN
	EXECUTE query INTO answer;
	RETURN answer;
END $$;

-- a range that compares its bounds by another class than the default one
CREATE FUNCTION ci_cmp(a text, b text) RETURNS int IMMUTABLE STRICT LANGUAGE sql AS 'SELECT bttextcmp(lower(a COLLATE "C") COLLATE "C", lower(b COLLATE "C") COLLATE "C")';
CREATE FUNCTION ci_eq(a text, b text) RETURNS bool IMMUTABLE STRICT LANGUAGE sql AS 'SELECT own_test.ci_cmp(a, b) = 0';
CREATE FUNCTION ci_lt(a text, b text) RETURNS bool IMMUTABLE STRICT LANGUAGE sql AS 'SELECT own_test.ci_cmp(a, b) < 0';
CREATE FUNCTION ci_hash(a text) RETURNS int IMMUTABLE STRICT LANGUAGE sql AS 'SELECT hashtext(lower(a COLLATE "C") COLLATE "C")';
CREATE OPERATOR =%= (leftarg = text, rightarg = text, function = ci_eq, hashes);
CREATE OPERATOR <% (leftarg = text, rightarg = text, function = ci_lt);
CREATE OPERATOR CLASS ci_ops FOR TYPE text USING btree AS OPERATOR 1 <%, OPERATOR 3 =%=, FUNCTION 1 ci_cmp(text, text);
CREATE TYPE cirange AS RANGE (subtype = text, subtype_opclass = ci_ops, collation = "C");
CREATE TYPE patternrange AS RANGE (subtype = text, subtype_opclass = text_pattern_ops, collation = "C");
CREATE TYPE bytesrange AS RANGE (subtype = frac, subtype_opclass = record_image_ops);
CREATE TYPE columnrange AS RANGE (subtype = frac, subtype_opclass = record_ops);
\set QUIET off

SELECT dedup_contains(dedup_add(dedup_filter(10), 'yes'::answer), 'YES'::answer) AS own_enum,
	dedup_contains(dedup_add(dedup_filter(10), ARRAY['yes'::answer]), ARRAY['YES'::answer]) AS in_array,
	dedup_contains(dedup_add(dedup_filter(10), 'yes'::plain_answer), 'YES'::plain_answer) AS plain_enum,
	dedup_contains(dedup_add(dedup_filter(10), 'yes'::answer), 'no'::answer) AS another;
SELECT dedup_contains(dedup_add(dedup_filter(10), '{"(1,2)","(1,3)"}'::plain[]), '{"(1,3)","(1,2)"}'::plain[]) AS own_array,
	dedup_contains(dedup_add(dedup_filter(10), ROW(1, '{"(1,2)","(1,3)"}'::plain[])), ROW(1, '{"(1,3)","(1,2)"}'::plain[])) AS in_row,
	dedup_contains(dedup_add(dedup_filter(10), '{"(1,2)"}'::plain[]), '{"(2,4)"}'::plain[]) AS another;
SELECT dedup_contains(dedup_add(dedup_filter(10), '[1,3)'::span), '[2,4)'::span) AS own_range,
	dedup_contains(dedup_add(dedup_filter(10), '[1,3)'::span), '[2,5)'::span) AS another,
	CASE WHEN current_setting('server_version_num')::int < 140000 THEN false ELSE
		asked($$SELECT dedup_contains(dedup_add(dedup_filter(10), '{[1,3)}'::span_multirange), '{[2,4)}'::span_multirange)$$) END AS multirange;
SELECT dedup_add(dedup_filter(10), '[a,b)'::cirange);
CREATE OPERATOR CLASS ci_hash FOR TYPE text USING hash AS OPERATOR 1 =%=, FUNCTION 1 ci_hash(text);
SELECT '[a,b)'::cirange = '[A,B)'::cirange AS equal,
	dedup_contains(dedup_add(dedup_filter(10), '[a,b)'::cirange), '[A,B)'::cirange) AS own_bounds,
	dedup_contains(dedup_add(dedup_filter(10), '[a,b)'::cirange), '[A,C)'::cirange) AS another,
	dedup_contains(dedup_add(dedup_filter(10), '[a,b)'::patternrange), '[A,B)'::patternrange) AS pattern,
	dedup_contains(dedup_add(dedup_filter(10), '["(1,2)",)'::columnrange), '["(2,4)",)'::columnrange) AS by_columns,
	dedup_contains(dedup_add(dedup_filter(10), '["(2,4)",)'::columnrange), '["(2,4)",)'::columnrange) AS the_same;
SELECT dedup_add(dedup_filter(10), '["(1,2)",)'::bytesrange);

-- Base types: one whose default btree and hash classes have different equalities, of which
-- that for btree counts, until a hash function goes with it; and two that are binary coercible
-- to text, without and with a class of their own.

\set QUIET on
CREATE FUNCTION make_word(name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE TYPE %s', name);
	EXECUTE format('CREATE FUNCTION %1$s_in(cstring) RETURNS %1$s IMMUTABLE STRICT LANGUAGE internal AS ''textin''', name);
	EXECUTE format('CREATE FUNCTION %1$s_out(%1$s) RETURNS cstring IMMUTABLE STRICT LANGUAGE internal AS ''textout''', name);
	EXECUTE format('CREATE TYPE %1$s (INPUT = %1$s_in, OUTPUT = %1$s_out, LIKE = text, COLLATABLE = true)', name);
	EXECUTE format('CREATE CAST (%1$s AS text) WITHOUT FUNCTION AS IMPLICIT', name);
	EXECUTE format('CREATE FUNCTION %1$s_same(a %1$s, b %1$s) RETURNS bool IMMUTABLE STRICT LANGUAGE sql AS ''SELECT lower(a::text COLLATE "C") = lower(b::text COLLATE "C")''', name);
	EXECUTE format('CREATE FUNCTION %1$s_hash(a %1$s) RETURNS int IMMUTABLE STRICT LANGUAGE sql AS ''SELECT hashtext(lower(a::text COLLATE "C") COLLATE "C")''', name);
	EXECUTE format('CREATE FUNCTION %1$s_exact_hash(a %1$s) RETURNS int IMMUTABLE STRICT LANGUAGE sql AS ''SELECT hashtext(a::text COLLATE "C")''', name);
	EXECUTE format('CREATE FUNCTION %1$s_eq(a %1$s, b %1$s) RETURNS bool IMMUTABLE STRICT LANGUAGE sql AS ''SELECT a::text COLLATE "C" = b::text COLLATE "C"''', name);
	EXECUTE format('CREATE FUNCTION %1$s_cmp(a %1$s, b %1$s) RETURNS int IMMUTABLE STRICT LANGUAGE sql AS ''SELECT bttextcmp(a::text COLLATE "C", b::text COLLATE "C")''', name);
	EXECUTE format('CREATE OPERATOR ~~~ (leftarg = %1$s, rightarg = %1$s, function = %1$s_same, hashes)', name);
END $$;
SELECT make_word('word') \g /dev/null
CREATE OPERATOR = (leftarg = word, rightarg = word, function = word_eq, hashes, merges);
CREATE OPERATOR CLASS word_btree DEFAULT FOR TYPE word USING btree AS OPERATOR 3 =, FUNCTION 1 word_cmp(word, word);
CREATE OPERATOR CLASS word_hash DEFAULT FOR TYPE word USING hash AS OPERATOR 1 ~~~, FUNCTION 1 word_hash(word);
SELECT make_word('coercible') \g /dev/null
SELECT make_word('coercible_own') \g /dev/null
CREATE OPERATOR CLASS own_hash DEFAULT FOR TYPE coercible_own USING hash AS OPERATOR 1 ~~~, FUNCTION 1 coercible_own_hash(coercible_own);
\set QUIET off
SELECT dedup_add(dedup_filter(10), 'a'::word);
CREATE OPERATOR CLASS word_exact_hash FOR TYPE word USING hash AS OPERATOR 1 =, FUNCTION 1 word_exact_hash(word);
SELECT dedup_contains(dedup_add(dedup_filter(10), 'a'::word), 'a'::word) AS same, dedup_contains(dedup_add(dedup_filter(10), 'a'::word), 'A'::word) AS another;
SELECT dedup_contains(dedup_add(dedup_filter(10), 'a'::coercible), 'a'::coercible) AS same,
	dedup_contains(dedup_add(dedup_filter(10), 'a'::coercible), 'A'::coercible) AS another,
	dedup_contains(dedup_add(dedup_filter(10), 'a'::coercible_own), 'A'::coercible_own) AS own,
	dedup_contains(dedup_add(dedup_filter(10), '{a,b}'::coercible_own[]), '{A,B}'::coercible_own[]) AS own_in_array;

-- an equality without a hash function is refused, in every container

\set VERBOSITY terse
SELECT dedup_add(dedup_filter(10), ROW(1, 2)::btree_only);
SELECT dedup_agg(ARRAY[ROW(1, 2)::btree_only]);
SELECT approx_count_distinct(ROW(1, ROW(1, 2)::btree_only));
SELECT dedup_is_new(ROW(1, 2)::operator_only) OVER ();
SELECT dedup_add_all(dedup_filter(10), ARRAY[ROW(1, 2)::operator_only]);
SELECT * FROM dedup_rows('SELECT ROW(1, 2)::own_test.btree_only AS b', 'b') AS (b btree_only);
\set VERBOSITY default
-- but for a row type's columns a NULL is no reason
SELECT dedup_contains(dedup_filter(10), NULL::holder);

-- a stranger's operator says nothing of another's type

\set QUIET on
CREATE ROLE regress_own_stranger;
CREATE SCHEMA stranger AUTHORIZATION regress_own_stranger;
GRANT USAGE ON SCHEMA own_test TO regress_own_stranger;
SET ROLE regress_own_stranger;
CREATE FUNCTION stranger.eq(plain, plain) RETURNS bool IMMUTABLE LANGUAGE sql AS 'SELECT true';
CREATE OPERATOR stranger.= (leftarg = plain, rightarg = plain, function = stranger.eq);
RESET ROLE;
\set QUIET off
SELECT dedup_contains(dedup_add(dedup_filter(10), ROW(1, 2)::plain), ROW(1, 2)::plain) AS same,
	dedup_contains(dedup_add(dedup_filter(10), ROW(1, 2)::plain), ROW(2, 4)::plain) AS another,
	dedup_add(dedup_filter(10), ROW(1, 2)::plain)::bytea = dedup_add(dedup_filter(10), ROW(1, 2))::bytea AS as_anonymous,
	encode(substr(dedup_add(dedup_filter(10), ROW(1, 2)::plain)::bytea, 61), 'hex') AS as_ever;

-- DISTINCT and count(DISTINCT) through a filter; of what cannot be hashed, exact

CREATE FUNCTION explained(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	way text := 'exact';
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF, VERBOSE) ' || query LOOP
		IF line ~ 'ApproximateDistinct|approx_count_distinct' THEN way := 'approximate'; END IF;
	END LOOP;
	RETURN way;
END $$;
CREATE TABLE many (f frac, h hash_only, n narrow, j joined, b btree_only, o operator_only, p plain, r fracrange, c cirange, y bytesrange);
INSERT INTO many SELECT ROW(x, 2 * x)::frac, ROW(x, 2 * x)::hash_only, ROW(x, 2 * x)::narrow, ROW(x, 2 * x)::joined,
	ROW(x, 2 * x)::btree_only, ROW(x, 2 * x)::operator_only, ROW(x, 2 * x)::plain,
	fracrange(ROW(x, 2 * x)::frac, NULL), cirange(chr(96 + x), NULL), bytesrange(ROW(x, 2 * x)::frac, NULL)
	FROM generate_series(1, 2000) g, LATERAL (SELECT g % 4 + 1 AS x) s;
ANALYZE many;
SELECT dedup_approximate_distinct(true);
CREATE TABLE plans (expression text, distinct_plan text, rows bigint, count_plan text, count bigint);
-- A function that an INSERT calls would run exactly: so the answers come into variables first.
DO $$
DECLARE
	e text;
	row plans;
BEGIN
	FOREACH e IN ARRAY '{f,h,n,j,b,o,p,r,c,y,ARRAY[f],ARRAY[h],ARRAY[b],ARRAY[o],f::frac_domain,"ROW(1,f)","ROW(1,f,NULL)::holder","ROW(1,b)"}'::text[] LOOP
		row.expression := e;
		EXECUTE format('SELECT explained(%L)', format('SELECT DISTINCT %s FROM many', e)) INTO row.distinct_plan;
		EXECUTE format('SELECT count(*) FROM (SELECT DISTINCT %s FROM many) d', e) INTO row.rows;
		EXECUTE format('SELECT explained(%L)', format('SELECT count(DISTINCT %s) FROM many', e)) INTO row.count_plan;
		EXECUTE format('SELECT count(DISTINCT %s) FROM many', e) INTO row.count;
		INSERT INTO plans SELECT (row).*;
	END LOOP;
END $$;
-- servers before 14 cannot hash rows
\set QUIET on
UPDATE plans SET distinct_plan = 'approximate', count_plan = 'approximate'
	WHERE current_setting('server_version_num')::int < 140000 AND expression ~ '^p$|holder' AND distinct_plan = 'exact';
\set QUIET off
TABLE plans ORDER BY expression COLLATE "C";
SELECT explained('SELECT DISTINCT ON (f) f, b FROM many') AS distinct_on, count(*) FROM (SELECT DISTINCT ON (f) f, b FROM many) d;
SELECT dedup_approximate_distinct(false);

-- live filters and guards

SELECT dedup_create('own_live', dedup_window(100));
SELECT is_new('own_live', ROW(1, 2)::frac) AS first, is_new('own_live', ROW(2, 4)::frac) AS again,
	dedup_seen('own_live', ROW(3, 6)::frac) AS seen, is_new('own_live', 1, ARRAY[ROW(1, 3)::frac]) AS first_of_two,
	is_new('own_live', 1, ARRAY[ROW(2, 6)::frac]) AS again_of_two;
SELECT dedup_new_keys('own_live', '{"(4,8)","(1,5)","(2,10)"}'::frac[]);
CREATE TABLE guarded (f frac, hs holder[], note text);
SELECT dedup_create('own_guard', dedup_window(100));
SELECT dedup_guard('guarded', 'own_guard', ARRAY['f', 'hs']);
INSERT INTO guarded VALUES (ROW(1, 2), ARRAY[ROW(1, ROW(1, 3), NULL)::holder], 'first'), (ROW(2, 4), ARRAY[ROW(1, ROW(2, 6), NULL)::holder], 'again'),
	(ROW(2, 4), ARRAY[ROW(1, ROW(1, 4), NULL)::holder], 'another'), (ROW(2, 4), NULL, 'no key');
UPDATE guarded SET f = ROW(3, 6) WHERE note = 'first';
INSERT INTO guarded VALUES (ROW(7, 14), ARRAY[ROW(1, ROW(7, 21), NULL)::holder], 'again');
BEGIN;
DELETE FROM guarded WHERE note = 'first';
INSERT INTO guarded VALUES (ROW(7, 14), ARRAY[ROW(1, ROW(7, 21), NULL)::holder], 'instead');
COMMIT;
SELECT * FROM guarded ORDER BY note;
CREATE TABLE unguarded (b btree_only, o operator_only[]);
SELECT dedup_create('own_other', dedup_window(100));
SELECT dedup_guard('unguarded', 'own_other', ARRAY['b']);
SELECT dedup_guard('unguarded', 'own_other', ARRAY['o']);

-- An operator class that comes or goes counts from the next call on, in the same statement
-- and in plans that are kept.

CREATE TYPE later AS (n int, d int);
CREATE TABLE later_guarded (l later, note text);
SELECT dedup_create('own_later', dedup_window(100));
SELECT dedup_guard('later_guarded', 'own_later', ARRAY['l']);
INSERT INTO later_guarded VALUES (ROW(1, 2), 'by columns'), (ROW(2, 4), 'by columns'), (ROW(1, 2), 'again');
DO $$
DECLARE
	f dedup_filter := dedup_add(dedup_filter(10), ROW(1, 2)::later);
	found boolean[];
BEGIN
	FOR step IN 1..5 LOOP
		CASE step
			WHEN 2 THEN
				CREATE FUNCTION later_eq(a later, b later) RETURNS bool IMMUTABLE STRICT LANGUAGE sql AS 'SELECT a.n * b.d = b.n * a.d';
				CREATE FUNCTION later_hash(a later) RETURNS int IMMUTABLE STRICT LANGUAGE sql AS 'SELECT hashint4(a.n * 1000 / a.d)';
				CREATE OPERATOR = (leftarg = later, rightarg = later, function = later_eq, hashes);
				CREATE OPERATOR CLASS later_hash DEFAULT FOR TYPE later USING hash AS OPERATOR 1 =, FUNCTION 1 later_hash(later);
				f := dedup_add(dedup_filter(10), ROW(1, 2)::later);
			WHEN 4 THEN
				DROP OPERATOR FAMILY later_hash USING hash;
				DROP OPERATOR = (later, later);
				DROP FUNCTION later_hash(later);
				f := dedup_add(dedup_filter(10), ROW(1, 2)::later);
			ELSE NULL;
		END CASE;
		found := found || dedup_contains(f, ROW(2, 4)::later) || dedup_contains(f, ROW(1, 2)::later);
	END LOOP;
	RAISE WARNING 'equal and same: %', found;
END $$;
CREATE OPERATOR = (leftarg = later, rightarg = later, function = later_eq);
INSERT INTO later_guarded VALUES (ROW(1, 2), 'operator');
CREATE FUNCTION later_hash(a later) RETURNS int IMMUTABLE STRICT LANGUAGE sql AS 'SELECT hashint4(a.n * 1000 / a.d)';
CREATE OPERATOR CLASS later_hash DEFAULT FOR TYPE later USING hash AS OPERATOR 1 =, FUNCTION 1 later_hash(later);
INSERT INTO later_guarded VALUES (ROW(1, 2), 'by class'), (ROW(2, 4), 'by class, again');
-- in another language
CREATE OR REPLACE FUNCTION later_hash(a later) RETURNS int IMMUTABLE STRICT LANGUAGE plpgsql AS 'BEGIN RETURN hashint4(a.n * 1000 / a.d); END';
INSERT INTO later_guarded VALUES (ROW(4, 8), 'by class, again');
DROP OPERATOR FAMILY later_hash USING hash;
DROP OPERATOR = (later, later);
DROP FUNCTION later_hash(later);
INSERT INTO later_guarded VALUES (ROW(1, 2), 'by columns, again'), (ROW(5, 10), 'by columns');
SELECT * FROM later_guarded ORDER BY note, l;

-- hash functions that fail, return NULL, are not consistent, or come back to where they
-- were called from

CREATE TYPE odd AS (what text);
CREATE FUNCTION odd_eq(odd, odd) RETURNS bool IMMUTABLE LANGUAGE sql AS 'SELECT true';
CREATE SEQUENCE odd_calls;
CREATE TABLE odd_guarded (o odd);
CREATE FUNCTION odd_hash(a odd) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	IF a.what = 'fails' THEN RAISE 'no hash for this'; END IF;
	IF a.what = 'null' THEN RETURN NULL; END IF;
	IF a.what = 'varies' THEN RETURN nextval('odd_calls'); END IF;
	IF a.what = 'nests' THEN INSERT INTO odd_guarded VALUES (ROW('nested')); END IF;
	IF a.what = 'changes' THEN CREATE OPERATOR own_test.=== (leftarg = odd, rightarg = odd, function = odd_eq); INSERT INTO odd_guarded VALUES (ROW('nested')); END IF;
	RETURN 1;
END $$;
CREATE FUNCTION odd_hash(a odd, s bigint) RETURNS bigint LANGUAGE sql AS $$ SELECT own_test.odd_hash(a)::bigint $$;
CREATE OPERATOR = (leftarg = odd, rightarg = odd, function = odd_eq, hashes);
CREATE OPERATOR CLASS odd_hash DEFAULT FOR TYPE odd USING hash AS OPERATOR 1 =, FUNCTION 1 odd_hash(odd), FUNCTION 2 odd_hash(odd, bigint);
SELECT dedup_create('own_odd', dedup_window(100));
SELECT dedup_guard('odd_guarded', 'own_odd', ARRAY['o']);
\set VERBOSITY sqlstate
INSERT INTO odd_guarded VALUES (ROW('null'));
\set VERBOSITY terse
INSERT INTO odd_guarded VALUES (ROW('fails'));
SELECT dedup_agg(ROW(w)::odd) FROM unnest('{nested,fails}'::text[]) w;
\set VERBOSITY default
INSERT INTO odd_guarded VALUES (ROW('varies'));
SELECT count(*) FROM odd_guarded;
INSERT INTO odd_guarded VALUES (ROW('nests'));
SELECT * FROM odd_guarded;
-- the plan in use is made anew meanwhile
INSERT INTO odd_guarded VALUES (ROW('changes'));
INSERT INTO odd_guarded VALUES (ROW('nests'));
SELECT dedup_count(dedup_agg(ROW(w)::odd)) BETWEEN 2 AND 4 AS some FROM unnest('{varies,nested,varies,nests}'::text[]) w;
SELECT * FROM odd_guarded;

\set QUIET on
DROP OWNED BY regress_own_stranger;
DROP ROLE regress_own_stranger;
SELECT dedup_unguard('guarded'), dedup_unguard('later_guarded'), dedup_unguard('odd_guarded') \g /dev/null
DROP SCHEMA own_test CASCADE;
