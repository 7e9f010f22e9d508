/*
 * The event trigger for commands that damage a guard or drop a guarded table.
 *
 * A user can drop a trigger or the index of an exact guard without dedup_unguard(), or replace a
 * trigger by CREATE OR REPLACE TRIGGER. The filter then misses the keys of later rows, or gets
 * other keys. So the filter is marked as not covering its table.
 *
 * A user can drop a partition of a guard whose rows free their keys one by one. A NOTICE then
 * reports that the filter still has these keys.
 *
 * The event trigger also works in a session that has not loaded the library: the call loads it.
 * For DROP SCHEMA, DROP OWNED and ALTER TABLE the event trigger only loads the library, because
 * the hook of left.cpp does the work. The exception is ALTER TABLE ... NO INHERIT.
 */
#include "guard/inherit.hpp"
#include "guard/distributed.hpp"
#include "guard/request.hpp"
#include "guard/truncation.hpp"
#include "pg/catalog.hpp"

extern "C" {
#include "catalog/index.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_trigger.h"
#include "commands/defrem.h"
#include "commands/event_trigger.h"
#include "commands/trigger.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
}

/* Returns the relation with these names, without the last `without` of them, or InvalidOid. */
static Oid
RelationOfNames(List *names, int without)
{
	List *own = list_truncate(list_copy(names), list_length(names) - without);

	return own == NIL ? InvalidOid : RangeVarGetRelid(makeRangeVarFromNameList(own), NoLock, true);
}

/* Returns `table` if the trigger with this name is part of its guard, or InvalidOid. */
static Oid
TableOfTrigger(Oid table, const char *name)
{
	Oid trigger;
	HeapTuple tuple;
	bool ours = false;

	if (!OidIsValid(table))
		return InvalidOid;
	trigger = get_trigger_oid(table, name, true);
	tuple = OidIsValid(trigger)
				? ReadCatalog(TriggerRelationId, TriggerOidIndexId, Anum_pg_trigger_oid, trigger)
				: NULL;
	if (HeapTupleIsValid(tuple))
	{
		ours = IsGuardTriggerFunction(((Form_pg_trigger) GETSTRUCT(tuple))->tgfoid);
		heap_freetuple(tuple);
	}
	return ours ? table : InvalidOid;
}

/* Returns the table of a guard index, or InvalidOid if the index is not a guard index. */
static Oid
TableOfIndex(List *names)
{
	const Oid index = RelationOfNames(names, 0);
	HeapTuple tuple;
	bool ours;

	if (!OidIsValid(index))
		return InvalidOid;
	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(index));
	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	ours = ((Form_pg_class) GETSTRUCT(tuple))->relam == get_index_am_oid(GUARD_ACCESS_METHOD, true);
	ReleaseSysCache(tuple);
	return ours ? IndexGetRelation(index, true) : InvalidOid;
}

/* Returns whether the user may drop a relation or its index: owns the relation or its schema. */
static bool
MayDrop(Oid relid)
{
	const Oid schema = get_rel_namespace(relid);

	if (OwnsTable(relid))
		return true;
	return OidIsValid(schema) && OWNS_SCHEMA(schema, GetUserId());
}

/*
 * Returns whether the files of a table and its partitions are empty. A file with only deleted rows
 * is not empty before VACUUM truncates it.
 */
static bool
HasNoRows(Oid table)
{
	List *tables = find_all_inheritors(table, NoLock, NULL);
	bool none = true;
	ListCell *cell;

	foreach(cell, tables)
		none = none && HasNoBlocks(lfirst_oid(cell));
	list_free(tables);
	return none;
}

/*
 * Marks the filter of an exact guard as not covering its table. Locks the table first, as the
 * command itself does.
 */
static void
Uncover(Oid table, bool concurrently)
{
	Oid filter;
	LiveFilter live;

	if (!OidIsValid(table) || !OidIsValid(FilterOfExactGuard(table)))
		return;
	if (concurrently)
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("cannot drop the index of an exact guard concurrently"),
						errhint("Call dedup_unguard() for table \"%s\".", get_rel_name(table))));
	LockRelationOid(table, AccessExclusiveLock);
	filter = FilterOfExactGuard(table);
	if (!OidIsValid(filter))
		return;
	live = OpenLiveUnchecked(filter, ShareRowExclusiveLock);
	SetLiveCovers(live, false);
	CloseLive(live);
}

