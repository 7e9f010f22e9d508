/*
 * The transition functions of dedup_agg and approx_count_distinct, and of their forms over hashes
 * of keys: the code that runs for every row. value/aggregate.hpp describes the states.
 */
#include "core/sketch.hpp"
#include "value/aggregate.hpp"
#include "value/merge.hpp"
#include "value/sound.hpp"

extern "C" {
#include "nodes/primnodes.h"
}

using dedup::Header;
using dedup::Shape;

namespace
{

/* The memory that holds the state of an aggregate. */
enum class StateType
{
	Filter,  /* declared dedup_filter: the executor copies a new value */
	Internal /* declared internal: we put it into the aggregate's context */
};

/* For aggregates without a prototype, whose filters grow. */
constexpr double DEFAULT_FPR = 0.01;

/* For approx_count_distinct: 2^12 registers, a standard error of 0.57 %. */
constexpr uint64 COUNT_MEMORY = 16 * 1024;

} /* namespace */

/*
 * Finds out whether the call site's states are those of a partial aggregate or of a whole one.
 * Another extension that calls merges the states, and so does a caller that needs them as text.
 */
static void
FindLimit(FunctionCallInfo fcinfo, AggregateSite *site)
{
	Aggref *aggref = AggGetAggref(fcinfo);

	const bool partial =
		CalledByOther(fcinfo) || (aggref != NULL && (DO_AGGSPLIT_SKIPFINAL(aggref->aggsplit) ||
													 aggref->aggtype == CSTRINGOID));

	site->limit = partial ? HashLimit::State : HashLimit::Value;
	site->started = true;
}

/*
 * Raises an error (0A000) if the states of the call site will be merged and filters of this method
 * cannot be merged. The first row raises it. So whether a plan raises it does not depend on which
 * processes or partitions have rows.
 */
static void
RequireMergeOfStates(FunctionCallInfo fcinfo, const AggregateSite *site,
					 const dedup::Method &method)
{
	Aggref *aggref;

	if (site->limit == HashLimit::Value)
		return;
	aggref = AggGetAggref(fcinfo);
	RequireMerge(method, !CalledByOther(fcinfo) && aggref != NULL &&
							 DO_AGGSPLIT_SKIPFINAL(aggref->aggsplit));
}

/*
 * Makes the state of a new group with a prototype's shape. States of partial aggregates that grow
 * have a lower rate, because they will be merged: Finish() turns them into filters of the
 * prototype's shape.
 */
static struct varlena *
MakeState(FunctionCallInfo fcinfo, AggregateSite *site, const Shape &prototype)
{
	if (!site->has_prototype || site->prototype != prototype)
	{
		const dedup::Method *method = dedup::MethodByCode(prototype.method);
		const dedup::Growth *growth = method->growth;

		if (!site->started)
			FindLimit(fcinfo, site);
		RequireMergeOfStates(fcinfo, site, *method);
		site->prototype = site->state_shape = prototype;
		site->most_keys = PG_UINT64_MAX;
		if (growth != NULL && site->limit == HashLimit::State)
		{
			site->state_shape = growth->state_shape(prototype);
			site->most_keys = growth->most_keys(site->state_shape);
		}
		site->has_prototype = true;
	}
	return MakeEmptyFilter(site->state_shape);
}

/*
 * Makes the state of a group without a prototype: of a method that grows, or of `memory` bytes. It
 * is sized once for the call site. If aggregates of both methods share a call site, it is sized
 * again.
 */
static struct varlena *
MakeDefault(FunctionCallInfo fcinfo, AggregateSite *site, const dedup::Method &method,
			uint64 memory)
{
	if (!site->has_default || site->default_shape.method != method.code)
	{
		dedup::Request request;

		request.memory = memory;
		request.fpr = DEFAULT_FPR;
		dedup::PlanFilter(method, request, 0, &site->default_shape);
		site->has_default = true;
	}
	return MakeState(fcinfo, site, site->default_shape);
}

/* ---- keys -------------------------------------------------------------------- */

