/*
 * dedup_new_keys(filter, keys): returns the elements of an array that a filter does not remember.
 *
 * This set-returning function processes the whole array at its first call, so that the filter is
 * queried in batches. Then it returns the remaining elements one by one. Keys that are in the array
 * twice are found by comparing hashes, not by adding them to a copy of the filter: the copy would
 * be expensive, and a false positive between two elements would lose a key that is stored nowhere
 * else.
 */
#include "pg/sets.hpp"
#include "value/cache.hpp"

extern "C" {
#include "nodes/nodeFuncs.h"
#include "nodes/supportnodes.h"
#include "utils/selfuncs.h"
}

namespace
{

/* The data that the call site keeps in fn_extra, for the query. */
struct NewKeysSite
{
	ElementSet set;
	FilterCache *cache;
};

/* A set of hashes. Their largest number is known beforehand. */
struct HashSet
{
	uint64 *slots; /* 0: free */
	uint64 size;
	bool has_zero;
};

} /* namespace */

/* The number of elements that are hashed and looked up at a time. */
static constexpr int BATCH = 1024;

static HashSet
MakeHashSet(int room)
{
	HashSet set = {};

	set.size = 2 * (uint64) room + 1;
	set.slots = (uint64 *) MemoryContextAllocHuge(CurrentMemoryContext, sizeof(uint64) * set.size);
	dedup::ClearInPieces((uint8_t *) set.slots, sizeof(uint64) * set.size);
	return set;
}

/* Adds the hash. Returns whether it is new. */
static bool
AddToSet(HashSet *set, uint64 hash)
{
	if (hash == 0)
	{
		bool is_new = !set->has_zero;

		set->has_zero = true;
		return is_new;
	}
	for (uint64 slot = dedup::FastRange(hash, set->size);;)
	{
		if (set->slots[slot] == hash)
			return false;
		if (set->slots[slot] == 0)
		{
			set->slots[slot] = hash;
			return true;
		}
		if (++slot == set->size)
			slot = 0;
	}
}

/*
 * Keeps the new elements, in order. Returns how many there are. Allocates in the current context;
 * hashing a batch allocates in a child of that.
 */
static int
KeepNewKeys(ElementSet *set, const FilterRef &given)
{
	/* For a few keys an index is too expensive. */
	FilterRef filter =
		IsLongList(given.header) && set->count > (int) SEARCHED_HASHES ? CopyIndexed(given) : given;
	HashSet earlier = MakeHashSet(set->count);
	const dedup::KeySeed seed = dedup::KeySeedOf(filter.header.shape);
	MemoryContext context =
		AllocSetContextCreateInternal(CurrentMemoryContext, "dedup_new_keys batch",
									  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	uint64 hashes[BATCH];
	uint8_t seen[BATCH];
	int kept = 0;

	for (int start = 0; start < set->count; start += BATCH)
	{
		const int n = Min(BATCH, set->count - start);
		int hashed = 0;
		int asked = 0;

		CHECK_FOR_INTERRUPTS();
		MemoryContextReset(context);
		for (int i = start; i < start + n; i++)
		{
			NullableDatum column;

			column.value = set->values[i];
			column.isnull = set->isnull[i];
			if (HashColumns(set->plan.keys, &column, NullKeys::Skip, seed, &hashes[hashed]))
				hashed++;
		}
		dedup::ContainsAll(filter.image, filter.header, hashes, (size_t) hashed, seen);
		for (int i = start; i < start + n; i++)
		{
			if (!set->isnull[i])
			{
				const int place = asked++;

				if (seen[place] != 0 || !AddToSet(&earlier, hashes[place]))
					continue;
			}
			KeepElement(set, kept++, i);
		}
	}
	MemoryContextSwitchTo(old);
	return kept;
}

static NewKeysSite *
GetNewKeysSite(FunctionCallInfo fcinfo)
{
	NewKeysSite *site = (NewKeysSite *) fcinfo->flinfo->fn_extra;

	if (site == NULL)
	{
		site = (NewKeysSite *) MemoryContextAllocZero(fcinfo->flinfo->fn_mcxt, sizeof(NewKeysSite));
		fcinfo->flinfo->fn_extra = site;
	}
	return site;
}

static void
ChooseNewKeys(FunctionCallInfo fcinfo, NewKeysSite *site)
{
	MemoryContext work = StartSet(fcinfo, &site->set);
	MemoryContext old = MemoryContextSwitchTo(work);
	FilterRef filter = GetFilterCached(fcinfo, PG_GETARG_DATUM(0), &site->cache);
	int kept;

	RequireMembership(*filter.header.method);
	TakeElements(fcinfo, &site->set, 1);
	kept = KeepNewKeys(&site->set, filter);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(work);
	ReturnElements(fcinfo, &site->set, kept);
}

/*
 * dedup_new_keys(filter dedup_filter, keys anyarray) returns setof anyelement
 *
 * Returns the elements that the filter does not remember, in order. Of equal elements, returns the
 * first. NULL elements are not keys, so each of them is new. The filter does not change.
 */
DEDUP_FUNCTION(dedup_new_keys_value)
{
	NewKeysSite *site = GetNewKeysSite(fcinfo);

	(void) RequireSet(fcinfo, SFRM_ValuePerCall);
	if (!site->set.active)
		ChooseNewKeys(fcinfo, site);
	return NextElement(fcinfo, &site->set);
}

/*
 * dedup_new_keys_support(internal) returns internal
 *
 * Planner support: there are at most as many rows as the array has elements.
 */
DEDUP_FUNCTION(dedup_new_keys_support)
{
	Node *node = (Node *) PG_GETARG_POINTER(0);

	if (IsA(node, SupportRequestRows))
	{
		SupportRequestRows *request = (SupportRequestRows *) node;

		if (is_funcclause(request->node))
		{
			Node *array = (Node *) lsecond(((FuncExpr *) request->node)->args);

			request->rows = ESTIMATE_ARRAY_LENGTH(request->root, array);
			PG_RETURN_POINTER(request);
		}
	}
	PG_RETURN_POINTER(NULL);
}
