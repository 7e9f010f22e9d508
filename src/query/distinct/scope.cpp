/* Walks through a statement and decides which of its places may be approximate. */
#include "query/distinct/scope.hpp"

#include "pg/walker.hpp"

extern "C" {
#include "access/transam.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "parser/parse_coerce.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"
}

namespace
{

constexpr Place EXACT = {false, false, false};
constexpr Place SHOWN = {true, true, true};

} /* namespace */

static Place
Meet(Place a, Place b)
{
	return {a.rows && b.rows, a.counts && b.counts, a.shown && b.shown};
}

static Place
WithoutRows(Place place)
{
	return {false, place.counts, false};
}

/* A place whose rows may be missing, but whose result is used further. */
static Place
UsedFurther(Place place)
{
	place.shown = false;
	return place;
}

/* ---- what a select list does with its columns ---------------------------------- */

namespace
{

/* The columns that are used inside larger expressions, other than numbers. */
struct ListUse
{
	const Node *root;
	bool aggregates; /* results of aggregates and window functions */
	bool columns;
	bool holders; /* columns that HoldsValues() */
};

} /* namespace */

static bool
IsNumber(const Node *node)
{
	TYPCATEGORY category;
	bool preferred;

	get_type_category_preferred(exprType(node), &category, &preferred);
	return category == TYPCATEGORY_NUMERIC;
}

/*
 * Returns whether the value holds other values and can be searched for them, for example an array,
 * jsonb, a multirange or a row.
 */
static bool
HoldsValues(const Node *node)
{
	TYPCATEGORY category;
	bool preferred;

	get_type_category_preferred(getBaseType(exprType(node)), &category, &preferred);
	return category != TYPCATEGORY_NUMERIC && category != TYPCATEGORY_BOOLEAN &&
		   category != TYPCATEGORY_DATETIME && category != TYPCATEGORY_TIMESPAN &&
		   category != TYPCATEGORY_ENUM && category != TYPCATEGORY_STRING;
}

static bool FindUse(Node *node, void *context);

static const Walker find_use = AsWalker(FindUse);

static bool
FindUse(Node *node, void *context)
{
	ListUse *use = (ListUse *) context;

	if (node == NULL)
		return false;
	if (IsA(node, Var))
	{
		if (node != use->root)
		{
			use->columns |= !IsNumber(node);
			use->holders |= HoldsValues(node);
		}
		return false;
	}
	if (IsA(node, SubLink))
	{
		use->columns = true;
		use->holders = true;
		return false;
	}
	if (IsA(node, Aggref) || IsA(node, WindowFunc))
	{
		List *arguments = IsA(node, Aggref) ? ((Aggref *) node)->args : ((WindowFunc *) node)->args;
		const Node *before = use->root;

		use->aggregates |= exprType(node) == BOOLOID || (node != use->root && !IsNumber(node));
		/* sum(x) of a column has the same effect as the column */
		if (list_length(arguments) == 1)
		{
			use->root = (Node *) linitial(arguments);
			if (IsA(use->root, TargetEntry))
				use->root = (Node *) ((const TargetEntry *) use->root)->expr;
		}
		(void) expression_tree_walker(node, find_use, context);
		use->root = before;
		return false;
	}
	return expression_tree_walker(node, find_use, context);
}

/*
 * A number that is computed from incomplete rows is slightly wrong, also in an expression. But an
 * array or a text in an expression can reverse the result of the expression, and the result of
 * bool_or() can itself be reversed.
 */
static ListUse
UseOfList(const Query *query)
{
	ListUse use = {};
	ListCell *cell;

	foreach(cell, query->targetList)
	{
		use.root = (Node *) lfirst_node(TargetEntry, cell)->expr;
		FindUse((Node *) use.root, &use);
	}
	return use;
}

/* ---- places ---------------------------------------------------------------------- */

static bool
IsLimited(const Query *query)
{
	return query->limitCount != NULL || query->limitOffset != NULL;
}

/* Returns whether the rows of the query depend on which of its input rows exist. */
static bool
Combines(const Query *query)
{
	return query->hasAggs || query->hasWindowFuncs || query->groupClause != NIL ||
		   query->groupingSets != NIL || query->hasDistinctOn || IsLimited(query);
}

/* Returns whether the query has one FROM item and shows each of its rows. */
static bool
HasOneInput(const Query *query)
{
	return query->jointree != NULL && list_length(query->jointree->fromlist) == 1 &&
		   IsA(linitial(query->jointree->fromlist), RangeTblRef) && query->jointree->quals == NULL;
}

