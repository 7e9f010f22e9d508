/*
 * Reads the catalogs of Citus, by their names: pg_dist_partition has a row for each distributed
 * table (reference tables and local tables that Citus manages included), and pg_dist_object one
 * for each object that Citus keeps on all nodes. Only superusers make tables in pg_catalog.
 */
#include "query/distinct/distributed.hpp"
#include "query/distinct/scope.hpp"

extern "C" {
#include "access/genam.h"
#include "access/skey.h"
#include "access/table.h"
#include "access/transam.h"
#include "catalog/pg_class.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_namespace.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
}

namespace
{

/* A catalog of Citus, and the one of its indexes that is used; InvalidOid if there is none. */
struct Catalog
{
	Oid table;
	Oid index;
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

/* Returns whether the catalog has a row whose columns of these names, of type oid, are so. */
static bool
HasRow(const Catalog &catalog, int columns, const char *const *names, const Oid *values)
{
	ScanKeyData keys[2];
	Relation rel;
	SysScanDesc scan;
	bool found;

	Assert(columns <= (int) lengthof(keys));
	for (int i = 0; i < columns; i++)
	{
		AttrNumber column = get_attnum(catalog.table, names[i]);

		if (column == InvalidAttrNumber)
			return false;
		ScanKeyInit(&keys[i], column, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(values[i]));
	}
	rel = table_open(catalog.table, AccessShareLock);
	scan = systable_beginscan(rel, catalog.index, OidIsValid(catalog.index), NULL, columns, keys);
	found = HeapTupleIsValid(systable_getnext(scan));
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return found;
}

bool
IsDistributedExtension(Oid extension)
{
	static const char *const NAMES[] = {"classid", "objid"};
	Oid values[] = {ExtensionRelationId, extension};
	Catalog catalog = FindCatalog("pg_dist_object", "pg_dist_object_pkey");

	return OidIsValid(catalog.table) && HasRow(catalog, lengthof(values), NAMES, values);
}

/* ---- statements --------------------------------------------------------------------- */

static bool SearchNode(Node *node, void *context);

static const Walker search_node = (Walker) (void (*)(void)) SearchNode;

static bool
IsDistributedTable(const Catalog &tables, Oid relation)
{
	static const char *const NAMES[] = {"logicalrelid"};

	return relation >= FirstNormalObjectId && HasRow(tables, 1, NAMES, &relation);
}

/* Ends the walk at the first distributed table. */
static bool
SearchNode(Node *node, void *context)
{
	ListCell *cell;

	if (node == NULL)
		return false;
	if (!IsA(node, Query))
		return expression_tree_walker(node, search_node, context);
	foreach(cell, ((Query *) node)->rtable)
	{
		const RangeTblEntry *entry = lfirst_node(RangeTblEntry, cell);

		if (entry->rtekind == RTE_RELATION &&
			IsDistributedTable(*(const Catalog *) context, entry->relid))
			return true;
	}
	return query_tree_walker((Query *) node, search_node, context, 0);
}

bool
IsDistributedStatement(Query *query)
{
	Catalog tables = FindCatalog("pg_dist_partition", "pg_dist_partition_logical_relid_index");

	return OidIsValid(tables.table) && SearchNode((Node *) query, &tables);
}

/* ---- plans -------------------------------------------------------------------------- */

/* States travel as cstring, which no column of a table can be. */
static bool
ReadsStates(const Plan *plan)
{
	ListCell *cell;

	check_stack_depth();
	if (plan == NULL)
		return false;
	if (IsA(plan, CustomScan))
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
