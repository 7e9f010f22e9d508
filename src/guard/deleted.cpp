/*
 * The rows that this transaction has deleted from guarded tables. Each may be inserted again
 * although its key was seen.
 *
 * The notes are a multiset of keys. Each deleted row is an entry: its key, the subtransaction that
 * deleted it, and the one that inserted it again, if any did. ROLLBACK TO changes no entry. It adds
 * the subtransactions that it rolls back to a list; what these deleted or used counts as not
 * deleted or not used.
 *
 * Memory is limited to that of a hash table of a query (work_mem times hash_mem_multiplier). New
 * entries are only collected, first in memory and then in a temporary file: a transaction that does
 * not insert pays only for that, 16 bytes a row in sequence. Before the first lookup they are put
 * into a table in the order of their keys, in which a key's home is given by its upper bits. When
 * the table is full, it is written to a file as a sorted run. Runs are merged: 64 of one tier when
 * the last of them is written, and before a lookup until each run is larger than all younger ones
 * together. So a lookup reads one block of 8 kB or a few.
 */
#include "guard/deleted_runs.hpp"

namespace
{

/* Ids of subtransactions that were rolled back, both ends included. */
struct Undone
{
	SubTransactionId from;
	SubTransactionId to;
};

/* The greatest id with an entry that counts, at the time when a subtransaction began. */
struct Begun
{
	int level;
	SubTransactionId live;
};

} /* namespace */

/*
 * The number of places behind the table's last home, and the largest distance of a key from its
 * home.
 */
constexpr Size SLACK = 1024;
constexpr Size FARTHEST = 1000;
constexpr int FIRST_BITS = 8;

static MemoryContext context = NULL; /* NULL: nothing was deleted */

static DeletedRow *table;
static int table_bits;
static Size table_count;
static int table_most_bits;

/* Entries that were only collected: in a file first, then in an array. */
static DeletedRow *collected;
static int collected_count;
static int collected_room;
static int collected_most;
static File collected_file = -1;
static uint64 collected_in_file;
static uint64 collected_taken; /* number of entries moved from the file into the table */

static Undone *undone;
static int undone_count;
static int undone_room;
static SubTransactionId greatest; /* the greatest id in any entry */
static SubTransactionId live;     /* the same, among those that were not rolled back */
static bool used_awaited;         /* an awaited row was inserted again at some time */

static Begun *begun;
static int begun_count;
static int begun_room;

/* ---- small things ----------------------------------------------------------- */

/*
 * Reserves room for the ranges that aborts of all running subtransactions could add to the list of
 * those rolled back, because an abort must not fail.
 */
static void
ReserveUndone(void)
{
	int count = undone_count + GetCurrentTransactionNestLevel();

	if (likely(count < undone_room))
		return;
	undone = undone == NULL
				 ? (Undone *) MemoryContextAllocHuge(context, sizeof(Undone) * 2 * (Size) count)
				 : (Undone *) repalloc_huge(undone, sizeof(Undone) * 2 * (Size) count);
	undone_room = 2 * count;
}

