/* Files of deleted rows; see deleted_runs.hpp, and deleted.cpp for their purpose. */
#include "guard/deleted_runs.hpp"

extern "C" {
#include "commands/tablespace.h"
#include "utils/resowner.h"
}

/* This many runs of one tier become one run of the next tier. */
constexpr int MERGED_RUNS = 64;

static MemoryContext context = NULL;
static uint64 most_rows_with_bits;

static DeletedRun *runs;
static int run_count;
static int run_room;

/* ---- runs --------------------------------------------------------------------- */

namespace
{

/* Writes a run row by row. */
struct RunWriter
{
	DeletedRun run;
	int room; /* number of blocks for which `first` has room */
	int rows; /* number of rows in `block` */
	DeletedRow *block;
};

} /* namespace */

/* Opens a file that is kept until the end of the transaction, whatever query writes it. */
File
OpenDeletedFile(void)
{
	ResourceOwner owner = CurrentResourceOwner;
	File file;

	PrepareTempTablespaces();
	CurrentResourceOwner = TopTransactionResourceOwner;
	file = OpenTemporaryFile(false);
	CurrentResourceOwner = owner;
	return file;
}

void
WriteRows(File file, const DeletedRow *rows, int count, uint64 at)
{
	int bytes = count * (int) sizeof(DeletedRow);

	errno = 0;
	if ((int) FileWrite(file, (char *) rows, bytes, (off_t) (at * sizeof(DeletedRow)),
						WAIT_EVENT_BUFFILE_WRITE) != bytes)
	{
		if (errno == 0)
			errno = ENOSPC;
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not write the keys of deleted rows to a temporary file: %m")));
	}
}

void
ReadRows(File file, DeletedRow *rows, int count, uint64 at)
{
	int bytes = count * (int) sizeof(DeletedRow);

	errno = 0;
	if ((int) FileRead(file, (char *) rows, bytes, (off_t) (at * sizeof(DeletedRow)),
					   WAIT_EVENT_BUFFILE_READ) != bytes)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not read the keys of deleted rows from a temporary file: %m")));
}

static void
StartRun(RunWriter *writer, int tier)
{
	memset(writer, 0, sizeof *writer);
	writer->run.file = OpenDeletedFile();
	writer->run.tier = tier;
	writer->block = (DeletedRow *) MemoryContextAlloc(context, BLCKSZ);
}

static void
WriteBlock(RunWriter *writer)
{
	CHECK_FOR_INTERRUPTS();
	if (writer->rows > 0)
		WriteRows(writer->run.file, writer->block, writer->rows, writer->run.rows - writer->rows);
	writer->rows = 0;
}

static void
WriteRow(RunWriter *writer, const DeletedRow &row)
{
	if (writer->run.rows % BLOCK_ROWS == 0)
	{
		int blocks = (int) (writer->run.rows / BLOCK_ROWS);

		*OneMore(context, &writer->run.first, &blocks, &writer->room) = row.key;
	}
	writer->block[writer->rows++] = row;
	writer->run.rows++;
	if (writer->rows == BLOCK_ROWS)
		WriteBlock(writer);
}

static void
CloseRun(DeletedRun *run)
{
	FileClose(run->file);
	if (run->first != NULL)
		pfree(run->first);
	if (run->over != NULL)
		pfree(run->over);
	if (run->block != NULL)
		pfree(run->block);
}

/* Abandons what StartRun() began, after an error. */
static void
AbandonRun(RunWriter *writer)
{
	pfree(writer->block);
	CloseRun(&writer->run);
}

/* Ends what StartRun() began. Returns false, and no run, if nothing was written. */
static bool
FinishRun(RunWriter *writer, DeletedRun *run)
{
	WriteBlock(writer);
	pfree(writer->block);
	*run = writer->run;
	if (run->rows > 0)
		return true;
	CloseRun(run);
	return false;
}

/* Reads the rows of a block, through the run's cache. */
DeletedRow *
ReadBlock(DeletedRun *run, uint64 block, int *rows)
{
	*rows = (int) Min((uint64) BLOCK_ROWS, run->rows - block * BLOCK_ROWS);
	if (run->cached == block + 1)
		return run->block;
	if (run->block == NULL)
		run->block = (DeletedRow *) MemoryContextAlloc(context, BLCKSZ);
	run->cached = 0;
	ReadRows(run->file, run->block, *rows, block * BLOCK_ROWS);
	run->cached = block + 1;
	return run->block;
}

/* Writes row `at` of the cached block back. */
void
WriteBack(DeletedRun *run, int at)
{
	const uint64 block = run->cached - 1;
	const uint64 row = block * BLOCK_ROWS + at;

	/* Most rows are used up permanently. Then a bit in memory saves the write. */
	if (IsOver(run->block[at]))
	{
		if (run->over == NULL && run->rows <= most_rows_with_bits)
			run->over = (uint8 *) MemoryContextAllocZero(context, run->rows / 8 + 1);
		if (run->over != NULL)
		{
			run->over[row / 8] |= 1 << row % 8;
			return;
		}
	}

	/* If the write fails, the cached block differs from the file. */
	run->cached = 0;
	WriteRows(run->file, &run->block[at], 1, row);
	run->cached = block + 1;
}

