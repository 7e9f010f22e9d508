/*
 * dedup_rebuild(): fills the filter of guards again from the rows of their tables, in the same size
 * or another, while other sessions write to the tables.
 *
 *   1. A second file is filled with the keys of all rows that a snapshot shows, as in a load
 *      (load.cpp). Writers continue with the old file.
 *   2. Changes since then are applied, still while writers continue: keys of new rows are
 *      added, and keys of deleted rows are removed (changes.cpp).
 *   3. Writers are locked out (rebuild_locks.cpp), and the remaining changes are applied.
 *   4. The filter gets the new file (live/replace.cpp).
 *
 * All of this is one transaction: if it ends early for any reason, the filter is unchanged.
 *
 * Why no key is missing at the end. A transaction that inserts a row with a key has opened the
 * filter in RowExclusiveLock, and holds that lock to its end. So when dedup_rebuild() holds
 * AccessExclusiveLock, each such row is committed, or belongs to this transaction, or was rolled
 * back. The last snapshot, which is taken then, shows which rows exist. No key is in flight in the
 * old file except for this transaction, whose rows that snapshot shows too. A session that waits
 * for the lock has not read the filter yet, and finds the new file.
 *
 * Snapshots are current, even in a transaction of isolation level REPEATABLE READ: its own snapshot
 * does not show rows whose keys the old file has. If this transaction rolls back to a savepoint,
 * the rows that it has inserted since then are removed. If dedup_rebuild() was also called since
 * then, the old file is restored. If it was called before, the keys of those rows were in flight in
 * the new file, and are taken back as usual.
 */
#include "guard/changes.hpp"
#include "guard/exact.hpp"
#include "guard/hash_sort.hpp"
#include "guard/load.hpp"
#include "guard/rebuild_keys.hpp"
#include "guard/rebuild_locks.hpp"
#include "guard/request.hpp"
#include "guard/twins.hpp"
#include "live/replace.hpp"

extern "C" {
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_inherits.h"
#include "commands/progress.h"
#include "pgstat.h"
#include "storage/lmgr.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
}

/*
 * If a pass finds at least this many changes, there is another pass before writers are locked out.
 */
constexpr int64 MANY_CHANGES = 10000;
constexpr int MOST_PASSES = 4;

namespace
{

/* The place of a row in 64 bits: the number of its table, block and offset. */
struct Place
{
	int table;
	ItemPointerData tid;
};

/* A new row that may have the key of another row. */
struct Suspect
{
	uint64 hash;
	uint64 place;
};

/* New and deleted rows, sorted by hash. */
struct ChangeSorts
{
	HashSort come;  /* new rows with their places */
	HashSort times; /* the same rows with their generations, in a window of time */
	HashSort gone;  /* deleted rows, in a window of time with their generations */
};

/* The next row of a sort. */
struct SortedRow
{
	const HashSort *sort; /* NULL: there is none */
	bool more;
	uint64 hash;
	uint64 age;
};

/* The ages of the rows of one hash. */
template <typename Age> struct Ages
{
	Age *ages;
	int count;
	int room;
};

struct Rebuild
{
	const char *function;
	Oid filter;
	LiveFilter old;
	LiveFilter made;
	bool exact;    /* the guard is exact; else all guards forget */
	List *sources; /* KeySource: guarded tables */
	List *tables;  /* OIDs of tables with rows that were read; a table is known by its index here */
	ChangeSpan span;
	XLogRecPtr settled;
	RebuiltKeys keys;
	TimestampTz now; /* the time when the current pass began */
	Suspect *suspects;
	int suspect_count;
	int suspect_room;
	Ages<uint64> places; /* of the current hash: places of the new rows */
	Ages<uint32> come_in;
	Ages<uint32> gone_in;
	int64 changes; /* number of changes in the current pass */
	int64 pages;
	MemoryContext context;
};

} /* namespace */

/* ---- places ----------------------------------------------------------------------------- */

/* Offsets are below 2^11 in pages of 8 kB. */
constexpr int OFFSET_BITS = 11;
constexpr int BLOCK_BITS = 32;
static_assert(MaxOffsetNumber <= 1 << OFFSET_BITS, "offsets have more bits");

static uint64
PackPlace(int table, const ItemPointerData &tid)
{
	return (uint64) table << (OFFSET_BITS + BLOCK_BITS) |
		   (uint64) ItemPointerGetBlockNumber(&tid) << OFFSET_BITS |
		   (ItemPointerGetOffsetNumber(&tid) & ((1 << OFFSET_BITS) - 1));
}

