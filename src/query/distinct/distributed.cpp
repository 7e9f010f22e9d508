/*
 * Reads the catalogs of Citus by their names. pg_dist_partition has a row for each distributed
 * table (including reference tables and local tables that Citus manages), pg_dist_shard has one for
 * each shard, and pg_dist_object has one for each object that Citus keeps on all nodes. Only
 * superusers can create tables in pg_catalog.
 */
#include "query/distinct/distributed.hpp"
#include "pg/walker.hpp"

extern "C" {
#include "access/genam.h"
#include "access/skey.h"
#include "access/table.h"
#include "access/transam.h"
#include "catalog/pg_class.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_namespace.h"
#include "nodes/extensible.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
}

namespace
{

/*
 * A catalog of Citus and the index that is used. Both are InvalidOid if the catalog does not exist.
 */
struct Catalog
{
	Oid table;
	Oid index;
};

/* A condition on a column of a catalog. */
struct Condition
{
	const char *column;
	RegProcedure equal;
	Datum value;
};

} /* namespace */

static Catalog
FindCatalog(const char *table, const char *index)
{
	Catalog catalog;

	catalog.table = get_relname_relid(table, PG_CATALOG_NAMESPACE);
	catalog.index = InvalidOid;
	if (OidIsValid(catalog.table))
	{
		if (get_rel_relkind(catalog.table) != RELKIND_RELATION)
			catalog.table = InvalidOid;
		else
			catalog.index = get_relname_relid(index, PG_CATALOG_NAMESPACE);
	}
	return catalog;
}

static bool
HasRow(const Catalog &catalog, int conditions, const Condition *condition)
{
	ScanKeyData keys[2];
	Relation rel;
	SysScanDesc scan;
	bool found;

	Assert(conditions <= (int) lengthof(keys));
	if (!OidIsValid(catalog.table))
		return false;
	for (int i = 0; i < conditions; i++)
	{
		AttrNumber column = get_attnum(catalog.table, condition[i].column);

		if (column == InvalidAttrNumber)
			return false;
		ScanKeyInit(&keys[i], column, BTEqualStrategyNumber, condition[i].equal,
					condition[i].value);
	}
	rel = table_open(catalog.table, AccessShareLock);
	scan =
		systable_beginscan(rel, catalog.index, OidIsValid(catalog.index), NULL, conditions, keys);
	found = HeapTupleIsValid(systable_getnext(scan));
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return found;
}

bool
CitusIsLoaded(void)
{
	const char *value = GetConfigOption("citus.coordinator_aggregation_strategy", true, false);

	/* Without Citus, one that was set and reset is empty on some servers. */
	return value != NULL && value[0] != '\0';
}

bool
IsDistributedExtension(Oid extension)
{
	const Condition conditions[] = {
		{"classid", F_OIDEQ, ObjectIdGetDatum(ExtensionRelationId)},
		{"objid", F_OIDEQ, ObjectIdGetDatum(extension)},
	};

	return HasRow(FindCatalog("pg_dist_object", "pg_dist_object_pkey"), lengthof(conditions),
				  conditions);
}

/* ---- statements --------------------------------------------------------------------- */

namespace
{

struct Search
{
	Catalog tables;
	Catalog shards;
	Reach reach; /* so far */
};

} /* namespace */

static bool
IsDistributedTable(const Search *search, Oid relation)
{
	const Condition condition = {"logicalrelid", F_OIDEQ, ObjectIdGetDatum(relation)};

	return relation >= FirstNormalObjectId && HasRow(search->tables, 1, &condition);
}

/*
 * Returns whether the relation's name ends in an underscore and the number of a shard. An unrelated
 * table may have such a name; it is then treated as a shard, which is exact.
 */