/* Returns the place of the FROM items of a query whose place is `place`. */
static Place
InputPlace(const Query *query, Place place)
{
	ListUse use;

	if (query->commandType != CMD_SELECT)
		return query->commandType == CMD_INSERT ? place : EXACT;
	/* FOR UPDATE locks rows, so their choice matters */
	if (query->rowMarks != NIL)
		return EXACT;
	if (!place.rows || query->havingQual != NULL)
		return WithoutRows(place);
	if (!place.shown)
		return Combines(query) ? WithoutRows(place) : place;

	use = UseOfList(query);
	if (use.aggregates)
		return WithoutRows(place);
	if (use.columns || !HasOneInput(query) || query->groupClause != NIL ||
		query->groupingSets != NIL || query->hasWindowFuncs || query->distinctClause != NIL)
		return UsedFurther(place);
	return place;
}

/*
 * Returns whether the query's only FROM item is a function whose result is only shown. An array
 * that it returns may be compared with other values, and so may aggregates of its rows.
 */
static bool
ShowsFunction(const ScopeLevel *level)
{
	ListUse use = UseOfList(level->query);

	return level->place.shown && HasOneInput(level->query) && level->query->havingQual == NULL &&
		   !use.holders && !use.aggregates;
}

/* ---- expressions ------------------------------------------------------------------- */

static void WalkLevel(Query *query, Place place, ScopeWalk *walk);
static bool WalkNode(Node *node, void *context);

static const Walker walk_node = AsWalker(WalkNode);

/*
 * The server's functions that run queries, on cursors, and on views: the family of table_to_xml(),
 * ts_rewrite() and ts_stat(). In PostgreSQL 13, not all of them have names in fmgroids.h.
 */
static constexpr Oid RUN_QUERIES[] = {2923, 2924, 2925, 2926, 2927, 2928, 2929, 2930, 2933,
									  2934, 2935, 2936, 2937, 2938, 3685, 3689, 3690};

static bool
RunsStatements(Oid function, void *context)
{
	for (Oid runs : RUN_QUERIES)
		if (function == runs)
			return true;
	return function >= FirstNormalObjectId;
}

/*
 * Records whether the node calls a function that may run statements, and whether its result is used
 * further than being shown.
 */
static void
NoteFunction(Node *node, ScopeWalk *walk)
{
	switch (nodeTag(node))
	{
		case T_FuncExpr:
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
		case T_ScalarArrayOpExpr:
		case T_RowCompareExpr:
		case T_CoerceViaIO:
		case T_Aggref:
		case T_WindowFunc:
			if (!check_functions_in_node(node, RunsStatements, NULL))
				return;
			walk->functions_called = true;
			walk->functions_decide |= !walk->shown || (node != walk->root && HoldsValues(node));
			break;
		case T_CoerceToDomain:
			/* A value that a constraint refuses is an error, wherever it is. */
			walk->functions_decide |= DOMAIN_HAS_CONSTRAINTS(((CoerceToDomain *) node)->resulttype);
			break;
		default:
			break;
	}
}

static void
WalkSubselect(SubLink *link, ScopeWalk *walk)
{
	Place place = EXACT;

	if (link->subLinkType == EXPR_SUBLINK || link->subLinkType == MULTIEXPR_SUBLINK)
		place.counts = walk->subselects;
	WalkNode(link->testexpr, walk);
	WalkLevel(castNode(Query, link->subselect), place, walk);
}

static void WalkExact(Node *node, ScopeWalk *walk);

static bool
WalkNode(Node *node, void *context)
{
	ScopeWalk *walk = (ScopeWalk *) context;

	if (node == NULL)
		return false;
	if (IsA(node, SubLink))
	{
		WalkSubselect((SubLink *) node, walk);
		return false;
	}
	if (IsA(node, Query))
	{
		WalkLevel((Query *) node, EXACT, walk);
		return false;
	}
	NoteFunction(node, walk);
	if (IsA(node, Aggref) && walk->aggregates && walk->visit_aggregate != NULL)
		walk->visit_aggregate((Aggref *) node, walk->level, walk);
	/* FILTER (WHERE ...) is a condition like any other */
	if (IsA(node, Aggref))
	{
		WalkNode((Node *) ((Aggref *) node)->aggdirectargs, walk);
		WalkNode((Node *) ((Aggref *) node)->args, walk);
		WalkExact((Node *) ((Aggref *) node)->aggfilter, walk);
		return false;
	}
	if (IsA(node, WindowFunc))
	{
		WalkNode((Node *) ((WindowFunc *) node)->args, walk);
		WalkExact((Node *) ((WindowFunc *) node)->aggfilter, walk);
		return false;
	}
	return expression_tree_walker(node, walk_node, context);
}

