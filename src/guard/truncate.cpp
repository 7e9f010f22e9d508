/*
 * Rows that TRUNCATE removes from guarded tables. The same transaction may insert them again, like
 * rows that it deletes.
 *
 * Triggers on TRUNCATE are not cloned to partitions, and no hook is called in a session that has
 * not loaded the library. But a table's indexes are rebuilt when it is truncated, including the
 * guard's: this call shows the TRUNCATE. The table has a new, empty file then, and the old one is
 * kept until the transaction commits. So TRUNCATE only records the old file, and costs no more than
 * without a guard. The first row that the transaction then inserts under the same filter causes
 * that file to be read once, for its keys.
 *
 * If the table was created or truncated in the same subtransaction before, TRUNCATE shortens its
 * file in place. The library is loaded by then, so the rows are read before that, in a hook. A
 * worker that applies changes does not call that hook. There, only the fact that rows were removed
 * is known, but not which; so all keys of the filter may be inserted again.
 */
#include "guard/inherit.hpp"
#include "guard/truncation.hpp"

extern "C" {
#include "access/genam.h"
#include "access/heapam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/heap.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/partition.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_trigger.h"
#include "pgstat.h"
#include "replication/logicalworker.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "storage/smgr.h"
#include "tcop/utility.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
}

namespace
{

/* A filter under which unknown rows were removed. */
struct UnknownRows
{
	Oid filter;
	SubTransactionId subid;
};

} /* namespace */

/* In TopTransactionContext. */
static List *truncations = NIL;

/* In TopTransactionContext, too. */
static List *unknown_rows = NIL;

/* All relations that the running statement truncates, as far as known. */
static List *truncating = NIL;

static ProcessUtility_hook_type previous_process_utility = NULL;

bool
MayBeRemovedRow(Oid filter)
{
	ListCell *cell;

	foreach(cell, unknown_rows)
		if (((const UnknownRows *) lfirst(cell))->filter == filter)
			return true;
	return false;
}

/* ---- the guard of a table ---------------------------------------------------- */

const GuardPlan *
FiringGuard(Relation heap)
{
	const Oid function = FindGuardFunction(heap, true);
	const GuardPlan *plan = OidIsValid(function) ? FindGuardPlan(heap, function) : NULL;

	return plan != NULL && !plan->options.exact && IsLiveRelationId(plan->clause.filter) &&
				   GuardOwnerMayAdd(plan)
			   ? plan
			   : NULL;
}

static dedup::KeySeed
SeedOf(Oid filter)
{
	LiveFilter live = OpenLiveUnchecked(filter, AccessShareLock);
	dedup::KeySeed seed = live.key_seed();

	CloseLive(live);
	return seed;
}

/* ---- TRUNCATE that gives the table a new file ---------------------------------- */

