/*
 * A walk over the nodes of a finished plan.
 */
#include "query/plan_walk.hpp"

using Visit = void (*)(Plan *plan);

static void WalkPlan(Plan *plan, Visit visit);

static void
WalkList(List *plans, Visit visit)
{
	ListCell *cell;

	foreach(cell, plans)
		WalkPlan((Plan *) lfirst(cell), visit);
}

static void
WalkPlan(Plan *plan, Visit visit)
{
	if (plan == NULL)
		return;
	check_stack_depth();
	visit(plan);
	switch (nodeTag(plan))
	{
		case T_CustomScan:
			WalkList(((CustomScan *) plan)->custom_plans, visit);
			break;
		case T_SubqueryScan:
			WalkPlan(((SubqueryScan *) plan)->subplan, visit);
			break;
		case T_Append:
			WalkList(((Append *) plan)->appendplans, visit);
			break;
		case T_MergeAppend:
			WalkList(((MergeAppend *) plan)->mergeplans, visit);
			break;
		case T_ModifyTable:
			WalkList(PLANS_OF_MODIFY((ModifyTable *) plan), visit);
			break;
		default:
			break;
	}
	WalkPlan(plan->lefttree, visit);
	WalkPlan(plan->righttree, visit);
}

void
WalkPlans(PlannedStmt *statement, Visit visit)
{
	WalkPlan(statement->planTree, visit);
	WalkList(statement->subplans, visit);
}
