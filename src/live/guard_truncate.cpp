/*
 * Rows that TRUNCATE removes from guarded tables: the same transaction may insert them
 * again, as it may those that it deletes.
 *
 * Triggers on TRUNCATE are not cloned to partitions, and no hook is called in a session
 * that has not loaded the library. But a table's indexes are built anew when it is
 * truncated, the guard's too: that is the event. The table has a new, empty file then, and
 * the old one stays until the transaction commits. So TRUNCATE only makes a note of the
 * old file, and costs no more than without a guard; the first row that the transaction
 * inserts under the same filter then reads that file once, for the keys in it.
 *
 * Where a table was created or truncated in the same subtransaction before, TRUNCATE
 * shortens its file in place. The library is loaded by then, so its rows are read before,
 * in a hook. A worker that applies changes does not call that; there the number of rows
 * is known, but not their keys.
 */
#include "live/guard.hpp"
#include "pg/keys.hpp"

extern "C" {
#include "access/genam.h"
#include "access/heapam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/heap.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_am.h"
#include "catalog/pg_trigger.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "storage/bufpage.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "storage/smgr.h"
#include "tcop/utility.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
}

#if PG_VERSION_NUM >= 160000
typedef RelFileLocator FileLocator;
#define FileNumberOf(rel) ((rel)->rd_locator.relNumber)
#define FileSubid(rel) ((rel)->rd_newRelfilelocatorSubid)
#define SetFile(file, space, db, number) \
	((file)->spcOid = (space), (file)->dbOid = (db), (file)->relNumber = (number))
#else
typedef RelFileNode FileLocator;
#define FileNumberOf(rel) ((rel)->rd_node.relNode)
#define FileSubid(rel) ((rel)->rd_newRelfilenodeSubid)
#define SetFile(file, space, db, number) \
	((file)->spcNode = (space), (file)->dbNode = (db), (file)->relNode = (number))
#endif

#if PG_VERSION_NUM >= 170000
#define OpenFile(file) smgropen((file), INVALID_PROC_NUMBER)
#else
#define OpenFile(file) smgropen((file), InvalidBackendId)
#endif

namespace
{

/* A guarded table that this transaction has truncated. */
struct Truncation
{
	SubTransactionId subid;
	Oid			heap;
	FileLocator before;			/* the file with its rows */
	Oid			after;			/* the number of the empty one */
	bool		permanent;
	TupleDesc	desc;
	const GuardPlan *plan;
	Oid			filter_file;	/* of the filter then */
	bool		warn;			/* when it commits, unless the filter is truncated, too */

	/* Up to here its rows have been read. */
	BlockNumber block;
	OffsetNumber offset;
	bool		done;
};

}							/* namespace */

/* In TopTransactionContext. */
static List *truncations = NIL;

/* Tables whose rows the hook has read before they are truncated in place. */
static List *announced = NIL;

/* Whether any row was removed whose key could not be read. */
static bool have_unreadable = false;

static ProcessUtility_hook_type previous_process_utility = NULL;

/* What stands for the key of a row that could not be read. */
static constexpr uint64 UNREADABLE = UINT64CONST(0x756E7265616461);

bool
UseUnreadableRow(Oid filter, DeletedRowUse *use)
{
	return unlikely(have_unreadable) && UseDeletedRow(filter, UNREADABLE, use);
}

static void
NoteUnreadable(Oid filter, SubTransactionId subid)
{
	NoteDeletedRow(filter, UNREADABLE, subid);
	have_unreadable = true;
}

/* ---- the guard of a table ---------------------------------------------------- */

/* The plan of the table's guard, if it has one whose triggers fire just now; or NULL. */
static const GuardPlan *
FiringGuard(Relation heap)
{
	const TriggerDesc *triggers = heap->trigdesc;

	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
	{
		const Trigger *trigger = &triggers->triggers[i];
		Oid			function = trigger->tgfoid;

		if (!TRIGGER_FOR_DELETE(trigger->tgtype) || !GuardTriggerFires(trigger->tgenabled) ||
			!IsGuardTriggerFunction(function))
			continue;
		return FindGuardPlan(heap, function);
	}
	return NULL;
}

