/*
 * streamdedup.approximate_distinct in the planner: where it applies, and the hook that
 * everything else hangs on.
 *
 *   hook.cpp          the hooks; which statements it applies to
 *   scope.cpp         where in a statement
 *   exactly.cpp       when not: while planning, in statements that change data
 *   count.cpp         count(DISTINCT x) becomes approx_count_distinct(x)
 *   distributed.cpp   which statements and plans are those of Citus
 *   plan.cpp          paths and plans of SELECT DISTINCT through a filter
 *   exec.cpp          runs them
 */
#ifndef STREAMDEDUP_QUERY_DISTINCT_HOOK_HPP
#define STREAMDEDUP_QUERY_DISTINCT_HOOK_HPP

#include "pg/pg.hpp"

/* Sets the hooks; called by _PG_init. */
extern void InitApproximate(void);

/*
 * Returns whether the statement that is being planned may be approximate. For hooks inside
 * the planner.
 */
extern bool PlanningApproximate(void);

#endif /* STREAMDEDUP_QUERY_DISTINCT_HOOK_HPP */