/* Returns whether the command also drops a table of which this table is a partition or a child. */
static bool
GoesWithParent(Oid table, const List *objects)
{
	bool goes = false;
	ListCell *cell;

	foreach(cell, objects)
	{
		const Oid other = RelationOfNames((List *) lfirst(cell), 0);

		goes = goes || (OidIsValid(other) && other != table &&
						(get_rel_relispartition(table)
							 ? list_member_oid(get_partition_ancestors(table), other)
							 : InheritsFrom(table, other)));
	}
	return goes;
}

/*
 * Called before a table is dropped. Raises the NOTICE if it is a partition or a child of a guarded
 * table.
 */
static void
NoticePartition(Oid table, const List *objects)
{
	GuardRows rows;

	if (!OidIsValid(table) || !MayDrop(table))
		return;
	rows = ReadGuardRows(table);
	if (!OidIsValid(rows.write) || !OidIsValid(rows.remove) || !rows.options.forget ||
		!IsLiveRelationId(rows.clause.filter) || GuardedTable(rows.remove) == table ||
		GoesWithParent(table, objects) || HasNoRows(table))
		return;
	NoticeKeptKeys(table, rows.clause.filter);
}

/* Called before CREATE TRIGGER, which may replace an existing trigger of a guard. */
static void
TriggerReplaced(const CreateTrigStmt *statement)
{
	Oid table;

	if (!REPLACES_TRIGGER(statement))
		return;
	table =
		TableOfTrigger(RangeVarGetRelid(statement->relation, NoLock, true), statement->trigname);
	if (OidIsValid(table) &&
		(OwnsTable(table) || pg_class_aclcheck(table, GetUserId(), ACL_TRIGGER) == ACLCHECK_OK))
		Uncover(table, false);
}

/*
 * Called before ALTER TABLE. If NO INHERIT may detach the table from a guarded parent, notes the
 * table and its children now. After the command a guard that frees keys is incomplete, because it
 * lacks the guard of the parent.
 */
static void
InheritanceEnds(const AlterTableStmt *statement)
{
	ListCell *cell;

	foreach(cell, statement->cmds)
	{
		const Oid table = RangeVarGetRelid(statement->relation, NoLock, true);
		ListCell *below;

		if (((const AlterTableCmd *) lfirst(cell))->subtype != AT_DropInherit ||
			!OidIsValid(table) || !OwnsTable(table))
			continue;
		foreach(below, find_all_inheritors(table, NoLock, NULL))
			GuardedTableLeaves(lfirst_oid(below));
	}
}

/*
 * dedup_guard_dropped() returns event_trigger
 *
 * Fires at the start of DROP TRIGGER, DROP INDEX, DROP TABLE, DROP SCHEMA, DROP OWNED, CREATE
 * TRIGGER and ALTER TABLE.
 */
DEDUP_FUNCTION(dedup_guard_dropped)
{
	const EventTriggerData *data = (const EventTriggerData *) fcinfo->context;
	const DropStmt *statement;
	ListCell *cell;

	if (!CALLED_AS_EVENT_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_EVENT_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function %s must be called as an event trigger", "dedup_guard_dropped")));
	if (data->parsetree != NULL && IsA(data->parsetree, CreateTrigStmt))
		TriggerReplaced((const CreateTrigStmt *) data->parsetree);
	if (data->parsetree != NULL && IsA(data->parsetree, AlterTableStmt))
		InheritanceEnds((const AlterTableStmt *) data->parsetree);
	statement = (const DropStmt *) data->parsetree;
	if (statement == NULL || !IsA(statement, DropStmt))
		PG_RETURN_NULL();
	foreach(cell, statement->objects)
	{
		List *names = (List *) lfirst(cell);

		if (names == NIL || !IsA(names, List))
			continue;
		if (statement->removeType == OBJECT_TRIGGER)
		{
			const char *trigger = strVal(llast(names));
			const Oid table = TableOfTrigger(RelationOfNames(names, 1), trigger);

			ShardTriggerDropped(RelationOfNames(names, 1), trigger);
			if (OidIsValid(table) && OwnsTable(table))
				Uncover(table, false);
		}
		else if (statement->removeType == OBJECT_INDEX)
		{
			const Oid table = TableOfIndex(names);

			if (OidIsValid(table) && MayDrop(table))
				Uncover(table, statement->concurrent);
		}
		else if (statement->removeType == OBJECT_TABLE)
			NoticePartition(RelationOfNames(names, 0), statement->objects);
	}
	PG_RETURN_NULL();
}