static Place
UnpackPlace(uint64 packed)
{
	Place place;

	place.table = (int) (packed >> (OFFSET_BITS + BLOCK_BITS));
	ItemPointerSet(&place.tid, (BlockNumber) (packed >> OFFSET_BITS),
				   (OffsetNumber) (packed & ((1 << OFFSET_BITS) - 1)));
	return place;
}

/* ---- what may be rebuilt ---------------------------------------------------------------- */

[[noreturn]] static void
CannotRebuild(Oid filter, const char *detail)
{
	ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					errmsg("cannot rebuild live filter \"%s\"", get_rel_name(filter)),
					errdetail_internal("%s", detail)));
	pg_unreachable();
}

/*
 * Raises an error if the rows of the tables do not show when the filter has seen their keys, and
 * this matters because the filter forgets the oldest keys.
 */
static void
CheckTimes(const LiveFilter &filter, const List *tables)
{
	const Oid relid = RelationGetRelid(filter.rel);
	ListCell *cell;

	if (!filter.parameters.forgets)
		return;
	if (filter.parameters.ttl == 0)
		CannotRebuild(relid,
					  _("It is a window of keys, and the rows of a table do not say in which "
						"order their keys came."));
	if (filter.parameters.renew)
		CannotRebuild(relid, _("It counts keys from their last sight, and the rows of a table do "
							   "not say when that was."));
	foreach(cell, tables)
		if (ReadGuardRows(lfirst_oid(cell)).clause.at == NULL)
			CannotRebuild(relid, psprintf(_("It is a window of time, and the guard of table \"%s\" "
											"does not say when a row came."),
										  get_rel_name(lfirst_oid(cell))));
}

/* Raises an error unless the filter needs only the keys of the tables' rows. */
static void
CheckGuards(Oid filter, const List *tables)
{
	ListCell *cell;

	if (tables == NIL)
		CannotRebuild(filter, _("It guards no table from whose rows it could be filled."));
	if (OidIsValid(TableOfExactGuard(filter)) && list_length(tables) > 1)
		CannotRebuild(filter, _("It is that of an exact guard, and guards another table, too."));
	foreach(cell, tables)
		if (!MayBeRebuilt(ReadGuardRows(lfirst_oid(cell))))
			CannotRebuild(filter,
						  psprintf(_("The guard of table \"%s\" keeps the keys of deleted rows, "
									 "and these would be lost."),
								   get_rel_name(lfirst_oid(cell))));
}

/*
 * Raises an error if a running query of this session uses the filter or a table, because its rows
 * may not be visible yet.
 */
static void
CheckNotInUse(Oid filter, Oid relid)
{
	Relation rel = table_open(relid, NoLock);

	if (rel->rd_refcnt > 1)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_IN_USE),
						errmsg("cannot rebuild live filter \"%s\"", get_rel_name(filter)),
						errdetail("Active queries in this session are using \"%s\".",
								  RelationGetRelationName(rel))));
	table_close(rel, NoLock);
}

static void
CheckTablesNotInUse(Oid filter, const List *tables)
{
	ListCell *cell;
	ListCell *below;

	foreach(cell, tables)
		foreach(below, find_all_inheritors(lfirst_oid(cell), NoLock, NULL))
			CheckNotInUse(filter, lfirst_oid(below));
}

/* ---- the tables ------------------------------------------------------------------------- */

/* Opens a guarded table. Raises an error if its guard is incomplete. */
static KeySource *
OpenSource(Rebuild *rebuild, Oid table)
{
	KeySource *source = (KeySource *) palloc0(sizeof(KeySource));
	Relation rel = table_open(table, NoLock);
	const GuardPlan *plan = FindGuardPlan(rel, FindGuardFunction(rel, false));
	ListCell *cell;

	if (plan == NULL || plan->clause.filter != rebuild->filter)
		CannotRebuild(rebuild->filter, psprintf(_("The guard of table \"%s\" is not complete."),
												RelationGetRelationName(rel)));
	rebuild->exact = plan->options.exact;
	source->keys = TableKeysOf(rel, plan->clause, rebuild->made);
	source->tables = CoveredTables(rel);
	foreach(cell, source->tables)
		rebuild->keys.from =
			Max(rebuild->keys.from, RequireReadable(source->keys, rebuild->made, lfirst_oid(cell)));
	return source;
}