static void
Activate(void)
{
	Size most;

	if (likely(context != NULL))
		return;
	context = AllocSetContextCreateInternal(TopTransactionContext, "dedup_guard deleted rows",
											ALLOCSET_DEFAULT_SIZES);

	/* There are two tables while the table grows. */
	most = get_hash_memory_limit() / 2 / sizeof(DeletedRow);
	BeginDeletedRuns(context, most * 64); /* bits in a quarter of the memory */
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
	int low = 0;
	int high = undone_count;

	while (low < high)
	{
		int middle = (low + high) / 2;

		if (undone[middle].to < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low < undone_count && undone[low].from <= id;
}

static SubTransactionId
UsedBy(const DeletedRow &row)
{
	return row.used & ~kFlags;
}

static bool
IsUsed(const DeletedRow &row)
{
	return UsedBy(row) != InvalidSubTransactionId && !IsUndone(UsedBy(row));
}

/*
 * Returns whether nothing can make the row count again, and nobody asks for it. Either its deletion
 * was rolled back, or it will be rolled back whenever its use is, because the one of the two that
 * is still running is the current subtransaction.
 */
bool
IsOver(const DeletedRow &row)
{
	SubTransactionId current = GetCurrentSubTransactionId();

	return IsUndone(row.deleted) ||
		   (IsUsed(row) && row.deleted >= current && (row.used & kAwaited) == 0);
}

static void
NoteSubtransaction(SubTransactionId id)
{
	greatest = Max(greatest, id);
	live = Max(live, id);

	/* An entry of an outer subtransaction stays when an inner one is rolled back. */
	for (int i = begun_count - 1; i >= 0 && id < GetCurrentSubTransactionId(); i--)
		begun[i].live = Max(begun[i].live, id);
}

void
KeepDeletedRowsOf(SubTransactionId id)
{
	if (context != NULL)
		NoteSubtransaction(id);
}

void
DeletedRowsSubtransactionBegins(int level)
{
	if (context == NULL)
		return;
	Assert(begun_count == 0 || begun[begun_count - 1].level < level);
	*OneMore(context, &begun, &begun_count, &begun_room) = {level, live};
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
	ForgetRunHints();
	while (begun_count > 0 && begun[begun_count - 1].level >= level)
		before = begun[--begun_count].live;
	live = before;
	if (greatest < id)
		return;

	/*
	 * Ids only increase: those from `id` on belong to this subtransaction and to those inside it.
	 */
	while (undone_count > 0 && undone[undone_count - 1].from >= id)
		undone_count--;

	/*
	 * It can be one range with the last, if no subtransaction in between has an entry or can get
	 * one.
	 */
	if (undone_count > 0 && parent < undone[undone_count - 1].from &&
		live <= undone[undone_count - 1].to)
		from = undone[--undone_count].from;
	undone[undone_count++] = {from, greatest};
}

void
ForgetDeletedRows(bool close)
{
	ForgetDeletedRuns(close);
	if (close && collected_file >= 0)
		FileClose(collected_file);

	/* The memory belongs to the transaction. */
	context = NULL;
	collected = NULL;
	collected_count = collected_room = 0;
	collected_file = -1;
	collected_in_file = collected_taken = 0;
	table = NULL;
	table_bits = 0;
	table_count = 0;
	undone = NULL;
	undone_count = undone_room = 0;
	begun = NULL;
	begun_count = begun_room = 0;
	greatest = live = InvalidSubTransactionId;
	used_awaited = false;
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

/* Returns the first place, from its home on, that does not hold a smaller key. */
static Size
PlaceOf(uint64 key)
{
	Size at = HomeOf(key);

	while (table[at].deleted != InvalidSubTransactionId && table[at].key < key)
		at++;
	return at;
}

/* Returns false if the table is too full. */
static bool
PutIntoTable(const DeletedRow &row)
{
	Size home;
	Size at;
	Size gap;

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

/* Makes a larger table, or one of the same size, without the entries that are over. */
static void
RebuildTable(int bits)
{
	DeletedRow *old = table;
	Size old_places = old == NULL ? 0 : TablePlaces();
	Size next = 0;
	DeletedRow *fresh =
		(DeletedRow *) MemoryContextAllocExtended(context,
												  (((Size) 1 << bits) + SLACK) * sizeof(DeletedRow),
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

/* ---- entries ---------------------------------------------------------------------- */

/* Writes the table to a run, and empties it. */
static void
SpillTable(void)
{
	AddDeletedRun(table, TablePlaces());
	memset(table, 0, TablePlaces() * sizeof(DeletedRow));
	table_count = 0;
}

static void
PutRow(const DeletedRow &row)
{
	while (!PutIntoTable(row))
	{
		if (table == NULL)
			RebuildTable(FIRST_BITS);
		else if (table_bits < table_most_bits && table_count >= ((Size) 1 << table_bits) / 2)
			RebuildTable(table_bits + 1);
		else
		{
			/* Many entries may be over; or many keys may have nearly the same home. */
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
			int room = Min(collected_most, Max(64, 2 * collected_room));

			collected =
				collected == NULL
					? (DeletedRow *) MemoryContextAllocHuge(context, room * sizeof(DeletedRow))
					: (DeletedRow *) repalloc_huge(collected, room * sizeof(DeletedRow));
			collected_room = room;
		}
		else
		{
			if (collected_file < 0)
				collected_file = OpenDeletedFile();
			WriteRows(collected_file, collected, collected_count, collected_in_file);
			collected_in_file += collected_count;
			collected_count = 0;
		}
	}
	collected[collected_count++] = row;
}

/* Puts the collected entries into the table. If this fails, the next call continues. */
static void
TakeCollected(void)
{
	if (collected_file >= 0)
	{
		PGAlignedBlock buffer;
		DeletedRow *block = (DeletedRow *) buffer.data;

		while (collected_taken < collected_in_file)
		{
			int count = (int) Min((uint64) BLOCK_ROWS, collected_in_file - collected_taken);

			CHECK_FOR_INTERRUPTS();
			ReadRows(collected_file, block, count, collected_taken);
			for (int i = 0; i < count; i++, collected_taken++)
				if (!IsOver(block[i]))
					PutRow(block[i]);
		}
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
 * Runs visit(row, in_table) over the entries of a key until it returns true; a row of a run is then
 * written back. Returns whether visit returned true. `usable`: as for VisitDeletedRuns().
 */
template <typename Visit>
static bool
VisitRows(uint64 key, bool usable, Visit visit)
{
	TakeCollected();
	if (table != NULL)
		for (Size at = PlaceOf(key);
			 table[at].deleted != InvalidSubTransactionId && table[at].key == key; at++)
			if (visit(&table[at], true))
				return true;
	return VisitDeletedRuns(key, usable, [&](DeletedRow *row) { return visit(row, false); });
}

static void
PutDeleted(uint64 key, SubTransactionId deleted, SubTransactionId flags)
{
	CollectRow({key, deleted, flags});
	NoteSubtransaction(deleted);
}

static bool
IsAwaited(const DeletedRow &row)
{
	return (row.used & kAwaited) != 0 && !IsUndone(row.deleted);
}

namespace
{

/* The awaited deleted rows of a key. */
struct AwaitedRows
{
	int used;
	int unused;
	int again; /* number of both kinds with kAgain */
};

} /* namespace */

static AwaitedRows
CountAwaited(uint64 key)
{
	AwaitedRows rows = {};

	VisitRows(key, false, [&](DeletedRow *row, bool) {
		if (IsAwaited(*row))
		{
			(IsUsed(*row) ? rows.used : rows.unused)++;
			rows.again += (row->used & kAgain) != 0;
		}
		return false;
	});
	return rows;
}

/* Returns whether a row exists that was inserted in place of an awaited one. */
static bool
IsThereAgain(const AwaitedRows &rows)
{
	return rows.used > rows.again;
}

void
NoteDeletedRow(Oid filter, uint64 hash, SubTransactionId deleted, bool awaited, bool own,
			   bool in_window)
{
	const uint64 key = DeletedKeyOf(filter, hash);
	SubTransactionId flags = awaited ? kAwaited : InvalidSubTransactionId;

	Activate();
	if (awaited && own && used_awaited && IsThereAgain(CountAwaited(key)))
		flags |= kAgain;
	if (in_window)
		flags |= kInWindow;
	PutDeleted(key, deleted, flags);
}

/* Returns the id of the current subtransaction, which must leave room for the flags. */
static SubTransactionId
CurrentUser(void)
{
	const SubTransactionId current = GetCurrentSubTransactionId();

	if (unlikely(current >= kInWindow))
		ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
						errmsg("too many subtransactions in a transaction that has deleted rows "
							   "from a guarded table")));
	return current;
}

bool
UseDeletedRow(Oid filter, uint64 hash, DeletedRowUse *use)
{
	SubTransactionId current;
	uint64 key;

	if (likely(context == NULL))
		return false;
	current = CurrentUser();
	key = DeletedKeyOf(filter, hash);
	return VisitRows(key, true, [&](DeletedRow *row, bool in_table) {
		if (IsUndone(row->deleted) || IsUsed(*row))
			return false;
		*use = {key, row->deleted, current, (row->used & kInWindow) != 0};
		row->used = current | (row->used & kFlags);
		used_awaited = used_awaited || (row->used & kAwaited) != 0;
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
	ForgetRunHints();
	if (!VisitRows(use.key, false, [&](DeletedRow *row, bool) {
			if (row->deleted != use.deleted || UsedBy(*row) != use.used)
				return false;
			row->used &= kFlags;
			return true;
		}))
		PutDeleted(use.key, use.deleted, InvalidSubTransactionId);
}

void
RevokeDeletedRow(Oid filter, uint64 hash, SubTransactionId deleted)
{
	if (context == NULL)
		return;
	VisitRows(DeletedKeyOf(filter, hash), false, [&](DeletedRow *row, bool in_table) {
		if (row->deleted != deleted || IsUsed(*row))
			return false;
		row->used = deleted;
		if (in_table)
			TakeFromTable((Size) (row - table));
		return true;
	});
}

/* ---- rows that free their keys ------------------------------------------------------- */

/*
 * Ends the wait for one deleted row of a key, which is not used again. Of the used rows, the last
 * ones come first, so that the remaining ones show whether a row exists.
 */
static void
StopAwaiting(uint64 key, bool used, bool again)
{
	const SubTransactionId current = CurrentUser();

	VisitRows(key, false, [&](DeletedRow *row, bool in_table) {
		if (!IsAwaited(*row) || IsUsed(*row) != used || (again && (row->used & kAgain) == 0))
			return false;
		row->used = current;
		NoteSubtransaction(current);
		if (in_table && IsOver(*row))
			TakeFromTable((Size) (row - table));
		return true;
	});
}

bool
AskDeletedRow(Oid filter, uint64 hash)
{
	const uint64 key = DeletedKeyOf(filter, hash);
	AwaitedRows rows;

	if (context == NULL)
		return false;
	rows = CountAwaited(key);
	if (!IsThereAgain(rows))
		return false;
	/*
	 * Rows that were inserted again are kept for the other rows of the key, which are checked
	 * later.
	 */
	StopAwaiting(key, rows.unused == 0, rows.unused == 0 && rows.again > 0);
	return true;
}

void
DropDeletedRow(Oid filter, uint64 hash)
{
	if (context != NULL)
		StopAwaiting(DeletedKeyOf(filter, hash), false, false);
}
