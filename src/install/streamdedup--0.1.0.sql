/* streamdedup--0.1.0.sql */
-- SPDX-License-Identifier: PostgreSQL

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION streamdedup" to load this file. \quit

-- ---- the type ----

CREATE TYPE dedup_filter;

CREATE FUNCTION dedup_filter_in(cstring) RETURNS dedup_filter
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION dedup_filter_out(dedup_filter) RETURNS cstring
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION dedup_filter_recv(internal) RETURNS dedup_filter
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION dedup_filter_send(dedup_filter) RETURNS bytea
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE TYPE dedup_filter (
	INPUT = dedup_filter_in,
	OUTPUT = dedup_filter_out,
	RECEIVE = dedup_filter_recv,
	SEND = dedup_filter_send,
	INTERNALLENGTH = VARIABLE,
	ALIGNMENT = double,
	STORAGE = external
);

COMMENT ON TYPE dedup_filter IS 'set of keys that answers whether a key was added before, at a known false-positive rate';

CREATE FUNCTION dedup_filter_from_bytea(bytea) RETURNS dedup_filter
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION dedup_filter_to_bytea(dedup_filter) RETURNS bytea
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE CAST (bytea AS dedup_filter) WITH FUNCTION dedup_filter_from_bytea(bytea);
CREATE CAST (dedup_filter AS bytea) WITH FUNCTION dedup_filter_to_bytea(dedup_filter);

-- ---- equality and order of filters ----

CREATE FUNCTION dedup_filter_lt(dedup_filter, dedup_filter) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION dedup_filter_le(dedup_filter, dedup_filter) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION dedup_filter_eq(dedup_filter, dedup_filter) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION dedup_filter_ne(dedup_filter, dedup_filter) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION dedup_filter_ge(dedup_filter, dedup_filter) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION dedup_filter_gt(dedup_filter, dedup_filter) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION dedup_filter_cmp(dedup_filter, dedup_filter) RETURNS integer
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION dedup_filter_hash(dedup_filter) RETURNS integer
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION dedup_filter_hash_extended(dedup_filter, seed bigint) RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

COMMENT ON FUNCTION dedup_filter_lt(dedup_filter, dedup_filter) IS 'whether the bytes of the first filter sort before those of the second';
COMMENT ON FUNCTION dedup_filter_le(dedup_filter, dedup_filter) IS 'whether the bytes of the first filter are those of the second or sort before them';
COMMENT ON FUNCTION dedup_filter_eq(dedup_filter, dedup_filter) IS 'whether two filters have the same bytes';
COMMENT ON FUNCTION dedup_filter_ne(dedup_filter, dedup_filter) IS 'whether two filters have different bytes';
COMMENT ON FUNCTION dedup_filter_ge(dedup_filter, dedup_filter) IS 'whether the bytes of the first filter are those of the second or sort after them';
COMMENT ON FUNCTION dedup_filter_gt(dedup_filter, dedup_filter) IS 'whether the bytes of the first filter sort after those of the second';
COMMENT ON FUNCTION dedup_filter_cmp(dedup_filter, dedup_filter) IS '-1, 0 or 1: the order of the bytes of two filters';
COMMENT ON FUNCTION dedup_filter_hash(dedup_filter) IS 'hash of a filter, for hash joins and indexes';
COMMENT ON FUNCTION dedup_filter_hash_extended(dedup_filter, bigint) IS 'hash of a filter with a seed, for hash joins and indexes';

CREATE OPERATOR < (
	LEFTARG = dedup_filter, RIGHTARG = dedup_filter, FUNCTION = dedup_filter_lt,
	COMMUTATOR = >, NEGATOR = >=, RESTRICT = scalarltsel, JOIN = scalarltjoinsel
);

CREATE OPERATOR <= (
	LEFTARG = dedup_filter, RIGHTARG = dedup_filter, FUNCTION = dedup_filter_le,
	COMMUTATOR = >=, NEGATOR = >, RESTRICT = scalarlesel, JOIN = scalarlejoinsel
);

CREATE OPERATOR = (
	LEFTARG = dedup_filter, RIGHTARG = dedup_filter, FUNCTION = dedup_filter_eq,
	COMMUTATOR = =, NEGATOR = <>, RESTRICT = eqsel, JOIN = eqjoinsel, HASHES, MERGES
);

CREATE OPERATOR <> (
	LEFTARG = dedup_filter, RIGHTARG = dedup_filter, FUNCTION = dedup_filter_ne,
	COMMUTATOR = <>, NEGATOR = =, RESTRICT = neqsel, JOIN = neqjoinsel
);

CREATE OPERATOR >= (
	LEFTARG = dedup_filter, RIGHTARG = dedup_filter, FUNCTION = dedup_filter_ge,
	COMMUTATOR = <=, NEGATOR = <, RESTRICT = scalargesel, JOIN = scalargejoinsel
);

CREATE OPERATOR > (
	LEFTARG = dedup_filter, RIGHTARG = dedup_filter, FUNCTION = dedup_filter_gt,
	COMMUTATOR = <, NEGATOR = <=, RESTRICT = scalargtsel, JOIN = scalargtjoinsel
);

COMMENT ON OPERATOR < (dedup_filter, dedup_filter) IS 'whether the bytes of the first filter sort before those of the second';
COMMENT ON OPERATOR <= (dedup_filter, dedup_filter) IS 'whether the bytes of the first filter are those of the second or sort before them';
COMMENT ON OPERATOR = (dedup_filter, dedup_filter) IS 'whether two filters have the same bytes';
COMMENT ON OPERATOR <> (dedup_filter, dedup_filter) IS 'whether two filters have different bytes';
COMMENT ON OPERATOR >= (dedup_filter, dedup_filter) IS 'whether the bytes of the first filter are those of the second or sort after them';
COMMENT ON OPERATOR > (dedup_filter, dedup_filter) IS 'whether the bytes of the first filter sort after those of the second';

