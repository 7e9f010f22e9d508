/*
 * Which tables inherit from which, and whose guard is a clone: see inherit.hpp.
 */
#include "guard/inherit.hpp"

extern "C" {
#include "access/genam.h"
#include "access/table.h"
#include "catalog/indexing.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_trigger.h"
#include "commands/trigger.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
}

/* ---- pg_inherits --------------------------------------------------------------------- */

List *
ParentsOf(Oid table)
{
	Relation catalog;
	List *parents = NIL;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple tuple;

	if (get_rel_relispartition(table))
		return NIL;
	catalog = table_open(InheritsRelationId, AccessShareLock);
	ScanKeyInit(&key, Anum_pg_inherits_inhrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(table));
	scan = systable_beginscan(catalog, InheritsRelidSeqnoIndexId, true, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		parents = lappend_oid(parents, ((Form_pg_inherits) GETSTRUCT(tuple))->inhparent);
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return parents;
}

List *
InheritorsOf(Oid table, Snapshot snapshot)
{
	Relation catalog = table_open(InheritsRelationId, AccessShareLock);
	List *found = list_make1_oid(table);

	/* The list grows while it is read. */
	for (int i = 0; i < list_length(found); i++)
	{
		ScanKeyData key;
		SysScanDesc scan;
		HeapTuple tuple;

		ScanKeyInit(&key, Anum_pg_inherits_inhparent, BTEqualStrategyNumber, F_OIDEQ,
					ObjectIdGetDatum(list_nth_oid(found, i)));
		scan = systable_beginscan(catalog, InheritsParentIndexId, true, snapshot, 1, &key);
		while (HeapTupleIsValid(tuple = systable_getnext(scan)))
			found = lappend_oid(found, ((Form_pg_inherits) GETSTRUCT(tuple))->inhrelid);
		systable_endscan(scan);
	}
	table_close(catalog, AccessShareLock);
	found = list_delete_first(found);
	/* Tables with several parents come twice. */
	list_sort(found, list_oid_cmp);
	list_deduplicate_oid(found);
	for (int i = 0, j = list_length(found) - 1; i < j; i++, j--)
	{
		const Oid newer = list_nth_oid(found, j);

		lfirst_oid(list_nth_cell(found, j)) = list_nth_oid(found, i);
		lfirst_oid(list_nth_cell(found, i)) = newer;
	}
	return found;
}

bool
InheritsFrom(Oid table, Oid from)
{
	List *parents = ParentsOf(table);
	ListCell *cell;

	foreach(cell, parents)
		if (lfirst_oid(cell) == from || InheritsFrom(lfirst_oid(cell), from))
			return true;
	return false;
}

/* ---- clones -------------------------------------------------------------------------- */

namespace
{

/* What two guards must have in common for one to be a clone of the other. */
struct GuardSignature
{
	Oid write; /* functions; InvalidOid: the trigger is missing */
	Oid remove;
	Datum arguments; /* of the write trigger, as pg_trigger has them */
	GuardClause clause;
};

} /* namespace */

/* Reads the signature of a table's guard. Returns false if it does not have both triggers. */
static bool
ReadSignature(Oid table, GuardSignature *signature)
{
	Relation catalog = table_open(TriggerRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple tuple;

	*signature = {};
	ScanKeyInit(&key, Anum_pg_trigger_tgrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(table));
	scan = systable_beginscan(catalog, TriggerRelidNameIndexId, true, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_trigger trigger = (Form_pg_trigger) GETSTRUCT(tuple);
		bool isnull;

		if (ReadDeleteTrigger(tuple, RelationGetDescr(catalog), &signature->clause))
			signature->remove = trigger->tgfoid;
		else if (trigger->tgtype == (TRIGGER_TYPE_ROW | TRIGGER_TYPE_BEFORE | TRIGGER_TYPE_INSERT |
									 TRIGGER_TYPE_UPDATE) &&
				 IsGuardTriggerFunction(trigger->tgfoid))
		{
			const Datum arguments =
				heap_getattr(tuple, Anum_pg_trigger_tgargs, RelationGetDescr(catalog), &isnull);

			if (isnull)
				continue;
			signature->write = trigger->tgfoid;
			signature->arguments = PointerGetDatum(PG_DETOAST_DATUM_COPY(arguments));
		}
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return OidIsValid(signature->write) && signature->write == signature->remove;
}

static bool
SameColumn(Oid table, AttrNumber attnum, Oid other, AttrNumber other_attnum)
{
	const char *name = get_attname(table, attnum, true);
	const char *other_name = get_attname(other, other_attnum, true);

	return name != NULL && other_name != NULL && strcmp(name, other_name) == 0;
}

static bool
SameSignature(Oid table, const GuardSignature &one, Oid other, const GuardSignature &two)
{
	const GuardClause &a = one.clause;
	const GuardClause &b = two.clause;

	if (one.write != two.write || a.filter != b.filter || a.columns != b.columns ||
		(a.mark != 0) != (b.mark != 0) || !datumIsEqual(one.arguments, two.arguments, false, -1))
		return false;
	for (int i = 0; i < a.columns; i++)
		if (!SameColumn(table, a.attnums[i], other, b.attnums[i]))
			return false;
	return a.mark == 0 || SameColumn(table, a.mark, other, b.mark);
}

bool
HasGuardOf(Oid table, Oid other)
{
	GuardSignature one;
	GuardSignature two;

	return ReadSignature(table, &one) && ReadSignature(other, &two) &&
		   SameSignature(table, one, other, two);
}

Oid
ParentOfClone(Oid table)
{
	List *parents = ParentsOf(table);
	ListCell *cell;

	foreach(cell, parents)
		if (HasGuardOf(table, lfirst_oid(cell)))
			return lfirst_oid(cell);
	return InvalidOid;
}

Oid
UppermostGuarded(Oid table)
{
	for (;;)
	{
		const Oid parent = ParentOfClone(table);

		if (!OidIsValid(parent))
			return table;
		table = parent;
	}
}
