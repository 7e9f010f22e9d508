/*
 * Finds the tables that a filter guards. A filter with an enabled guard is not restored, and the
 * filter of an exact guard keeps its keys. Only catalogs are read.
 */
#include "guard/inherit.hpp"
#include "pg/catalog.hpp"

extern "C" {
#include "access/genam.h"
#include "access/table.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/pg_class.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_trigger.h"
#include "commands/trigger.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
}

/*
 * Returns whether a trigger is the delete trigger of a guard that uses the filter. Every user can
 * make a trigger that names the filter, so this alone means nothing: the clause must be that of a
 * guard, and the owner of the guarded table must have the right to add keys. Partitions can have
 * other owners.
 */
static bool
IsGuardOf(HeapTuple tuple, TupleDesc desc, Oid filter)
{
	Form_pg_trigger trigger = (Form_pg_trigger) GETSTRUCT(tuple);
	GuardClause clause;

	return ReadDeleteTrigger(tuple, desc, &clause) && clause.filter == filter &&
		   TableOwnerMayAdd(GuardedTable(trigger->oid), filter);
}

bool
ReadDeleteTrigger(HeapTuple tuple, TupleDesc desc, GuardClause *clause)
{
	Form_pg_trigger trigger = (Form_pg_trigger) GETSTRUCT(tuple);
	Datum qual;
	bool isnull;

	if (!TRIGGER_FOR_ROW(trigger->tgtype) || !TRIGGER_FOR_BEFORE(trigger->tgtype) ||
		!TRIGGER_FOR_DELETE(trigger->tgtype) || !IsGuardTriggerFunction(trigger->tgfoid))
		return false;
	qual = heap_getattr(tuple, Anum_pg_trigger_tgqual, desc, &isnull);
	return !isnull && ReadGuardClause(TextDatumGetCString(qual), clause);
}

/* Returns the triggers that depend on a relation, in the order in which they were made. */
static List *
TriggersNaming(Oid relid)
{
	Relation depend = table_open(DependRelationId, AccessShareLock);
	ScanKeyData key[2];
	SysScanDesc scan;
	HeapTuple tuple;
	List *found = NIL;

	ScanKeyInit(&key[0], Anum_pg_depend_refclassid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(RelationRelationId));
	ScanKeyInit(&key[1], Anum_pg_depend_refobjid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(relid));
	scan = systable_beginscan(depend, DependReferenceIndexId, true, NULL, 2, key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_depend form = (Form_pg_depend) GETSTRUCT(tuple);

		if (form->classid == TriggerRelationId)
			found = lappend_oid(found, form->objid);
	}
	systable_endscan(scan);
	table_close(depend, AccessShareLock);
	/* The catalog's order changes when its dead rows are removed. Errors name the first tables. */
	list_sort(found, list_oid_cmp);
	return found;
}

/*
 * Runs visit(row of pg_trigger, its descriptor) over the triggers that depend on a relation, until
 * it returns true.
 */
template <typename Visit>
static void
VisitTriggersNaming(Oid relid, Visit visit)
{
	List *naming = TriggersNaming(relid);
	Relation triggers = table_open(TriggerRelationId, AccessShareLock);
	ListCell *cell;
	bool done = false;

	foreach(cell, naming)
	{
		ScanKeyData by_oid;
		SysScanDesc scan;
		HeapTuple tuple;

		ScanKeyInit(&by_oid, Anum_pg_trigger_oid, BTEqualStrategyNumber, F_OIDEQ,
					ObjectIdGetDatum(lfirst_oid(cell)));
		scan = systable_beginscan(triggers, TriggerOidIndexId, true, NULL, 1, &by_oid);
		tuple = systable_getnext(scan);
		if (HeapTupleIsValid(tuple))
			done = visit(tuple, RelationGetDescr(triggers));
		systable_endscan(scan);
		if (done)
			break;
	}
	table_close(triggers, AccessShareLock);
	list_free(naming);
}

/*
 * Runs visit(trigger) over the delete triggers of guards that use a filter, until it returns true.
 */
template <typename Visit>
static void
VisitGuardsOf(Oid filter, Visit visit)
{
	VisitTriggersNaming(filter, [&](HeapTuple tuple, TupleDesc desc) {
		return IsGuardOf(tuple, desc, filter) && visit((Form_pg_trigger) GETSTRUCT(tuple));
	});
}

Oid
TableOfSide(Oid side)
{
	Oid table = InvalidOid;

	/* Every user can name a table. It counts only if the guard could write there. */
	VisitTriggersNaming(side, [&](HeapTuple tuple, TupleDesc desc) {
		GuardClause clause;
		Oid guarded;

		if (!ReadDeleteTrigger(tuple, desc, &clause) || clause.side != side)
			return false;
		guarded = GuardedTable(((Form_pg_trigger) GETSTRUCT(tuple))->oid);
		if (OidIsValid(guarded) && TableOwnerMayAdd(guarded, side))
			table = guarded;
		return OidIsValid(table);
	});
	return table;
}