/* ---- merging -------------------------------------------------------------------- */

namespace
{

/* The position of a merge in a run. */
struct Cursor
{
	DeletedRun *run;
	uint64 at;
	DeletedRow row;
};

} /* namespace */

/* Moves on to the next row that is not over. Returns false at the end. */
static bool
NextRow(Cursor *cursor)
{
	for (; cursor->at < cursor->run->rows; cursor->at++)
	{
		int rows;
		DeletedRow *block = ReadBlock(cursor->run, cursor->at / BLOCK_ROWS, &rows);

		cursor->row = block[cursor->at % BLOCK_ROWS];
		if (!IsOver(cursor->row) && !HasOverBit(cursor->run, cursor->at))
		{
			cursor->at++;
			return true;
		}
	}
	return false;
}

/* Moves the first cursor of a heap, which is ordered by key, to its place. */
static void
SiftDown(Cursor *heap, int count)
{
	Cursor moving = heap[0];
	int at = 0;

	for (;;)
	{
		int child = 2 * at + 1;

		if (child + 1 < count && heap[child + 1].row.key < heap[child].row.key)
			child++;
		if (child >= count || moving.row.key <= heap[child].row.key)
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = moving;
}

/* Merges all runs from `from` on into one run. If this fails, they are unchanged. */
static void
MergeRuns(int from)
{
	int count = 0;
	Cursor *heap = (Cursor *) MemoryContextAlloc(context, sizeof(Cursor) * (run_count - from));
	RunWriter writer;
	DeletedRun merged;
	bool some;

	StartRun(&writer, runs[from].tier + 1);
	PG_TRY();
	{
		for (int i = from; i < run_count; i++)
		{
			Cursor cursor = {&runs[i], 0, {}};
			int at = count;

			if (!NextRow(&cursor))
				continue;
			for (count++; at > 0 && heap[(at - 1) / 2].row.key > cursor.row.key; at = (at - 1) / 2)
				heap[at] = heap[(at - 1) / 2];
			heap[at] = cursor;
		}
		while (count > 0)
		{
			WriteRow(&writer, heap[0].row);
			if (!NextRow(&heap[0]))
				heap[0] = heap[--count];
			if (count > 0)
				SiftDown(heap, count);
		}
		WriteBlock(&writer);
	}
	PG_CATCH();
	{
		AbandonRun(&writer);
		pfree(heap);
		PG_RE_THROW();
	}
	PG_END_TRY();
	pfree(heap);
	some = FinishRun(&writer, &merged);
	for (int i = from; i < run_count; i++)
		CloseRun(&runs[i]);
	run_count = from;
	if (some)
		runs[run_count++] = merged;
}

/* Merges the youngest runs while there are enough of one tier. */
static void
MergeTiers(void)
{
	for (;;)
	{
		int from = run_count;

		while (from > 0 && runs[from - 1].tier == runs[run_count - 1].tier)
			from--;
		if (run_count - from < MERGED_RUNS)
			return;
		MergeRuns(from);
	}
}

/* Each remaining run is larger than all younger ones together. */
DeletedRun *
RunsForLookup(int *count)
{
	int from = run_count - 1;

	if (run_count >= 2)
	{
		uint64 rows = runs[from].rows;

		while (from > 0 && runs[from - 1].rows < 2 * rows)
			rows += runs[--from].rows;
		if (from < run_count - 1)
			MergeRuns(from);
	}
	*count = run_count;
	return runs;
}

/*
 * The block is the last one that begins below the key. The key's first row is there, or begins the
 * next block.
 */
uint64
FirstBlockOf(const DeletedRun *run, uint64 key)
{
	uint64 low = 0;
	uint64 high = (run->rows + BLOCK_ROWS - 1) / BLOCK_ROWS;

	while (low < high)
	{
		uint64 middle = (low + high) / 2;

		if (run->first[middle] < key)
			low = middle + 1;
		else
			high = middle;
	}
	return low == 0 ? 0 : low - 1;
}

void
AddDeletedRun(const DeletedRow *places, Size count)
{
	RunWriter writer;
	DeletedRun run;

	MergeTiers();
	StartRun(&writer, 0);
	PG_TRY();
	{
		for (Size i = 0; i < count; i++)
			if (places[i].deleted != InvalidSubTransactionId)
				WriteRow(&writer, places[i]);
		WriteBlock(&writer);
	}
	PG_CATCH();
	{
		AbandonRun(&writer);
		PG_RE_THROW();
	}
	PG_END_TRY();
	if (FinishRun(&writer, &run))
		*OneMore(context, &runs, &run_count, &run_room) = run;
}

void
ForgetRunHints(void)
{
	for (int i = 0; i < run_count; i++)
		runs[i].hint_row = 0;
}

void
BeginDeletedRuns(MemoryContext memory, uint64 rows_with_bits)
{
	context = memory;
	most_rows_with_bits = rows_with_bits;
}

void
ForgetDeletedRuns(bool close)
{
	for (int i = 0; i < run_count && close; i++)
		FileClose(runs[i].file);

	/* The memory belongs to the transaction. */
	context = NULL;
	runs = NULL;
	run_count = run_room = 0;
}
