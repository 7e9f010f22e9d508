/*
 * The aggregates dedup_agg, dedup_merge_agg and approx_count_distinct: their call sites, and the
 * functions that merge, send and finish states. transition.cpp adds keys to them.
 */
#include "value/aggregate.hpp"
#include "value/merge.hpp"
#include "value/sound.hpp"

extern "C" {
#include "access/xact.h"
#include "nodes/primnodes.h"
}

using dedup::Header;

/* ---- call sites ---------------------------------------------------------------- */

MemoryContext
AggregateContext(FunctionCallInfo fcinfo)
{
	MemoryContext context;

	if (!AggCheckCallContext(fcinfo, &context))
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("aggregate support function called outside of an aggregate"),
						errhint("Use dedup_agg(), dedup_merge_agg() or approx_count_distinct().")));
	return context;
}

AggregateSite *
MakeSite(FunctionCallInfo fcinfo, bool in_place)
{
	static constinit AggregateSite shared = {};
	AggregateSite *site;

	if (in_place)
		(void) AggregateContext(fcinfo);
	if (in_place && CalledByOther(fcinfo))
		return &shared;
	site = (AggregateSite *) MemoryContextAllocZero(fcinfo->flinfo->fn_mcxt, sizeof(AggregateSite));
	site->most_keys = PG_UINT64_MAX;
	fcinfo->flinfo->fn_extra = site;
	return site;
}

/* ---- states -------------------------------------------------------------------- */

FilterRef
SettledState(struct varlena *value)
{
	FilterRef state;

	CheckFlat(value, &state.header);
	if (!dedup::Settle((uint8_t *) VARDATA(value), &state.header))
		ReportFull(state.header);
	AssertSound(value, state.header);
	state.image = (const uint8_t *) VARDATA(value);
	return state;
}

Datum
KeepInternal(FunctionCallInfo fcinfo, struct varlena *replaced, struct varlena *value)
{
	MemoryContext old = MemoryContextSwitchTo(AggregateContext(fcinfo));
	struct varlena *kept = CopyFlat((uint8_t *) VARDATA(value), VARSIZE(value) - VARHDRSZ);

	MemoryContextSwitchTo(old);
	if (replaced != NULL)
		pfree(replaced);
	PG_RETURN_POINTER(kept);
}

/* ---- merging ------------------------------------------------------------------- */

/*
 * Returns whether two states that grow may have more keys together than a state can hold at its
 * rate. A plain filter can hold more, because its entries are shorter.
 */
static bool
FillLargestState(const Header &left, const Header &right)
{
	const dedup::Growth *growth = left.method->growth;

	return growth != NULL && left.shape == right.shape &&
		   left.counters.count + right.counters.count > growth->most_keys(left.shape) &&
		   growth->state_shape(left.shape) == left.shape;
}

/* Merges the second argument into the first. A NULL changes nothing. */
static Datum
MergeRow(FunctionCallInfo fcinfo, bool in_order)
{
	FilterRef other;
	FilterRef own;
	FilterState state;
	uint64 limit;

	GetSite(fcinfo, true);
	if (PG_ARGISNULL(1))
	{
		if (PG_ARGISNULL(0))
			PG_RETURN_NULL();
		PG_RETURN_POINTER(GetState(fcinfo));
	}
	other = GetFilter(PG_GETARG_DATUM(1));
	if (PG_ARGISNULL(0))
	{
		/* Returns a copy, in whatever form the value is. */
		PG_RETURN_POINTER(CopyFlat(other.image, VARSIZE(other.image - VARHDRSZ) - VARHDRSZ));
	}
	state.value = GetState(fcinfo);
	CheckFlat(state.value, &own.header);
	RequireMerge(*own.header.method, false);
	if (own.header.shape != other.header.shape || FillLargestState(own.header, other.header))
	{
		own = SettledState(state.value);
		if (FillLargestState(own.header, other.header))
			own = ReadFlat(MakePlain(own));
		UnifyPrecision(&own, &other);
		RequireSameShape(own.header, other.header);
		state.value = (struct varlena *) (own.image - VARHDRSZ);
	}
	limit = LimitOf(own.header, HashLimit::State);
	StartFilling(&state, state.value, limit);
	if (in_order && other.header.exact() && other.header.method->growth == NULL)
		TakeOverHashes(&state, other, limit);
	else
		MergeIntoState(&state, other, limit);
	PG_RETURN_POINTER(state.value);
}

/*
 * dedup_agg_combine(state dedup_filter, other dedup_filter) returns dedup_filter
 *
 * Merges partial states, by age if the method depends on it. The second argument is neither changed
 * nor kept.
 */
DEDUP_FUNCTION(dedup_agg_combine)
{
	return MergeRow(fcinfo, false);
}

/*
 * If no more aggregation follows, two large states that grow are merged into a plain filter at
 * once, because merging many keys takes most of the leader's time. Returns NULL if the states must
 * be merged in another way.
 */
