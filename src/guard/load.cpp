/*
 * Adds the keys of existing rows to the filter of a guard.
 *
 * One scan of the tables hashes the keys. The hashes are sorted, which is the order of the filter's
 * pages, so that each page is written once (live/bulk.cpp). Memory is limited by
 * maintenance_work_mem.
 *
 * A line of the filter should have its keys in the order of their arrival, as if the rows had come
 * one by one. The best estimate is the order of the partitions' bounds: each hash carries the
 * number of its partition as its age.
 *
 * If rows have times, each hash carries the time of its row, and the filter gets the last time of
 * each key. Rows that are older than the window are skipped. A row of a partition that is attached
 * to an exact guard is searched in the other partitions, however old it is, because the filter does
 * not have the keys of old rows.
 *
 * If keys must be unique, hashes that occur twice are searched in a second scan, which compares the
 * keys (twins.cpp). When a partition is attached to an exact guard, the same is done, also in the
 * other partitions, with the keys that the filter may have had already.
 */
#include "guard/load.hpp"
#include "guard/chunk.hpp"
#include "guard/exact.hpp"
#include "guard/hash_sort.hpp"
#include "guard/request.hpp"
#include "guard/twins.hpp"
#include "live/bulk.hpp"

extern "C" {
#include "access/relation.h"
#include "access/table.h"
#include "access/xlog.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "commands/progress.h"
#include "commands/tablecmds.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
}

/* The number of hashes that occur twice that are checked together. */
constexpr int64 REPEATED_AT_ONCE = 64;

/* For tables of this size, a NOTICE at each tenth reports how far the load is. */
constexpr int64 LARGE_TABLE = 64 * 1024 * 1024;

namespace
{

/* The progress of a load. The scan is one half of the work, and writing is the other half. */
struct Progress
{
	const char *table;
	bool notices;
	int64 blocks; /* blocks of all tables */
	int64 before; /* blocks of the tables that were read */
	BlockNumber block;
	int tenths;
};

struct Load
{
	const GuardLoad *how;
	Relation rel;
	GuardClause clause;
	LiveFilter filter;
	TableKeys keys;
	List *tables; /* oldest bounds first */
	List *others; /* the other partitions, if a partition is attached */
	Progress progress;
	HashSort sort;
	bool by_time;
	TimestampTz now;
	uint32 newest;  /* with times: the newest generation of a row, or of the filter */
	uint32 from;    /* with times: rows of earlier generations may have been skipped */
	int64 rows;     /* rows with a key */
	int64 repeated; /* rows whose key is also that of another row */

	/* See RebuildLoad; or NULL. */
	void (*repeats_hash)(void *arg, uint64 hash, uint32 before, uint32 generation);
	void *repeats_arg;

	HashList repeats; /* hashes that occur twice; their keys must still be compared */
	HashList known;   /* hashes of an attached partition that the filter may have had */
	MemoryContext context;
};

} /* namespace */

/* ---- progress -------------------------------------------------------------------------- */

static void
StartProgress(Load *load)
{
	Progress &progress = load->progress;

	progress.table = RelationGetRelationName(load->rel);
	progress.blocks = BlocksOfTables(load->tables);
	progress.notices = progress.blocks >= LARGE_TABLE / BLCKSZ;
	pgstat_progress_start_command(PROGRESS_COMMAND_CREATE_INDEX, RelationGetRelid(load->rel));
	pgstat_progress_update_param(PROGRESS_CREATEIDX_COMMAND, PROGRESS_CREATEIDX_COMMAND_CREATE);
	pgstat_progress_update_param(PROGRESS_CREATEIDX_PHASE, PROGRESS_CREATEIDX_PHASE_BUILD);
	pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_TOTAL, progress.blocks);
}

static void
Advance(Progress *progress, double done)
{
	const int tenths = (int) (done * 10);

	if (!progress->notices || tenths <= progress->tenths)
		return;
	progress->tenths = tenths;
	ereport(NOTICE,
			(errmsg("loading the keys of table \"%s\": %d%% done", progress->table, 10 * tenths)));
}

static void
AdvanceScan(Progress *progress, BlockNumber block)
{
	progress->block = block;
	pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_DONE, progress->before + block);
	Advance(progress,
			0.5 * (double) (progress->before + block) / (double) Max(progress->blocks, 1));
}

/* ---- sorting --------------------------------------------------------------------------- */

/*
 * Returns the time of a row. If the row does not tell an approximate guard its time, it is the
 * current time.
 */
static TimestampTz
TimeOfRow(const GuardKey &key, bool exact, TimestampTz now)
{
	if (exact)
		return key.at;
	return key.has_time ? Min(key.at, now) : now;
}