static bool
IsShard(const Search *search, Oid relation)
{
	char *name = relation >= FirstNormalObjectId ? get_rel_name(relation) : NULL;
	const char *digits = name == NULL ? NULL : strrchr(name, '_');
	uint64 shard;
	char *end;
	Condition condition = {"shardid", F_INT8EQ, (Datum) 0};

	if (digits == NULL || digits[1] < '0' || digits[1] > '9')
		return false;
	shard = strtoull(digits + 1, &end, 10);
	condition.value = Int64GetDatum((int64) shard);
	return *end == '\0' && HasRow(search->shards, 1, &condition);
}

static bool
IsIntermediateResult(Node *node)
{
	Oid function = node != NULL && IsA(node, FuncExpr) ? ((FuncExpr *) node)->funcid : InvalidOid;
	const char *name;

	if (function < FirstNormalObjectId || get_func_namespace(function) != PG_CATALOG_NAMESPACE)
		return false;
	name = get_func_name(function);
	return name != NULL && (strcmp(name, "read_intermediate_result") == 0 ||
							strcmp(name, "read_intermediate_results") == 0);
}

static bool SearchNode(Node *node, void *context);

static const Walker search_node = AsWalker(SearchNode);

static bool
IsPart(const Search *search, const RangeTblEntry *entry)
{
	ListCell *cell;

	if (entry->rtekind == RTE_RELATION)
		return IsShard(search, entry->relid);
	if (entry->rtekind == RTE_FUNCTION)
		foreach(cell, entry->functions)
			if (IsIntermediateResult(lfirst_node(RangeTblFunction, cell)->funcexpr))
				return true;
	return false;
}

/* Ends the walk at the first distributed table. */
static bool
SearchNode(Node *node, void *context)
{
	Search *search = (Search *) context;
	ListCell *cell;

	if (node == NULL)
		return false;
	if (!IsA(node, Query))
		return expression_tree_walker(node, search_node, context);
	foreach(cell, ((Query *) node)->rtable)
	{
		const RangeTblEntry *entry = lfirst_node(RangeTblEntry, cell);

		if (entry->rtekind == RTE_RELATION && IsDistributedTable(search, entry->relid))
		{
			search->reach = Reach::Distributed;
			return true;
		}
		if (search->reach == Reach::Local && IsPart(search, entry))
			search->reach = Reach::Part;
	}
	return query_tree_walker((Query *) node, search_node, context, 0);
}

Reach
ReachOf(Query *query)
{
	Search search;

	search.reach = Reach::Local;
	search.tables = FindCatalog("pg_dist_partition", "pg_dist_partition_logical_relid_index");
	if (OidIsValid(search.tables.table))
	{
		search.shards = FindCatalog("pg_dist_shard", "pg_dist_shard_shardid_index");
		(void) SearchNode((Node *) query, &search);
	}
	return search.reach;
}

/* ---- plans -------------------------------------------------------------------------- */

/* Returns whether the plan reads a column of type cstring: states are sent as cstring. */
static bool
ReadsStates(const Plan *plan)
{
	ListCell *cell;

	check_stack_depth();
	if (plan == NULL)
		return false;
	if (IsA(plan, CustomScan) &&
		strncmp(((const CustomScan *) plan)->methods->CustomName, "Citus", strlen("Citus")) == 0)
		foreach(cell, ((const CustomScan *) plan)->custom_scan_tlist)
			if (exprType((Node *) lfirst_node(TargetEntry, cell)->expr) == CSTRINGOID)
				return true;
	if (IsA(plan, SubqueryScan) && ReadsStates(((const SubqueryScan *) plan)->subplan))
		return true;
	if (IsA(plan, Append))
		foreach(cell, ((const Append *) plan)->appendplans)
			if (ReadsStates((const Plan *) lfirst(cell)))
				return true;
	return ReadsStates(plan->lefttree) || ReadsStates(plan->righttree);
}

bool
HasSplitAggregates(const PlannedStmt *statement)
{
	ListCell *cell;

	foreach(cell, statement->subplans)
		if (ReadsStates((const Plan *) lfirst(cell)))
			return true;
	return ReadsStates(statement->planTree);
}
