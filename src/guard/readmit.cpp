/*
 * dedup_readmit(): brings rows that were refused wrongly back from the side table (divert.hpp).
 *
 * Writers of the guarded table are kept out meanwhile. refused.cpp finds the rows to bring back.
 * They are inserted one by one and bypass the filter: the guard's trigger lets the one row pass
 * that this session is bringing back. An exact guard judges them like all rows.
 */
#include "guard/chunk.hpp"
#include "guard/inherit.hpp"
#include "guard/readmit.hpp"
#include "guard/request.hpp"
#include "guard/table_keys.hpp"

extern "C" {
#include "access/relation.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rls.h"
#include "utils/snapmgr.h"
}

/* ---- the row that is brought back ----------------------------------------------------- */

namespace
{

struct Returning
{
	Oid guarded;
	int depth; /* nesting depth of triggers at which the row is inserted */
	bool has_key;
	uint64 hash;
	bool refused; /* it was refused again */
};

} /* namespace */

/* NULL: dedup_readmit() is not inserting a row. */
static Returning *returning = NULL;

/* Returns whether the calling trigger is fired for a row of the INSERT itself. */
static bool
IsReturning(const GuardPlan *plan)
{
	return unlikely(returning != NULL) && returning->guarded == plan->guarded &&
		   returning->depth + 1 == DatumGetInt32(pg_trigger_depth(NULL));
}

bool
IsReadmitted(const GuardPlan *plan, uint64 hash)
{
	return IsReturning(plan) && returning->has_key && returning->hash == hash;
}

bool
StaysRefused(const GuardPlan *plan)
{
	if (!IsReturning(plan))
		return false;
	returning->refused = true;
	return true;
}

/* ---- bringing them back --------------------------------------------------------------- */

static SPIPlanPtr
Prepare(const char *command, int parameters, Oid *types)
{
	const SPIPlanPtr plan = SPI_prepare(command, parameters, types);

	if (plan == NULL)
		elog(ERROR, "could not prepare \"%s\": %s", command, SPI_result_code_string(SPI_result));
	return plan;
}

/* Prepares the INSERT of the columns for which the row has values. */
static void
PrepareReturn(Readmission *readmission)
{
	TupleDesc desc = RelationGetDescr(readmission->rel);
	Oid *types = (Oid *) palloc(sizeof(Oid) * (Size) Max(desc->natts, 1));
	StringInfoData columns;
	StringInfoData values;
	int n = 0;

	initStringInfo(&columns);
	initStringInfo(&values);
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute column = readmission->side.columns[i].column;

		if (column == NULL || bms_is_member(i, readmission->side.defaults))
			continue;
		appendStringInfo(&columns, "%s%s", n == 0 ? "" : ", ",
						 quote_identifier(NameStr(column->attname)));
		appendStringInfo(&values, "%s$%d", n == 0 ? "" : ", ", n + 1);
		types[n++] = column->atttypid;
	}
	/* A row without columns has no key, and no guard refuses it. */
	readmission->insert =
		Prepare(psprintf("INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE VALUES (%s)",
						 QualifiedGuardName(RelationGetRelid(readmission->rel)), columns.data,
						 values.data),
				n, types);
}

