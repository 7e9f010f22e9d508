/*
 * Reads the rows that a TRUNCATE has removed, from the former files of the table and its TOAST
 * table. These are kept until the transaction commits.
 */
#include "guard/truncation.hpp"
#include "pg/keys.hpp"

extern "C" {
#include "access/detoast.h"
#include "access/heapam.h"
#include "access/heaptoast.h"
#include "access/table.h"
#include "storage/bufmgr.h"
#include "storage/bufpage.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
}

namespace
{

/* A value that is stored out of line, while it is being read. */
struct ExternalValue
{
	Oid id;
	struct varlena *value;
	int32 size; /* of the data behind its header */
};

} /* namespace */

/* ---- rows --------------------------------------------------------------------------- */

bool
IsMarkedTuple(const GuardPlan *plan, HeapTuple tuple, TupleDesc desc)
{
	bool isnull;
	Datum mark;

	if (plan->mode != GuardMode::Mark)
		return false;
	mark = heap_getattr(tuple, plan->clause.mark, desc, &isnull);
	return !isnull && DatumGetBool(mark);
}

/* Returns whether a value is stored out of line, and reads its pointer. */
static bool
IsExternal(TupleDesc desc, AttrNumber attnum, const NullableDatum &value,
		   struct varatt_external *pointer)
{
	if (value.isnull || TupleDescAttr(desc, attnum - 1)->attlen != -1 ||
		!VARATT_IS_EXTERNAL_ONDISK(DatumGetPointer(value.value)))
		return false;
	VARATT_EXTERNAL_GET_POINTER(*pointer, DatumGetPointer(value.value));
	return true;
}

bool
LoadTuple(const GuardPlan *plan, HeapTuple tuple, TupleDesc desc, NullableDatum *used)
{
	const GuardClause &clause = plan->clause;
	bool external = false;

	for (int i = 0; i < clause.used_count; i++)
	{
		struct varatt_external pointer;

		used[i].value = heap_getattr(tuple, clause.used[i], desc, &used[i].isnull);
		external = IsExternal(desc, clause.used[i], used[i], &pointer) || external;
	}
	return external;
}

void
NoteRemovedRow(const GuardPlan *plan, const KeyReader &reader, TupleDesc desc,
			   const NullableDatum *used, dedup::KeySeed seed, SubTransactionId subid)
{
	GuardKey key;
	uint64 hash;

	ReadUsedColumns(reader, desc, used, &key);
	if (HashGuardKey(plan, key, seed, &hash))
		NoteDeletedRow(plan->clause.filter, hash, subid);
}

/* ---- reading the old files ---------------------------------------------------------- */

/*
 * Runs visit(tuple) over the rows of a block of a relation's old file that a snapshot sees, from an
 * offset on. The page is not locked during visit: a pin is enough to keep its rows.
 */
template <typename Visit>
static void
VisitOldBlock(const FileLocator &file, bool permanent, Oid relid, BlockNumber block,
			  OffsetNumber from, Snapshot snapshot, BufferAccessStrategy strategy, Visit visit)
{
	OffsetNumber visible[MaxHeapTuplesPerPage];
	int count = 0;
	Buffer buffer = READ_FILE_BUFFER(file, block, strategy, permanent);
	Page page = BufferGetPage(buffer);
	HeapTupleData tuple;

	tuple.t_tableOid = relid;
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	for (OffsetNumber at = from;
		 !PageIsNew(page) && at <= PageGetMaxOffsetNumber(page) && count < (int) lengthof(visible);
		 at++)
	{
		ItemId item = PageGetItemId(page, at);

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
		ItemId item = PageGetItemId(page, visible[i]);

		tuple.t_data = (HeapTupleHeader) PageGetItem(page, item);
		tuple.t_len = ItemIdGetLength(item);
		ItemPointerSet(&tuple.t_self, block, visible[i]);
		visit(&tuple);
	}
	ReleaseBuffer(buffer);
}

bool
HasTruncatedRows(const Truncation *truncation)
{
	BlockNumber blocks = smgrnblocks(OpenFile(truncation->before), MAIN_FORKNUM);
	BufferAccessStrategy strategy = GetAccessStrategy(BAS_BULKREAD);
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	bool found = false;

	for (BlockNumber block = 0; block < blocks && !found; block++)
	{
		CHECK_FOR_INTERRUPTS();
		VisitOldBlock(truncation->before, truncation->permanent, truncation->heap, block,
					  FirstOffsetNumber, snapshot, strategy, [&](HeapTuple) { found = true; });
	}
	UnregisterSnapshot(snapshot);
	FreeAccessStrategy(strategy);
	return found;
}

