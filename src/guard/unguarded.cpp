/*
 * Tables that look guarded and are not.
 *
 * A NOTICE reports that a detached partition is not guarded any more, and that CREATE TABLE ...
 * LIKE does not copy a guard: it would copy the index, but no trigger.
 *
 * CREATE TABLE ... LIKE opens the index that it copies before it runs the command that makes the
 * copy, so the library is loaded for that command. DETACH PARTITION opens the index too late for
 * any hook. So the end of the transaction that has loaded the library checks all guard indexes.
 */
#include "guard/inherit.hpp"
#include "guard/load.hpp"
#include "guard/truncation.hpp"
#include "pg/catalog.hpp"

extern "C" {
#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/indexing.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "tcop/utility.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
}

/* ---- the guard of a table --------------------------------------------------------- */

/* Returns the guard of a table, even if its triggers do not fire in this session; or NULL. */
static const GuardPlan *
GuardOf(Relation rel)
{
	const Oid function = FindGuardFunction(rel, false);

	return OidIsValid(function) ? FindGuardPlan(rel, function) : NULL;
}

/* Returns the filter of a table's guard, or InvalidOid. */
static Oid
GuardFilterOf(Oid relid)
{
	Relation rel = OidIsValid(relid) ? RelationIdGetRelation(relid) : NULL;
	const GuardPlan *plan = RelationIsValid(rel) ? GuardOf(rel) : NULL;

	if (RelationIsValid(rel))
		RelationClose(rel);
	return plan != NULL ? plan->clause.filter : InvalidOid;
}

/* ---- partitions that are detached -------------------------------------------------- */

/* Returns a guard index of a table that has no trigger of a guard; else InvalidOid. */
static Oid
IdleGuardIndex(Oid relid)
{
	const Oid access_method = get_index_am_oid(GUARD_ACCESS_METHOD, true);
	Relation rel = RelationIdGetRelation(relid);
	List *indexes;
	ListCell *cell;
	Oid idle = InvalidOid;

	if (!RelationIsValid(rel))
		return InvalidOid;
	indexes = RelationGetIndexList(rel);
	foreach(cell, indexes)
	{
		HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(lfirst_oid(cell)));

		if (!HeapTupleIsValid(tuple))
			continue;
		if (((Form_pg_class) GETSTRUCT(tuple))->relam == access_method)
			idle = lfirst_oid(cell);
		ReleaseSysCache(tuple);
	}
	list_free(indexes);
	if (OidIsValid(idle) && OidIsValid(FindGuardFunction(rel, false)))
		idle = InvalidOid;
	RelationClose(rel);
	return idle;
}

/*
 * Reports such a table, and calls NoticeKeptKeys() if its rows would have freed their keys when
 * deleted one by one.
 */
static void
NoticeDetached(Oid relid, Oid parent)
{
	const Oid index = IdleGuardIndex(relid);
	const GuardRows rows = OidIsValid(parent) ? ReadGuardRows(parent) : GuardRows{};

	if (OidIsValid(index) && OidIsValid(rows.remove) && rows.options.forget && !HasNoBlocks(relid))
		NoticeKeptKeys(relid, rows.clause.filter);
	if (OidIsValid(index))
		ereport(NOTICE, (errmsg("table \"%s\" is not guarded any more", get_rel_name(relid)),
						 errdetail("It had the guard of the partitioned table. Index \"%s\" "
								   "remains, but refuses nothing without the guard's triggers.",
								   get_rel_name(index)),
						 errhint("Call dedup_guard() to guard the table, or DROP INDEX %s.",
								 QualifiedGuardName(index))));
}

/*
 * Three facts: whether this is a transaction of the statement that has loaded the library, whether
 * a relation has changed in it, and before which command the hook has seen no statement. DETACH
 * PARTITION CONCURRENTLY consists of several transactions, so the first holds until the end of the
 * statement.
 */
static bool first_transaction = false;
static TimestampTz loaded_at;
static bool changed = false;
static CommandId unseen_before = InvalidCommandId;

static void
AtRelationChange(Oid relid)
{
	changed = changed || OidIsValid(relid);
}

static bool
IsDetach(const AlterTableCmd *command)
{
	return command->subtype == AT_DetachPartition || IS_DETACH_FINALIZE(command);
}

/* Reports the tables that a finished statement has detached. */
static void
LookAtDetached(const AlterTableStmt *statement)
{
	ListCell *cell;

	foreach(cell, statement->cmds)
	{
		const AlterTableCmd *command = (const AlterTableCmd *) lfirst(cell);
		Oid relid;

		if (!IsDetach(command))
			continue;
		relid = RangeVarGetRelid(((const PartitionCmd *) command->def)->name, NoLock, true);
		if (OidIsValid(relid) &&
			OidIsValid(GuardFilterOf(RangeVarGetRelid(statement->relation, NoLock, true))))
			NoticeDetached(relid, RangeVarGetRelid(statement->relation, NoLock, true));
	}
}

/* Returns the table of which a table was a partition before this transaction's first command. */
static Oid
FormerParent(Oid relid)
{
	Relation catalog = table_open(InheritsRelationId, AccessShareLock);
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	Oid parent = InvalidOid;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple tuple;

	snapshot->curcid = FirstCommandId;
	ScanKeyInit(&key, Anum_pg_inherits_inhrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(relid));
	scan = systable_beginscan(catalog, InheritsRelidSeqnoIndexId, true, snapshot, 1, &key);
	if (HeapTupleIsValid(tuple = systable_getnext(scan)))
		parent = ((Form_pg_inherits) GETSTRUCT(tuple))->inhparent;
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
	table_close(catalog, AccessShareLock);
	return parent;
}

