/*
 * Watching live filters: dedup_stats, dedup_check, and what the view dedup_filters shows.
 */
#include "live/bulk.hpp"
#include "live/call.hpp"
#include "live/page_type.hpp"
#include "live/store/store.hpp"
#include "pg/subtransaction.hpp"

extern "C" {
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "funcapi.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/resowner.h"
#include "utils/timestamp.h"
}

using namespace dedup::live;

/* ---- what there is in a filter --------------------------------------------------------- */

/* Columns of what dedup_stats() returns. */
static constexpr int STATS_COLUMNS = 25;

namespace
{

/* What a filter holds. */
struct Holdings
{
	int64 held; /* keys that are committed */
	int64 in_flight;
	int64 overflow; /* pages */
	int64 early;    /* keys that gave way before their time */
	double rate;    /* of false positives, now */
};

} /* namespace */

/* Adds what is in the lines of a main page. `rate` becomes a sum over lines. */
static void
AddLines(const LiveFilter &filter, const uint8_t *main, uint32 now, Holdings *holdings)
{
	const LineLayout &layout = filter.parameters.geometry.layout;

	for (unsigned line = 0; line < kLines; line++)
	{
		const unsigned alive = AliveInLine(LineAt(main, line), layout, ClockOf(main), now);

		holdings->held += alive;
		holdings->rate += LineRate(layout, alive);
	}
}

static bool
IsUnderWay(const LiveFilter &filter, BlockNumber block, uint64 xid)
{
	return xid != kNoXid && JudgeXid(filter, block, xid) == Verdict::kKeep &&
		   (TransactionIdIsCurrentTransactionId((TransactionId) xid) ||
			TransactionIdIsInProgress((TransactionId) xid));
}

static bool
HasCommitted(uint64 xid)
{
	return xid == kFrozen || TransactionIdDidCommit((TransactionId) xid);
}

/* Whether an entry of ended transactions says that its key is there. */
static bool
IsHeld(const Tag &tag, const Entry &entry)
{
	const uint64 base = BaseOf(tag);

	return entry.forgotten ? (base == kNoXid || HasCommitted(base)) && !HasCommitted(tag.xid)
						   : HasCommitted(tag.xid);
}

/*
 * Whether a key of a window of time that an entry holds is counted already: a key that has been
 * seen again is there more than once, until its entries are folded.
 */
static bool
IsCounted(const LiveFilter &filter, const HeldPage &main, const HeldPage &page, unsigned place,
		  const Entry &entry, uint32 now)
{
	const LineLayout &layout = filter.parameters.geometry.layout;
	uint32 last = 0;

	if (!layout.timed)
		return false;
	if (LastSightInLine(LineAt(main.bytes, entry.line), layout, entry.rest, ClockOf(main.bytes),
						now, &last))
		return true;
	return VisitKey(page.bytes, AreaOf(page.bytes), entry.line, entry.rest,
					[&](unsigned other_place, const Entry &other) {
						const Tag tag = LoadTag(page.bytes, other.tag);

						return other_place < place && Alive(tag.generation, now) &&
							   !TransactionIdIsCurrentTransactionId((TransactionId) tag.xid) &&
							   !TransactionIdIsInProgress((TransactionId) tag.xid) &&
							   IsHeld(tag, other);
					});
}

/* Adds the entries of a page. */
static void
AddEntries(const LiveFilter &filter, const HeldPage &main, const HeldPage &page, uint32 now,
		   Holdings *holdings)
{
	ForEachEntry(page.bytes, AreaOf(page.bytes), [&](unsigned place, const Entry &entry) {
		const Tag tag = LoadTag(page.bytes, entry.tag);
		const uint64 xid = tag.xid;
		const uint64 base = BaseOf(tag);

		if (filter.parameters.geometry.layout.timed && !Alive(tag.generation, now))
			return;
		if (IsUnderWay(filter, page.block, xid) || IsUnderWay(filter, page.block, base))
			holdings->in_flight++;
		else if (IsHeld(tag, entry) && !IsCounted(filter, main, page, place, entry, now))
			holdings->held++;
	});
}

/* Reads every page. */
static Holdings
ReadHoldings(const LiveFilter &filter, uint32 now)
{
	const BlockNumber pages = filter.parameters.geometry.pages;
	Holdings holdings = {};

	for (BlockNumber block = 0; block < pages; block++)
	{
		HeldPage main;

		CHECK_FOR_INTERRUPTS();
		if (!HoldPage(filter, block, Kind::kMain, BUFFER_LOCK_SHARE, &main))
			continue;
		holdings.early += EarlyOf(main.bytes);
		AddLines(filter, main.bytes, now, &holdings);
		VisitChain(filter, main, BUFFER_LOCK_SHARE, [&](const HeldPage &page) {
			holdings.overflow += page.block != main.block;
			AddEntries(filter, main, page, now, &holdings);
			return false;
		});
		ReleasePage(main);
	}
	holdings.rate /= (double) pages * kLines;
	return holdings;
}

