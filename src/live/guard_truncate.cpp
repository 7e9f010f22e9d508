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
 * Columns of keys that are stored out of line are in the old file of the TOAST table.
 *
 * Where a table was created or truncated in the same subtransaction before, TRUNCATE
 * shortens its file in place. The library is loaded by then, so its rows are read before,
 * in a hook. A worker that applies changes does not call that: there it is known that rows
 * were removed, but not which, and so all keys of the filter may come again.
 */
#include "live/guard.hpp"
#include "pg/keys.hpp"

extern "C" {
#include "access/genam.h"
#include "access/detoast.h"
#include "access/heapam.h"
#include "access/heaptoast.h"
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
#include "replication/logicalworker.h"
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
	bool		has_toast;
	FileLocator toast;			/* that of its TOAST table */
	Oid			after;			/* the number of the empty one */
	bool		permanent;
	TupleDesc	desc;
	const GuardPlan *plan;
	Oid			filter_file;	/* of the filter then */
	bool		warn;			/* when it commits, unless the filter is truncated, too */

	/*
	 * How far its rows have been read: first those whose keys are all in line, up to a
	 * row; then the others, up to a row of the list that begins with a block.
	 */
	BlockNumber block;
	OffsetNumber offset;
	bool		has_external;	/* there are others */
	BlockNumber external_block;
	int			external_noted;
	bool		done;
};

/* Rows were removed under a filter, and nobody knows which. */
struct UnknownRows
{
	Oid			filter;
	SubTransactionId subid;
};

/* A value that is stored out of line, while it is being put together. */
struct ExternalValue
{
	Oid			id;
	struct varlena *value;
	int32		size;			/* of the data behind its header */
};

}							/* namespace */

/* In TopTransactionContext. */
static List *truncations = NIL;

/* Tables whose rows the hook has read before they are truncated in place. */
static List *announced = NIL;

/* In TopTransactionContext, too. */
static List *unknown_rows = NIL;

static ProcessUtility_hook_type previous_process_utility = NULL;

bool
MayBeRemovedRow(Oid filter)
{
	ListCell   *cell;

	foreach(cell, unknown_rows)
		if (((const UnknownRows *) lfirst(cell))->filter == filter)
			return true;
	return false;
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

/* Whether a row was marked as a duplicate, so that its key is another row's. */
static bool
IsMarkedTuple(const GuardPlan *plan, HeapTuple tuple, TupleDesc desc)
{
	bool		isnull;
	Datum		mark;

	if (plan->mode != GuardMode::Mark)
		return false;
	mark = heap_getattr(tuple, plan->clause.mark, desc, &isnull);
	return !isnull && DatumGetBool(mark);
}

/* The columns of a row's key. Returns whether any of them is stored out of line. */
static bool
LoadTuple(const GuardPlan *plan, HeapTuple tuple, TupleDesc desc, NullableDatum *columns)
{
	const GuardClause &clause = plan->clause;
	bool		external = false;

	for (int i = 0; i < clause.columns; i++)
	{
		columns[i].value = heap_getattr(tuple, clause.attnums[i], desc, &columns[i].isnull);
		external = external || (!columns[i].isnull && plan->typlen[i] == -1 &&
								VARATT_IS_EXTERNAL_ONDISK(DatumGetPointer(columns[i].value)));
	}
	return external;
}

/* Makes a deleted row of one that was removed. */
static void
NoteRemovedRow(const GuardPlan *plan, const NullableDatum *columns, dedup::KeySeed seed,
			   SubTransactionId subid)
{
	uint64		hash;

	if (HashColumns(plan->keys, columns, NullKeys::Skip, seed, &hash))
		NoteDeletedRow(plan->clause.filter, hash, subid);
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
 * The file that a table had before this transaction gave it the one that it has, and the
 * command that did. False if it did not.
 */
static bool
FileBefore(Relation heap, FileLocator *file, CommandId *since)
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

		*since = snapshot->curcid = HeapTupleHeaderGetCmin(now->t_data);
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
			 get_rel_relispartition(root) ?
			 errhint("dedup_forget() takes single keys out of the filter.") :
			 errhint("To empty both, use TRUNCATE %s, %s.", QualifiedName(root), QualifiedName(filter))));
}

