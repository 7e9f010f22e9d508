/* The page of counters that all sessions share; see counters_page.hpp. */
#include "live/counters_page.hpp"

using namespace dedup::live;

/* Returns a counter that can be negative, after a crash has lost counts. */
static int64
ReadCount(CountersPage *counters, LiveCounter counter)
{
	constexpr unsigned unused = 64 - kCheckedBits;

	return (int64) (ReadWord(counters, (Word) counter) << unused) >> unused;
}

const char *
LiveCountersFlaw(const uint8_t *page)
{
	CountersPage *counters = CountersOf(const_cast<uint8_t *>(page));

	for (int word = 0; word < (int) Word::Count; word++)
		if (unlikely(!IsChecked(pg_atomic_read_u64(&counters->word[word]))))
			return "A counter does not match its check.";
	return NULL;
}

/* Raises XX001 if a word is damaged. */
static void
CheckCounters(const LiveFilter &filter, const uint8_t *page)
{
	const char *flaw = LiveCountersFlaw(page);

	if (unlikely(flaw != NULL))
		ReportBadPage(filter.rel, CountersBlock(filter), flaw);
}

Buffer
PinCounters(const LiveFilter &filter)
{
	HeldPage page;

	HoldPageToChange(filter, CountersBlock(filter), Kind::kCounters, &page);
	CheckCounters(filter, page.bytes);
	LockBuffer(page.buffer, BUFFER_LOCK_UNLOCK);
	return page.buffer;
}

void
AddTally(CountersPage *counters, const LiveTally &tally)
{
	for (int i = 0; i < kLiveCounters; i++)
		if (tally.value[i] != 0)
			AddToWord(counters, (Word) i, tally.value[i]);
	if (ReadWord(counters, Word::Since) == 0)
		ChangeWord(counters, Word::Since, [](uint64 since) {
			return since != 0 ? since : (uint64) GetCurrentTimestamp();
		});
	if (ReadWord(counters, Word::Clock) < tally.clock)
		ChangeWord(counters, Word::Clock,
				   [&tally](uint64 have) { return Max(have, (uint64) tally.clock); });
}

int64
AddEarlyKeys(Buffer buffer, uint32 early, int64 *keys)
{
	CountersPage *counters = CountersOf((uint8_t *) BufferGetPage(buffer));
	int64 sum;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	sum = (int64) AddToWord(counters, Word::Early, early);
	*keys = ReadCount(counters, LiveCounter::New);
	MarkBufferDirtyHint(buffer, true);
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	return sum;
}

bool
MayWarn(Buffer buffer)
{
	bool first = false;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	ChangeWord(CountersOf((uint8_t *) BufferGetPage(buffer)), Word::Warned,
			   [&first](uint64 warned) {
				   first = warned == 0;
				   return (uint64) 1;
			   });
	if (first)
		MarkBufferDirtyHint(buffer, true);
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	return first;
}

LiveCounts
ReadLiveCounts(const LiveFilter &filter)
{
	LiveCounts counts = {};
	HeldPage page;
	CountersPage *counters;

	if (!HoldPage(filter, CountersBlock(filter), Kind::kCounters, BUFFER_LOCK_SHARE, &page))
		return counts;
	counters = CountersOf(page.bytes);
	CheckCounters(filter, page.bytes);
	for (int i = 0; i < kLiveCounters; i++)
		counts.value[i] = ReadCount(counters, (LiveCounter) i);
	counts.since = (TimestampTz) ReadWord(counters, Word::Since);
	counts.clock = (uint32) ReadWord(counters, Word::Clock);
	counts.warned = ReadWord(counters, Word::Warned) != 0;
	AddPrepared(page.bytes, &counts);
	ReleasePage(page);
	return counts;
}

/* This is called for every key of a filter with a ttl, so it reads only two words. */
uint32
CommittedClock(const LiveFilter &filter)
{
	HeldPage page;
	uint64 clock;
	uint64 prepared;

	if (!HoldPage(filter, CountersBlock(filter), Kind::kCounters, BUFFER_LOCK_SHARE, &page))
		return 0;
	clock = pg_atomic_read_u64(&CountersOf(page.bytes)->word[(int) Word::Clock]);
	prepared = pg_atomic_read_u64(&CountersOf(page.bytes)->word[(int) Word::Prepared]);
	ReleasePage(page);
	if (likely(prepared == 0 && IsChecked(clock)))
		return (uint32) FromChecked(clock);
	return ReadLiveCounts(filter).clock;
}

void
SettleLiveCounters(const LiveFilter &filter)
{
	HeldPage page;

	if (!HoldPage(filter, CountersBlock(filter), Kind::kCounters, BUFFER_LOCK_SHARE, &page))
		return;
	LockBuffer(page.buffer, BUFFER_LOCK_UNLOCK);
	SettlePrepared(page.buffer);
	ReleaseBuffer(page.buffer);
}
