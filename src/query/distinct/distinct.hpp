/*
 * SELECT DISTINCT through a filter: a custom node that lets a row through if its key is
 * new. plan.cpp makes its paths and plans, exec.cpp runs it.
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
 * What a plan holds in custom_private: plain lists, since plans are copied and travel to
 * workers.
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
 * What is left to do when the server has finished a plan. It has looked our columns up in
 * the child's by equal(); now that is done they are told by their numbers, and the child is
 * an outer plan as of any node. So rows are passed on without a projection where a column
 * is constant or comes twice, and EXPLAIN finds the names of what is below.
 */
extern void FinishDistinctPlan(PlannedStmt *statement);

/* Registers the node and the planner's hook. */
extern void InitDistinct(void);

#endif /* STREAMDEDUP_QUERY_DISTINCT_HPP */
