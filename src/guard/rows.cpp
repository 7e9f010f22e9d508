/*
 * The notes of a guard about rows in progress. They make sure that a key stays in the filter only
 * if its row was inserted.
 *
 * When a BEFORE INSERT trigger runs, it is not known whether the row will be inserted. A later
 * trigger can leave the row out, and ON CONFLICT can skip it. So the trigger adds the key and makes
 * a note. The server inserts into the guard index right after the table, and the index removes the
 * note. If the row is over and its note still exists, the key must be taken back.
 *
 * A row is over when the server resets the query's per-tuple memory. The tuple that a BEFORE
 * trigger returns is in this memory, so the server cannot reset it before it has finished the row.
 * The server does reset it before the next row and before the query's AFTER triggers. A reset
 * callback marks the row's notes. It also runs when a transaction aborts, so it does nothing else.
 *
 * The key is taken back at one of these events, whichever is first: the next guarded row of this
 * session, the end of the query, the next call of a function on live filters, or the commit of the
 * (sub)transaction.
 */
#include "guard/exact.hpp"
#include "guard/row_key.hpp"
#include "pg/compat_storage.hpp"

extern "C" {
#include "access/relation.h"
#include "executor/executor.h"
#include "storage/bufmgr.h"
#include "storage/bufpage.h"
#include "utils/lsyscache.h"
}

namespace
{

/* The effects of a row that was not inserted yet. */
struct GuardNote
{
	GuardRow *row;       /* NULL: the row is over */
	bool counts;         /* `counted` was incremented */
	LiveCounter counted; /* New: the key must be taken back, too */
	bool uses;           /* the row uses a deleted row, which is in `use` */
	DeletedRowUse use;
	Oid filter;
	Oid filter_file; /* the filter's file at that time; TRUNCATE replaces the file */
	uint64 hash;
	uint32 generation; /* the generation of the key, or 0 if it is not known */
	TransactionId xid; /* the subtransaction that added the key */
	int level;         /* the nesting level of this subtransaction */
	SubTransactionId subid;
	Oid heap;
	Oid file; /* the file of the heap at the speculative insertion */
	bool may_kill;
	bool left_out;       /* another row was left out as a duplicate of this row */
	bool taken_back;     /* the key was taken back, but the counter was not decremented yet */
	ItemPointerData tid; /* valid: the row was inserted speculatively */
};

/* A row that the server was about to delete when the guard's trigger fired. */
struct GuardDeletion
{
	GuardRow *row; /* NULL: the row is over */
	int level;
	SubTransactionId subid;
	Oid heap;
	Oid file;
	ItemPointerData tid;
	Oid filter;
	uint64 hash;
};

/* A file whose pages were copied to another file. */
struct CopiedFile
{
	Oid from;
	Oid to;
};

} /* namespace */

static GuardRow *guard_rows = NULL; /* the row of the innermost query is the first */

/* Only a few: one for each row in progress, and those of rows that are over but not settled. */
static GuardNote *guard_notes = NULL;
static int guard_note_count = 0;
static int guard_note_capacity = 0;

static GuardDeletion *guard_deletions = NULL;
static int guard_deletion_count = 0;
static int guard_deletion_capacity = 0;

/* The files of live filters that this transaction has copied. */
static CopiedFile *copied_files = NULL;
static int copied_file_count = 0;
static int copied_file_capacity = 0;

static ExecutorEnd_hook_type previous_executor_end = NULL;

/* ---- rows in progress ----------------------------------------------------- */

/*
 * Called when the row's memory is reset, because the server has finished the row. Also runs when a
 * transaction aborts, so it must not fail.
 */
static void
GuardRowOver(void *arg)
{
	GuardRow *row = (GuardRow *) arg;

	for (GuardRow **link = &guard_rows; *link != NULL; link = &(*link)->below)
		if (*link == row)
		{
			*link = row->below;
			break;
		}
	for (int i = 0; i < guard_note_count; i++)
		if (guard_notes[i].row == row)
			guard_notes[i].row = NULL;
	for (int i = 0; i < guard_deletion_count; i++)
		if (guard_deletions[i].row == row)
			guard_deletions[i].row = NULL;
}

GuardRow *
FindGuardRow(void)
{
	for (GuardRow *row = guard_rows; row != NULL; row = row->below)
		if (row->context == CurrentMemoryContext)
			return row;
	return NULL;
}