uint32
GenerationOfRow(const LiveFilter &filter, const GuardKey &key, bool exact, TimestampTz now)
{
	return LiveGeneration(filter, TimeOfRow(key, exact, now));
}

/* Reads the rows of the tables, and puts the hashes of their keys into the sort. */
static void
ReadKeys(Load *load, Snapshot snapshot)
{
	ListCell *cell;

	foreach(cell, load->tables)
	{
		const uint32 age = (uint32) foreach_current_index(cell);
		Progress *progress = &load->progress;
		Relation table = table_open(lfirst_oid(cell), NoLock);
		const BlockNumber blocks = RelationGetNumberOfBlocks(table);

		table_close(table, NoLock);
		progress->block = 0;
		VisitKeys(load->keys, lfirst_oid(cell), snapshot, [&](const KeyRow &row) {
			const BlockNumber block = ItemPointerGetBlockNumber(&row.slot->tts_tid);

			if (block != progress->block)
				AdvanceScan(progress, block);
			load->rows++;
			if (load->how->refuse_rows)
				return true;
			if (load->by_time)
			{
				const TimestampTz at = TimeOfRow(*row.key, load->how->exact, load->now);

				load->newest = Max(load->newest, LiveGeneration(load->filter, at));
				PutHash(load->sort, LoadOrderOf(load->filter, row.hash), SortableTime(at));
			}
			else
				PutHash(load->sort, LoadOrderOf(load->filter, row.hash), age);
			return false;
		});
		progress->before += blocks;
		if (load->how->refuse_rows && load->rows > 0)
			return;
	}
}

/* ---- rows with equal keys -------------------------------------------------------------- */

/* Compares the keys of rows whose hashes were found twice. */
static void
CheckRepeats(Load *load)
{
	TwinSearch search = {&load->keys,
						 load->rel,
						 LiveName(load->filter),
						 load->clause,
						 load->by_time ? load->filter.parameters.ttl : 0,
						 load->now,
						 load->tables,
						 load->others};

	if (load->repeats.count > 0)
		CheckNoTwins(search, &load->repeats);
	EmptyHashList(&load->repeats);
}

static void
NoteRepeat(Load *load, uint64 hash)
{
	if (load->repeats.count == load->repeats.room)
		CheckRepeats(load);
	AppendHash(&load->repeats, hash);
}

/*
 * Returns whether keys that the filter may have had are searched with the search indexes: a lookup
 * in a table takes at most a fourth of the time of reading a page.
 */
static bool
FewSuspects(const Load &load)
{
	return (double) load.known.count * (double) (list_length(load.others) + 1) <
		   4.0 * (double) BlocksOfTables(load.others);
}

bool
HasTwin(Oid guarded, const TableKeys &keys, const KeyRow &row)
{
	ItemPointerData self = row.slot->tts_tid;
	GuardPlan plan = {};
	SearchResult result;

	plan.guarded = guarded;
	if (!MapGuardClause(keys.clause, keys.from, row.table, &plan.clause))
		elog(ERROR, "table \"%s\" does not have the columns of the guard",
			 RelationGetRelationName(row.table));
	for (;;)
	{
		TransactionId deleter = InvalidTransactionId;

		result =
			SearchForProof({&plan, row.table, row.key, keys.ttl, &self, NULL, 0, NULL}, &deleter);
		if (result != SearchResult::Deleting)
			return result == SearchResult::Live;
		LiveWait(deleter);
	}
}

/* Searches the other partitions for keys that the filter may have had. */
static void
CheckKnown(Load *load)
{
	Snapshot snapshot;
	ListCell *cell;

	CheckRepeats(load);
	if (load->known.count > 0)
	{
		const bool by_index = FewSuspects(*load);
		bool *seen = (bool *) palloc0((Size) load->known.count);
		int64 seen_count = 0;

		IndexHashes(&load->known);
		snapshot = RegisterSnapshot(GetLatestSnapshot());
		foreach(cell, by_index ? load->tables : load->others)
			VisitKeys(load->keys, lfirst_oid(cell), snapshot, [&](const KeyRow &row) {
				const int64 at = FindHash(load->known, row.hash);

				if (at >= 0 && !seen[at] &&
					(!by_index || HasTwin(load->how->guarded, load->keys, row)))
				{
					seen[at] = true;
					seen_count++;
				}
				return false;
			});
		UnregisterSnapshot(snapshot);
		for (int64 i = 0; seen_count > 0 && i < load->known.count; i++)
			if (seen[i])
				NoteRepeat(load, load->known.hashes[i]);
		CheckRepeats(load);
		pfree(seen);
	}
	EmptyHashList(&load->known);
}

