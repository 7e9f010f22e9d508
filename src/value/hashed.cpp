/*
 * Counting distinct keys by their hashes.
 *
 * count(DISTINCT x) becomes approx_count_hashes(dedup_key_hash(x)) in distributed queries
 * (query/distinct/count.cpp). An engine that splits aggregates can send any type's keys through
 * it: the aggregate's argument is always a bigint, and the key is hashed where its row is. The
 * states are those of approx_count_distinct(x), so the counts are the same.
 */
#include "core/sketch.hpp"
#include "pg/keys.hpp"
#include "value/fill.hpp"
#include "value/sound.hpp"

using dedup::Header;

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

/* The state is a sketch in its full form: only its body changes. */
static inline bool
IsSketch(const Header &header)
{
	return header.form == dedup::Form::kWorkingFull && header.method == &dedup::CountMethod() &&
		   header.deferred() == 0;
}

/*
 * approx_count_hashes_trans(state dedup_filter, hash bigint) returns dedup_filter
 *
 * Citus looks the function up for every row, so nothing can be kept for the call site. What is
 * kept is the header of the last full sketch: all of one shape have the same.
 */
DEDUP_FUNCTION(approx_count_hashes_trans)
{
	static dedup::LastCheck last;
	struct varlena *value;
	FilterState state;
	uint64 limit;
	uint64 hash;

	if (!AggCheckCallContext(fcinfo, NULL))
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("aggregate support function called outside of an aggregate"),
						errhint("Use approx_count_hashes().")));
	if (PG_ARGISNULL(1))
	{
		if (PG_ARGISNULL(0))
			PG_RETURN_NULL();
		PG_RETURN_DATUM(PG_GETARG_DATUM(0));
	}
	hash = (uint64) PG_GETARG_INT64(1);
	if (PG_ARGISNULL(0))
		value = MakeEmptyFilter(*CountShape());
	else
	{
		value = (struct varlena *) PG_DETOAST_DATUM(PG_GETARG_DATUM(0));
		if (likely(
				dedup::SameBody((const uint8_t *) VARDATA(value), VARSIZE(value) - VARHDRSZ, last)))
		{
			dedup::AddToSketch(last.header.shape,
							   (uint8_t *) VARDATA(value) + last.header.body_at(), hash);
			AssertAgrees(value, last.header);
			PG_RETURN_POINTER(value);
		}
	}
	CheckFlat(value, &state.header);
	limit = LimitOf(state.header, HashLimit::Value);
	StartFilling(&state, value, limit);
	FillWith(&state, hash, limit);
	if (IsSketch(state.header))
	{
		last.size = 0; /* for a whole check */
		(void) dedup::CheckAgain(state.image(), VARSIZE(state.value) - VARHDRSZ, &last);
	}
	PG_RETURN_POINTER(state.value);
}
