/*
 * dedup_new_keys(name, keys): returns the elements of an array that are new to a live filter, which
 * remembers them.
 */
#include "live/call.hpp"

/* Adds the whole array at the first call. */
static void
AddKeys(FunctionCallInfo fcinfo, LiveCall *call)
{
	ElementSet *set = &call->set;
	MemoryContext work = StartSet(fcinfo, set);
	MemoryContext old = MemoryContextSwitchTo(work);
	LiveFilter filter;
	uint64 *hashes;
	int *places;
	LiveAnswer *answers;
	size_t n = 0;
	size_t fresh = 0;
	int kept = 0;

	TakeElements(fcinfo, set, 1);
	SettleLandedRows();
	filter = OpenLive(ResolveName(fcinfo, call), LiveUse::Add, GetUserId(), "dedup_new_keys()");
	hashes = (uint64 *) palloc_extended(sizeof(uint64) * ((Size) set->count + 1), MCXT_ALLOC_HUGE);
	places = (int *) palloc_extended(sizeof(int) * ((Size) set->count + 1), MCXT_ALLOC_HUGE);
	answers = (LiveAnswer *) palloc_extended(sizeof(LiveAnswer) * ((Size) set->count + 1),
											 MCXT_ALLOC_HUGE);

	const dedup::KeySeed seed = filter.key_seed();

	for (int i = 0; i < set->count; i++)
	{
		NullableDatum column;

		column.value = set->values[i];
		column.isnull = set->isnull[i];
		places[i] = -1;
		if (HashByShortcut(set->plan.keys, &column, seed, &hashes[n]) ||
			HashColumns(set->plan.keys, &column, NullKeys::Skip, seed, &hashes[n]))
			places[i] = (int) n++;
	}
	LiveTestAndAddBatch(filter, hashes, n, LiveGenerationNow(filter), answers);
	for (int i = 0; i < set->count; i++)
	{
		if (places[i] >= 0 && answers[places[i]] == LiveAnswer::Duplicate)
			continue;
		KeepElement(set, kept++, i);
		fresh += places[i] >= 0;
	}
	if (fresh > 0)
		CountLive(filter, LiveCounter::New, (int64) fresh);
	if (n > fresh)
		CountLive(filter, LiveCounter::Duplicate, (int64) (n - fresh));
	CloseLive(filter);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(work);
	ReturnElements(fcinfo, set, kept);
}

/*
 * dedup_new_keys(name, keys anyarray) returns setof anyelement
 *
 * Returns the elements that are new, in order. The filter remembers them as one batch, with one WAL
 * record for up to four pages. NULL elements are new, and not remembered.
 */
DEDUP_FUNCTION(dedup_live_new_keys)
{
	LiveCall *call = GetLiveCall(fcinfo);

	(void) RequireSet(fcinfo, SFRM_ValuePerCall);
	if (!call->set.active)
	{
		RequireArgument(fcinfo, 0, "name", "dedup_new_keys()");
		/* array_agg() over no rows returns NULL: there is no key to look up. */
		if (PG_ARGISNULL(1))
			return NoElements(fcinfo);
		AddKeys(fcinfo, call);
	}
	return NextElement(fcinfo, &call->set);
}