/* Searches the other partitions for the keys of rows that have times. */
static void
CheckTimes(Load *load)
{
	Snapshot snapshot;
	ListCell *cell;

	CheckRepeats(load);
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	foreach(cell, load->tables)
		VisitKeys(load->keys, lfirst_oid(cell), snapshot, [&](const KeyRow &row) {
			if (HasTwin(load->how->guarded, load->keys, row))
			{
				NoteRepeat(load, row.hash);
				CheckRepeats(load);
			}
			return false;
		});
	UnregisterSnapshot(snapshot);
}

static void
NoteKnown(void *arg, uint64 hash)
{
	Load *load = (Load *) arg;

	if (load->known.count == load->known.room)
		CheckKnown(load);
	AppendHash(&load->known, hash);
}

/* ---- loading --------------------------------------------------------------------------- */

/* Returns whether a row repeats the key of the row before it, as far as their hashes show. */
static bool
IsRepeated(const Load &load, uint64 age, uint64 before)
{
	return !load.by_time || !AreApart(TimeOf(age), TimeOf(before), load.filter.parameters.ttl);
}

/* Adds a key with the time of its last row, unless that is older than the window. */
static void
AddTimedKey(Load *load, LiveBulk *bulk, uint64 hash, uint64 age)
{
	const uint32 generation = LiveGeneration(load->filter, TimeOf(age));

	if (dedup::live::Alive(generation, load->newest))
		AddToLiveBulk(bulk, hash, generation);
	else
		load->from = Max(load->from, generation + 1);
}

/* Adds the sorted keys to the filter. */
static void
AddKeys(Load *load)
{
	const bool by_time = load->by_time;
	LiveBulk *bulk;
	uint64 before = 0;
	uint64 before_age = 0;
	uint64 hash;
	uint64 age;
	bool first = true;
	int64 rows = 0;

	AdvanceScan(&load->progress, 0);
	pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_TOTAL, load->rows);
	tuplesort_performsort(load->sort.state);
	if (by_time)
		load->newest = Max(Max(load->newest, LiveClock(load->filter)), (uint32) 1);
	bulk = StartLiveBulk(load->filter, (uint64) load->rows, load->newest,
						 load->others != NIL && !by_time ? NoteKnown : NULL, load);
	while (NextHash(load->sort, &hash, &age))
	{
		hash = HashInLoadOrder(load->filter, hash);
		rows++;
		if (!first && hash == before)
		{
			if (load->repeats_hash != NULL)
				load->repeats_hash(load->repeats_arg, hash,
								   by_time ? LiveGeneration(load->filter, TimeOf(before_age)) : 0,
								   by_time ? LiveGeneration(load->filter, TimeOf(age)) : 0);
			if (IsRepeated(*load, age, before_age))
			{
				if (load->how->unique && (load->repeats.count == 0 ||
										  load->repeats.hashes[load->repeats.count - 1] != hash))
					NoteRepeat(load, hash);
				load->repeated++;
			}
			before_age = age;
			continue;
		}
		if (!by_time)
			AddToLiveBulk(bulk, hash, (uint32) age);
		else if (!first)
			AddTimedKey(load, bulk, before, before_age);
		first = false;
		before = hash;
		before_age = age;
		if (rows % 65536 == 0)
		{
			pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_DONE, rows);
			Advance(&load->progress, 0.5 + 0.5 * (double) rows / (double) load->rows);
		}
	}
	if (by_time && !first)
		AddTimedKey(load, bulk, before, before_age);
	FinishLiveBulk(bulk);
	if (by_time && load->others != NIL)
		CheckTimes(load);
	CheckKnown(load);
	Advance(&load->progress, 1);
}

static void
ReportRows(const Load &load)
{
	ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					errmsg("an exact guard must know the keys of the rows of table \"%s\"",
						   RelationGetRelationName(load.rel)),
					errdetail("The table has rows, and load is false."),
					errhint("Leave the argument load out, or set it to true.")));
}

/* Returns the tables below a guarded table that are not among the loaded ones. */
static List *
OtherTables(Oid guarded, const List *tables)
{
	Relation rel = table_open(guarded, NoLock);
	List *others;

	/* Writers wait for the lock of the guarded table. */
	list_free(find_all_inheritors(guarded, AccessShareLock, NULL));
	others = list_difference_oid(CoveredTables(rel), tables);
	table_close(rel, NoLock);
	return others;
}

