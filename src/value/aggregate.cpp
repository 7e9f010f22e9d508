/*
 * The aggregates dedup_agg, dedup_merge_agg and approx_count_distinct.
 *
 * Their state is a dedup_filter in a working form: a flat value in the aggregate's
 * context, changed in place and returned by the same pointer. Only when it has to
 * grow does a transition return a new value, which the executor copies into the
 * aggregate's context; room doubles, so that is rare. No memory context or
 * expanded object a group: hash aggregation walks all of them at each new group.
 */
#include "core/sketch.hpp"
#include "pg/keys.hpp"
#include "value/merge.hpp"
#include "value/sound.hpp"

extern "C" {
#include "nodes/primnodes.h"
}

using dedup::Header;
using dedup::Shape;

namespace
{

/* What a call site keeps in fn_extra. */
struct AggregateSite
{
	KeyPlan *keys;
	bool has_default;
	Shape default_shape;
	bool has_prototype;
	Shape prototype;       /* the last one */
	Shape state_shape;     /* of states that are made with it */
	bool started;          /* `limit` is known */
	HashLimit limit;       /* of its states' hashes */
	bool warned;           /* final function: once a query */
	dedup::LastCheck last; /* header of the state of the last row */
	bool sketch;           /* that state is a sketch, which only counts */
};

/* Without a prototype, of a filter that grows. */
constexpr double DEFAULT_FPR = 0.01;

} /* namespace */

/*
 * What the call site keeps. States are changed in place, which is only right for an
 * aggregate's own; whether this is one does not change at a call site.
 */
static inline AggregateSite *
GetSite(FunctionCallInfo fcinfo, bool in_place)
{
	AggregateSite *site = (AggregateSite *) fcinfo->flinfo->fn_extra;

	if (likely(site != NULL))
		return site;
	if (in_place && !AggCheckCallContext(fcinfo, NULL))
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("aggregate support function called outside of an aggregate"),
						errhint("Use dedup_agg(), dedup_merge_agg() or approx_count_distinct().")));
	site = (AggregateSite *) MemoryContextAllocZero(fcinfo->flinfo->fn_mcxt, sizeof(AggregateSite));
	fcinfo->flinfo->fn_extra = site;
	return site;
}

static inline struct varlena *
GetState(FunctionCallInfo fcinfo)
{
	struct varlena *state = (struct varlena *) PG_GETARG_POINTER(0);

	return unlikely(VARATT_IS_EXTENDED(state)) ? PG_DETOAST_DATUM(PG_GETARG_DATUM(0)) : state;
}

/* What the call site's states are: those of a partial aggregate, or of a whole one. */
static void
FindLimit(FunctionCallInfo fcinfo, AggregateSite *site)
{
	Aggref *aggref = AggGetAggref(fcinfo);

	site->limit = aggref != NULL && DO_AGGSPLIT_SKIPFINAL(aggref->aggsplit) ? HashLimit::State
																			: HashLimit::Value;
	site->started = true;
}

/*
 * The state of a new group, of a prototype's shape. Those of partial aggregates that grow
 * have a lower rate, since they will be merged: Finish() makes the prototype's of them.
 */
static struct varlena *
MakeState(FunctionCallInfo fcinfo, AggregateSite *site, const Shape &prototype)
{
	if (!site->has_prototype || site->prototype != prototype)
	{
		const dedup::Growth *growth = dedup::MethodByCode(prototype.method)->growth;

		if (!site->started)
			FindLimit(fcinfo, site);
		site->prototype = site->state_shape = prototype;
		if (growth != NULL && site->limit == HashLimit::State)
			site->state_shape = growth->state_shape(prototype);
		site->has_prototype = true;
	}
	return MakeEmptyFilter(site->state_shape);
}

/*
 * Adds this row's key to the state. Called for every row of every dedup_agg. Only an
 * aggregate that counts (`only_counts`) takes filters as keys.
 */
static inline Datum
AddRow(FunctionCallInfo fcinfo, AggregateSite *site, struct varlena *value, int first_key,
	   bool only_counts = false)
{
	uint8_t *image = (uint8_t *) VARDATA(value);
	Header *header = &site->last.header;
	FilterState state;
	uint64 hash;

	if (unlikely(site->keys == NULL))
	{
		KeyPlan *keys = MakeKeyPlan(fcinfo, first_key);

		if (!only_counts)
			RefuseFilterAsKey(keys);
		site->keys = keys;
		if (!site->started)
			FindLimit(fcinfo, site);
	}
	if (unlikely(dedup::CheckAgain(image, VARSIZE(value) - VARHDRSZ, &site->last) !=
				 dedup::Flaw::kNone))
		CheckFlat(value, header); /* for its error */
	if (!HashKey(site->keys, fcinfo, NullKeys::Skip, dedup::KeySeedOf(header->shape), &hash))
		PG_RETURN_POINTER(value);
	if (likely(!header->canonical()))
	{
		dedup::Outcome outcome;

		dedup::Align(image, header);
		outcome = dedup::Defer(image, header, hash);
		if (likely(outcome != dedup::Outcome::kNoRoom))
		{
			if (unlikely(outcome == dedup::Outcome::kFull))
				ReportFull(*header);
			AssertAgrees(value, *header);
			PG_RETURN_POINTER(value);
		}
	}
	StartFilling(&state, value, LimitOf(*header, site->limit));
	FillWith(&state, hash, LimitOf(state.header, site->limit));
	PG_RETURN_POINTER(state.value);
}

/*
 * The state of a group without a prototype: of a method that grows, or of so many bytes. It is
 * sized once for the call site.
 */
