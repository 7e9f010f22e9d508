/* Changes aggregates over tables that Citus distributes, before Citus plans. */
#include "query/citus.hpp"

#include "pg/catalog.hpp"
#include "query/distinct/distributed.hpp"
#include "pg/keys.hpp"
#include "pg/walker.hpp"

extern "C" {
#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/dependency.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/planner.h"
#include "rewrite/rewriteManip.h"
#include "utils/catcache.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#pragma GCC visibility push(default)
Datum dedup_agg_internal_trans(PG_FUNCTION_ARGS);
Datum dedup_agg_internal_prototype_trans(PG_FUNCTION_ARGS);
Datum approx_count_distinct_internal_trans(PG_FUNCTION_ARGS);
Datum dedup_agg_hashes_trans(PG_FUNCTION_ARGS);
Datum dedup_agg_hashes_prototype_trans(PG_FUNCTION_ARGS);
Datum approx_count_distinct_hashes_trans(PG_FUNCTION_ARGS);
Datum dedup_hash(PG_FUNCTION_ARGS);
#pragma GCC visibility pop
}

static planner_hook_type previous_planner = NULL;

namespace
{

/* A function of this extension: its address and the symbol in pg_proc. */
struct OurFunction
{
	PGFunction address;
	const char *symbol;
};

/*
 * An aggregate over keys, and two aggregates over their hashes: one for the whole and one for a
 * worker.
 */
struct Family
{
	const char *name;
	OurFunction transition;
	const char *hashed_name;
	OurFunction hashed_transition;
	const char *partial_name;
	bool prototype; /* the first argument is one */
	bool counts;
};

#define OUR_FUNCTION(name)                                                                         \
	{                                                                                              \
		name, #name                                                                                \
	}

const Family FAMILIES[] = {
	{"dedup_agg", OUR_FUNCTION(dedup_agg_internal_trans), "dedup_agg_hashes",
	 OUR_FUNCTION(dedup_agg_hashes_trans), "dedup_agg_hashes_partial", false, false},
	{"dedup_agg", OUR_FUNCTION(dedup_agg_internal_prototype_trans), "dedup_agg_hashes",
	 OUR_FUNCTION(dedup_agg_hashes_prototype_trans), "dedup_agg_hashes_partial", true, false},
	{"approx_count_distinct", OUR_FUNCTION(approx_count_distinct_internal_trans),
	 "approx_count_distinct_hashes", OUR_FUNCTION(approx_count_distinct_hashes_trans),
	 "approx_count_distinct_hashes_partial", false, true},
};

/*
 * Citus's aggregate for a worker. It computes the state of the aggregate that its first argument
 * names.
 */
const char *const WORKER_AGGREGATE = "worker_partial_agg";

/* The aggregates in a statement that may be changed. */
struct Found
{
	List *aggregates; /* Aggrefs of this extension */
	List *partial;    /* Aggrefs of WORKER_AGGREGATE */
	bool leave;       /* the aggregates of the current query must not be changed */
};

} /* namespace */

/* ---- finding ------------------------------------------------------------------- */

static bool
HasTransition(Oid aggregate, const OurFunction &transition)
{
	HeapTuple tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(aggregate));
	Oid function;

	if (!HeapTupleIsValid(tuple))
		return false;
	function = ((Form_pg_aggregate) GETSTRUCT(tuple))->aggtransfn;
	ReleaseSysCache(tuple);
	return IsOurFunction(function, transition.address, transition.symbol);
}

static const Family *
FindFamily(const char *name, Oid aggregate)
{
	for (const Family &family : FAMILIES)
		if (strcmp(name, family.name) == 0 && HasTransition(aggregate, family.transition))
			return &family;
	return NULL;
}

static void
NoteAggregate(Aggref *aggregate, Found *found)
{
	const char *name;

	if (aggregate->aggfnoid < FirstNormalObjectId ||
		(name = get_func_name(aggregate->aggfnoid)) == NULL)
		return;
	if (!found->leave && FindFamily(name, aggregate->aggfnoid) != NULL)
		found->aggregates = lappend(found->aggregates, aggregate);
	else if (strcmp(name, WORKER_AGGREGATE) == 0 &&
			 get_func_namespace(aggregate->aggfnoid) == PG_CATALOG_NAMESPACE)
		found->partial = lappend(found->partial, aggregate);
}

/*
 * Returns whether a query of one row has ORDER BY. Citus then has each worker order its states,
 * which are cstrings and cannot be ordered.
 */
static bool
OrdersOneRow(const Query *query)
{
	return query->groupClause == NIL && query->sortClause != NIL &&
		   (query->limitCount != NULL || query->hasDistinctOn);
}

