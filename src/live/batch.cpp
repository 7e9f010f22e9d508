/*
 * Test-and-add of many keys at once.
 *
 * The keys are taken in the order of their pages, and within a page in the order of the batch. Up
 * to kMostChanged main pages are locked together, in the order of their blocks. Their keys are
 * looked up, the entries of the new ones are collected, and all of them are written in one WAL
 * record of short fragments. Nothing is copied, and a page whose keys are all known is not changed.
 *
 * AddPiece() handles pages that need more than that, one at a time: a page with a chain of overflow
 * pages, a page without room, and a page with a key that another transaction has in flight.
 */
#include <utility>

#include "core/live_method.hpp"
#include "live/keys.hpp"

using namespace dedup::live;

namespace
{

/* A batch, and how far it was processed. */
struct Batch
{
	const LiveFilter *filter;
	const uint64 *hashes;
	uint64 *order; /* the page of a key << 32 | the key's place in the batch */
	size_t n;
	/*
	 * the number of pages by which the keys were ordered; a filter that grows can have more by now
	 */
	uint32 pages;
	LiveAnswer *answers;
	uint32 generation;
	TransactionId own;
	bool own_is_new; /* the subtransaction got its id while this batch was added */
	bool added;
};

/* Consecutive keys of one page: all of its keys, or as many as fit. */
struct Piece
{
	size_t from;
	int count;
};

/* The result of trying a piece whose page is held. */
enum class Tried
{
	Done,
	NeedsId, /* it has a new key, and this subtransaction has no id yet */
	Alone    /* it must be added by AddPiece() */
};

/* The number of bits of a digit of the radix sort. */
constexpr int kDigitBits = 11;

/*
 * Fewer keys are sorted by SortFew(), which in the worst case takes time in proportion to the
 * square of their number.
 */
constexpr size_t kFewToSort = 2048;
constexpr size_t kBuckets = 256;

/* The memory that a key will read is prefetched this many keys ahead, in two halves. */
constexpr size_t kAhead = 64;

} /* namespace */

static inline BlockNumber
PageAt(const Batch &batch, size_t at)
{
	return (BlockNumber) (batch.order[at] >> 32);
}

static inline LiveAnswer *
AnswerAt(const Batch &batch, size_t at)
{
	return &batch.answers[(uint32) batch.order[at]];
}

static inline Address
AddressAt(const Batch &batch, size_t at)
{
	return AddressIn(*batch.filter, batch.hashes[(uint32) batch.order[at]]);
}

/* ---- the order ------------------------------------------------------------------------ */

/* Sorts by one digit. Keys with equal digits keep their order. */
static void
SortByDigit(const uint64 *from, uint64 *to, size_t n, int shift)
{
	constexpr uint64 mask = ((uint64) 1 << kDigitBits) - 1;
	size_t places[mask + 1] = {};
	size_t sum = 0;

	dedup::ForUnits(n, 64, [&](uint64_t begin, uint64_t end) {
		for (size_t i = begin; i < end; i++)
			places[from[i] >> shift & mask]++;
	});
	for (size_t &place : places)
	{
		const size_t count = place;

		place = sum;
		sum += count;
	}
	dedup::ForUnits(n, 2 * 64, [&](uint64_t begin, uint64_t end) {
		for (size_t i = begin; i < end; i++)
			to[places[from[i] >> shift & mask]++] = from[i];
	});
}

/*
 * Sorts a few keys. Pages come from hashes, so a key shows about where it belongs. The rest is done
 * by insertion.
 */