CREATE OPERATOR CLASS dedup_filter_ops DEFAULT FOR TYPE dedup_filter USING btree AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
	FUNCTION 1 dedup_filter_cmp(dedup_filter, dedup_filter);

CREATE OPERATOR CLASS dedup_filter_ops DEFAULT FOR TYPE dedup_filter USING hash AS
	OPERATOR 1 =,
	FUNCTION 1 dedup_filter_hash(dedup_filter),
	FUNCTION 2 dedup_filter_hash_extended(dedup_filter, bigint);

-- ---- empty filters ----

CREATE FUNCTION dedup_filter(capacity bigint DEFAULT NULL, fpr float8 DEFAULT 0.01,
	seed bigint DEFAULT 0)
RETURNS dedup_filter
AS 'MODULE_PATHNAME', 'dedup_filter_make' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 100;

COMMENT ON FUNCTION dedup_filter(bigint, float8, bigint) IS 'empty filter that never forgets; without a capacity it grows and keeps its false-positive rate';

CREATE FUNCTION dedup_window(keys bigint, fpr float8 DEFAULT 0.01, seed bigint DEFAULT 0)
RETURNS dedup_filter
AS 'MODULE_PATHNAME', 'dedup_window_make' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;

COMMENT ON FUNCTION dedup_window(bigint, float8, bigint) IS 'empty filter that remembers the last distinct keys and forgets older ones';

CREATE FUNCTION dedup_method(method text, memory text, options text DEFAULT '', seed bigint DEFAULT 0)
RETURNS dedup_filter
AS 'MODULE_PATHNAME', 'dedup_method_make' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 100;

COMMENT ON FUNCTION dedup_method(text, text, text, bigint) IS 'empty filter of a named method; memory or an option gives its size';

CREATE FUNCTION dedup_advise(keys bigint DEFAULT NULL, fpr float8 DEFAULT 0.01, forget boolean DEFAULT NULL,
	first_sight boolean DEFAULT NULL, deletes boolean DEFAULT false,
	merges boolean DEFAULT false,
	OUT method text, OUT why text, OUT promise text, OUT bytes bigint, OUT bits_per_key float8,
	OUT expected_fpr float8, OUT missed float8, OUT speed text, OUT cannot text,
	OUT merging text, OUT parameters text, OUT prototype text)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 100 ROWS 10;

COMMENT ON FUNCTION dedup_advise(bigint, float8, boolean, boolean, boolean, boolean) IS 'methods with the requested properties, best first, with their sizes and false-positive rates';

-- ---- one filter ----

-- A parameter without a type as a key raises 42P18, because VARIADIC "any" gives the parser no
-- type. The server raises it before any function of ours runs, so the comments of the functions
-- have the hint.

CREATE FUNCTION dedup_add_support(internal) RETURNS internal
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

-- Not STRICT: a NULL key does not change the filter.
CREATE FUNCTION dedup_add(filter dedup_filter, VARIADIC key "any") RETURNS dedup_filter
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 20 SUPPORT dedup_add_support;

COMMENT ON FUNCTION dedup_add(dedup_filter, "any") IS 'the filter with the key added; a parameter as a key needs a type: $1::bigint';

CREATE FUNCTION dedup_add_all(filter dedup_filter, keys anyarray) RETURNS dedup_filter
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 100 SUPPORT dedup_add_support;

COMMENT ON FUNCTION dedup_add_all(dedup_filter, anyarray) IS 'the filter with every element of the array added; a parameter needs a type: $1::bigint[]';

CREATE FUNCTION dedup_contains(filter dedup_filter, VARIADIC key "any") RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

COMMENT ON FUNCTION dedup_contains(dedup_filter, "any") IS 'whether the key was added, or is taken for a key that was added; a parameter as a key needs a type: $1::bigint';

CREATE FUNCTION is_new(filter dedup_filter, VARIADIC key "any") RETURNS boolean
AS 'MODULE_PATHNAME', 'dedup_is_new_value' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

COMMENT ON FUNCTION is_new(dedup_filter, "any") IS 'whether the key was not added; the filter does not change; a parameter as a key needs a type: $1::bigint';

CREATE FUNCTION dedup_frequency(filter dedup_filter, VARIADIC key "any") RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

COMMENT ON FUNCTION dedup_frequency(dedup_filter, "any") IS 'how often the key was added to a filter of method count_min; a parameter as a key needs a type: $1::bigint';

-- Not STRICT: a NULL key does not change the filter.
CREATE FUNCTION dedup_forget(filter dedup_filter, VARIADIC key "any") RETURNS dedup_filter
AS 'MODULE_PATHNAME', 'dedup_forget_value' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 20;

COMMENT ON FUNCTION dedup_forget(dedup_filter, "any") IS 'the filter without a key whose add found it new; a parameter as a key needs a type: $1::bigint';

CREATE FUNCTION dedup_merge(a dedup_filter, b dedup_filter) RETURNS dedup_filter
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;

COMMENT ON FUNCTION dedup_merge(dedup_filter, dedup_filter) IS 'filter of the keys of both filters';

CREATE OPERATOR || (
	LEFTARG = dedup_filter, RIGHTARG = dedup_filter, FUNCTION = dedup_merge
);

COMMENT ON OPERATOR || (dedup_filter, dedup_filter) IS 'filter of the keys of both filters';

CREATE FUNCTION dedup_count(filter dedup_filter) RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;

COMMENT ON FUNCTION dedup_count(dedup_filter) IS 'estimated number of distinct keys in the filter';

