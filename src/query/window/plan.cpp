/*
 * The planner's side of the node for dedup_is_new(...) OVER (...): the windows where it replaces
 * WindowAgg, its plan, and the conditions that move into it.
 *
 * The node does what WindowAgg does, in less time, wherever it is possible. So paths of WindowAgg
 * are replaced, without comparing costs.
 *
 * A plan is finished when the planner is done with it. Until then the server looks the functions up
 * by equal(), so they must remain the WindowFuncs that they were. After that they must be replaced,
 * because EXPLAIN of PostgreSQL 18 looks for the WindowAgg that they belong to. So the node is only
 * used in plans that our planner's hook sees last.
 */
#include "query/window/window.hpp"

#include "pg/catalog.hpp"
#include "pg/settings.hpp"
#include "pg/side_effects.hpp"
#include "pg/walker.hpp"
#include "query/plan_walk.hpp"
#include "query/window/call.hpp"

extern "C" {
#include "access/transam.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/planner.h"
#include "optimizer/tlist.h"
#include "utils/fmgroids.h"
}

static create_upper_paths_hook_type previous_upper_paths_hook = NULL;
static planner_hook_type previous_planner = NULL;

/* The current statement, and whether its plan has the node. */
static const Query *planned = NULL;
static bool has_node = false;

/* ---- the plan's own fields ---------------------------------------------------- */

List *
PackWindowPlan(const WindowPlanFields *fields)
{
	List *numbers = list_make2_int(fields->input_columns, fields->read_ahead);

	return lappend(list_make4(numbers, fields->kinds, fields->partition_columns,
							  fields->partition_operators),
				   fields->partition_collations);
}

void
UnpackWindowPlan(const List *custom_private, WindowPlanFields *fields)
{
	const List *numbers = (const List *) linitial(custom_private);

	fields->input_columns = linitial_int(numbers);
	fields->read_ahead = lsecond_int(numbers) != 0;
	fields->kinds = (List *) lsecond(custom_private);
	fields->partition_columns = (List *) lthird(custom_private);
	fields->partition_operators = (List *) lfourth(custom_private);
	fields->partition_collations = (List *) list_nth(custom_private, 4);
}

/* ---- which windows ------------------------------------------------------------ */

/* Returns whether the function is one that the node supports. */
static bool
KindOf(const WindowFunc *call, WindowKind *kind)
{
	if (call->winfnoid == F_ROW_NUMBER)
		*kind = WindowKind::RowNumber;
	else if (call->winfnoid < FirstNormalObjectId)
		return false;
	else if (IsOurFunction(call->winfnoid, dedup_is_new, "dedup_is_new"))
		*kind = WindowKind::IsNew;
	else if (IsOurFunction(call->winfnoid, dedup_is_new_prototype, "dedup_is_new_prototype"))
		*kind = WindowKind::IsNewPrototype;
	else
		return false;
	return true;
}

static bool
FindWindowFuncs(Node *node, void *context)
{
	List **found = (List **) context;

	if (node == NULL)
		return false;
	if (IsA(node, WindowFunc))
	{
		*found = list_append_unique(*found, node);
		return false;
	}
	return expression_tree_walker(node, AsWalker(FindWindowFuncs), context);
}

static List *
WindowFuncsOf(const PathTarget *target)
{
	List *found = NIL;

	(void) FindWindowFuncs((Node *) target->exprs, &found);
	return found;
}

/*
 * Returns whether the functions are dedup_is_new(), at least one, and row_number(). Volatile
 * arguments are evaluated where the server evaluates them. Arguments with sub-selects are not
 * supported.
 */
static bool
AreOurs(const List *functions)
{
	bool ours = false;
	ListCell *cell;

	foreach(cell, functions)
	{
		WindowFunc *call = lfirst_node(WindowFunc, cell);
		WindowKind kind;

		if (!KindOf(call, &kind) || call->aggfilter != NULL ||
			contain_volatile_functions((Node *) call->args) ||
			contain_subplans((Node *) call->args))
			return false;
		ours |= kind != WindowKind::RowNumber;
	}
	return ours;
}

