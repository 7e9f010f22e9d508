/*
 * The page of counters that all sessions share (counters_page.cpp), and in it the slots of
 * prepared transactions (prepared.cpp). What a transaction has counted comes from
 * counters.cpp.
 *
 * The page is changed by atomic instructions under a shared lock. That is no part of a
 * generic WAL record: like a hint it is logged as a whole once a checkpoint, if at all.
 * After a crash what was counted since it was last written is missing. But what says whether
 * the filter covers its table (cover.cpp) is changed and logged as keys are.
 *
 * The page, in the machine's own byte order, from line 1 on: nine counters, the time of
 * the first count, the newest generation committed, whether a warning was given, how many
 * slots are in use, how many keys of a time window gave way early; in line 3 five words of
 * cover.cpp; from line 4 on 90 slots. All but those words and the slots' values are words
 * that check themselves (core/page_sum.hpp); that of a slot checks its values too. A slot that
 * does not pass was lost in a crash, or damaged: it counts nothing.
 */
#ifndef STREAMDEDUP_LIVE_COUNTERS_PAGE_HPP
#define STREAMDEDUP_LIVE_COUNTERS_PAGE_HPP

#include "live/store/store.hpp"

extern "C" {
#include "port/atomics.h"
}

/* What one transaction has counted. */
struct LiveTally
{
	int64 value[kLiveCounters];
	uint32 clock; /* its newest generation, or 0 */
};

/* ---- words that check themselves ---------------------------------------------- */

/* The words of the page by what they count; the counters of LiveCounter come first. */
enum class Word
{
	Since = kLiveCounters,
	Clock,
	Warned,
	Prepared,
	Early,
	Count
};

/* Where the words and the slots are in the page. */
constexpr size_t kCounterWordsAt = dedup::kLineBytes;
constexpr size_t kPreparedSlotsAt = 4 * dedup::kLineBytes;

struct CountersPage
{
	pg_atomic_uint64 word[(int) Word::Count];
};
static_assert(kCounterWordsAt + sizeof(CountersPage) <= dedup::live::kCoverAt &&
				  kPreparedSlotsAt >= dedup::live::kCoverEnd,
			  "the page of counters is stored");

static inline CountersPage *
CountersOf(uint8_t *page)
{
	return (CountersPage *) (page + kCounterWordsAt);
}

static inline uint64
ReadWord(CountersPage *counters, Word word)
{
	return dedup::live::FromChecked(pg_atomic_read_u64(&counters->word[(int) word]));
}

/*
 * Makes a word what `change` makes of it, and returns its new value. A damaged word stays
 * as it is: it is found by LiveCountersFlaw() when the page is used next.
 */
template <typename Change>
static inline uint64
ChangeWord(CountersPage *counters, Word word, Change change)
{
	pg_atomic_uint64 *place = &counters->word[(int) word];
	uint64 have = pg_atomic_read_u64(place);
	uint64 want;

	Assert(word < Word::Count);
	do
	{
		want = dedup::live::ToChecked(change(dedup::live::FromChecked(have)));
		if (unlikely(!dedup::live::IsChecked(have)))
			return dedup::live::FromChecked(have);
	} while (!pg_atomic_compare_exchange_u64(place, &have, want));
	return dedup::live::FromChecked(want);
}

static inline uint64
AddToWord(CountersPage *counters, Word word, int64 n)
{
	return ChangeWord(counters, word, [n](uint64 value) { return value + (uint64) n; });
}

/* ---- the page (counters_page.cpp) ---------------------------------------------- */

/* Pins the page of counters, which is made if there is none yet. Raises XX001 if damaged. */
extern Buffer PinCounters(const LiveFilter &filter);

/* Adds to the counters of a page whose lock is held, shared at least. */
extern void AddTally(CountersPage *counters, const LiveTally &tally);

/* Adds keys that gave way early; returns how many there are now, and the keys added. */
extern int64 AddEarlyKeys(Buffer buffer, uint32 early, int64 *keys);

/* Whether this is the first who warns in this filter's life. */
extern bool MayWarn(Buffer buffer);

/* The newest generation of committed transactions. */
extern uint32 CommittedClock(const LiveFilter &filter);

/* ---- slots of prepared transactions (prepared.cpp) ------------------------------ */

/* Keeps values for a transaction that is being prepared. False: no slot is free. */
extern bool KeepPrepared(uint8_t *page, uint64 xid, const LiveTally &tally);

/* Counts what prepared transactions have left that have ended since. */
extern void SettlePrepared(Buffer buffer);

/* Adds the same to what is read of a page, without changing it. */
extern void AddPrepared(uint8_t *page, LiveCounts *counts);

#endif /* STREAMDEDUP_LIVE_COUNTERS_PAGE_HPP */
