/*
 * The contents of the view dedup_guards. It reads catalogs without locking the objects that they
 * name. So it never waits, and an object that is dropped or altered meanwhile is shown in its old
 * or its new state.
 */
#include "guard/inherit.hpp"
#include "guard/divert.hpp"
#include "pg/catalog.hpp"
#include "pg/sets.hpp"

extern "C" {
#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/indexing.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_trigger.h"
#include "commands/defrem.h"
#include "commands/trigger.h"
#include "funcapi.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
}

/* The number of columns of the result of dedup_guard_state(). */
static constexpr int COLUMNS = 16;

/* ---- whether a table is guarded ------------------------------------------------------ */

static bool
HasUsableGuardIndex(Oid table, Oid access_method, const GuardRows &rows)
{
	Relation indexes = table_open(IndexRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple tuple;
	bool usable = false;

	ScanKeyInit(&key, Anum_pg_index_indrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(table));
	scan = systable_beginscan(indexes, IndexIndrelidIndexId, true, NULL, 1, &key);
	while (!usable && HeapTupleIsValid(tuple = systable_getnext(scan)))
		usable = IsUsableGuardIndex(((Form_pg_index) GETSTRUCT(tuple))->indexrelid, access_method,
									rows.clause, rows.options);
	systable_endscan(scan);
	table_close(indexes, AccessShareLock);
	return usable;
}

/* Returns whether a trigger fires for clients' statements. */
static bool
Fires(Oid trigger, char enabled)
{
	return OidIsValid(trigger) &&
		   (enabled == TRIGGER_FIRES_ON_ORIGIN || enabled == TRIGGER_FIRES_ALWAYS);
}

/* Returns why a table or partition is not guarded by a filter, or NULL if it is. */
static const char *
FlawOfTable(Oid table, Oid filter, Oid access_method)
{
	const GuardRows rows = ReadGuardRows(table);

	const bool forgets = OidIsValid(rows.write) && rows.options.forget;

	if (get_rel_relkind(table) == RELKIND_FOREIGN_TABLE)
		return "it is a foreign table";
	if (!OidIsValid(rows.write) || !OidIsValid(rows.remove) ||
		(forgets && !OidIsValid(rows.forget)))
		return "one of its triggers is missing";
	if (rows.clause.filter != filter)
		return "it is guarded by another filter";
	if (!Fires(rows.write, rows.write_enabled) || !Fires(rows.remove, rows.remove_enabled) ||
		(forgets && !Fires(rows.forget, rows.forget_enabled)))
		return "a trigger of it is disabled";
	if (get_rel_relkind(table) == RELKIND_RELATION &&
		!HasUsableGuardIndex(table, access_method, rows))
		return "it has no valid guard index";
	return NULL;
}

/*
 * Counts the tables below a table that can hold rows, at all levels: partitions, or tables that
 * inherit, and in that case the table itself.
 */
static void
CountPartitions(Oid table, Oid filter, Oid access_method, int *guarded, int *unguarded)
{
	List *tables = find_all_inheritors(table, NoLock, NULL);
	ListCell *cell;

	foreach(cell, tables)
	{
		const Oid partition = lfirst_oid(cell);
		const char kind = get_rel_relkind(partition);

		if (kind == RELKIND_PARTITIONED_TABLE || kind == '\0' || list_length(tables) == 1)
			continue;
		if (FlawOfTable(partition, filter, access_method) == NULL)
			(*guarded)++;
		else
			(*unguarded)++;
	}
}

/* ---- the row ---------------------------------------------------------------------------- */

/*
 * Returns whether expressions over a table can be shown. The server opens the table for that, which
 * must neither wait nor fail. The caller must release the lock.
 */
static bool
LockToShow(Oid table, const GuardClause &clause)
{
	if (!IsComputed(clause) || !ConditionalLockRelationOid(table, AccessShareLock))
		return false;
	if (get_rel_relkind(table) != '\0')
		return true;
	UnlockRelationOid(table, AccessShareLock);
	return false;
}

/* Shows a text. NULL is shown as NULL. */
static void
ShowText(const char *text, Datum *value, bool *isnull)
{
	*isnull = text == NULL;
	*value = text == NULL ? (Datum) 0 : CStringGetTextDatum(text);
}

/* Returns an expression as text, or NULL if it cannot be shown at the moment. */
static const char *
ShownExpression(Oid table, const Expr *expression, bool locked)
{
	return expression != NULL && locked ? ExpressionText(table, expression) : NULL;
}

/* Returns the elements of the key. A column that was dropped is NULL. */
static Datum
ColumnNames(Oid table, const GuardClause &clause, bool locked)
{
	Datum names[INDEX_MAX_KEYS];
	bool isnull[INDEX_MAX_KEYS] = {};
	int n = clause.columns;
	int from = 1;

	for (int i = 0; i < clause.columns; i++)
	{
		const char *name = clause.expressions[i] != NULL
							   ? ShownExpression(table, clause.expressions[i], locked)
							   : get_attname(table, clause.attnums[i], true);

		ShowText(name, &names[i], &isnull[i]);
	}
	return PointerGetDatum(
		construct_md_array(names, isnull, 1, &n, &from, TEXTOID, -1, false, TYPALIGN_INT));
}

/*
 * Returns the argument on_duplicate of dedup_guard(): mark with the name of its column, divert with
 * that of its table.
 */
static const char *
OnDuplicate(Oid table, const GuardRows &rows)
{
	const char *column = rows.clause.mark != 0 ? get_attname(table, rows.clause.mark, true) : NULL;

	if (strcmp(rows.mode, "divert") == 0 && OidIsValid(rows.clause.side))
		return psprintf("divert:%s",
						DatumGetCString(
							DirectFunctionCall1(regclassout, ObjectIdGetDatum(rows.clause.side))));
	return column != NULL && strcmp(rows.mode, "mark") == 0 ? psprintf("mark:%s", column)
															: rows.mode;
}

/*
 * Shows the arguments of dedup_guard() for the options behind exact. Returns the number of columns.
 */
static int
ShowOptions(Oid table, const GuardRows &rows, bool locked, Datum *values, bool *isnull)
{
	const GuardClause &clause = rows.clause;
	int n = 0;

	ShowText(ShownExpression(table, clause.where, locked), &values[n], &isnull[n]);
	n++;
	isnull[n] = false;
	values[n++] = BoolGetDatum(rows.options.nulls_not_distinct);
	ShowText(ShownExpression(table, clause.at, locked), &values[n], &isnull[n]);
	n++;
	ShowText(clause.at == NULL ? NULL : (rows.options.skip_too_old ? "skip" : "keep"), &values[n],
			 &isnull[n]);
	n++;
	ShowText(rows.options.exact ? NULL : (rows.options.forget ? "forget" : "keep"), &values[n],
			 &isnull[n]);
	n++;
	isnull[n] = !OidIsValid(clause.side);
	values[n++] = ObjectIdGetDatum(clause.side);
	return n;
}

/* Returns the first problem of a guard, or NULL. */
static const char *
FlawOfGuard(Oid table, const GuardRows &rows, Oid access_method, int unguarded, bool uncovered)
{
	const char *flaw = FlawOfTable(table, rows.clause.filter, access_method);

	if (flaw == NULL && rows.options.forget && !OidIsValid(rows.truncate))
		flaw = "one of its triggers is missing";
	if (flaw == NULL && rows.options.forget && !Fires(rows.truncate, rows.truncate_enabled))
		flaw = "a trigger of it is disabled";
	if (flaw == NULL && !IsLiveRelationId(rows.clause.filter))
		flaw = "what it names is not a live filter";
	if (flaw == NULL && !TableOwnerMayAdd(table, rows.clause.filter))
		flaw = "the owner of the table may not add keys to the filter";
	if (flaw == NULL && OidIsValid(rows.clause.side))
	{
		const char *side_flaw = FlawOfSideTableId(rows.clause.side, table);

		if (side_flaw != NULL)
			flaw = psprintf("its side table: %s", side_flaw);
		else if (!TableOwnerMayAdd(table, rows.clause.side))
			flaw = "the owner of the table may not insert rows into its side table";
	}
	if (flaw == NULL && unguarded > 0)
		flaw = get_rel_relkind(table) == RELKIND_PARTITIONED_TABLE
				   ? "not all of its partitions are guarded"
				   : "not all tables that inherit from it are guarded";
	if (flaw == NULL && uncovered)
		flaw = "the filter does not have the keys of all rows";
	return flaw;
}

/*
 * dedup_guard_state(trigger oid) returns record
 *
 * Returns the row of the view dedup_guards for the guard with this trigger for DELETE. Returns a
 * row of NULLs if this is not the trigger of a guard, was dropped, or belongs to the guard of a
 * table above.
 */
DEDUP_FUNCTION(dedup_guard_state)
{
	const Oid access_method = get_index_am_oid(GUARD_ACCESS_METHOD, true);
	TupleDesc desc;
	HeapTuple tuple =
		ReadCatalog(TriggerRelationId, TriggerOidIndexId, Anum_pg_trigger_oid, PG_GETARG_OID(0));
	Datum values[COLUMNS] = {};
	bool isnull[COLUMNS];
	LiveCounts counts = {};
	bool covers = true;
	bool locked;
	int guarded = 0;
	int unguarded = 0;
	int n = 0;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	desc = BlessTupleDesc(desc);
	memset(isnull, true, sizeof isnull);
	if (!HeapTupleIsValid(tuple))
		PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(desc, values, isnull)));

	const Oid table = ((Form_pg_trigger) GETSTRUCT(tuple))->tgrelid;
	const GuardRows rows = ReadGuardRows(table);

	if (rows.remove != PG_GETARG_OID(0) || OidIsValid(ParentOfClone(table)))
		PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(desc, values, isnull)));
	memset(isnull, false, sizeof isnull);
	CountPartitions(table, rows.clause.filter, access_method, &guarded, &unguarded);
	values[n++] = ObjectIdGetDatum(rows.clause.filter);
	locked = LockToShow(table, rows.clause);
	values[n++] = ColumnNames(table, rows.clause, locked);
	isnull[n] = isnull[n + 1] = !OidIsValid(rows.write);
	values[n++] =
		OidIsValid(rows.write) ? CStringGetTextDatum(OnDuplicate(table, rows)) : (Datum) 0;
	values[n++] = BoolGetDatum(rows.options.exact);
	n += ShowOptions(table, rows, locked, &values[n], &isnull[n]);
	if (locked)
		UnlockRelationOid(table, AccessShareLock);
	values[n++] = Int32GetDatum(guarded);
	values[n++] = Int32GetDatum(unguarded);

	char *problem;
	const bool shown = ShowLiveCounts(rows.clause.filter, &counts, &covers, &problem);
	const auto count = [&counts](LiveCounter counter) { return counts.value[(int) counter]; };

	isnull[n] = isnull[n + 1] = isnull[n + 2] = !shown;
	values[n++] = Int64GetDatum(count(LiveCounter::Skipped) + count(LiveCounter::Rejected) +
								count(LiveCounter::Marked));
	values[n++] = Int64GetDatum(count(LiveCounter::Found));
	values[n++] = Int64GetDatum(count(LiveCounter::NotFound));

	const char *flaw =
		FlawOfGuard(table, rows, access_method, unguarded, shown && rows.options.exact && !covers);

	if (flaw == NULL && problem != NULL)
		flaw = psprintf("its filter: %s", problem);
	isnull[n] = flaw == NULL;
	values[n++] = flaw == NULL ? (Datum) 0 : CStringGetTextDatum(flaw);
	Assert(n == COLUMNS);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(desc, values, isnull)));
}
