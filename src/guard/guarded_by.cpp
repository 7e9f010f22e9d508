/*
 * Which table a filter guards: a filter with an enabled guard is not restored.
 */
#include "guard/guard.hpp"

extern "C" {
#include "access/genam.h"
#include "access/table.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/pg_class.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_trigger.h"
#include "commands/trigger.h"
#include "utils/fmgroids.h"
}

/*
 * Whether a trigger is the delete trigger of an enabled guard that uses the filter; in
 * a session that applies changes, one that fires there.
 * Anybody can make a trigger that names the filter, so that alone means nothing: the
 * clause must be a guard's, and the table's owner must have the right to add keys.
 */
static bool
IsGuardOf(HeapTuple tuple, TupleDesc desc, Oid filter)
{
	Form_pg_trigger trigger = (Form_pg_trigger) GETSTRUCT(tuple);
	GuardClause clause;
	Datum qual;
	bool isnull;

	if (trigger->tgenabled == TRIGGER_DISABLED ||
		(SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA &&
		 trigger->tgenabled == TRIGGER_FIRES_ON_ORIGIN) ||
		!TRIGGER_FOR_ROW(trigger->tgtype) || !TRIGGER_FOR_BEFORE(trigger->tgtype) ||
		!TRIGGER_FOR_DELETE(trigger->tgtype) || !IsGuardTriggerFunction(trigger->tgfoid))
		return false;
	qual = heap_getattr(tuple, Anum_pg_trigger_tgqual, desc, &isnull);
	return !isnull && ReadGuardClause(TextDatumGetCString(qual), &clause) &&
		   clause.filter == filter && TableOwnerMayAdd(trigger->tgrelid, filter);
}

Oid
GuardedBy(Oid filter)
{
	Relation depend = table_open(DependRelationId, AccessShareLock);
	Relation triggers = table_open(TriggerRelationId, AccessShareLock);
	ScanKeyData key[2];
	SysScanDesc scan;
	HeapTuple tuple;
	Oid table = InvalidOid;

	ScanKeyInit(&key[0], Anum_pg_depend_refclassid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(RelationRelationId));
	ScanKeyInit(&key[1], Anum_pg_depend_refobjid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(filter));
	scan = systable_beginscan(depend, DependReferenceIndexId, true, NULL, 2, key);
	while (!OidIsValid(table) && HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_depend form = (Form_pg_depend) GETSTRUCT(tuple);
		ScanKeyData by_oid;
		SysScanDesc trigger_scan;
		HeapTuple trigger_tuple;

		if (form->classid != TriggerRelationId)
			continue;
		ScanKeyInit(&by_oid, Anum_pg_trigger_oid, BTEqualStrategyNumber, F_OIDEQ,
					ObjectIdGetDatum(form->objid));
		trigger_scan = systable_beginscan(triggers, TriggerOidIndexId, true, NULL, 1, &by_oid);
		trigger_tuple = systable_getnext(trigger_scan);
		if (HeapTupleIsValid(trigger_tuple) &&
			IsGuardOf(trigger_tuple, RelationGetDescr(triggers), filter))
			table = ((Form_pg_trigger) GETSTRUCT(trigger_tuple))->tgrelid;
		systable_endscan(trigger_scan);
	}
	systable_endscan(scan);
	table_close(triggers, AccessShareLock);
	table_close(depend, AccessShareLock);
	return table;
}
