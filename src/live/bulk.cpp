/*
 * Adding many keys to a live filter at once.
 *
 * The keys come in the order of their hashes, which is that of pages and lines. So the keys
 * of a page come together. If the page is empty, they are written into its lines at once, in
 * one WAL record, and the page gets this transaction as its loader: if the transaction
 * aborts, the lines are empty again, as after a COPY (restore.cpp). Keys that find their line
 * full become entries of the page or its chain. If the page is not empty, or gets so few keys
 * that they fit its area of entries for good, the keys are added as entries: these make next
 * to no false positives.
 *
 * A line has its keys in the order of their arrival. So the keys of a line are put in the order
 * of their ages before they are added; keys of one age stay in the order of their hashes. In a
 * set, the keys that find their line full are the youngest ones.
 */
#include <algorithm>

#include "live/bulk.hpp"
#include "live/keys.hpp"

using namespace dedup::live;

/* More than any page has slots for. Page by page, a set adds no more keys at once. */
constexpr int MOST_WAITING = 16384;

/* So many entries stay what they are: Settling moves them into lines if there are more. */
constexpr int FEW_KEYS = (int) (kMainArea.lines * kEntriesPerLine / 2);

bool
LinesEmpty(const LiveFilter &filter, const uint8_t *main)
{
	for (unsigned line = 0; line < kLines; line++)
		if (KeysInLine(LineAt(main, line), filter.parameters.geometry.layout) != 0)
			return false;
	return true;
}

bool
IsEmptyPage(const LiveFilter &filter, const uint8_t *main)
{
	return LoaderOf(main) == kNoXid && NextOf(main) == 0 && CountEntries(main, kMainArea) == 0 &&
		   LinesEmpty(filter, main);
}

/* ---- a page at a time ------------------------------------------------------------------ */

/* Puts the keys that wait, which have several ages, in the order of line, age and hash. */
static void
SortByAge(LiveBulk *bulk)
{
	uint64 *order = bulk->waits;
	int from = 0;

	while (from < bulk->count)
	{
		const unsigned line = AddressIn(*bulk->filter, bulk->hashes[from]).line;
		int to = from;

		for (; to < bulk->count && AddressIn(*bulk->filter, bulk->hashes[to]).line == line; to++)
			order[to] = (uint64) bulk->ages[to] << 32 | (uint32) to;
		std::sort(order + from, order + to);
		from = to;
	}
	for (int i = 0; i < bulk->count; i++)
		bulk->sorted[i] = bulk->hashes[(uint32) order[i]];
	std::swap(bulk->hashes, bulk->sorted);
}

/*
 * Puts the keys that wait into the lines of an empty page, in a scratch copy. Those whose
 * line is full are left, in `addresses`. Returns how many these are.
 */
static int
FillLines(LiveBulk *bulk, uint8_t *scratch)
{
	const LineLayout &layout = bulk->filter->parameters.geometry.layout;
	const bool forgets = bulk->filter->parameters.geometry.forgets;
	const uint32 clock = layout.timed ? Max(bulk->generation, ClockOf(scratch)) : 0;
	int left = 0;

	for (int i = 0; i < bulk->count; i++)
	{
		const Address address = AddressIn(*bulk->filter, bulk->hashes[i]);
		uint8_t *line = LineAt(scratch, address.line);

		if (LineHolds(line, layout, address.rest, clock, clock))
			continue;
		if (!forgets && IsFullLine(line, layout))
		{
			bulk->addresses[left++] = address;
			continue;
		}
		(void) AddToLine(line, layout, address.rest, clock, clock);
		bulk->added++;
	}
	SetLoader(scratch, bulk->own);
	if (layout.timed)
	{
		SetClock(scratch, clock);
		SetEarly(scratch, EarlyOf(scratch) + bulk->left_out);
	}
	return left;
}

/* Writes the keys that wait into their page as a whole. Returns false if it is not empty. */
static bool
FillPage(LiveBulk *bulk)
{
	const LiveFilter &filter = *bulk->filter;
	PGAlignedBlock block;
	uint8_t *scratch = (uint8_t *) block.data;
	HeldPage main;
	const bool fresh = HoldPageToFill(filter, bulk->block, &main);
	int left;

	if (!fresh && !IsEmptyPage(filter, main.bytes))
	{
		/* It may hold only what was rolled back. */
		SettlePage(filter, main, false);
		if (!IsEmptyPage(filter, main.bytes))
		{
			ReleasePage(main);
			return false;
		}
	}
	if (fresh)
		InitPage(scratch, Kind::kMain, bulk->block, filter.parameters.geometry.layout, 0);
	else
		memcpy(scratch, main.bytes, BLCKSZ);
	left = FillLines(bulk, scratch);
	if (fresh)
		MakeNewPage(filter, main, scratch);
	else
	{
		StartChange();
		ChangeToScratch(main, scratch);
		MakeChange(filter);
	}
	if (left > 0)
		PutKeys(filter, main, {bulk->own, bulk->generation}, bulk->addresses, left);
	bulk->added += left;
	ReleasePage(main);
	NoteLiveGeneration(filter, bulk->generation);
	if (bulk->left_out > 0 && filter.parameters.ttl != 0)
		NoteLiveEarly(filter, bulk->left_out);
	return true;
}

