/*
 * Finding the rows of a table that have come and gone between two snapshots (changes.cpp).
 */
#ifndef STREAMDEDUP_GUARD_CHANGES_HPP
#define STREAMDEDUP_GUARD_CHANGES_HPP

#include "guard/table_keys.hpp"

extern "C" {
#include "access/htup_details.h"
#include "access/xlogdefs.h"
#include "storage/bufmgr.h"
}

/* Between which moments changes are looked for. */
struct ChangeSpan
{
	Snapshot before; /* registered; NULL: there was no row */
	Snapshot now;

	/*
	 * Changes of rows that were logged before this position in the WAL are those of transactions
	 * that had ended before the first snapshot was taken. InvalidXLogRecPtr: not known.
	 */
	XLogRecPtr settled;
};

/* A row of a page that one of the snapshots shows. */
struct ChangedRow
{
	OffsetNumber offset;
	bool gone;
};

/* What a search keeps between pages. */
struct ChangeSearch
{
	Relation table;
	ChangeSpan span;
	BlockNumber blocks;
	Buffer map;    /* a page of the visibility map that is pinned */
	Buffer buffer; /* the page of the rows, pinned and not locked */
	int64 read;    /* pages that had to be read */
	int count;
	ChangedRow rows[MaxHeapTuplesPerPage];
};

extern ChangeSearch StartChangeSearch(Relation table, const ChangeSpan &span);

/* Finds the rows of a block, and pins it. Returns false if there are none. */
extern bool FindChanges(ChangeSearch *search, BlockNumber block);

/* Makes `tuple` a row that was found. */
extern void ReadChangedTuple(const ChangeSearch &search, const ChangedRow &row, HeapTuple tuple);

/* Lets the block go. */
extern void ReleaseChanges(ChangeSearch *search);

/* Returns how many pages were read. */
extern int64 EndChangeSearch(ChangeSearch *search);

/*
 * Runs visit(row, gone) over the rows of a table that count and have a key, and that are shown
 * by one snapshot alone, as VisitKeys() does. `gone`: by the first. Returns how many pages
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
