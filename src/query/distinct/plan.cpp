/*
 * The planner's side of SELECT DISTINCT through a filter: the places where a path is offered, and
 * its plan.
 *
 * The exact paths are still considered. With the costs that are set here, our path always wins
 * where it is offered. So the decision is made here, and not by estimates. Our path is not offered
 * if the input is sorted by the keys (Unique is exact and costs nothing), nor for few rows. The
 * filter starts exact, so an estimate that is too high costs nothing.
 */
#include "query/distinct/distinct.hpp"

#include "query/distinct/hook.hpp"
#include "query/distinct/count.hpp"
#include "query/plan_walk.hpp"

extern "C" {
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/planner.h"
#include "optimizer/tlist.h"
#include "utils/dsa.h"
}

static create_upper_paths_hook_type previous_upper_paths_hook = NULL;

/*
 * For fewer rows, hashing is exact, fits into memory, and takes almost no time.
 * test/server_regress.sh builds with 0: then our path is taken wherever it is possible, because its
 * cost, including its input, is almost 0.
 */
#ifndef DEDUP_LEAST_ROWS
#define DEDUP_LEAST_ROWS 1000
#endif
static const double LEAST_ROWS = DEDUP_LEAST_ROWS;
static const Cost COST_FACTOR = DEDUP_LEAST_ROWS > 0 ? 1 : 0.0001;

/* ---- the plan's own fields ---------------------------------------------------- */

List *
PackDistinctPlan(const DistinctPlanFields *fields)
{
	return list_make3(fields->columns, fields->types, fields->collations);
}

void
UnpackDistinctPlan(List *custom_private, DistinctPlanFields *fields)
{
	fields->columns = (List *) linitial(custom_private);
	fields->types = (List *) lsecond(custom_private);
	fields->collations = (List *) lthird(custom_private);
}

/* ---- which statements and queries ----------------------------------------------- */

/*
 * Queries that may be approximate carry this mark in their source, which the planner ignores. It is
 * kept when the planner, or another extension, copies a query. Queries that others plan meanwhile,
 * by calling standard_planner(), do not carry it.
 */
static const int QUERY_MARK = 0x64656400;

/*
 * Reads the source as a number: C++ must not read a value outside of an enum's range as that enum.
 */
static int
SourceOf(const Query *query)
{
	int source;

	memcpy(&source, &query->querySource, sizeof source);
	return source;
}

static void
MarkQuery(const ScopeLevel *level, bool approximate, ScopeWalk *walk)
{
	int source = SourceOf(level->query) & ~QUERY_MARK;

	static_assert(sizeof level->query->querySource == sizeof source);
	if (approximate)
		source |= QUERY_MARK;
	memcpy(&level->query->querySource, &source, sizeof source);
}

bool
IsRuleAction(const Query *query)
{
	return (SourceOf(query) & ~QUERY_MARK) != QSRC_ORIGINAL;
}

void
MarkDistinctQueries(Query *query)
{
	ScopeWalk walk = {};

	walk.visit_query = MarkQuery;
	WalkStatement(query, &walk);
}

static bool
MayBeApproximate(PlannerInfo *root)
{
	return PlanningApproximate() && (SourceOf(root->parse) & QUERY_MARK) == QUERY_MARK;
}

/* ---- which DISTINCT --------------------------------------------------------------- */

static List *
DistinctClause(PlannerInfo *root)
{
	return DISTINCT_CLAUSE(root);
}

/* Values that the query calls equal must have equal hashes. */
static bool
KeysAreHashable(PlannerInfo *root, List *clause)
{
	ListCell *cell;

	foreach(cell, clause)
	{
		SortGroupClause *key = lfirst_node(SortGroupClause, cell);
		Node *expr = get_sortgroupclause_expr(key, root->parse->targetList);

		if (!IsHashedEquality(exprType(expr), key->eqop))
			return false;
	}
	return true;
}

/*
 * Two columns with the same volatile expression, such as random(), differ only in their place. The
 * server looks our columns up by equal(), so it cannot distinguish them.
 */
static bool
HasVolatileTwins(PathTarget *target)
{
	ListCell *cell;

	foreach(cell, target->exprs)
	{
		Node *expr = (Node *) lfirst(cell);

		for (int i = 0; i < foreach_current_index(cell); i++)
			if (equal(expr, list_nth(target->exprs, i)) && contain_volatile_functions(expr))
				return true;
	}
	return false;
}