HeapTuple
ReadClass(Oid relid, Snapshot snapshot)
{
	Relation catalog = table_open(RelationRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple tuple;

	ScanKeyInit(&key, Anum_pg_class_oid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(relid));
	scan = systable_beginscan(catalog, ClassOidIndexId, true, snapshot, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		tuple = heap_copytuple(tuple);
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return tuple;
}

/*
 * Finds the file of a table before this transaction gave it the current file, and the command that
 * did so. Returns false if it did not.
 */
static bool
FileBefore(Relation heap, FileLocator *file, CommandId *since)
{
	HeapTuple now = ReadClass(RelationGetRelid(heap), SnapshotSelf);
	bool found = false;

	if (!HeapTupleIsValid(now))
		return false;
	if (TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(now->t_data)))
	{
		/* This snapshot shows the state before that command. */
		Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
		HeapTuple before;

		*since = snapshot->curcid = HeapTupleHeaderGetCmin(now->t_data);
		before = ReadClass(RelationGetRelid(heap), snapshot);
		UnregisterSnapshot(snapshot);
		if (HeapTupleIsValid(before))
		{
			Form_pg_class form = (Form_pg_class) GETSTRUCT(before);

			SetFile(file,
					OidIsValid(form->reltablespace) ? form->reltablespace : MyDatabaseTableSpace,
					MyDatabaseId, form->relfilenode);
			found = OidIsValid(form->relfilenode) && form->relfilenode != FileNumberOf(heap);
			heap_freetuple(before);
		}
	}
	heap_freetuple(now);
	return found;
}

bool
HoldsExclusively(Oid relid)
{
	LOCKTAG tag;

	SET_LOCKTAG_RELATION(tag, MyDatabaseId, relid);
	return LOCK_HELD(&tag, AccessExclusiveLock);
}

bool
IsTruncated(Oid relid)
{
	return truncating != NIL ? list_member_oid(truncating, relid) : HoldsExclusively(relid);
}

/* Returns the uppermost table that is truncated as a whole, with this one. */
static Oid
TruncatedWhole(Oid table)
{
	Relation rel = RelationIdGetRelation(table);
	bool partition = RelationIsValid(rel) && rel->rd_rel->relispartition;
	List *ancestors = partition ? get_partition_ancestors(table) : NIL;
	ListCell *cell;

	if (RelationIsValid(rel))
		RelationClose(rel);
	foreach(cell, ancestors)
	{
		if (!IsTruncated(lfirst_oid(cell)))
			break;
		table = lfirst_oid(cell);
	}
	list_free(ancestors);
	if (!partition)
		for (Oid parent; OidIsValid(parent = ParentOfClone(table)) && IsTruncated(parent);)
			table = parent;
	return table;
}

/*
 * Reports, once in a statement, that the filter keeps the keys. If a whole partitioned table is
 * truncated, only that table is named.
 */
static void
WarnOfKeys(Oid table, const GuardPlan *plan)
{
	const Oid filter = plan->clause.filter;
	static TimestampTz warned_at;
	static CommandId warned_in;
	static Oid warned_table;
	static Oid warned_filter;
	CommandId command = ActiveSnapshotSet() ? GetActiveSnapshot()->curcid : InvalidCommandId;

	table = TruncatedWhole(table);
	if (get_rel_name(table) == NULL || get_rel_name(filter) == NULL ||
		(warned_at == GetCurrentStatementStartTimestamp() && warned_in == command &&
		 warned_table == table && warned_filter == filter))
		return;
	warned_at = GetCurrentStatementStartTimestamp();
	warned_in = command;
	warned_table = table;
	warned_filter = filter;
	if (plan->options.forget)
	{
		/* Otherwise the filter is emptied next. */
		if (!TruncateEmptiesFilter(plan))
			NoticeKeptKeys(table, filter);
		return;
	}
	ereport(
		WARNING,
		(errmsg("live filter \"%s\" still has the keys of the rows that were removed from \"%s\"",
				get_rel_name(filter), get_rel_name(table)),
		 errdetail("This transaction may insert the removed rows again. After it their keys are "
				   "duplicates."),
		 get_rel_relispartition(table)
			 ? errhint("dedup_forget() removes single keys from the filter.")
			 : errhint("To empty both, use TRUNCATE %s, %s.", QualifiedGuardName(table),
					   QualifiedGuardName(filter))));
}

/* ---- TRUNCATE in place ------------------------------------------------------------ */

/* Returns how many rows this transaction has inserted into a table, committed or not. */
static int64
CountInserted(Relation heap)
{
	int64 rows = 0;

	if (heap->pgstat_info != NULL)
		for (const PgStat_TableXactStatus *level = heap->pgstat_info->trans; level != NULL;
			 level = level->upper)
			rows += level->tuples_inserted + INSERTED_BEFORE_TRUNCATE(level);
	return pgstat_track_counts ? rows : PG_INT64_MAX;
}

/*
 * A worker has removed rows by TRUNCATE that it had inserted in the same transaction. If such a row
 * is inserted again and refused, it would be lost.
 */
static void
NoteUnknownRows(Relation heap, const Truncation *truncation)
{
	MemoryContext old;
	UnknownRows *unknown;

	if (!IsLogicalWorker() || CountInserted(heap) <= truncation->inserted)
		return;
	old = MemoryContextSwitchTo(TopTransactionContext);
	unknown = (UnknownRows *) palloc(sizeof(UnknownRows));
	*unknown = {truncation->plan->clause.filter, GetCurrentSubTransactionId()};
	unknown_rows = lappend(unknown_rows, unknown);
	MemoryContextSwitchTo(old);
}

/* Returns whether the filter got its file by the running command, too. */
static bool
IsTruncatedTogether(Relation filter)
{
	FileLocator before;
	CommandId since;

	return list_member_oid(truncating, RelationGetRelid(filter)) ||
		   (FileBefore(filter, &before, &since) && ActiveSnapshotSet() &&
			since >= GetActiveSnapshot()->curcid);
}

/* Makes a note of a TRUNCATE. At first, its rows are not to be read. */
static Truncation *
AddTruncation(Relation heap, const GuardPlan *plan)
{
	MemoryContext old = MemoryContextSwitchTo(TopTransactionContext);
	Truncation *truncation = (Truncation *) palloc0(sizeof(Truncation));

	truncation->subid = GetCurrentSubTransactionId();
	truncation->heap = RelationGetRelid(heap);
	truncation->after = FileNumberOf(heap);
	truncation->inserted = CountInserted(heap);
	truncation->plan = plan;
	truncation->until = InvalidCommandId;
	truncation->done = true;
	truncations = lappend(truncations, truncation);
	MemoryContextSwitchTo(old);
	KeepDeletedRowsOf(truncation->subid);
	return truncation;
}

/* TRUNCATE, or a rewrite that has left no row, has given the table a new file. */
static void
NoteTruncation(Relation heap, const GuardPlan *plan, const FileLocator &before)
{
	Truncation *truncation = AddTruncation(heap, plan);
	LiveFilter filter = OpenLiveUnchecked(plan->clause.filter, AccessShareLock);
	MemoryContext old = MemoryContextSwitchTo(TopTransactionContext);

	truncation->before = before;
	truncation->permanent = heap->rd_rel->relpersistence == RELPERSISTENCE_PERMANENT;
	truncation->desc = CreateTupleDescCopyConstr(RelationGetDescr(heap));
	truncation->filter_file = FileNumberOf(filter.rel);
	truncation->offset = FirstOffsetNumber;
	MemoryContextSwitchTo(old);
	if (OidIsValid(heap->rd_rel->reltoastrelid))
	{
		Relation toast = table_open(heap->rd_rel->reltoastrelid, AccessShareLock);
		CommandId since;

		truncation->toast_table = RelationGetRelid(toast);
		truncation->has_toast = FileBefore(toast, &truncation->toast, &since);
		table_close(toast, NoLock);
	}
	truncation->done = IsTruncatedTogether(filter.rel) || !HasTruncatedRows(truncation);
	CloseLive(filter);

	/* If the statement is not known, the locks show which tables TRUNCATE names. */
	truncation->warn =
		!truncation->done && truncating == NIL && HoldsExclusively(plan->clause.filter);
	if (!truncation->done && !truncation->warn)
		WarnOfKeys(truncation->heap, plan);
}

void
GuardIndexBuilt(Relation heap)
{
	const GuardPlan *plan;
	FileLocator before;
	CommandId since;
	ListCell *cell;

	if (heap->rd_rel->relkind != RELKIND_RELATION || heap->rd_rel->relam != HEAP_TABLE_AM_OID ||
		!IsTransactionState() || RelationGetNumberOfBlocks(heap) != 0)
		return;
	plan = FiringGuard(heap);
	if (plan == NULL)
		return;
	foreach(cell, truncations)
	{
		Truncation *truncation = (Truncation *) lfirst(cell);

		if (truncation->heap == RelationGetRelid(heap) && truncation->after == FileNumberOf(heap))
		{
			NoteUnknownRows(heap, truncation);
			return;
		}
	}
	if (FileBefore(heap, &before, &since))
		NoteTruncation(heap, plan, before);
}

/* Reads the rows of a table that is about to be truncated in place. */
static void
ReadBeforeTruncate(Relation heap, const GuardPlan *plan)
{
	const SubTransactionId subid = GetCurrentSubTransactionId();
	const dedup::KeySeed seed = SeedOf(plan->clause.filter);
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	TableScanDesc scan = TABLE_BEGINSCAN(heap, snapshot);
	MemoryContext context = AllocSetContextCreateInternal(CurrentMemoryContext, "dedup_guard row",
														  ALLOCSET_DEFAULT_SIZES);
	HeapTuple tuple;
	KeyReader reader;
	bool any = false;

	MakeKeyReader(&reader, &plan->clause);
	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(context);
		NullableDatum used[INDEX_MAX_KEYS];

		CHECK_FOR_INTERRUPTS();
		LoadTuple(plan, tuple, RelationGetDescr(heap), used);
		if (!IsMarkedTuple(plan, tuple, RelationGetDescr(heap)))
			NoteRemovedRow(plan, reader, RelationGetDescr(heap), used, seed, subid);
		any = true;
		MemoryContextSwitchTo(old);
		MemoryContextReset(context);
	}
	table_endscan(scan);
	UnregisterSnapshot(snapshot);
	MemoryContextDelete(context);
	(void) AddTruncation(heap, plan);
	if (any && !list_member_oid(truncating, plan->clause.filter))
		WarnOfKeys(RelationGetRelid(heap), plan);
}