static void
LoadRows(Load *load)
{
	const bool attaches = OidIsValid(load->how->guarded);
	Snapshot snapshot;

	load->repeats = MakeHashList(REPEATED_AT_ONCE);
	if (attaches)
	{
		load->others = OtherTables(load->how->guarded, load->tables);
		load->known = MakeHashList(Min((int64) 1 << 28, (int64) maintenance_work_mem * 1024 / 32));
	}
	StartProgress(load);
	load->sort = StartHashSort(load->by_time || list_length(load->tables) > 1,
							   attaches ? Max(64, maintenance_work_mem / 2) : maintenance_work_mem);
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	ReadKeys(load, snapshot);
	UnregisterSnapshot(snapshot);
	if (load->how->refuse_rows && load->rows > 0)
		ReportRows(*load);
	if (load->rows > 0)
		AddKeys(load);
	tuplesort_end(load->sort.state);
	pgstat_progress_end_command();
	CheckRepeats(load);
	if (load->repeated > 0 && !load->how->unique)
		ereport(NOTICE,
				(errmsg_plural(INT64_FORMAT " row of table \"%s\" repeats the key of another",
							   INT64_FORMAT " rows of table \"%s\" repeat the key of another",
							   (unsigned long) load->repeated, load->repeated,
							   RelationGetRelationName(load->rel))));
}

uint32
RequireReadable(const TableKeys &keys, const LiveFilter &filter, Oid table)
{
	const Expr *time = keys.clause.at;

	if (get_rel_relispartition(table))
		return 0;
	if (keys.ttl != 0 && IsA(time, Var))
	{
		const TimeBounds bounds =
			CheckedTimes(table, get_attname(RelationGetRelid(keys.from),
											((const Var *) time)->varattno, false));

		if (!TIMESTAMP_NOT_FINITE(bounds.to) && IsCompressed(table) &&
			!dedup::live::Alive(LiveGeneration(filter, bounds.to), LiveGenerationNow(filter)))
			return LiveGeneration(filter, bounds.to) + 1;
	}
	RequireUncompressed(table);
	return 0;
}

