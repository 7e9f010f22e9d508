/* Watches live filters: dedup_stats, and the contents of the view dedup_filters. */
#include <cmath>

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

/* ---- the contents of a filter --------------------------------------------------------- */

/* The number of columns of the result of dedup_stats(). */
static constexpr int STATS_COLUMNS = 28;

namespace
{

/* The contents of a filter. */
struct Holdings
{
	int64 held; /* number of committed keys */
	int64 in_flight;
	int64 own;      /* keys that the current transaction has added, and `held` does not count */
	int64 overflow; /* number of pages */
	int64 early;    /* number of keys that were dropped before their time */
	double rate;    /* the current false-positive rate */
};

} /* namespace */

/* Adds the contents of the lines of a main page. `rate` becomes a sum over lines. */
static void
AddLines(const LiveFilter &filter, const uint8_t *main, uint32 now, Holdings *holdings)
{
	const LineLayout layout = LinesOf(filter, main);

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

/* Returns whether an entry of ended transactions means that its key is present. */
static bool
IsHeld(const Tag &tag, const Entry &entry)
{
	const uint64 base = BaseOf(tag);

	return entry.forgotten ? (base == kNoXid || HasCommitted(base)) && !HasCommitted(tag.xid)
						   : HasCommitted(tag.xid);
}

/*
 * Returns whether a key of a window of time is counted without this entry: its line has it, or
 * another entry of the page. A key that was seen again is there more than once, until its entries
 * are folded. `own`: the current transaction has added the entry.
 */
static bool
IsCounted(const LiveFilter &filter, const HeldPage &main, const HeldPage &page, unsigned place,
		  const Entry &entry, uint32 now, bool own)
{
	const LineLayout layout = LinesOf(filter, main.bytes);
	uint32 last = 0;

	if (!layout.timed)
		return false;
	if (LastSightInLine(LineAt(main.bytes, entry.line), layout, entry.rest, ClockOf(main.bytes),
						now, &last))
		return true;
	return VisitKey(page.bytes, AreaOf(page.bytes), entry.line, entry.rest,
					[&](unsigned other_place, const Entry &other) {
						const Tag tag = LoadTag(page.bytes, other.tag);
						const TransactionId xid = (TransactionId) tag.xid;

						if (!Alive(tag.generation, now))
							return false;
						if (TransactionIdIsCurrentTransactionId(xid))
							return own && other_place < place && !other.forgotten;
						return (own || other_place < place) && !TransactionIdIsInProgress(xid) &&
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
		{
			holdings->in_flight++;
			holdings->own += !entry.forgotten &&
							 TransactionIdIsCurrentTransactionId((TransactionId) xid) &&
							 !IsCounted(filter, main, page, place, entry, now, true);
		}
		else if (IsHeld(tag, entry) && !IsCounted(filter, main, page, place, entry, now, false))
			holdings->held++;
	});
}

static void
AddHoldings(const Holdings &page, double part, Holdings *sum)
{
	sum->held += page.held;
	sum->in_flight += page.in_flight;
	sum->own += page.own;
	sum->overflow += page.overflow;
	sum->early += page.early;
	sum->rate += page.rate * part;
}

/* Reads every page. */
static Holdings
ReadHoldings(const LiveFilter &filter, uint32 now)
{
	Holdings holdings = {};
	PageWalk walk;
	HeldPage main;

	StartPageWalk(filter, &walk);
	while (HoldNextPage(&walk, BUFFER_LOCK_SHARE, &main))
	{
		Holdings here = {};

		here.early = EarlyOf(main.bytes);
		AddLines(filter, main.bytes, now, &here);
		VisitChain(filter, main, BUFFER_LOCK_SHARE, [&](const HeldPage &page) {
			here.overflow += page.block != main.block;
			AddEntries(filter, main, page, now, &here);
			return false;
		});
		/* A page of a higher level is read for a smaller part of all keys that are looked up. */
		AddHoldings(here, std::ldexp(1, -(int) LevelOf(main.bytes)), &holdings);
		ReleasePage(main);
	}
	/* The rates of a filter that grows are parts of 1. */
	holdings.rate /= (Grows(filter) ? 1.0 : filter.parameters.geometry.pages) * kLines;
	return holdings;
}

int64
LiveKeysWithOwn(const LiveFilter &filter, uint32 now)
{
	const Holdings holdings = ReadHoldings(filter, now);

	return holdings.held + holdings.own;
}

static void
FillStats(const LiveFilter &filter, Datum *values, bool *isnull)
{
	const LiveParameters &parameters = filter.parameters;
	const LiveCounts counts = ReadLiveCounts(filter);
	/* A window by count holds more keys than it promises: all its lines are full in the end. */
	const double room = (double) parameters.prototype_keys;
	uint32 now = LiveGenerationNow(filter);
	Holdings holdings;
	Interval *ttl = (Interval *) palloc0(sizeof(Interval));
	const char *kind;
	uint32 pages;
	int64 bytes;
	int n = 0;

	/* Backfills have a clock of their own, and so do events ahead of the clock. */
	if (parameters.ttl != 0 && counts.clock != 0)
		now = counts.clock;
	holdings = ReadHoldings(filter, now);
	pages = CountPages(filter);
	bytes = (int64) RelationGetNumberOfBlocks(filter.rel) * BLCKSZ;

	ttl->day = (int32) (parameters.ttl / USECS_PER_DAY);
	ttl->time = parameters.ttl % USECS_PER_DAY;
	kind = parameters.ttl != 0 ? "window of time" : parameters.forgets ? "window of keys" : "set";
	if (parameters.shape.hash != dedup::kXxh3Hash)
		kind = psprintf("%s, hash=%s", kind, dedup::kHashNames[parameters.shape.hash]);
	values[n++] = CStringGetTextDatum(kind);
	isnull[n] = Grows(filter);
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
	isnull[n] = Grows(filter);
	values[n++] = Float8GetDatum(Grows(filter) ? 0 : (double) holdings.held / room);
	values[n++] = Float8GetDatum(holdings.rate);
	values[n++] =
		BoolGetDatum(LiveIsOverfull(filter, holdings.early,
									Max(counts.value[(int) LiveCounter::New], holdings.held)) ||
					 LiveWindowIsOverfull(filter, holdings.held) ||
					 (!parameters.forgets && !Grows(filter) && (double) holdings.held > room));
	values[n++] = Int64GetDatum(holdings.early);
	values[n++] = Int64GetDatum(holdings.in_flight);
	values[n++] = Int64GetDatum(holdings.overflow);
	values[n++] = Int64GetDatum(bytes);
	isnull[n] = !Grows(filter);
	values[n++] = Int32GetDatum((int32) LevelOfPages(Max(pages, 1)));
	isnull[n] = !Grows(filter);
	values[n++] = Int64GetDatum((int64) pages - 1);
	isnull[n] = holdings.held == 0;
	values[n++] = Float8GetDatum((double) bytes / (double) Max(holdings.held, (int64) 1));
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
 * Returns the parameters of a live filter, what was counted since it was last empty, and what it
 * holds now. Reads every page.
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

/* ---- contents of views ------------------------------------------------------------------ */

/*
 * Runs show(filter) on a filter that the user may read. Returns false if it was not run, or failed.
 * Never waits for a lock, and never fails because of a problem with the filter: `problem` receives
 * that, or NULL.
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
	/* The filter cannot be dropped now, but it may have been dropped before. */
	if (IsLiveRelationId(relid) && pg_class_aclcheck(relid, GetUserId(), ACL_SELECT) == ACLCHECK_OK)
	{
		*problem = ErrorOf([&] {
			LiveFilter filter = OpenLive(relid, LiveUse::Ask, GetUserId(), "dedup_filters");

			show(filter);
			/* Closed with its lock: a transaction that only watches must not delay a DROP. */
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
 * Returns the row of a relation in the view dedup_filters. Returns a row of NULLs for a relation
 * that is not a live filter, does not exist any more, or that the user may not read.
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