static bool
MayBeFiltered(PlannerInfo *root, RelOptInfo *input_rel)
{
	Query *parse = root->parse;
	Path *cheapest = input_rel->cheapest_total_path;

	return MayBeApproximate(root) && DistinctClause(root) != NIL &&
		   /* The query determines which row of a key is returned. */
		   !(parse->hasDistinctOn &&
			 list_length(root->sort_pathkeys) > list_length(root->distinct_pathkeys)) &&
		   cheapest != NULL && cheapest->rows >= LEAST_ROWS &&
		   !pathkeys_contained_in(root->distinct_pathkeys, cheapest->pathkeys) &&
		   KeysAreHashable(root, DistinctClause(root)) && !HasVolatileTwins(cheapest->pathtarget);
}

/* ---- paths -------------------------------------------------------------------------- */

static Plan *PlanDistinct(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist,
						  List *clauses, List *custom_plans);

static const CustomPathMethods PathMethods = {
	.CustomName = "ApproximateDistinct",
	.PlanCustomPath = PlanDistinct,
	.ReparameterizeCustomPathByChild = NULL,
};

/*
 * Makes a path over another path. `rows` is the expected number of distinct rows. A partial path
 * runs in several processes, which share a set.
 */
static Path *
MakeDistinctPath(PlannerInfo *root, RelOptInfo *rel, Path *child, double rows, bool partial)
{
	CustomPath *path = makeNode(CustomPath);
	List *references = NIL;
	ListCell *cell;

	foreach(cell, DistinctClause(root))
		references =
			lappend_int(references, (int) lfirst_node(SortGroupClause, cell)->tleSortGroupRef);

	path->path.pathtype = T_CustomScan;
	path->path.parent = rel;
	path->path.pathtarget = child->pathtarget;
	path->path.param_info = child->param_info;
	path->path.parallel_aware = partial;
	path->path.parallel_safe = rel->consider_parallel && child->parallel_safe;
	path->path.parallel_workers = child->parallel_workers;
	path->path.pathkeys = child->pathkeys;
	path->path.rows = clamp_row_est(Min(rows, child->rows));
	path->path.startup_cost = COST_FACTOR * child->startup_cost;
	path->path.total_cost =
		COST_FACTOR *
		(child->total_cost + 0.5 * cpu_operator_cost * list_length(references) * child->rows +
		 0.5 * cpu_tuple_cost * path->path.rows);
	DISABLED_LIKE(&path->path, child);
	path->custom_paths = list_make1(child);
	path->custom_private = references;
	path->methods = &PathMethods;
	return (Path *) path;
}

/* Adds a path over the cheapest path of a relation, and over every path with a useful order. */
static void
AddDistinctPaths(PlannerInfo *root, RelOptInfo *input_rel, RelOptInfo *output_rel, double rows)
{
	ListCell *cell;

	foreach(cell, input_rel->pathlist)
	{
		Path *child = (Path *) lfirst(cell);

		if (child != input_rel->cheapest_total_path && child->pathkeys == NIL &&
			child != input_rel->cheapest_startup_path)
			continue;
		if (child->param_info != NULL ||
			pathkeys_contained_in(root->distinct_pathkeys, child->pathkeys))
			continue;
		add_path(output_rel, MakeDistinctPath(root, output_rel, child, rows, false));
	}
}

/*
 * Before 15 the server has no parallel DISTINCT. A server that was compiled with
 * USE_SMALL_DSA_POINTER has shared areas of at most 128 MB in one piece.
 */
#if HAS_PARALLEL_DISTINCT && SIZEOF_DSA_POINTER == 8
#define HAS_PARTIAL_PATHS 1
#else
#define HAS_PARTIAL_PATHS 0
#endif

#if HAS_PARTIAL_PATHS
/*
 * Adds a partial path: each distinct row is returned by one of the processes. So the nodes above,
 * for example an aggregate, may be partial too, and a Gather needs no filter above it. As in the
 * server, there is none for DISTINCT ON, because the first row of a key would be an arbitrary one.
 */
static void
AddPartialPaths(PlannerInfo *root, RelOptInfo *input_rel, RelOptInfo *output_rel, double rows)
{
	Path *child;
	Path *path;
	double processes;

	if (!output_rel->consider_parallel || input_rel->partial_pathlist == NIL ||
		root->parse->hasDistinctOn)
		return;
	child = (Path *) linitial(input_rel->partial_pathlist);
	if (pathkeys_contained_in(root->distinct_pathkeys, child->pathkeys))
		return;
	/* the same number that the planner uses for the input */
	processes = Max(1, input_rel->cheapest_total_path->rows / child->rows);
	path = MakeDistinctPath(root, output_rel, child, rows / processes, true);
	add_partial_path(output_rel, path);
	add_path(output_rel,
			 (Path *) create_gather_path(root, output_rel, path, path->pathtarget, NULL, &rows));
}
#endif

