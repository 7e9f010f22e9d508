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
#include "catalog/pg_language.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"
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

/* ---- tables ------------------------------------------------------------------------- */

namespace
{

struct Search
{
	Catalog tables;
	Reach reach;
};

} /* namespace */

static bool
IsDistributedTable(const Search *search, Oid relation)
{
	static const char *const NAMES[] = {"logicalrelid"};

	return relation >= FirstNormalObjectId && HasRow(search->tables, 1, NAMES, &relation);
}

static bool
CallsSqlFunction(Node *node)
{
	HeapTuple tuple;
	bool result;

	if (node == NULL || !IsA(node, FuncExpr))
		return false;
	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(((FuncExpr *) node)->funcid));
	if (!HeapTupleIsValid(tuple))
		return false;
	result = ((Form_pg_proc) GETSTRUCT(tuple))->prolang == SQLlanguageId &&
			 ((Form_pg_proc) GETSTRUCT(tuple))->oid >= FirstNormalObjectId;
	ReleaseSysCache(tuple);
	return result;
}

static bool SearchNode(Node *node, void *context);

static const Walker search_node = (Walker) (void (*)(void)) SearchNode;

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
		ListCell *function;

		if (entry->rtekind == RTE_RELATION && IsDistributedTable(search, entry->relid))
		{
			search->reach = Reach::Distributed;
			return true;
		}
		if (entry->rtekind == RTE_FUNCTION)
			foreach(function, entry->functions)
				if (CallsSqlFunction(lfirst_node(RangeTblFunction, function)->funcexpr))
					search->reach = Reach::Unknown;
	}
	return query_tree_walker((Query *) node, search_node, context, 0);
}

Reach
ReachOf(Query *query)
{
	Search search;

	search.tables = FindCatalog("pg_dist_partition", "pg_dist_partition_logical_relid_index");
	search.reach = Reach::Local;
	if (OidIsValid(search.tables.table))
		(void) SearchNode((Node *) query, &search);
	return search.reach;
}