static dedup::KeySeed
SeedOf(Oid filter)
{
	LiveFilter	live = OpenLiveUnchecked(filter, AccessShareLock);
	dedup::KeySeed seed = live.key_seed();

	CloseLive(live);
	return seed;
}

/* Makes a deleted row of one that was removed. */
static void
NoteRemovedRow(const GuardPlan *plan, HeapTuple tuple, TupleDesc desc, dedup::KeySeed seed,
			   SubTransactionId subid, bool readable)
{
	const GuardClause &clause = plan->clause;
	NullableDatum columns[INDEX_MAX_KEYS];
	uint64		hash;

	if (plan->mode == GuardMode::Mark)
	{
		bool		isnull;
		Datum		mark = heap_getattr(tuple, clause.mark, desc, &isnull);

		if (!isnull && DatumGetBool(mark))
			return;
	}
	for (int i = 0; i < clause.columns; i++)
	{
		columns[i].value = heap_getattr(tuple, clause.attnums[i], desc, &columns[i].isnull);
		if (columns[i].isnull)
			return;
		/* What is stored out of line was truncated with the table. */
		if (!readable && plan->typlen[i] == -1 &&
			VARATT_IS_EXTERNAL_ONDISK(DatumGetPointer(columns[i].value)))
		{
			NoteUnreadable(clause.filter, subid);
			return;
		}
	}
	if (HashColumns(plan->keys, columns, NullKeys::Skip, seed, &hash))
		NoteDeletedRow(clause.filter, hash, subid);
}

/* ---- TRUNCATE that gives the table a new file ---------------------------------- */

/* The row of pg_class of a relation as a snapshot sees it; a copy, or NULL. */
static HeapTuple
ReadClass(Oid relid, Snapshot snapshot)
{
	Relation	catalog = table_open(RelationRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

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
 * The file that a table had before this transaction gave it the one that it has. False if
 * it did not.
 */
static bool
FileBefore(Relation heap, FileLocator *file)
{
	HeapTuple	now = ReadClass(RelationGetRelid(heap), SnapshotSelf);
	bool		found = false;

	if (!HeapTupleIsValid(now))
		return false;
	if (TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(now->t_data)))
	{
		/* What the commands before that one have left. */
		Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
		HeapTuple	before;

		snapshot->curcid = HeapTupleHeaderGetCmin(now->t_data);
		before = ReadClass(RelationGetRelid(heap), snapshot);
		UnregisterSnapshot(snapshot);
		if (HeapTupleIsValid(before))
		{
			Form_pg_class form = (Form_pg_class) GETSTRUCT(before);

			SetFile(file, OidIsValid(form->reltablespace) ? form->reltablespace : MyDatabaseTableSpace,
					MyDatabaseId, form->relfilenode);
			found = OidIsValid(form->relfilenode) && form->relfilenode != FileNumberOf(heap);
			heap_freetuple(before);
		}
	}
	heap_freetuple(now);
	return found;
}

static bool
HoldsExclusively(Oid relid)
{
	LOCKTAG		tag;

	SET_LOCKTAG_RELATION(tag, MyDatabaseId, relid);
#if PG_VERSION_NUM >= 170000
	return LockHeldByMe(&tag, AccessExclusiveLock, false);
#else
	return LockHeldByMe(&tag, AccessExclusiveLock);
#endif
}

static char *
QualifiedName(Oid relid)
{
	return quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)),
									  get_rel_name(relid));
}

/*
 * Says once a statement that the filter keeps the keys. Of a whole partitioned table that
 * is truncated only the table itself is named.
 */
static void
WarnOfKeys(Oid table, Oid filter)
{
	static TimestampTz warned_at;
	static Oid	warned_table;
	static Oid	warned_filter;
	Relation	rel = RelationIdGetRelation(table);
	Oid			root = table;

	if (RelationIsValid(rel))
	{
		Oid			above = RootOfPartition(rel);

		if (above != table && HoldsExclusively(above))
			root = above;
		RelationClose(rel);
	}
	if (get_rel_name(root) == NULL || get_rel_name(filter) == NULL ||
		(warned_at == GetCurrentStatementStartTimestamp() && warned_table == root &&
		 warned_filter == filter))
		return;
	warned_at = GetCurrentStatementStartTimestamp();
	warned_table = root;
	warned_filter = filter;
	ereport(WARNING,
			(errmsg("live filter \"%s\" still has the keys of the rows that were removed from \"%s\"",
					get_rel_name(filter), get_rel_name(root)),
			 errdetail("This transaction may insert the removed rows again. After it their keys are duplicates."),
			 errhint("To empty both, use TRUNCATE %s, %s.", QualifiedName(root), QualifiedName(filter))));
}

