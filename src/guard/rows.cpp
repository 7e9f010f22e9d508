/*
 * What a guard remembers of rows until they have landed: the bookkeeping that makes a
 * key count only if its row did.
 *
 * A BEFORE INSERT trigger runs before it is known whether the row will land: a later
 * trigger can leave it out, ON CONFLICT skip it. So the trigger adds the key and makes
 * a note; the guard index, which the server inserts into right after the table, takes
 * the note away. A note whose row is over has a key to take back.
 *
 * When is a row over? The tuple that a BEFORE trigger returns lives in the query's
 * per-tuple memory, so the server cannot reset that before it is done with the row, and
 * does reset it before it takes up the next one, or the query's AFTER triggers. A
 * reset callback marks the row's notes; it runs in aborts too and does nothing else.
 * The key is taken back when this session next comes by: at its next guarded row, at the
 * end of the query, in its next call of a function on live filters, or before the
 * (sub)transaction commits.
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

/* What was done for a row that has not landed yet. */
struct GuardNote
{
	GuardRow *row;       /* NULL: it is over */
	bool counts;         /* in `counted` */
	LiveCounter counted; /* New: the key is to be taken back, too */
	bool uses;           /* a deleted row */
	DeletedRowUse use;
	Oid filter;
	Oid filter_file; /* another: it was truncated, and the key went along */
	uint64 hash;
	uint32 generation; /* that it was put under, if that is known, or 0 */
	TransactionId xid; /* subtransaction that added it */
	int level;         /* and its nesting level */
	SubTransactionId subid;
	Oid heap;
	Oid file; /* of the heap, when it landed speculatively */
	bool may_kill;
	bool left_out;       /* another row, as a duplicate of this one */
	bool taken_back;     /* but not yet uncounted */
	ItemPointerData tid; /* valid: landed, speculatively */
};

/* A row that was to be deleted when its trigger was fired. */
struct GuardDeletion
{
	GuardRow *row; /* NULL: it is over */
	int level;
	SubTransactionId subid;
	Oid heap;
	Oid file;
	ItemPointerData tid;
	Oid filter;
	uint64 hash;
};

/* A file whose pages were copied to another. */
struct CopiedFile
{
	Oid from;
	Oid to;
};

} /* namespace */

static GuardRow *guard_rows = NULL; /* innermost query's first */

/* Few: one for each row in hand, and what ended since the last look. */
static GuardNote *guard_notes = NULL;
static int guard_note_count = 0;
static int guard_note_capacity = 0;

static GuardDeletion *guard_deletions = NULL;
static int guard_deletion_count = 0;
static int guard_deletion_capacity = 0;

/* Of live filters, by this transaction. */
static CopiedFile *copied_files = NULL;
static int copied_file_count = 0;
static int copied_file_capacity = 0;

static ExecutorEnd_hook_type previous_executor_end = NULL;

/* ---- rows in hand --------------------------------------------------------- */

/* The row's memory goes: the server is done with it. Runs in aborts; cannot fail. */
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

/* How deep in triggers the session is just now. */
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
	/* The trigger that enters it is one level below the query. */
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

	/* A row has one note, which is settled before the row gets another key. */
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

/* Runs visit(tuple) on the row at a place, whose page is locked, if there is one. */
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

/* What a row's place on its page holds. */
enum class TupleState
{
	Gone, /* nothing, or not a row of that transaction */
	Speculative,
	Landed
};

static TupleState
LookAtTuple(Relation heap, ItemPointer tid, TransactionId xid)
{
	TupleState state = TupleState::Gone;

	VisitTuple(heap, tid, [&](HeapTupleHeader tuple) {
		/* A killed row has no xmin. */
		if (!TransactionIdEquals(HeapTupleHeaderGetRawXmin(tuple), xid))
			state = TupleState::Gone;
		else if (HeapTupleHeaderIsSpeculative(tuple))
			state = TupleState::Speculative;
		else
			state = TupleState::Landed;
	});
	return state;
}

/* Whether the row at a place is one that this transaction has deleted, and not updated. */
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

/* Whether a row that was speculative when we saw it has landed after all. */
static bool
SpeculativeLanded(GuardNote *note)
{
	Relation heap = RelationIdGetRelation(note->heap);
	bool landed = true;

	/*
	 * Our transaction holds a lock on the table, so if it is gone, or shorter, it was
	 * this transaction that dropped or truncated it, with the row in it. If it was
	 * rewritten, all that was in it by then has landed, but for what was killed there
	 * and not tried again, and the row is in another place.
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
 * Whether a subtransaction inside of the note's own has dropped a relation, or replaced
 * its file: that can be undone yet.
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
 * Decides about a key whose row is over. The note goes last: if anything here fails
 * in a subtransaction inside of the note's own, somebody has to try again.
 *
 * A key was counted when it was added. To uncount it in another subtransaction would
 * be undone if that one aborted, while the key stays taken back; so this waits.
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

	/* Dropped by this transaction, or else our lock would have kept it. */
	if (!IsLiveRelationId(note->filter))
	{
		RemoveNote(i);
		return;
	}

	/*
	 * The key was ours to add, so it is ours to take back, even if the transaction has
	 * become READ ONLY since, or the privilege been revoked.
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
 * Decides about a row that was to be deleted and is over. Where it can't be told, because
 * its table was rewritten since, it counts as deleted.
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

/* Those of rows that are over, or of `row`, whose trigger for INSERT is being fired. */
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

/* At the end of a (sub)transaction no row of its level is in hand any more. */
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
 * The keys of an aborted subtransaction are as if never added. Its queries are over,
 * though the memory of one that an SQL function ran can outlive them: then its rows
 * must not be taken for those in hand.
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
	/* Nothing outlives its transaction. */
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

/* ---- notes of rows that land ------------------------------------------------------ */

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
	/* A row has one note. If it is killed and has another, the key stays: so it is looked for. */
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
 * When a query has ended, so have all of its rows: what did not land is settled before
 * anything else can happen to its table or its filter.
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