/* Walks an expression, or a list of expressions, of the current level. */
static void
WalkExpression(Node *node, bool aggregates, bool subselects, bool shown, ScopeWalk *walk)
{
	ScopeWalk before = *walk;

	walk->root = node;
	walk->aggregates = aggregates;
	walk->subselects = subselects;
	walk->shown = shown;
	WalkNode(node, walk);
	walk->root = before.root;
	walk->aggregates = before.aggregates;
	walk->subselects = before.subselects;
	walk->shown = before.shown;
}

/* Walks a condition or another expression whose value decides about rows. */
static void
WalkExact(Node *node, ScopeWalk *walk)
{
	WalkExpression(node, false, false, false, walk);
}

/* Walks the functions, or other expressions, of a FROM item. */
static void
WalkSource(Node *node, Place place, ScopeWalk *walk)
{
	if (node != NULL && IsA(node, List))
	{
		ListCell *cell;

		foreach(cell, (List *) node)
			WalkSource((Node *) lfirst(cell), place, walk);
	}
	else if (node != NULL && IsA(node, RangeTblFunction))
		WalkSource(((RangeTblFunction *) node)->funcexpr, place, walk);
	else
		WalkExpression(node, place.counts, place.counts, place.shown, walk);
}

/*
 * Returns the place of a sub-select that is a column by itself, not part of an expression, and not
 * used to sort or group. The column is only shown where the query is only shown. So an array may
 * lack elements, and an aggregate without GROUP BY may be computed from incomplete rows. Any other
 * scalar sub-select would be NULL if its row is missing.
 */
static Place
ColumnPlace(const SubLink *link, Place place)
{
	const Query *query = castNode(Query, link->subselect);

	if (link->subLinkType == ARRAY_SUBLINK ||
		(query->hasAggs && query->groupClause == NIL && query->groupingSets == NIL &&
		 query->setOperations == NULL && !IsLimited(query)))
		return place;
	place.rows = false;
	return place;
}

/* If a query has several set-returning functions, shorter results are filled up with NULLs. */
static bool
FillsUpRows(const Query *query)
{
	int sets = 0;
	ListCell *cell;

	if (query->hasTargetSRFs)
		foreach(cell, query->targetList)
			sets += expression_returns_set((Node *) lfirst_node(TargetEntry, cell)->expr);
	return sets > 1;
}

static void
WalkList(Query *query, Place place, ScopeWalk *walk)
{
	ListCell *cell;

	place.shown = place.shown && !FillsUpRows(query);
	foreach(cell, query->targetList)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, cell);
		SubLink *link = (SubLink *) entry->expr;

		if (place.shown && link != NULL && IsA(link, SubLink) && entry->ressortgroupref == 0 &&
			(link->subLinkType == EXPR_SUBLINK || link->subLinkType == ARRAY_SUBLINK))
			WalkLevel(castNode(Query, link->subselect), ColumnPlace(link, place), walk);
		else
			WalkExpression((Node *) entry->expr, place.counts, place.counts, place.shown, walk);
	}
}

/* ---- FROM ------------------------------------------------------------------------------ */

/* Records where a WITH query is read. */
static void
NoteReference(const RangeTblEntry *entry, Place place, const ScopeWalk *walk)
{
	const ScopeLevel *level = walk->level;

	for (Index up = entry->ctelevelsup; up > 0 && level != NULL; up--)
		level = level->outer;
	if (level == NULL)
		return; /* belongs to a query that is planned separately */
	for (int i = 0; i < list_length(level->query->cteList); i++)
		if (strcmp(((CommonTableExpr *) list_nth(level->query->cteList, i))->ctename,
				   entry->ctename) == 0)
			level->with[i] = Meet(level->with[i], place);
}

static void
WalkEntry(RangeTblEntry *entry, Place place, ScopeWalk *walk)
{
	/* policies of row security */
	WalkExact((Node *) entry->securityQuals, walk);
	switch (entry->rtekind)
	{
		case RTE_SUBQUERY:
			WalkLevel(entry->subquery, entry->security_barrier ? EXACT : place, walk);
			break;
		case RTE_CTE:
			NoteReference(entry, place, walk);
			break;
		case RTE_RELATION:
			WalkExact((Node *) entry->tablesample, walk);
			break;
		case RTE_FUNCTION:
			/* ROWS FROM fills shorter results up with NULLs */
			place.shown = list_length(entry->functions) == 1 && ShowsFunction(walk->level);
			WalkSource((Node *) entry->functions, place, walk);
			break;
		case RTE_TABLEFUNC:
			WalkSource((Node *) entry->tablefunc, place, walk);
			break;
		case RTE_VALUES:
			WalkSource((Node *) entry->values_lists, place, walk);
			break;
		default:
			break;
	}
}