/* ---- TRUNCATE in place ------------------------------------------------------------ */

/*
 * Rows that a worker has inserted and removed again by TRUNCATE in one transaction: their
 * keys are not known, only how many they are.
 */
static void
NoteRowsWithoutKeys(Relation heap, const GuardPlan *plan)
{
	int64		rows = 0;

	if (heap->pgstat_info == NULL)
	{
		if (!pgstat_track_counts && FileSubid(heap) == GetCurrentSubTransactionId())
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("cannot truncate the guarded table \"%s\" twice in one transaction",
							RelationGetRelationName(heap)),
					 errdetail("The rows that this transaction has inserted into it would be lost."),
					 errhint("Set track_counts to on.")));
		return;
	}
	for (const PgStat_TableXactStatus *level = heap->pgstat_info->trans; level != NULL;
		 level = level->upper)
		rows += level->tuples_inserted - level->tuples_deleted;
	for (; rows > 0; rows--)
		NoteUnreadable(plan->clause.filter, GetCurrentSubTransactionId());
}

static void
NoteTruncation(Relation heap, const GuardPlan *plan, const FileLocator &before)
{
	MemoryContext old = MemoryContextSwitchTo(TopTransactionContext);
	Truncation *truncation = (Truncation *) palloc0(sizeof(Truncation));
	LiveFilter	filter = OpenLiveUnchecked(plan->clause.filter, AccessShareLock);

	truncation->subid = GetCurrentSubTransactionId();
	truncation->heap = RelationGetRelid(heap);
	truncation->before = before;
	truncation->after = FileNumberOf(heap);
	truncation->permanent = heap->rd_rel->relpersistence == RELPERSISTENCE_PERMANENT;
	truncation->desc = CreateTupleDescCopyConstr(RelationGetDescr(heap));
	truncation->plan = plan;
	truncation->filter_file = FileNumberOf(filter.rel);
	truncation->offset = FirstOffsetNumber;
	if (smgrnblocks(OpenFile(before), MAIN_FORKNUM) == 0)
		truncation->done = true;
	else
		truncation->warn = HoldsExclusively(plan->clause.filter);
	truncations = lappend(truncations, truncation);
	MemoryContextSwitchTo(old);
	CloseLive(filter);

	/* TRUNCATE has locked all of its tables; the filter may be one that is to come. */
	if (!truncation->done && !truncation->warn)
		WarnOfKeys(truncation->heap, plan->clause.filter);
}

void
GuardIndexBuilt(Relation heap)
{
	const GuardPlan *plan;
	FileLocator before;
	ListCell   *cell;

	if (heap->rd_rel->relkind != RELKIND_RELATION || heap->rd_rel->relam != HEAP_TABLE_AM_OID ||
		!IsTransactionState() || RelationGetNumberOfBlocks(heap) != 0)
		return;
	plan = FiringGuard(heap);
	if (plan == NULL || !IsLiveRelationId(plan->clause.filter))
		return;
	if (list_member_oid(announced, RelationGetRelid(heap)))
	{
		announced = list_delete_oid(announced, RelationGetRelid(heap));
		return;
	}
	foreach(cell, truncations)
	{
		const Truncation *truncation = (const Truncation *) lfirst(cell);

		if (truncation->heap == RelationGetRelid(heap) && truncation->after == FileNumberOf(heap))
		{
			NoteRowsWithoutKeys(heap, plan);
			return;
		}
	}
	if (FileBefore(heap, &before))
		NoteTruncation(heap, plan, before);
	else
		NoteRowsWithoutKeys(heap, plan);
}

