/*
 * Restores a live filter. COPY FROM puts the rows of a dump, one for each page, back into an empty
 * filter that was made with the same parameters. dedup_load() writes its pages here, too. The
 * loaded keys belong to the loading transaction: if it aborts, the filter is empty again. At the
 * end of the file are the functions that detect wrong restores: those of a live filter's CHECK
 * constraint and trigger.
 */
#include "live/bulk.hpp"
#include "live/page_type.hpp"
#include "live/store/store.hpp"
#include "live/table_am.hpp"
#include "pg/catalog.hpp"

extern "C" {
#include "commands/trigger.h"
#include "executor/tuptable.h"
#include "pgstat.h"
#include "replication/logicalworker.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
}

using namespace dedup::live;

/* ---- loading ------------------------------------------------------------------------ */

/* True if this load has warned of keys ahead of the clock. */
static bool ahead_warned;

/* Settles all pages. Returns whether no page holds any key. */
static bool
IsEmpty(const LiveFilter &filter)
{
	PageWalk walk;
	HeldPage page;

	StartPageWalk(filter, &walk);
	while (HoldNextPage(&walk, BUFFER_LOCK_EXCLUSIVE, &page))
	{
		SettlePage(filter, page, false);

		const bool empty = IsEmptyPage(filter, page.bytes);

		ReleasePage(page);
		if (!empty)
			return false;
	}
	return true;
}

[[noreturn]] static void
ReportNotEmpty(const LiveFilter &filter)
{
	ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					errmsg("live filter \"%s\" is not empty", LiveName(filter)),
					errhint("Empty it with TRUNCATE first.")));
	pg_unreachable();
}

/* Writes a dumped page into its main page, which is held. */
static void
FillHeld(const LiveFilter &filter, const HeldPage &main, const DumpedPage &dumped)
{
	const uint64 own = WideXid(GetCurrentTransactionId());
	PGAlignedBlock block;
	uint8_t *scratch = (uint8_t *) block.data;
	uint32 left = 0;

	/* Another session may have written keys after the whole filter was found empty. */
	if (LoaderOf(main.bytes) != kNoXid || !LinesEmpty(filter, main.bytes))
		ReportNotEmpty(filter);
	memcpy(scratch, main.bytes, BLCKSZ);
	if (dumped.lines != NULL)
	{
		memcpy(LineAt(scratch, 0), dumped.lines, kLines * dedup::kLineBytes);
		SetLoader(scratch, own);
	}
	SetClock(scratch, dumped.clock);
	SetEarly(scratch, dumped.early);
	for (; left < dumped.count; left++)
	{
		const DumpedEntry &entry = dumped.entries[left];

		if (!PutEntry(scratch, kMainArea, {own, entry.generation}, entry.line, entry.rest, false))
			break;
	}
	StartChange();
	ChangeToScratch(main, scratch);
	MakeChange(filter);
	for (; left < dumped.count; left++)
	{
		const DumpedEntry &entry = dumped.entries[left];

		PutKey(filter, main, NULL, {own, entry.generation}, entry.line, entry.rest, false);
	}
}

[[noreturn]] static void
ReportUsed(const LiveFilter &filter, uint32 number)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNIQUE_VIOLATION),
			 errmsg("page %u of live filter \"%s\" is not empty", number, LiveName(filter))));
	pg_unreachable();
}

static bool
IsUsed(const HeldPage &main)
{
	return LoaderOf(main.bytes) != kNoXid || CountEntries(main.bytes, kMainArea) > 0;
}