/* Collects the aggregates of a statement. Does not check its tables. */
static bool
FindAggregates(Node *node, void *context)
{
	Found *found = (Found *) context;

	if (node == NULL)
		return false;
	if (IsA(node, Query))
	{
		const bool outer = found->leave;

		found->leave = OrdersOneRow((Query *) node);
		(void) query_tree_walker((Query *) node, AsWalker(FindAggregates), context, 0);
		found->leave = outer;
		return false;
	}
	if (IsA(node, Aggref))
		NoteAggregate((Aggref *) node, found);
	return expression_tree_walker(node, AsWalker(FindAggregates), context);
}

/* ---- what can be changed -------------------------------------------------------- */

/*
 * Returns whether a value of the type means the same on every node. A type that holds the OID of a
 * catalog entry does not. The contents of an anonymous record are unknown, but Citus cannot fetch
 * one either.
 */
static bool
MeansTheSame(Oid type)
{
	Oid element;
	TupleDesc desc;
	bool same = true;

	check_stack_depth();
	type = getBaseType(type);
	if (IsRegType(type) || type == ACLITEMOID)
		return false;
	element = get_element_type(type);
	if (OidIsValid(element))
		return MeansTheSame(element);
	if (get_typtype(type) != TYPTYPE_COMPOSITE)
		return true;
	desc = lookup_rowtype_tupdesc(type, -1);
	for (int i = 0; same && i < desc->natts; i++)
		same =
			TupleDescAttr(desc, i)->attisdropped || MeansTheSame(TupleDescAttr(desc, i)->atttypid);
	ReleaseTupleDesc(desc);
	return same;
}

static Oid
FindFunction(const char *name, int nargs, const Oid *types, Oid schema)
{
	oidvector *arguments = buildoidvector(types, nargs);

	return GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid, CStringGetDatum(name),
						   PointerGetDatum(arguments), ObjectIdGetDatum(schema));
}

/*
 * Finds the aggregate over hashes that is in the same schema as another aggregate of the family. It
 * must be ours, because others may make functions there. Returns InvalidOid if there is none, or if
 * the user may not call both.
 */
static Oid
FindHashed(Oid aggregate, const Family &family, const char *name, Oid filter)
{
	const Oid types[2] = {family.prototype ? filter : INT8OID, INT8OID};
	Oid found = FindFunction(name, family.prototype ? 2 : 1, types, get_func_namespace(aggregate));

	if (OidIsValid(found) && HasTransition(found, family.hashed_transition) && MayCall(aggregate) &&
		MayCall(found))
		return found;
	return InvalidOid;
}

/* Returns whether another function in the schema has the same name. */
static bool
IsOverloaded(Oid function, Oid schema)
{
	CatCList *list = SearchSysCacheList1(PROCNAMEARGSNSP, CStringGetDatum(get_func_name(function)));
	bool overloaded = false;

	for (int i = 0; i < list->n_members; i++)
	{
		Form_pg_proc form = (Form_pg_proc) GETSTRUCT(&list->members[i]->tuple);

		overloaded |= form->pronamespace == schema && form->oid != function;
	}
	ReleaseSysCacheList(list);
	return overloaded;
}

/*
 * Finds dedup_hash() in a schema, if it is ours and the user may call it. Citus sends the call as
 * text, and a worker chooses among functions of this name the one whose types fit best. So if
 * others have made a function of this name there, we call none.
 */
static Oid
FindHash(Oid schema, Oid filter)
{
	const Oid types[2] = {filter, ANYOID};
	Oid found = FindFunction("dedup_hash", 2, types, schema);

	if (OidIsValid(found) && IsOurFunction(found, dedup_hash, "dedup_hash") && MayCall(found) &&
		!IsOverloaded(found, schema))
		return found;
	return InvalidOid;
}

/* Finds the type dedup_filter in a schema. */
static Oid
FindFilterType(Oid schema)
{
	return GetSysCacheOid2(TYPENAMENSP, Anum_pg_type_oid, CStringGetDatum("dedup_filter"),
						   ObjectIdGetDatum(schema));
}

/* ---- changing ------------------------------------------------------------------- */

static void
SetArguments(Aggref *aggregate, Node *prototype, Oid filter, Node *hash)
{
	aggregate->args = NIL;
	aggregate->aggargtypes = NIL;
	if (prototype != NULL)
	{
		aggregate->args = list_make1(makeTargetEntry((Expr *) prototype, 1, NULL, false));
		aggregate->aggargtypes = list_make1_oid(filter);
	}
	aggregate->args =
		lappend(aggregate->args,
				makeTargetEntry((Expr *) hash, list_length(aggregate->args) + 1, NULL, false));
	aggregate->aggargtypes = lappend_oid(aggregate->aggargtypes, INT8OID);
	aggregate->aggtranstype = InvalidOid; /* the planner fills it in */
	aggregate->aggvariadic = false;
	aggregate->inputcollid = InvalidOid;
}

