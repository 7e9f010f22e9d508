/* Finds out which tables inherit from which, and whose guard is a clone; see inherit.hpp. */
#include "guard/inherit.hpp"

extern "C" {
#include "access/attmap.h"
#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/indexing.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_trigger.h"
#include "commands/trigger.h"
#include "rewrite/prs2lock.h"
#include "rewrite/rewriteManip.h"
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
	/* Tables with several parents are in the list twice. */
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

/* The properties that two guards must share so that one is a clone of the other. */
struct GuardSignature
{
	Oid write; /* functions; InvalidOid: the trigger is missing */
	Oid remove;
	Datum arguments; /* of the write trigger, from pg_trigger: mode, name, options */
	GuardClause clause;
};

} /* namespace */

/* Reads the signature of a guard. Returns false if a trigger that every guard has is missing. */
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

/* Finds the columns of a table with the names of those that another table's clause uses. */
static AttrMap *
MapColumns(const GuardClause &clause, Oid from, Oid to)
{
	AttrMap *map = make_attrmap(MaxHeapAttributeNumber);
	const auto add = [&](AttrNumber attnum) {
		const char *name = get_attname(from, attnum, true);

		map->attnums[attnum - 1] = name == NULL ? (AttrNumber) 0 : get_attnum(to, name);
	};

	for (int i = 0; i < clause.used_count; i++)
		add(clause.used[i]);
	if (clause.mark != 0)
		add(clause.mark);
	return map;
}

static bool
SameExpression(const Expr *one, const Expr *other, const AttrMap *map)
{
	bool whole_row;

	if (one == NULL || other == NULL)
		return one == other;
	return equal(one, map_variable_attnos((Node *) const_cast<Expr *>(other), PRS2_OLD_VARNO, 0,
										  map, InvalidOid, &whole_row));
}

static bool
SameColumn(AttrNumber one, AttrNumber other, const AttrMap *map)
{
	return other == 0 ? one == 0 : one == map->attnums[other - 1];
}

/*
 * Returns whether one clause is the same as the other for another table, by the names of columns.
 */
static bool
SameClause(const GuardClause &one, const GuardClause &other, const AttrMap *map)
{
	if (one.filter != other.filter || one.side != other.side || one.columns != other.columns ||
		!SameColumn(one.mark, other.mark, map) || !SameExpression(one.where, other.where, map) ||
		!SameExpression(one.at, other.at, map))
		return false;
	for (int i = 0; i < one.columns; i++)
		if (!SameColumn(one.attnums[i], other.attnums[i], map) ||
			!SameExpression(one.expressions[i], other.expressions[i], map))
			return false;
	return true;
}

static bool
SameSignature(Oid table, const GuardSignature &one, Oid other, const GuardSignature &two)
{
	AttrMap *map;
	bool same;

	if (one.write != two.write || one.clause.filter != two.clause.filter ||
		!datumIsEqual(one.arguments, two.arguments, false, -1))
		return false;
	map = MapColumns(two.clause, other, table);
	for (int i = 0; i < two.clause.used_count; i++)
		if (map->attnums[two.clause.used[i] - 1] == 0)
			return false;
	same = SameClause(one.clause, two.clause, map);
	free_attrmap(map);
	return same;
}

bool
HasGuardOf(Oid table, Oid other)
{
	GuardSignature one;
	GuardSignature two;

	return ReadSignature(table, &one) && ReadSignature(other, &two) &&
		   SameSignature(table, one, other, two);
}

bool
InheritsGuard(Oid table)
{
	List *parents = ParentsOf(table);
	ListCell *cell;

	foreach(cell, parents)
		if (OidIsValid(ReadGuardRows(lfirst_oid(cell)).remove))
			return true;
	return false;
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