/*
 * Returns whether WindowAgg only calls functions for this window. Neither of the functions uses its
 * frame. WindowAgg checks the offset of a frame.
 */
static bool
OnlyCalls(const WindowAggPath *path)
{
	const WindowClause *window = path->winclause;

	return !LEAVES_OUT_ROWS(path) && window->startOffset == NULL && window->endOffset == NULL;
}

/*
 * Returns the input of a stack of WindowAggs that the node can replace, or NULL. There is no sort
 * between them, so all functions see the rows in one order, and they have the same partitions.
 */
static Path *
InputOfWindows(Path *top)
{
	const List *partition;
	Path *path = top;

	if (!IsA(top, WindowAggPath))
		return NULL;
	partition = ((WindowAggPath *) top)->winclause->partitionClause;
	while (IsA(path, WindowAggPath))
	{
		const WindowAggPath *window = (WindowAggPath *) path;

		if (!OnlyCalls(window) || !equal(window->winclause->partitionClause, partition))
			return NULL;
		path = window->subpath;
	}
	/* If two columns have the same volatile expression, the server could find the wrong one. */
	if (WindowFuncsOf(path->pathtarget) != NIL ||
		contain_volatile_functions((Node *) path->pathtarget->exprs))
		return NULL;
	return path;
}

/* ---- reading ahead -------------------------------------------------------------- */

/*
 * Returns whether rows may be read before they are requested. This cannot be noticed, except by an
 * error, unless producing the rows has side effects. Functions in the select list run above the
 * node.
 */
static bool
MayReadAhead(PlannerInfo *root)
{
	Query below = *root->parse;
	ListCell *cell;

	below.targetList = NIL;
	below.limitCount = below.limitOffset = NULL;
	if (HasSideEffects((Node *) &below))
		return false;
	for (PlannerInfo *outer = root->parent_root; outer != NULL; outer = outer->parent_root)
		if (HasSideEffects((Node *) outer->parse->cteList))
			return false;
	/* sub-selects of expressions are not in the trees any more */
	foreach(cell, root->glob->subroots)
		if (HasSideEffects((Node *) lfirst_node(PlannerInfo, cell)->parse))
			return false;
	return true;
}

/* ---- paths ------------------------------------------------------------------------ */

static Plan *PlanWindow(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist,
						List *clauses, List *custom_plans);

static const CustomPathMethods PathMethods = {
	.CustomName = "StreamingWindow",
	.PlanCustomPath = PlanWindow,
	.ReparameterizeCustomPathByChild = NULL,
};

/* Makes a path over WindowAgg's input. Half of WindowAgg's time is for the tuplestore. */
static Path *
MakeWindowPath(const WindowAggPath *replaced, Path *input, List *functions, bool read_ahead)
{
	CustomPath *path = makeNode(CustomPath);

	path->path = replaced->path;
	NodeSetTag(path, T_CustomPath);
	path->path.pathtype = T_CustomScan;
	path->path.total_cost -= 0.5 * (replaced->path.total_cost - input->total_cost);
	path->path.startup_cost = Min(path->path.startup_cost, path->path.total_cost);
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->custom_paths = list_make1(input);
	path->custom_private = list_make3(functions, replaced->winclause, makeInteger(read_ahead));
	path->methods = &PathMethods;
	return (Path *) path;
}

/*
 * Returns whether this is the planner's own root for the current statement, which PlanStatement()
 * was given.
 */
static bool
WillBeFinished(const PlannerInfo *root)
{
	while (root->parent_root != NULL)
		root = root->parent_root;
	return planned != NULL && root->parse == planned;
}

static void
ReplaceWindowPaths(PlannerInfo *root, RelOptInfo *rel)
{
	List *paths = rel->pathlist;
	bool known = false;
	bool read_ahead = false;
	ListCell *cell;

	rel->pathlist = NIL;
	foreach(cell, paths)
	{
		Path *path = (Path *) lfirst(cell);
		Path *input = InputOfWindows(path);
		List *functions = input != NULL ? WindowFuncsOf(path->pathtarget) : NIL;

		if (AreOurs(functions))
		{
			if (!known)
				read_ahead = MayReadAhead(root);
			known = true;
			path = MakeWindowPath((WindowAggPath *) path, input, functions, read_ahead);
		}
		add_path(rel, path);
	}
}