static int
CompareHashes(const void *left, const void *right)
{
	const uint64 a = *(const uint64 *) left;
	const uint64 b = *(const uint64 *) right;

	return a < b ? -1 : a > b;
}

/*
 * Adds the keys that wait to a page as entries. Those that other transactions have in flight
 * come last, one by one, when the page is not locked any more.
 */
static void
AddToPage(LiveBulk *bulk)
{
	const LiveFilter &filter = *bulk->filter;
	HeldPage main;
	uint32 now;
	int fresh = 0;
	int waits = 0;
	int known = 0;

	HoldPageToChange(filter, bulk->block, Kind::kMain, &main);
	now = filter.parameters.ttl == 0 ? 0 : Max(bulk->generation, ClockOf(main.bytes));
	for (int i = 0; i < bulk->count; i++)
	{
		const Address address = AddressIn(filter, bulk->hashes[i]);

		switch (StateOfKey(filter, main, address, now))
		{
			case KeyState::Absent:
				bulk->addresses[fresh++] = address;
				break;
			case KeyState::Present:
				bulk->hashes[known++] = bulk->hashes[i];
				break;
			case KeyState::Waits:
				bulk->waits[waits++] = bulk->hashes[i];
				break;
		}
	}
	if (fresh > 0)
		PutKeys(filter, main, {bulk->own, now}, bulk->addresses, fresh);
	ReleasePage(main);
	bulk->added += fresh;
	if (fresh > 0)
		NoteLiveGeneration(filter, now);
	for (int i = 0; i < waits; i++)
		if (LiveTestAndAdd(filter, bulk->waits[i], bulk->generation) == LiveAnswer::New)
			bulk->added++;
		else
			bulk->hashes[known++] = bulk->waits[i];
	/* They are told in their order. */
	if (waits > 0)
		qsort(bulk->hashes, (size_t) known, sizeof(uint64), CompareHashes);
	for (int i = 0; i < known && bulk->known != NULL; i++)
		bulk->known(bulk->known_arg, bulk->hashes[i]);
}

static void
Flush(LiveBulk *bulk)
{
	CHECK_FOR_INTERRUPTS();
	if (bulk->aged)
		SortByAge(bulk);
	if (bulk->count > 0 && (bulk->count <= FEW_KEYS || !FillPage(bulk)))
		AddToPage(bulk);
	if (bulk->count > 0)
		WarnLiveEarly(*bulk->filter);
	bulk->count = 0;
	bulk->aged = false;
	bulk->left_out = 0;
	bulk->in_line = 0;
}

/* ---- a load ---------------------------------------------------------------------------- */

LiveBulk *
StartLiveBulk(const LiveFilter &filter, void (*known)(void *arg, uint64 hash), void *known_arg)
{
	LiveBulk *bulk = (LiveBulk *) palloc0(sizeof(LiveBulk));

	Assert(!RecoveryInProgress());
	bulk->filter = &filter;
	bulk->generation =
		filter.parameters.ttl == 0 ? 0 : Max(LiveGenerationNow(filter), LiveClock(filter));
	bulk->own = WideXid(GetCurrentTransactionId());
	bulk->known = known;
	bulk->known_arg = known_arg;
	bulk->hashes = (uint64 *) palloc(sizeof(uint64) * MOST_WAITING);
	bulk->ages = (uint32 *) palloc(sizeof(uint32) * MOST_WAITING);
	bulk->sorted = (uint64 *) palloc(sizeof(uint64) * MOST_WAITING);
	bulk->waits = (uint64 *) palloc(sizeof(uint64) * MOST_WAITING);
	bulk->addresses = (Address *) palloc(sizeof(Address) * MOST_WAITING);
	return bulk;
}

void
AddToLiveBulk(LiveBulk *bulk, uint64 hash, uint32 age)
{
	const Address address = AddressIn(*bulk->filter, hash);
	const Geometry &geometry = bulk->filter->parameters.geometry;
	const bool same_page = bulk->count > 0 && (BlockNumber) address.group == bulk->block;

	Assert(bulk->count == 0 || hash > bulk->hashes[bulk->count - 1]);
	if (!same_page || bulk->count == MOST_WAITING)
		Flush(bulk);
	bulk->block = (BlockNumber) address.group;
	if (bulk->count == 0 || address.line != bulk->line)
	{
		bulk->line = address.line;
		bulk->in_line = 0;
	}
	if (geometry.forgets && bulk->in_line == geometry.layout.usable())
	{
		bulk->left_out++;
		return;
	}
	bulk->in_line++;
	bulk->aged = bulk->aged || (bulk->count > 0 && age != bulk->ages[0]);
	bulk->hashes[bulk->count] = hash;
	bulk->ages[bulk->count++] = age;
}

void
FinishLiveBulk(LiveBulk *bulk)
{
	Flush(bulk);
	if (bulk->added > 0)
		CountLive(*bulk->filter, LiveCounter::New, bulk->added);
}