static void
SortFew(const uint64 *from, uint64 *to, size_t n, uint64 pages)
{
	const uint64 scale = ((uint64) kBuckets << 32) / pages;
	uint16 places[kBuckets] = {};
	uint16 sum = 0;

	for (size_t i = 0; i < n; i++)
		places[(from[i] >> 32) * scale >> 32]++;
	for (uint16 &place : places)
	{
		const uint16 count = place;

		place = sum;
		sum += count;
	}
	for (size_t i = 0; i < n; i++)
		to[places[(from[i] >> 32) * scale >> 32]++] = from[i];
	for (size_t i = 1; i < n; i++)
	{
		const uint64 value = to[i];
		size_t at = i;

		for (; at > 0 && to[at - 1] > value; at--)
			to[at] = to[at - 1];
		to[at] = value;
	}
}

/* Sorts the keys. `order` has room for two copies. */
static void
MakeOrder(Batch *batch)
{
	const uint64 pages = batch->pages;
	uint64 *order = batch->order;
	uint64 *other = order + batch->n;

	dedup::ForUnits(batch->n, 2 * 64, [&](uint64_t from, uint64_t to) {
		for (size_t i = from; i < to; i++)
			order[i] = (uint64) PageIn(*batch->filter, batch->pages,
									   AddressIn(*batch->filter, batch->hashes[i]))
						   << 32 |
					   i;
	});
	if (batch->n < kFewToSort)
	{
		SortFew(order, other, batch->n, pages);
		batch->order = other;
		return;
	}
	/* The places are in order already, and so are the places of the keys of each page. */
	for (int shift = 32; shift < 64 && (pages - 1) >> (shift - 32) != 0; shift += kDigitBits)
	{
		SortByDigit(order, other, batch->n, shift);
		std::swap(order, other);
	}
	batch->order = order;
}

/* Gives the subtransaction an id. Duplicates need no id, so this is not done earlier. */
static void
GetId(Batch *batch)
{
	batch->own = GetCurrentTransactionId();
	batch->own_is_new = true;
}

/* ---- several pages ---------------------------------------------------------------------- */

/* Returns the piece that starts with a key. */
static Piece
PieceFrom(const Batch &batch, size_t from)
{
	const size_t most = Min(batch.n, from + kMostNewEntries);
	size_t to = from + 1;

	while (to < most && PageAt(batch, to) == PageAt(batch, from))
		to++;
	return {from, (int) (to - from)};
}

/*
 * Starts the entries of a piece for a main page without a chain. Settles the page if it has no free
 * tag.
 */
static void
StartWithTag(Batch *batch, const Piece &piece, const HeldPage &main, NewEntries *entries)
{
	const Tag tag = {WideXid(batch->own), batch->generation};
	const bool is_first =
		piece.from == 0 || PageAt(*batch, piece.from - 1) != PageAt(*batch, piece.from);

	StartEntries(entries, main, tag, batch->own_is_new && is_first);
	if (entries->choice.tag != 0 || !CanSettlePage(*batch->filter, main.bytes))
		return;
	(void) SettlePage(*batch->filter, main, false);
	CountToSplit(*batch->filter, main);
	StartEntries(entries, main, tag);
}

/* Returns whether a held page has split since the keys of the batch were ordered. */
static inline bool
HasSplit(const Batch &batch, const HeldPage &main)
{
	return Grows(*batch.filter) &&
		   LevelOf(main.bytes) != LevelOfPage(NumberOf(main.bytes), batch.pages);
}

/*
 * Looks up the keys of a piece, whose page is held, and collects the entries of the new ones. If
 * the result is not Done, no key was answered.
 */
