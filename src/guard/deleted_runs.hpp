/*
 * Files of deleted rows (deleted.cpp): the sorted runs to which its table is written when it is
 * full. They are kept until the end of the transaction.
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
	SubTransactionId deleted; /* the subtransaction that deleted the row; invalid: an empty place */
	/* the subtransaction that inserted the row again, or invalid; and flags */
	SubTransactionId used;
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

/* Returns whether nothing can make the row count again. Such rows need not be kept. */
extern bool IsOver(const DeletedRow &row);

constexpr int BLOCK_ROWS = BLCKSZ / sizeof(DeletedRow);

/* ---- files ---------------------------------------------------------------------- */

extern File OpenDeletedFile(void);
extern void WriteRows(File file, const DeletedRow *rows, int count, uint64 at);
extern void ReadRows(File file, DeletedRow *rows, int count, uint64 at);

/* ---- runs ----------------------------------------------------------------------- */

/*
 * Starts the files. Memory is allocated in `context`. A run of at most `rows_with_bits` rows has a
 * bit in memory for each row that is over; in longer runs these rows are written back.
 */
extern void BeginDeletedRuns(MemoryContext context, uint64 rows_with_bits);

/* `close`: closes the files, too; otherwise the end of the transaction closes them. */
extern void ForgetDeletedRuns(bool close);

/*
 * Makes a run of the rows in `count` places of a table, which are in the order of their keys. If
 * this fails, the runs are unchanged.
 */
extern void AddDeletedRun(const DeletedRow *places, Size count);

/* A sorted file of rows. */
struct DeletedRun
{
	File file;
	int tier;
	uint64 rows;
	uint64 *first;     /* first key of each block */
	uint8 *over;       /* a bit for each row that is over; NULL: such rows are written back */
	uint64 hint_key;   /* no row of this key before `hint_row` can be used */
	uint64 hint_row;   /* 0: no hint */
	uint64 cached;     /* number of the block in `block` plus one, or 0 */
	DeletedRow *block; /* or NULL */
};

/* Returns the runs, merged as far as a lookup needs, the youngest last, and sets their number. */
extern DeletedRun *RunsForLookup(int *count);

/* Returns the first block that can have a key. */
extern uint64 FirstBlockOf(const DeletedRun *run, uint64 key);

/* Returns the rows of a block, through the run's cache. */
extern DeletedRow *ReadBlock(DeletedRun *run, uint64 block, int *rows);

/* Must be called when uses of rows were rolled back: the hints are not valid any more. */
extern void ForgetRunHints(void);

/* Stores the change of row `at` of the block that was read last. */
extern void WriteBack(DeletedRun *run, int at);

/* Returns whether a row's bit says that it is over. */
static inline bool
HasOverBit(const DeletedRun *run, uint64 at)
{
	return run->over != NULL && (run->over[at / 8] & 1 << at % 8) != 0;
}

/*
 * Runs visit(row) over the rows of a key until it returns true; the row is then stored with its
 * changes. Returns whether visit returned true. `usable`: only rows that can be used are visited,
 * and the one that is found is used up, so that the next lookup of the key can skip it.
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
