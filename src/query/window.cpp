/*
 * dedup_is_new([prototype,] key...) OVER (...): whether the row's key is new in its
 * partition.
 *
 * A true window function: it is called once a row in the window's order, so peers
 * are told apart, and it reads the current row only, so the rows behind it are
 * given back as it goes. The filter lives in the partition's memory.
 */
#include "pg/keys.hpp"
#include "query/own_filter.hpp"

extern "C" {
#include "windowapi.h"
}

using dedup::Shape;

namespace
{

/* What the call site keeps in fn_extra, for the query. */
struct WindowSite
{
	KeyPlan *keys;
	bool has_default;
	Shape default_shape;
	bool warned;
	NullableDatum *columns; /* of the row in hand */
};

/* What a partition keeps; zeroed by the server at its start. */
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
	WindowSite *site = (WindowSite *) fcinfo->flinfo->fn_extra;
	int first = with_prototype ? 1 : 0;
	MemoryContext old;
	uint64 hash;
	bool is_new;

	/* CREATE OPERATOR takes a window function, and an operator is called as a plain one. */
	if (!WindowObjectIsValid(window))
		ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE),
						errmsg("window function %s called outside of a window", "dedup_is_new"),
						errhint("Call it with an OVER clause.")));
	partition = (PartitionState *) WinGetPartitionLocalMemory(window, sizeof(PartitionState));

	if (site == NULL)
	{
		site = (WindowSite *) MemoryContextAllocZero(fcinfo->flinfo->fn_mcxt, sizeof(WindowSite));
		site->keys = MakeKeyPlan(fcinfo, first);
		site->columns =
			(NullableDatum *) MemoryContextAllocZero(fcinfo->flinfo->fn_mcxt,
													 sizeof(NullableDatum) * site->keys->columns);
		fcinfo->flinfo->fn_extra = site;
	}

	if (!partition->started)
	{
		Shape shape = {};

		if (with_prototype)
		{
			bool isnull;
			Datum prototype = WinGetFuncArgCurrent(window, 0, &isnull);

			shape = GetPrototype(isnull, prototype);
		}
		old = MemoryContextSwitchTo(GetMemoryChunkContext(partition));
		if (with_prototype)
			StartPrototypeFilter(&partition->own, shape);
		else
		{
			if (!site->has_default)
				site->default_shape = DefaultShape();
			site->has_default = true;
			StartDefaultFilter(&partition->own, site->default_shape);
		}
		partition->started = true;
		MemoryContextSwitchTo(old);
	}

	for (int i = 0; i < site->keys->columns; i++)
		site->columns[i].value = WinGetFuncArgCurrent(window, first + i, &site->columns[i].isnull);
	HashColumns(site->keys, site->columns, NullKeys::Equal, partition->own.seed(), &hash);

	old = MemoryContextSwitchTo(GetMemoryChunkContext(partition));
	is_new = IsNewToOwn(&partition->own, hash);
	MemoryContextSwitchTo(old);
	if (is_new)
		WarnOwnOverfull(&partition->own, &site->warned, "dedup_is_new");
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
 * The prototype of a partition's first row counts.
 */
DEDUP_FUNCTION(dedup_is_new_prototype)
{
	return IsNew(fcinfo, true);
}