void
LoadGuardedRows(Relation rel, const GuardClause &clause, const GuardLoad &how)
{
	MemoryContext context = AllocSetContextCreateInternal(CurrentMemoryContext, "dedup_guard load",
														  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	const Oid owner = OidIsValid(how.guarded) ? OwnerOfTable(how.guarded) : rel->rd_rel->relowner;
	Load load = {};
	ListCell *cell;

	/* No key may be forgotten between its load and the mark that the filter covers the table. */
	if (how.exact && !OidIsValid(how.guarded))
		LockRelationOid(clause.filter, ShareRowExclusiveLock);
	load.how = &how;
	load.rel = rel;
	load.clause = clause;
	load.filter = OpenLive(clause.filter, LiveUse::Add, owner, how.function);
	load.tables = CoveredTables(rel);
	load.context = context;
	load.keys = TableKeysOf(rel, clause, load.filter);
	foreach(cell, load.tables)
		load.from = Max(load.from, RequireReadable(load.keys, load.filter, lfirst_oid(cell)));
	load.by_time = clause.at != NULL;
	load.now = load.by_time ? GetCurrentTimestamp() : 0;
	/* A filter that does not cover its table is loaded as a whole later. */
	if (BlocksOfTables(load.tables) > 0 && (!OidIsValid(how.guarded) || LiveCovers(load.filter)))
		LoadRows(&load);
	RaiseLiveCoversFrom(load.filter, how.exact ? load.from : 0);
	if (how.exact && !OidIsValid(how.guarded))
		SetLiveCovers(load.filter, true);
	CloseLive(load.filter);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}

void
LoadForGuard(Relation rel, const GuardRequest &request)
{
	const GuardLoad how = {"dedup_guard()", request.options.exact,
						   request.options.exact || request.mode == GuardMode::Reject,
						   !request.load, InvalidOid};

	LoadGuardedRows(rel, request.clause, how);
}

/* ---- rebuilding ------------------------------------------------------------------------ */

LoadedTimes
LoadBySnapshot(const List *sources, const LiveFilter &filter, Snapshot snapshot,
			   const RebuildLoad &how)
{
	const GuardLoad plain = {"dedup_rebuild()", how.unique, how.unique, false, InvalidOid};
	const KeySource *first = (const KeySource *) linitial(sources);
	Load load = {};
	ListCell *cell;

	load.how = &plain;
	load.rel = first->keys.from;
	load.clause = first->keys.clause;
	load.keys = first->keys;
	load.filter = filter;
	load.by_time = filter.parameters.ttl != 0;
	load.now = load.by_time ? GetCurrentTimestamp() : 0;
	load.repeats_hash = how.repeats_hash;
	load.repeats_arg = how.arg;
	load.repeats = MakeHashList(REPEATED_AT_ONCE);
	foreach(cell, sources)
		load.tables = list_concat_copy(load.tables, ((const KeySource *) lfirst(cell))->tables);
	StartProgress(&load);
	load.sort = StartHashSort(load.by_time || list_length(load.tables) > 1, maintenance_work_mem);
	foreach(cell, sources)
	{
		const KeySource *source = (const KeySource *) lfirst(cell);

		load.keys = source->keys;
		load.tables = source->tables;
		ReadKeys(&load, snapshot);
	}
	if (load.rows > 0)
		AddKeys(&load);
	tuplesort_end(load.sort.state);
	CheckRepeats(&load);
	return {load.newest, load.from};
}

/* ---- partitions that are attached ------------------------------------------------------ */

/* Returns the table above that has the exact guard of a table, or InvalidOid. */
static Oid
ExactlyGuarded(Oid relid)
{
	Relation rel = RelationIdGetRelation(relid);
	Oid guarded = InvalidOid;
	Oid function;

	if (!RelationIsValid(rel))
		return InvalidOid;
	function = FindGuardFunction(rel, false);
	if (OidIsValid(function))
	{
		const GuardPlan *plan = FindGuardPlan(rel, function);

		if (plan != NULL && plan->options.exact)
			guarded = plan->guarded;
	}
	RelationClose(rel);
	return guarded;
}

/*
 * Raises an error unless an exact guard can cover a table, which is attached with or below `rel`.
 */
static void
CheckAttached(Oid relid, Relation rel, const GuardClause &clause, Oid guarded)
{
	Relation table = table_open(relid, NoLock);

	RequireSearchIndex(table, clause, rel, table->rd_rel->relispartition ? guarded : relid);
	RequireLoggedAlike(table, clause.filter);
	table_close(table, NoLock);
}

bool
LoadAttachedRows(Relation rel, const GuardClause &clause, Oid guarded, const char *command)
{
	const GuardLoad how = {command, true, true, false, guarded};
	List *tables;
	ListCell *cell;

	if (!OidIsValid(guarded) || ExactlyGuarded(guarded) != guarded)
		return false;
	foreach(cell, LeavesOf(RelationGetRelid(rel)))
		CheckAttached(lfirst_oid(cell), rel, clause, guarded);
	tables = CoveredTables(rel);
	if (BlocksOfTables(tables) > 0)
	{
		LockRelationOid(guarded, ShareRowExclusiveLock);
		LoadGuardedRows(rel, clause, how);
	}
	return true;
}

/* Returns whether a table that will be attached can have rows. It is not locked yet. */
static bool
MayHaveRows(Oid relid)
{
	Relation rel;
	bool may = true;

	if (get_rel_relkind(relid) != RELKIND_RELATION ||
		!ConditionalLockRelationOid(relid, AccessShareLock))
		return true;
	rel = RelationIdGetRelation(relid);
	if (RelationIsValid(rel))
	{
		may = RelationGetNumberOfBlocks(rel) > 0;
		RelationClose(rel);
	}
	UnlockRelationOid(relid, AccessShareLock);
	return may;
}

void
LockForAttach(const AlterTableStmt *statement)
{
	ListCell *cell;

	if (RecoveryInProgress())
		return;
	foreach(cell, statement->cmds)
	{
		const AlterTableCmd *command = (const AlterTableCmd *) lfirst(cell);
		Oid parent;
		Oid guarded;
		Oid child;

		if (command->subtype == AT_AttachPartition)
		{
			parent = RangeVarGetRelid(statement->relation, NoLock, true);
			child = RangeVarGetRelid(((const PartitionCmd *) command->def)->name, NoLock, true);
		}
		else if (command->subtype == AT_AddInherit)
		{
			parent = RangeVarGetRelid((const RangeVar *) command->def, NoLock, true);
			child = RangeVarGetRelid(statement->relation, NoLock, true);
		}
		else
			continue;
		if (!OidIsValid(parent) ||
			get_rel_relkind(parent) != (command->subtype == AT_AddInherit
											? RELKIND_RELATION
											: RELKIND_PARTITIONED_TABLE) ||
			!OwnsTable(parent))
			continue;
		guarded = ExactlyGuarded(parent);
		if (OidIsValid(guarded) && OidIsValid(child) && OwnsTable(child) && MayHaveRows(child))
			LockRelationOid(guarded, ShareRowExclusiveLock);
	}
}
