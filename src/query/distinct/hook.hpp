/*
 * streamdedup.approximate_distinct in the planner: the statements to which it applies, and the hook
 * that calls everything else.
 *
 *   hook.cpp          the hooks; to which statements the setting applies
 *   scope.cpp         to which places in a statement
 *   exactly.cpp       when it does not apply: while planning, in statements that change data
 *   count.cpp         count(DISTINCT x) becomes approx_count_distinct(x)
 *   distributed.cpp   which statements and plans are those of Citus
 *   plan.cpp          paths and plans of SELECT DISTINCT through a filter
 *   exec.cpp          runs these plans
 */
#ifndef STREAMDEDUP_QUERY_DISTINCT_HOOK_HPP
#define STREAMDEDUP_QUERY_DISTINCT_HOOK_HPP

#include "pg/pg.hpp"

/* Sets the hooks; called by _PG_init. */
extern void InitApproximate(void);

/*
 * Returns whether the statement that is being planned may be approximate. For hooks inside the
 * planner.
 */
extern bool PlanningApproximate(void);

#endif /* STREAMDEDUP_QUERY_DISTINCT_HOOK_HPP */