/* Divides a dumped page as a split would do. The arrays of both parts are palloc'd. */
static void
DividePage(const LiveFilter &filter, const DumpedPage &page, DumpedPage *low, DumpedPage *high)
{
	LineLayout layout = filter.parameters.geometry.layout;
	DumpedEntry *kept = (DumpedEntry *) palloc(sizeof(DumpedEntry) * (page.count + 1));
	DumpedEntry *moved = (DumpedEntry *) palloc(sizeof(DumpedEntry) * (page.count + 1));

	layout.level = page.level;
	*low = page;
	low->level++;
	*high = *low;
	high->block = UpperOf(page.block, page.level);
	low->entries = kept;
	high->entries = moved;
	low->count = high->count = 0;
	for (uint32 i = 0; i < page.count; i++)
		if ((PageBits(page.entries[i].rest) >> page.level & 1) != 0)
			moved[high->count++] = page.entries[i];
		else
			kept[low->count++] = page.entries[i];
	if (page.lines == NULL)
		return;

	uint8_t *low_lines = (uint8_t *) palloc(kLines * dedup::kLineBytes);
	uint8_t *high_lines = (uint8_t *) palloc(kLines * dedup::kLineBytes);

	for (unsigned line = 0; line < kLines; line++)
	{
		const size_t at = line * dedup::kLineBytes;

		SplitLine(page.lines + at, layout, low_lines + at, high_lines + at);
	}
	low->lines = low_lines;
	high->lines = high_lines;
}

/*
 * Loads a page of a filter that grows: into the page of its number and level or, if that has split,
 * into all pages that have its keys now.
 */
static void
LoadGrown(const LiveFilter &filter, const DumpedPage &dumped)
{
	HeldPage main;
	DumpedPage low;
	DumpedPage high;

	(void) HoldNumbered(filter, dumped.block, BUFFER_LOCK_EXCLUSIVE, true, &main);
	if (LevelOf(main.bytes) == dumped.level)
	{
		if (IsUsed(main))
			ReportUsed(filter, dumped.block);
		FillHeld(filter, main, dumped);
		ReleasePage(main);
		SplitIfWanted(filter);
		return;
	}
	if (LevelOf(main.bytes) < dumped.level)
		elog(ERROR, "page %u of live filter \"%s\" has not split", dumped.block, LiveName(filter));
	ReleasePage(main);
	DividePage(filter, dumped, &low, &high);
	LoadGrown(filter, low);
	LoadGrown(filter, high);
}

void
LiveLoadPage(const LiveFilter &filter, const DumpedPage &dumped)
{
	uint32 newest = dumped.clock;

	for (uint32 i = 0; i < dumped.count; i++)
		newest = Max(newest, dumped.entries[i].generation);
	if (Grows(filter))
	{
		const uint32 pages = Max(dumped.pages, FewestPages(dumped.block, dumped.level));

		if (GuessPages(filter) < pages)
			PresizePages(filter, pages);
		LoadGrown(filter, dumped);
	}
	else
	{
		HeldPage main;

		Assert(dumped.block < filter.parameters.geometry.pages);
		HoldPageToChange(filter, dumped.block, Kind::kMain, &main);
		FillHeld(filter, main, dumped);
		ReleasePage(main);
	}
	if (!ahead_warned && LiveIsAhead(filter, newest))
	{
		WarnLiveAhead(filter, "newest key that was loaded is");
		ahead_warned = true;
	}
	NoteLiveGeneration(filter, newest);
}

void
LiveRequireEmpty(const LiveFilter &filter)
{
	if (!IsEmpty(filter))
		ReportNotEmpty(filter);
	ahead_warned = false;
}

void
LiveMultiInsert(Relation rel, TupleTableSlot **slots, int count, CommandId command, INSERT_OPTIONS,
				struct BulkInsertStateData *)
{
	/* The COPY that found the filter empty at its first rows. */
	static Oid loading = InvalidOid;
	static CommandId loading_command;
	static FullTransactionId loading_xid;
	FullTransactionId xid = GetCurrentFullTransactionId();
	LiveFilter filter = {rel, LiveParametersOf(rel)};
	MemoryContext context;