static void
FillStats(const LiveFilter &filter, Datum *values, bool *isnull)
{
	const LiveParameters &parameters = filter.parameters;
	const LiveCounts counts = ReadLiveCounts(filter);
	/* A window by count holds more than it promises: all its lines are full in the end. */
	const double room = (double) parameters.prototype_keys;
	uint32 now = LiveGenerationNow(filter);
	Holdings holdings;
	Interval *ttl = (Interval *) palloc0(sizeof(Interval));
	const char *kind;
	int n = 0;

	/* Backfills have a clock of their own, and so have events ahead of the clock. */
	if (parameters.ttl != 0 && counts.clock != 0)
		now = counts.clock;
	holdings = ReadHoldings(filter, now);

	ttl->day = (int32) (parameters.ttl / USECS_PER_DAY);
	ttl->time = parameters.ttl % USECS_PER_DAY;
	kind = parameters.ttl != 0 ? "window of time" : parameters.forgets ? "window of keys" : "set";
	if (parameters.shape.hash != dedup::kXxh3Hash)
		kind = psprintf("%s, hash=%s", kind, dedup::kHashNames[parameters.shape.hash]);
	values[n++] = CStringGetTextDatum(kind);
	values[n++] = Int64GetDatum((int64) parameters.prototype_keys);
	values[n++] = Float8GetDatum(parameters.prototype_fpr);
	values[n++] = Int64GetDatum((int64) parameters.shape.seed);
	isnull[n] = parameters.ttl == 0;
	values[n++] = IntervalPGetDatum(ttl);
	values[n++] = BoolGetDatum(parameters.renew);
	values[n++] = BoolGetDatum(filter.rel->rd_rel->relpersistence == RELPERSISTENCE_PERMANENT);
	for (int i = 0; i < kLiveCounters; i++)
		values[n++] = Int64GetDatum(counts.value[i]);
	isnull[n] = counts.since == 0;
	values[n++] = TimestampTzGetDatum(counts.since);
	values[n++] = Int64GetDatum(holdings.held);
	values[n++] = Float8GetDatum((double) holdings.held / room);
	values[n++] = Float8GetDatum(holdings.rate);
	values[n++] =
		BoolGetDatum(LiveIsOverfull(filter, holdings.early,
									Max(counts.value[(int) LiveCounter::New], holdings.held)) ||
					 (!parameters.forgets && (double) holdings.held > room));
	values[n++] = Int64GetDatum(holdings.early);
	values[n++] = Int64GetDatum(holdings.in_flight);
	values[n++] = Int64GetDatum(holdings.overflow);
	values[n++] = Int64GetDatum((int64) RelationGetNumberOfBlocks(filter.rel) * BLCKSZ);
	Assert(n == STATS_COLUMNS);
}

static TupleDesc
RecordType(FunctionCallInfo fcinfo)
{
	TupleDesc desc;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	return BlessTupleDesc(desc);
}

/*
 * dedup_stats(name) returns record
 *
 * What a live filter was made for, what has been counted since it was last empty, and
 * what it holds now. Reads every page.
 */
DEDUP_FUNCTION(dedup_live_stats)
{
	TupleDesc desc = RecordType(fcinfo);
	Datum values[STATS_COLUMNS];
	bool isnull[STATS_COLUMNS] = {};
	LiveFilter filter;

	if (!OpenNamed(fcinfo, "dedup_stats()", &filter))
		PG_RETURN_NULL();
	FillStats(filter, values, isnull);
	CloseLive(filter);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(desc, values, isnull)));
}

/* ---- errors that are answers -------------------------------------------------------------- */

/*
 * Runs work() in a subtransaction. Returns the message of the error that it raised, or
 * null. Errors that are not about the filter are raised: cancel, shutdown, lack of
 * resources. A parallel plan does not allow subtransactions.
 */
template <typename Work>
static char *
ErrorOf(Work work)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	char *volatile problem = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		work();
		ReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(context);
		CurrentResourceOwner = owner;
	}
	PG_CATCH();
	{
		ErrorData *error = RollBackError(context, owner);
		const int category = ERRCODE_TO_CATEGORY(error->sqlerrcode);

		if (category == ERRCODE_OPERATOR_INTERVENTION || category == ERRCODE_INSUFFICIENT_RESOURCES)
			ReThrowError(error);
		problem = error->message;
	}
	PG_END_TRY();
	return problem;
}

