#include "query/approximate.hpp"
#include "query/distinct.hpp"
#include "pg/settings.hpp"
extern "C" {
#include "optimizer/planner.h"
}
static bool on;
static planner_hook_type previous;
bool PlanningApproximate(void) { return on; }
static PlannedStmt *
Plan1(Query *parse, const char *query_string, int cursorOptions, ParamListInfo params)
{
	bool before = on;
	PlannedStmt *result;
	on = ApproximateDistinctAllowed() && (parse->commandType == CMD_SELECT || parse->commandType == CMD_INSERT);
	if (on) MarkDistinctQueries(parse);
	PG_TRY();
	{
		result = previous ? previous(parse, query_string, cursorOptions, params) : standard_planner(parse, query_string, cursorOptions, params);
	}
	PG_FINALLY();
	{
		on = before;
	}
	PG_END_TRY();
	return result;
}
void InitApproximate(void) { previous = planner_hook; planner_hook = Plan1; InitDistinct(); }
