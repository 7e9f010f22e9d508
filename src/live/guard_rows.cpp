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
 * The key is taken back when this session next comes by: at its next guarded row, in
 * its next call of a function on live filters, or before the (sub)transaction commits.
 */
#include "live/guard.hpp"

extern "C" {
#include "access/relation.h"
#include "storage/bufmgr.h"
#include "storage/bufpage.h"
}

namespace
{

/* What was done for a row that has not landed yet: a key added, or a mark counted. */
struct GuardNote
{
	GuardRow   *row;			/* NULL: it is over */
	LiveCounter counted;		/* New: the key is to be taken back, too */
	Oid			filter;
	Oid			filter_file;	/* another: it was truncated, and the key went along */
	uint64		hash;
	TransactionId xid;			/* subtransaction that added it */
	int			level;			/* and its nesting level */
	SubTransactionId subid;
	Oid			heap;
	Oid			file;			/* of the heap, when it landed speculatively */
	bool		may_kill;
	bool		taken_back;		/* but not yet uncounted */
	ItemPointerData tid;		/* valid: landed, speculatively */
};

}							/* namespace */

static GuardRow *guard_rows = NULL; /* innermost query's first */

/* Few: one for each row in hand, and what ended since the last look. */
static GuardNote *guard_notes = NULL;
static int	guard_note_count = 0;
static int	guard_note_capacity = 0;

/* ---- rows in hand --------------------------------------------------------- */

/* The row's memory goes: the server is done with it. Runs in aborts; cannot fail. */
static void
GuardRowOver(void *arg)
{
	GuardRow   *row = (GuardRow *) arg;

	for (GuardRow **link = &guard_rows; *link != NULL; link = &(*link)->below)
		if (*link == row)
		{
			*link = row->below;
			break;
		}
	for (int i = 0; i < guard_note_count; i++)
		if (guard_notes[i].row == row)
			guard_notes[i].row = NULL;
}

GuardRow *
FindGuardRow(void)
{
	for (GuardRow *row = guard_rows; row != NULL; row = row->below)
		if (row->context == CurrentMemoryContext)
			return row;
	return NULL;
}

GuardRow *
EnterGuardRow(GuardRow *row, Relation rel)
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
	row->heap = RelationGetRelid(rel);
	return row;
}

/* ---- notes ---------------------------------------------------------------- */

/* A relation's file, and the subtransaction that has replaced it. */
#if PG_VERSION_NUM >= 160000
#define RelationFile(rel) ((rel)->rd_locator.relNumber)
#define RelationFileSubid(rel) ((rel)->rd_newRelfilelocatorSubid)
#else
#define RelationFile(rel) ((rel)->rd_node.relNode)
#define RelationFileSubid(rel) ((rel)->rd_newRelfilenodeSubid)
#endif

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
	guard_notes[i] = guard_notes[--guard_note_count];
}

static void
AddNote(GuardRow *row, const LiveFilter &filter, LiveCounter counted, uint64 hash, bool may_kill)
{
	GuardNote  *note;

	if (guard_note_count == guard_note_capacity)
	{
		int			capacity = Max(16, 2 * guard_note_capacity);
		Size		bytes = sizeof(GuardNote) * capacity;

		guard_notes = (GuardNote *) (guard_notes == NULL ?
									 MemoryContextAlloc(TopMemoryContext, bytes) :
									 repalloc(guard_notes, bytes));
		guard_note_capacity = capacity;
	}
	note = &guard_notes[guard_note_count];
	note->row = row;
	note->counted = counted;
	note->filter = RelationGetRelid(filter.rel);
	note->filter_file = RelationFile(filter.rel);
	note->hash = hash;
	note->xid = GetCurrentTransactionId();
	note->level = GetCurrentTransactionNestLevel();
	note->subid = GetCurrentSubTransactionId();
	note->heap = row->heap;
	note->may_kill = may_kill;
	note->taken_back = false;
	ItemPointerSetInvalid(&note->tid);
	guard_note_count++;
}

void
NoteGuardRow(GuardRow *row, const LiveFilter &filter, LiveCounter counted, uint64 hash,
			 bool may_kill)
{
	AddNote(row, filter, counted, hash, may_kill);
	CountLive(filter, counted, 1);
}

bool
HaveGuardNotes(void)
{
	return guard_note_count > 0;
}

bool
MoveGuardNote(const GuardRow *row, Oid filter, uint64 hash)
{
	int			i = FindNote(row);

	if (i < 0 || guard_notes[i].counted != LiveCounter::New ||
		guard_notes[i].filter != filter || guard_notes[i].hash != hash)
		return false;
	guard_notes[i].heap = row->heap;
	return true;
}