static void
AddUpperPaths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input_rel,
			  RelOptInfo *output_rel, void *extra)
{
	if (previous_upper_paths_hook != NULL)
		previous_upper_paths_hook(root, stage, input_rel, output_rel, extra);
	if (stage == UPPERREL_WINDOW && streaming_window && WillBeFinished(root))
		ReplaceWindowPaths(root, output_rel);
}

/* ---- the plan -------------------------------------------------------------------------- */

static Plan *
PlanWindow(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *clauses,
		   List *custom_plans)
{
	CustomScan *scan = makeNode(CustomScan);
	Plan *input = (Plan *) linitial(custom_plans);
	const WindowClause *window = (const WindowClause *) lsecond(path->custom_private);
	WindowPlanFields fields = {};
	List *columns = (List *) copyObjectImpl(input->targetlist);
	ListCell *cell;

	fields.input_columns = list_length(columns);
	fields.read_ahead = intVal(lthird(path->custom_private)) != 0;
	foreach(cell, (List *) linitial(path->custom_private))
	{
		WindowFunc *call = lfirst_node(WindowFunc, cell);
		WindowKind kind;

		if (!KindOf(call, &kind))
			elog(ERROR, "unexpected window function: %u", call->winfnoid);
		fields.kinds = lappend_int(fields.kinds, (int) kind);
		columns =
			lappend(columns, makeTargetEntry((Expr *) copyObjectImpl(call),
											 (AttrNumber) (list_length(columns) + 1), NULL, false));
		scan->custom_exprs = list_concat(scan->custom_exprs, (List *) copyObjectImpl(call->args));
	}
	foreach(cell, window->partitionClause)
	{
		SortGroupClause *clause = lfirst_node(SortGroupClause, cell);
		TargetEntry *entry = get_sortgroupclause_tle(clause, input->targetlist);

		fields.partition_columns = lappend_int(fields.partition_columns, entry->resno);
		fields.partition_operators = lappend_oid(fields.partition_operators, clause->eqop);
		fields.partition_collations =
			lappend_oid(fields.partition_collations, exprCollation((Node *) entry->expr));
	}
	scan->scan.plan.targetlist = tlist;
	scan->scan.plan.lefttree = input;
	scan->scan.scanrelid = 0;
	scan->flags = path->flags;
	scan->custom_private = PackWindowPlan(&fields);
	scan->custom_scan_tlist = columns;
	scan->methods = &WindowScanMethods;
	has_node = true;
	return &scan->scan.plan;
}

/* ---- the finished plan ------------------------------------------------------------------ */

static bool
IsWindowNode(const Plan *plan)
{
	return plan != NULL && IsA(plan, CustomScan) &&
		   ((const CustomScan *) plan)->methods == &WindowScanMethods;
}

/*
 * Replaces the functions by plain calls, which can be shown without the window that they belong to.
 */
static void
ShowFunctions(CustomScan *scan)
{
	ListCell *cell;

	foreach(cell, scan->custom_scan_tlist)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, cell);

		if (IsA(entry->expr, WindowFunc))
		{
			WindowFunc *call = (WindowFunc *) entry->expr;

			entry->expr =
				(Expr *) makeFuncExpr(call->winfnoid, call->wintype, call->args, call->wincollid,
									  call->inputcollid, COERCE_EXPLICIT_CALL);
		}
	}
}

/*
 * Returns a column of the node's scan tuple if a condition of a subquery scan above it only checks
 * that one of our functions returned true, or returned false. Such a condition can be evaluated
 * before all others: it raises no error and reveals nothing.
 */
