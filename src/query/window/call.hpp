/*
 * The common part of WindowAgg's function and of our node for a call of dedup_is_new(...) OVER
 * (...): how the key of a row is hashed, and how the filter of a partition is started.
 */
#ifndef STREAMDEDUP_QUERY_WINDOW_CALL_HPP
#define STREAMDEDUP_QUERY_WINDOW_CALL_HPP

#include "pg/keys.hpp"
#include "query/own_filter.hpp"

/* A call in a query. It lives as long as the query. */
struct WindowCall
{
	bool with_prototype;
	KeyPlan *keys;
	NullableDatum *columns; /* of the current row */
	bool has_default;
	dedup::Shape default_shape;
	bool warned;
};

/*
 * Makes the plan for the keys from the types of the call's arguments. `fcinfo` needs nargs, and
 * flinfo with fn_expr. Raises an error (42883) if a type has no hash function.
 */
extern void PrepareWindowCall(WindowCall *call, FunctionCallInfo fcinfo, bool with_prototype);

/*
 * Starts the filter of a partition in `context`. `prototype` is that of the partition's first row.
 * It is ignored if the call has no prototype.
 */
extern void StartOwnFilter(WindowCall *call, OwnFilter *own, MemoryContext context,
						   const NullableDatum *prototype);

/* Hashes the key in call->columns. Allocates in the current context. */
static pg_attribute_always_inline uint64
HashCallKey(WindowCall *call, const OwnFilter *own)
{
	const dedup::KeySeed seed = own->seed();
	uint64 hash;

	if (!HashByShortcut(call->keys, call->columns, seed, &hash))
		HashColumns(call->keys, call->columns, NullKeys::Equal, seed, &hash);
	return hash;
}

extern "C" {
extern Datum dedup_is_new(PG_FUNCTION_ARGS);
extern Datum dedup_is_new_prototype(PG_FUNCTION_ARGS);
}

#endif /* STREAMDEDUP_QUERY_WINDOW_CALL_HPP */