static void
OpenSources(Rebuild *rebuild, const List *tables)
{
	ListCell *cell;

	rebuild->sources = NIL;
	foreach(cell, tables)
		rebuild->sources = lappend(rebuild->sources, OpenSource(rebuild, lfirst_oid(cell)));
}

static void
CloseSources(Rebuild *rebuild)
{
	ListCell *cell;

	foreach(cell, rebuild->sources)
		table_close(((KeySource *) lfirst(cell))->keys.from, NoLock);
	rebuild->sources = NIL;
}

/* Returns the number of a table with rows. `known`: its rows were read before. */
static int
NumberOfTable(Rebuild *rebuild, Oid table, bool *known)
{
	ListCell *cell;

	foreach(cell, rebuild->tables)
		if (lfirst_oid(cell) == table)
		{
			*known = true;
			return foreach_current_index(cell);
		}
	rebuild->tables = lappend_oid(rebuild->tables, table);
	*known = false;
	return list_length(rebuild->tables) - 1;
}

/* ---- loading ---------------------------------------------------------------------------- */

static void
NoteRepeated(void *arg, uint64 hash, uint32 before, uint32 generation)
{
	NoteRepeatedRows(&((Rebuild *) arg)->keys, hash, before, generation);
}

static void
LoadRows(Rebuild *rebuild)
{
	const RebuildLoad how = {rebuild->exact, NoteRepeated, rebuild};
	const uint32 from = rebuild->keys.from;
	LoadedTimes loaded;
	ListCell *cell;
	ListCell *table;
	bool known;

	rebuild->span.before = TakeSnapshot();
	foreach(cell, rebuild->sources)
		foreach(table, ((const KeySource *) lfirst(cell))->tables)
			(void) NumberOfTable(rebuild, lfirst_oid(table), &known);
	rebuild->keys = StartRebuiltKeys(rebuild->made, rebuild->exact, rebuild->context);
	loaded = LoadBySnapshot(rebuild->sources, rebuild->made, rebuild->span.before, how);
	rebuild->keys.newest = loaded.newest;
	rebuild->keys.from = Max(from, loaded.from);
}

/* ---- changes ---------------------------------------------------------------------------- */

/* Rows that have the key of another row are searched later, when no more rows can be inserted. */
static void
SuspectRows(Rebuild *rebuild, uint64 hash)
{
	for (int i = 0; rebuild->exact && i < rebuild->places.count; i++)
		*OneMore(rebuild->context, &rebuild->suspects, &rebuild->suspect_count,
				 &rebuild->suspect_room) = {hash, rebuild->places.ages[i]};
}

static SortedRow
FirstRow(const HashSort &sort)
{
	SortedRow row = {};

	if (sort.state == NULL)
		return row;
	row.sort = &sort;
	tuplesort_performsort(sort.state);
	row.more = NextHash(sort, &row.hash, &row.age);
	return row;
}

/* Reads the rows of a hash. */
template <typename Age>
static void
ReadAges(Rebuild *rebuild, SortedRow *row, uint64 hash, Ages<Age> *ages)
{
	ages->count = 0;
	for (; row->more && row->hash == hash; row->more = NextHash(*row->sort, &row->hash, &row->age))
		*OneMore(rebuild->context, &ages->ages, &ages->count, &ages->room) = (Age) row->age;
}

/* Applies the changes, hash by hash. */
static void
ApplyChanges(Rebuild *rebuild, const ChangeSorts &sorts)
{
	SortedRow come = FirstRow(sorts.come);
	SortedRow times = FirstRow(sorts.times);
	SortedRow gone = FirstRow(sorts.gone);

	while (come.more || gone.more)
	{
		const uint64 hash =
			!gone.more || (come.more && come.hash < gone.hash) ? come.hash : gone.hash;

		CHECK_FOR_INTERRUPTS();
		ReadAges(rebuild, &come, hash, &rebuild->places);
		ReadAges(rebuild, &times, hash, &rebuild->come_in);
		ReadAges(rebuild, &gone, hash, &rebuild->gone_in);
		rebuild->changes++;
		if (ApplyKeyChanges(&rebuild->keys, hash,
							{rebuild->places.count, rebuild->gone_in.count, rebuild->come_in.ages,
							 rebuild->gone_in.ages}))
			SuspectRows(rebuild, hash);
	}
}