/* Inserts the row. Returns false if the guard refuses it. */
static bool
InsertRow(Readmission *readmission, const Refused &refused)
{
	const int natts = RelationGetDescr(readmission->rel)->natts;
	const TupleTableSlot *row = readmission->side.row;
	Datum *values = (Datum *) palloc(sizeof(Datum) * (Size) natts);
	char *nulls = (char *) palloc((Size) natts);
	Returning marked = {RelationGetRelid(readmission->guarded),
						DatumGetInt32(pg_trigger_depth(NULL)), refused.has_key, refused.hash,
						false};
	Returning *const outer = returning;
	volatile int result = 0;
	MemoryContext old;
	int n = 0;

	if (readmission->insert == NULL ||
		!bms_equal(readmission->side.defaults, readmission->insert_defaults))
	{
		if (readmission->insert != NULL)
			SPI_freeplan(readmission->insert);
		readmission->insert = NULL;
		PrepareReturn(readmission);
		old = MemoryContextSwitchTo(readmission->context);
		readmission->insert_defaults = bms_copy(readmission->side.defaults);
		MemoryContextSwitchTo(old);
	}
	for (int i = 0; i < natts; i++)
	{
		if (readmission->side.columns[i].column == NULL ||
			bms_is_member(i, readmission->side.defaults))
			continue;
		values[n] = row->tts_values[i];
		nulls[n++] = row->tts_isnull[i] ? 'n' : ' ';
	}
	returning = &marked;
	PG_TRY();
	{
		result = SPI_execute_plan(readmission->insert, values, nulls, false, 0);
	}
	PG_FINALLY();
	{
		returning = outer;
	}
	PG_END_TRY();
	if (result < 0)
		elog(ERROR, "could not insert a row: %s", SPI_result_code_string(result));
	if (marked.refused)
		return false;
	if (result != SPI_OK_INSERT || SPI_processed != 1)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("table \"%s\" has not kept a row that was to be brought back",
							   RelationGetRelationName(readmission->rel)),
						errdetail("A trigger or rule of the table has left the row out.")));
	return true;
}

/*
 * Deletes the row from the side table, unless it has changed. If another transaction changes it
 * while the DELETE waits, the new version must not be deleted. Some minor releases of the server do
 * not test the condition of a TID scan again. The second condition is tested by all.
 */
static void
RemoveRefused(Readmission *readmission, Refused *refused)
{
	const SideLeaf *leaf = &readmission->side.leaves[refused->table];
	Oid type = TIDOID;
	Datum tid = PointerGetDatum(&refused->tid);
	SPIPlanPtr *remove = &readmission->remove[refused->table];
	int result;

	if (*remove == NULL)
		*remove = Prepare(psprintf("DELETE FROM ONLY %s WHERE ctid OPERATOR(pg_catalog.=) $1 "
								   "AND (ctid OPERATOR(pg_catalog.=) $1) IS TRUE",
								   QualifiedGuardName(RelationGetRelid(leaf->rel))),
						  1, &type);
	result = SPI_execute_plan(*remove, &tid, NULL, false, 0);
	if (result < 0)
		elog(ERROR, "could not delete a row: %s", SPI_result_code_string(result));
	if (result != SPI_OK_DELETE || SPI_processed != 1)
		ereport(
			ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("could not delete a row from table \"%s\"", RelationGetRelationName(leaf->rel)),
			 errdetail(
				 "Another transaction, or a trigger, rule or policy of the table, prevents it.")));
}

/*
 * Reads a row as it was when it was refused. Its functions run with the rights of the table's
 * owner.
 */
static bool
ReadAsOwner(Readmission *readmission, const Refused &refused)
{
	const AsOwner before = BecomeOwner(readmission->guarded);
	bool there;

	SetPortableText();
	there = FetchRefused(readmission, refused, true);
	BecomeAgain(before);
	return there;
}

static int64
BringBack(Readmission *readmission)
{
	Oid user;
	int security;
	int64 count = 0;

	GetUserIdAndSecContext(&user, &security);
	SetUserIdAndSecContext(readmission->guarded->rd_rel->relowner,
						   security | SECURITY_LOCAL_USERID_CHANGE);
	SPI_connect();
	for (int i = 0; i < readmission->count; i++)
	{
		Refused *refused = &readmission->refused[i];
		const MemoryContext old = MemoryContextSwitchTo(readmission->row_context);

		CHECK_FOR_INTERRUPTS();
		if (!refused->stays && ReadAsOwner(readmission, *refused) &&
			InsertRow(readmission, *refused))
		{
			RemoveRefused(readmission, refused);
			count++;
		}
		MemoryContextSwitchTo(old);
		MemoryContextReset(readmission->row_context);
	}
	SPI_finish();
	SetUserIdAndSecContext(user, security);
	return count;
}

/* ---- the call ------------------------------------------------------------------------- */

/*
 * Raises an error if a running query of this session uses a table, apart from `references`
 * references.
 */
