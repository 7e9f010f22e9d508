/* Functions over filters as values: add, look up, merge. */
#include "pg/sets.hpp"
#include "value/cache.hpp"
#include "value/expanded.hpp"
#include "value/merge.hpp"
#include "value/sound.hpp"

extern "C" {
#include "nodes/nodeFuncs.h"
#include "nodes/supportnodes.h"
}

using dedup::Header;

namespace
{

/* The data that a call site keeps in fn_extra. */
struct CallSite
{
	KeyPlan *keys;
	ElementPlan elements; /* dedup_add_all */
	FilterCache *cache;
	bool warned; /* dedup_frequency: warned in this query */
};

} /* namespace */

static CallSite *
GetCallSite(FunctionCallInfo fcinfo)
{
	CallSite *site = (CallSite *) fcinfo->flinfo->fn_extra;

	if (site == NULL)
	{
		site = (CallSite *) MemoryContextAllocZero(fcinfo->flinfo->fn_mcxt, sizeof(CallSite));
		fcinfo->flinfo->fn_extra = site;
	}
	return site;
}

/* Returns the call site with a plan for the key columns from argument 1 on. */
static CallSite *
GetKeyCallSite(FunctionCallInfo fcinfo)
{
	CallSite *site = GetCallSite(fcinfo);

	if (site->keys == NULL)
	{
		KeyPlan *keys = MakeKeyPlan(fcinfo, 1);

		RefuseFilterAsKey(keys);
		site->keys = keys;
	}
	return site;
}

/*
 * Returns the filter as `change` makes it with the key. If the key has a NULL column, returns the
 * filter unchanged.
 */
static Datum
ChangeByKey(FunctionCallInfo fcinfo, Datum (*change)(Datum, const FilterRef &, uint64))
{
	CallSite *site = GetKeyCallSite(fcinfo);
	FilterRef filter;
	uint64 hash;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	filter = GetFilter(PG_GETARG_DATUM(0));
	if (!HashKey(site->keys, fcinfo, NullKeys::Skip, dedup::KeySeedOf(filter.header.shape), &hash))
		PG_RETURN_DATUM(PG_GETARG_DATUM(0));
	PG_RETURN_DATUM(change(PG_GETARG_DATUM(0), filter, hash));
}

/*
 * dedup_add(filter dedup_filter, VARIADIC key "any") returns dedup_filter
 *
 * Returns the filter with one more key. It is not STRICT: a key with a NULL column does not change
 * the filter. Otherwise UPDATE ... SET f = dedup_add(f, NULL) would delete it.
 */
DEDUP_FUNCTION(dedup_add)
{
	return ChangeByKey(fcinfo, AddToValue);
}

/*
 * dedup_add_all(filter dedup_filter, keys anyarray) returns dedup_filter
 *
 * Adds each element of the array as a key of one column, in order, and skips NULLs. Copies the
 * filter once for all of them.
 */
DEDUP_FUNCTION(dedup_add_all)
{
	CallSite *site = GetCallSite(fcinfo);
	FilterRef filter;
	ArrayType *array;
	uint64 *hashes;
	size_t n = 0;
	Datum *values;
	bool *isnull;
	int count;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	if (PG_ARGISNULL(1))
		PG_RETURN_DATUM(PG_GETARG_DATUM(0));
	filter = GetFilter(PG_GETARG_DATUM(0));
	array = PG_GETARG_ARRAYTYPE_P(1);
	PlanElements(fcinfo, &site->elements, array);
	RefuseFilterAsKey(site->elements.keys);
	ReadElements(&site->elements, array, &values, &isnull, &count);
	hashes = (uint64 *) MemoryContextAllocHuge(CurrentMemoryContext,
											   sizeof(uint64) * ((Size) count + 1));
	for (int i = 0; i < count; i++)
	{
		NullableDatum column;

		column.value = values[i];
		column.isnull = isnull[i];
		if (HashColumns(site->elements.keys, &column, NullKeys::Skip,
						dedup::KeySeedOf(filter.header.shape), &hashes[n]))
			n++;
		CHECK_FOR_INTERRUPTS();
	}
	if (n == 0)
		PG_RETURN_DATUM(PG_GETARG_DATUM(0));
	PG_RETURN_DATUM(AddAllToValue(PG_GETARG_DATUM(0), filter, hashes, n));
}

/*
 * dedup_add_support(internal) returns internal
 *
 * Planner support of dedup_add and dedup_add_all. From PostgreSQL 18 on, PL/pgSQL checks whether `f
 * := dedup_add(f, key)` may change the variable in place. It may: an expanded filter is changed
 * last, after the keys were hashed.
 */
DEDUP_FUNCTION(dedup_add_support)
{
#if HAS_MODIFY_IN_PLACE
	Node *request = (Node *) PG_GETARG_POINTER(0);

	if (IsA(request, SupportRequestModifyInPlace))
	{
		SupportRequestModifyInPlace *in_place = (SupportRequestModifyInPlace *) request;
		Node *filter = (Node *) linitial(in_place->args);

		if (filter != NULL && IsA(filter, Param) && ((Param *) filter)->paramkind == PARAM_EXTERN &&
			((Param *) filter)->paramid == in_place->paramid)
			PG_RETURN_POINTER(filter);
	}
#endif
	PG_RETURN_POINTER(NULL);
}