/* Returns whether a trigger could still change the table's rows when it is truncated. */
static bool
HasTruncateTrigger(Relation heap)
{
	const TriggerDesc *triggers = heap->trigdesc;

	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
		if (TRIGGER_FOR_TRUNCATE(triggers->triggers[i].tgtype) &&
			TRIGGER_FOR_BEFORE(triggers->triggers[i].tgtype) &&
			GuardTriggerFires(triggers->triggers[i].tgenabled))
			return true;
	return false;
}

/*
 * TRUNCATE works in place on tables that this subtransaction has created or truncated. So it has
 * locked them exclusively before.
 */
static void
BeforeTruncate(const TruncateStmt *statement)
{
	const SubTransactionId subid = GetCurrentSubTransactionId();
	MemoryContext old = MemoryContextSwitchTo(TopTransactionContext);
	List *tables = NIL;
	ListCell *cell;

	foreach(cell, statement->relations)
	{
		const RangeVar *name = (const RangeVar *) lfirst(cell);
		Oid relid = RangeVarGetRelid(name, NoLock, true);

		if (!OidIsValid(relid))
			continue;
		tables = list_concat_unique_oid(tables, name->inh ? find_all_inheritors(relid, NoLock, NULL)
														  : list_make1_oid(relid));
	}
	if (statement->behavior == DROP_CASCADE)
		for (List *more; (more = heap_truncate_find_FKs(tables)) != NIL;)
			tables = list_concat_unique_oid(tables, more);
	MemoryContextSwitchTo(old);
	truncating = tables;
	foreach(cell, tables)
	{
		Relation heap = RelationIdGetRelation(lfirst_oid(cell));
		const GuardPlan *plan;

		if (!RelationIsValid(heap))
			continue;
		if (heap->rd_rel->relkind == RELKIND_RELATION &&
			(heap->rd_createSubid == subid || FileSubid(heap) == subid) &&
			HoldsExclusively(RelationGetRelid(heap)))
		{
			LeftTableShrinks(heap);
			if ((plan = FiringGuard(heap)) != NULL && HasTruncateTrigger(heap))
				ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
								errmsg("cannot truncate the guarded table \"%s\" again in the "
									   "transaction that has created or truncated it",
									   RelationGetRelationName(heap)),
								errdetail("It has a trigger BEFORE TRUNCATE, which may change its "
										  "rows after the guard has read their keys."),
								errhint("Delete the rows instead.")));
			if (plan != NULL)
				ReadBeforeTruncate(heap, plan);
		}
		RelationClose(heap);
	}
}