namespace
{

/*
 * The keys of an aggregate over columns of any type, from argument `FIRST` on. Only an aggregate
 * that counts takes filters as keys.
 */
template <StateType TYPE, int FIRST, bool TAKES_FILTERS> struct ColumnKeys
{
	static constexpr StateType STATE = TYPE;

	static void Start(FunctionCallInfo fcinfo, AggregateSite *site)
	{
		KeyPlan *keys;

		if (likely(site->keys != NULL))
			return;
		keys = MakeKeyPlan(fcinfo, FIRST);
		if (!TAKES_FILTERS)
			RefuseFilterAsKey(keys);
		site->keys = keys;
	}

	static pg_attribute_always_inline bool Hash(FunctionCallInfo fcinfo, AggregateSite *site,
												const Shape &shape, uint64 *hash)
	{
		return HashKey(site->keys, fcinfo, NullKeys::Skip, dedup::KeySeedOf(shape), hash);
	}

	/* Does the same for keys with a fast path. Returns false for others. */
	static pg_attribute_always_inline bool HashFast(FunctionCallInfo fcinfo, AggregateSite *site,
													const Shape &shape, uint64 *hash)
	{
		return HashByShortcut(site->keys, &fcinfo->args[FIRST], dedup::KeySeedOf(shape), hash);
	}
};

/* The keys of an aggregate over hashes that dedup_hash() made, in argument `ARGUMENT`. */
template <int ARGUMENT> struct HashedKeys
{
	static constexpr StateType STATE = StateType::Filter;

	static void Start(FunctionCallInfo, AggregateSite *) {}

	static bool Hash(FunctionCallInfo fcinfo, AggregateSite *, const Shape &, uint64 *hash)
	{
		*hash = (uint64) PG_GETARG_INT64(ARGUMENT);
		return !PG_ARGISNULL(ARGUMENT);
	}
};

} /* namespace */

/*
 * Returns whether the state of the last row has more keys than a growing state can hold at its
 * rate.
 */
static inline bool
FillsLargestState(const AggregateSite *site)
{
	const Header &header = site->last.header;

	return unlikely(header.counters.count > site->most_keys) && header.shape == site->state_shape;
}

/* Adds a key to a state that must change its form or grow. Returns the new value. */
template <StateType STATE>
static struct varlena *
AddByGrowing(FunctionCallInfo fcinfo, AggregateSite *site, struct varlena *value, uint64 hash)
{
	MemoryContext old = CurrentMemoryContext;
	struct varlena *from = value;
	struct varlena *started;
	FilterState state;

	if (STATE == StateType::Internal)
		MemoryContextSwitchTo(AggregateContext(fcinfo));
	if (FillsLargestState(site))
		from = MakePlain(SettledState(value)); /* a plain filter can hold more keys at its rate */
	StartFilling(&state, from, LimitOf(site->last.header, site->limit));
	started = state.value;
	FillWith(&state, hash, LimitOf(state.header, site->limit));
	if (STATE == StateType::Internal && started != from && started != state.value)
		pfree(started);
	if (STATE == StateType::Internal && from != value && from != state.value)
		pfree(from);
	MemoryContextSwitchTo(old);
	return state.value;
}

/* Adds this row's key to the state, or to a new one. Called for every row of every dedup_agg. */
template <typename Keys>
static pg_attribute_always_inline struct varlena *
AddKey(FunctionCallInfo fcinfo, AggregateSite *site, struct varlena *value)
{
	uint8_t *image = (uint8_t *) VARDATA(value);
	Header *header = &site->last.header;
	uint64 hash;

	site->deferring = NULL;
	Keys::Start(fcinfo, site);
	if (unlikely(dedup::CheckAgain(image, VARSIZE(value) - VARHDRSZ, &site->last) !=
				 dedup::Flaw::kNone))
		CheckFlat(value, header); /* raises its error */
	if (!Keys::Hash(fcinfo, site, header->shape, &hash))
		return value;
	if (likely(!header->canonical()) && likely(!FillsLargestState(site)))
	{
		dedup::Outcome outcome;

		dedup::Align(image, header);
		outcome = dedup::Defer(image, header, hash);
		if (likely(outcome != dedup::Outcome::kNoRoom))
		{
			if (unlikely(outcome == dedup::Outcome::kFull))
				ReportFull(*header);
			if (Keys::STATE == StateType::Internal && header->deferred() > 0)
			{
				site->deferring = value;
				site->list = dedup::DeferredList(*header);
			}
			AssertAgrees(value, *header);
			return value;
		}
	}
	if (unlikely(!site->started))
		FindLimit(fcinfo, site);
	return AddByGrowing<Keys::STATE>(fcinfo, site, value, hash);
}