/* Changes an aggregate over keys, if it can be computed from hashes. */
static void
UseHashes(Aggref *aggregate)
{
	const Family *family = FindFamily(get_func_name(aggregate->aggfnoid), aggregate->aggfnoid);
	Oid schema = get_func_namespace(aggregate->aggfnoid);
	Oid filter = FindFilterType(schema);
	Node *prototype = NULL;
	List *columns = NIL;
	FuncExpr *hash;
	Oid hashed_oid;
	Oid hash_oid;
	ListCell *cell;

	/*
	 * family is NULL if the aggregate was changed already, as part of a tree that is in the
	 * statement twice
	 */
	if (family == NULL || !OidIsValid(filter) || aggregate->aggdistinct != NIL ||
		aggregate->aggorder != NIL || list_length(aggregate->args) >= FUNC_MAX_ARGS)
		return;
	foreach(cell, aggregate->args)
	{
		Node *argument = (Node *) lfirst_node(TargetEntry, cell)->expr;

		if (family->prototype && prototype == NULL)
			prototype = argument;
		else if (!MeansTheSame(exprType(argument)) ||
				 (family->counts && getBaseType(exprType(argument)) == filter))
			return;
		else
			columns = lappend(columns, argument);
	}
	if (prototype != NULL && (contain_mutable_functions(prototype) ||
							  checkExprHasSubLink(prototype) || contain_var_clause(prototype)))
		return;
	hashed_oid = FindHashed(aggregate->aggfnoid, *family, family->hashed_name, filter);
	hash_oid = FindHash(schema, filter);
	if (!OidIsValid(hashed_oid) || !OidIsValid(hash_oid) ||
		!IsDistributedExtension(getExtensionOfObject(ProcedureRelationId, hashed_oid)))
		return;

	columns = lcons(prototype != NULL ? copyObjectImpl(prototype)
									  : (void *) makeNullConst(filter, -1, InvalidOid),
					columns);
	hash = makeFuncExpr(hash_oid, INT8OID, columns, InvalidOid, aggregate->inputcollid,
						COERCE_EXPLICIT_CALL);
	hash->funcvariadic = aggregate->aggvariadic;
	aggregate->aggfnoid = hashed_oid;
	SetArguments(aggregate, prototype, filter, (Node *) hash);
}

/*
 * Changes Citus's aggregate for a worker if it computes one of our aggregates over hashes: into an
 * aggregate that the executor calls without looking functions up for each row. The result is the
 * same text.
 */
static void
UsePartial(Aggref *aggregate)
{
	Node *named =
		strip_implicit_coercions((Node *) linitial_node(TargetEntry, aggregate->args)->expr);
	Node *argument = (Node *) llast_node(TargetEntry, aggregate->args)->expr;
	Node *prototype = NULL;

	if (!IsA(named, Const) || ((Const *) named)->constisnull ||
		(((Const *) named)->consttype != OIDOID &&
		 ((Const *) named)->consttype != REGPROCEDUREOID) ||
		list_length(aggregate->args) != 2 || aggregate->aggtype != CSTRINGOID ||
		aggregate->aggdistinct != NIL || aggregate->aggorder != NIL)
		return;
	for (const Family &family : FAMILIES)
	{
		Oid hashed = DatumGetObjectId(((Const *) named)->constvalue);
		Oid filter;
		Oid partial;

		if (!HasTransition(hashed, family.hashed_transition))
			continue;
		filter = FindFilterType(get_func_namespace(hashed));
		partial = FindHashed(hashed, family, family.partial_name, filter);
		if (family.prototype)
		{
			RowExpr *row = (RowExpr *) argument;

			if (!IsA(row, RowExpr) || list_length(row->args) != 2)
				return;
			prototype = (Node *) linitial(row->args);
			argument = (Node *) lsecond(row->args);
		}
		if (!OidIsValid(partial) || exprType(argument) != INT8OID ||
			(prototype != NULL && exprType(prototype) != filter) || !MayCall(aggregate->aggfnoid))
			return;
		aggregate->aggfnoid = partial;
		SetArguments(aggregate, prototype, filter, argument);
		return;
	}
}

static PlannedStmt *
PlanForCitus(Query *query, const char *text, int cursor_options,
			 ParamListInfo parameters EXPLAIN_PARAMETER)
{
	Found found = {};
	bool distributed = false;
	PlannedStmt *statement;
	ListCell *cell;

	if (CitusIsLoaded())
	{
		(void) FindAggregates((Node *) query, &found);
		distributed = found.aggregates != NIL && ReachOf(query) == Reach::Distributed;
	}

	/* The planner may change the statement that it is given, so this is allowed here, too. */
	if (distributed)
		foreach(cell, found.aggregates)
			UseHashes(lfirst_node(Aggref, cell));
	foreach(cell, found.partial)
		UsePartial(lfirst_node(Aggref, cell));
	statement = previous_planner != NULL
					? previous_planner(query, text, cursor_options, parameters EXPLAIN)
					: standard_planner(query, text, cursor_options, parameters EXPLAIN);
	if (distributed || found.partial != NIL)
		statement->dependsOnRole = true; /* the plan depends on which functions the user may call */
	return statement;
}

void
InitCitus(void)
{
	previous_planner = planner_hook;
	planner_hook = PlanForCitus;
}