/* ---- TRUNCATE in place ------------------------------------------------------------ */

/*
 * A worker has removed rows by TRUNCATE that it had inserted in the same transaction. To
 * refuse one of them when it comes again would lose it.
 */
static void
NoteUnknownRows(Relation heap, const GuardPlan *plan)
{
	MemoryContext old;
	UnknownRows *unknown;
	int64		rows = pgstat_track_counts ? 0 : 1;

	if (!IsLogicalWorker() || FileSubid(heap) != GetCurrentSubTransactionId())
		return;
	if (heap->pgstat_info != NULL)
		for (const PgStat_TableXactStatus *level = heap->pgstat_info->trans; level != NULL;
			 level = level->upper)
			rows += level->tuples_inserted;
	if (rows == 0)
		return;
	old = MemoryContextSwitchTo(TopTransactionContext);
	unknown = (UnknownRows *) palloc(sizeof(UnknownRows));
	*unknown = {plan->clause.filter, GetCurrentSubTransactionId()};
	unknown_rows = lappend(unknown_rows, unknown);
	MemoryContextSwitchTo(old);
}

/* Whether the filter got its file by the command that is running, too. */
static bool
IsTruncatedTogether(Relation filter)
{
	FileLocator before;
	CommandId	since;

	return FileBefore(filter, &before, &since) && ActiveSnapshotSet() &&
		since >= GetActiveSnapshot()->curcid;
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
	if (OidIsValid(heap->rd_rel->reltoastrelid))
	{
		Relation	toast = table_open(heap->rd_rel->reltoastrelid, AccessShareLock);
		CommandId	since;

		truncation->has_toast = FileBefore(toast, &truncation->toast, &since);
		table_close(toast, NoLock);
	}
	if (smgrnblocks(OpenFile(before), MAIN_FORKNUM) == 0 || IsTruncatedTogether(filter.rel))
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
	CommandId	since;
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
			NoteUnknownRows(heap, plan);
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
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	TableScanDesc scan = table_beginscan(heap, snapshot, 0, NULL);
	MemoryContext context = AllocSetContextCreateInternal(CurrentMemoryContext, "dedup_guard row",
														  ALLOCSET_DEFAULT_SIZES);
	HeapTuple	tuple;

	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(context);
		NullableDatum columns[INDEX_MAX_KEYS];

		CHECK_FOR_INTERRUPTS();
		LoadTuple(plan, tuple, RelationGetDescr(heap), columns);
		if (!IsMarkedTuple(plan, tuple, RelationGetDescr(heap)))
			NoteRemovedRow(plan, columns, seed, subid);
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

/* ---- reading the old files ---------------------------------------------------------- */

/*
 * Runs visit(tuple) over the rows of a block of a relation's old file that a snapshot sees,
 * from an offset on. The page is not locked then: a pin is enough for its rows to stay.
 */
template <typename Visit>
static void
VisitOldBlock(const FileLocator &file, bool permanent, Oid relid, BlockNumber block,
			  OffsetNumber from, Snapshot snapshot, BufferAccessStrategy strategy, Visit visit)
{
	OffsetNumber visible[MaxHeapTuplesPerPage];
	int			count = 0;
	Buffer		buffer = ReadBufferWithoutRelcache(file, MAIN_FORKNUM, block, RBM_NORMAL, strategy
#if PG_VERSION_NUM >= 150000
												   , permanent
#endif
												   );
	Page		page = BufferGetPage(buffer);
	HeapTupleData tuple;

	tuple.t_tableOid = relid;
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	for (OffsetNumber at = from; !PageIsNew(page) && at <= PageGetMaxOffsetNumber(page) &&
		 count < (int) lengthof(visible); at++)
	{
		ItemId		item = PageGetItemId(page, at);

		if (!ItemIdIsNormal(item))
			continue;
		tuple.t_data = (HeapTupleHeader) PageGetItem(page, item);
		tuple.t_len = ItemIdGetLength(item);
		ItemPointerSet(&tuple.t_self, block, at);
		if (HeapTupleSatisfiesVisibility(&tuple, snapshot, buffer))
			visible[count++] = at;
	}
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	for (int i = 0; i < count; i++)
	{
		ItemId		item = PageGetItemId(page, visible[i]);

		tuple.t_data = (HeapTupleHeader) PageGetItem(page, item);
		tuple.t_len = ItemIdGetLength(item);
		ItemPointerSet(&tuple.t_self, block, visible[i]);
		visit(&tuple);
	}
	ReleaseBuffer(buffer);
}

/* Notes the rows of a block whose keys are in line. */
static void
ReadInlineRows(Truncation *truncation, const LiveFilter &filter, Snapshot snapshot,
			   BufferAccessStrategy strategy, MemoryContext context)
{
	VisitOldBlock(truncation->before, truncation->permanent, truncation->heap, truncation->block,
				  truncation->offset, snapshot, strategy, [&](HeapTuple tuple) {
		MemoryContext old = MemoryContextSwitchTo(context);
		NullableDatum columns[INDEX_MAX_KEYS];

		if (IsMarkedTuple(truncation->plan, tuple, truncation->desc))
			;
		else if (LoadTuple(truncation->plan, tuple, truncation->desc, columns))
			truncation->has_external = true;
		else
			NoteRemovedRow(truncation->plan, columns, filter.key_seed(), truncation->subid);
		truncation->offset = OffsetNumberNext(ItemPointerGetOffsetNumber(&tuple->t_self));
		MemoryContextSwitchTo(old);
		MemoryContextReset(context);
	});
}

static int
CompareExternalValues(const void *left, const void *right)
{
	const Oid	a = ((const ExternalValue *) left)->id;
	const Oid	b = ((const ExternalValue *) right)->id;

	return a < b ? -1 : a > b;
}

/* Puts values together, which are sorted, by reading the TOAST table's old file once. */
static void
ReadExternalValues(const Truncation *truncation, ExternalValue *values, int count,
				   Snapshot snapshot, BufferAccessStrategy strategy)
{
	BlockNumber blocks = smgrnblocks(OpenFile(truncation->toast), MAIN_FORKNUM);
	Relation	heap = RelationIdGetRelation(truncation->heap);
	Relation	toast = NULL;
	TupleDesc	desc;

	/* TOAST tables are alike. */
	if (RelationIsValid(heap) && OidIsValid(heap->rd_rel->reltoastrelid))
		toast = table_open(heap->rd_rel->reltoastrelid, AccessShareLock);
	if (toast == NULL)
		elog(ERROR, "could not find the TOAST table of relation %u", truncation->heap);
	desc = RelationGetDescr(toast);
	for (BlockNumber block = 0; block < blocks; block++)
	{
		CHECK_FOR_INTERRUPTS();
		VisitOldBlock(truncation->toast, truncation->permanent, RelationGetRelid(toast), block,
					  FirstOffsetNumber, snapshot, strategy, [&](HeapTuple tuple) {
			bool		isnull;
			ExternalValue wanted = {};
			ExternalValue *found;
			struct varlena *chunk;
			int64		at;

			wanted.id = DatumGetObjectId(heap_getattr(tuple, 1, desc, &isnull));
			found = (ExternalValue *) bsearch(&wanted, values, count, sizeof(ExternalValue),
											  CompareExternalValues);
			if (found == NULL)
				return;
			at = DatumGetInt32(heap_getattr(tuple, 2, desc, &isnull)) * (int64) TOAST_MAX_CHUNK_SIZE;
			chunk = (struct varlena *) DatumGetPointer(heap_getattr(tuple, 3, desc, &isnull));
			if (at < 0 || at + (int64) VARSIZE_ANY_EXHDR(chunk) > found->size)
				ereport(ERROR,
						(errcode(ERRCODE_DATA_CORRUPTED),
						 errmsg("unexpected chunk of TOAST value %u in %s", found->id,
								RelationGetRelationName(toast))));
			memcpy(VARDATA(found->value) + at, VARDATA_ANY(chunk), VARSIZE_ANY_EXHDR(chunk));
		});
	}
	table_close(toast, NoLock);
	RelationClose(heap);
}

/* Rows whose keys are stored out of line, in part, that are read together. */
constexpr int EXTERNAL_ROWS = 1024;

/*
 * Notes rows with a key that is stored out of line, some at a time: those of one block or
 * more, until they are many or long.
 */
static void
ReadExternalRows(Truncation *truncation, BlockNumber blocks, const LiveFilter &filter,
				 Snapshot snapshot, BufferAccessStrategy strategy, MemoryContext context)
{
	const GuardPlan *plan = truncation->plan;
	const Size	most = (Size) work_mem * 1024;
	MemoryContext old = MemoryContextSwitchTo(context);
	List	   *rows = NIL;
	Size		bytes = 0;
	int			room = 64;
	int			count = 0;
	int			at = 0;
	ExternalValue *values = (ExternalValue *) palloc(sizeof(ExternalValue) * room);
	BlockNumber block = truncation->external_block;
	ListCell   *cell;

	for (; block < blocks && bytes < most && list_length(rows) < EXTERNAL_ROWS; block++)
	{
		CHECK_FOR_INTERRUPTS();
		VisitOldBlock(truncation->before, truncation->permanent, truncation->heap, block,
					  FirstOffsetNumber, snapshot, strategy, [&](HeapTuple tuple) {
			NullableDatum columns[INDEX_MAX_KEYS];

			if (IsMarkedTuple(plan, tuple, truncation->desc) ||
				!LoadTuple(plan, tuple, truncation->desc, columns))
				return;
			rows = lappend(rows, heap_copytuple(tuple));
			for (int i = 0; i < plan->clause.columns; i++)
			{
				struct varatt_external pointer;
				ExternalValue *value;

				if (columns[i].isnull || plan->typlen[i] != -1 ||
					!VARATT_IS_EXTERNAL_ONDISK(DatumGetPointer(columns[i].value)))
					continue;
				VARATT_EXTERNAL_GET_POINTER(pointer, DatumGetPointer(columns[i].value));
				if (count == room)
				{
					room *= 2;
					values = (ExternalValue *) repalloc(values, sizeof(ExternalValue) * room);
				}
				value = &values[count++];
				value->id = pointer.va_valueid;
#if PG_VERSION_NUM >= 140000
				value->size = (int32) VARATT_EXTERNAL_GET_EXTSIZE(pointer);
#else
				value->size = pointer.va_extsize;
#endif
				value->value = (struct varlena *) palloc0(value->size + VARHDRSZ);
				if (value->size < pointer.va_rawsize - (int32) VARHDRSZ)	/* compressed */
					SET_VARSIZE_COMPRESSED(value->value, value->size + VARHDRSZ);
				else
					SET_VARSIZE(value->value, value->size + VARHDRSZ);
				bytes += value->size;
			}
		});
	}
	qsort(values, count, sizeof(ExternalValue), CompareExternalValues);
	if (count > 0)
		ReadExternalValues(truncation, values, count, snapshot, strategy);
	foreach(cell, rows)
	{
		NullableDatum columns[INDEX_MAX_KEYS];

		if (at++ < truncation->external_noted)
			continue;
		LoadTuple(plan, (HeapTuple) lfirst(cell), truncation->desc, columns);
		for (int i = 0; i < plan->clause.columns; i++)
		{
			struct varatt_external pointer;
			ExternalValue wanted = {};
			const ExternalValue *found;

			if (columns[i].isnull || plan->typlen[i] != -1 ||
				!VARATT_IS_EXTERNAL_ONDISK(DatumGetPointer(columns[i].value)))
				continue;
			VARATT_EXTERNAL_GET_POINTER(pointer, DatumGetPointer(columns[i].value));
			wanted.id = pointer.va_valueid;
			found = (const ExternalValue *) bsearch(&wanted, values, count, sizeof(ExternalValue),
													CompareExternalValues);
			columns[i].value = PointerGetDatum(found->value);
		}
		NoteRemovedRow(plan, columns, filter.key_seed(), truncation->subid);
		truncation->external_noted = at;
	}
	truncation->external_block = block;
	truncation->external_noted = 0;
	MemoryContextSwitchTo(old);
	MemoryContextReset(context);
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
		ReadInlineRows(truncation, filter, snapshot, strategy, context);
		truncation->block++;
		truncation->offset = FirstOffsetNumber;
	}
	while (truncation->has_external && truncation->has_toast && truncation->external_block < blocks)
		ReadExternalRows(truncation, blocks, filter, snapshot, strategy, context);
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
	ListCell   *cell;

	announced = NIL;
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
