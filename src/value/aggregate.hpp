/*
 * What the transition functions of aggregates share with those that merge and finish states.
 *
 * Their state is a dedup_filter in a working form: a flat value in the aggregate's
 * context, changed in place and returned by the same pointer. Only when it has to
 * grow does a transition return a new value; room at least doubles, so that is rare. No memory
 * context or expanded object a group: hash aggregation walks all of them at each new group.
 *
 * Aggregates over keys of any type declare their state `internal`, and a new value is made in
 * the aggregate's context. The others declare it dedup_filter, and the executor copies a new
 * value there. The difference matters to Citus. It computes an aggregate whose state is a type
 * with a text form on the workers, but its check of the argument types fails for
 * VARIADIC "any". Of an aggregate with an internal state it fetches the rows. The aggregates
 * over hashes are the ones that it can compute on the workers (query/citus.hpp).
 */
#ifndef STREAMDEDUP_VALUE_AGGREGATE_HPP
#define STREAMDEDUP_VALUE_AGGREGATE_HPP

#include "pg/keys.hpp"
#include "value/fill.hpp"

/* What a call site keeps in fn_extra. */
struct AggregateSite
{
	KeyPlan *keys;
	bool has_default;
	dedup::Shape default_shape;
	bool has_prototype;
	dedup::Shape prototype;    /* the last one */
	dedup::Shape state_shape;  /* of states that are made with it */
	uint64 most_keys;          /* that such a state holds at its rate, if it grows */
	bool started;              /* `limit` is known */
	HashLimit limit;           /* of its states' hashes */
	bool warned;               /* final function: once a query */
	dedup::LastCheck last;     /* header of the state of the last row */
	bool sketch;               /* that state is a sketch, which only counts */
	struct varlena *deferring; /* that state if it may defer the next key too, else NULL */
	dedup::DeferredList list;  /* of `deferring` */
};

/* The context of the aggregate's states. An error if no aggregate calls. */
extern MemoryContext AggregateContext(FunctionCallInfo fcinfo);

/*
 * Returns whether another extension calls, in an aggregate of its own. Citus does, and looks
 * the function up again for each row. The executor always sets fn_expr.
 */
static inline bool
CalledByOther(FunctionCallInfo fcinfo)
{
	return fcinfo->flinfo->fn_expr == NULL;
}

/* GetSite() at the first call. */
extern AggregateSite *MakeSite(FunctionCallInfo fcinfo, bool in_place);

/*
 * What the call site keeps. States are changed in place, which is only right for an
 * aggregate's own; whether this is one does not change at a call site.
 *
 * All calls by other extensions share one site, since what they keep in fn_extra is lost after
 * each row. It has no key plan. All else in a site is checked against the state or the
 * prototype of each row.
 */
static inline AggregateSite *
GetSite(FunctionCallInfo fcinfo, bool in_place)
{
	AggregateSite *site = (AggregateSite *) fcinfo->flinfo->fn_extra;

	return likely(site != NULL) ? site : MakeSite(fcinfo, in_place);
}

static inline struct varlena *
GetState(FunctionCallInfo fcinfo)
{
	struct varlena *state = (struct varlena *) PG_GETARG_POINTER(0);

	return unlikely(VARATT_IS_EXTENDED(state)) ? PG_DETOAST_DATUM(PG_GETARG_DATUM(0)) : state;
}

/* A state without keys that wait. Settling moves them within the state, which holds the same. */
extern FilterRef SettledState(struct varlena *value);

/*
 * Puts a value into the aggregate's context that was made in the present one; frees the one that
 * it replaces, if any.
 */
extern Datum KeepInternal(FunctionCallInfo fcinfo, struct varlena *replaced, struct varlena *value);

#endif /* STREAMDEDUP_VALUE_AGGREGATE_HPP */
