/*
 * The planner's hook, and what tells that a materialized view is being filled.
 *
 * Planning nests: to fold a constant the planner may call a function that plans
 * statements of its own. So what is known of the statement in hand is saved and
 * restored around each.
 *
 * A statement that uses DISTINCT while the setting is on depends on its user, since the
 * setting may hold for one and not for another (settings.cpp); its plan says so, and the
 * plan cache makes another for another user. No other plan does: PL/pgSQL evaluates
 * simple expressions in a slower way if theirs does.
 */
#include "query/distinct/hook.hpp"
#include "pg/settings.hpp"
#include "query/distinct/count.hpp"
#include "query/distinct/distinct.hpp"

extern "C" {
#include "optimizer/planner.h"
#include "tcop/utility.h"
#include "utils/plancache.h"
}

static planner_hook_type previous_planner = NULL;
static ProcessUtility_hook_type previous_utility = NULL;

/* What PlanningApproximate() answers. */
static bool planning_approximate = false;

/* Within CREATE or REFRESH MATERIALIZED VIEW. */
static bool filling_view = false;

/* ---- planning --------------------------------------------------------------- */

bool
StatementMayBeApproximate(const Query *query)
{
	ListCell   *cell;

	if (filling_view || (query->commandType != CMD_SELECT && query->commandType != CMD_INSERT))
		return false;
	if (!query->hasModifyingCTE)
		return true;

	/* those that modify are all at the top, and were not planned apart */
	foreach(cell, query->cteList)
	{
		const CommonTableExpr *cte = lfirst_node(CommonTableExpr, cell);
		CmdType		kind = castNode(Query, cte->ctequery)->commandType;

		if (kind != CMD_SELECT && kind != CMD_INSERT)
			return false;
	}
	return true;
}

bool
PlanningApproximate(void)
{
	return planning_approximate;
}

static PlannedStmt *
NextPlanner(Query *query, const char *text, int cursor_options, ParamListInfo parameters)
{
	if (previous_planner != NULL)
		return previous_planner(query, text, cursor_options, parameters);
	return standard_planner(query, text, cursor_options, parameters);
}

/* Plans with PlanningApproximate() answering so. */
static PlannedStmt *
PlanAs(bool approximate, Query *query, const char *text, int cursor_options,
	   ParamListInfo parameters)
{
	PlannedStmt *statement;

	if (planning_approximate == approximate)
		return NextPlanner(query, text, cursor_options, parameters);

	planning_approximate = approximate;
	PG_TRY();
	{
		statement = NextPlanner(query, text, cursor_options, parameters);
	}
	PG_FINALLY();
	{
		planning_approximate = !approximate;
	}
	PG_END_TRY();
	return statement;
}

/* What a statement uses of what can be approximate. */
struct Uses
{
	bool		distinct;
	bool		count_distinct;
};

static void
NoteQuery(const ScopeLevel *level, ScopeWalk *walk)
{
	((Uses *) walk->context)->distinct |= level->query->distinctClause != NIL;
}

static void
NoteAggregate(Aggref *aggregate, const ScopeLevel *level, ScopeWalk *walk)
{
	((Uses *) walk->context)->count_distinct |= IsCountDistinct(aggregate);
}

static PlannedStmt *
PlanStatement(Query *query, const char *text, int cursor_options, ParamListInfo parameters)
{
	Uses		uses = {};
	ScopeWalk	walk = {};
	bool		allowed;
	PlannedStmt *statement;

	if (!approximate_distinct)
		return PlanAs(false, query, text, cursor_options, parameters);

	walk.visit_query = NoteQuery;
	walk.visit_aggregate = NoteAggregate;
	walk.context = &uses;
	WalkScope(query, &walk);
	allowed = (uses.distinct || uses.count_distinct) && ApproximateDistinctAllowed() &&
		StatementMayBeApproximate(query);
	if (allowed)
	{
		List	   *barred_with = walk.met_with && walk.met_barred ? FindBarredWith(query) : NIL;

		if (uses.count_distinct)
			query = RewriteCountDistinct(query, barred_with);
		if (uses.distinct)
			MarkDistinctQueries(query, barred_with);
	}
	statement = PlanAs(allowed, query, text, cursor_options, parameters);
	if (allowed && uses.distinct)
		FinishDistinctPlan(statement);
	if (uses.distinct || uses.count_distinct)
		statement->dependsOnRole = true;
	return statement;
}

/* ---- materialized views ----------------------------------------------------- */

static bool
MakesView(const Node *statement)
{
	if (statement == NULL || !IsA(statement, CreateTableAsStmt))
		return false;
#if PG_VERSION_NUM >= 140000
	return ((const CreateTableAsStmt *) statement)->objtype == OBJECT_MATVIEW;
#else
	return ((const CreateTableAsStmt *) statement)->relkind == OBJECT_MATVIEW;
#endif
}

static bool
FillsView(const Node *statement)
{
	if (IsA(statement, RefreshMatViewStmt))
		return true;
	if (IsA(statement, ExplainStmt))
	{
		const Query *query = (const Query *) ((const ExplainStmt *) statement)->query;

		return IsA(query, Query) && MakesView(query->utilityStmt);
	}
	return MakesView(statement);
}

#if PG_VERSION_NUM >= 140000
#define READ_ONLY_TREE_PARAMETER bool read_only_tree,
#define READ_ONLY_TREE read_only_tree,
#else
#define READ_ONLY_TREE_PARAMETER
#define READ_ONLY_TREE
#endif

static void
NextUtility(PlannedStmt *statement, const char *text, READ_ONLY_TREE_PARAMETER
			ProcessUtilityContext context, ParamListInfo parameters,
			QueryEnvironment *environment, DestReceiver *receiver, QueryCompletion *completion)
{
	if (previous_utility != NULL)
		previous_utility(statement, text, READ_ONLY_TREE context, parameters, environment,
						 receiver, completion);
	else
		standard_ProcessUtility(statement, text, READ_ONLY_TREE context, parameters, environment,
								receiver, completion);
}

/*
 * The query of a materialized view is planned as any SELECT, so the command that does it
 * is marked here. Functions that it calls are exact, too, for which they must not come
 * with plans from before, nor leave theirs.
 */
static void
RunUtility(PlannedStmt *statement, const char *text, READ_ONLY_TREE_PARAMETER
		   ProcessUtilityContext context, ParamListInfo parameters,
		   QueryEnvironment *environment, DestReceiver *receiver, QueryCompletion *completion)
{
	bool		had_plans = approximate_distinct;

	if (filling_view || !FillsView(statement->utilityStmt))
	{
		NextUtility(statement, text, READ_ONLY_TREE context, parameters, environment,
					receiver, completion);
		return;
	}

	filling_view = true;
	if (had_plans)
		ResetPlanCache();
	PG_TRY();
	{
		NextUtility(statement, text, READ_ONLY_TREE context, parameters, environment,
					receiver, completion);
	}
	PG_FINALLY();
	{
		filling_view = false;
		if (had_plans)
			ResetPlanCache();
	}
	PG_END_TRY();
}

void
InitApproximate(void)
{
	previous_planner = planner_hook;
	planner_hook = PlanStatement;
	previous_utility = ProcessUtility_hook;
	ProcessUtility_hook = RunUtility;
	InitDistinct();
}
