/*
 * The planner's hook, and that of commands which store rows.
 *
 * Planning nests. To fold a constant, the planner may call a function that plans statements of its
 * own, and other extensions plan sub-selects separately. So the state of the current statement is
 * saved and restored around each planning, and everything planned inside is exact (exactly.hpp).
 *
 * A statement that uses DISTINCT while the setting is on depends on its user, because the setting
 * may apply to one user and not to another (settings.cpp). Its plan says so, and the plan cache
 * makes another plan for another user. No other plan depends on the user, because PL/pgSQL would
 * evaluate simple expressions in a slower way.
 */
#include "query/distinct/hook.hpp"
#include "pg/settings.hpp"
#include "pg/subtransaction.hpp"
#include "query/distinct/count.hpp"
#include "query/distinct/distinct.hpp"
#include "query/distinct/distributed.hpp"
#include "query/distinct/exactly.hpp"

extern "C" {
#include "access/transam.h"
#include "catalog/namespace.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/planner.h"
#include "parser/analyze.h"
#include "tcop/utility.h"
}

static planner_hook_type previous_planner = NULL;
static ProcessUtility_hook_type previous_utility = NULL;
static post_parse_analyze_hook_type previous_analyze = NULL;

/* The result of PlanningApproximate(). */
static bool planning_approximate = false;

/* True if a statement with split aggregates was planned as part of the current one. */
static bool split_aggregates = false;

/* ---- planning --------------------------------------------------------------- */

/* INSERT ... ON CONFLICT DO UPDATE counts as an update. */
static bool
ReadsOrInserts(const Query *query)
{
	if (query->commandType == CMD_INSERT)
		return query->onConflict == NULL || query->onConflict->action != ONCONFLICT_UPDATE;
	return query->commandType == CMD_SELECT;
}

/*
 * Returns whether a statement is of a kind that may be approximate: SELECT (also in DECLARE CURSOR,
 * COPY and CREATE TABLE AS) and INSERT. Statements that update, delete or merge, at the top or in a
 * WITH, may not be: a wrong row would stay wrong, or would be deleted. Neither may the action of a
 * rule, which can be part of an UPDATE.
 */
static bool
StatementMayBeApproximate(const Query *query)
{
	ListCell *cell;

	if (!ReadsOrInserts(query) || IsRuleAction(query))
		return false;
	if (!query->hasModifyingCTE)
		return true;

	/* WITH queries that modify data are all at the top, and were not planned separately */
	foreach(cell, query->cteList)
		if (!ReadsOrInserts(castNode(Query, lfirst_node(CommonTableExpr, cell)->ctequery)))
			return false;
	return true;
}

bool
PlanningApproximate(void)
{
	return planning_approximate;
}

static PlannedStmt *
NextPlanner(Query *query, const char *text, int cursor_options,
			ParamListInfo parameters EXPLAIN_PARAMETER)
{
	if (previous_planner != NULL)
		return previous_planner(query, text, cursor_options, parameters EXPLAIN);
	return standard_planner(query, text, cursor_options, parameters EXPLAIN);
}

/*
 * Plans while PlanningApproximate() returns `approximate`. Everything that is planned inside is
 * exact. Sets split_aggregates for what was planned inside; after an error, restores its old value.
 */
static PlannedStmt *
PlanAs(bool approximate, Query *query, const char *text, int cursor_options,
	   ParamListInfo parameters EXPLAIN_PARAMETER)
{
	bool outer_approximate = planning_approximate;
	bool outer_exactly = BeginExactly();
	bool split_before = split_aggregates;
	PlannedStmt *volatile statement = NULL;

	planning_approximate = approximate;
	split_aggregates = false;
	PG_TRY();
	{
		statement = NextPlanner(query, text, cursor_options, parameters EXPLAIN);
	}
	PG_FINALLY();
	{
		planning_approximate = outer_approximate;
		EndExactly(outer_exactly);
		if (statement == NULL)
			split_aggregates = split_before;
	}
	PG_END_TRY();
	return statement;
}