/* Sorts a new or deleted row. `table` is the number of its table. */
static void
PutChange(Rebuild *rebuild, const ChangeSorts &sorts, int table, const KeyRow &row, bool gone)
{
	const bool timed = rebuild->made.parameters.ttl != 0;
	const uint32 generation =
		timed ? GenerationOfRow(rebuild->made, *row.key, rebuild->exact, rebuild->now) : 0;

	if (gone)
	{
		PutHash(sorts.gone, row.hash, generation);
		return;
	}
	rebuild->keys.newest = Max(rebuild->keys.newest, generation);
	PutHash(sorts.come, row.hash, PackPlace(table, row.slot->tts_tid));
	if (timed)
		PutHash(sorts.times, row.hash, generation);
}

/* Sorts the changes of all tables. */
static void
ReadChanges(Rebuild *rebuild, const ChangeSorts &sorts)
{
	ListCell *cell;
	ListCell *table;

	foreach(cell, rebuild->sources)
	{
		const KeySource *source = (const KeySource *) lfirst(cell);

		foreach(table, source->tables)
		{
			ChangeSpan span = rebuild->span;
			bool known;
			const int number = NumberOfTable(rebuild, lfirst_oid(table), &known);

			/* A new partition is read as a whole. */
			if (!known)
				span.before = NULL;
			rebuild->pages += VisitChanges(source->keys, lfirst_oid(table), span,
										   [&](const KeyRow &row, bool row_gone) {
											   PutChange(rebuild, sorts, number, row, row_gone);
										   });
		}
	}
}

/*
 * Applies the changes since the last snapshot, up to a new one. `settled` is a position in the WAL:
 * transactions that had written to the tables before it have ended.
 */
static void
CatchUp(Rebuild *rebuild, XLogRecPtr settled)
{
	const bool timed = rebuild->made.parameters.ttl != 0;
	const int memory = Max(64, maintenance_work_mem / (timed ? 3 : 2));
	ChangeSorts sorts = {};

	pgstat_progress_update_param(PROGRESS_CREATEIDX_PHASE,
								 PROGRESS_CREATEIDX_PHASE_VALIDATE_TABLESCAN);
	rebuild->span.now = TakeSnapshot();
	rebuild->changes = 0;
	rebuild->pages = 0;
	rebuild->now = timed ? GetCurrentTimestamp() : 0;
	rebuild->keys.newest = Max(rebuild->keys.newest, timed ? LiveClock(rebuild->old) : 0);
	sorts.come = StartHashSort(true, memory);
	sorts.gone = StartHashSort(timed, memory);
	if (timed)
		sorts.times = StartHashSort(true, memory);
	ReadChanges(rebuild, sorts);
	ApplyChanges(rebuild, sorts);
	tuplesort_end(sorts.come.state);
	tuplesort_end(sorts.gone.state);
	if (timed)
		tuplesort_end(sorts.times.state);
	UnregisterSnapshot(rebuild->span.before);
	rebuild->span = {rebuild->span.now, NULL, settled};
	ereport(DEBUG1, (errmsg_internal("dedup_rebuild() has made up for " INT64_FORMAT
									 " keys, and read " INT64_FORMAT " pages",
									 rebuild->changes, rebuild->pages)));
}

/* Does so while writers continue. */
static void
CatchUpUnlocked(Rebuild *rebuild, const List *tables)
{
	for (int pass = 0; pass < MOST_PASSES; pass++)
	{
		const XLogRecPtr end = GetXLogInsertRecPtr();

		pgstat_progress_update_param(PROGRESS_CREATEIDX_PHASE, PROGRESS_CREATEIDX_PHASE_WAIT_2);
		WaitForUsers(tables, rebuild->filter);
		CatchUp(rebuild, end);
		if (rebuild->changes < MANY_CHANGES)
			break;
	}
}

/* ---- rows with equal keys ----------------------------------------------------------------- */