/* A row that is missing from the inner side of an outer join appears as a row of NULLs. */
static void
WalkFrom(Node *node, Place place, ScopeWalk *walk)
{
	check_stack_depth();
	if (node == NULL)
		return;
	if (IsA(node, RangeTblRef))
		WalkEntry(rt_fetch(((RangeTblRef *) node)->rtindex, walk->level->query->rtable), place,
				  walk);
	else if (IsA(node, JoinExpr))
	{
		JoinExpr *join = (JoinExpr *) node;
		bool left_inner = join->jointype == JOIN_RIGHT || join->jointype == JOIN_FULL;
		bool right_inner = join->jointype == JOIN_LEFT || join->jointype == JOIN_FULL;

		WalkFrom(join->larg, left_inner ? WithoutRows(place) : place, walk);
		WalkFrom(join->rarg, right_inner ? WithoutRows(place) : place, walk);
		WalkExact(join->quals, walk);
	}
	else
	{
		FromExpr *from = castNode(FromExpr, node);
		ListCell *cell;

		foreach(cell, from->fromlist)
			WalkFrom((Node *) lfirst(cell), place, walk);
		WalkExact(from->quals, walk);
	}
}

/* Set operations other than UNION ALL compare whole rows, including the counts in them. */
static void
WalkOperands(Node *node, Place place, ScopeWalk *walk)
{
	SetOperationStmt *set;
	Place right;

	check_stack_depth();
	if (IsA(node, RangeTblRef))
	{
		WalkFrom(node, place, walk);
		return;
	}
	set = castNode(SetOperationStmt, node);
	if (set->op != SETOP_UNION || !set->all)
		place.shown = false;
	if (set->op != SETOP_UNION)
		place.counts = false;
	right = set->op == SETOP_EXCEPT ? EXACT : place;
	WalkOperands(set->larg, place, walk);
	WalkOperands(set->rarg, right, walk);
}

/* ---- a query ----------------------------------------------------------------------------- */

/*
 * Walks the WITH queries of a level after everything that reads them. The order is from the last to
 * the first, because the parser puts each WITH query behind those that it reads.
 */
static void
WalkWith(const ScopeLevel *level, ScopeWalk *walk)
{
	for (int i = list_length(level->query->cteList) - 1; i >= 0; i--)
	{
		CommonTableExpr *with = (CommonTableExpr *) list_nth(level->query->cteList, i);

		WalkLevel(castNode(Query, with->ctequery), with->cterecursive ? EXACT : level->with[i],
				  walk);
	}
}

static void
WalkLevel(Query *query, Place place, ScopeWalk *walk)
{
	ScopeLevel level;
	Place input;
	ScopeWalk outer = *walk;
	ListCell *cell;

	check_stack_depth();
	level.query = query;
	level.outer = walk->level;
	level.place = place;
	level.with = (Place *) palloc(sizeof(Place) * list_length(query->cteList));
	for (int i = 0; i < list_length(query->cteList); i++)
		level.with[i] = SHOWN;
	walk->level = &level;

	if (walk->visit_query != NULL)
		walk->visit_query(&level, place.rows && (place.shown || !IsLimited(query)), walk);

	input = InputPlace(query, place);
	if (query->setOperations != NULL)
		WalkOperands(query->setOperations, input, walk);
	else
		WalkFrom((Node *) query->jointree, input, walk);
	WalkList(query, place, walk);
	foreach(cell, query->rtable)
		if (IS_GROUP(lfirst_node(RangeTblEntry, cell)))
			WalkExpression((Node *) GROUP_EXPRESSIONS(lfirst_node(RangeTblEntry, cell)),
						   place.counts, place.counts, false, walk);
	WalkExpression(query->havingQual, place.counts, false, false, walk);
	foreach(cell, query->windowClause)
		WalkExact((Node *) lfirst(cell), walk);
	WalkExact(query->limitOffset, walk);
	WalkExact(query->limitCount, walk);
	WalkExact((Node *) query->returningList, walk);
	WalkExact((Node *) query->onConflict, walk);
	WalkWith(&level, walk);

	/* keep the visitors' context and the results */
	outer.functions_decide = walk->functions_decide;
	outer.functions_called = walk->functions_called;
	*walk = outer;
	pfree(level.with);
}

void
WalkStatement(Query *query, ScopeWalk *walk)
{
	WalkLevel(query, SHOWN, walk);
}