/*
 * Returns whether the error has nothing to do with the statement: it was cancelled, or the server
 * or another session caused the error.
 */
static bool
IsFromOutside(const ErrorData *error)
{
	int category = ERRCODE_TO_CATEGORY(error->sqlerrcode);

	return category == ERRCODE_OPERATOR_INTERVENTION || category == ERRCODE_TRANSACTION_ROLLBACK ||
		   category == ERRCODE_INSUFFICIENT_RESOURCES ||
		   error->sqlerrcode == ERRCODE_LOCK_NOT_AVAILABLE;
}

/*
 * Plans a statement in which counts were replaced. Returns NULL if that raises an error. Citus
 * cannot plan all statements, and a statement must not fail because of the setting.
 */
static PlannedStmt *
TryToPlan(Query *query, const char *text, int cursor_options,
		  ParamListInfo parameters EXPLAIN_PARAMETER)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	PlannedStmt *volatile statement = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		statement = PlanAs(true, query, text, cursor_options, parameters EXPLAIN);
		ReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(context);
		CurrentResourceOwner = owner;
	}
	PG_CATCH();
	{
		ErrorData *error = RollBackError(context, owner);

		if (IsFromOutside(error))
			ReThrowError(error);
		ereport(DEBUG1, (errmsg_internal("count(DISTINCT) stays exact: %s", error->message)));
		FreeErrorData(error);
		statement = NULL;
	}
	PG_END_TRY();
	return statement;
}

/* The features of a statement that can be approximate. */
struct Uses
{
	bool distinct;
	bool count_distinct;
};

static void
NoteQuery(const ScopeLevel *level, bool approximate, ScopeWalk *walk)
{
	((Uses *) walk->context)->distinct |= approximate && level->query->distinctClause != NIL;
}

static void
NoteAggregate(Aggref *aggregate, const ScopeLevel *level, ScopeWalk *walk)
{
	((Uses *) walk->context)->count_distinct |= IsCountDistinct(aggregate);
}

/*
 * Plans a distributed statement with the features that may be approximate. Returns NULL if there
 * are none. Its DISTINCT is always exact, because Citus makes queries of its own from the
 * statement.
 */
static PlannedStmt *
PlanDistributed(Query *query, const Uses &uses, const char *text, int cursor_options,
				ParamListInfo parameters EXPLAIN_PARAMETER)
{
	Query *replaced = query;

	/* there are no subtransactions in parallel mode */
	if (uses.count_distinct && !IsInParallelMode())
		replaced = RewriteCountDistinct(query, true);
	return replaced == query ? NULL : TryToPlan(replaced, text, cursor_options, parameters EXPLAIN);
}

static PlannedStmt *
PlanLocal(Query *query, const Uses &uses, const char *text, int cursor_options,
		  ParamListInfo parameters EXPLAIN_PARAMETER)
{
	PlannedStmt *statement;

	if (uses.count_distinct)
		query = RewriteCountDistinct(query, false);
	if (uses.distinct)
		MarkDistinctQueries(query);
	statement = PlanAs(true, query, text, cursor_options, parameters EXPLAIN);
	if (uses.distinct)
		FinishDistinctPlan(statement);
	return statement;
}

