/*
 * dedup_is_new([prototype,] key...) OVER (...): returns whether the row's key is new in its
 * partition.
 *
 * This is a true window function. WindowAgg calls it once for each row in the window's order, so
 * peers get different results. It reads only the current row, so WindowAgg can release the rows
 * before it. The filter is in the partition's memory. If the library is loaded when a query is
 * planned, our own node does the same (plan.cpp, exec.cpp).
 */
#include "query/window/call.hpp"

extern "C" {
#include "windowapi.h"
}

namespace
{

/* The data of a partition. The server zeroes it at the start of the partition. */
struct PartitionState
{
	bool started;
	OwnFilter own;
};

} /* namespace */

static Datum
IsNew(FunctionCallInfo fcinfo, bool with_prototype)
{
	WindowObject window = PG_WINDOW_OBJECT();
	PartitionState *partition;
	WindowCall *call = (WindowCall *) fcinfo->flinfo->fn_extra;
	int first = with_prototype ? 1 : 0;
	MemoryContext old;
	uint64 hash;
	bool is_new;

	/* CREATE OPERATOR accepts a window function, and an operator is called as a plain function. */
	if (!WindowObjectIsValid(window))
		ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE),
						errmsg("window function %s called outside of a window", "dedup_is_new"),
						errhint("Call it with an OVER clause.")));
	partition = (PartitionState *) WinGetPartitionLocalMemory(window, sizeof(PartitionState));

	if (call == NULL)
	{
		call = (WindowCall *) MemoryContextAllocZero(fcinfo->flinfo->fn_mcxt, sizeof(WindowCall));
		PrepareWindowCall(call, fcinfo, with_prototype);
		fcinfo->flinfo->fn_extra = call;
	}

	if (!partition->started)
	{
		NullableDatum prototype = {};

		if (with_prototype)
			prototype.value = WinGetFuncArgCurrent(window, 0, &prototype.isnull);
		StartOwnFilter(call, &partition->own, GetMemoryChunkContext(partition), &prototype);
		partition->started = true;
	}

	for (int i = 0; i < call->keys->columns; i++)
		call->columns[i].value = WinGetFuncArgCurrent(window, first + i, &call->columns[i].isnull);
	hash = HashCallKey(call, &partition->own);

	old = MemoryContextSwitchTo(GetMemoryChunkContext(partition));
	is_new = IsNewToOwn(&partition->own, hash);
	MemoryContextSwitchTo(old);
	if (is_new)
		WarnOwnOverfull(&partition->own, &call->warned, "dedup_is_new");
	WinSetMarkPosition(window, WinGetCurrentPosition(window));
	PG_RETURN_BOOL(is_new);
}

/*
 * dedup_is_new(VARIADIC key "any") returns boolean
 */
DEDUP_FUNCTION(dedup_is_new)
{
	return IsNew(fcinfo, false);
}

/*
 * dedup_is_new(prototype dedup_filter, VARIADIC key "any") returns boolean
 *
 * The prototype of a partition's first row is used.
 */
DEDUP_FUNCTION(dedup_is_new_prototype)
{
	return IsNew(fcinfo, true);
}
