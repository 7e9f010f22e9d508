/*
 * The rows that this transaction has deleted from guarded tables, so that each may be
 * inserted again although its key was seen.
 *
 * This is a multiset of keys. Each deleted row is an entry: its key, the subtransaction
 * that deleted it, and the one that inserted it again, if any did. ROLLBACK TO changes no
 * entry: it adds the subtransactions that it undoes to a list, and what those deleted or
 * used counts as not deleted or not used.
 *
 * Memory is bounded by what a hash table of a query may take (work_mem times
 * hash_mem_multiplier). New entries are only collected, in memory and then in a temporary
 * file: a transaction that does not insert pays no more than that, 16 bytes a row in
 * sequence. Before the first look-up they go into a table in the order of their keys, in
 * which a key's home is given by its upper bits; when that is full it is written to a file
 * as a sorted run. Runs are merged: 64 of one tier when the last of them is written, and
 * before a look-up as far as needed for each run to be larger than all younger ones
 * together. So a look-up reads one block of 8 kB or a few.
 */
#include "live/guard.hpp"

extern "C" {
#include "commands/tablespace.h"
#include "storage/fd.h"
#include "utils/resowner.h"
#include "utils/wait_event.h"
}

namespace
{

struct DeletedRow
{
	uint64		key;			/* see KeyOf() */
	SubTransactionId deleted;	/* by; invalid: an empty place */
	SubTransactionId used;		/* inserted again by, or invalid */
};
static_assert(sizeof(DeletedRow) == 16, "rows are written to files");

/* A sorted file of rows. */
struct Run
{
	File		file;
	int			tier;
	uint64		rows;
	uint64	   *first;			/* first key of each block */
	uint8	   *over;			/* a bit for each row that is over; NULL: they are written back */
	uint64		cached;			/* block in `block` plus one, or 0 */
	DeletedRow *block;			/* or NULL */
};

/* Ids of subtransactions that were undone, both ends included. */
struct Undone
{
	SubTransactionId from;
	SubTransactionId to;
};

/* The greatest id with an entry that counts, when a subtransaction began. */
struct Begun
{
	int			level;
	SubTransactionId live;
};

}							/* namespace */

constexpr int BLOCK_ROWS = BLCKSZ / sizeof(DeletedRow);
constexpr int MERGED_RUNS = 64;

/* Places behind the table's last home; places that a key may be off its home. */
constexpr Size SLACK = 1024;
constexpr Size FARTHEST = 1000;
constexpr int FIRST_BITS = 8;

static MemoryContext context = NULL;	/* NULL: nothing was deleted */

static DeletedRow *table;
static int	table_bits;
static Size table_count;
static int	table_most_bits;
static Size most_bits_of_run;	/* rows of a run that has bits */

/* Entries that were collected: in a file first, then in an array. */
static DeletedRow *collected;
static int	collected_count;
static int	collected_room;
static int	collected_most;
static File collected_file = -1;
static uint64 collected_in_file;
static uint64 collected_taken;	/* from the file into the table */

static Run *runs;
static int	run_count;
static int	run_room;

static Undone *undone;
static int	undone_count;
static int	undone_room;
static SubTransactionId greatest;	/* that any entry names */
static SubTransactionId live;	/* the same, of those that were not undone */

static Begun *begun;
static int	begun_count;
static int	begun_room;

/* ---- small things ----------------------------------------------------------- */

/* One more element of an array that doubles. */
template <typename Element>
static Element *
OneMore(Element **array, int *count, int *room)
{
	if (*count == *room)
	{
		*room = Max(16, 2 * *room);
		*array = (Element *) (*array == NULL ?
							  MemoryContextAllocHuge(context, sizeof(Element) * (Size) *room) :
							  repalloc_huge(*array, sizeof(Element) * (Size) *room));
	}
	return &(*array)[(*count)++];
}

/* One key for a filter and a hash in it, spread over all 64 bits. */
static uint64
KeyOf(Oid filter, uint64 hash)
{
	uint64		key = hash ^ (uint64) filter * UINT64CONST(0x9E3779B97F4A7C15);

	key = (key ^ key >> 32) * UINT64CONST(0xD6E8FEB86659FD93);
	return key ^ key >> 32;
}

/*
 * Room for what the aborts of all subtransactions that are running could add to the list
 * of those undone, since an abort must not fail.
 */
