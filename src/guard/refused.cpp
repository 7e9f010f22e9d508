/*
 * Finds the refused rows whose key no row of the guarded table has; see readmit.hpp.
 *
 * A guard that is not exact does not know whether a row with a key exists. So the keys of the
 * refused rows are hashed, and the table is read once. If there is an index and there are few rows,
 * each is searched with the index instead. No other session writes to the table meanwhile.
 */
#include "guard/exact.hpp"
#include "guard/readmit.hpp"
#include "guard/table_keys.hpp"

extern "C" {
#include "access/relation.h"
#include "utils/snapmgr.h"
}

/* The cost of an index lookup, in pages of a sequential scan. */
constexpr int PAGES_OF_A_LOOK = 4;

/* Adds the row in the slot to the refused rows. */
static void
AddRefused(Readmission *readmission, int table, MemoryContext context)
{
	SideLeaf *leaf = &readmission->side.leaves[table];
	Refused refused = {};
	GuardKey key;
	bool isnull;

	ReadSideRow(&readmission->side, leaf, false);
	ReadGuardKey(readmission->reader, readmission->side.row, &key);
	refused.has_key = HashGuardKey(readmission->plan, key, readmission->seed, &refused.hash);
	refused.at = DatumGetTimestampTz(slot_getattr(leaf->slot, leaf->at, &isnull));
	if (isnull)
		refused.at = DT_NOEND;
	refused.table = table;
	refused.tid = leaf->slot->tts_tid;
	*OneMore(context, &readmission->refused, &readmission->count, &readmission->room) = refused;
}

/* Runs visit(table, by) over the rows of the side table that name a table. */
template <typename Visit>
static void
VisitSide(const Readmission *readmission, Visit visit)
{
	for (int table = 0; table < readmission->side.leaf_count; table++)
	{
		SideLeaf *leaf = &readmission->side.leaves[table];
		TableScanDesc scan =
			table_beginscan_strat(leaf->rel, readmission->snapshot, 0, NULL, true, false);

		while (table_scan_getnextslot(scan, ForwardScanDirection, leaf->slot))
		{
			bool isnull;
			const Datum by = slot_getattr(leaf->slot, leaf->by, &isnull);

			CHECK_FOR_INTERRUPTS();
			if (!isnull)
				visit(table, DatumGetObjectId(by));
		}
		table_endscan(scan);
	}
}

List *
RefusingTables(const Readmission *readmission)
{
	List *tables = NIL;

	VisitSide(readmission, [&](int, Oid by) { tables = list_append_unique_oid(tables, by); });
	return tables;
}

void
ScanSide(Readmission *readmission)
{
	const MemoryContext context = CurrentMemoryContext;

	VisitSide(readmission, [&](int table, Oid by) {
		if (by != RelationGetRelid(readmission->rel))
			return;
		MemoryContextSwitchTo(readmission->row_context);
		AddRefused(readmission, table, context);
		MemoryContextSwitchTo(context);
		MemoryContextReset(readmission->row_context);
	});
}

bool
FetchRefused(Readmission *readmission, const Refused &refused, bool all)
{
	SideLeaf *leaf = &readmission->side.leaves[refused.table];
	ItemPointerData tid = refused.tid;

	if (!table_tuple_fetch_row_version(leaf->rel, &tid, readmission->snapshot, leaf->slot))
		return false;
	ReadSideRow(&readmission->side, leaf, all);
	return true;
}

/* ---- which rows are brought back -------------------------------------------------------- */

static int
Compare(int64 a, int64 b)
{
	return a < b ? -1 : a > b;
}

/* Compares by age; for equal times by place. */
static int
CompareAges(const void *a, const void *b)
{
	const Refused *one = (const Refused *) a;
	const Refused *other = (const Refused *) b;
	int result = Compare(one->at, other->at);

	if (result == 0)
		result = Compare(one->table, other->table);
	if (result == 0)
		result = ItemPointerCompare(const_cast<ItemPointer>(&one->tid),
									const_cast<ItemPointer>(&other->tid));
	return result;
}

/* Compares by the hashes of the keys; for equal hashes by age. */
static int
CompareHashes(const void *a, const void *b)
{
	const Refused *one = (const Refused *) a;
	const Refused *other = (const Refused *) b;

	if (one->has_key != other->has_key)
		return one->has_key ? -1 : 1;
	if (one->has_key && one->hash != other->hash)
		return one->hash < other->hash ? -1 : 1;
	return CompareAges(a, b);
}

