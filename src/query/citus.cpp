/*
 * Aggregates over tables that Citus distributes: changing them before Citus plans.
 */
#include "query/citus.hpp"

#include "pg/catalog.hpp"
#include "pg/walker.hpp"

extern "C" {
#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/transam.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "nodes/makefuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/planner.h"
#include "rewrite/rewriteManip.h"
#include "utils/acl.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
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
Datum dedup_key_hash(PG_FUNCTION_ARGS);
#pragma GCC visibility pop
}

static planner_hook_type previous_planner = NULL;

/* A setting of Citus. It exists in sessions that have loaded Citus. */
static const char *const CITUS_SETTING = "citus.coordinator_aggregation_strategy";

namespace
{

/* A function of ours: its address and the symbol that pg_proc names. */
struct OurFunction
{
	PGFunction address;
	const char *symbol;
};

/* An aggregate over keys, and the one that takes their hashes. */
struct Pair
{
	const char *name;
	OurFunction transition;
	const char *hashed_name;
	OurFunction hashed_transition;
	bool prototype; /* the first argument is one */
	bool counts;
};

#define OUR_FUNCTION(name)                                                                         \
	{                                                                                              \
		name, #name                                                                                \
	}

const Pair PAIRS[] = {
	{"dedup_agg", OUR_FUNCTION(dedup_agg_internal_trans), "dedup_agg_hashes",
	 OUR_FUNCTION(dedup_agg_hashes_trans), false, false},
	{"dedup_agg", OUR_FUNCTION(dedup_agg_internal_prototype_trans), "dedup_agg_hashes",
	 OUR_FUNCTION(dedup_agg_hashes_prototype_trans), true, false},
	{"approx_count_distinct", OUR_FUNCTION(approx_count_distinct_internal_trans),
	 "approx_count_distinct_hashes", OUR_FUNCTION(approx_count_distinct_hashes_trans), false, true},
};

/* What a statement has of what matters here. */
struct Found
{
	List *aggregates; /* Aggrefs of ours */
	bool distributed; /* a table that Citus knows is read */
};

} /* namespace */

/* ---- finding ------------------------------------------------------------------- */

/* The row of pg_aggregate, which the caller copies; false if there is none. */
static bool
ReadAggregate(Oid aggregate, FormData_pg_aggregate *form)
{
	HeapTuple tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(aggregate));

	if (!HeapTupleIsValid(tuple))
		return false;
	*form = *(Form_pg_aggregate) GETSTRUCT(tuple);
	ReleaseSysCache(tuple);
	return true;
}

static bool
HasTransition(Oid aggregate, const OurFunction &transition)
{
	FormData_pg_aggregate form;

	return ReadAggregate(aggregate, &form) &&
		   IsOurFunction(form.aggtransfn, transition.address, transition.symbol);
}

static const Pair *
FindPair(Oid aggregate)
{
	const char *name;

	if (aggregate < FirstNormalObjectId || (name = get_func_name(aggregate)) == NULL)
		return NULL;
	for (const Pair &pair : PAIRS)
		if (strcmp(name, pair.name) == 0 && HasTransition(aggregate, pair.transition))
			return &pair;
	return NULL;
}

/* Returns whether Citus knows the table: pg_dist_partition has it. */
static bool
IsKnownToCitus(Oid table)
{
	Oid catalog = get_relname_relid("pg_dist_partition", PG_CATALOG_NAMESPACE);
	Oid index = get_relname_relid("pg_dist_partition_logical_relid_index", PG_CATALOG_NAMESPACE);
	AttrNumber column;
	ScanKeyData key;
	SysScanDesc scan;
	Relation rel;
	bool found;

	if (!OidIsValid(catalog))
		return false;
	column = get_attnum(catalog, "logicalrelid");
	if (column == InvalidAttrNumber)
		return false;
	rel = table_open(catalog, AccessShareLock);
	ScanKeyInit(&key, column, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(table));
	scan = systable_beginscan(rel, index, OidIsValid(index), NULL, 1, &key);
	found = HeapTupleIsValid(systable_getnext(scan));
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return found;
}

/* Notes the aggregates of a statement; does not look at its tables. */
static bool
FindAggregates(Node *node, void *context)
{
	Found *found = (Found *) context;

	if (node == NULL)
		return false;
	if (IsA(node, Aggref) && FindPair(((Aggref *) node)->aggfnoid) != NULL)
		found->aggregates = lappend(found->aggregates, node);
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, AsWalker(FindAggregates), context, 0);
	return expression_tree_walker(node, AsWalker(FindAggregates), context);
}

/* Notes whether a statement reads a table that Citus knows. */
static bool
FindTables(Node *node, void *context)
{
	Found *found = (Found *) context;
	ListCell *cell;

	if (node == NULL)
		return false;
	if (!IsA(node, Query))
		return expression_tree_walker(node, AsWalker(FindTables), context);
	foreach(cell, ((Query *) node)->rtable)
	{
		const RangeTblEntry *entry = lfirst_node(RangeTblEntry, cell);

		if (entry->rtekind == RTE_RELATION && entry->relid >= FirstNormalObjectId &&
			IsKnownToCitus(entry->relid))
		{
			found->distributed = true;
			return true;
		}
	}
	return query_tree_walker((Query *) node, AsWalker(FindTables), context, 0);
}

/* ---- what can be changed -------------------------------------------------------- */

