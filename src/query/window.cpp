/*
 * dedup_is_new([prototype,] key...) OVER (...): whether the row's key is new in its
 * partition.
 *
 * A true window function: it is called once a row in the window's order, so peers
 * are told apart, and it reads the current row only, so the rows behind it are
 * given back as it goes. The filter lives in the partition's memory.
 */
#include "pg/keys.hpp"
#include "value/datum.hpp"

extern "C" {
#include "executor/nodeHash.h"
#include "windowapi.h"
}

using dedup::Shape;

namespace
{

/* What the call site keeps in fn_extra, for the query. */
struct WindowSite
{
	KeyPlan    *keys;
	bool		has_default;
	Shape		default_shape;
	bool		warned;
	NullableDatum *columns;		/* of the row in hand */
};

/* What a partition keeps; zeroed by the server at its start. */
struct PartitionState
{
	bool		started;
	FilterState filter;
	uint64		limit;			/* most hashes before the method takes over */
	uint64		keys;			/* answered new */
};

/* Without a prototype. */
constexpr double DEFAULT_FPR = 0.001;

}							/* namespace */

/*
 * Without a prototype: a window that fills hash_mem. Its exact form ends when the
 * hashes with their index take as much.
 */
static void
StartDefault(WindowSite *site, PartitionState *partition)
{
	Size		memory = get_hash_memory_limit();

	if (!site->has_default)
	{
		dedup::Request request;

		request.memory = Min(memory, dedup::kMaxBodyBytes);
		request.fpr = DEFAULT_FPR;
		if (dedup::PlanFilter(dedup::WindowMethod(), request, 0, &site->default_shape) !=
			dedup::PlanStatus::kOk)
			elog(ERROR, "could not size a window of %zu bytes", memory);
		site->has_default = true;
	}
	partition->limit = site->default_shape.bytes / 24;
	StartFilling(&partition->filter, MakeEmptyFilter(site->default_shape), partition->limit);
}

static void
WarnOverfull(WindowSite *site, const PartitionState *partition)
{
	const dedup::Header &header = partition->filter.header;

	if (site->warned || header.method->forgets(header.shape) || header.exact() ||
		partition->keys <= header.shape.keys)
		return;
	site->warned = true;
	ereport(WARNING,
			(errmsg("the filter of dedup_is_new is overfull"),
			 errdetail("It was sized for " UINT64_FORMAT " keys at a false-positive rate of %g and now holds " UINT64_FORMAT ", at a rate of %.3g that rises with every further key.",
					   header.shape.keys, header.shape.fpr, partition->keys,
					   header.method->expected_fpr(header.shape, (double) partition->keys)),
			 errhint("Give a prototype for more keys, or dedup_window(), which forgets old keys and keeps its rate.")));
}

static Datum
IsNew(FunctionCallInfo fcinfo, bool with_prototype)
{
	WindowObject window = PG_WINDOW_OBJECT();
	PartitionState *partition = (PartitionState *)
		WinGetPartitionLocalMemory(window, sizeof(PartitionState));
	WindowSite *site = (WindowSite *) fcinfo->flinfo->fn_extra;
	int			first = with_prototype ? 1 : 0;
	struct varlena *before;
	MemoryContext old;
	uint64		hash;
	bool		is_new;

	if (site == NULL)
	{
		site = (WindowSite *) MemoryContextAllocZero(fcinfo->flinfo->fn_mcxt, sizeof(WindowSite));
		site->keys = MakeKeyPlan(fcinfo, first);
		site->columns = (NullableDatum *)
			MemoryContextAllocZero(fcinfo->flinfo->fn_mcxt,
								   sizeof(NullableDatum) * site->keys->columns);
		fcinfo->flinfo->fn_extra = site;
	}

	if (!partition->started)
	{
		Shape		shape = {};

		if (with_prototype)
		{
			bool		isnull;
			Datum		prototype = WinGetFuncArgCurrent(window, 0, &isnull);

			shape = GetPrototype(isnull, prototype);
		}
		old = MemoryContextSwitchTo(GetMemoryChunkContext(partition));
		if (with_prototype)
		{
			struct varlena *empty = MakeEmptyFilter(shape);

			CheckFlat(empty, &partition->filter.header);
			RequireMembership(*partition->filter.header.method);
			partition->limit = LimitOf(partition->filter.header, HashLimit::Value);
			StartFilling(&partition->filter, empty, partition->limit);
		}
		else
			StartDefault(site, partition);
		partition->started = true;
		MemoryContextSwitchTo(old);
	}

	for (int i = 0; i < site->keys->columns; i++)
		site->columns[i].value = WinGetFuncArgCurrent(window, first + i,
													  &site->columns[i].isnull);
	HashColumns(site->keys, site->columns, NullKeys::Equal,
				dedup::KeySeedOf(partition->filter.header.shape),
				&hash);

	before = partition->filter.value;
	old = MemoryContextSwitchTo(GetMemoryChunkContext(partition));
	is_new = FillWith(&partition->filter, hash, partition->limit);
	if (partition->filter.value != before)
		pfree(before);
	MemoryContextSwitchTo(old);

	if (is_new)
	{
		partition->keys++;
		WarnOverfull(site, partition);
	}
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