static Tried
TryPiece(Batch *batch, const Piece &piece, const HeldPage &main, NewEntries *entries, int *renewed)
{
	const LiveFilter &filter = *batch->filter;

	entries->count = 0;
	*renewed = 0;
	if (NextOf(main.bytes) != 0 || HasSplit(*batch, main))
		return Tried::Alone;
	(void) IsTooOld(filter, ClockOf(main.bytes), LiveTime::Clock, &batch->generation);
	for (size_t at = piece.from; at < piece.from + piece.count; at++)
	{
		const Address address = AddressAt(*batch, at);
		const Look look = LookAtMain(filter, main, address, batch->generation);
		LiveAnswer *answer = AnswerAt(*batch, at);

		*answer = LiveAnswer::Duplicate;
		if (look.present && !IsNewSight(filter, main, address, batch->generation))
			continue;
		if (!look.present && TransactionIdIsValid(look.wait_for))
			return Tried::Alone;
		if (!TransactionIdIsValid(batch->own))
			return Tried::NeedsId;
		if (entries->count == 0)
			StartWithTag(batch, piece, main, entries);
		switch (AddEntry(entries, address.line, address.rest, false))
		{
			case EntryAdded::Yes:
				if (look.present)
					++*renewed;
				else
					*answer = LiveAnswer::New;
				break;
			case EntryAdded::Before:
				break;
			case EntryAdded::NoRoom:
				return Tried::Alone;
		}
	}
	return Tried::Done;
}

/*
 * Locks the pages of some pieces. `order` receives the pieces in the order of their blocks, in
 * which the pages are locked and logged. Returns false, with nothing held, if the places of the
 * pages were not known.
 */
static bool
HoldPieces(const Batch &batch, const Piece *pieces, int count, HeldPage *held, int *order)
{
	Address first[kMostChanged];
	uint32 numbers[kMostChanged];

	for (int i = 0; i < count; i++)
	{
		order[i] = i;
		numbers[i] = PageAt(batch, pieces[i].from);
		first[i] = AddressAt(batch, pieces[i].from);
	}
	if (Grows(*batch.filter))
		return HoldGrownPages(*batch.filter, numbers, count, held, order);
	HoldPagesOfKeys(*batch.filter, first, count, held);
	return true;
}

static void
CountRenewed(const Batch &batch, int renewed)
{
	if (renewed > 0)
		CountLive(*batch.filter, LiveCounter::Renewed, renewed);
}

/*
 * Adds pieces of up to `most` pages from a place in the order on. Returns how many it has added. If
 * the answer is Alone, the next one must be added by AddPiece().
 */
static int
AddPieces(Batch *batch, size_t from, int most, Tried *tried, size_t *to)
{
	const LiveFilter &filter = *batch->filter;
	NewEntries entries[kMostChanged];
	HeldPage held[kMostChanged];
	Piece pieces[kMostChanged];
	int order[kMostChanged];
	int renewed[kMostChanged];
	int count = 0;
	int done = 0;
	int renewed_in_all = 0;
	bool changes = false;

	while (count < most && from < batch->n)
	{
		/* The other keys of the last page wait until that page is released. */
		if (count > 0 && PageAt(*batch, from) == PageAt(*batch, pieces[count - 1].from))
			break;
		pieces[count] = PieceFrom(*batch, from);
		from += pieces[count++].count;
	}
	if (!HoldPieces(*batch, pieces, count, held, order))
	{
		*tried = Tried::Alone;
		*to = pieces[0].from;
		return 0;
	}
	do
		*tried = TryPiece(batch, pieces[done], held[done], &entries[done], &renewed[done]);
	while (*tried == Tried::Done && ++done < count);

	StartChange();
	for (int at = 0; at < count; at++)
	{
		const int i = order[at];

		if (i >= done)
			continue;
		renewed_in_all += renewed[i];
		if (entries[i].count == 0)
			continue;
		ChangeEntries(entries[i]);
		changes = true;
	}
	if (changes)
		MakeChange(filter);
	for (int i = 0; i < count; i++)
		ReleasePage(held[i]);
	batch->added = batch->added || changes;
	CountRenewed(*batch, renewed_in_all);
	*to = done < count ? pieces[done].from : from;
	return done;
}

/* ---- one page --------------------------------------------------------------------------- */

