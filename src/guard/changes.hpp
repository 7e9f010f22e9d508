/* Finds the rows of a table that were inserted or deleted between two snapshots (changes.cpp). */
#ifndef STREAMDEDUP_GUARD_CHANGES_HPP
#define STREAMDEDUP_GUARD_CHANGES_HPP

#include "guard/table_keys.hpp"

extern "C" {
#include "access/htup_details.h"
#include "access/xlogdefs.h"
#include "storage/bufmgr.h"
}

/* The time span in which changes are searched. */
struct ChangeSpan
{
	Snapshot before; /* registered; NULL: there was no row */
	Snapshot now;

	/*
	 * Changes of rows that were logged before this position in the WAL belong to transactions that
	 * had ended before the first snapshot was taken. InvalidXLogRecPtr: unknown.
	 */
	XLogRecPtr settled;
};

/* A row of a page that exactly one of the snapshots shows. */
struct ChangedRow
{
	OffsetNumber offset;
	bool gone;
};

/* The state of a search between pages. */
struct ChangeSearch
{
	Relation table;
	ChangeSpan span;
	BlockNumber blocks;
	Buffer map;    /* a pinned page of the visibility map */
	Buffer buffer; /* the page of the rows, pinned but not locked */
	int64 read;    /* number of pages that had to be read */
	int count;
	ChangedRow rows[MaxHeapTuplesPerPage];
};

extern ChangeSearch StartChangeSearch(Relation table, const ChangeSpan &span);

/* Finds the rows of a block, and pins it. Returns false if there are none. */
extern bool FindChanges(ChangeSearch *search, BlockNumber block);

/* Makes `tuple` a row that was found. */
extern void ReadChangedTuple(const ChangeSearch &search, const ChangedRow &row, HeapTuple tuple);

/* Releases the block. */
extern void ReleaseChanges(ChangeSearch *search);

/* Returns how many pages were read. */
extern int64 EndChangeSearch(ChangeSearch *search);

/*
 * Runs visit(row, gone) over the rows that only one of the snapshots shows, if they count and have
 * a key, as VisitKeys() does. `gone`: only the first snapshot shows the row. Returns how many pages
 * were read.
 */
template <typename Visit>
static inline int64
VisitChanges(const TableKeys &keys, Oid table, const ChangeSpan &span, Visit visit)
{
	const KeyScan scan = StartKeyScan(keys, table, span.now);
	const MemoryContext old = MemoryContextSwitchTo(keys.row_context);
	ChangeSearch search = StartChangeSearch(scan.table, span);
	GuardKey key;
	KeyRow row = {scan.table, scan.slot, &key, 0};
	int64 read;

	for (BlockNumber block = 0; block < search.blocks; block++)
	{
		CHECK_FOR_INTERRUPTS();
		if (!FindChanges(&search, block))
			continue;
		for (int i = 0; i < search.count; i++)
		{
			HeapTupleData tuple;

			ReadChangedTuple(search, search.rows[i], &tuple);
			ExecStoreBufferHeapTuple(&tuple, scan.slot, search.buffer);
			if (ReadRowKey(keys, scan, &key, &row.hash))
				visit(row, search.rows[i].gone);
			ExecClearTuple(scan.slot);
			MemoryContextReset(keys.row_context);
		}
		ReleaseChanges(&search);
	}
	read = EndChangeSearch(&search);
	MemoryContextSwitchTo(old);
	EndKeyScan(scan);
	return read;
}

#endif /* STREAMDEDUP_GUARD_CHANGES_HPP */
