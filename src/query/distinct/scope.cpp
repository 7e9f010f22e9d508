/*
 * Walking through what may be approximate in a statement.
 */
#include "query/distinct/scope.hpp"

extern "C" {
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "nodes/value.h"
#include "parser/parsetree.h"
}

/* Before 16 walkers are declared without arguments, as C may. */
#if PG_VERSION_NUM >= 160000
using Walker = tree_walker_callback;
#else
using Walker = bool (*) ();
#endif

static bool
Bars(const SubLink *link)
{
	return link->subLinkType == EXISTS_SUBLINK || link->subLinkType == ANY_SUBLINK ||
		link->subLinkType == ALL_SUBLINK;
}

/* x = ANY (ARRAY(SELECT ...)) and x <> ALL (...), which are IN and NOT IN by other names. */
static SubLink *
ArrayAsked(Node *node)
{
	Node	   *array;

	if (!IsA(node, ScalarArrayOpExpr) || list_length(((ScalarArrayOpExpr *) node)->args) != 2)
		return NULL;
	array = (Node *) lsecond(((ScalarArrayOpExpr *) node)->args);
	return IsA(array, SubLink) && ((SubLink *) array)->subLinkType == ARRAY_SUBLINK ?
		(SubLink *) array : NULL;
}

/* The FROM items that an EXCEPT takes away; their numbers are added to a set. */
static Bitmapset *
TakenAway(Node *operation, bool taken, Bitmapset *found)
{
	SetOperationStmt *set;

	check_stack_depth();
	if (operation == NULL)
		return found;
	if (IsA(operation, RangeTblRef))
		return taken ? bms_add_member(found, ((RangeTblRef *) operation)->rtindex) : found;
	set = castNode(SetOperationStmt, operation);
	found = TakenAway(set->larg, taken, found);
	return TakenAway(set->rarg, taken || set->op == SETOP_EXCEPT, found);
}

/* ---- the walk --------------------------------------------------------------- */

static bool WalkNode(Node *node, void *context);

static const Walker walk_node = (Walker) (void (*) (void)) WalkNode;

/* What a FROM item holds; its rows' security is none of ours. */
static void
WalkEntry(RangeTblEntry *entry, ScopeWalk *walk)
{
	bool		expressions = walk->level->aggregates || walk->level->query->hasSubLinks;

	switch (entry->rtekind)
	{
		case RTE_SUBQUERY:
			if (!entry->security_barrier)
				WalkScope(entry->subquery, walk);
			break;
		case RTE_FUNCTION:
			if (expressions)
				WalkNode((Node *) entry->functions, walk);
			break;
		case RTE_TABLEFUNC:
			if (expressions)
				WalkNode((Node *) entry->tablefunc, walk);
			break;
		case RTE_VALUES:
			if (expressions)
				WalkNode((Node *) entry->values_lists, walk);
			break;
#if PG_VERSION_NUM >= 180000
		case RTE_GROUP:
			WalkNode((Node *) entry->groupexprs, walk);
			break;
#endif
		default:
			break;
	}
}

/*
 * One level. Its expressions are looked at if it has aggregates or sub-selects, or a
 * level around it has aggregates, which may stand in here.
 */
void
WalkScope(Query *query, ScopeWalk *walk)
{
	ScopeLevel	level;
	Bitmapset  *taken;
	ListCell   *cell;

	check_stack_depth();
	level.query = query;
	level.outer = walk->level;
	level.aggregates = query->hasAggs || (level.outer != NULL && level.outer->aggregates);
	walk->level = &level;

	if (walk->visit_query != NULL)
		walk->visit_query(&level, walk);
	walk->met_with |= query->cteList != NIL;
	taken = TakenAway(query->setOperations, false, NULL);
	walk->met_barred |= taken != NULL;
	foreach(cell, query->rtable)
		if (!bms_is_member(foreach_current_index(cell) + 1, taken))
			WalkEntry(lfirst_node(RangeTblEntry, cell), walk);
	if (level.aggregates || query->hasSubLinks)
		(void) query_tree_walker(query, walk_node, walk, QTW_IGNORE_RANGE_TABLE);
	else
		foreach(cell, query->cteList)
			WalkNode((Node *) lfirst(cell), walk);

	walk->level = level.outer;
}

