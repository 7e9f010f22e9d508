/*
 * Counting distinct keys by their hashes.
 *
 * count(DISTINCT x) becomes approx_count_hashes(dedup_key_hash(x)) in distributed queries
 * (query/distinct/count.cpp). An engine that splits aggregates can send any type's keys through
 * it: the aggregate's argument is always a bigint, and the key is hashed where its row is. The
 * states are those of approx_count_distinct(x), so the counts are the same.
 */
#include "pg/keys.hpp"
#include "value/fill.hpp"

/* The shape of approx_count_distinct's states. */
static const dedup::Shape *
CountShape(void)
{
	static dedup::Shape shape;
	static bool known = false;

	if (!known)
	{
		dedup::Request request;

		request.memory = COUNT_MEMORY;
		dedup::PlanFilter(dedup::CountMethod(), request, 0, &shape);
		known = true;
	}
	return &shape;
}

/*
 * dedup_key_hash(VARIADIC key "any") returns bigint
 *
 * Returns NULL if a column of the key is NULL.
 */
DEDUP_FUNCTION(dedup_key_hash)
{
	KeyPlan *keys = (KeyPlan *) fcinfo->flinfo->fn_extra;
	uint64 hash;

	if (unlikely(keys == NULL))
	{
		keys = MakeKeyPlan(fcinfo, 0);
		fcinfo->flinfo->fn_extra = keys;
	}
	if (!HashKey(keys, fcinfo, NullKeys::Skip, dedup::KeySeedOf(*CountShape()), &hash))
		PG_RETURN_NULL();
	PG_RETURN_INT64((int64) hash);
}

/*
 * approx_count_hashes_trans(state dedup_filter, hash bigint) returns dedup_filter
 *
 * Keeps nothing for the call site: Citus looks the function up for every row.
 */
DEDUP_FUNCTION(approx_count_hashes_trans)
{
	MemoryContext context;
	struct varlena *value;
	FilterState state;
	uint64 limit;

	if (!AggCheckCallContext(fcinfo, &context))
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("aggregate support function called outside of an aggregate"),
						errhint("Use approx_count_hashes().")));
	if (PG_ARGISNULL(1))
	{
		if (PG_ARGISNULL(0))
			PG_RETURN_NULL();
		PG_RETURN_DATUM(PG_GETARG_DATUM(0));
	}
	value = PG_ARGISNULL(0) ? MakeEmptyFilter(*CountShape()) : PG_DETOAST_DATUM(PG_GETARG_DATUM(0));
	CheckFlat(value, &state.header);
	limit = LimitOf(state.header, HashLimit::Value);
	StartFilling(&state, value, limit);
	FillWith(&state, (uint64) PG_GETARG_INT64(1), limit);
	PG_RETURN_POINTER(state.value);
}