static struct varlena *
MakeDefault(FunctionCallInfo fcinfo, AggregateSite *site, const dedup::Method &method,
			uint64 memory)
{
	if (!site->has_default)
	{
		dedup::Request request;

		request.memory = memory;
		request.fpr = DEFAULT_FPR;
		dedup::PlanFilter(method, request, 0, &site->default_shape);
		site->has_default = true;
	}
	return MakeState(fcinfo, site, site->default_shape);
}

/*
 * dedup_agg_trans(state dedup_filter, VARIADIC key "any") returns dedup_filter
 */
DEDUP_FUNCTION(dedup_agg_trans)
{
	AggregateSite *site = GetSite(fcinfo, true);
	struct varlena *value;

	if (PG_ARGISNULL(0))
		value = MakeDefault(fcinfo, site, dedup::GrowingMethod(), 0);
	else
		value = GetState(fcinfo);
	return AddRow(fcinfo, site, value, 1);
}

/*
 * dedup_agg_trans(state dedup_filter, prototype dedup_filter, VARIADIC key "any")
 * returns dedup_filter
 *
 * The first row's prototype counts.
 */
DEDUP_FUNCTION(dedup_agg_prototype_trans)
{
	AggregateSite *site = GetSite(fcinfo, true);
	struct varlena *value;

	if (PG_ARGISNULL(0))
		value = MakeState(fcinfo, site, GetPrototype(PG_ARGISNULL(1), PG_GETARG_DATUM(1)));
	else
		value = GetState(fcinfo);
	return AddRow(fcinfo, site, value, 2);
}

/*
 * approx_count_distinct_trans(state dedup_filter, VARIADIC key "any")
 * returns dedup_filter
 */
DEDUP_FUNCTION(approx_count_distinct_trans)
{
	AggregateSite *site = GetSite(fcinfo, true);
	struct varlena *value;
	Datum result;
	uint8_t *image;
	const Header *header = &site->last.header;

	if (PG_ARGISNULL(0))
	{
		site->sketch = false; /* of another group */
		value = MakeDefault(fcinfo, site, dedup::CountMethod(), COUNT_MEMORY);
		return AddRow(fcinfo, site, value, 1, true);
	}
	value = GetState(fcinfo);
	image = (uint8_t *) VARDATA(value);

	/* A sketch's header never changes: most rows come to the same one again. */
	if (likely(site->sketch) &&
		likely(dedup::SameBody(image, VARSIZE(value) - VARHDRSZ, site->last)))
	{
		uint64 hash;

		if (HashKey(site->keys, fcinfo, NullKeys::Skip, dedup::KeySeedOf(header->shape), &hash))
			dedup::AddToSketch(header->shape, image + header->body_at(), hash);
		AssertAgrees(value, *header);
		PG_RETURN_POINTER(value);
	}
	site->sketch = false;
	result = AddRow(fcinfo, site, value, 1, true);
	if (DatumGetPointer(result) == (Pointer) value && header->form == dedup::Form::kWorkingFull &&
		header->method == &dedup::CountMethod() && header->deferred() == 0)
	{
		memcpy(site->last.raw, image, dedup::kHeaderBytes);
		site->sketch = true;
	}
	return result;
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
		/* A copy, in whatever form it is. */
		PG_RETURN_POINTER(CopyFlat(other.image, VARSIZE(other.image - VARHDRSZ) - VARHDRSZ));
	}
	state.value = GetState(fcinfo);
	CheckFlat(state.value, &own.header);
	RequireMerge(own.header, !in_order);
	if (own.header.shape != other.header.shape)
	{
		if (!dedup::Settle((uint8_t *) VARDATA(state.value), &own.header))
			ReportFull(own.header);
		AssertAgrees(state.value, own.header);
		own.image = (const uint8_t *) VARDATA(state.value);
		UnifyPrecision(&own, &other);
		RequireSameShape(own.header, other.header);
		state.value = (struct varlena *) (own.image - VARHDRSZ);
	}
	limit = LimitOf(own.header, HashLimit::State);
	StartFilling(&state, state.value, limit);
	if (in_order && other.header.exact())
		TakeOverHashes(&state, other, limit);
	else
		MergeIntoState(&state, other, limit);
	PG_RETURN_POINTER(state.value);
}

/*
 * dedup_agg_combine(state dedup_filter, other dedup_filter) returns dedup_filter
 *
 * Merges partial states, by age where that matters. The second argument is neither
 * changed nor kept.
 */
DEDUP_FUNCTION(dedup_agg_combine)
{
	return MergeRow(fcinfo, false);
}

/*
 * dedup_merge_agg_trans(state dedup_filter, filter dedup_filter)
 * returns dedup_filter
 *
 * Transition of dedup_merge_agg. Filters that are still exact are taken over in the
 * order in which they come, the last as the youngest.
 */
DEDUP_FUNCTION(dedup_merge_agg_trans)
{
	return MergeRow(fcinfo, true);
}

/* The finished filter; the state stays as it is. */
static Datum
Finish(FunctionCallInfo fcinfo, const char *name)
{
	AggregateSite *site = GetSite(fcinfo, false);
	struct varlena *state;
	struct varlena *finished;
	FilterRef filter;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	state = GetState(fcinfo);
	CheckFlat(state, &filter.header);
	/* Settling moves keys within the state; what it holds stays the same. */
	if (!dedup::Settle((uint8_t *) VARDATA(state), &filter.header))
		ReportFull(filter.header);
	AssertSound(state, filter.header);
	filter.image = (const uint8_t *) VARDATA(state);
	finished = MakePlain(filter);
	if (!site->warned)
		site->warned = WarnIfOverfull(ReadFlat(finished), name);
	PG_RETURN_POINTER(finished);
}

/*
 * approx_count_distinct_final(state dedup_filter) returns bigint
 *
 * As count(), 0 where there was no key.
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
 * dedup_agg_final(state dedup_filter) returns dedup_filter
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