/* Reads the rows of a table that is about to be truncated in place. */
static void
ReadBeforeTruncate(Relation heap, const GuardPlan *plan)
{
	const SubTransactionId subid = GetCurrentSubTransactionId();
	const dedup::KeySeed seed = SeedOf(plan->clause.filter);
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	TableScanDesc scan = table_beginscan(heap, snapshot, 0, NULL);
	MemoryContext context = AllocSetContextCreateInternal(CurrentMemoryContext, "dedup_guard row",
														  ALLOCSET_DEFAULT_SIZES);
	HeapTuple	tuple;

	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(context);

		CHECK_FOR_INTERRUPTS();
		NoteRemovedRow(plan, tuple, RelationGetDescr(heap), seed, subid, true);
		MemoryContextSwitchTo(old);
		MemoryContextReset(context);
	}
	table_endscan(scan);
	UnregisterSnapshot(snapshot);
	MemoryContextDelete(context);
}

/*
 * TRUNCATE works in place on tables that this subtransaction has created or truncated, so
 * it has locked them exclusively before.
 */
static void
BeforeTruncate(const TruncateStmt *statement)
{
	const SubTransactionId subid = GetCurrentSubTransactionId();
	List	   *tables = NIL;
	ListCell   *cell;

	foreach(cell, statement->relations)
	{
		const RangeVar *name = (const RangeVar *) lfirst(cell);
		Oid			relid = RangeVarGetRelid(name, NoLock, true);

		if (!OidIsValid(relid))
			continue;
		tables = list_concat_unique_oid(tables, name->inh ?
										find_all_inheritors(relid, NoLock, NULL) :
										list_make1_oid(relid));
	}
	if (statement->behavior == DROP_CASCADE)
		for (List *more; (more = heap_truncate_find_FKs(tables)) != NIL;)
			tables = list_concat_unique_oid(tables, more);
	foreach(cell, tables)
	{
		Relation	heap = RelationIdGetRelation(lfirst_oid(cell));
		const GuardPlan *plan;

		if (!RelationIsValid(heap))
			continue;
		if (heap->rd_rel->relkind == RELKIND_RELATION &&
			(heap->rd_createSubid == subid || FileSubid(heap) == subid) &&
			HoldsExclusively(RelationGetRelid(heap)) &&
			(plan = FiringGuard(heap)) != NULL && IsLiveRelationId(plan->clause.filter))
		{
			MemoryContext old;

			ReadBeforeTruncate(heap, plan);
			old = MemoryContextSwitchTo(TopTransactionContext);
			announced = lappend_oid(announced, lfirst_oid(cell));
			MemoryContextSwitchTo(old);
		}
		RelationClose(heap);
	}
}

static void
GuardProcessUtility(PlannedStmt *statement, const char *query,
#if PG_VERSION_NUM >= 140000
					bool read_only_tree,
#endif
					ProcessUtilityContext context, ParamListInfo params,
					QueryEnvironment *environment, DestReceiver *dest, QueryCompletion *completion)
{
	bool		truncates = IsA(statement->utilityStmt, TruncateStmt);

	if (truncates)
		BeforeTruncate((const TruncateStmt *) statement->utilityStmt);
	if (previous_process_utility != NULL)
		previous_process_utility(statement, query,
#if PG_VERSION_NUM >= 140000
								 read_only_tree,
#endif
								 context, params, environment, dest, completion);
	else
		standard_ProcessUtility(statement, query,
#if PG_VERSION_NUM >= 140000
								read_only_tree,
#endif
								context, params, environment, dest, completion);
	if (truncates)
		announced = NIL;
}

/* ---- reading the old file --------------------------------------------------------- */