/* Notes the rows of a block whose keys are in line. */
static void
ReadInlineRows(Truncation *truncation, const KeyReader &reader, const LiveFilter &filter,
			   Snapshot snapshot, BufferAccessStrategy strategy, MemoryContext context)
{
	VisitOldBlock(truncation->before, truncation->permanent, truncation->heap, truncation->block,
				  truncation->offset, snapshot, strategy, [&](HeapTuple tuple) {
					  MemoryContext old = MemoryContextSwitchTo(context);
					  NullableDatum used[INDEX_MAX_KEYS];

					  if (IsMarkedTuple(truncation->plan, tuple, truncation->desc))
						  ;
					  else if (LoadTuple(truncation->plan, tuple, truncation->desc, used))
						  truncation->has_external = true;
					  else
						  NoteRemovedRow(truncation->plan, reader, truncation->desc, used,
										 filter.key_seed(), truncation->subid);
					  truncation->offset =
						  OffsetNumberNext(ItemPointerGetOffsetNumber(&tuple->t_self));
					  MemoryContextSwitchTo(old);
					  MemoryContextReset(context);
				  });
}

static int
CompareExternalValues(const void *left, const void *right)
{
	const Oid a = ((const ExternalValue *) left)->id;
	const Oid b = ((const ExternalValue *) right)->id;

	return a < b ? -1 : a > b;
}

/* Reads values, which are sorted, by scanning the TOAST table's old file once. */
static void
ReadExternalValues(const Truncation *truncation, ExternalValue *values, int count,
				   Snapshot snapshot, BufferAccessStrategy strategy)
{
	BlockNumber blocks = smgrnblocks(OpenFile(truncation->toast), MAIN_FORKNUM);
	TupleDesc desc = CreateTemplateTupleDesc(3);

	/* All TOAST tables have the same columns. */
	TupleDescInitEntry(desc, 1, "chunk_id", OIDOID, -1, 0);
	TupleDescInitEntry(desc, 2, "chunk_seq", INT4OID, -1, 0);
	TupleDescInitEntry(desc, 3, "chunk_data", BYTEAOID, -1, 0);
	for (BlockNumber block = 0; block < blocks; block++)
	{
		CHECK_FOR_INTERRUPTS();
		VisitOldBlock(
			truncation->toast, truncation->permanent, truncation->toast_table, block,
			FirstOffsetNumber, snapshot, strategy, [&](HeapTuple tuple) {
				bool isnull;
				ExternalValue wanted = {};
				ExternalValue *found;
				struct varlena *chunk;
				int64 at;

				wanted.id = DatumGetObjectId(heap_getattr(tuple, 1, desc, &isnull));
				found = (ExternalValue *) bsearch(&wanted, values, count, sizeof(ExternalValue),
												  CompareExternalValues);
				if (found == NULL)
					return;
				at = DatumGetInt32(heap_getattr(tuple, 2, desc, &isnull)) *
					 (int64) TOAST_MAX_CHUNK_SIZE;
				chunk = (struct varlena *) DatumGetPointer(heap_getattr(tuple, 3, desc, &isnull));
				if (at < 0 || at + (int64) VARSIZE_ANY_EXHDR(chunk) > found->size)
					ereport(
						ERROR,
						(errcode(ERRCODE_DATA_CORRUPTED),
						 errmsg(
							 "unexpected chunk of TOAST value %u in the former file of relation %u",
							 found->id, truncation->toast_table)));
				memcpy(VARDATA(found->value) + at, VARDATA_ANY(chunk), VARSIZE_ANY_EXHDR(chunk));
			});
	}
}

/* The number of rows with out-of-line parts of their keys that are read together. */
constexpr int EXTERNAL_ROWS = 1024;

namespace
{

struct ExternalBatch
{
	List *rows; /* copies of their tuples */
	ExternalValue *values;
	int room;
	int count;
	Size bytes; /* of the values */
};

} /* namespace */

/* Adds a value that must be read. */
static void
AddExternalValue(ExternalBatch *batch, const struct varatt_external &pointer)
{
	ExternalValue *value;

	if (batch->count == batch->room)
	{
		batch->room *= 2;
		batch->values =
			(ExternalValue *) repalloc(batch->values, sizeof(ExternalValue) * batch->room);
	}
	value = &batch->values[batch->count++];
	value->id = pointer.va_valueid;
	value->size = EXTERNAL_SIZE(pointer);
	value->value = (struct varlena *) palloc0(value->size + VARHDRSZ);
	if (value->size < pointer.va_rawsize - (int32) VARHDRSZ) /* the value is compressed */
		SET_VARSIZE_COMPRESSED(value->value, value->size + VARHDRSZ);
	else
		SET_VARSIZE(value->value, value->size + VARHDRSZ);
	batch->bytes += value->size;
}