static PlannedStmt *
PlanStatement(Query *query, const char *text, int cursor_options,
			  ParamListInfo parameters EXPLAIN_PARAMETER)
{
	Uses uses = {};
	ScopeWalk walk = {};
	Reach reach = Reach::Local;
	bool split_outside = split_aggregates;
	bool wanted;
	bool held_back;
	bool expression = query->rtable == NIL; /* read now, because the planner adds to it */
	PlannedStmt *statement = NULL;

	/* This is done without the setting, too, because a function may change it. */
	if (approximate_distinct)
	{
		walk.visit_query = NoteQuery;
		walk.visit_aggregate = NoteAggregate;
		walk.context = &uses;
		if (!IsCitusSession() && (!expression || query->hasSubLinks))
			reach = ReachOf(query);
	}
	WalkStatement(query, &walk);
	wanted = (uses.distinct || uses.count_distinct) && StatementMayBeApproximate(query) &&
			 reach != Reach::Part;
	held_back = wanted && PlansExactly();
	if (wanted && !held_back)
	{
		if (reach == Reach::Distributed)
			statement = PlanDistributed(query, uses, text, cursor_options, parameters EXPLAIN);
		else
			statement = PlanLocal(query, uses, text, cursor_options, parameters EXPLAIN);
	}
	if (statement != NULL)
		MarkPlan(statement, PlanMark::Approximate);
	else
		statement = PlanAs(false, query, text, cursor_options, parameters EXPLAIN);
	if (uses.distinct || uses.count_distinct)
		statement->dependsOnRole = true;
	if (held_back)
		MarkPlan(statement, PlanMark::HeldBack);
	if (walk.functions_decide)
		MarkPlan(statement, PlanMark::Deciding);
	if (CitusIsLoaded()) /* without the setting, too: see PlanForCitus() */
	{
		if (split_aggregates)
			MarkPlan(statement, PlanMark::Split);
		split_aggregates |= HasSplitAggregates(statement);
	}
	split_aggregates |= split_outside;
	if (approximate_distinct && walk.functions_called && expression)
		MarkPlan(statement, PlanMark::Calling);
	return statement;
}

/* ---- expressions of PL/pgSQL ------------------------------------------------- */

/*
 * PL/pgSQL evaluates a simple expression, such as the condition of an IF, without the executor, so
 * no hook is called. An expression that contains a sub-select is not simple. So an expression that
 * calls functions that decide is marked as containing a sub-select. This has no other effect: the
 * planner looks for sub-selects and finds none.
 */
static void
NoteExpression(ParseState *state, Query *query)
{
	ScopeWalk walk = {};

	if (!approximate_distinct || state->p_pre_columnref_hook == NULL ||
		query->commandType != CMD_SELECT || query->rtable != NIL || query->hasSubLinks)
		return;
	WalkStatement(query, &walk);
	query->hasSubLinks = walk.functions_decide;
}

static void
NoteAnalyzed(ParseState *state, Query *query JUMBLE_PARAMETER)
{
	if (previous_analyze != NULL)
		previous_analyze(state, query JUMBLE);
	NoteExpression(state, query);
}

/* ---- commands ---------------------------------------------------------------- */

static bool
MakesView(const Node *statement)
{
	if (statement == NULL || !IsA(statement, CreateTableAsStmt))
		return false;
	return OBJECT_MADE_BY((const CreateTableAsStmt *) statement) == OBJECT_MATVIEW;
}

/* Returns whether a function of this name may run statements. */
static bool
MayNameUserFunction(List *name)
{
	[[maybe_unused]] int flags;
	FuncCandidateList candidate = FUNCTIONS_NAMED(name, &flags);

	for (; candidate != NULL; candidate = candidate->next)
		if (candidate->oid >= FirstNormalObjectId)
			return true;
	return false;
}

/*
 * Returns whether arguments that are not analysed yet may call such a function. Returns true for
 * every node type that is not known here. (The server's walker over such trees raises an error for
 * some nodes.)
 */
