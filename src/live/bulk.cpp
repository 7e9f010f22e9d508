/*
 * Adds many keys to a live filter at once.
 *
 * The keys come in the order of their pages and, unless the filter grows, of their lines. So the
 * keys of a page come together. If the page is empty, they are written into its lines at once, in
 * one WAL record, and this transaction becomes the page's loader: if it aborts, the lines are empty
 * again, as after a COPY (restore.cpp). Keys that find their line full become entries of the page
 * or its chain. If the page is not empty, or gets so few keys that they fit its area of entries
 * permanently, the keys are added as entries: these cause almost no false positives.
 *
 * If the transaction aborts and the lines are empty again, so is their clock. So a page is not
 * written as a whole if its clock is needed to know which keys have expired.
 *
 * A line keeps its keys in the order of their arrival. So the keys of a line are sorted by age
 * before they are added. Keys of one age stay in the order of their hashes. In a set, the keys that
 * find their line full are the youngest ones.
 */
#include <algorithm>

#include "live/bulk.hpp"
#include "live/keys.hpp"

using namespace dedup::live;

/* This is more than the slots of any page. A set adds no more keys than this to a page at once. */
constexpr int MOST_WAITING = 16384;

/* This many entries remain entries: settling moves them into lines if there are more. */
constexpr int FEW_KEYS = (int) (kMainArea.lines * kEntriesPerLine / 2);

