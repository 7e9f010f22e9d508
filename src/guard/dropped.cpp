/*
 * A trigger or the index of an exact guard is dropped by hand, not by dedup_unguard(), or CREATE
 * OR REPLACE TRIGGER makes it another one. Rows that come before somebody makes it again would
 * be unknown to the filter, or have other keys, so it does not cover its table from then on.
 *
 * A partition is dropped whose rows would have freed their keys one by one: a NOTICE says that
 * the filter keeps them.
 *
 * The extension's event trigger calls us before such a command, so that this also holds in a
 * session that has not loaded the library. It loads the library before DROP SCHEMA, DROP OWNED
 * and ALTER TABLE, too, for which the hook of left.cpp is enough, but for NO INHERIT.
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

/* The relation that a list of names is, without its last `without` names; or InvalidOid. */
static Oid
RelationOfNames(List *names, int without)
{
	List *own = list_truncate(list_copy(names), list_length(names) - without);

	return own == NIL ? InvalidOid : RangeVarGetRelid(makeRangeVarFromNameList(own), NoLock, true);
}

/* The table whose guard a trigger is part of, or InvalidOid. */
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

/* The table whose guard index an index is, or InvalidOid. */
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

/* Whether the user may drop a relation or its index: he owns it, or the schema it is in. */
static bool
MayDrop(Oid relid)
{
	const Oid schema = get_rel_namespace(relid);

	if (OwnsTable(relid))
		return true;
	return OidIsValid(schema) && OWNS_SCHEMA(schema, GetUserId());
}

/* Whether a table and its partitions have no rows, nor had any when they were vacuumed last. */
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

/* Takes the filter's coverage away, in the order of locks that the command itself has. */
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

/* Whether one of the tables above a table is among the objects that are dropped. */
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

/* A partition, or a table that inherits, is about to be dropped. */
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

/* A trigger is about to be made, perhaps in place of one that is there. */
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
 * A table is perhaps about to cease to inherit from a guarded table. Afterwards a guard that
 * frees keys would be incomplete without its parent's.
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
 * dedup_guard_dropped() returns event_trigger: at the start of DROP TRIGGER, DROP INDEX, DROP
 * TABLE, DROP SCHEMA, DROP OWNED, CREATE TRIGGER and ALTER TABLE
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