static void
ReadTruncatedBlock(Truncation *truncation, const LiveFilter &filter, Snapshot snapshot,
				   BufferAccessStrategy strategy, MemoryContext context)
{
	OffsetNumber visible[MaxHeapTuplesPerPage];
	int			count = 0;
	Buffer		buffer = ReadBufferWithoutRelcache(truncation->before, MAIN_FORKNUM,
												   truncation->block, RBM_NORMAL, strategy
#if PG_VERSION_NUM >= 150000
												   , truncation->permanent
#endif
												   );
	Page		page = BufferGetPage(buffer);
	HeapTupleData tuple;

	/* Keys are hashed with the page unlocked; a pin is enough for its rows to stay. */
	tuple.t_tableOid = truncation->heap;
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	for (OffsetNumber at = truncation->offset;
		 !PageIsNew(page) && at <= PageGetMaxOffsetNumber(page) && count < (int) lengthof(visible); at++)
	{
		ItemId		item = PageGetItemId(page, at);

		if (!ItemIdIsNormal(item))
			continue;
		tuple.t_data = (HeapTupleHeader) PageGetItem(page, item);
		tuple.t_len = ItemIdGetLength(item);
		ItemPointerSet(&tuple.t_self, truncation->block, at);
		if (HeapTupleSatisfiesVisibility(&tuple, snapshot, buffer))
			visible[count++] = at;
	}
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	for (int i = 0; i < count; i++)
	{
		ItemId		item = PageGetItemId(page, visible[i]);
		MemoryContext old = MemoryContextSwitchTo(context);

		tuple.t_data = (HeapTupleHeader) PageGetItem(page, item);
		tuple.t_len = ItemIdGetLength(item);
		ItemPointerSet(&tuple.t_self, truncation->block, visible[i]);
		NoteRemovedRow(truncation->plan, &tuple, truncation->desc, filter.key_seed(),
					   truncation->subid, false);
		truncation->offset = OffsetNumberNext(visible[i]);
		MemoryContextSwitchTo(old);
		MemoryContextReset(context);
	}
	ReleaseBuffer(buffer);
}

/* If this fails within a subtransaction, it goes on later from where it was. */
static void
ReadTruncation(Truncation *truncation, const LiveFilter &filter)
{
	BlockNumber blocks = smgrnblocks(OpenFile(truncation->before), MAIN_FORKNUM);
	BufferAccessStrategy strategy = GetAccessStrategy(BAS_BULKREAD);
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	MemoryContext context = AllocSetContextCreateInternal(CurrentMemoryContext, "dedup_guard row",
														  ALLOCSET_DEFAULT_SIZES);

	while (truncation->block < blocks)
	{
		CHECK_FOR_INTERRUPTS();
		ReadTruncatedBlock(truncation, filter, snapshot, strategy, context);
		truncation->block++;
		truncation->offset = FirstOffsetNumber;
	}
	truncation->done = true;
	MemoryContextDelete(context);
	UnregisterSnapshot(snapshot);
	FreeAccessStrategy(strategy);
}

void
ReadTruncatedRows(const LiveFilter &filter)
{
	ListCell   *cell;

	foreach(cell, truncations)
	{
		Truncation *truncation = (Truncation *) lfirst(cell);

		/* If the filter was truncated since, its keys went along. */
		if (!truncation->done && truncation->plan->clause.filter == RelationGetRelid(filter.rel) &&
			IsSameFile(truncation->filter_file, FileNumberOf(filter.rel)))
			ReadTruncation(truncation, filter);
	}
}

/* ---- ends of transactions ------------------------------------------------------------ */

void
WarnOfTruncatedKeys(void)
{
	ListCell   *cell;

	foreach(cell, truncations)
	{
		Truncation *truncation = (Truncation *) lfirst(cell);
		Relation	rel = truncation->warn ?
			RelationIdGetRelation(truncation->plan->clause.filter) : NULL;

		if (!RelationIsValid(rel))
			continue;
		if (IsSameFile(truncation->filter_file, FileNumberOf(rel)))
			WarnOfKeys(truncation->heap, truncation->plan->clause.filter);
		RelationClose(rel);
	}
}

void
ForgetTruncations(SubTransactionId id)
{
	announced = NIL;
	if (id == TopSubTransactionId || id == InvalidSubTransactionId)
	{
		truncations = NIL;
		have_unreadable = false;
	}
	else if (truncations != NIL)
	{
		ListCell   *cell;

		foreach(cell, truncations)
			if (((const Truncation *) lfirst(cell))->subid >= id)
				truncations = foreach_delete_current(truncations, cell);
	}
}

void
InitGuardTruncate(void)
{
	previous_process_utility = ProcessUtility_hook;
	ProcessUtility_hook = GuardProcessUtility;
}