/*
 * Returns whether a value of the type means the same on every node: not if it holds the number of
 * something in the catalogs. Nobody knows what an anonymous record holds. But Citus cannot fetch
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
	switch (type)
	{
		case REGPROCOID:
		case REGPROCEDUREOID:
		case REGOPEROID:
		case REGOPERATOROID:
		case REGCLASSOID:
		case REGCOLLATIONOID:
		case REGTYPEOID:
		case REGROLEOID:
		case REGNAMESPACEOID:
		case REGCONFIGOID:
		case REGDICTIONARYOID:
		case ACLITEMOID:
			return false;
		default:
			break;
	}
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

static bool
MayCall(Oid function)
{
#if PG_VERSION_NUM >= 160000
	return object_aclcheck(ProcedureRelationId, function, GetUserId(), ACL_EXECUTE) == ACLCHECK_OK;
#else
	return pg_proc_aclcheck(function, GetUserId(), ACL_EXECUTE) == ACLCHECK_OK;
#endif
}

static Oid
FindFunction(const char *name, int nargs, const Oid *types, Oid schema)
{
	oidvector *arguments = buildoidvector(types, nargs);

	return GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid, CStringGetDatum(name),
						   PointerGetDatum(arguments), ObjectIdGetDatum(schema));
}

/*
 * Finds what replaces an aggregate: in its own schema, and only what is ours, since others may
 * make functions there. `filter` is the type dedup_filter.
 */
static bool
FindReplacement(const Aggref *aggregate, const Pair &pair, Oid *hashed, Oid *hash, Oid *filter)
{
	Oid schema = get_func_namespace(aggregate->aggfnoid);
	FormData_pg_aggregate form;
	Oid types[2] = {INT8OID, InvalidOid};

	if (pair.prototype)
	{
		types[0] = linitial_oid(aggregate->aggargtypes);
		types[1] = INT8OID;
	}
	*hashed = FindFunction(pair.hashed_name, pair.prototype ? 2 : 1, types, schema);
	if (!OidIsValid(*hashed) || !HasTransition(*hashed, pair.hashed_transition) ||
		!ReadAggregate(*hashed, &form))
		return false;
	*filter = form.aggtranstype;
	types[0] = *filter;
	types[1] = ANYOID;
	*hash = FindFunction("dedup_key_hash", 2, types, schema);
	return OidIsValid(*hash) && IsOurFunction(*hash, dedup_key_hash, "dedup_key_hash") &&
		   MayCall(aggregate->aggfnoid) && MayCall(*hashed) && MayCall(*hash);
}

/* ---- changing ------------------------------------------------------------------- */

/* Changes an aggregate, if it can be computed from hashes. */
static void
UseHashes(Aggref *aggregate)
{
	const Pair *pair = FindPair(aggregate->aggfnoid);
	Node *prototype = NULL;
	List *columns = NIL;
	FuncExpr *hash;
	Oid hashed_oid;
	Oid hash_oid;
	Oid filter;
	ListCell *cell;

	/* NULL: it was changed already, as part of a tree that is in the statement twice */
	if (pair == NULL || aggregate->aggdistinct != NIL || aggregate->aggorder != NIL ||
		list_length(aggregate->args) >= FUNC_MAX_ARGS)
		return;
	foreach(cell, aggregate->args)
	{
		Node *argument = (Node *) lfirst_node(TargetEntry, cell)->expr;

		if (pair->prototype && prototype == NULL)
			prototype = argument;
		else if (!MeansTheSame(exprType(argument)))
			return;
		else
			columns = lappend(columns, argument);
	}
	if (prototype != NULL &&
		(contain_volatile_functions(prototype) || checkExprHasSubLink(prototype) ||
		 contain_var_clause(prototype)))
		return;
	if (!FindReplacement(aggregate, *pair, &hashed_oid, &hash_oid, &filter) ||
		(pair->counts && getBaseType(exprType((Node *) linitial(columns))) == filter))
		return;

	columns = lcons(prototype != NULL ? copyObjectImpl(prototype)
									  : (void *) makeNullConst(filter, -1, InvalidOid),
					columns);
	hash = makeFuncExpr(hash_oid, INT8OID, columns, InvalidOid, aggregate->inputcollid,
						COERCE_EXPLICIT_CALL);
	hash->funcvariadic = aggregate->aggvariadic;

	aggregate->aggfnoid = hashed_oid;
	aggregate->aggtranstype = InvalidOid; /* the planner fills it in */
	aggregate->aggvariadic = false;
	aggregate->inputcollid = InvalidOid;
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
}

static PlannedStmt *
PlanForCitus(Query *query, const char *text, int cursor_options, ParamListInfo parameters)
{
	Found found = {};
	PlannedStmt *statement;

	if (GetConfigOption(CITUS_SETTING, true, false) != NULL)
	{
		(void) FindAggregates((Node *) query, &found);
		if (found.aggregates != NIL)
			(void) FindTables((Node *) query, &found);
	}
	if (found.distributed)
	{
		ListCell *cell;

		/* The planner may change what it is given, and so may we. */
		foreach(cell, found.aggregates)
			UseHashes(lfirst_node(Aggref, cell));
	}
	statement = previous_planner != NULL
					? previous_planner(query, text, cursor_options, parameters)
					: standard_planner(query, text, cursor_options, parameters);
	if (found.distributed)
		statement->dependsOnRole = true; /* on what the user may call */
	return statement;
}

void
InitCitus(void)
{
	previous_planner = planner_hook;
	planner_hook = PlanForCitus;
}