/* Adds the first key of a group to its new, empty state. */
template <typename Keys>
static Datum
StartGroup(FunctionCallInfo fcinfo, AggregateSite *site, struct varlena *empty)
{
	struct varlena *value = AddKey<Keys>(fcinfo, site, empty);

	if (Keys::STATE == StateType::Internal && value == empty)
		return KeepInternal(fcinfo, NULL, empty);
	PG_RETURN_POINTER(value);
}

/* Adds a further key of a group. */
template <typename Keys>
static pg_attribute_always_inline Datum
ContinueGroup(FunctionCallInfo fcinfo, AggregateSite *site, struct varlena *state)
{
	struct varlena *value = AddKey<Keys>(fcinfo, site, state);

	if (Keys::STATE == StateType::Internal && unlikely(value != state))
		pfree(state);
	PG_RETURN_POINTER(value);
}

/*
 * Defers this row's key if the state is the last row's and can defer one more key, and the key has
 * a fast path to its hash. Most rows of a large group end here; AddKey() handles the others.
 *
 * An internal state is made at the call site that adds keys to it, and only that call site moves
 * it. So the state at the last row's address is the last row's, which was checked. A final function
 * may have settled the state meanwhile, which the list notices.
 */
template <typename Keys>
static pg_attribute_always_inline bool
DeferAgain(FunctionCallInfo fcinfo)
{
	AggregateSite *site = (AggregateSite *) fcinfo->flinfo->fn_extra;
	struct varlena *state = (struct varlena *) fcinfo->args[0].value;
	uint8_t *image = (uint8_t *) VARDATA(state);
	uint64 hash;

	if (site == NULL || fcinfo->args[0].isnull || state != site->deferring ||
		!site->list.TakesMoreOf(image) ||
		!Keys::HashFast(fcinfo, site, site->last.header.shape, &hash))
		return false;
	site->list.Add(image, hash);
	return true;
}

/* ---- transition functions ------------------------------------------------------ */

template <typename Keys>
static pg_noinline Datum
AddAnyToDefault(FunctionCallInfo fcinfo)
{
	AggregateSite *site = GetSite(fcinfo, true);

	if (unlikely(PG_ARGISNULL(0)))
		return StartGroup<Keys>(fcinfo, site, MakeDefault(fcinfo, site, dedup::GrowingMethod(), 0));
	return ContinueGroup<Keys>(fcinfo, site, GetState(fcinfo));
}

template <typename Keys>
static pg_attribute_always_inline Datum
AddToDefault(FunctionCallInfo fcinfo)
{
	if constexpr (Keys::STATE == StateType::Internal)
		if (likely(DeferAgain<Keys>(fcinfo)))
			return PG_GETARG_DATUM(0);
	return AddAnyToDefault<Keys>(fcinfo);
}

/* The first row's prototype is used. */
template <typename Keys>
static pg_noinline Datum
AddAnyAsPrototype(FunctionCallInfo fcinfo)
{
	AggregateSite *site = GetSite(fcinfo, true);

	if (unlikely(PG_ARGISNULL(0)))
		return StartGroup<Keys>(fcinfo, site,
								MakeState(fcinfo, site,
										  GetPrototype(PG_ARGISNULL(1), PG_GETARG_DATUM(1))));
	return ContinueGroup<Keys>(fcinfo, site, GetState(fcinfo));
}

template <typename Keys>
static pg_attribute_always_inline Datum
AddAsPrototype(FunctionCallInfo fcinfo)
{
	if constexpr (Keys::STATE == StateType::Internal)
		if (likely(DeferAgain<Keys>(fcinfo)))
			return PG_GETARG_DATUM(0);
	return AddAnyAsPrototype<Keys>(fcinfo);
}