/*
 * dedup_hash(filter dedup_filter, VARIADIC key "any") returns bigint
 *
 * Returns the hash of the key in this filter; NULL if a column is NULL. If the filter is NULL, uses
 * the default seed and hash function.
 */
DEDUP_FUNCTION(dedup_hash)
{
	CallSite *site = GetKeyCallSite(fcinfo);
	dedup::KeySeed seed;
	uint64 hash;

	if (!PG_ARGISNULL(0))
		seed = dedup::KeySeedOf(
			GetFilterCached(fcinfo, PG_GETARG_DATUM(0), &site->cache).header.shape);
	if (!HashKey(site->keys, fcinfo, NullKeys::Skip, seed, &hash))
		PG_RETURN_NULL();
	PG_RETURN_INT64((int64) hash);
}

/*
 * dedup_contains(filter dedup_filter, VARIADIC key "any") returns boolean
 *
 * Returns whether the key was added. May be wrongly true, at the filter's false-positive rate.
 */
static bool
AskFilter(FunctionCallInfo fcinfo, bool *seen)
{
	CallSite *site = GetKeyCallSite(fcinfo);
	FilterRef filter = GetFilterCached(fcinfo, PG_GETARG_DATUM(0), &site->cache);
	uint64 hash;

	RequireMembership(*filter.header.method);
	if (!HashKey(site->keys, fcinfo, NullKeys::Skip, dedup::KeySeedOf(filter.header.shape), &hash))
		return false;
	*seen = dedup::Contains(filter.image, filter.header, hash);
	return true;
}

DEDUP_FUNCTION(dedup_contains)
{
	bool seen;

	if (!AskFilter(fcinfo, &seen))
		PG_RETURN_NULL();
	PG_RETURN_BOOL(seen);
}

/*
 * is_new(filter dedup_filter, VARIADIC key "any") returns boolean
 *
 * Returns the opposite. It does not add the key, because a value cannot change.
 */
DEDUP_FUNCTION(dedup_is_new_value)
{
	bool seen;

	if (!AskFilter(fcinfo, &seen))
		PG_RETURN_NULL();
	PG_RETURN_BOOL(!seen);
}

/*
 * dedup_frequency(filter dedup_filter, VARIADIC key "any") returns bigint
 *
 * Returns how often the key was seen. The result is never too low. It is too high by more than the
 * sketch's epsilon times all sights only with probability delta. A counter that has reached its
 * maximum stays there; a WARNING reports this once in a query.
 */
DEDUP_FUNCTION(dedup_frequency)
{
	CallSite *site = GetKeyCallSite(fcinfo);
	FilterRef filter = GetFilterCached(fcinfo, PG_GETARG_DATUM(0), &site->cache);
	dedup::Frequency frequency;
	uint64 hash;

	RequireFrequency(*filter.header.method);
	if (!HashKey(site->keys, fcinfo, NullKeys::Skip, dedup::KeySeedOf(filter.header.shape), &hash))
		PG_RETURN_NULL();
	frequency = dedup::FrequencyOf(filter.image, filter.header, hash);
	if (unlikely(frequency.at_least) && !site->warned)
	{
		site->warned = true;
		ereport(WARNING, (errmsg("a frequency exceeds the maximum of the filter's counters"),
						  errdetail("A counter has reached its maximum, " UINT64_FORMAT
									": the key may have been seen more often.",
									frequency.count),
						  errhint("Count shorter periods in filters of their own.")));
	}
	PG_RETURN_INT64((int64) Min(frequency.count, dedup::kMaxCount));
}

/* Returns a value without one key, or the value itself if the key is not there. */
static Datum
ForgetInValue(Datum datum, const FilterRef &filter, uint64 hash)
{
	FilterRef stored = filter;
	struct varlena *value;
	size_t size;

	RequireForget(filter.header);
	if (!filter.header.canonical())
		stored = ReadFlat(MakeCanonical(filter));
	value = AllocateFlat(dedup::ForgetBytes(stored.header));
	size = dedup::ForgetFrom(stored.image, stored.header, hash, (uint8_t *) VARDATA(value));
	if (size == 0)
	{
		pfree(value);
		return datum;
	}
	SET_VARSIZE(value, VARHDRSZ + size);
	dedup::Seal((uint8_t *) VARDATA(value), size);
	AssertCanonical(value);
	return PointerGetDatum(value);
}

/*
 * dedup_forget(filter dedup_filter, VARIADIC key "any") returns dedup_filter
 *
 * Returns the filter without one key. Raises 0A000 if its method cannot forget. A key must be
 * forgotten only if its dedup_add found it new, and only once: adding a duplicate stores nothing,
 * so forgetting it would remove another key. A key that is not there, or has a NULL column, does
 * not change the filter.
 */
DEDUP_FUNCTION(dedup_forget_value)
{
	return ChangeByKey(fcinfo, ForgetInValue);
}

/*
 * dedup_merge(left dedup_filter, right dedup_filter) returns dedup_filter, and ||
 *
 * Returns a filter with the keys of both inputs. Each method defines what a merge of full filters
 * keeps (docs/methods-in-depth.md). The shapes must be equal (22023).
 */
DEDUP_FUNCTION(dedup_merge)
{
	FilterRef left = GetFilter(PG_GETARG_DATUM(0));
	FilterRef right = GetFilter(PG_GETARG_DATUM(1));
	struct varlena *merged = MergeValues(left, right);

	WarnIfOverfull(ReadFlat(merged), "dedup_merge");
	PG_RETURN_POINTER(merged);
}
