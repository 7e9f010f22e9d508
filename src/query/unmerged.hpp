/*
 * Aggregates whose states cannot be merged: dedup_agg() with a prototype of such a method.
 *
 * CREATE AGGREGATE says for all prototypes that there are partial aggregates. Whether a plan has
 * them depends on costs, and so would the answer: a filter or an error. So a query with such a
 * prototype is planned without partial aggregates. This is possible from PostgreSQL 14 on, if the
 * planner knows the prototype. Otherwise every plan with partial aggregates raises an error
 * (RequireMergeOfStates in value/transition.cpp).
 */
#ifndef STREAMDEDUP_QUERY_UNMERGED_HPP
#define STREAMDEDUP_QUERY_UNMERGED_HPP

#include "pg/pg.hpp"

/* Sets the hook; called by _PG_init. */
extern void InitUnmerged(void);

#endif /* STREAMDEDUP_QUERY_UNMERGED_HPP */