/* Collects the rows of a block with a key that is stored out of line. */
static void
CollectExternalRows(const Truncation *truncation, BlockNumber block, Snapshot snapshot,
					BufferAccessStrategy strategy, ExternalBatch *batch)
{
	const GuardPlan *plan = truncation->plan;

	VisitOldBlock(truncation->before, truncation->permanent, truncation->heap, block,
				  FirstOffsetNumber, snapshot, strategy, [&](HeapTuple tuple) {
					  NullableDatum used[INDEX_MAX_KEYS];

					  if (IsMarkedTuple(plan, tuple, truncation->desc) ||
						  !LoadTuple(plan, tuple, truncation->desc, used))
						  return;
					  batch->rows = lappend(batch->rows, heap_copytuple(tuple));
					  for (int i = 0; i < plan->clause.used_count; i++)
					  {
						  struct varatt_external pointer;

						  if (IsExternal(truncation->desc, plan->clause.used[i], used[i], &pointer))
							  AddExternalValue(batch, pointer);
					  }
				  });
}

/* Notes the rows of a batch whose values were read, except those that are noted already. */
static void
NoteExternalRows(Truncation *truncation, const KeyReader &reader, const LiveFilter &filter,
				 const ExternalBatch *batch)
{
	const GuardPlan *plan = truncation->plan;
	int at = 0;
	ListCell *cell;

	foreach(cell, batch->rows)
	{
		NullableDatum used[INDEX_MAX_KEYS];

		if (at++ < truncation->external_noted)
			continue;
		LoadTuple(plan, (HeapTuple) lfirst(cell), truncation->desc, used);
		for (int i = 0; i < plan->clause.used_count; i++)
		{
			struct varatt_external pointer;
			ExternalValue wanted = {};
			const ExternalValue *found;

			if (!IsExternal(truncation->desc, plan->clause.used[i], used[i], &pointer))
				continue;
			wanted.id = pointer.va_valueid;
			found = (const ExternalValue *) bsearch(&wanted, batch->values, batch->count,
													sizeof(ExternalValue), CompareExternalValues);
			Assert(found != NULL);
			used[i].value = PointerGetDatum(found->value);
		}
		NoteRemovedRow(plan, reader, truncation->desc, used, filter.key_seed(), truncation->subid);
		truncation->external_noted = at;
	}
}

/*
 * Notes rows with a key that is stored out of line, a batch at a time: those of one block or more,
 * until there are many or they are long.
 */
static void
ReadExternalRows(Truncation *truncation, BlockNumber blocks, const KeyReader &reader,
				 const LiveFilter &filter, Snapshot snapshot, BufferAccessStrategy strategy,
				 MemoryContext context)
{
	const Size most = (Size) work_mem * 1024;
	MemoryContext old = MemoryContextSwitchTo(context);
	ExternalBatch batch = {NIL, NULL, 64, 0, 0};
	BlockNumber block = truncation->external_block;

	batch.values = (ExternalValue *) palloc(sizeof(ExternalValue) * batch.room);
	for (; block < blocks && batch.bytes < most && list_length(batch.rows) < EXTERNAL_ROWS; block++)
	{
		CHECK_FOR_INTERRUPTS();
		CollectExternalRows(truncation, block, snapshot, strategy, &batch);
	}
	qsort(batch.values, batch.count, sizeof(ExternalValue), CompareExternalValues);
	if (batch.count > 0)
		ReadExternalValues(truncation, batch.values, batch.count, snapshot, strategy);
	NoteExternalRows(truncation, reader, filter, &batch);
	truncation->external_block = block;
	truncation->external_noted = 0;
	MemoryContextSwitchTo(old);
	MemoryContextReset(context);
}

void
ReadTruncation(Truncation *truncation, const LiveFilter &filter)
{
	BlockNumber blocks = smgrnblocks(OpenFile(truncation->before), MAIN_FORKNUM);
	BufferAccessStrategy strategy = GetAccessStrategy(BAS_BULKREAD);
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	MemoryContext context = AllocSetContextCreateInternal(CurrentMemoryContext, "dedup_guard row",
														  ALLOCSET_DEFAULT_SIZES);
	KeyReader reader;

	if (truncation->until != InvalidCommandId)
		snapshot->curcid = truncation->until;
	MakeKeyReader(&reader, &truncation->plan->clause);
	while (truncation->block < blocks)
	{
		CHECK_FOR_INTERRUPTS();
		ReadInlineRows(truncation, reader, filter, snapshot, strategy, context);
		truncation->block++;
		truncation->offset = FirstOffsetNumber;
	}
	while (truncation->has_external && truncation->has_toast && truncation->external_block < blocks)
		ReadExternalRows(truncation, blocks, reader, filter, snapshot, strategy, context);
	truncation->done = true;
	MemoryContextDelete(context);
	UnregisterSnapshot(snapshot);
	FreeAccessStrategy(strategy);
}