CREATE FUNCTION dedup_stats(filter dedup_filter,
	OUT method text, OUT keys bigint, OUT fpr float8, OUT seed bigint, OUT exact boolean,
	OUT count bigint, OUT fill float8, OUT fpr_now float8, OUT overfull boolean,
	OUT bytes bigint, OUT bytes_full bigint, OUT parameters text)
RETURNS record
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;

COMMENT ON FUNCTION dedup_stats(dedup_filter) IS 'what the filter was made for and what it holds now';

-- ---- aggregates ----

-- Two families. Aggregates over keys of any type have a state of type internal. If the state were
-- a dedup_filter, Citus would try to compute them on its workers and fail, because the types of the
-- arguments do not match "any". Citus computes the aggregates over hashes there instead.
CREATE FUNCTION dedup_agg_internal_trans(internal, VARIADIC key "any") RETURNS internal
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 10;

CREATE FUNCTION dedup_agg_internal_trans(internal, dedup_filter, VARIADIC key "any") RETURNS internal
AS 'MODULE_PATHNAME', 'dedup_agg_internal_prototype_trans' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 10;

-- These two, and approx_count_distinct_trans, are for aggregates that others define.
CREATE FUNCTION dedup_agg_trans(dedup_filter, VARIADIC key "any") RETURNS dedup_filter
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 10;

CREATE FUNCTION dedup_agg_trans(dedup_filter, dedup_filter, VARIADIC key "any") RETURNS dedup_filter
AS 'MODULE_PATHNAME', 'dedup_agg_prototype_trans' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 10;

CREATE FUNCTION dedup_agg_hashes_trans(dedup_filter, hash bigint) RETURNS dedup_filter
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 10;

CREATE FUNCTION dedup_agg_hashes_trans(dedup_filter, dedup_filter, hash bigint) RETURNS dedup_filter
AS 'MODULE_PATHNAME', 'dedup_agg_hashes_prototype_trans' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 10;

CREATE FUNCTION dedup_agg_combine(dedup_filter, dedup_filter) RETURNS dedup_filter
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 100;

CREATE FUNCTION dedup_agg_internal_combine(internal, internal) RETURNS internal
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 100;

CREATE FUNCTION dedup_agg_serial(internal) RETURNS bytea
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION dedup_agg_deserial(bytea, internal) RETURNS internal
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION dedup_merge_agg_trans(dedup_filter, dedup_filter) RETURNS dedup_filter
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 100;

CREATE FUNCTION dedup_agg_final(dedup_filter) RETURNS dedup_filter
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 100;

CREATE FUNCTION dedup_agg_internal_final(internal) RETURNS dedup_filter
AS 'MODULE_PATHNAME', 'dedup_agg_final' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 100;

CREATE FUNCTION dedup_merge_agg_final(dedup_filter) RETURNS dedup_filter
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 100;

CREATE FUNCTION approx_count_distinct_internal_trans(internal, VARIADIC key "any") RETURNS internal
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 10;

CREATE FUNCTION approx_count_distinct_trans(dedup_filter, VARIADIC key "any") RETURNS dedup_filter
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 10;

CREATE FUNCTION approx_count_distinct_hashes_trans(dedup_filter, hash bigint) RETURNS dedup_filter
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 10;

-- Not STRICT: over no rows they return 0.
CREATE FUNCTION approx_count_distinct_final(dedup_filter) RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 100;

CREATE FUNCTION approx_count_distinct_internal_final(internal) RETURNS bigint
AS 'MODULE_PATHNAME', 'approx_count_distinct_final' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 100;

CREATE AGGREGATE dedup_agg(VARIADIC key "any") (
	SFUNC = dedup_agg_internal_trans,
	STYPE = internal,
	SSPACE = 176,
	COMBINEFUNC = dedup_agg_internal_combine,
	SERIALFUNC = dedup_agg_serial,
	DESERIALFUNC = dedup_agg_deserial,
	FINALFUNC = dedup_agg_internal_final,
	FINALFUNC_MODIFY = READ_ONLY,
	PARALLEL = SAFE
);

COMMENT ON AGGREGATE dedup_agg("any") IS 'filter of all keys; it grows, at a false-positive rate of 0.01; a parameter as a key needs a type: $1::bigint';

CREATE AGGREGATE dedup_agg(prototype dedup_filter, VARIADIC key "any") (
	SFUNC = dedup_agg_internal_trans,
	STYPE = internal,
	SSPACE = 176,
	COMBINEFUNC = dedup_agg_internal_combine,
	SERIALFUNC = dedup_agg_serial,
	DESERIALFUNC = dedup_agg_deserial,
	FINALFUNC = dedup_agg_internal_final,
	FINALFUNC_MODIFY = READ_ONLY,
	PARALLEL = SAFE
);

COMMENT ON AGGREGATE dedup_agg(dedup_filter, "any") IS 'filter of all keys, made like the prototype; a parameter as a key needs a type: $1::bigint';

CREATE AGGREGATE dedup_merge_agg(filter dedup_filter) (
	SFUNC = dedup_merge_agg_trans,
	STYPE = dedup_filter,
	SSPACE = 1024,
	COMBINEFUNC = dedup_agg_combine,
	FINALFUNC = dedup_merge_agg_final,
	FINALFUNC_MODIFY = READ_ONLY,
	PARALLEL = SAFE
);

COMMENT ON AGGREGATE dedup_merge_agg(dedup_filter) IS 'merge of all filters';

CREATE AGGREGATE approx_count_distinct(VARIADIC key "any") (
	SFUNC = approx_count_distinct_internal_trans,
	STYPE = internal,
	SSPACE = 176,
	COMBINEFUNC = dedup_agg_internal_combine,
	SERIALFUNC = dedup_agg_serial,
	DESERIALFUNC = dedup_agg_deserial,
	FINALFUNC = approx_count_distinct_internal_final,
	FINALFUNC_MODIFY = READ_ONLY,
	PARALLEL = SAFE
);