bool
HaveGuardRows(void)
{
	return guard_rows != NULL;
}

/* Returns the current nesting depth of triggers. */
static int
TriggerDepth(void)
{
	return DatumGetInt32(pg_trigger_depth(NULL));
}

GuardRow *
EnterGuardRow(GuardRow *row, Relation rel, const GuardPlan *plan, const KeyReader *reader,
			  dedup::KeySeed seed, bool has_key, uint64 hash)
{
	if (row == NULL)
	{
		row = (GuardRow *) palloc0(sizeof(GuardRow));
		row->context = CurrentMemoryContext;
		row->level = GetCurrentTransactionNestLevel();
		row->below = guard_rows;
		row->over.func = GuardRowOver;
		row->over.arg = row;
		MemoryContextRegisterResetCallback(CurrentMemoryContext, &row->over);
		guard_rows = row;
	}
	Assert(row->context == CurrentMemoryContext && TriggerDepth() > 0);
	/* The trigger that enters the row is one level deeper than the query. */
	row->depth = TriggerDepth() - 1;
	row->heap = RelationGetRelid(rel);
	row->plan = plan;
	row->reader = reader;
	row->seed = seed;
	row->has_key = has_key;
	row->hash = hash;
	row->exact = NULL;
	row->judged = false;
	row->key = NULL;
	return row;
}

bool
IsKeyInHand(const GuardPlan *plan, uint64 hash, const GuardKey &key, int64 ttl,
			const GuardRow *except)
{
	for (const GuardRow *row = guard_rows; row != NULL; row = row->below)
		if (row != except && row->key != NULL && row->hash == hash &&
			row->plan->guarded == plan->guarded && (ttl == 0 || !AreApart(row->at, key.at, ttl)) &&
			EqualGuardKeys(plan, row->key, key.columns))
			return true;
	return false;
}

/* ---- notes ---------------------------------------------------------------- */

static int
FindNote(const GuardRow *row)
{
	for (int i = guard_note_count - 1; row != NULL && i >= 0; i--)
		if (guard_notes[i].row == row)
			return i;
	return -1;
}

static void
RemoveNote(int i)
{
	Assert(i >= 0 && i < guard_note_count);
	guard_notes[i] = guard_notes[--guard_note_count];
}

void
NoteGuardRow(GuardRow *row, const LiveFilter &filter, const GuardEffect &effect, uint64 hash,
			 bool may_kill)
{
	TransactionId xid = GetCurrentTransactionId();
	GuardNote *note;

	/* A row has at most one note. The note is settled before the row gets another key. */
	Assert(FindNote(row) < 0);
	note = OneMore(TopMemoryContext, &guard_notes, &guard_note_count, &guard_note_capacity);
	note->row = row;
	note->counts = effect.counts;
	note->counted = effect.counter;
	note->uses = effect.use != NULL;
	if (note->uses)
		note->use = *effect.use;
	note->filter = RelationGetRelid(filter.rel);
	note->filter_file = FileNumberOf(filter.rel);
	note->hash = hash;
	note->generation = effect.generation;
	note->xid = xid;
	note->level = GetCurrentTransactionNestLevel();
	note->subid = GetCurrentSubTransactionId();
	note->heap = row->heap;
	note->may_kill = may_kill;
	note->left_out = note->taken_back = false;
	ItemPointerSetInvalid(&note->tid);
	if (effect.counts)
		CountLive(filter, effect.counter, 1);
}

bool
MoveGuardNote(const GuardRow *row, Oid filter, uint64 hash)
{
	int i = FindNote(row);

	if (i < 0 || guard_notes[i].counted != LiveCounter::New || guard_notes[i].taken_back ||
		guard_notes[i].filter != filter || guard_notes[i].hash != hash)
		return false;
	guard_notes[i].heap = row->heap;
	return true;
}

void
NoteLeftOut(const LiveFilter &filter, uint64 hash)
{
	for (int i = 0; i < guard_note_count; i++)
		if (guard_notes[i].row != NULL && guard_notes[i].hash == hash &&
			guard_notes[i].filter == RelationGetRelid(filter.rel) &&
			(guard_notes[i].counted == LiveCounter::New || guard_notes[i].uses))
			guard_notes[i].left_out = true;
}