Oid
GuardedBy(Oid filter)
{
	Oid table = InvalidOid;

	VisitGuardsOf(filter, [&](Form_pg_trigger trigger) {
		/* In a session that applies changes, only triggers that fire there count. */
		if (trigger->tgenabled != TRIGGER_DISABLED &&
			(SessionReplicationRole != SESSION_REPLICATION_ROLE_REPLICA ||
			 trigger->tgenabled != TRIGGER_FIRES_ON_ORIGIN))
			table = trigger->tgrelid;
		return OidIsValid(table);
	});
	return table;
}

Oid
TableOfAnyGuard(Oid filter)
{
	Oid table = InvalidOid;

	VisitGuardsOf(filter, [&](Form_pg_trigger trigger) {
		table = GuardedTable(trigger->oid);
		return OidIsValid(table);
	});
	return table;
}

List *
TablesOfGuards(Oid filter)
{
	List *tables = NIL;

	VisitGuardsOf(filter, [&](Form_pg_trigger trigger) {
		const Oid table = GuardedTable(trigger->oid);

		if (OidIsValid(table))
			tables = list_append_unique_oid(tables, table);
		return false;
	});
	return tables;
}

bool
IsSharedFilter(Oid filter, Oid guarded)
{
	return list_difference_oid(TablesOfGuards(filter), list_make1_oid(guarded)) != NIL;
}

/* ---- exact guards ---------------------------------------------------------------- */

/* Reads the arguments of a trigger from pg_trigger, where they are strings one after the other. */
static List *
ReadTriggerArguments(HeapTuple tuple, TupleDesc desc)
{
	const int n = ((Form_pg_trigger) GETSTRUCT(tuple))->tgnargs;
	bool isnull;
	const Datum value = heap_getattr(tuple, Anum_pg_trigger_tgargs, desc, &isnull);
	const struct varlena *bytes = isnull ? NULL : PG_DETOAST_DATUM_PACKED(value);
	const char *at = isnull ? NULL : VARDATA_ANY(bytes);
	const char *end = isnull ? NULL : at + VARSIZE_ANY_EXHDR(bytes);
	List *arguments = NIL;

	for (int i = 0; i < n && at < end; i++)
	{
		const size_t length = strnlen(at, (size_t) (end - at));

		arguments = lappend(arguments, pnstrdup(at, length));
		at += length + 1;
	}
	return arguments;
}