COMMENT ON AGGREGATE approx_count_distinct("any") IS 'number of distinct keys: exact up to 1,792 keys, then with a standard error of 0.57 %; a parameter as a key needs a type: $1::bigint';

-- Not STRICT: for a NULL filter it returns the hash with seed 0.
CREATE FUNCTION dedup_hash(filter dedup_filter, VARIADIC key "any") RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 10;

COMMENT ON FUNCTION dedup_hash(dedup_filter, "any") IS 'hash by which the filter knows the key; for a NULL filter the hash with seed 0; a parameter as a key needs a type: $1::bigint';

CREATE AGGREGATE dedup_agg_hashes(hash bigint) (
	SFUNC = dedup_agg_hashes_trans,
	STYPE = dedup_filter,
	SSPACE = 160,
	COMBINEFUNC = dedup_agg_combine,
	FINALFUNC = dedup_agg_final,
	FINALFUNC_MODIFY = READ_ONLY,
	PARALLEL = SAFE
);

COMMENT ON AGGREGATE dedup_agg_hashes(bigint) IS 'the filter that dedup_agg(key) returns for the keys of these hashes';

CREATE AGGREGATE dedup_agg_hashes(prototype dedup_filter, hash bigint) (
	SFUNC = dedup_agg_hashes_trans,
	STYPE = dedup_filter,
	SSPACE = 160,
	COMBINEFUNC = dedup_agg_combine,
	FINALFUNC = dedup_agg_final,
	FINALFUNC_MODIFY = READ_ONLY,
	PARALLEL = SAFE
);

COMMENT ON AGGREGATE dedup_agg_hashes(dedup_filter, bigint) IS 'the filter that dedup_agg(prototype, key) returns for the keys of these hashes';

CREATE AGGREGATE approx_count_distinct_hashes(hash bigint) (
	SFUNC = approx_count_distinct_hashes_trans,
	STYPE = dedup_filter,
	SSPACE = 160,
	COMBINEFUNC = dedup_agg_combine,
	FINALFUNC = approx_count_distinct_final,
	FINALFUNC_MODIFY = READ_ONLY,
	PARALLEL = SAFE
);

COMMENT ON AGGREGATE approx_count_distinct_hashes(bigint) IS 'the number that approx_count_distinct(key) returns for the keys of these hashes';

-- These return the states of the three aggregates above as text, as worker_partial_agg() of Citus
-- does.
CREATE AGGREGATE dedup_agg_hashes_partial(hash bigint) (
	SFUNC = dedup_agg_hashes_trans,
	STYPE = dedup_filter,
	SSPACE = 160,
	COMBINEFUNC = dedup_agg_combine,
	FINALFUNC = dedup_filter_out,
	FINALFUNC_MODIFY = READ_ONLY,
	PARALLEL = SAFE
);

COMMENT ON AGGREGATE dedup_agg_hashes_partial(bigint) IS 'state of dedup_agg_hashes(hash) as text, for Citus';

CREATE AGGREGATE dedup_agg_hashes_partial(prototype dedup_filter, hash bigint) (
	SFUNC = dedup_agg_hashes_trans,
	STYPE = dedup_filter,
	SSPACE = 160,
	COMBINEFUNC = dedup_agg_combine,
	FINALFUNC = dedup_filter_out,
	FINALFUNC_MODIFY = READ_ONLY,
	PARALLEL = SAFE
);

COMMENT ON AGGREGATE dedup_agg_hashes_partial(dedup_filter, bigint) IS 'state of dedup_agg_hashes(prototype, hash) as text, for Citus';

CREATE AGGREGATE approx_count_distinct_hashes_partial(hash bigint) (
	SFUNC = approx_count_distinct_hashes_trans,
	STYPE = dedup_filter,
	SSPACE = 160,
	COMBINEFUNC = dedup_agg_combine,
	FINALFUNC = dedup_filter_out,
	FINALFUNC_MODIFY = READ_ONLY,
	PARALLEL = SAFE
);

COMMENT ON AGGREGATE approx_count_distinct_hashes_partial(bigint) IS 'state of approx_count_distinct_hashes(hash) as text, for Citus';

-- ---- queries ----

-- Only STABLE, because it reads work_mem.
CREATE FUNCTION dedup_is_new(VARIADIC key "any") RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C WINDOW STABLE PARALLEL SAFE COST 10;

COMMENT ON FUNCTION dedup_is_new("any") IS 'whether no earlier row of the partition has the key, by a filter as large as work_mem * hash_mem_multiplier; a parameter as a key needs a type: $1::bigint';

CREATE FUNCTION dedup_is_new(prototype dedup_filter, VARIADIC key "any") RETURNS boolean
AS 'MODULE_PATHNAME', 'dedup_is_new_prototype' LANGUAGE C WINDOW IMMUTABLE PARALLEL SAFE COST 10;

COMMENT ON FUNCTION dedup_is_new(dedup_filter, "any") IS 'whether no earlier row of the partition has the key, by a filter made like the prototype; a parameter as a key needs a type: $1::bigint';

CREATE FUNCTION dedup_new_keys_support(internal) RETURNS internal
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE FUNCTION dedup_new_keys(filter dedup_filter, keys anyarray) RETURNS SETOF anyelement
AS 'MODULE_PATHNAME', 'dedup_new_keys_value' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100
ROWS 100 SUPPORT dedup_new_keys_support;

COMMENT ON FUNCTION dedup_new_keys(dedup_filter, anyarray) IS 'the elements that are new to the filter, which does not change; a parameter needs a type: $1::bigint[]';

-- Not STRICT: NULL is an error. VOLATILE, because they run a query of the caller's.
CREATE FUNCTION dedup_rows(query text, VARIADIC key_columns text[]) RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000 ROWS 1000;

