/*
 * Files of deleted rows (deleted.cpp): the sorted runs that its table is written to
 * when it is full. They live as long as the transaction.
 */
#ifndef STREAMDEDUP_LIVE_DELETED_RUNS_HPP
#define STREAMDEDUP_LIVE_DELETED_RUNS_HPP

#include "guard/guard.hpp"

extern "C" {
#include "storage/fd.h"
}

struct DeletedRow
{
	uint64 key;               /* see DeletedKeyOf() */
	SubTransactionId deleted; /* by; invalid: an empty place */
	SubTransactionId used;    /* inserted again by, or invalid; and flags */
};
static_assert(sizeof(DeletedRow) == 16, "rows are written to files");

/*
 * Bits in `used`: a trigger AFTER DELETE OR UPDATE asks yet whether the row was inserted again;
 * the row that was deleted had itself been inserted in place of one of which that is so; and its
 * key was in the window of time.
 */
constexpr SubTransactionId kAwaited = (SubTransactionId) 1 << 31;
constexpr SubTransactionId kAgain = (SubTransactionId) 1 << 30;
constexpr SubTransactionId kInWindow = (SubTransactionId) 1 << 29;
constexpr SubTransactionId kFlags = kAwaited | kAgain | kInWindow;

/* Whether nothing can make the row count again; such rows need not be kept. */
extern bool IsOver(const DeletedRow &row);

constexpr int BLOCK_ROWS = BLCKSZ / sizeof(DeletedRow);

/* ---- files ---------------------------------------------------------------------- */

extern File OpenDeletedFile(void);
extern void WriteRows(File file, const DeletedRow *rows, int count, uint64 at);
extern void ReadRows(File file, DeletedRow *rows, int count, uint64 at);

/* ---- runs ----------------------------------------------------------------------- */

/*
 * Memory comes from `context`. A run of at most so many rows has a bit in memory for each
 * that is over; in longer ones they are written back.
 */
extern void BeginDeletedRuns(MemoryContext context, uint64 rows_with_bits);

/* `close`: closes the files, too; else the end of the transaction does. */
extern void ForgetDeletedRuns(bool close);

/*
 * Makes a run of the rows in so many places of a table, which are in the order of their
 * keys. If this fails, the runs are as they were.
 */
extern void AddDeletedRun(const DeletedRow *places, Size count);

/* A sorted file of rows. */
struct DeletedRun
{
	File file;
	int tier;
	uint64 rows;
	uint64 *first;     /* first key of each block */
	uint8 *over;       /* a bit for each row that is over; NULL: they are written back */
	uint64 hint_key;   /* of this key no row before `hint_row` can be used */
	uint64 hint_row;   /* 0: no hint */
	uint64 cached;     /* block in `block` plus one, or 0 */
	DeletedRow *block; /* or NULL */
};

/* The runs, merged as far as a look-up needs, the youngest last; and how many. */
extern DeletedRun *RunsForLookup(int *count);

/* The first block that can have a key. */
extern uint64 FirstBlockOf(const DeletedRun *run, uint64 key);

/* The rows of a block, through the run's cache. */
extern DeletedRow *ReadBlock(DeletedRun *run, uint64 block, int *rows);

/* Uses of rows were undone: what the hints say no longer holds. */
extern void ForgetRunHints(void);

/* Keeps the change of row `at` of the block that was read last. */
extern void WriteBack(DeletedRun *run, int at);

/* Whether a row has its bit, so that it is over. */
static inline bool
HasOverBit(const DeletedRun *run, uint64 at)
{
	return run->over != NULL && (run->over[at / 8] & 1 << at % 8) != 0;
}

/*
 * Runs visit(row) over the rows of a key until it returns true; the row is kept as it is
 * then. Returns whether it did. `usable`: only rows that can be used are looked for, and
 * the one that is found is used: so the next look-up of the key need not pass it.
 */
template <typename Visit>
static inline bool
VisitDeletedRuns(uint64 key, bool usable, Visit visit)
{
	int count;
	DeletedRun *runs = RunsForLookup(&count);

	for (int i = count - 1; i >= 0; i--)
	{
		DeletedRun *run = &runs[i];
		const uint64 from = usable && run->hint_key == key ? run->hint_row : 0;
		uint64 at = from > 0 ? from / BLOCK_ROWS * BLOCK_ROWS : FirstBlockOf(run, key) * BLOCK_ROWS;

		for (; at < run->rows; at += BLOCK_ROWS)
		{
			int rows;
			DeletedRow *block = ReadBlock(run, at / BLOCK_ROWS, &rows);
			int in_block = 0;

			CHECK_FOR_INTERRUPTS();
			for (int end = rows; in_block < end;)
			{
				int middle = (in_block + end) / 2;

				if (block[middle].key < key)
					in_block = middle + 1;
				else
					end = middle;
			}
			if (at + in_block < from)
				in_block = (int) (from - at);
			for (; in_block < rows && block[in_block].key == key; in_block++)
				if (!HasOverBit(run, at + in_block) && visit(&block[in_block]))
				{
					WriteBack(run, in_block);
					if (usable)
					{
						run->hint_key = key;
						run->hint_row = at + in_block + 1;
					}
					return true;
				}
			if (in_block < rows)
				break;
		}
	}
	return false;
}

#endif /* STREAMDEDUP_LIVE_DELETED_RUNS_HPP */