/* What a row's place on its page holds. */
enum class TupleState
{
	Gone,						/* nothing, or not a row of that transaction */
	Speculative,
	Landed
};

static TupleState
LookAtTuple(Relation heap, ItemPointer tid, TransactionId xid)
{
	TupleState	state = TupleState::Gone;
	Buffer		buffer = ReadBuffer(heap, ItemPointerGetBlockNumber(tid));
	Page		page;
	OffsetNumber offset = ItemPointerGetOffsetNumber(tid);

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	page = BufferGetPage(buffer);
	if (offset <= PageGetMaxOffsetNumber(page))
	{
		ItemId		item = PageGetItemId(page, offset);

		if (ItemIdIsNormal(item))
		{
			HeapTupleHeader tuple = (HeapTupleHeader) PageGetItem(page, item);

			/* A killed row has no xmin. */
			if (!TransactionIdEquals(HeapTupleHeaderGetRawXmin(tuple), xid))
				state = TupleState::Gone;
			else if (HeapTupleHeaderIsSpeculative(tuple))
				state = TupleState::Speculative;
			else
				state = TupleState::Landed;
		}
	}
	UnlockReleaseBuffer(buffer);
	return state;
}

/* Whether a row that was speculative when we saw it has landed after all. */
static bool
SpeculativeLanded(GuardNote *note)
{
	Relation	heap = RelationIdGetRelation(note->heap);
	bool		landed = true;

	/*
	 * Our transaction holds a lock on the table, so if it is gone, or shorter, it was
	 * this transaction that dropped or truncated it, with the row in it. If it was
	 * rewritten, all that was in it by then has landed, but for what was killed there
	 * and not tried again, and the row is in another place.
	 */
	if (!RelationIsValid(heap))
		return true;
	if (RelationFile(heap) == note->file &&
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
	Relation	rel = RelationIdGetRelation(relid);
	bool		replaced;

	if (!RelationIsValid(rel))
		return true;
	replaced = RelationFileSubid(rel) > note->subid;
	RelationClose(rel);
	return replaced;
}

LiveFilter
OpenLiveUnchecked(Oid filter, LOCKMODE lock)
{
	Relation	rel = relation_open(filter, lock);

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
	GuardNote  *note = &guard_notes[i];
	LiveFilter	filter;
	bool		same_level = note->level == GetCurrentTransactionNestLevel();

	if (!same_level && (note->taken_back || ReplacedInside(note->filter, note) ||
						(ItemPointerIsValid(&note->tid) && ReplacedInside(note->heap, note))))
		return;
	if (!note->taken_back && ItemPointerIsValid(&note->tid) && SpeculativeLanded(note))
	{
		RemoveNote(i);
		return;
	}

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
	if (!note->taken_back && note->counted == LiveCounter::New &&
		note->filter_file == RelationFile(filter.rel))
		LiveTakeBack(filter, note->hash, note->xid);
	note->taken_back = true;
	if (same_level)
		CountLive(filter, note->counted, -1);
	CloseLive(filter);
	if (same_level)
		RemoveNote(i);
}

void
SettleGuardRow(GuardRow *row)
{
	int			i = FindNote(row);

	if (i >= 0)
	{
		guard_notes[i].row = NULL;
		SettleNote(i);
	}
}

void
SettleLandedRows(void)
{
	for (int i = guard_note_count - 1; i >= 0; i--)
		if (guard_notes[i].row == NULL)
			SettleNote(i);
}

/* At the end of a (sub)transaction no row of its level is in hand any more. */
void
SettleGuardLevel(int level)
{
	for (int i = guard_note_count - 1; i >= 0; i--)
		if (guard_notes[i].level >= level)
		{
			guard_notes[i].row = NULL;
			SettleNote(i);
		}
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
}

void
GuardRowLanded(Relation heap, ItemPointer tid)
{
	for (GuardRow *row = guard_rows; row != NULL; row = row->below)
		if (row->heap == RelationGetRelid(heap))
		{
			int			i = FindNote(row);

			if (i < 0)
				return;
			if (guard_notes[i].may_kill &&
				LookAtTuple(heap, tid, guard_notes[i].xid) == TupleState::Speculative)
			{
				guard_notes[i].tid = *tid;
				guard_notes[i].file = RelationFile(heap);
			}
			else
				RemoveNote(i);
			return;
		}
}