COMMENT ON FUNCTION dedup_rows(text, text[]) IS 'the rows of a query whose key is new, by a filter as large as work_mem * hash_mem_multiplier';

CREATE FUNCTION dedup_rows(prototype dedup_filter, query text, VARIADIC key_columns text[]) RETURNS SETOF record
AS 'MODULE_PATHNAME', 'dedup_rows_prototype' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000 ROWS 1000;

COMMENT ON FUNCTION dedup_rows(dedup_filter, text, text[]) IS 'the rows of a query whose key is new, by a filter made like the prototype';

-- ---- live filters ----

CREATE TYPE dedup_page;

CREATE FUNCTION dedup_page_in(cstring) RETURNS dedup_page
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION dedup_page_out(dedup_page) RETURNS cstring
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION dedup_page_recv(internal) RETURNS dedup_page
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION dedup_page_send(dedup_page) RETURNS bytea
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE TYPE dedup_page (
	INPUT = dedup_page_in,
	OUTPUT = dedup_page_out,
	RECEIVE = dedup_page_recv,
	SEND = dedup_page_send,
	INTERNALLENGTH = VARIABLE,
	ALIGNMENT = int4,
	STORAGE = plain
);

COMMENT ON TYPE dedup_page IS 'a page of a live filter, as a dump writes it';

CREATE FUNCTION dedup_am_handler(internal) RETURNS table_am_handler
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE ACCESS METHOD streamdedup TYPE TABLE HANDLER dedup_am_handler;

COMMENT ON ACCESS METHOD streamdedup IS 'live filters, made by dedup_create()';

-- The constraint and the trigger of every live filter call these.
CREATE FUNCTION dedup_is_live(relation oid) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;

CREATE FUNCTION dedup_restore_trigger() RETURNS trigger
AS 'MODULE_PATHNAME' LANGUAGE C;

-- Not STRICT: prototype and ttl may be NULL.
CREATE FUNCTION dedup_create(name text, prototype dedup_filter DEFAULT NULL,
	ttl interval DEFAULT NULL, unlogged boolean DEFAULT false, renew boolean DEFAULT false,
	fpr double precision DEFAULT 0.0001)
RETURNS regclass
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;

COMMENT ON FUNCTION dedup_create(text, dedup_filter, interval, boolean, boolean, double precision) IS 'makes a live filter, a relation that all sessions share; it grows unless the prototype has a number of keys; a ttl makes it a window of time';

-- By name and by regclass. A literal without a type picks text. Not STRICT: a key with a NULL
-- column is new and is not remembered.
CREATE FUNCTION is_new(name text, VARIADIC key "any") RETURNS boolean
AS 'MODULE_PATHNAME', 'dedup_live_is_new' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100;
CREATE FUNCTION is_new(name regclass, VARIADIC key "any") RETURNS boolean
AS 'MODULE_PATHNAME', 'dedup_live_is_new' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100;

COMMENT ON FUNCTION is_new(text, "any") IS 'whether the key is new to the live filter, which remembers it; a parameter as a key needs a type: $1::bigint';
COMMENT ON FUNCTION is_new(regclass, "any") IS 'whether the key is new to the live filter, which remembers it; a parameter as a key needs a type: $1::bigint';

CREATE FUNCTION is_new_at(name text, at timestamptz, VARIADIC key "any") RETURNS boolean
AS 'MODULE_PATHNAME', 'dedup_live_is_new_at' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100;
CREATE FUNCTION is_new_at(name regclass, at timestamptz, VARIADIC key "any") RETURNS boolean
AS 'MODULE_PATHNAME', 'dedup_live_is_new_at' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100;

COMMENT ON FUNCTION is_new_at(text, timestamptz, "any") IS 'is_new() by the time of the event instead of the clock; a parameter as a key needs a type: $1::bigint';
COMMENT ON FUNCTION is_new_at(regclass, timestamptz, "any") IS 'is_new() by the time of the event instead of the clock; a parameter as a key needs a type: $1::bigint';

CREATE FUNCTION dedup_seen(name text, VARIADIC key "any") RETURNS boolean
AS 'MODULE_PATHNAME', 'dedup_live_seen' LANGUAGE C VOLATILE PARALLEL SAFE COST 50;
CREATE FUNCTION dedup_seen(name regclass, VARIADIC key "any") RETURNS boolean
AS 'MODULE_PATHNAME', 'dedup_live_seen' LANGUAGE C VOLATILE PARALLEL SAFE COST 50;

COMMENT ON FUNCTION dedup_seen(text, "any") IS 'whether the live filter has the key; nothing changes; a parameter as a key needs a type: $1::bigint';
COMMENT ON FUNCTION dedup_seen(regclass, "any") IS 'whether the live filter has the key; nothing changes; a parameter as a key needs a type: $1::bigint';

CREATE FUNCTION dedup_forget(name text, VARIADIC key "any") RETURNS boolean
AS 'MODULE_PATHNAME', 'dedup_live_forget' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100;
CREATE FUNCTION dedup_forget(name regclass, VARIADIC key "any") RETURNS boolean
AS 'MODULE_PATHNAME', 'dedup_live_forget' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100;

COMMENT ON FUNCTION dedup_forget(text, "any") IS 'removes a key from the live filter; returns whether it was there; a parameter as a key needs a type: $1::bigint';
COMMENT ON FUNCTION dedup_forget(regclass, "any") IS 'removes a key from the live filter; returns whether it was there; a parameter as a key needs a type: $1::bigint';

CREATE FUNCTION dedup_new_keys(name text, keys anyarray) RETURNS SETOF anyelement
AS 'MODULE_PATHNAME', 'dedup_live_new_keys' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000 ROWS 100;
CREATE FUNCTION dedup_new_keys(name regclass, keys anyarray) RETURNS SETOF anyelement
AS 'MODULE_PATHNAME', 'dedup_live_new_keys' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000 ROWS 100;