static bool
WalkNode(Node *node, void *context)
{
	ScopeWalk  *walk = (ScopeWalk *) context;

	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_Query:
			WalkScope((Query *) node, walk);
			return false;
		case T_SubLink:
			if (!Bars((SubLink *) node))
				break;
			walk->met_barred = true;
			return WalkNode(((SubLink *) node)->testexpr, walk);
		case T_CommonTableExpr:
			{
				CommonTableExpr *with = (CommonTableExpr *) node;

				if (walk->barred_with != NIL &&
					list_member(walk->barred_with, makeString(with->ctename)))
					return false;
				return WalkNode(with->ctequery, walk);
			}
		case T_ScalarArrayOpExpr:
			if (ArrayAsked(node) == NULL)
				break;
			walk->met_barred = true;
			return WalkNode((Node *) linitial(((ScalarArrayOpExpr *) node)->args), walk);
		case T_WithCheckOption:
		case T_OnConflictExpr:
			return false;
		case T_Aggref:
			if (walk->visit_aggregate != NULL)
				walk->visit_aggregate((Aggref *) node, walk->level, walk);
			break;
		default:
			break;
	}
	return expression_tree_walker(node, walk_node, context);
}

/* ---- WITH queries that barred sub-selects read -------------------------------- */

namespace
{

struct BarredWalk
{
	bool		barred;			/* below such a sub-select, or taken away */
	List	   *names;
};

}							/* namespace */

static bool CollectBarred(Node *node, void *context);

static const Walker collect_barred = (Walker) (void (*) (void)) CollectBarred;

static bool
CollectBarredOfQuery(Query *query, BarredWalk *walk)
{
	Bitmapset  *taken = walk->barred ? NULL : TakenAway(query->setOperations, false, NULL);

	for (int i = -1; (i = bms_next_member(taken, i)) >= 0;)
	{
		walk->barred = true;
		CollectBarred((Node *) rt_fetch(i, query->rtable)->subquery, walk);
		walk->barred = false;
	}
	return query_tree_walker(query, collect_barred, walk, QTW_EXAMINE_RTES_BEFORE);
}

static bool
CollectBarred(Node *node, void *context)
{
	BarredWalk *walk = (BarredWalk *) context;

	if (node == NULL)
		return false;
	if (ArrayAsked(node) != NULL)
	{
		bool		before = walk->barred;

		CollectBarred((Node *) linitial(((ScalarArrayOpExpr *) node)->args), context);
		walk->barred = true;
		CollectBarred(ArrayAsked(node)->subselect, context);
		walk->barred = before;
		return false;
	}
	if (IsA(node, SubLink))
	{
		SubLink    *link = (SubLink *) node;
		bool		before = walk->barred;

		CollectBarred(link->testexpr, context);
		walk->barred = before || Bars(link);
		CollectBarred(link->subselect, context);
		walk->barred = before;
		return false;
	}
	if (IsA(node, RangeTblEntry))
	{
		RangeTblEntry *entry = (RangeTblEntry *) node;

		if (walk->barred && entry->rtekind == RTE_CTE)
			walk->names = lappend(walk->names, makeString(entry->ctename));
		return false;
	}
	if (IsA(node, Query))
		return CollectBarredOfQuery((Query *) node, walk);
	return expression_tree_walker(node, collect_barred, context);
}

/* Those that a barred one reads are barred as well. */
static void
BarWhatIsRead(Query *query, BarredWalk *walk)
{
	int			before;

	do
	{
		ListCell   *cell;

		before = list_length(walk->names);
		foreach(cell, query->cteList)
		{
			CommonTableExpr *with = lfirst_node(CommonTableExpr, cell);
			BarredWalk	inner = {true, NIL};
			ListCell   *name;

			if (!list_member(walk->names, makeString(with->ctename)))
				continue;
			CollectBarred(with->ctequery, &inner);
			foreach(name, inner.names)
				walk->names = list_append_unique(walk->names, lfirst(name));
		}
	} while (list_length(walk->names) > before);
}

List *
FindBarredWith(Query *query)
{
	BarredWalk	walk = {};

	(void) CollectBarredOfQuery(query, &walk);
	if (walk.names != NIL)
		BarWhatIsRead(query, &walk);
	return walk.names;
}
