/*
 * A walk over the nodes of a finished plan.
 */
#ifndef STREAMDEDUP_QUERY_PLAN_WALK_HPP
#define STREAMDEDUP_QUERY_PLAN_WALK_HPP

#include "pg/pg.hpp"

extern "C" {
#include "nodes/plannodes.h"
}

/*
 * Calls visit() for each node of a statement's plan, including those of sub-selects. A node is
 * visited before the nodes below it.
 */
extern void WalkPlans(PlannedStmt *statement, void (*visit)(Plan *plan));

#endif /* STREAMDEDUP_QUERY_PLAN_WALK_HPP */