COMMENT ON FUNCTION dedup_new_keys(text, anyarray) IS 'the elements that are new to the live filter, which remembers them; a parameter needs a type: $1::bigint[]';
COMMENT ON FUNCTION dedup_new_keys(regclass, anyarray) IS 'the elements that are new to the live filter, which remembers them; a parameter needs a type: $1::bigint[]';

CREATE FUNCTION dedup_snapshot(name text) RETURNS dedup_filter
AS 'MODULE_PATHNAME', 'dedup_live_snapshot' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED COST 10000;
CREATE FUNCTION dedup_snapshot(name regclass) RETURNS dedup_filter
AS 'MODULE_PATHNAME', 'dedup_live_snapshot' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION dedup_snapshot(text) IS 'the keys of the live filter as a value';
COMMENT ON FUNCTION dedup_snapshot(regclass) IS 'the keys of the live filter as a value';

CREATE FUNCTION dedup_load(name text, filter dedup_filter) RETURNS bigint
AS 'MODULE_PATHNAME', 'dedup_live_load' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE COST 10000;
CREATE FUNCTION dedup_load(name regclass, filter dedup_filter) RETURNS bigint
AS 'MODULE_PATHNAME', 'dedup_live_load' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE COST 10000;

COMMENT ON FUNCTION dedup_load(text, dedup_filter) IS 'adds the keys of a value to the live filter; returns their number';
COMMENT ON FUNCTION dedup_load(regclass, dedup_filter) IS 'adds the keys of a value to the live filter; returns their number';

CREATE FUNCTION dedup_stats(name text,
	OUT kind text, OUT keys bigint, OUT fpr float8, OUT seed bigint, OUT ttl interval,
	OUT renew boolean, OUT logged boolean, OUT new bigint, OUT duplicate bigint, OUT skipped bigint,
	OUT rejected bigint, OUT marked bigint, OUT checked_found bigint, OUT checked_not_found bigint,
	OUT too_old bigint, OUT renewed bigint, OUT since timestamptz, OUT count bigint,
	OUT fill float8, OUT fpr_now float8, OUT overfull boolean, OUT forgotten_early bigint,
	OUT in_flight bigint, OUT overflow_pages bigint, OUT bytes bigint, OUT level int,
	OUT splits bigint, OUT bytes_per_key float8)
RETURNS record
AS 'MODULE_PATHNAME', 'dedup_live_stats' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED COST 10000;
CREATE FUNCTION dedup_stats(name regclass,
	OUT kind text, OUT keys bigint, OUT fpr float8, OUT seed bigint, OUT ttl interval,
	OUT renew boolean, OUT logged boolean, OUT new bigint, OUT duplicate bigint, OUT skipped bigint,
	OUT rejected bigint, OUT marked bigint, OUT checked_found bigint, OUT checked_not_found bigint,
	OUT too_old bigint, OUT renewed bigint, OUT since timestamptz, OUT count bigint,
	OUT fill float8, OUT fpr_now float8, OUT overfull boolean, OUT forgotten_early bigint,
	OUT in_flight bigint, OUT overflow_pages bigint, OUT bytes bigint, OUT level int,
	OUT splits bigint, OUT bytes_per_key float8)
RETURNS record
AS 'MODULE_PATHNAME', 'dedup_live_stats' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED COST 10000;

COMMENT ON FUNCTION dedup_stats(text) IS 'what the live filter was made for, what it has counted, and what it holds now';
COMMENT ON FUNCTION dedup_stats(regclass) IS 'what the live filter was made for, what it has counted, and what it holds now';

CREATE FUNCTION dedup_check(name text, OUT block bigint, OUT problem text) RETURNS SETOF record
AS 'MODULE_PATHNAME', 'dedup_live_check' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE COST 10000 ROWS 1;
CREATE FUNCTION dedup_check(name regclass, OUT block bigint, OUT problem text) RETURNS SETOF record
AS 'MODULE_PATHNAME', 'dedup_live_check' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE COST 10000 ROWS 1;

COMMENT ON FUNCTION dedup_check(text) IS 'the damaged pages of the live filter';
COMMENT ON FUNCTION dedup_check(regclass) IS 'the damaged pages of the live filter';

-- Returns what the view shows of one relation: dedup_stats(), or what is wrong. PARALLEL UNSAFE,
-- because it runs in a subtransaction.
CREATE FUNCTION dedup_filter_state(relation oid,
	OUT kind text, OUT keys bigint, OUT fpr float8, OUT seed bigint, OUT ttl interval,
	OUT renew boolean, OUT logged boolean, OUT new bigint, OUT duplicate bigint, OUT skipped bigint,
	OUT rejected bigint, OUT marked bigint, OUT checked_found bigint, OUT checked_not_found bigint,
	OUT too_old bigint, OUT renewed bigint, OUT since timestamptz, OUT count bigint,
	OUT fill float8, OUT fpr_now float8, OUT overfull boolean, OUT forgotten_early bigint,
	OUT in_flight bigint, OUT overflow_pages bigint, OUT bytes bigint, OUT level int,
	OUT splits bigint, OUT bytes_per_key float8, OUT problem text)
RETURNS record
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE COST 10000;

COMMENT ON FUNCTION dedup_filter_state(oid) IS 'what the view dedup_filters shows of a relation';

-- Only filters that the user may SELECT. The condition is in a CASE, because the server evaluates
-- the conditions of a WHERE in any order.
CREATE VIEW dedup_filters AS
SELECT c.oid::regclass AS name, pg_catalog.pg_get_userbyid(c.relowner) AS owner, s.*
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_am a ON a.oid = c.relam AND a.amname = 'streamdedup'
CROSS JOIN LATERAL dedup_filter_state(CASE
	WHEN c.relkind = 'r' AND pg_catalog.has_table_privilege(c.oid, 'SELECT') THEN c.oid END) s
