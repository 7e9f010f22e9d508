/* Reads the keys of rows; see table_keys.hpp. */
#include "guard/table_keys.hpp"
#include "guard/search.hpp"

extern "C" {
#include "access/heapam.h"
#include "access/table.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "storage/bufmgr.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
}

List *
CoveredTables(Relation rel)
{
	List *leaves = LeavesOf(RelationGetRelid(rel));
	List *covered = NIL;

	for (int i = list_length(leaves) - 1; i >= 0; i--)
	{
		Relation table = table_open(list_nth_oid(leaves, i), NoLock);

		if (table->rd_rel->relkind == RELKIND_RELATION && table->rd_rel->relam == HEAP_TABLE_AM_OID)
			covered = lappend_oid(covered, RelationGetRelid(table));
		table_close(table, NoLock);
	}
	list_free(leaves);
	return covered;
}

int64
BlocksOfTables(const List *tables)
{
	ListCell *cell;
	int64 blocks = 0;

	foreach(cell, tables)
	{
		Relation table = table_open(lfirst_oid(cell), NoLock);

		blocks += RelationGetNumberOfBlocks(table);
		table_close(table, NoLock);
	}
	return blocks;
}

AsOwner
BecomeOwner(Relation table)
{
	AsOwner before;

	GetUserIdAndSecContext(&before.user, &before.security);
	SetUserIdAndSecContext(table->rd_rel->relowner,
						   before.security | SECURITY_RESTRICTED_OPERATION);
	before.nest_level = NewGUCNestLevel();
	RestrictSearchPath();
	return before;
}

void
BecomeAgain(const AsOwner &before)
{
	AtEOXact_GUC(false, before.nest_level);
	SetUserIdAndSecContext(before.user, before.security);
}

TableKeys
TableKeysOf(Relation rel, const GuardClause &clause, const LiveFilter &filter)
{
	TableKeys keys = {};

	keys.from = rel;
	keys.clause = clause;
	keys.plan =
		MakeColumnsKeyPlan(CurrentMemoryContext, clause.columns, clause.types, clause.collations);
	keys.seed = filter.key_seed();
	keys.ttl = clause.at != NULL ? filter.parameters.ttl : 0;
	keys.row_context = AllocSetContextCreateInternal(CurrentMemoryContext, "dedup_guard row",
													 ALLOCSET_DEFAULT_SIZES);
	return keys;
}

void
OpenKeyTable(const TableKeys &keys, Oid table, KeyScan *scan)
{
	AsOwner before;

	*scan = {};
	scan->table = table_open(table, NoLock);
	scan->clause = (GuardClause *) palloc(sizeof(GuardClause));
	if (!MapGuardClause(keys.clause, keys.from, scan->table, scan->clause))
		elog(ERROR, "table \"%s\" does not have the columns of the guard",
			 RelationGetRelationName(scan->table));
	/* This calls functions of constants, so it runs with the owner's rights. */
	before = BecomeOwner(scan->table);
	MakeKeyReader(&scan->reader, scan->clause);
	BecomeAgain(before);
}

KeyScan
StartKeyScan(const TableKeys &keys, Oid table, Snapshot snapshot)
{
	KeyScan scan;

	OpenKeyTable(keys, table, &scan);
	scan.owner = BecomeOwner(scan.table);
	scan.slot = table_slot_create(scan.table, NULL);
	/* The scan starts at the first page, so that the number of pages read is known. */
	scan.scan = table_beginscan_strat(scan.table, snapshot, 0, NULL, true, false);
	return scan;
}

void
EndKeyScan(const KeyScan &scan)
{
	BecomeAgain(scan.owner);
	table_endscan(scan.scan);
	ExecDropSingleTupleTableSlot(scan.slot);
	table_close(scan.table, NoLock);
}