/* Calls visit(tuple) for the row at this place, if there is one. Its page is locked meanwhile. */
template <typename Visit>
static void
VisitTuple(Relation heap, const ItemPointerData *tid, Visit visit)
{
	Buffer buffer = ReadBuffer(heap, ItemPointerGetBlockNumber(tid));
	Page page;
	OffsetNumber offset = ItemPointerGetOffsetNumber(tid);

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	page = BufferGetPage(buffer);
	if (offset <= PageGetMaxOffsetNumber(page))
	{
		ItemId item = PageGetItemId(page, offset);

		if (ItemIdIsNormal(item))
			visit((HeapTupleHeader) PageGetItem(page, item));
	}
	UnlockReleaseBuffer(buffer);
}

/* The contents of a row's place on its page. */
enum class TupleState
{
	Gone, /* no row, or a row of another transaction */
	Speculative,
	Landed
};

static TupleState
LookAtTuple(Relation heap, ItemPointer tid, TransactionId xid)
{
	TupleState state = TupleState::Gone;

	VisitTuple(heap, tid, [&](HeapTupleHeader tuple) {
		/* If ON CONFLICT has deleted the row, its xmin is invalid. */
		if (!TransactionIdEquals(HeapTupleHeaderGetRawXmin(tuple), xid))
			state = TupleState::Gone;
		else if (HeapTupleHeaderIsSpeculative(tuple))
			state = TupleState::Speculative;
		else
			state = TupleState::Landed;
	});
	return state;
}

/* Returns whether this transaction has deleted, and not updated, the row at this place. */
static bool
IsDeletedByUs(Relation heap, const ItemPointerData *tid)
{
	bool deleted = false;

	VisitTuple(heap, tid, [&](HeapTupleHeader tuple) {
		deleted = !(tuple->t_infomask & HEAP_XMAX_INVALID) &&
				  !HEAP_XMAX_IS_LOCKED_ONLY(tuple->t_infomask) &&
				  (ItemPointerEquals(&tuple->t_ctid, const_cast<ItemPointer>(tid)) ||
				   HeapTupleHeaderIndicatesMovedPartitions(tuple)) &&
				  TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetUpdateXid(tuple));
	});
	return deleted;
}

/* Returns whether a row that was inserted speculatively is still in the table. */
static bool
SpeculativeLanded(GuardNote *note)
{
	Relation heap = RelationIdGetRelation(note->heap);
	bool landed = true;

	/*
	 * This transaction holds a lock on the table. So if the table was dropped or is shorter, this
	 * transaction has dropped or truncated it together with the row. If the table was rewritten,
	 * the row is in another place. Then it counts as inserted, although ON CONFLICT may have
	 * deleted it before the table was rewritten.
	 */
	if (!RelationIsValid(heap))
		return true;
	if (FileNumberOf(heap) == note->file &&
		ItemPointerGetBlockNumber(&note->tid) < RelationGetNumberOfBlocks(heap))
		landed = LookAtTuple(heap, &note->tid, note->xid) == TupleState::Landed;
	RelationClose(heap);
	return landed;
}

/*
 * Returns whether a subtransaction inside the note's subtransaction has dropped a relation, or
 * replaced its file. If the inner subtransaction aborts, this will be undone.
 */
static bool
ReplacedInside(Oid relid, const GuardNote *note)
{
	Relation rel = RelationIdGetRelation(relid);
	bool replaced;

	if (!RelationIsValid(rel))
		return true;
	replaced = FileSubid(rel) > note->subid;
	RelationClose(rel);
	return replaced;
}

LiveFilter
OpenLiveUnchecked(Oid filter, LOCKMODE lock)
{
	Relation rel = relation_open(filter, lock);

	return {rel, LiveParametersOf(rel)};
}

/*
 * Decides about a key whose row is over. Removes the note last: if a step fails in a subtransaction
 * inside the note's subtransaction, a later call must try again.
 *
 * The counter was incremented when the key was added. It must be decremented at the same nesting
 * level: if an inner subtransaction decremented it and aborted, the decrement would be undone, but
 * the key would stay taken back. So at an inner level the note is kept, to decrement the counter
 * later.
 */