bool
LinesEmpty(const LiveFilter &filter, const uint8_t *main)
{
	for (unsigned line = 0; line < kLines; line++)
		if (KeysInLine(LineAt(main, line), LinesOf(filter, main)) != 0)
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

/*
 * Sorts waiting keys of several ages by line, age and hash. In a filter that grows, where the keys
 * of a line are not together, sorts them by age.
 */
static void
SortByAge(LiveBulk *bulk)
{
	uint64 *order = bulk->waits;
	int from = 0;

	if (Grows(*bulk->filter))
	{
		for (; from < bulk->count; from++)
			order[from] = (uint64) bulk->ages[from] << 32 | (uint32) from;
		std::sort(order, order + bulk->count);
	}
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
	{
		bulk->sorted[i] = bulk->hashes[(uint32) order[i]];
		bulk->ages[i] = (uint32) (order[i] >> 32);
	}
	std::swap(bulk->hashes, bulk->sorted);
}

/*
 * Puts the waiting keys into the lines of an empty page, in a scratch copy. Keys whose line is full
 * remain in `addresses`, with their generations in `sorted`. Returns how many remain.
 */
static int
FillLines(LiveBulk *bulk, uint8_t *scratch)
{
	const LineLayout layout = LinesOf(*bulk->filter, scratch);
	const bool forgets = bulk->filter->parameters.geometry.forgets;
	const bool is_set = !forgets && !layout.timed;
	const uint32 clock = layout.timed ? Max(bulk->generation, ClockOf(scratch)) : 0;
	int left = 0;

	for (int i = 0; i < bulk->count; i++)
	{
		const Address address = AddressIn(*bulk->filter, bulk->hashes[i]);
		uint8_t *line = LineAt(scratch, address.line);

		if (bulk->by_time)
		{
			if (!Alive(bulk->ages[i], clock))
				continue;
			if (!forgets && IsFullLine(line, layout) &&
				!LineHolds(line, layout, address.rest, clock, clock))
			{
				bulk->sorted[left] = bulk->ages[i];
				bulk->addresses[left++] = address;
				continue;
			}
			bulk->added += !LineHolds(line, layout, address.rest, clock, clock);
			bulk->early += AddSightToLine(line, layout, address.rest, bulk->ages[i], clock);
			continue;
		}
		if (is_set)
		{
			const Once once = AddOnceToLine(line, layout, address.rest);

			bulk->added += once == Once::kAdded;
			if (once != Once::kFull)
				continue;
			bulk->sorted[left] = bulk->generation;
			bulk->addresses[left++] = address;
			continue;
		}
		if (LineHolds(line, layout, address.rest, clock, clock))
			continue;
		/* In a window that grows, a key is not dropped either. */
		if (!forgets && IsFullLine(line, layout))
		{
			bulk->sorted[left] = bulk->generation;
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
		SetEarly(scratch, EarlyOf(scratch) + bulk->left_out + bulk->early);
	}
	return left;
}

/* Puts keys into a page as entries, grouped by generation. */
static void
PutFresh(LiveBulk *bulk, const HeldPage &main, int fresh)
{
	Address *addresses = bulk->addresses;
	uint64 *generations = bulk->sorted;

	for (int from = 0; from < fresh;)
	{
		const uint32 generation = (uint32) generations[from];
		int to = from;

		for (int i = from; i < fresh; i++)
			if (generations[i] == generation)
			{
				std::swap(addresses[i], addresses[to]);
				std::swap(generations[i], generations[to++]);
			}
		PutKeys(*bulk->filter, main, {bulk->own, generation}, addresses + from, to - from);
		from = to;
	}
}

/* Returns whether keys can be written into the lines of a main page as a whole. */
static bool
CanFill(const LiveBulk *bulk, const uint8_t *main)
{
	if (!bulk->filter->parameters.geometry.layout.timed)
		return IsEmptyPage(*bulk->filter, main);
	/* These are more keys of the page that this load has begun. */
	if (bulk->by_time && LoaderOf(main) == bulk->own && NextOf(main) == 0 &&
		CountEntries(main, kMainArea) == 0)
		return true;
	return ClockOf(main) == 0 && IsEmptyPage(*bulk->filter, main);
}

/* Locks the page of the waiting keys. Returns whether it was never written. */
static bool
HoldToFill(const LiveBulk *bulk, HeldPage *main, uint32 *number)
{
	*number = bulk->page;
	return Grows(*bulk->filter)
			   ? HoldGrownPageToFill(*bulk->filter, AddressIn(*bulk->filter, bulk->hashes[0]), main,
									 number)
			   : HoldPageToFill(*bulk->filter, bulk->page, main);
}

static void
InitToFill(const LiveFilter &filter, uint32 number, BlockNumber block, uint8_t *scratch)
{
	if (Grows(filter))
		InitGivenPage(filter, number, block, scratch);
	else
		InitPage(scratch, Kind::kMain, block, filter.parameters.geometry.layout, 0);
}

/* Returns whether all waiting keys belong to a page, which may have split since they came. */
static bool
HasAll(const LiveBulk *bulk, const uint8_t *main)
{
	for (int i = 0; i < bulk->count; i++)
		if (!HasKey(*bulk->filter, main, AddressIn(*bulk->filter, bulk->hashes[i])))
			return false;
	return true;
}

/* Writes the waiting keys into their page as a whole. Returns false if the page is not empty. */
static bool
FillPage(LiveBulk *bulk)
{
	const LiveFilter &filter = *bulk->filter;
	PGAlignedBlock block;
	uint8_t *scratch = (uint8_t *) block.data;
	HeldPage main;
	uint32 number;
	const bool fresh = HoldToFill(bulk, &main, &number);
	int left;

	if (!fresh && !CanFill(bulk, main.bytes))
	{
		/* It may hold only keys that were rolled back. */
		SettlePage(filter, main, false);
		if (!CanFill(bulk, main.bytes))
		{
			ReleasePage(main);
			return false;
		}
	}
	if (fresh)
		InitToFill(filter, number, main.block, scratch);
	else
		memcpy(scratch, main.bytes, BLCKSZ);
	if (!HasAll(bulk, scratch))
	{
		ReleasePage(main);
		return false;
	}
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
		PutFresh(bulk, main, left);
	bulk->added += left;
	ReleasePage(main);
	NoteLiveGeneration(filter, bulk->generation);
	if (bulk->left_out + bulk->early > 0 && filter.parameters.ttl != 0)
		NoteLiveEarly(filter, bulk->left_out + bulk->early);
	return true;
}

static int
CompareHashes(const void *left, const void *right)
{
	const uint64 a = *(const uint64 *) left;
	const uint64 b = *(const uint64 *) right;

	return a < b ? -1 : a > b;
}

/* Adds a key that another transaction had in flight. Returns whether it was new. */
static bool
AddAwaited(LiveBulk *bulk, uint64 hash, uint32 generation)
{
	const LiveFilter &filter = *bulk->filter;
	uint32 put;

	if (!bulk->by_time)
		return LiveTestAndAdd(filter, hash, bulk->generation) == LiveAnswer::New;
	while (LivePutKey(filter, hash, generation, &put) == LivePut::Waited)
		CHECK_FOR_INTERRUPTS();
	return false;
}

/* Moves the waiting keys that do not belong to a page to the end. Returns how many do belong. */
static int
TakeHeld(LiveBulk *bulk, const uint8_t *main)
{
	int count = 0;

	for (int i = 0; i < bulk->count; i++)
		if (HasKey(*bulk->filter, main, AddressIn(*bulk->filter, bulk->hashes[i])))
		{
			std::swap(bulk->hashes[count], bulk->hashes[i]);
			std::swap(bulk->ages[count++], bulk->ages[i]);
		}
	return count;
}

/*
 * Adds the first waiting keys to their page as entries. Keys that other transactions have in flight
 * come last, one by one, when the page is not locked any more. Returns how many were added: all,
 * unless the page has split.
 */
static int
AddToPage(LiveBulk *bulk)
{
	const LiveFilter &filter = *bulk->filter;
	HeldPage main;
	int count;
	uint32 now;
	int fresh = 0;
	int waits = 0;
	int known = 0;
	int renewed = 0;

	HoldPageOfKey(filter, AddressIn(filter, bulk->hashes[0]), &main);
	count = Grows(filter) ? TakeHeld(bulk, main.bytes) : bulk->count;
	now = filter.parameters.ttl == 0 ? 0 : Max(bulk->generation, ClockOf(main.bytes));
	for (int i = 0; i < count; i++)
	{
		const Address address = AddressIn(filter, bulk->hashes[i]);
		const uint32 generation = bulk->by_time ? bulk->ages[i] : now;
		const KeyState state = StateOfKey(filter, main, address, generation);
		const bool renews = state == KeyState::Present &&
							(bulk->by_time || filter.parameters.renew) &&
							LastSight(filter, main, address, generation) < generation;

		if (state == KeyState::Absent || renews)
		{
			bulk->sorted[fresh] = generation;
			bulk->addresses[fresh++] = address;
		}
		if (state == KeyState::Present)
			bulk->hashes[known++] = bulk->hashes[i];
		else if (state == KeyState::Waits)
		{
			bulk->ages[waits] = generation;
			bulk->waits[waits++] = bulk->hashes[i];
		}
		renewed += renews;
	}
	PutFresh(bulk, main, fresh);
	ReleasePage(main);
	bulk->added += fresh - renewed;
	if (renewed > 0 && filter.parameters.renew)
		CountLive(filter, LiveCounter::Renewed, renewed);
	if (fresh > 0)
		NoteLiveGeneration(filter, now);
	for (int i = 0; i < waits; i++)
		if (AddAwaited(bulk, bulk->waits[i], bulk->ages[i]))
			bulk->added++;
		else
			bulk->hashes[known++] = bulk->waits[i];
	/* They are reported in their order. */
	if (waits > 0)
		qsort(bulk->hashes, (size_t) known, sizeof(uint64), CompareHashes);
	for (int i = 0; i < known && bulk->known != NULL; i++)
		bulk->known(bulk->known_arg, bulk->hashes[i]);
	return count;
}

/* Adds the waiting keys as entries. */
static void
AddWaiting(LiveBulk *bulk)
{
	uint64 *hashes = bulk->hashes;
	uint32 *ages = bulk->ages;
	const int count = bulk->count;

	for (int done = 0; done < count; done += AddToPage(bulk))
	{
		CHECK_FOR_INTERRUPTS();
		bulk->hashes = hashes + done;
		bulk->ages = ages + done;
		bulk->count = count - done;
	}
	bulk->hashes = hashes;
	bulk->ages = ages;
	bulk->count = count;
}

static void
Flush(LiveBulk *bulk)
{
	CHECK_FOR_INTERRUPTS();
	if (bulk->aged)
		SortByAge(bulk);
	if (bulk->count > 0 && (bulk->count <= FEW_KEYS || !FillPage(bulk)))
		AddWaiting(bulk);
	SplitIfWanted(*bulk->filter);
	if (bulk->count > 0)
		WarnLiveEarly(*bulk->filter);
	bulk->count = 0;
	bulk->aged = false;
	bulk->left_out = 0;
	bulk->early = 0;
	bulk->in_line = 0;
}

/* ---- a load ---------------------------------------------------------------------------- */

LiveBulk *
StartLiveBulk(const LiveFilter &filter, uint64 keys, uint32 newest,
			  void (*known)(void *arg, uint64 hash), void *known_arg)
{
	LiveBulk *bulk = (LiveBulk *) palloc0(sizeof(LiveBulk));

	Assert(!RecoveryInProgress() && (newest == 0 || filter.parameters.ttl != 0));
	bulk->filter = &filter;
	bulk->by_time = newest != 0;
	if (filter.parameters.ttl != 0)
		bulk->generation =
			Max(bulk->by_time ? newest : LiveGenerationNow(filter), LiveClock(filter));
	bulk->own = WideXid(GetCurrentTransactionId());
	PresizeLive(filter, keys);
	bulk->pages = GuessPages(filter);
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
	const uint32 page = PageIn(*bulk->filter, bulk->pages, address);
	const bool same_page = bulk->count > 0 && page == bulk->page;

	Assert(bulk->count == 0 || LoadOrderOf(*bulk->filter, hash) >
								   LoadOrderOf(*bulk->filter, bulk->hashes[bulk->count - 1]));
	if (!same_page || bulk->count == MOST_WAITING)
		Flush(bulk);
	bulk->page = page;
	if (bulk->count == 0 || address.line != bulk->line)
	{
		bulk->line = address.line;
		bulk->in_line = 0;
	}
	/* By generation, the oldest keys are dropped. */
	if (geometry.forgets && !bulk->by_time && bulk->in_line == geometry.layout.usable())
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
