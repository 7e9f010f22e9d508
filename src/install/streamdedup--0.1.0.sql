/* streamdedup--0.1.0.sql */

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

COMMENT ON TYPE dedup_filter IS 'set of keys that answers whether a key was seen before, at a known error rate';

CREATE FUNCTION dedup_filter_from_bytea(bytea) RETURNS dedup_filter
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION dedup_filter_to_bytea(dedup_filter) RETURNS bytea
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE CAST (bytea AS dedup_filter) WITH FUNCTION dedup_filter_from_bytea(bytea);
CREATE CAST (dedup_filter AS bytea) WITH FUNCTION dedup_filter_to_bytea(dedup_filter);

-- ---- empty filters ----

CREATE FUNCTION dedup_filter(capacity bigint, fpr float8 DEFAULT 0.01, seed bigint DEFAULT 0)
RETURNS dedup_filter
AS 'MODULE_PATHNAME', 'dedup_filter_make' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;

COMMENT ON FUNCTION dedup_filter(bigint, float8, bigint) IS 'empty filter that never forgets, for so many distinct keys at a false-positive rate';

CREATE FUNCTION dedup_window(keys bigint, fpr float8 DEFAULT 0.01, seed bigint DEFAULT 0)
RETURNS dedup_filter
AS 'MODULE_PATHNAME', 'dedup_window_make' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;

COMMENT ON FUNCTION dedup_window(bigint, float8, bigint) IS 'empty filter that remembers the last so many distinct keys seen';

CREATE FUNCTION dedup_method(method text, memory text, options text DEFAULT '', seed bigint DEFAULT 0)
RETURNS dedup_filter
AS 'MODULE_PATHNAME', 'dedup_method_make' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 100;

COMMENT ON FUNCTION dedup_method(text, text, text, bigint) IS 'empty filter of a named method, sized by memory or by the option keys';

CREATE FUNCTION dedup_advise(keys bigint, fpr float8 DEFAULT 0.01, forget boolean DEFAULT NULL,
	OUT method text, OUT promise text, OUT bytes bigint, OUT bits_per_key float8,
	OUT expected_fpr float8, OUT missed float8, OUT merging text, OUT parameters text,
	OUT prototype text)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 100 ROWS 4;

COMMENT ON FUNCTION dedup_advise(bigint, float8, boolean) IS 'methods that can hold so many keys at a false-positive rate, least memory first';

-- ---- one filter ----

-- Not STRICT: a NULL key leaves the filter as it is.
CREATE FUNCTION dedup_add_support(internal) RETURNS internal
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION dedup_add(filter dedup_filter, VARIADIC key "any") RETURNS dedup_filter
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 20 SUPPORT dedup_add_support;

COMMENT ON FUNCTION dedup_add(dedup_filter, "any") IS 'the filter with one more key';

CREATE FUNCTION dedup_add_all(filter dedup_filter, keys anyarray) RETURNS dedup_filter
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 100 SUPPORT dedup_add_support;

COMMENT ON FUNCTION dedup_add_all(dedup_filter, anyarray) IS 'the filter with every element of an array added';

CREATE FUNCTION dedup_contains(filter dedup_filter, VARIADIC key "any") RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

COMMENT ON FUNCTION dedup_contains(dedup_filter, "any") IS 'whether the key was added, or is taken for one that was';

CREATE FUNCTION is_new(filter dedup_filter, VARIADIC key "any") RETURNS boolean
AS 'MODULE_PATHNAME', 'dedup_is_new_value' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

COMMENT ON FUNCTION is_new(dedup_filter, "any") IS 'whether the key was not added';

CREATE FUNCTION dedup_merge(dedup_filter, dedup_filter) RETURNS dedup_filter
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;

COMMENT ON FUNCTION dedup_merge(dedup_filter, dedup_filter) IS 'filter of the keys of both';

CREATE OPERATOR || (
	LEFTARG = dedup_filter, RIGHTARG = dedup_filter, FUNCTION = dedup_merge
);

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

CREATE FUNCTION dedup_agg_trans(dedup_filter, VARIADIC key "any") RETURNS dedup_filter
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 10;

CREATE FUNCTION dedup_agg_trans(dedup_filter, dedup_filter, VARIADIC key "any") RETURNS dedup_filter
AS 'MODULE_PATHNAME', 'dedup_agg_prototype_trans' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 10;

CREATE FUNCTION dedup_agg_combine(dedup_filter, dedup_filter) RETURNS dedup_filter
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 100;

CREATE FUNCTION dedup_merge_agg_trans(dedup_filter, dedup_filter) RETURNS dedup_filter
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 100;

CREATE FUNCTION dedup_agg_final(dedup_filter) RETURNS dedup_filter
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 100;

CREATE FUNCTION dedup_merge_agg_final(dedup_filter) RETURNS dedup_filter
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 100;

CREATE AGGREGATE dedup_agg(VARIADIC key "any") (
	SFUNC = dedup_agg_trans,
	STYPE = dedup_filter,
	SSPACE = 160,
	COMBINEFUNC = dedup_agg_combine,
	FINALFUNC = dedup_agg_final,
	FINALFUNC_MODIFY = READ_ONLY,
	PARALLEL = SAFE
);

COMMENT ON AGGREGATE dedup_agg("any") IS 'filter of all keys, for a million at a rate of 0.01';

CREATE AGGREGATE dedup_agg(prototype dedup_filter, VARIADIC key "any") (
	SFUNC = dedup_agg_trans,
	STYPE = dedup_filter,
	SSPACE = 160,
	COMBINEFUNC = dedup_agg_combine,
	FINALFUNC = dedup_agg_final,
	FINALFUNC_MODIFY = READ_ONLY,
	PARALLEL = SAFE
);

COMMENT ON AGGREGATE dedup_agg(dedup_filter, "any") IS 'filter of all keys, made as the prototype';

CREATE AGGREGATE dedup_merge_agg(filter dedup_filter) (
	SFUNC = dedup_merge_agg_trans,
	STYPE = dedup_filter,
	SSPACE = 1024,
	COMBINEFUNC = dedup_agg_combine,
	FINALFUNC = dedup_merge_agg_final,
	FINALFUNC_MODIFY = READ_ONLY,
	PARALLEL = SAFE
);

COMMENT ON AGGREGATE dedup_merge_agg(dedup_filter) IS 'filter of the keys of all filters';

-- ---- queries ----

-- Reads work_mem, so it is only STABLE.
CREATE FUNCTION dedup_is_new(VARIADIC key "any") RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C WINDOW STABLE PARALLEL SAFE COST 10;

COMMENT ON FUNCTION dedup_is_new("any") IS 'whether the row''s key is new in its partition, by a filter that fills hash_mem';

CREATE FUNCTION dedup_is_new(prototype dedup_filter, VARIADIC key "any") RETURNS boolean
AS 'MODULE_PATHNAME', 'dedup_is_new_prototype' LANGUAGE C WINDOW IMMUTABLE PARALLEL SAFE COST 10;

COMMENT ON FUNCTION dedup_is_new(dedup_filter, "any") IS 'whether the row''s key is new in its partition, by a filter made as the prototype';