/* Raises 23505 if a row that was inserted while keys were loaded has the key of another row. */
static void
CheckSuspects(Rebuild *rebuild)
{
	const KeySource *source = (const KeySource *) linitial(rebuild->sources);
	GuardKey key;

	for (int i = 0; i < rebuild->suspect_count; i++)
	{
		const Suspect &suspect = rebuild->suspects[i];
		Place place = UnpackPlace(suspect.place);
		const Oid table = list_nth_oid(rebuild->tables, place.table);
		bool twin = false;

		CHECK_FOR_INTERRUPTS();
		/* The partition may have been dropped. */
		if (!list_member_oid(source->tables, table))
			continue;

		const KeyScan scan = StartKeyScan(source->keys, table, rebuild->span.before);
		const MemoryContext old = MemoryContextSwitchTo(source->keys.row_context);
		KeyRow row = {scan.table, scan.slot, &key, 0};

		if (table_tuple_fetch_row_version(scan.table, &place.tid, rebuild->span.before,
										  scan.slot) &&
			ReadRowKey(source->keys, scan, &key, &row.hash))
			twin = HasTwin(RelationGetRelid(source->keys.from), source->keys, row);
		ExecClearTuple(scan.slot);
		MemoryContextSwitchTo(old);
		MemoryContextReset(source->keys.row_context);
		EndKeyScan(scan);
		if (twin)
		{
			const TwinSearch search = {&source->keys,          source->keys.from,
									   LiveName(rebuild->old), source->keys.clause,
									   source->keys.ttl,       0,
									   source->tables,         NIL};
			HashList hashes = MakeHashList(1);

			AppendHash(&hashes, suspect.hash);
			CheckNoTwins(search, &hashes);
		}
	}
}

/* ---- rebuilding --------------------------------------------------------------------------- */

static void
StartRebuild(Rebuild *rebuild, const List *tables, bool same_size, Datum prototype)
{
	CheckNotInUse(rebuild->filter, rebuild->filter);
	CheckTablesNotInUse(rebuild->filter, tables);
	CheckGuards(rebuild->filter, tables);
	rebuild->old.rel = relation_open(rebuild->filter, NoLock);
	rebuild->old.parameters = LiveParametersOf(rebuild->old.rel);
	CheckTimes(rebuild->old, tables);
	rebuild->made =
		MakeLiveReplacement(rebuild->old, same_size ? rebuild->old.parameters
													: ResizeLive(rebuild->old, prototype));
	OpenSources(rebuild, tables);
}

/* Does the part during which no other session writes. */
static void
FinishRebuild(Rebuild *rebuild)
{
	List *tables = LockOutUsers(rebuild->filter);
	const TimestampTz start = GetCurrentTimestamp();

	CloseSources(rebuild);
	CheckGuards(rebuild->filter, tables);
	CheckTimes(rebuild->old, tables);
	OpenSources(rebuild, tables);
	CatchUp(rebuild, InvalidXLogRecPtr);
	if (rebuild->exact)
	{
		CheckSuspects(rebuild);
		SetLiveCovers(rebuild->made, true, rebuild->keys.from);
	}
	/* The time of a window does not go back. */
	if (rebuild->made.parameters.ttl != 0)
		NoteLiveGeneration(rebuild->made, LiveClock(rebuild->old));
	UnregisterSnapshot(rebuild->span.before);
	CloseSources(rebuild);
	pgstat_progress_end_command();
	ExchangeLive(rebuild->old, rebuild->made);
	ereport(DEBUG1,
			(errmsg_internal("dedup_rebuild() has kept other sessions out for %ld ms",
							 TimestampDifferenceMilliseconds(start, GetCurrentTimestamp()))));
}

/*
 * dedup_rebuild(filter regclass, prototype dedup_filter) returns void
 *
 * The caller must own the tables that the filter guards, and the filter. LockToRebuild() describes
 * when the right to add keys to the filter is enough.
 */
DEDUP_FUNCTION(dedup_rebuild)
{
	Rebuild rebuild = {};
	List *tables;
	MemoryContext old;

	if (PG_ARGISNULL(0))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
						errmsg("argument \"filter\" must not be null")));
	rebuild.function = "dedup_rebuild()";
	rebuild.filter = PG_GETARG_OID(0);
	CheckIsFilter(rebuild.filter);
	CheckGuards(rebuild.filter, TablesOfGuards(rebuild.filter));
	PreventCommandDuringRecovery(rebuild.function);
	PreventCommandIfReadOnly(rebuild.function);
	SettleGuardRows();

	rebuild.context = AllocSetContextCreateInternal(CurrentMemoryContext, "dedup_rebuild",
													ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(rebuild.context);
	tables = LockToRebuild(rebuild.filter, !PG_ARGISNULL(1));
	StartRebuild(&rebuild, tables, PG_ARGISNULL(1),
				 PG_ARGISNULL(1) ? (Datum) 0 : PG_GETARG_DATUM(1));
	LoadRows(&rebuild);
	CatchUpUnlocked(&rebuild, tables);
	FinishRebuild(&rebuild);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(rebuild.context);
	PG_RETURN_VOID();
}