/*
 * Returns whether a guard index was detached from its parent's index in this transaction,
 * by a statement that the hook has not seen.
 */
static bool
WasDetachedUnseen(HeapTuple index)
{
	Snapshot snapshot;
	HeapTuple before;
	bool was_attached;

	if (((Form_pg_class) GETSTRUCT(index))->relispartition ||
		!TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(index->t_data)) ||
		HeapTupleHeaderGetCmin(index->t_data) >= unseen_before)
		return false;
	/* This snapshot shows the index as it was before this transaction's first command. */
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	snapshot->curcid = FirstCommandId;
	before = ReadClass(((Form_pg_class) GETSTRUCT(index))->oid, snapshot);
	UnregisterSnapshot(snapshot);
	was_attached = HeapTupleIsValid(before) && ((Form_pg_class) GETSTRUCT(before))->relispartition;
	return was_attached;
}

/* Reports the tables that were detached by the statement which has loaded the library. */
static void
LookAtFirstTransaction(void)
{
	const Oid access_method = get_index_am_oid(GUARD_ACCESS_METHOD, true);
	Relation catalog;
	SysScanDesc scan;
	HeapTuple tuple;
	List *detached = NIL;
	ListCell *cell;

	if (!OidIsValid(access_method))
		return;
	catalog = table_open(RelationRelationId, AccessShareLock);
	scan = systable_beginscan(catalog, InvalidOid, false, NULL, 0, NULL);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		if (((Form_pg_class) GETSTRUCT(tuple))->relam == access_method && WasDetachedUnseen(tuple))
			detached = lappend_oid(detached, ((Form_pg_class) GETSTRUCT(tuple))->oid);
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	foreach(cell, detached)
	{
		const Oid relid = IndexGetRelation(lfirst_oid(cell), true);

		if (OidIsValid(relid))
			NoticeDetached(relid, FormerParent(relid));
	}
	list_free(detached);
}

/* ---- utility statements --------------------------------------------------------------- */

static ProcessUtility_hook_type previous_process_utility = NULL;

/* Returns whether a statement copies a guard index for CREATE TABLE ... LIKE. */
static bool
IsCopyOfGuardIndex(const Node *statement, ProcessUtilityContext context)
{
	const IndexStmt *index = (const IndexStmt *) statement;

	return context == PROCESS_UTILITY_SUBCOMMAND && IsA(statement, IndexStmt) &&
		   index->transformed && index->accessMethod != NULL &&
		   strcmp(index->accessMethod, GUARD_ACCESS_METHOD) == 0;
}

static void
UnguardedProcessUtility(PlannedStmt *statement, const char *query,
						READ_ONLY_TREE_PARAMETER ProcessUtilityContext context,
						ParamListInfo params, QueryEnvironment *environment, DestReceiver *dest,
						QueryCompletion *completion)
{
	const ProcessUtility_hook_type next =
		previous_process_utility != NULL ? previous_process_utility : standard_ProcessUtility;
	Node *tree = statement->utilityStmt;

	if (IsCopyOfGuardIndex(tree, context))
	{
		const RangeVar *table = ((const IndexStmt *) tree)->relation;

		/* A table that inherits will also get the guard of its parent. */
		if (!InheritsGuard(RangeVarGetRelid(table, NoLock, true)))
			ereport(NOTICE, (errmsg("the guard of the table in LIKE is not copied to table \"%s\"",
									table->relname),
							 errhint("Call dedup_guard() to guard the new table.")));
		return;
	}
	if (context != PROCESS_UTILITY_SUBCOMMAND)
	{
		ForgetMadeTriggers();
		if (first_transaction && unseen_before == InvalidCommandId && IsTransactionState())
			unseen_before = GetCurrentCommandId(false);
	}
	if (IsA(tree, AlterTableStmt))
		LockForAttach((const AlterTableStmt *) tree);
	next(statement, query, READ_ONLY_TREE context, params, environment, dest, completion);
	if (IsA(tree, AlterTableStmt))
		LookAtDetached((const AlterTableStmt *) tree);
}

/* ---- ends of transactions ------------------------------------------------------------- */

void
LookAtUnguarded(void)
{
	if (first_transaction && changed && TransactionIdIsValid(GetTopTransactionIdIfAny()))
		LookAtFirstTransaction();
}

void
ForgetUnguarded(void)
{
	ForgetMadeTriggers();
	changed = false;
	first_transaction = first_transaction && unseen_before == InvalidCommandId &&
						loaded_at == GetCurrentStatementStartTimestamp();
}

void
NothingDetachedBy(const Node *statement)
{
	ListCell *cell;

	if (!first_transaction || unseen_before != InvalidCommandId)
		return;
	if (IsA(statement, AlterTableStmt))
		foreach(cell, ((const AlterTableStmt *) statement)->cmds)
			if (IsDetach((const AlterTableCmd *) lfirst(cell)))
				return;
	first_transaction = false;
}

void
InitGuardUnguarded(void)
{
	previous_process_utility = ProcessUtility_hook;
	ProcessUtility_hook = UnguardedProcessUtility;
	first_transaction = IsTransactionState();
	loaded_at = GetCurrentStatementStartTimestamp();
	if (first_transaction)
		WatchRelations(AtRelationChange);
}