static void
SettleNote(int i)
{
	GuardNote *note = &guard_notes[i];
	LiveFilter filter;
	bool same_level = note->level == GetCurrentTransactionNestLevel();

	if (!same_level && (note->taken_back || ReplacedInside(note->filter, note) ||
						(ItemPointerIsValid(&note->tid) && ReplacedInside(note->heap, note))))
		return;
	if (!note->taken_back && ItemPointerIsValid(&note->tid) && SpeculativeLanded(note))
	{
		RemoveNote(i);
		return;
	}

	if (note->left_out)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("a row was left out as a duplicate of one that was not inserted"),
				 errdetail("A trigger or function inserted the row while the guard of table "
						   "\"%s\" had the key of another row, which was skipped afterwards. "
						   "Both rows would be lost.",
						   get_rel_name(note->heap) != NULL ? get_rel_name(note->heap) : "?"),
				 errhint("Give the trigger that inserts the row a name that sorts before \"%s\".",
						 GUARD_TRIGGER)));

	/* Only this transaction can have dropped the filter, because it holds a lock on it. */
	if (!IsLiveRelationId(note->filter))
	{
		RemoveNote(i);
		return;
	}

	/*
	 * This transaction was allowed to add the key, so it may take the key back, even if it is READ
	 * ONLY now, or the privilege was revoked.
	 */
	filter = OpenLiveUnchecked(note->filter, NoLock);
	if (note->uses)
	{
		ReturnDeletedRow(note->use);
		note->uses = false;
	}
	if (!note->taken_back && note->counts && note->counted == LiveCounter::New &&
		IsSameFile(note->filter_file, FileNumberOf(filter.rel)))
		LiveTakeBack(filter, note->hash, note->xid, note->generation);
	note->taken_back = true;
	if (same_level && note->counts)
		CountLive(filter, note->counted, -1);
	CloseLive(filter);
	if (same_level || !note->counts)
		RemoveNote(i);
}

/*
 * Checks whether a row that is over was really deleted. If not, removes its note as a deleted row.
 * If the table was rewritten in the meantime, the row counts as deleted.
 */
static void
SettleDeletion(int i)
{
	const GuardDeletion deletion = guard_deletions[i];
	Relation heap = RelationIdGetRelation(deletion.heap);
	bool deleted = true;

	if (RelationIsValid(heap))
	{
		if (FileNumberOf(heap) == deletion.file &&
			ItemPointerGetBlockNumber(&deletion.tid) < RelationGetNumberOfBlocks(heap))
			deleted = IsDeletedByUs(heap, &deletion.tid);
		RelationClose(heap);
	}
	guard_deletions[i] = guard_deletions[--guard_deletion_count];
	if (!deleted)
		RevokeDeletedRow(deletion.filter, deletion.hash, deletion.subid);
}

void
CheckDeletionLater(GuardRow *row, Relation rel, ItemPointer tid, Oid filter, uint64 hash)
{
	GuardDeletion *deletion = OneMore(TopMemoryContext, &guard_deletions, &guard_deletion_count,
									  &guard_deletion_capacity);

	deletion->row = row;
	deletion->level = GetCurrentTransactionNestLevel();
	deletion->subid = GetCurrentSubTransactionId();
	deletion->heap = RelationGetRelid(rel);
	deletion->file = FileNumberOf(rel);
	deletion->tid = *tid;
	deletion->filter = filter;
	deletion->hash = hash;
}

bool
IsDeletionPending(Relation rel, ItemPointer tid)
{
	for (int i = 0; i < guard_deletion_count; i++)
		if (guard_deletions[i].heap == RelationGetRelid(rel) &&
			guard_deletions[i].file == FileNumberOf(rel) &&
			ItemPointerEquals(&guard_deletions[i].tid, tid))
			return true;
	return false;
}

/*
 * Settles the deletions of rows that are over, those of `row`, and those of nesting level `level`
 * or deeper.
 */
static void
SettleDeletions(const GuardRow *row, int level)
{
	for (int i = guard_deletion_count - 1; i >= 0; i--)
		if (guard_deletions[i].row == row || guard_deletions[i].row == NULL ||
			guard_deletions[i].level >= level)
			SettleDeletion(i);
}

void
SettleGuardRow(GuardRow *row)
{
	int i = FindNote(row);

	if (i >= 0)
	{
		guard_notes[i].row = NULL;
		SettleNote(i);
	}
	if (unlikely(guard_deletion_count > 0) && row != NULL)
		SettleDeletions(row, PG_INT32_MAX);
}

void
SettleGuardRows(void)
{
	if (unlikely(guard_deletion_count > 0))
		SettleDeletions(NULL, PG_INT32_MAX);
	for (int i = guard_note_count - 1; i >= 0; i--)
		if (guard_notes[i].row == NULL)
			SettleNote(i);
}

