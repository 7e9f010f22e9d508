/*
 * The common part of the aggregates' transition functions and of the functions that merge and
 * finish states.
 *
 * A state is a dedup_filter in a working form: a flat value in the aggregate's context, which is
 * changed in place and returned by the same pointer. A transition returns a new value only when the
 * state has to grow; its room at least doubles, so this is rare. There is no memory context or
 * expanded object for each group, because hash aggregation walks all of them at each new group.
 *
 * Aggregates over keys of any type declare their state `internal`, and a new value is made in the
 * aggregate's context. The other aggregates declare it dedup_filter, and the executor copies a new
 * value there. The difference matters to Citus. Citus computes an aggregate on the workers if its
 * state is a type with a text form. But its check of the argument types fails for VARIADIC "any",
 * and for an aggregate with an internal state it fetches the rows. So Citus can compute the
 * aggregates over hashes on the workers (query/citus.hpp).
 */
#ifndef STREAMDEDUP_VALUE_AGGREGATE_HPP
#define STREAMDEDUP_VALUE_AGGREGATE_HPP

#include "pg/keys.hpp"
#include "value/fill.hpp"

/* The data that a call site keeps in fn_extra. */
struct AggregateSite
{
	KeyPlan *keys;
	bool has_default;
	dedup::Shape default_shape;
	bool has_prototype;
	dedup::Shape prototype;    /* the last prototype */
	dedup::Shape state_shape;  /* the shape of states that are made with this prototype */
	uint64 most_keys;          /* the most keys that such a state holds at its rate, if it grows */
	bool started;              /* `limit` is known */
	HashLimit limit;           /* on the hashes of its states */
	bool warned;               /* final function: warned in this query */
	dedup::LastCheck last;     /* header of the state of the last row */
	bool sketch;               /* that state is a sketch, which only counts */
	struct varlena *deferring; /* that state if it can defer the next key too, else NULL */
	dedup::DeferredList list;  /* the deferred hashes of `deferring` */
};

/*
 * Returns the context of the aggregate's states. Raises an error if the caller is not an aggregate.
 */
extern MemoryContext AggregateContext(FunctionCallInfo fcinfo);

/*
 * Returns whether another extension calls, in an aggregate of its own. Citus does, and looks the
 * function up again for each row. The executor always sets fn_expr.
 */
static inline bool
CalledByOther(FunctionCallInfo fcinfo)
{
	return fcinfo->flinfo->fn_expr == NULL;
}

/* Does GetSite() at the first call. */
extern AggregateSite *MakeSite(FunctionCallInfo fcinfo, bool in_place);

/*
 * Returns the data of the call site. States are changed in place, which is only allowed in an
 * aggregate; a call site is always in an aggregate or never.
 *
 * All calls by other extensions share one site, because they lose fn_extra after each row. That
 * site has no key plan. Everything else in it is checked against the state or the prototype of each
 * row.
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

/*
 * Returns a state without deferred keys. Settling moves them within the state; its contents stay
 * the same.
 */
extern FilterRef SettledState(struct varlena *value);

/*
 * Moves a value from the current context into the aggregate's context. Frees the value that it
 * replaces, if any.
 */
extern Datum KeepInternal(FunctionCallInfo fcinfo, struct varlena *replaced, struct varlena *value);

#endif /* STREAMDEDUP_VALUE_AGGREGATE_HPP */