static void
RequireUnused(Relation rel, int references)
{
	if (rel->rd_refcnt > references)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("cannot bring rows back into table \"%s\"", RelationGetRelationName(rel)),
				 errdetail("It is being used by active queries in this session.")));
}

/*
 * Raises an error if rows would be inserted into a table (which may be a partition) without its
 * guard, or during a query on it.
 */
static void
RequireEnabled(Oid relid, Oid function, bool is_guarded)
{
	Relation rel = relation_open(relid, NoLock);
	const GuardTriggers triggers = FindGuardTriggers(rel, function);

	RequireUnused(rel, is_guarded ? 2 : 1);
	if (triggers.write == NULL || !GuardTriggerFires(triggers.write->tgenabled))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the guard of table \"%s\" is not enabled", RelationGetRelationName(rel)),
				 errdetail("Rows that are brought back would not be checked.")));
	relation_close(rel, NoLock);
}

/* Opens the guarded table. The tables below it are locked, and their guards must be enabled. */
static void
OpenGuarded(Oid relid, Readmission *readmission)
{
	Relation rel = OpenOwnTable(relid, ShareRowExclusiveLock);
	Oid function;
	ListCell *cell;

	readmission->guarded = rel;
	function = FindGuardFunction(rel, false);
	if (OidIsValid(function))
		readmission->guard = GetGuardPlan(rel, function);
	if (readmission->guard == NULL || readmission->guard->mode != GuardMode::Divert)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("table \"%s\" has no guard that diverts rows",
							   RelationGetRelationName(rel)),
						errhint("Only dedup_guard(..., on_duplicate => 'divert') keeps the rows "
								"that it refuses.")));
	if (readmission->guard->guarded != relid)
		ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE),
						errmsg("the guard of partition \"%s\" belongs to a table above it",
							   RelationGetRelationName(rel)),
						errhint("Call dedup_readmit() for table \"%s\".",
								get_rel_name(readmission->guard->guarded))));
	RequireUnused(rel, 1);
	list_free(find_all_inheritors(relid, ShareRowExclusiveLock, NULL));
	foreach(cell, CoveredTables(rel))
		RequireEnabled(lfirst_oid(cell), function, lfirst_oid(cell) == relid);
}

/* Raises an error unless the owner of the guarded table may read the side table and delete rows. */
static void
CheckSide(const Readmission *readmission)
{
	const Oid owner = readmission->guarded->rd_rel->relowner;
	const Oid relid = readmission->guard->clause.side;
	const Oid guarded = RelationGetRelid(readmission->guarded);
	Relation side = NULL;
	const char *flaw;

	if (get_rel_name(relid) != NULL)
	{
		if (pg_class_aclcheck(relid, owner, ACL_SELECT) != ACLCHECK_OK ||
			pg_class_aclcheck(relid, owner, ACL_DELETE) != ACLCHECK_OK)
			ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
							errmsg("permission denied for table \"%s\"", get_rel_name(relid)),
							errdetail("The owner of table \"%s\" needs the privileges SELECT and "
									  "DELETE on it.",
									  get_rel_name(guarded))));
		side = try_relation_open(relid, RowExclusiveLock);
	}
	flaw = side == NULL ? gettext_noop("It does not exist.") : FlawOfSideTable(side, guarded);
	if (flaw != NULL)
		ReportSideTable(relid, guarded, flaw);
	if (check_enable_rls(relid, owner, true) == RLS_ENABLED)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("cannot read all rows of table \"%s\"", RelationGetRelationName(side)),
				 errdetail("Its row-level security applies to the owner of table \"%s\".",
						   RelationGetRelationName(readmission->guarded))));
	relation_close(side, NoLock);
}

/* Opens the side table's rows as rows of the table into which they are brought back. */
static void
OpenRows(Readmission *readmission, Relation rel, const GuardPlan *plan)
{
	readmission->rel = rel;
	readmission->plan = plan;
	readmission->refused = NULL;
	readmission->count = readmission->room = 0;
	readmission->insert = NULL;
	readmission->insert_defaults = NULL;
	OpenSideRows(&readmission->side, rel, plan->clause);
}