/* ---- what views show -------------------------------------------------------------------- */

/*
 * Runs show(filter) on a filter that the user may ask. False if it was not run, or failed.
 * Never waits for a lock, and never fails for what is wrong with the filter: that, or NULL, is
 * `problem` then.
 */
template <typename Show>
static bool
ShowLive(Oid relid, char **problem, Show show)
{
	bool shown = false;

	*problem = NULL;
	if (!IsLiveRelationId(relid))
		return false;
	if (!ConditionalLockRelationOid(relid, AccessShareLock))
	{
		*problem = pstrdup("another transaction has locked it");
		return false;
	}
	/* Nothing can drop it now, but it may have been dropped before. */
	if (IsLiveRelationId(relid) && pg_class_aclcheck(relid, GetUserId(), ACL_SELECT) == ACLCHECK_OK)
	{
		*problem = ErrorOf([&] {
			LiveFilter filter = OpenLive(relid, LiveUse::Ask, GetUserId(), "dedup_filters");

			show(filter);
			/* A transaction that watches does not hold up a DROP. */
			relation_close(filter.rel, AccessShareLock);
		});
		shown = *problem == NULL;
	}
	UnlockRelationOid(relid, AccessShareLock);
	return shown;
}

/*
 * dedup_filter_state(relation oid) returns record: dedup_stats() and `problem` text
 *
 * What the view dedup_filters shows of a relation. A row of NULLs for what is not a live
 * filter, is there no more, or may not be asked.
 */
DEDUP_FUNCTION(dedup_filter_state)
{
	TupleDesc desc = RecordType(fcinfo);
	Datum values[STATS_COLUMNS + 1];
	bool isnull[STATS_COLUMNS + 1] = {};
	char *problem;

	if (!ShowLive(PG_GETARG_OID(0), &problem,
				  [&](const LiveFilter &filter) { FillStats(filter, values, isnull); }))
		memset(isnull, true, sizeof isnull);
	isnull[STATS_COLUMNS] = problem == NULL;
	if (problem != NULL)
		values[STATS_COLUMNS] = CStringGetTextDatum(problem);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(desc, values, isnull)));
}

bool
ShowLiveCounts(Oid relid, LiveCounts *counts, bool *covers, char **problem)
{
	return ShowLive(relid, problem, [&](const LiveFilter &filter) {
		*counts = ReadLiveCounts(filter);
		*covers = LiveCoversFor(filter, NULL);
	});
}

/* ---- checking ------------------------------------------------------------------------------ */

namespace
{

/* A check that is under way. */
struct Check
{
	Tuplestorestate *rows; /* what was found */
	TupleDesc desc;
	LiveFilter filter;
	BlockNumber blocks; /* of the file */
	bool *reached;      /* overflow pages that are in a chain */
	bool *unreadable;
};

} /* namespace */

static void
ReportProblem(const Check *check, BlockNumber block, const char *problem)
{
	Datum values[2] = {Int64GetDatum((int64) block), CStringGetTextDatum(problem)};
	bool isnull[2] = {};

	tuplestore_putvalues(check->rows, check->desc, values, isnull);
}

/* What the server finds wrong with a page when it reads it; null if nothing. */
static const char *
ReadingFlaw(Relation rel, BlockNumber block)
{
	return ErrorOf([&] { ReleaseBuffer(ReadBuffer(rel, block)); });
}

/* Whether images of the page in the WAL would leave out something that is there. */
static bool
HoleHidesKeys(const LiveFilter &filter, const uint8_t *page, Kind kind)
{
	const LocationIndex lower = ((const PageHeaderData *) page)->pd_lower;

	return lower != BLCKSZ &&
		   (kind != Kind::kMain || lower != kLinesAt || !LinesEmpty(filter, page));
}

/* What a look at everything in a page finds wrong; null if nothing. */
static const char *
FlawOf(const LiveFilter &filter, uint8_t *page, Kind kind, BlockNumber block)
{
	const char *flaw = HeaderFlaw(page, kind, block, filter.parameters.geometry.layout);

	if (flaw == NULL)
		flaw = LivePageFlaw(filter, page, block);
	if (flaw == NULL && HoleHidesKeys(filter, page, kind))
		flaw = "Its header says of bytes that are in use that they are not.";
	if (flaw == NULL && kind == Kind::kCounters)
		flaw = LiveCountersFlaw(page);
	if (flaw == NULL && kind == Kind::kCounters)
		flaw = LiveCoverFlaw(page);
	if (flaw != NULL || kind == Kind::kCounters)
		return flaw;
	if (LoaderOf(page) != kNoXid && !IsPossibleXid(LoaderOf(page)))
		flaw = "It names a transaction that cannot exist.";
	for (unsigned tag = 1; tag <= AreaOf(page).tags; tag++)
	{
		const Tag value = LoadTag(page, tag);

		if ((value.xid != kNoXid && !IsPossibleXid(value.xid)) ||
			(value.base != 0 && !IsPossibleXid(BaseOf(value))))
			flaw = "It names a transaction that cannot exist.";
	}
	return flaw != NULL ? flaw : PageFlaw(page, kind, block, filter.parameters.geometry);
}