/* Looks up some keys of a piece in a held page and its chain. */
static void
LookUpPiece(const Batch &batch, int from, int to, const HeldPage &main, const Address *addresses,
			Look *looks)
{
	const LiveFilter &filter = *batch.filter;
	BlockNumber fan = 0;

	for (int i = from; i < to; i++)
		looks[i] = LookAtMain(filter, main, addresses[i], batch.generation);
	VisitChain(filter, main, BUFFER_LOCK_SHARE, [&](const HeldPage &page) {
		if (IsFan(page.bytes))
			fan = page.block;
		for (int i = from; i < to && page.block != main.block && fan == 0; i++)
			if (!looks[i].present)
				LookAtEntries(filter, page, addresses[i], batch.generation, &looks[i]);
		return fan != 0;
	});
	for (int i = from; i < to && fan != 0; i++)
	{
		const uint64 rest = addresses[i].rest;
		KeyWalk walk = {fan, false, 0};
		HeldPage page;

		while (!looks[i].present &&
			   HoldNextOfKey(filter, main, rest, BUFFER_LOCK_SHARE, &walk, &page))
		{
			LookAtEntries(filter, page, addresses[i], batch.generation, &looks[i]);
			ReleasePage(page);
		}
	}
}

namespace
{

/* A set of the keys of one page, to find keys that come again. */
struct KeySet
{
	static constexpr unsigned kPlaces = 2 * kMostNewEntries;
	uint64 keys[kPlaces];
	bool used[kPlaces];
};

} /* namespace */

/* Adds a key to the set. Returns whether it was new there. */
static bool
IsFirst(KeySet *set, const Address &address)
{
	const uint64 key = KeyOf(address.line, address.rest);
	unsigned at = (unsigned) (address.rest % KeySet::kPlaces);

	for (; set->used[at]; at = (at + 1) % KeySet::kPlaces)
		if (set->keys[at] == key)
			return false;
	set->used[at] = true;
	set->keys[at] = key;
	return true;
}

/*
 * Moves the keys of a piece, from one on, that belong to the held page in front of those that now
 * belong to other pages. Returns where the others begin.
 */
static int
TakeHeld(Batch *batch, const Piece &piece, int from, const HeldPage &main, Address *addresses)
{
	uint64 others[kMostNewEntries];
	uint64 *order = batch->order + piece.from;
	int count = 0;
	int end = from;

	if (!Grows(*batch->filter))
		return piece.count;
	for (int i = from; i < piece.count; i++)
		if (HasKey(*batch->filter, main.bytes, addresses[i]))
			order[end++] = order[i];
		else
			others[count++] = order[i];
	memcpy(order + end, others, count * sizeof(uint64));
	for (int i = from; i < piece.count; i++)
		addresses[i] = AddressAt(*batch, piece.from + i);
	return end;
}

/* Adds the keys of a piece, in any case. */
static void
AddPiece(Batch *batch, const Piece &piece)
{
	const LiveFilter &filter = *batch->filter;
	Address addresses[kMostNewEntries];
	Address fresh[kMostNewEntries];
	Look looks[kMostNewEntries];
	int done = 0;

	for (int i = 0; i < piece.count; i++)
		addresses[i] = AddressAt(*batch, piece.from + i);
	while (done < piece.count)
	{
		TransactionId wait_for = InvalidTransactionId;
		KeySet set;
		HeldPage main;
		int fresh_count = 0;
		int renewed = 0;
		int end;
		bool needs_id = false;

		CHECK_FOR_INTERRUPTS();
		memset(set.used, 0, sizeof set.used);
		HoldPageOfKey(filter, addresses[done], &main);
		end = TakeHeld(batch, piece, done, main, addresses);
		(void) IsTooOld(filter, ClockOf(main.bytes), LiveTime::Clock, &batch->generation);
		LookUpPiece(*batch, done, end, main, addresses, looks);
		for (; done < end; done++)
		{
			const Address &address = addresses[done];
			const bool present = looks[done].present;
			LiveAnswer *answer = AnswerAt(*batch, piece.from + done);

			*answer = LiveAnswer::Duplicate;
			if (present && !IsNewSight(filter, main, address, batch->generation))
				continue;
			wait_for = present ? InvalidTransactionId : looks[done].wait_for;
			needs_id = !TransactionIdIsValid(batch->own);
			if (TransactionIdIsValid(wait_for) || needs_id)
				break;
			if (!IsFirst(&set, address))
				continue;
			fresh[fresh_count++] = address;
			if (present)
				renewed++;
			else
				*answer = LiveAnswer::New;
		}
		if (fresh_count > 0)
		{
			PutKeys(filter, main, {WideXid(batch->own), batch->generation}, fresh, fresh_count);
			batch->added = true;
		}
		ReleasePage(main);
		SplitIfWanted(filter);
		CountRenewed(*batch, renewed);
		if (TransactionIdIsValid(wait_for))
			LiveWait(wait_for);
		else if (needs_id)
			GetId(batch);
	}
}