/* At the end of a (sub)transaction no row of its level is in progress any more. */
void
SettleGuardLevel(int level)
{
	SettleDeletions(NULL, level);
	for (int i = guard_note_count - 1; i >= 0; i--)
		if (guard_notes[i].level >= level)
		{
			guard_notes[i].row = NULL;
			SettleNote(i);
		}
	for (int i = 0; i < guard_note_count; i++)
		Assert(guard_notes[i].level < level);
	for (int i = 0; i < guard_deletion_count; i++)
		Assert(guard_deletions[i].level < level);
}

/*
 * The keys of an aborted subtransaction do not count, so its notes are removed without taking the
 * keys back. The queries of the subtransaction have ended, but the memory of a query that an SQL
 * function has run can exist longer. So the rows of these queries are removed from the list here;
 * otherwise they would be taken for rows in progress.
 */
void
ForgetGuardLevel(int level)
{
	for (GuardRow **link = &guard_rows; *link != NULL;)
		if ((*link)->level >= level)
			*link = (*link)->below;
		else
			link = &(*link)->below;
	for (int i = guard_note_count - 1; i >= 0; i--)
		if (guard_notes[i].level >= level)
			RemoveNote(i);
	for (int i = guard_deletion_count - 1; i >= 0; i--)
		if (guard_deletions[i].level >= level)
			guard_deletions[i] = guard_deletions[--guard_deletion_count];
	if (level == 1)
		copied_file_count = 0;
	Assert(level > 1 || (guard_rows == NULL && guard_note_count == 0 && guard_deletion_count == 0));
}

/* ---- files ------------------------------------------------------------------- */

void
NoteFileCopied(Relation rel, Oid to)
{
	*OneMore(TopMemoryContext, &copied_files, &copied_file_count,
			 &copied_file_capacity) = {FileNumberOf(rel), to};
}

bool
IsSameFile(Oid before, Oid now)
{
	for (int i = copied_file_count - 1; i >= 0 && before != now; i--)
		if (copied_files[i].to == now)
			now = copied_files[i].from;
	return before == now;
}

/* ---- notes of rows that were inserted --------------------------------------------- */

bool
HasGuardNote(const GuardRow *row)
{
	return FindNote(row) >= 0;
}

void
GuardNoteLanded(const GuardRow *row, Relation heap, ItemPointer tid)
{
	const int i = FindNote(row);

	if (i < 0)
		return;
	if (guard_notes[i].may_kill &&
		LookAtTuple(heap, tid, guard_notes[i].xid) == TupleState::Speculative)
	{
		guard_notes[i].tid = *tid;
		guard_notes[i].file = FileNumberOf(heap);
	}
	else
		RemoveNote(i);
}

void
NoteLandedRow(GuardRow *row, const LiveFilter &filter, uint64 hash, uint32 generation,
			  Relation heap, ItemPointer tid, bool may_kill)
{
	/*
	 * A row has at most one note, so this key gets none. If ON CONFLICT deletes the row, the key
	 * stays in the filter. This is safe, because an exact guard searches the table for it.
	 */
	if (HasGuardNote(row))
	{
		CountLive(filter, LiveCounter::New, 1);
		return;
	}
	NoteGuardRow(row, filter, {true, LiveCounter::New, NULL, generation}, hash, may_kill);
	GuardNoteLanded(row, heap, tid);
}

GuardRow *
FindLandedRow(Relation heap)
{
	int depth;

	if (guard_rows == NULL)
		return NULL;
	depth = TriggerDepth();
	for (GuardRow *row = guard_rows; row != NULL; row = row->below)
		if (row->heap == RelationGetRelid(heap) && row->depth == depth)
			return row;
	return NULL;
}

/*
 * At the end of a query all of its rows are over. Rows that were not inserted are settled now,
 * before another command can change their table or their filter.
 */
static void
GuardExecutorEnd(QueryDesc *query)
{
	if (previous_executor_end != NULL)
		previous_executor_end(query);
	else
		standard_ExecutorEnd(query);
	if (guard_note_count > 0 || guard_deletion_count > 0)
		SettleGuardRows();
}

void
InitGuardRows(void)
{
	previous_executor_end = ExecutorEnd_hook;
	ExecutorEnd_hook = GuardExecutorEnd;
}
