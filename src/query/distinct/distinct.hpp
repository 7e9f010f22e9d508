/*
 * SELECT DISTINCT through a filter: a custom node that passes a row on if its key is new. plan.cpp
 * makes its paths and plans, exec.cpp runs it.
 */
#ifndef STREAMDEDUP_QUERY_DISTINCT_HPP
#define STREAMDEDUP_QUERY_DISTINCT_HPP

#include "query/distinct/scope.hpp"

extern "C" {
#include "nodes/extensible.h"
#include "nodes/parsenodes.h"
#include "nodes/pathnodes.h"
#include "nodes/plannodes.h"
}

/*
 * The contents of a plan's custom_private. These are plain lists, because plans are copied and sent
 * to workers.
 */
struct DistinctPlanFields
{
	List *columns;    /* numbers of the key columns in the child's rows */
	List *types;      /* their types */
	List *collations; /* of their expressions */
};

extern List *PackDistinctPlan(const DistinctPlanFields *fields);
extern void UnpackDistinctPlan(List *custom_private, DistinctPlanFields *fields);

/* Makes the node's state; for plan.cpp. */
extern const CustomScanMethods DistinctScanMethods;

/* Marks the queries whose DISTINCT may be planned through a filter (scope.hpp). */
extern void MarkDistinctQueries(Query *query);

/* Returns whether a statement is the action of a rule. */
extern bool IsRuleAction(const Query *query);

/*
 * Finishes our nodes when the server has finished a plan. The server has looked our columns up in
 * the child's by equal(). After that they are identified by their numbers, and the child becomes an
 * outer plan, as in any other node. So rows are passed on without a projection even if a column is
 * constant or appears twice, and EXPLAIN finds the names of the columns below.
 */
extern void FinishDistinctPlan(PlannedStmt *statement);

/* Registers the node and the planner's hook. */
extern void InitDistinct(void);

#endif /* STREAMDEDUP_QUERY_DISTINCT_HPP */
