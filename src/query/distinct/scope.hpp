/*
 * Finds the places in a statement where an answer may be approximate.
 *
 * A place is approximate only if it is known to be harmless; every other place is exact. The walk
 * starts at the statement's own SELECT and continues to places where rows can only be missing from
 * the result: FROM, inner joins, the outer side of an outer join, WITH, UNION, and the first
 * operand of EXCEPT and INTERSECT. It stops where a missing row can cause an additional row, or can
 * decide about other rows: sub-selects in conditions, the inner side of an outer join, the second
 * operand of EXCEPT, LIMIT or aggregates of a sub-select whose result is used further, policies of
 * row security, security_barrier views.
 *
 * The bodies of SQL functions that the planner inlines enter the plan later, so they are not
 * visited and stay exact.
 */
#ifndef STREAMDEDUP_QUERY_SCOPE_HPP
#define STREAMDEDUP_QUERY_SCOPE_HPP

#include "pg/pg.hpp"

extern "C" {
#include "nodes/parsenodes.h"
#include "nodes/primnodes.h"
}

/* The parts of a query that may be approximate, because of its place in the statement. */
struct Place
{
	bool rows;   /* a few of its rows may be missing */
	bool counts; /* count(DISTINCT x) may be an estimate */
	/*
	 * Its result is only shown: no other part of the statement compares it with anything. So
	 * its aggregates may be computed from incomplete rows.
	 */
	bool shown;
};

/* A query and the queries around it. */
struct ScopeLevel
{
	Query *query;
	const ScopeLevel *outer;
	Place place;
	Place *with; /* the place of each WITH query, from its references so far */
};

/* A walk through a statement. It reads no table. */
struct ScopeWalk
{
	/* Called for each query; may be NULL. `approximate`: the query's DISTINCT may lose rows. */
	void (*visit_query)(const ScopeLevel *level, bool approximate, ScopeWalk *walk);
	/* Called for each aggregate that may be an estimate; may be NULL. */
	void (*visit_aggregate)(Aggref *aggregate, const ScopeLevel *level, ScopeWalk *walk);
	void *context; /* for the visitors */

	/*
	 * Result: the statement calls a function that is not part of the server's installation, and
	 * uses its result further, for example in a WHERE clause.
	 */
	bool functions_decide;
	bool functions_called; /* the statement calls such a function anywhere */

	/*
	 * Used by the walk: the current query, and what may be approximate in its current expression.
	 */
	const ScopeLevel *level;
	const Node *root; /* of the current expression */
	bool aggregates;  /* aggregates may be estimates */
	bool subselects;  /* counts in scalar sub-selects may be estimates */
	bool shown;       /* the expression's value is only shown */
};

extern void WalkStatement(Query *query, ScopeWalk *walk);

#endif /* STREAMDEDUP_QUERY_SCOPE_HPP */