/*
 * Checks the overflow page at which a chain goes on. Returns the next one, or 0 if the chain
 * ends, or is broken.
 */
static BlockNumber
CheckOverflowPage(Check *check, BlockNumber main, BlockNumber at)
{
	const LiveFilter &filter = check->filter;
	BlockNumber next = 0;
	const char *flaw;
	Buffer buffer;
	uint8_t *bytes;

	if (at <= CountersBlock(filter) || at >= check->blocks)
	{
		/* It may be younger than our look at the file's length. */
		check->blocks = Min(check->blocks, RelationGetNumberOfBlocks(filter.rel));
		if (at <= CountersBlock(filter) || at >= RelationGetNumberOfBlocks(filter.rel))
			ReportProblem(check, main, "Its chain of overflow pages leads out of the file.");
		return 0;
	}
	if (check->reached[at])
	{
		ReportProblem(check, at, "It is in more than one chain.");
		return 0;
	}
	check->reached[at] = true;
	if (check->unreadable[at])
	{
		ReportProblem(check, at, "The server refuses to read it.");
		return 0;
	}
	buffer = ReadBuffer(filter.rel, at);
	bytes = (uint8_t *) BufferGetPage(buffer);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	flaw = PageIsNew((Page) bytes) ? "It is empty, but in a chain."
								   : FlawOf(filter, bytes, Kind::kOverflow, at);
	if (flaw == NULL && OwnerOf(bytes) != main)
		flaw = "It belongs to another page's chain.";
	if (flaw == NULL)
		next = NextOf(bytes);
	UnlockReleaseBuffer(buffer);
	if (flaw != NULL)
		ReportProblem(check, at, flaw);
	return next;
}

/* Checks a main page and its chain, or the page of counters. */
static void
CheckPage(Check *check, BlockNumber block)
{
	const LiveFilter &filter = check->filter;
	const Kind kind = block == CountersBlock(filter) ? Kind::kCounters : Kind::kMain;
	const char *flaw = ReadingFlaw(filter.rel, block);
	BlockNumber next = 0;
	Buffer buffer;
	uint8_t *page;

	if (flaw != NULL)
	{
		ReportProblem(check, block, flaw);
		return;
	}
	buffer = ReadBuffer(filter.rel, block);
	page = (uint8_t *) BufferGetPage(buffer);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	if (!PageIsNew((Page) page))
	{
		flaw = FlawOf(filter, page, kind, block);
		if (flaw == NULL && kind == Kind::kMain)
			next = NextOf(page);
	}
	if (flaw != NULL)
		ReportProblem(check, block, flaw);
	/* The main page's lock holds the chain as it is. */
	while (next != 0)
		next = CheckOverflowPage(check, block, next);
	UnlockReleaseBuffer(buffer);
}

/*
 * dedup_check(name) returns setof record (block bigint, problem text)
 *
 * Looks at every byte of every page and reports what is wrong; no rows if all is well.
 */
DEDUP_FUNCTION(dedup_live_check)
{
	ReturnSetInfo *result = RequireSet(fcinfo, SFRM_Materialize);
	Check check = {};
	BlockNumber end;

	check.desc = RecordType(fcinfo);
	check.rows = ReturnRows(result, check.desc);
	if (!OpenNamed(fcinfo, "dedup_check()", &check.filter))
		return (Datum) 0;
	check.blocks = RelationGetNumberOfBlocks(check.filter.rel);
	check.reached = (bool *) palloc_extended(check.blocks + 1, MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	check.unreadable =
		(bool *) palloc_extended(check.blocks + 1, MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	end = CountersBlock(check.filter) + 1;
	/* Beforehand: an error that is caught would release the lock of a chain's main page. */
	for (BlockNumber block = end; block < check.blocks; block++)
		check.unreadable[block] = ReadingFlaw(check.filter.rel, block) != NULL;
	for (BlockNumber block = 0; block < Min(check.blocks, end); block++)
	{
		CHECK_FOR_INTERRUPTS();
		CheckPage(&check, block);
	}
	CloseLive(check.filter);
	return (Datum) 0;
}