static void
GuardProcessUtility(PlannedStmt *statement, const char *query,
					READ_ONLY_TREE_PARAMETER ProcessUtilityContext context, ParamListInfo params,
					QueryEnvironment *environment, DestReceiver *dest, QueryCompletion *completion)
{
	bool truncates = IsA(statement->utilityStmt, TruncateStmt);
	List *outer = truncating;

	if (truncates)
		BeforeTruncate((const TruncateStmt *) statement->utilityStmt);
	if (previous_process_utility != NULL)
		previous_process_utility(statement, query, READ_ONLY_TREE context, params, environment,
								 dest, completion);
	else
		standard_ProcessUtility(statement, query, READ_ONLY_TREE context, params, environment, dest,
								completion);
	if (truncates)
	{
		truncating = outer;
		CoverEmptied();
	}
}

/* ---- the next row --------------------------------------------------------------------- */

void
ReadTruncatedRows(const LiveFilter &filter)
{
	ListCell *cell;

	foreach(cell, truncations)
	{
		Truncation *truncation = (Truncation *) lfirst(cell);

		/* If the filter was truncated since, its keys were removed, too. */
		if (!truncation->done && truncation->plan->clause.filter == RelationGetRelid(filter.rel) &&
			IsSameFile(truncation->filter_file, FileNumberOf(filter.rel)) &&
			!EmptyFilterOf(truncation->plan))
			ReadTruncation(truncation, filter);
	}
}

/* ---- ends of transactions ------------------------------------------------------------ */

void
WarnOfTruncatedKeys(void)
{
	ListCell *cell;

	foreach(cell, truncations)
	{
		Truncation *truncation = (Truncation *) lfirst(cell);
		const bool forget = !truncation->done && truncation->plan->options.forget;
		Relation rel = truncation->warn || forget
						   ? RelationIdGetRelation(truncation->plan->clause.filter)
						   : NULL;

		if (!RelationIsValid(rel))
			continue;
		if (IsSameFile(truncation->filter_file, FileNumberOf(rel)) &&
			!(forget && EmptyFilterOf(truncation->plan)) && truncation->warn)
			WarnOfKeys(truncation->heap, truncation->plan);
		RelationClose(rel);
	}
}

void
ForgetTruncations(SubTransactionId id)
{
	ListCell *cell;

	truncating = NIL;
	if (id == TopSubTransactionId)
	{
		truncations = unknown_rows = NIL;
		return;
	}
	foreach(cell, truncations)
		if (((const Truncation *) lfirst(cell))->subid >= id)
			truncations = foreach_delete_current(truncations, cell);
	foreach(cell, unknown_rows)
		if (((const UnknownRows *) lfirst(cell))->subid >= id)
			unknown_rows = foreach_delete_current(unknown_rows, cell);
}

void
InitGuardTruncate(void)
{
	previous_process_utility = ProcessUtility_hook;
	ProcessUtility_hook = GuardProcessUtility;
}
