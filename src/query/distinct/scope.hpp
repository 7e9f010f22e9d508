/*
 * Where in a statement an answer may be approximate.
 *
 * A place is approximate only if it is known to be harmless; every other place is exact. The
 * walk starts at the statement's own SELECT and goes where rows can only be missing from the
 * result: into FROM, inner joins, the outer side of an outer join, WITH, UNION, and the first
 * operand of EXCEPT and INTERSECT. It stops where a missing row can become a row too many,
 * or where its absence decides about other rows: sub-selects in conditions, the inner side
 * of an outer join, the second operand of EXCEPT, LIMIT or aggregates of a sub-select whose
 * result is used further, policies of row security, security_barrier views.
 *
 * The bodies of SQL functions that the planner inlines come into the plan later, so they
 * are not visited and stay exact.
 */
#ifndef STREAMDEDUP_QUERY_SCOPE_HPP
#define STREAMDEDUP_QUERY_SCOPE_HPP

#include "pg/pg.hpp"

extern "C" {
#include "nodes/nodeFuncs.h"
#include "nodes/parsenodes.h"
#include "nodes/primnodes.h"
}

/* Before 16 walkers are declared without arguments, as C may. */
#if PG_VERSION_NUM >= 160000
using Walker = tree_walker_callback;
#else
using Walker = bool (*)();
#endif

/* What a query may do at its place in the statement. */
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

/* A query and those around it. */
struct ScopeLevel
{
	Query *query;
	const ScopeLevel *outer;
	Place place;
	Place *with; /* of each WITH query, by its references so far */
};

/* A walk through a statement. It looks at no table. */
struct ScopeWalk
{
	/* Called for each query; `approximate` is whether its DISTINCT may lose rows. May be NULL. */
	void (*visit_query)(const ScopeLevel *level, bool approximate, ScopeWalk *walk);
	/* Called for each aggregate that may be an estimate; may be NULL. */
	void (*visit_aggregate)(Aggref *aggregate, const ScopeLevel *level, ScopeWalk *walk);
	void *context; /* the visitors' */

	/*
	 * Result: a function that was not part of the server's installation is called where its
	 * result is used further, for example in a WHERE clause.
	 */
	bool functions_decide;
	bool functions_called; /* such a function is called anywhere */

	/* The walk's own: the query in hand, and what its present expression may do. */
	const ScopeLevel *level;
	const Node *root; /* of the expression */
	bool aggregates;  /* aggregates may be estimates */
	bool subselects;  /* counts in scalar sub-selects may be estimates */
	bool shown;       /* the expression's value is only shown */
};

extern void WalkStatement(Query *query, ScopeWalk *walk);

#endif /* STREAMDEDUP_QUERY_SCOPE_HPP */