	if (!OWNS_RELATION(RelationGetRelid(rel), GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, RelationGetRelationName(rel));
	if (loading != RelationGetRelid(rel) || loading_command != command ||
		!FullTransactionIdEquals(loading_xid, xid))
	{
		loading = InvalidOid;
		/* The initial copy of logical replication does not fire the filter's trigger. */
		if (SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA)
			LiveRequireUnguarded(rel);
		LiveRequireEmpty(filter);
		loading = RelationGetRelid(rel);
		loading_command = command;
		loading_xid = xid;
	}
	context = AllocSetContextCreateInternal(CurrentMemoryContext, "live filter restore",
											ALLOCSET_DEFAULT_SIZES);
	for (int i = 0; i < count; i++)
	{
		MemoryContext old = MemoryContextSwitchTo(context);
		DumpedPage dumped;
		HeldPage page;
		int32 block;
		bool used = false;

		slot_getallattrs(slots[i]);
		if (slots[i]->tts_isnull[kLiveBlockColumn - 1] || slots[i]->tts_isnull[kLivePageColumn - 1])
			ereport(ERROR, (errcode(ERRCODE_NOT_NULL_VIOLATION),
							errmsg("a row of live filter \"%s\" has no nulls", LiveName(filter))));
		block = DatumGetInt32(slots[i]->tts_values[kLiveBlockColumn - 1]);
		DecodePage((struct varlena *) PG_DETOAST_DATUM(slots[i]->tts_values[kLivePageColumn - 1]),
				   filter.parameters, LiveName(filter), &dumped);
		if ((BlockNumber) block != dumped.block)
			ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
							errmsg("page %u of live filter \"%s\" cannot be loaded as block %d",
								   dumped.block, LiveName(filter), block)));
		/*
		 * The initial copies of a table and of its filter for a subscription are not taken at the
		 * same time. So this filter need not cover the table even if the publisher's filter does.
		 */
		if (dumped.covers)
		{
			if (!IsLogicalWorker())
				SetLiveCovers(filter, true, dumped.clock);
			MemoryContextSwitchTo(old);
			continue;
		}
		if (!Grows(filter) && HoldPage(filter, dumped.block, Kind::kMain, BUFFER_LOCK_SHARE, &page))
		{
			used = IsUsed(page);
			ReleasePage(page);
		}
		if (used)
			ReportUsed(filter, dumped.block);
		LiveLoadPage(filter, dumped);
		MemoryContextSwitchTo(old);
		MemoryContextReset(context);
	}
	MemoryContextDelete(context);
	pgstat_count_heap_insert(rel, count);
}

/* ---- checks against wrong restores -------------------------------------------------- */

/*
 * dedup_is_live(oid) returns boolean: the CHECK constraint of a live filter calls this function
 *
 * It makes a restore fail if the table was made without the access method.
 */
DEDUP_FUNCTION(dedup_is_live)
{
	Oid relid = PG_GETARG_OID(0);

	if (get_rel_name(relid) == NULL)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE),
						errmsg("relation with OID %u does not exist", relid)));
	if (!IsLiveRelationId(relid))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a live filter", get_rel_name(relid)),
				 errdetail("It was made without its access method, streamdedup."),
				 errhint("Restore live filters without the option --no-table-access-method.")));
	PG_RETURN_BOOL(true);
}

void
LiveRequireUnguarded(Relation rel)
{
	const Oid table = LiveGuardedTable(RelationGetRelid(rel));

	if (OidIsValid(table))
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("cannot restore live filter \"%s\" while it guards table \"%s\"",
							   RelationGetRelationName(rel), get_rel_name(table)),
						errdetail("Rows of that table that are loaded after the filter would be "
								  "refused as duplicates."),
						errhint("Restore data alone with the option --disable-triggers, or remove "
								"the guard with dedup_unguard() first.")));
}

/*
 * dedup_restore_trigger() returns trigger: called BEFORE INSERT on a live filter, once for each
 * COPY
 *
 * Rows that are loaded into a guarded table after its filter would all be skipped. So a filter with
 * an enabled guard is not restored. pg_restore --disable-triggers disables this trigger and the
 * guard.
 */
DEDUP_FUNCTION(dedup_restore_trigger)
{
	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
						errmsg("dedup_restore_trigger() can only be called as a trigger")));
	LiveRequireUnguarded(((TriggerData *) fcinfo->context)->tg_relation);
	PG_RETURN_POINTER(NULL);
}

bool
IsLiveCheckFunction(Oid function)
{
	return IsOurFunction(function, dedup_is_live, "dedup_is_live");
}

bool
IsRestoreTriggerFunction(Oid function)
{
	return IsOurFunction(function, dedup_restore_trigger, "dedup_restore_trigger");
}