static void
AddUpperPaths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input_rel,
			  RelOptInfo *output_rel, void *extra)
{
	double rows;

	if (previous_upper_paths_hook != NULL)
		previous_upper_paths_hook(root, stage, input_rel, output_rel, extra);
	if (stage != UPPERREL_DISTINCT || !MayBeFiltered(root, input_rel) ||
		output_rel->pathlist == NIL)
		return;
	rows = ((Path *) linitial(output_rel->pathlist))->rows;
	AddDistinctPaths(root, input_rel, output_rel, rows);
#if HAS_PARTIAL_PATHS
	AddPartialPaths(root, input_rel, output_rel, rows);
#endif
}

/* ---- the plan -------------------------------------------------------------------------- */

static Plan *
PlanDistinct(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *clauses,
			 List *custom_plans)
{
	CustomScan *scan = makeNode(CustomScan);
	Plan *child = (Plan *) linitial(custom_plans);
	DistinctPlanFields fields = {};
	ListCell *cell;

	foreach(cell, path->custom_private)
	{
		TargetEntry *entry = get_sortgroupref_tle((Index) lfirst_int(cell), child->targetlist);

		fields.columns = lappend_int(fields.columns, entry->resno);
		fields.types = lappend_oid(fields.types, exprType((Node *) entry->expr));
		fields.collations = lappend_oid(fields.collations, exprCollation((Node *) entry->expr));
	}
	scan->scan.plan.targetlist = tlist;
	scan->scan.scanrelid = 0;
	scan->flags = path->flags;
	scan->custom_plans = custom_plans;
	scan->custom_private = PackDistinctPlan(&fields);
	/* This is a copy, because the server changes it in place. */
	scan->custom_scan_tlist = (List *) copyObjectImpl(child->targetlist);
	scan->methods = &DistinctScanMethods;
	return &scan->scan.plan;
}

/* ---- the finished plan ------------------------------------------------------------------ */

/* Returns whether each row is returned exactly as it was read, column by column. */
static bool
PassesRowsOn(CustomScan *scan)
{
	ListCell *cell;

	if (list_length(scan->scan.plan.targetlist) != list_length(scan->custom_scan_tlist))
		return false;
	foreach(cell, scan->scan.plan.targetlist)
	{
		Node *out = (Node *) lfirst_node(TargetEntry, cell)->expr;
		TargetEntry *in =
			(TargetEntry *) list_nth(scan->custom_scan_tlist, foreach_current_index(cell));

		/* A column that is equal to another one is identified by it. Constants are not changed. */
		if (IsA(out, Var) && ((Var *) out)->varno == INDEX_VAR)
			out = (Node *) ((TargetEntry *) list_nth(scan->custom_scan_tlist,
													 ((Var *) out)->varattno - 1))
					  ->expr;
		if (!equal(out, in->expr))
			return false;
	}
	return true;
}

static void
FinishNode(Plan *plan)
{
	CustomScan *scan = (CustomScan *) plan;
	ListCell *cell;

	if (!IsA(plan, CustomScan) || scan->methods != &DistinctScanMethods ||
		scan->custom_plans == NIL || !PassesRowsOn(scan))
		return;
	foreach(cell, scan->scan.plan.targetlist)
	{
		TargetEntry *out = lfirst_node(TargetEntry, cell);
		TargetEntry *in =
			(TargetEntry *) list_nth(scan->custom_scan_tlist, foreach_current_index(cell));
		Node *expr = (Node *) in->expr;

		out->expr = (Expr *) makeVar(INDEX_VAR, in->resno, exprType(expr), exprTypmod(expr),
									 exprCollation(expr), 0);
		in->expr = (Expr *) makeVar(OUTER_VAR, in->resno, exprType(expr), exprTypmod(expr),
									exprCollation(expr), 0);
	}
	scan->scan.plan.lefttree = (Plan *) linitial(scan->custom_plans);
	scan->custom_plans = NIL;
}

void
FinishDistinctPlan(PlannedStmt *statement)
{
	WalkPlans(statement, FinishNode);
}

void
InitDistinct(void)
{
	RegisterCustomScanMethods(&DistinctScanMethods);
	previous_upper_paths_hook = create_upper_paths_hook;
	create_upper_paths_hook = AddUpperPaths;
}