WHERE s.kind IS NOT NULL OR s.problem IS NOT NULL;

COMMENT ON VIEW dedup_filters IS 'the live filters that the user may SELECT, what each was made for, and what it holds now';
GRANT SELECT ON dedup_filters TO PUBLIC;

-- ---- guards ----

CREATE FUNCTION dedup_guard_trigger() RETURNS trigger
AS 'MODULE_PATHNAME' LANGUAGE C;

COMMENT ON FUNCTION dedup_guard_trigger() IS 'trigger function of guarded tables; dedup_guard() makes the triggers';

CREATE FUNCTION dedup_guard_handler(internal) RETURNS index_am_handler
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE ACCESS METHOD streamdedup_guard TYPE INDEX HANDLER dedup_guard_handler;

COMMENT ON ACCESS METHOD streamdedup_guard IS 'index without data, by which a guard is called for each inserted row';

-- The index compares nothing, so one class serves for every type.
CREATE OPERATOR CLASS dedup_guard_ops
DEFAULT FOR TYPE anyelement USING streamdedup_guard AS STORAGE anyelement;

-- Not STRICT: the error names the argument that must not be NULL; load, where and at may be NULL.
CREATE FUNCTION dedup_guard("table" regclass, filter regclass, columns text[], on_duplicate text DEFAULT 'skip',
	exact boolean DEFAULT false, load boolean DEFAULT NULL, "where" text DEFAULT NULL,
	nulls_not_distinct boolean DEFAULT false, at text DEFAULT NULL, too_old text DEFAULT 'keep',
	on_delete text DEFAULT 'keep')
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C;

COMMENT ON FUNCTION dedup_guard(regclass, regclass, text[], text, boolean, boolean, text, boolean, text, text, text) IS 'keeps duplicate rows out of a table, its partitions and its children, by a live filter; exact: searches the table for the key before it refuses a row';

CREATE FUNCTION dedup_unguard("table" regclass) RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C;

COMMENT ON FUNCTION dedup_unguard(regclass) IS 'removes the guard from a table';

CREATE FUNCTION dedup_rebuild(filter regclass, prototype dedup_filter DEFAULT NULL) RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C;

COMMENT ON FUNCTION dedup_rebuild(regclass, dedup_filter) IS 'fills the live filter of exact or forgetting guards anew from the rows of their tables; with a prototype in another size';

CREATE FUNCTION dedup_readmit("table" regclass) RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C;

COMMENT ON FUNCTION dedup_readmit(regclass) IS 'brings back the diverted rows whose key no row of the table has; returns their number';

-- Called when a part of a guard is dropped or replaced by hand, and when a partition is dropped
-- whose keys stay. Loads the library before a table is dropped or detached.
CREATE FUNCTION dedup_guard_dropped() RETURNS event_trigger
AS 'MODULE_PATHNAME' LANGUAGE C;

COMMENT ON FUNCTION dedup_guard_dropped() IS 'event trigger function: notes that a part of an exact guard is dropped by hand, and reports that the keys of a dropped partition stay';

CREATE EVENT TRIGGER streamdedup_guard_dropped ON ddl_command_start
WHEN TAG IN ('DROP TRIGGER', 'DROP INDEX', 'DROP TABLE', 'DROP SCHEMA', 'DROP OWNED', 'CREATE TRIGGER', 'ALTER TABLE')
EXECUTE FUNCTION dedup_guard_dropped();
ALTER EVENT TRIGGER streamdedup_guard_dropped ENABLE ALWAYS;

-- Called when a table begins or ceases to inherit from a guarded table, also in a session that has
-- not loaded the library.
CREATE FUNCTION dedup_guard_inherited() RETURNS event_trigger
AS 'MODULE_PATHNAME' LANGUAGE C;

COMMENT ON FUNCTION dedup_guard_inherited() IS 'event trigger function: guards tables that begin to inherit from a guarded table, and removes the guard when they cease to inherit';

CREATE EVENT TRIGGER streamdedup_guard_inherited ON ddl_command_end
WHEN TAG IN ('CREATE TABLE', 'CREATE FOREIGN TABLE', 'CREATE SCHEMA', 'ALTER TABLE', 'ALTER FOREIGN TABLE')
EXECUTE FUNCTION dedup_guard_inherited();
ALTER EVENT TRIGGER streamdedup_guard_inherited ENABLE ALWAYS;

-- Returns what the view shows of one guard, by its trigger for DELETE. PARALLEL UNSAFE, because it
-- runs in a subtransaction.
CREATE FUNCTION dedup_guard_state(trigger oid,
	OUT filter regclass, OUT columns text[], OUT on_duplicate text, OUT exact boolean,
	OUT "where" text, OUT nulls_not_distinct boolean, OUT at text, OUT too_old text, OUT on_delete text,
	OUT side_table regclass, OUT partitions_guarded int, OUT partitions_unguarded int, OUT refused bigint,
	OUT checked_found bigint, OUT checked_not_found bigint, OUT problem text)
RETURNS record
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE COST 1000;

COMMENT ON FUNCTION dedup_guard_state(oid) IS 'what the view dedup_guards shows of a guard';

-- A row for each trigger BEFORE DELETE of a guard. Triggers of partitions, which have a parent,
-- belong to the guard of the table above. dedup_guard_state() skips those of children.
CREATE VIEW dedup_guards AS
SELECT t.tgrelid::regclass AS "table", s.*
FROM pg_catalog.pg_trigger t
CROSS JOIN LATERAL dedup_guard_state(CASE
	WHEN t.tgfoid = 'dedup_guard_trigger()'::regprocedure AND t.tgparentid = 0 AND t.tgtype & 10 = 10
	THEN t.oid END) s