static Var *
FunctionAsked(const Node *condition, Index relation, const CustomScan *node,
			  const WindowPlanFields *fields, bool *negated)
{
	const Var *asked;
	const TargetEntry *entry;
	int function;

	*negated = is_notclause(condition);
	asked = (const Var *) (*negated ? (const Node *) get_notclausearg(condition) : condition);
	if (!IsA(asked, Var) || (Index) asked->varno != relation || asked->varattno <= 0)
		return NULL;
	entry = (const TargetEntry *) list_nth(node->scan.plan.targetlist, asked->varattno - 1);
	if (!IsA(entry->expr, Var))
		return NULL;
	function = FunctionOfVar(fields, (const Var *) entry->expr);
	if (function < 0 || list_nth_int(fields->kinds, function) == (int) WindowKind::RowNumber)
		return NULL;
	return (Var *) entry->expr;
}

/* For finished plans, where sub-selects are SubPlans, or Params if they run once. */
static bool
HasSubSelect(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, SubPlan) || (IsA(node, Param) && ((Param *) node)->paramkind == PARAM_EXEC))
		return true;
	return expression_tree_walker(node, AsWalker(HasSubSelect), context);
}

/*
 * Returns whether it cannot be noticed that the select list of a node was not evaluated. The
 * expression does not show what a sub-select does. So if a sub-select of the statement has side
 * effects, the result is false.
 */
static bool
MaySkipRows(const CustomScan *node, const WindowPlanFields *fields)
{
	Node *list = (Node *) node->scan.plan.targetlist;

	return !contain_volatile_functions(list) && (fields->read_ahead || !HasSubSelect(list, NULL));
}

/* Moves conditions of a subquery scan into the node that it scans. */
static void
MoveConditions(SubqueryScan *above)
{
	CustomScan *node = (CustomScan *) above->subplan;
	Plan *plan = &above->scan.plan;
	WindowPlanFields fields;
	List *left = NIL;
	ListCell *cell;

	UnpackWindowPlan(node->custom_private, &fields);
	if (!MaySkipRows(node, &fields))
		return;
	foreach(cell, plan->qual)
	{
		Node *condition = (Node *) lfirst(cell);
		bool negated;
		Var *asked = FunctionAsked(condition, above->scan.scanrelid, node, &fields, &negated);
		Expr *moved = (Expr *) copyObjectImpl(asked);

		if (asked == NULL)
		{
			left = lappend(left, condition);
			continue;
		}
		if (negated)
			moved = make_notclause(moved);
		node->scan.plan.qual = lappend(node->scan.plan.qual, moved);
	}
	if (left == NIL && plan->qual != NIL)
		node->scan.plan.plan_rows = plan->plan_rows;
	plan->qual = left;
}

static void
FinishNode(Plan *plan)
{
	if (IsWindowNode(plan))
		ShowFunctions((CustomScan *) plan);
	else if (IsA(plan, SubqueryScan) && IsWindowNode(((SubqueryScan *) plan)->subplan))
		MoveConditions((SubqueryScan *) plan);
}

static void
FinishWindowPlan(PlannedStmt *statement)
{
	WalkPlans(statement, FinishNode);
}

static PlannedStmt *
PlanStatement(Query *query, const char *text, int cursor_options,
			  ParamListInfo parameters EXPLAIN_PARAMETER)
{
	const Query *outer = planned;
	bool outer_has_node = has_node;
	PlannedStmt *volatile statement = NULL;

	planned = query;
	has_node = false;
	PG_TRY();
	{
		statement = previous_planner != NULL
						? previous_planner(query, text, cursor_options, parameters EXPLAIN)
						: standard_planner(query, text, cursor_options, parameters EXPLAIN);
		if (has_node)
			FinishWindowPlan(statement);
	}
	PG_FINALLY();
	{
		planned = outer;
		has_node = outer_has_node;
	}
	PG_END_TRY();
	return statement;
}

void
InitWindowNode(void)
{
	RegisterCustomScanMethods(&WindowScanMethods);
	previous_upper_paths_hook = create_upper_paths_hook;
	create_upper_paths_hook = AddUpperPaths;
	previous_planner = planner_hook;
	planner_hook = PlanStatement;
}