template <typename Keys>
static pg_attribute_always_inline Datum
Count(FunctionCallInfo fcinfo)
{
	AggregateSite *site = GetSite(fcinfo, true);
	struct varlena *value;
	Datum result;
	uint8_t *image;
	const Header *header = &site->last.header;

	if (unlikely(PG_ARGISNULL(0)))
	{
		site->sketch = false; /* the last state was of another group */
		return StartGroup<Keys>(fcinfo, site,
								MakeDefault(fcinfo, site, dedup::CountMethod(), COUNT_MEMORY));
	}
	value = GetState(fcinfo);
	image = (uint8_t *) VARDATA(value);

	/* A sketch's header never changes, so most rows find the same one again. */
	if (likely(site->sketch) &&
		likely(dedup::SameBody(image, VARSIZE(value) - VARHDRSZ, site->last)))
	{
		uint64 hash;

		if (Keys::Hash(fcinfo, site, header->shape, &hash))
			dedup::AddToSketch(header->shape, image + header->body_at(), hash);
		AssertAgrees(value, *header);
		PG_RETURN_POINTER(value);
	}
	site->sketch = false;
	result = ContinueGroup<Keys>(fcinfo, site, value);
	if (DatumGetPointer(result) == (Pointer) value && header->form == dedup::Form::kWorkingFull &&
		header->method == &dedup::CountMethod() && header->deferred() == 0)
	{
		memcpy(site->last.raw, image, dedup::kHeaderBytes);
		site->sketch = true;
	}
	return result;
}

/*
 * dedup_agg_trans(state dedup_filter, VARIADIC key "any") returns dedup_filter
 *
 * No aggregate of this extension calls this function and the next two. They are for users' own
 * aggregates whose state must have a text or binary form.
 */
DEDUP_FUNCTION(dedup_agg_trans)
{
	return AddToDefault<ColumnKeys<StateType::Filter, 1, false>>(fcinfo);
}

/*
 * dedup_agg_trans(state dedup_filter, prototype dedup_filter, VARIADIC key "any")
 * returns dedup_filter
 */
DEDUP_FUNCTION(dedup_agg_prototype_trans)
{
	return AddAsPrototype<ColumnKeys<StateType::Filter, 2, false>>(fcinfo);
}

/*
 * approx_count_distinct_trans(state dedup_filter, VARIADIC key "any") returns dedup_filter
 */
DEDUP_FUNCTION(approx_count_distinct_trans)
{
	return Count<ColumnKeys<StateType::Filter, 1, true>>(fcinfo);
}

/*
 * dedup_agg_internal_trans(state internal, VARIADIC key "any") returns internal
 */
DEDUP_FUNCTION(dedup_agg_internal_trans)
{
	return AddToDefault<ColumnKeys<StateType::Internal, 1, false>>(fcinfo);
}

/*
 * dedup_agg_internal_trans(state internal, prototype dedup_filter, VARIADIC key "any")
 * returns internal
 */
DEDUP_FUNCTION(dedup_agg_internal_prototype_trans)
{
	return AddAsPrototype<ColumnKeys<StateType::Internal, 2, false>>(fcinfo);
}

/*
 * approx_count_distinct_internal_trans(state internal, VARIADIC key "any") returns internal
 */
DEDUP_FUNCTION(approx_count_distinct_internal_trans)
{
	return Count<ColumnKeys<StateType::Internal, 1, true>>(fcinfo);
}

/*
 * dedup_agg_hashes_trans(state dedup_filter, hash bigint) returns dedup_filter
 */
DEDUP_FUNCTION(dedup_agg_hashes_trans)
{
	return AddToDefault<HashedKeys<1>>(fcinfo);
}

/*
 * dedup_agg_hashes_trans(state dedup_filter, prototype dedup_filter, hash bigint)
 * returns dedup_filter
 */
DEDUP_FUNCTION(dedup_agg_hashes_prototype_trans)
{
	return AddAsPrototype<HashedKeys<2>>(fcinfo);
}

/*
 * approx_count_distinct_hashes_trans(state dedup_filter, hash bigint) returns dedup_filter
 */
DEDUP_FUNCTION(approx_count_distinct_hashes_trans)
{
	return Count<HashedKeys<1>>(fcinfo);
}