/* Runs visit(row, descriptor) over the triggers of a table that call a guard's function. */
template <typename Visit>
static void
VisitTriggersOf(Oid table, Visit visit)
{
	Relation triggers = table_open(TriggerRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple tuple;

	ScanKeyInit(&key, Anum_pg_trigger_tgrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(table));
	scan = systable_beginscan(triggers, TriggerRelidNameIndexId, true, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		if (IsGuardTriggerFunction(((Form_pg_trigger) GETSTRUCT(tuple))->tgfoid))
			visit(tuple, RelationGetDescr(triggers));
	systable_endscan(scan);
	table_close(triggers, AccessShareLock);
}

/* Reads the options among the arguments of a write trigger; none if they are not valid. */
static GuardOptions
OptionsOf(const List *arguments)
{
	const char **words =
		(const char **) palloc(sizeof(char *) * (Size) (list_length(arguments) + 1));
	GuardOptions options = {};
	int n = 0;

	for (int i = 2; i < list_length(arguments); i++)
		words[n++] = (const char *) list_nth(arguments, i);
	if (ReadGuardOptions(words, n, &options) != NULL)
		options = {};
	return options;
}

GuardRows
ReadGuardRows(Oid table)
{
	GuardRows found = {};

	VisitTriggersOf(table, [&](HeapTuple tuple, TupleDesc desc) {
		Form_pg_trigger trigger = (Form_pg_trigger) GETSTRUCT(tuple);

		if (ReadDeleteTrigger(tuple, desc, &found.clause))
		{
			found.remove = trigger->oid;
			found.remove_enabled = trigger->tgenabled;
		}
		if (trigger->tgtype == (TRIGGER_TYPE_ROW | TRIGGER_TYPE_DELETE | TRIGGER_TYPE_UPDATE))
		{
			found.forget = trigger->oid;
			found.forget_enabled = trigger->tgenabled;
		}
		if (trigger->tgtype == TRIGGER_TYPE_TRUNCATE)
		{
			found.truncate = trigger->oid;
			found.truncate_enabled = trigger->tgenabled;
		}
		if (trigger->tgtype ==
			(TRIGGER_TYPE_ROW | TRIGGER_TYPE_BEFORE | TRIGGER_TYPE_INSERT | TRIGGER_TYPE_UPDATE))
		{
			List *arguments = ReadTriggerArguments(tuple, desc);

			found.write = trigger->oid;
			found.write_enabled = trigger->tgenabled;
			found.mode = arguments == NIL ? "" : (const char *) linitial(arguments);
			/* An additional trigger made by hand does not change the guard. */
			if (!found.options.exact)
				found.options = OptionsOf(arguments);
		}
	});
	ApplyOptions(found.options, &found.clause);
	return found;
}

bool
MayBeRebuilt(const GuardRows &rows)
{
	return rows.options.exact || rows.options.forget;
}

/* Runs visit(rows) over the exact guards, enabled or not, that use a filter. */
template <typename Visit>
static void
VisitExactGuardsOf(Oid filter, Visit visit)
{
	VisitGuardsOf(filter, [&](Form_pg_trigger trigger) {
		const GuardRows rows = ReadGuardRows(trigger->tgrelid);

		return rows.options.exact && visit(trigger, rows);
	});
}

Oid
ExactlyGuardedBy(Oid filter)
{
	Oid table = InvalidOid;

	VisitExactGuardsOf(filter, [&](Form_pg_trigger trigger, const GuardRows &rows) {
		if (rows.write_enabled != TRIGGER_DISABLED)
			table = GuardedTable(trigger->oid);
		return OidIsValid(table);
	});
	return table;
}

List *
TablesOfExactGuard(Oid filter, Oid *guarded)
{
	List *tables = NIL;

	/* The triggers that partitions have from a table above do not depend on the filter. */
	VisitExactGuardsOf(filter, [&](Form_pg_trigger trigger, const GuardRows &) {
		const Oid table = trigger->tgrelid;

		tables = list_concat_unique_oid(tables, find_all_inheritors(table, NoLock, NULL));
		*guarded = GuardedTable(trigger->oid);
		return false;
	});
	return tables;
}

/* A filter and the table that it guards, for which the last search found no other exact guard. */
static Oid only_filter = InvalidOid;
static Oid only_guarded = InvalidOid;

static void
ForgetOnlyGuard(Oid table)
{
	if (!OidIsValid(table) || table == only_guarded)
		only_guarded = InvalidOid;
}

bool
IsExactElsewhere(Oid filter, Oid guarded)
{
	static bool watching = false;
	List *below = NIL;
	bool found = false;

	/* Each of the tables that inherit does this check itself. */
	if (only_guarded == guarded && only_filter == filter)
		return false;
	if (!watching)
		WatchRelations(ForgetOnlyGuard);
	watching = true;
	only_guarded = guarded;
	only_filter = filter;
	VisitTriggersNaming(filter, [&](HeapTuple tuple, TupleDesc desc) {
		const Form_pg_trigger trigger = (Form_pg_trigger) GETSTRUCT(tuple);
		const Oid table = trigger->tgrelid;

		/* There can be many tables that inherit. Their guards are clones, or find this one. */
		if (table != guarded && below == NIL)
			below = InheritorsOf(guarded, NULL);
		if (table == guarded || list_member_oid(below, table))
			return false;
		/* A user who may not add to the filter cannot decide who uses it. */
		found = IsGuardOf(tuple, desc, filter) && ReadGuardRows(table).options.exact &&
				GuardedTable(trigger->oid) != guarded;
		return found;
	});
	list_free(below);
	if (found)
		only_guarded = InvalidOid;
	return found;
}

Oid
TableOfExactGuard(Oid filter)
{
	Oid table = InvalidOid;
	Oid other = InvalidOid;

	VisitExactGuardsOf(filter, [&](Form_pg_trigger trigger, const GuardRows &) {
		const Oid guarded = GuardedTable(trigger->oid);

		if (!OidIsValid(table))
			table = guarded;
		else if (OidIsValid(guarded) && guarded != table)
			other = guarded;
		return OidIsValid(other);
	});
	if (OidIsValid(other))
		ereport(
			ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("live filter \"%s\" is used by the exact guards of tables \"%s\" and \"%s\"",
					get_rel_name(filter), get_rel_name(table), get_rel_name(other)),
			 errdetail("The filter of an exact guard has the keys of one table."),
			 errhint("Run dedup_unguard() for one of the tables.")));
	return table;
}

/*
 * Returns whether the exact guard of a table counts for what its filter covers. It counts even if
 * its owner may not add keys, unless another guard whose owner may do so relies on the filter.
 * Otherwise, rows that come while the guard is missing would be unknown when he may add keys again.
 */
static bool
CountsForFilter(Oid guarded, Oid filter)
{
	return TableOwnerMayAdd(guarded, filter) || !IsExactElsewhere(filter, guarded);
}

Oid
FilterOfExactGuard(Oid table)
{
	const GuardRows rows = ReadGuardRows(table);

	/* Without its other trigger it is not known what kind of guard it was. */
	return OidIsValid(rows.remove) && (rows.options.exact || !OidIsValid(rows.write)) &&
				   IsLiveRelationId(rows.clause.filter) &&
				   CountsForFilter(GuardedTable(rows.remove), rows.clause.filter)
			   ? rows.clause.filter
			   : InvalidOid;
}
