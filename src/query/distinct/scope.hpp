/*
 * Where in a statement an answer may be approximate: everywhere but
 *   - under IN, NOT IN, ANY, ALL and EXISTS, also of ARRAY(...), in what an EXCEPT takes away, and in the WITH
 *     queries that are read there: what shows a row too few in the one can be one too
 *     many in the other
 *   - in policies of row security, security_barrier views and ON CONFLICT, which decide
 *     rather than show
 *   - in what comes into the plan later: the bodies of SQL functions that are inlined
 */
#ifndef STREAMDEDUP_QUERY_SCOPE_HPP
#define STREAMDEDUP_QUERY_SCOPE_HPP

#include "pg/pg.hpp"

extern "C" {
#include "nodes/parsenodes.h"
#include "nodes/primnodes.h"
}

/* A query and those around it. */
struct ScopeLevel
{
	Query	   *query;
	const ScopeLevel *outer;
	bool		aggregates;		/* this one or one around it has some */
};

/*
 * A walk through the scope. It looks at no catalog, and at no expressions of a query that
 * has neither aggregates nor sub-selects in them.
 */
struct ScopeWalk
{
	/* Called for each query, from the outermost; may be NULL. */
	void		(*visit_query) (const ScopeLevel *level, ScopeWalk *walk);
	/* Called for each aggregate; may be NULL. */
	void		(*visit_aggregate) (Aggref *aggregate, const ScopeLevel *level, ScopeWalk *walk);
	void	   *context;		/* the visitors' */
	List	   *barred_with;	/* names of WITH queries not to go into */

	const ScopeLevel *level;
	bool		met_with;
	bool		met_barred;		/* sub-selects */
};

extern void WalkScope(Query *query, ScopeWalk *walk);

/*
 * Names of the WITH queries that sub-selects read where nothing may be approximate. By
 * the name alone, so one of the same name elsewhere is left exact, too.
 */
extern List *FindBarredWith(Query *query);

#endif							/* STREAMDEDUP_QUERY_SCOPE_HPP */
