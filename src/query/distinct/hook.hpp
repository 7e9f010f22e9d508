/*
 * streamdedup.approximate_distinct in the planner: where it applies, and the hook that
 * everything else hangs on.
 *
 *   hook.cpp      the hooks; which statements it applies to
 *   scope.cpp            where in a statement
 *   count.cpp   count(DISTINCT x) becomes approx_count_distinct(x)
 *   distinct_*.cpp       SELECT DISTINCT through a filter
 */
#ifndef STREAMDEDUP_QUERY_APPROXIMATE_HPP
#define STREAMDEDUP_QUERY_APPROXIMATE_HPP

#include "pg/pg.hpp"

extern "C" {
#include "nodes/parsenodes.h"
}

/* Sets the hooks; called by _PG_init. */
extern void InitApproximate(void);

/*
 * Whether a statement is of a kind that may be approximate: SELECT, which is also that
 * of DECLARE CURSOR, COPY and CREATE TABLE AS, and INSERT. Not one that updates, deletes
 * or merges, at its top or in a WITH, nor what fills a materialized view: there a wrong
 * row stays wrong, or is gone.
 */
extern bool StatementMayBeApproximate(const Query *query);

/*
 * Whether the statement that is being planned may be approximate: of such a kind, and
 * ApproximateDistinctAllowed() when its planning began. For hooks inside the planner.
 */
extern bool PlanningApproximate(void);

#endif							/* STREAMDEDUP_QUERY_APPROXIMATE_HPP */