static struct varlena *
CombineToPlain(FunctionCallInfo fcinfo, struct varlena *state, Datum other)
{
	Aggref *aggref = AggGetAggref(fcinfo);
	FilterRef left;
	FilterRef right;
	MemoryContext old;
	struct varlena *merged;

	if (aggref == NULL || DO_AGGSPLIT_SKIPFINAL(aggref->aggsplit))
		return NULL;
	left = SettledState(state);
	right = GetFilter(other);
	old = MemoryContextSwitchTo(AggregateContext(fcinfo));
	merged = MergeToPlain(left, right);
	MemoryContextSwitchTo(old);
	return merged;
}

/*
 * dedup_agg_internal_combine(state internal, other internal) returns internal
 */
DEDUP_FUNCTION(dedup_agg_internal_combine)
{
	struct varlena *state = PG_ARGISNULL(0) ? NULL : GetState(fcinfo);
	struct varlena *merged;

	if (PG_ARGISNULL(1))
	{
		if (state == NULL)
			PG_RETURN_NULL();
		PG_RETURN_POINTER(state);
	}
	if (state != NULL)
	{
		merged = CombineToPlain(fcinfo, state, PG_GETARG_DATUM(1));
		if (merged != NULL)
		{
			pfree(state);
			PG_RETURN_POINTER(merged);
		}
	}
	if (state == NULL)
		merged = (struct varlena *) (GetFilter(PG_GETARG_DATUM(1)).image - VARHDRSZ);
	else
		merged = (struct varlena *) DatumGetPointer(MergeRow(fcinfo, false));
	if (merged == state)
		PG_RETURN_POINTER(state);
	return KeepInternal(fcinfo, state, merged);
}

/*
 * dedup_agg_serial(state internal) returns bytea
 *
 * Serializes a state for the leader of a parallel plan: a state is a flat value already. Deferred
 * keys are settled here, because the leader only reads the state and would settle them in a copy.
 */
DEDUP_FUNCTION(dedup_agg_serial)
{
	struct varlena *state = GetState(fcinfo);

	(void) AggregateContext(fcinfo);
	(void) SettledState(state);
	PG_RETURN_POINTER(state);
}

/*
 * dedup_agg_deserial(serialized bytea, unused internal) returns internal
 *
 * The state is only read, by dedup_agg_combine(), so it can stay in the bytea. Images need the
 * alignment of a dedup_filter.
 */
DEDUP_FUNCTION(dedup_agg_deserial)
{
	struct varlena *state;

	(void) AggregateContext(fcinfo);
	state = PG_DETOAST_DATUM(PG_GETARG_DATUM(0));
	if (state != (struct varlena *) DOUBLEALIGN(state))
		state = CopyFlat((uint8_t *) VARDATA(state), VARSIZE(state) - VARHDRSZ);
	PG_RETURN_POINTER(state);
}

/*
 * dedup_merge_agg_trans(state dedup_filter, filter dedup_filter) returns dedup_filter
 *
 * The transition function of dedup_merge_agg. The keys of exact filters are added in the order in
 * which the filters come, so those of the last filter are the youngest.
 */
DEDUP_FUNCTION(dedup_merge_agg_trans)
{
	return MergeRow(fcinfo, true);
}

/* ---- results ------------------------------------------------------------------- */

/*
 * Warns as WarnIfOverfull() does, once in a query for an aggregate of another extension. What such
 * a call site keeps is lost after each row.
 */
static void
WarnForOther(FunctionCallInfo fcinfo, const FilterRef &filter, const char *name)
{
	static Node *warned_caller = NULL;
	static TimestampTz warned_statement = 0;
	const TimestampTz statement = GetCurrentStatementStartTimestamp();

	if ((fcinfo->context != warned_caller || statement != warned_statement) &&
		WarnIfOverfull(filter, name))
	{
		warned_caller = fcinfo->context;
		warned_statement = statement;
	}
}

/* Returns the finished filter. The state does not change. */
static Datum
Finish(FunctionCallInfo fcinfo, const char *name)
{
	AggregateSite *site = GetSite(fcinfo, false);
	struct varlena *finished;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	finished = MakePlain(SettledState(GetState(fcinfo)));
	if (CalledByOther(fcinfo))
		WarnForOther(fcinfo, ReadFlat(finished), name);
	else if (!site->warned)
		site->warned = WarnIfOverfull(ReadFlat(finished), name);
	PG_RETURN_POINTER(finished);
}

/*
 * approx_count_distinct_final(state dedup_filter or internal) returns bigint
 *
 * Returns 0 if there was no key, as count() does.
 */
DEDUP_FUNCTION(approx_count_distinct_final)
{
	FilterRef filter;

	if (PG_ARGISNULL(0))
		PG_RETURN_INT64(0);
	filter = GetFilter(PG_GETARG_DATUM(0));
	PG_RETURN_INT64((int64) std::llround(dedup::Read(filter.image, filter.header).count));
}

/*
 * dedup_agg_final(state dedup_filter or internal) returns dedup_filter
 */
DEDUP_FUNCTION(dedup_agg_final)
{
	return Finish(fcinfo, "dedup_agg");
}

/*
 * dedup_merge_agg_final(state dedup_filter) returns dedup_filter
 */
DEDUP_FUNCTION(dedup_merge_agg_final)
{
	return Finish(fcinfo, "dedup_merge_agg");
}