/* Returns the first row with a hash, among the `keyed` rows that have a key; or `keyed`. */
static int
FindHash(const Readmission *readmission, int keyed, uint64 hash)
{
	int low = 0;
	int high = keyed;

	while (low < high)
	{
		const int middle = low + (high - low) / 2;

		if (readmission->refused[middle].hash < hash)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/*
 * Returns whether the times of two rows are so far apart that neither is a duplicate of the other.
 */
static bool
HaveNothingInCommon(const Readmission *readmission, const GuardKey &one, const GuardKey &other)
{
	return readmission->ttl != 0 && one.has_time && other.has_time &&
		   AreApart(one.at, other.at, readmission->ttl);
}

/* Returns whether a refused row has exactly this key. Allocates in the row's memory. */
static bool
HasThatKey(Readmission *readmission, const Refused &refused, const GuardKey &other)
{
	GuardKey key;

	if (!FetchRefused(readmission, refused, false))
		return false;
	ReadGuardKey(readmission->reader, readmission->side.row, &key);
	return key.counts && !HaveNothingInCommon(readmission, key, other) &&
		   EqualGuardKeys(readmission->plan, key.columns, other.columns);
}

/*
 * Keeps rows in the side table that have the key of an older one. The rows must be sorted by hash.
 */
static void
FindRepeats(Readmission *readmission, int keyed)
{
	for (int i = 0; i < keyed; i++)
	{
		const Refused &first = readmission->refused[i];
		GuardKey key;
		bool has = false;

		for (int j = i + 1; !first.stays && j < keyed && readmission->refused[j].hash == first.hash;
			 j++)
		{
			const MemoryContext old = MemoryContextSwitchTo(readmission->row_context);

			CHECK_FOR_INTERRUPTS();
			if (!has && FetchRefused(readmission, first, false))
			{
				const NullableDatum *columns;

				ReadGuardKey(readmission->reader, readmission->side.row, &key);
				columns = CopyGuardKey(readmission->plan, key.columns);
				for (int column = 0; column < readmission->plan->clause.columns; column++)
					key.columns[column] = columns[column];
				has = true;
			}
			if (has && !readmission->refused[j].stays)
				readmission->refused[j].stays =
					HasThatKey(readmission, readmission->refused[j], key);
			MemoryContextSwitchTo(old);
		}
		MemoryContextReset(readmission->row_context);
	}
}

/*
 * Returns a table of the guard whose rows can be searched, if that is cheaper than reading all
 * tables: each table has an index, and there are few rows to search. Otherwise returns NULL.
 */
static Relation
OpenSearched(const Readmission *readmission, const List *tables, int keyed)
{
	const double looks = (double) keyed * list_length(tables) * PAGES_OF_A_LOOK;
	Relation first = NULL;
	ListCell *cell;

	/* Rows without a time are not in an index. */
	if (tables == NIL || readmission->ttl != 0 || looks > (double) BlocksOfTables(tables))
		return NULL;
	foreach(cell, tables)
	{
		Relation table = relation_open(lfirst_oid(cell), NoLock);
		GuardClause mapped;
		const bool has =
			MapGuardClause(readmission->plan->clause, readmission->rel, table, &mapped) &&
			HasSearchIndex(table, mapped);

		if (has && first == NULL)
			first = table;
		else
			relation_close(table, NoLock);
		if (has)
			continue;
		if (first != NULL)
			relation_close(first, NoLock);
		return NULL;
	}
	return first;
}

/* Keeps rows in the side table whose key a row of the table has, by its indexes. */
static void
SearchTable(Readmission *readmission, Relation target, int keyed)
{
	const GuardPlan *plan = GetGuardPlan(target, readmission->plan->function);

	for (int i = 0; i < keyed; i++)
	{
		const MemoryContext old = MemoryContextSwitchTo(readmission->row_context);
		Refused *refused = &readmission->refused[i];
		TransactionId deleter;
		GuardKey key;

		CHECK_FOR_INTERRUPTS();
		if (FetchRefused(readmission, *refused, false))
		{
			const SearchKey search = {plan, target, &key, 0, NULL, NULL, refused->hash, NULL};

			ReadGuardKey(readmission->reader, readmission->side.row, &key);
			/* No other session can be deleting a row now. */
			refused->stays = SearchForProof(search, &deleter) != SearchResult::None;
		}
		MemoryContextSwitchTo(old);
		MemoryContextReset(readmission->row_context);
	}
}

/*
 * Keeps rows in the side table whose key a row of the table has. The rows must be sorted by hash.
 */
static void
FindInTable(Readmission *readmission, const LiveFilter &filter, int keyed)
{
	const TableKeys keys = TableKeysOf(readmission->guarded, readmission->guard->clause, filter);
	const List *tables = CoveredTables(readmission->guarded);
	Relation searched = OpenSearched(readmission, tables, keyed);
	Snapshot snapshot;
	ListCell *cell;

	if (searched != NULL)
	{
		SearchTable(readmission, searched, keyed);
		relation_close(searched, NoLock);
		return;
	}
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	foreach(cell, tables)
		VisitKeys(keys, lfirst_oid(cell), snapshot, [&](const KeyRow &row) {
			for (int i = FindHash(readmission, keyed, row.hash);
				 i < keyed && readmission->refused[i].hash == row.hash; i++)
				if (!readmission->refused[i].stays)
					readmission->refused[i].stays =
						HasThatKey(readmission, readmission->refused[i], *row.key);
			return false;
		});
	UnregisterSnapshot(snapshot);
}

void
ChooseRows(Readmission *readmission, const LiveFilter &filter)
{
	int keyed = 0;

	if (readmission->count == 0)
		return;
	if (!readmission->plan->options.exact)
	{
		qsort(readmission->refused, (size_t) readmission->count, sizeof(Refused), CompareHashes);
		while (keyed < readmission->count && readmission->refused[keyed].has_key)
			keyed++;
		if (keyed > 0)
		{
			FindInTable(readmission, filter, keyed);
			FindRepeats(readmission, keyed);
		}
	}
	qsort(readmission->refused, (size_t) readmission->count, sizeof(Refused), CompareAges);
}