WHERE s.filter IS NOT NULL;

COMMENT ON VIEW dedup_guards IS 'the guarded tables, with the options of each guard, its counters, and what is wrong with it';
GRANT SELECT ON dedup_guards TO PUBLIC;

-- ---- guards on distributed tables of Citus ----

CREATE FUNCTION dedup_guard_shard() RETURNS trigger
AS 'MODULE_PATHNAME' LANGUAGE C;

COMMENT ON FUNCTION dedup_guard_shard() IS 'trigger function of distributed tables and their shards; dedup_guard_distributed() makes the triggers';

-- A shard gets its guard when it gets that trigger, also in a session that has not loaded the
-- library.
CREATE FUNCTION dedup_guard_shard_made() RETURNS event_trigger
AS 'MODULE_PATHNAME' LANGUAGE C;

COMMENT ON FUNCTION dedup_guard_shard_made() IS 'event trigger function: guards a shard when Citus makes it';

CREATE EVENT TRIGGER streamdedup_guard_shard_made ON ddl_command_end
WHEN TAG IN ('CREATE TRIGGER') EXECUTE FUNCTION dedup_guard_shard_made();
ALTER EVENT TRIGGER streamdedup_guard_shard_made ENABLE ALWAYS;

-- Not STRICT: the error names the argument that must not be NULL; load, where and at may be NULL.
-- A literal without a type picks text.
CREATE FUNCTION dedup_guard_distributed("table" regclass, filter text, columns text[], on_duplicate text DEFAULT 'skip',
	exact boolean DEFAULT false, load boolean DEFAULT NULL, "where" text DEFAULT NULL,
	nulls_not_distinct boolean DEFAULT false, at text DEFAULT NULL, too_old text DEFAULT 'keep',
	on_delete text DEFAULT 'keep')
RETURNS void
AS 'MODULE_PATHNAME', 'dedup_guard_distributed_name' LANGUAGE C;
CREATE FUNCTION dedup_guard_distributed("table" regclass, filter regclass, columns text[], on_duplicate text DEFAULT 'skip',
	exact boolean DEFAULT false, load boolean DEFAULT NULL, "where" text DEFAULT NULL,
	nulls_not_distinct boolean DEFAULT false, at text DEFAULT NULL, too_old text DEFAULT 'keep',
	on_delete text DEFAULT 'keep')
RETURNS void
AS 'MODULE_PATHNAME', 'dedup_guard_distributed' LANGUAGE C;
CREATE FUNCTION dedup_guard_distributed("table" regclass, prototype dedup_filter, columns text[], on_duplicate text DEFAULT 'skip',
	exact boolean DEFAULT false, load boolean DEFAULT NULL, "where" text DEFAULT NULL,
	nulls_not_distinct boolean DEFAULT false, at text DEFAULT NULL, too_old text DEFAULT 'keep',
	on_delete text DEFAULT 'keep')
RETURNS void
AS 'MODULE_PATHNAME', 'dedup_guard_distributed_prototype' LANGUAGE C;
CREATE FUNCTION dedup_guard_distributed("table" regclass) RETURNS void
AS 'MODULE_PATHNAME', 'dedup_guard_distributed_again' LANGUAGE C;

COMMENT ON FUNCTION dedup_guard_distributed(regclass, text, text[], text, boolean, boolean, text, boolean, text, text, text) IS 'keeps duplicate rows out of a distributed table of Citus: each shard gets a live filter and a guard of its own';
COMMENT ON FUNCTION dedup_guard_distributed(regclass, regclass, text[], text, boolean, boolean, text, boolean, text, text, text) IS 'keeps duplicate rows out of a distributed table of Citus: each shard gets a live filter and a guard of its own';
COMMENT ON FUNCTION dedup_guard_distributed(regclass, dedup_filter, text[], text, boolean, boolean, text, boolean, text, text, text) IS 'keeps duplicate rows out of a distributed table of Citus: each shard gets a live filter and a guard of its own';
COMMENT ON FUNCTION dedup_guard_distributed(regclass) IS 'makes the guards again that shards of a guarded distributed table have lost';

CREATE FUNCTION dedup_guard_placements(relation regclass,
	OUT "table" regclass, OUT shardid bigint, OUT nodename text, OUT nodeport int, OUT filter text,
	OUT whole boolean, OUT refused bigint, OUT problem text)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE COST 10000;

COMMENT ON FUNCTION dedup_guard_placements(regclass) IS 'what the view dedup_guards_distributed shows of a distributed table';

CREATE VIEW dedup_guards_distributed AS
SELECT s.*
FROM pg_catalog.pg_trigger t
CROSS JOIN LATERAL dedup_guard_placements(CASE
	WHEN t.tgfoid = 'dedup_guard_shard()'::regprocedure AND t.tgname = '~dedup_distributed_delete' AND t.tgparentid = 0
	THEN t.tgrelid END) s;

COMMENT ON VIEW dedup_guards_distributed IS 'the placements of the shards of guarded distributed tables, and whether each has its guard';
GRANT SELECT ON dedup_guards_distributed TO PUBLIC;

-- ---- approximate DISTINCT ----

-- Not STRICT: NULL is an error.
CREATE FUNCTION dedup_approximate_distinct(enable boolean, is_local boolean DEFAULT false)
RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION dedup_approximate_distinct(boolean, boolean) IS 'loads the library and sets streamdedup.approximate_distinct; returns the new value';

-- Raises a NOTICE that says how to load the library in every session.
CREATE FUNCTION dedup_preload_notice() RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
SELECT dedup_preload_notice();
DROP FUNCTION dedup_preload_notice();