/* Reads the refused rows, and finds those to bring back. */
static void
FindRows(Readmission *readmission, const LiveFilter &filter)
{
	AsOwner before;

	readmission->seed = filter.key_seed();
	readmission->ttl = readmission->plan->clause.at != NULL ? filter.parameters.ttl : 0;
	MakeKeyReader(&readmission->reader, &readmission->plan->clause);
	readmission->remove =
		(SPIPlanPtr *) palloc0(sizeof(SPIPlanPtr) * (Size) Max(readmission->side.leaf_count, 1));
	before = BecomeOwner(readmission->guarded);
	SetPortableText();
	ScanSide(readmission);
	ChooseRows(readmission, filter);
	BecomeAgain(before);
}

Oid
WhereRowsReturn(const GuardPlan *plan, Relation rel)
{
	const Oid relid = RelationGetRelid(rel);

	return relid == plan->guarded || rel->rd_rel->relispartition || IsChunk(relid) ? plan->guarded
																				   : relid;
}

/*
 * Returns the tables into which rows can be brought back: the guarded table, and those that inherit
 * from it.
 */
static List *
TargetsOf(Readmission *readmission)
{
	const Oid guarded = RelationGetRelid(readmission->guarded);
	List *targets = list_make1_oid(guarded);
	List *named;
	ListCell *cell;

	if (readmission->guarded->rd_rel->relkind == RELKIND_PARTITIONED_TABLE ||
		!has_subclass(guarded))
		return targets;
	OpenRows(readmission, readmission->guarded, readmission->guard);
	named = RefusingTables(readmission);
	CloseSideRows(readmission->side);
	foreach(cell, InheritorsOf(guarded, NULL))
		if (list_member_oid(named, lfirst_oid(cell)))
			targets = lappend_oid(targets, lfirst_oid(cell));
	return targets;
}

/* Brings the rows of one table back. Returns how many. */
static int64
ReturnTo(Readmission *readmission, Oid target)
{
	const bool inherits = target != RelationGetRelid(readmission->guarded);
	Relation rel = inherits ? relation_open(target, NoLock) : readmission->guarded;
	LiveFilter filter;
	int64 count;

	OpenRows(readmission, rel,
			 inherits ? GetGuardPlan(rel, readmission->guard->function) : readmission->guard);
	filter = OpenLive(readmission->guard->clause.filter, LiveUse::Add,
					  readmission->guarded->rd_rel->relowner, "dedup_readmit()");
	FindRows(readmission, filter);
	CloseLive(filter);
	count = BringBack(readmission);
	CloseSideRows(readmission->side);
	if (inherits)
		relation_close(rel, NoLock);
	return count;
}

/*
 * dedup_readmit(table regclass) returns bigint
 *
 * Brings back the rows that the guard of a table has refused although the table has no row with
 * their key. Runs with the rights of the table's owner. Returns the number of rows.
 */
DEDUP_FUNCTION(dedup_readmit)
{
	Readmission readmission = {};
	MemoryContext old;
	int64 count = 0;
	ListCell *cell;

	if (PG_ARGISNULL(0))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
						errmsg("argument \"table\" must not be null")));
	PreventCommandDuringRecovery("dedup_readmit()");
	PreventCommandIfReadOnly("dedup_readmit()");
	SettleGuardRows();
	OpenGuarded(PG_GETARG_OID(0), &readmission);
	CheckSide(&readmission);

	/* It shows everything that was committed until now, and this transaction's own work. */
	CommandCounterIncrement();
	readmission.snapshot = RegisterSnapshot(GetTransactionSnapshot());
	readmission.context = AllocSetContextCreateInternal(CurrentMemoryContext, "dedup_readmit",
														ALLOCSET_DEFAULT_SIZES);
	readmission.row_context =
		AllocSetContextCreateInternal(readmission.context, "dedup_readmit row",
									  ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(readmission.context);
	foreach(cell, TargetsOf(&readmission))
		count += ReturnTo(&readmission, lfirst_oid(cell));
	MemoryContextSwitchTo(old);
	MemoryContextDelete(readmission.context);
	UnregisterSnapshot(readmission.snapshot);
	relation_close(readmission.guarded, NoLock);
	PG_RETURN_INT64(count);
}