static bool
CallsFunctions(const Node *node)
{
	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_A_Const:
		case T_ColumnRef:
		case T_ParamRef:
		case T_SetToDefault:
		case T_SQLValueFunction:
			return false;
		case T_List:
		{
			ListCell *cell;

			foreach(cell, (const List *) node)
				if (CallsFunctions((const Node *) lfirst(cell)))
					return true;
			return false;
		}

			/* The parser analyses the argument of a named argument in place. */
		case T_Const:
		case T_Param:
			return false;
		case T_FuncExpr:
			return ((const FuncExpr *) node)->funcid >= FirstNormalObjectId ||
				   CallsFunctions((const Node *) ((const FuncExpr *) node)->args);
		case T_NamedArgExpr:
			return CallsFunctions((const Node *) ((const NamedArgExpr *) node)->arg);
		case T_TypeCast:
			return CallsFunctions(((const TypeCast *) node)->arg);
		case T_CollateClause:
			return CallsFunctions(((const CollateClause *) node)->arg);
		case T_A_ArrayExpr:
			return CallsFunctions((const Node *) ((const A_ArrayExpr *) node)->elements);
		case T_RowExpr:
			return CallsFunctions((const Node *) ((const RowExpr *) node)->args);
		case T_A_Expr:
			return CallsFunctions(((const A_Expr *) node)->lexpr) ||
				   CallsFunctions(((const A_Expr *) node)->rexpr);
		case T_FuncCall:
		{
			const FuncCall *call = (const FuncCall *) node;

			return MayNameUserFunction(call->funcname) || call->agg_filter != NULL ||
				   call->over != NULL || call->agg_order != NIL ||
				   CallsFunctions((const Node *) call->args);
		}
		default:
			return true;
	}
}

/*
 * Returns whether the command, and the functions that it calls, must be exact. All commands must
 * be, except those that run queries and those that cannot call functions. Commands that define
 * something may store the result of a function: an index, a default, a bound of a partition, a
 * materialized view. The arguments of EXECUTE become constants of its statement; those of CALL are
 * used by the procedure.
 */
static bool
RunsExactly(const Node *statement)
{
	switch (nodeTag(statement))
	{
		case T_CopyStmt:
			return ((const CopyStmt *) statement)->is_from;
		case T_ExecuteStmt:
			return CallsFunctions((const Node *) ((const ExecuteStmt *) statement)->params);
		case T_CallStmt:
			return CallsFunctions((const Node *) ((const CallStmt *) statement)->funccall->args);
		case T_ExplainStmt:
		case T_CreateTableAsStmt:
		{
			const Query *query =
				(const Query *) (IsA(statement, ExplainStmt)
									 ? ((const ExplainStmt *) statement)->query
									 : ((const CreateTableAsStmt *) statement)->query);

			return MakesView(statement) ||
				   (query != NULL && IsA(query, Query) && query->utilityStmt != NULL &&
					RunsExactly(query->utilityStmt));
		}
		case T_DeclareCursorStmt:
		case T_FetchStmt:
		case T_ClosePortalStmt:
		case T_PrepareStmt:
		case T_DeallocateStmt:
		case T_DoStmt:
		case T_TransactionStmt:
		case T_VariableSetStmt:
		case T_VariableShowStmt:
		case T_DiscardStmt:
			return false;
		default:
			return true;
	}
}

static void
NextUtility(PlannedStmt *statement, const char *text,
			READ_ONLY_TREE_PARAMETER ProcessUtilityContext context, ParamListInfo parameters,
			QueryEnvironment *environment, DestReceiver *receiver, QueryCompletion *completion)
{
	if (previous_utility != NULL)
		previous_utility(statement, text, READ_ONLY_TREE context, parameters, environment, receiver,
						 completion);
	else
		standard_ProcessUtility(statement, text, READ_ONLY_TREE context, parameters, environment,
								receiver, completion);
}

static void
RunUtility(PlannedStmt *statement, const char *text,
		   READ_ONLY_TREE_PARAMETER ProcessUtilityContext context, ParamListInfo parameters,
		   QueryEnvironment *environment, DestReceiver *receiver, QueryCompletion *completion)
{
	bool before;

	/* EXECUTE looks up no function */
	DropOtherPlans();
	if (!RunsExactly(statement->utilityStmt))
	{
		NextUtility(statement, text, READ_ONLY_TREE context, parameters, environment, receiver,
					completion);
		return;
	}

	before = BeginExactly();
	PG_TRY();
	{
		NextUtility(statement, text, READ_ONLY_TREE context, parameters, environment, receiver,
					completion);
	}
	PG_FINALLY();
	{
		EndExactly(before);
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
	previous_analyze = post_parse_analyze_hook;
	post_parse_analyze_hook = NoteAnalyzed;
	InitExactly();
	InitDistinct();
}