static void
ReserveUndone(void)
{
	int			count = undone_count + GetCurrentTransactionNestLevel();

	if (likely(count < undone_room))
		return;
	undone = undone == NULL ?
		(Undone *) MemoryContextAllocHuge(context, sizeof(Undone) * 2 * (Size) count) :
		(Undone *) repalloc_huge(undone, sizeof(Undone) * 2 * (Size) count);
	undone_room = 2 * count;
}

static void
Activate(void)
{
	Size		most;

	if (likely(context != NULL))
		return;
	context = AllocSetContextCreateInternal(TopTransactionContext, "dedup_guard deleted rows",
											ALLOCSET_DEFAULT_SIZES);

	/* While the table grows, there are two. */
	most = get_hash_memory_limit() / 2 / sizeof(DeletedRow);
	most_bits_of_run = most * 64;	/* a quarter of the memory */
	collected_most = (int) Min(most / 2, (Size) 1 << 24);
	table_most_bits = FIRST_BITS;
	while (table_most_bits < 28 && ((Size) 2 << table_most_bits) <= most)
		table_most_bits++;
	ReserveUndone();
}

/* ---- subtransactions ---------------------------------------------------------- */

static bool
IsUndone(SubTransactionId id)
{
	int			low = 0;
	int			high = undone_count;

	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (undone[middle].to < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low < undone_count && undone[low].from <= id;
}

static bool
IsUsed(const DeletedRow &row)
{
	return row.used != InvalidSubTransactionId && !IsUndone(row.used);
}

/*
 * Whether nothing can make the row count again: its deletion was undone, or is undone
 * whenever its use is, since what is still running of the two is the current
 * subtransaction.
 */
static bool
IsOver(const DeletedRow &row)
{
	SubTransactionId current = GetCurrentSubTransactionId();

	return IsUndone(row.deleted) || (IsUsed(row) && row.deleted >= current);
}

static void
NoteSubtransaction(SubTransactionId id)
{
	greatest = Max(greatest, id);
	live = Max(live, id);

	/* An entry of an outer subtransaction stays when an inner one is undone. */
	for (int i = begun_count - 1; i >= 0 && id < GetCurrentSubTransactionId(); i--)
		begun[i].live = Max(begun[i].live, id);
}

void
DeletedRowsSubtransactionBegins(int level)
{
	if (context == NULL)
		return;
	*OneMore(&begun, &begun_count, &begun_room) = {level, live};
	ReserveUndone();
}

void
DeletedRowsSubtransactionCommits(int level)
{
	while (begun_count > 0 && begun[begun_count - 1].level >= level)
		begun_count--;
}

void
DeletedRowsSubtransactionAborts(int level, SubTransactionId id, SubTransactionId parent)
{
	SubTransactionId before = InvalidSubTransactionId;
	SubTransactionId from = id;

	if (context == NULL)
		return;
	while (begun_count > 0 && begun[begun_count - 1].level >= level)
		before = begun[--begun_count].live;
	live = before;
	if (greatest < id)
		return;

	/* Ids only grow: those from `id` on are this one's and of those inside of it. */
	while (undone_count > 0 && undone[undone_count - 1].from >= id)
		undone_count--;

	/* One range with the last, if nobody in between has an entry or can get one. */
	if (undone_count > 0 && parent < undone[undone_count - 1].from &&
		live <= undone[undone_count - 1].to)
		from = undone[--undone_count].from;
	undone[undone_count++] = {from, greatest};
}

void
ForgetDeletedRows(bool close)
{
	if (close)
	{
		for (int i = 0; i < run_count; i++)
			FileClose(runs[i].file);
		if (collected_file >= 0)
			FileClose(collected_file);
	}

	/* The memory is the transaction's. */
	context = NULL;
	collected = NULL;
	collected_count = collected_room = 0;
	collected_file = -1;
	collected_in_file = collected_taken = 0;
	table = NULL;
	table_bits = 0;
	table_count = 0;
	runs = NULL;
	run_count = run_room = 0;
	undone = NULL;
	undone_count = undone_room = 0;
	begun = NULL;
	begun_count = begun_room = 0;
	greatest = live = InvalidSubTransactionId;
}

/* ---- the table ---------------------------------------------------------------- */

static Size
TablePlaces(void)
{
	return ((Size) 1 << table_bits) + SLACK;
}

static Size
HomeOf(uint64 key)
{
	return (Size) (key >> (64 - table_bits));
}

/* The first place from its home on that does not hold a smaller key. */
static Size
PlaceOf(uint64 key)
{
	Size		at = HomeOf(key);

	while (table[at].deleted != InvalidSubTransactionId && table[at].key < key)
		at++;
	return at;
}

/* Returns false if the table is too full. */
static bool
PutIntoTable(const DeletedRow &row)
{
	Size		home;
	Size		at;
	Size		gap;

	if (table == NULL || table_count >= ((Size) 3 << table_bits) / 4)
		return false;
	home = HomeOf(row.key);
	at = PlaceOf(row.key);
	for (gap = at; table[gap].deleted != InvalidSubTransactionId; gap++)
		;
	/* The last place stays empty, so that every search ends. */
	if (gap - home > FARTHEST || gap + 1 >= TablePlaces())
		return false;
	memmove(&table[at + 1], &table[at], (gap - at) * sizeof(DeletedRow));
	table[at] = row;
	table_count++;
	return true;
}

static void
TakeFromTable(Size at)
{
	for (at++; table[at].deleted != InvalidSubTransactionId && HomeOf(table[at].key) < at; at++)
		table[at - 1] = table[at];
	memset(&table[at - 1], 0, sizeof(DeletedRow));
	table_count--;
}

/* A larger table, or one of the same size, without what is over. */
static void
RebuildTable(int bits)
{
	DeletedRow *old = table;
	Size		old_places = old == NULL ? 0 : TablePlaces();
	Size		next = 0;
	DeletedRow *fresh = (DeletedRow *)
		MemoryContextAllocExtended(context, (((Size) 1 << bits) + SLACK) * sizeof(DeletedRow),
								   MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);

	table = fresh;
	table_bits = bits;
	table_count = 0;
	for (Size i = 0; i < old_places; i++)
		if (old[i].deleted != InvalidSubTransactionId && !IsOver(old[i]))
		{
			next = Max(next, HomeOf(old[i].key));
			table[next++] = old[i];
			table_count++;
		}
	if (old != NULL)
		pfree(old);
}

/* ---- runs --------------------------------------------------------------------- */

namespace
{

/* Writes a run, row by row. */
struct RunWriter
{
	Run			run;
	int			room;			/* blocks that `first` has room for */
	int			rows;			/* in `block` */
	DeletedRow *block;
};

}							/* namespace */

/* A file that lives as long as the transaction, whatever query writes it. */
static File
OpenFile(void)
{
	ResourceOwner owner = CurrentResourceOwner;
	File		file;

	PrepareTempTablespaces();
	CurrentResourceOwner = TopTransactionResourceOwner;
	file = OpenTemporaryFile(false);
	CurrentResourceOwner = owner;
	return file;
}

static void
WriteRows(File file, const DeletedRow *rows, int count, uint64 at)
{
	int			bytes = count * (int) sizeof(DeletedRow);

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

static void
ReadRows(File file, DeletedRow *rows, int count, uint64 at)
{
	int			bytes = count * (int) sizeof(DeletedRow);

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
	writer->run.file = OpenFile();
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
		int			blocks = (int) (writer->run.rows / BLOCK_ROWS);

		*OneMore(&writer->run.first, &blocks, &writer->room) = row.key;
	}
	writer->block[writer->rows++] = row;
	writer->run.rows++;
	if (writer->rows == BLOCK_ROWS)
		WriteBlock(writer);
}

static void
CloseRun(Run *run)
{
	FileClose(run->file);
	if (run->first != NULL)
		pfree(run->first);
	if (run->over != NULL)
		pfree(run->over);
	if (run->block != NULL)
		pfree(run->block);
}

static bool
HasOverBit(const Run *run, uint64 at)
{
	return run->over != NULL && (run->over[at / 8] & 1 << at % 8) != 0;
}

/* Ends what StartRun() began. Returns false, and no run, if nothing was written. */
static bool
FinishRun(RunWriter *writer, Run *run)
{
	WriteBlock(writer);
	pfree(writer->block);
	*run = writer->run;
	if (run->rows > 0)
		return true;
	CloseRun(run);
	return false;
}

/* The rows of a block, through the run's cache. */
static DeletedRow *
ReadBlock(Run *run, uint64 block, int *rows)
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

/* Writes the cached block's row `at` back. */
static void
WriteBack(Run *run, int at)
{
	const uint64 block = run->cached - 1;
	const uint64 row = block * BLOCK_ROWS + at;

	/* Most rows are used up for good: then a bit in memory saves the writing. */
	if (IsOver(run->block[at]))
	{
		if (run->over == NULL && run->rows <= most_bits_of_run)
			run->over = (uint8 *) MemoryContextAllocZero(context, run->rows / 8 + 1);
		if (run->over != NULL)
		{
			run->over[row / 8] |= 1 << row % 8;
			return;
		}
	}

	/* If this fails, the cached block is not what is in the file. */
	run->cached = 0;
	WriteRows(run->file, &run->block[at], 1, row);
	run->cached = block + 1;
}

/* ---- merging -------------------------------------------------------------------- */

namespace
{

/* Where a merge has got to in a run. */
struct Cursor
{
	Run		   *run;
	uint64		at;
	DeletedRow	row;
};

}							/* namespace */

/* Moves on to the next row that is not over. Returns false at the end. */
static bool
NextRow(Cursor *cursor)
{
	for (; cursor->at < cursor->run->rows; cursor->at++)
	{
		int			rows;
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

/* Moves the first cursor of a heap, ordered by key, to where it belongs. */
static void
SiftDown(Cursor *heap, int count)
{
	Cursor		moving = heap[0];
	int			at = 0;

	for (;;)
	{
		int			child = 2 * at + 1;

		if (child + 1 < count && heap[child + 1].row.key < heap[child].row.key)
			child++;
		if (child >= count || moving.row.key <= heap[child].row.key)
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = moving;
}

/* Makes one run of all from `from` on. If this fails, they are as they were. */
static void
MergeRuns(int from)
{
	int			count = 0;
	Cursor	   *heap = (Cursor *) MemoryContextAlloc(context, sizeof(Cursor) * (run_count - from));
	RunWriter	writer;
	Run			merged;
	bool		some;

	StartRun(&writer, runs[from].tier + 1);
	for (int i = from; i < run_count; i++)
	{
		Cursor		cursor = {&runs[i], 0, {}};
		int			at = count;

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
		int			from = run_count;

		while (from > 0 && runs[from - 1].tier == runs[run_count - 1].tier)
			from--;
		if (run_count - from < MERGED_RUNS)
			return;
		MergeRuns(from);
	}
}

/* Before a look-up: each run that is left is larger than all younger ones together. */
static void
MergeForLookup(void)
{
	int			from = run_count - 1;
	uint64		rows;

	if (run_count < 2)
		return;
	rows = runs[from].rows;
	while (from > 0 && runs[from - 1].rows < 2 * rows)
		rows += runs[--from].rows;
	if (from < run_count - 1)
		MergeRuns(from);
}

/* ---- entries ---------------------------------------------------------------------- */

/* Writes the table to a run, and empties it. */
static void
SpillTable(void)
{
	RunWriter	writer;
	Run			run;

	StartRun(&writer, 0);
	for (Size i = 0; i < TablePlaces(); i++)
		if (table[i].deleted != InvalidSubTransactionId)
			WriteRow(&writer, table[i]);
	if (FinishRun(&writer, &run))
		*OneMore(&runs, &run_count, &run_room) = run;
	memset(table, 0, TablePlaces() * sizeof(DeletedRow));
	table_count = 0;
	MergeTiers();
}

static void
PutRow(const DeletedRow &row)
{
	while (!PutIntoTable(row))
	{
		if (table == NULL)
			RebuildTable(FIRST_BITS);
		else if (table_bits < table_most_bits &&
				 table_count >= ((Size) 1 << table_bits) / 2)
			RebuildTable(table_bits + 1);
		else
		{
			/* Much of it may be over; or many keys may have nearly one home. */
			RebuildTable(table_bits);
			if (table_count > ((Size) 1 << table_bits) / 2 || !PutIntoTable(row))
				SpillTable();
			else
				return;
		}
	}
}

/* Collects an entry. */
static void
CollectRow(const DeletedRow &row)
{
	if (unlikely(collected_count == collected_room))
	{
		if (collected_room < collected_most)
		{
			int			room = Min(collected_most, Max(64, 2 * collected_room));

			collected = collected == NULL ?
				(DeletedRow *) MemoryContextAllocHuge(context, room * sizeof(DeletedRow)) :
				(DeletedRow *) repalloc_huge(collected, room * sizeof(DeletedRow));
			collected_room = room;
		}
		else
		{
			if (collected_file < 0)
				collected_file = OpenFile();
			WriteRows(collected_file, collected, collected_count, collected_in_file);
			collected_in_file += collected_count;
			collected_count = 0;
		}
	}
	collected[collected_count++] = row;
}

/* Puts what was collected into the table. If this fails, it goes on from where it was. */
static void
TakeCollected(void)
{
	if (collected_file >= 0)
	{
		DeletedRow *block = (DeletedRow *) MemoryContextAlloc(context, BLCKSZ);

		while (collected_taken < collected_in_file)
		{
			int			count = (int) Min((uint64) BLOCK_ROWS, collected_in_file - collected_taken);

			CHECK_FOR_INTERRUPTS();
			ReadRows(collected_file, block, count, collected_taken);
			for (int i = 0; i < count; i++, collected_taken++)
				if (!IsOver(block[i]))
					PutRow(block[i]);
		}
		pfree(block);
		FileClose(collected_file);
		collected_file = -1;
		collected_in_file = collected_taken = 0;
	}
	while (collected_count > 0)
	{
		if (!IsOver(collected[collected_count - 1]))
			PutRow(collected[collected_count - 1]);
		collected_count--;
	}
	if (collected_room > 4096)
	{
		pfree(collected);
		collected = NULL;
		collected_room = 0;
	}
}

/*
 * Runs visit(row, in_table) over the entries of a key until it returns true; a run's row
 * is written back then. Returns whether it did.
 */
template <typename Visit>
static bool
VisitRows(uint64 key, Visit visit)
{
	TakeCollected();
	if (table != NULL)
		for (Size at = PlaceOf(key);
			 table[at].deleted != InvalidSubTransactionId && table[at].key == key; at++)
			if (visit(&table[at], true))
				return true;
	MergeForLookup();
	for (int i = run_count - 1; i >= 0; i--)
	{
		Run		   *run = &runs[i];
		uint64		low = 0;
		uint64		high = (run->rows + BLOCK_ROWS - 1) / BLOCK_ROWS;

		/* The key's first row is in the last block that begins below it, or begins the next. */
		while (low < high)
		{
			uint64		middle = (low + high) / 2;

			if (run->first[middle] < key)
				low = middle + 1;
			else
				high = middle;
		}
		for (uint64 at = (low == 0 ? 0 : low - 1) * BLOCK_ROWS; at < run->rows;)
		{
			int			rows;
			DeletedRow *block = ReadBlock(run, at / BLOCK_ROWS, &rows);
			int			in_block = 0;

			CHECK_FOR_INTERRUPTS();
			for (int end = rows; in_block < end;)
			{
				int			middle = (in_block + end) / 2;

				if (block[middle].key < key)
					in_block = middle + 1;
				else
					end = middle;
			}
			for (; in_block < rows && block[in_block].key == key; in_block++)
				if (!HasOverBit(run, at / BLOCK_ROWS * BLOCK_ROWS + in_block) &&
					visit(&block[in_block], false))
				{
					WriteBack(run, in_block);
					return true;
				}
			if (in_block < rows)
				break;
			at = (at / BLOCK_ROWS + 1) * BLOCK_ROWS;
		}
	}
	return false;
}

static void
PutDeleted(uint64 key, SubTransactionId deleted)
{
	CollectRow({key, deleted, InvalidSubTransactionId});
	NoteSubtransaction(deleted);
}

void
NoteDeletedRow(Oid filter, uint64 hash, SubTransactionId deleted)
{
	Activate();
	PutDeleted(KeyOf(filter, hash), deleted);
}

bool
UseDeletedRow(Oid filter, uint64 hash, DeletedRowUse *use)
{
	SubTransactionId current;
	uint64		key;

	if (likely(context == NULL))
		return false;
	current = GetCurrentSubTransactionId();
	key = KeyOf(filter, hash);
	return VisitRows(key, [&](DeletedRow *row, bool in_table) {
		if (IsUndone(row->deleted) || IsUsed(*row))
			return false;
		*use = {key, row->deleted, current};
		row->used = current;
		NoteSubtransaction(current);
		if (in_table && IsOver(*row))
			TakeFromTable((Size) (row - table));
		return true;
	});
}

void
ReturnDeletedRow(const DeletedRowUse &use)
{
	if (context == NULL)
		return;
	if (!VisitRows(use.key, [&](DeletedRow *row, bool) {
		if (row->deleted != use.deleted || row->used != use.used)
			return false;
		row->used = InvalidSubTransactionId;
		return true;
	}))
		PutDeleted(use.key, use.deleted);
}

void
RevokeDeletedRow(Oid filter, uint64 hash, SubTransactionId deleted)
{
	if (context == NULL)
		return;
	VisitRows(KeyOf(filter, hash), [&](DeletedRow *row, bool in_table) {
		if (row->deleted != deleted || IsUsed(*row))
			return false;
		row->used = deleted;
		if (in_table)
			TakeFromTable((Size) (row - table));
		return true;
	});
}