/* ---- the batch ---------------------------------------------------------------------------- */

/*
 * Prefetches the memory that the keys behind a place will read. `fetched` keys were prefetched
 * before.
 */
static inline void
FetchAhead(const Batch &batch, size_t at, size_t *fetched)
{
	if (*fetched >= at + kAhead / 2)
		return;
	for (const size_t end = Min(batch.n, at + kAhead); *fetched < end; ++*fetched)
		FetchHint(HintOfPage(*batch.filter, AddressAt(batch, *fetched)));
}

/* Adds the keys of a batch whose pages the filter has. */
static void
AddChunk(Batch *batch)
{
	size_t fetched = 0;
	int most = kMostChanged;

	batch->pages = GuessPages(*batch->filter);
	MakeOrder(batch);
	for (size_t at = 0; at < batch->n;)
	{
		Tried tried;

		CHECK_FOR_INTERRUPTS();
		FetchAhead(*batch, at, &fetched);
		(void) AddPieces(batch, at, most, &tried, &at);
		SplitIfWanted(*batch->filter);
		most = Min(2 * most, kMostChanged);
		if (tried == Tried::NeedsId)
			GetId(batch);
		if (tried != Tried::Alone)
			continue;

		const Piece piece = PieceFrom(*batch, at);

		AddPiece(batch, piece);
		at += piece.count;
		/* The next pages of the batch are probably similar. */
		most = 1;
	}
}

/* Returns how many keys of the batch are added before the filter gets time to grow. */
static size_t
KeysAtOnce(const LiveFilter &filter)
{
	return Grows(filter)
			   ? Max((size_t) 512,
					 GuessPages(filter) * (size_t) KeysAPage(filter.parameters.geometry.layout) / 4)
			   : SIZE_MAX;
}

void
LiveTestAndAddBatch(const LiveFilter &filter, const uint64 *hashes, size_t n, uint32 generation,
					LiveAnswer *answers)
{
	uint64 *room =
		(uint64 *) MemoryContextAllocHuge(CurrentMemoryContext, sizeof(uint64) * (2 * n + 1));
	Batch batch = {&filter, hashes, room, n, 0, answers, generation, GetCurrentTransactionIdIfAny(),
				   false,   false};

	Assert(!RecoveryInProgress() && (filter.parameters.ttl != 0 || generation == 0));
	(void) IsTooOld(filter, NewestOf(filter), LiveTime::Clock, &batch.generation);
	for (size_t from = 0; from < n; from += batch.n)
	{
		batch.hashes = hashes + from;
		batch.answers = answers + from;
		batch.order = room;
		batch.n = Min(n - from, KeysAtOnce(filter));
		/* Pages have the tag from the chunk before. */
		batch.own_is_new = false;
		AddChunk(&batch);
	}
	if (batch.added)
		NoteLiveGeneration(filter, batch.generation);
	WarnLiveEarly(filter);
	pfree(room);
}
