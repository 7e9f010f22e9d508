/*
 * Finds the rows of a heap that were inserted or deleted between two snapshots; see changes.hpp.
 *
 * Why it is enough to read pages that the visibility map does not call all-visible. The first
 * snapshot, S, is registered. So the xmin of this backend is at most that of S until the search is
 * over, and so is the horizon of every other backend. A row that was inserted or deleted since S
 * was changed by a transaction T that S does not show: T is not older than the horizon.
 *
 *   - VACUUM, and pruning where it does so, call a page all-visible only if each row of it was
 *     inserted by a transaction before the horizon, and none was deleted by a transaction that
 *     committed. Rows that T has deleted are dead only to transactions after T: they cannot be
 *     removed, nor their line pointers be used again, and their page is not all-visible.
 *   - T itself clears the bit of the page under the page's lock, in the step that inserts or
 *     deletes the row. A search that reads the bit before that misses the row. So a search while
 *     others write only reduces the work. The last search runs under a lock that keeps writers
 *     out, and misses nothing.
 *   - COPY FREEZE sets the bit, and freezes rows, before its transaction has committed. But the
 *     table must be new or truncated in that transaction, which has locked it in
 *     AccessExclusiveLock until its end. The caller has held AccessShareLock since before S:
 *     so either the COPY is older than S, or the table is a partition that did not exist then.
 *     Such tables are read as a whole (`before` is NULL).
 *   - VACUUM FULL, CLUSTER, TRUNCATE and ALTER TABLE that rewrites need AccessExclusiveLock too,
 *     and so does VACUUM to cut off the end of the file. So the blocks stay the same.
 *   - A page that another backend has added to the file and not initialised has no row, and no
 *     bit. The backend that initialises it puts a row there, and has not set the bit.
 *   - HOT updates: each version of a row is judged by itself. The deleted version and the new
 *     version have the same key, unless the key was updated.
 *   - A row whose deleter has aborted, or was rolled back to a savepoint, is shown by both.
 *
 * Why pages with an old LSN are skipped as well, if the caller gives a position in the WAL. The
 * caller has read that position first, then waited for all transactions that had written to the
 * table, and taken the first snapshot after that. Suppose that T, which that snapshot does not
 * show, had changed a page before the position was read. Then T held its lock at that time, so the
 * caller has waited for T, and the snapshot shows T. This is a contradiction. So T has changed the
 * page later, and the page's LSN, which only increases, is newer. Tables whose changes are not
 * WAL-logged have no such LSNs.
 */
#include "guard/changes.hpp"

extern "C" {
#include "access/heapam.h"
#include "access/visibilitymap.h"
#include "storage/bufpage.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
}

ChangeSearch
StartChangeSearch(Relation table, const ChangeSpan &span)
{
	ChangeSearch search = {};

	search.table = table;
	search.span = span;
	if (!RelationNeedsWAL(table))
		search.span.settled = InvalidXLogRecPtr;
	search.blocks = RelationGetNumberOfBlocks(table);
	search.map = InvalidBuffer;
	search.buffer = InvalidBuffer;
	return search;
}

/* Returns whether a snapshot shows a row of a locked page. */
static bool
Shows(Snapshot snapshot, HeapTuple tuple, Buffer buffer)
{
	return snapshot != NULL && HeapTupleSatisfiesVisibility(tuple, snapshot, buffer);
}

/* Finds the rows of a locked page. */
static void
CompareRows(ChangeSearch *search, BlockNumber block)
{
	Page page = BufferGetPage(search->buffer);
	HeapTupleData tuple;

	tuple.t_tableOid = RelationGetRelid(search->table);
	for (OffsetNumber at = FirstOffsetNumber; at <= PageGetMaxOffsetNumber(page); at++)
	{
		ItemId item = PageGetItemId(page, at);
		bool was;
		bool is;

		if (!ItemIdIsNormal(item))
			continue;
		tuple.t_data = (HeapTupleHeader) PageGetItem(page, item);
		tuple.t_len = ItemIdGetLength(item);
		ItemPointerSet(&tuple.t_self, block, at);
		was = Shows(search->span.before, &tuple, search->buffer);
		is = Shows(search->span.now, &tuple, search->buffer);
		if (was != is)
			search->rows[search->count++] = {at, was};
	}
}

bool
FindChanges(ChangeSearch *search, BlockNumber block)
{
	Page page;

	search->count = 0;
	if (search->span.before != NULL && VM_ALL_VISIBLE(search->table, block, &search->map))
		return false;
	search->buffer = ReadBuffer(search->table, block);
	search->read++;
	LockBuffer(search->buffer, BUFFER_LOCK_SHARE);
	page = BufferGetPage(search->buffer);
	if (!PageIsNew(page) &&
		(search->span.before == NULL || XLogRecPtrIsInvalid(search->span.settled) ||
		 BufferGetLSNAtomic(search->buffer) > search->span.settled))
		CompareRows(search, block);
	/* A pin is enough to keep the rows. */
	LockBuffer(search->buffer, BUFFER_LOCK_UNLOCK);
	if (search->count == 0)
		ReleaseChanges(search);
	return search->count > 0;
}

void
ReadChangedTuple(const ChangeSearch &search, const ChangedRow &row, HeapTuple tuple)
{
	Page page = BufferGetPage(search.buffer);
	ItemId item = PageGetItemId(page, row.offset);

	tuple->t_tableOid = RelationGetRelid(search.table);
	tuple->t_data = (HeapTupleHeader) PageGetItem(page, item);
	tuple->t_len = ItemIdGetLength(item);
	ItemPointerSet(&tuple->t_self, BufferGetBlockNumber(search.buffer), row.offset);
}

void
ReleaseChanges(ChangeSearch *search)
{
	ReleaseBuffer(search->buffer);
	search->buffer = InvalidBuffer;
}

int64
EndChangeSearch(ChangeSearch *search)
{
	if (BufferIsValid(search->map))
		ReleaseBuffer(search->map);
	return search->read;
}
