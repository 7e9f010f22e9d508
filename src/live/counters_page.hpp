/*
 * The page of counters that all sessions share (counters_page.cpp), including the slots of prepared
 * transactions (prepared.cpp). counters.cpp collects what a transaction has counted.
 *
 * The page is changed by atomic instructions under a shared lock. These changes are not part of a
 * generic WAL record: like a hint, the page is logged as a whole, at most once a checkpoint. After
 * a crash, the counts since the last write are missing. But the words that say whether the filter
 * covers its table (cover.cpp) are changed and logged as keys are.
 *
 * The page, in the machine's own byte order, from line 1 on: nine counters, the time of the first
 * count, the newest committed generation, whether a warning was given, how many slots are in use,
 * how many keys of a time window were dropped early; in line 3 five words of cover.cpp; from line 4
 * on 90 slots. Except for the words of cover.cpp and the slots' values, these are words that check
 * themselves (core/page_sum.hpp). The word of a slot also checks the slot's values. A slot that
 * does not pass was lost in a crash, or is damaged: it counts nothing.
 */
#ifndef STREAMDEDUP_LIVE_COUNTERS_PAGE_HPP
#define STREAMDEDUP_LIVE_COUNTERS_PAGE_HPP

#include "live/store/store.hpp"

extern "C" {
#include "port/atomics.h"
}

/* The counts of one transaction. */
struct LiveTally
{
	int64 value[kLiveCounters];
	uint32 clock; /* its newest generation, or 0 */
};

/* ---- words that check themselves ---------------------------------------------- */

/* The words of the page by their meaning. The counters of LiveCounter come first. */
enum class Word
{
	Since = kLiveCounters,
	Clock,
	Warned,
	Prepared,
	Early,
	Count
};

/* The places of the words and the slots in the page. */
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
 * Changes a word by `change`, and returns its new value. A damaged word is not changed:
 * LiveCountersFlaw() finds it when the page is used next.
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

/*
 * Pins the page of counters, and makes the page if there is none yet. Raises XX001 if it is
 * damaged.
 */
extern Buffer PinCounters(const LiveFilter &filter);

/* Adds to the counters of a page that is locked, at least shared. */
extern void AddTally(CountersPage *counters, const LiveTally &tally);

/*
 * Adds keys that were dropped early. Returns how many there are now, and sets `keys` to the number
 * of keys that were counted as new.
 */
extern int64 AddEarlyKeys(Buffer buffer, uint32 early, int64 *keys);

/* Returns whether this is the first warning in this filter's life. */
extern bool MayWarn(Buffer buffer);

/* Returns the newest generation of committed transactions. */
extern uint32 CommittedClock(const LiveFilter &filter);

/* ---- slots of prepared transactions (prepared.cpp) ------------------------------ */

/* Keeps values for a transaction that is being prepared. Returns false if no slot is free. */
extern bool KeepPrepared(uint8_t *page, uint64 xid, const LiveTally &tally);

/* Counts the values of prepared transactions that have ended since. */
extern void SettlePrepared(Buffer buffer);

/* Adds the same values to counts that were read from a page, without changing the page. */
extern void AddPrepared(uint8_t *page, LiveCounts *counts);

#endif /* STREAMDEDUP_LIVE_COUNTERS_PAGE_HPP */
