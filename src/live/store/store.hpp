/*
 * Buffers and WAL of live filters: what keys.cpp, counters.cpp and the access method
 * share. See live.hpp for the rules on locks and errors.
 */
#ifndef STREAMDEDUP_LIVE_STORE_HPP
#define STREAMDEDUP_LIVE_STORE_HPP

#include "core/settling.hpp"
#include "live/live.hpp"

extern "C" {
#include "storage/bufmgr.h"
}

static_assert(BLCKSZ == dedup::live::kPageBytes, "live filters need pages of 8 kB");

/* A page that is pinned and locked. */
struct HeldPage
{
	Buffer buffer;
	BlockNumber block;
	uint8_t *bytes;
};

/* ---- reading -------------------------------------------------------------- */

[[noreturn]] extern void ReportBadPage(Relation rel, BlockNumber block, const char *flaw);

/*
 * What a look at the checksum, and at the LSN, of a page finds wrong; null if nothing. The
 * page is locked, at least shared, and not new. A damaged one is marked in memory.
 */
extern const char *LivePageFlaw(const LiveFilter &filter, uint8_t *bytes, BlockNumber block);

/* The same of the words of a page of counters (counters.cpp). */
extern const char *LiveCountersFlaw(const uint8_t *page);

/* The same of the words that say whether the filter covers its table (cover.cpp). */
extern const char *LiveCoverFlaw(const uint8_t *page);

/* Whether a page is a free overflow page, and not damaged. */
extern bool LiveIsFreePage(const LiveFilter &filter, uint8_t *bytes, BlockNumber block);

/*
 * Pins and locks a page and checks it: the header, and the checksum of a page that comes
 * from disk or that this backend meets for the first time. Returns false, with nothing held, for
 * a page that does not exist yet or was never written: it is empty.
 */
extern bool HoldPage(const LiveFilter &filter, BlockNumber block, dedup::live::Kind kind, int lock,
					 HeldPage *held);
extern void ReleasePage(const HeldPage &held);

/* The same for a page of a chain: an overflow page or a fan. */
extern bool HoldPageOfChain(const LiveFilter &filter, BlockNumber block, int lock, HeldPage *held);

#ifdef USE_ASSERT_CHECKING
/* Whether this backend has a page locked; `exclusive`: exclusively. */
extern bool IsHeld(const HeldPage &held, bool exclusive);
#endif

/* Whether a main page may have keys in its lines: see LeaveLinesOut() in pages.cpp. */
static inline bool
MayHaveLines(const uint8_t *main)
{
	return ((const PageHeaderData *) main)->pd_lower == BLCKSZ;
}

/* Whether a filter grows: its pages split, and their blocks are in a map (map.cpp). */
static inline bool
Grows(const LiveFilter &filter)
{
	return filter.parameters.geometry.layout.grows;
}

/* The block of the page of counters. The first one if the filter grows. */
static inline BlockNumber
CountersBlock(const LiveFilter &filter)
{
	return filter.parameters.geometry.pages;
}

/* Where the buffer is noted that a block was in the last time, or null. */
static inline Buffer *
RecentBuffer(const LiveFilter &filter, BlockNumber block)
{
	CachedLive *cached = (CachedLive *) filter.rel->rd_amcache;

	return cached == NULL ? NULL : &cached->recent[block & cached->recent_mask];
}

/* Fetches what a test-and-add of a key reads in its page: cache misses side by side. */
static pg_attribute_always_inline void
PrefetchKey(const uint8_t *bytes, const dedup::live::Address &address)
{
	using namespace dedup::live;

	dedup::PrefetchToWrite(bytes);
	for (size_t at = kTagsAt; at < kMainArea.lines_at; at += dedup::kLineBytes)
		dedup::PrefetchToWrite(bytes + at);
	dedup::PrefetchToWrite(bytes + kMainArea.lines_at +
						   HomeLine(kMainArea, address.line, address.rest) * dedup::kLineBytes);
	dedup::Prefetch(LineAt(bytes, address.line));
}

/* Of a filter that grows: the block of the root, and that of main page 0. */
constexpr BlockNumber kRootBlock = 1;
constexpr BlockNumber kFirstMainBlock = 2;

/* The last block that is always what it is. A file that is shorter is empty. */
static inline BlockNumber
LastFixedBlock(const LiveFilter &filter)
{
	return Grows(filter) ? kFirstMainBlock : CountersBlock(filter);
}

/* The layout of the lines of a main page. */
static inline dedup::live::LineLayout
LinesOf(const LiveFilter &filter, const uint8_t *main)
{
	return dedup::live::LayoutIn(main, filter.parameters.geometry.layout);
}

/* ---- changing ------------------------------------------------------------- */

/*
 * The same for a page that is to be changed: the file is made long enough first, and
 * an empty page is initialised (and logged).
 */
extern void HoldPageToChange(const LiveFilter &filter, BlockNumber block, dedup::live::Kind kind,
							 HeldPage *held);

/*
 * The same for a main page that is to be written as a whole. Returns true for a page that was
 * never written, which stays as it is: the caller calls MakeNewPage() or releases the page.
 */
extern bool HoldPageToFill(const LiveFilter &filter, BlockNumber block, HeldPage *held);

/* The same for the main page of a key, whose probe is fetched while it is being locked. */
extern void HoldPageOfKey(const LiveFilter &filter, const dedup::live::Address &address,
						  HeldPage *held);

/* The main page of a key, locked shared. Returns false, with nothing held, for an empty one. */
extern bool HoldPageToRead(const LiveFilter &filter, const dedup::live::Address &address,
						   HeldPage *held);

/*
 * Pins and locks the main pages of some keys to be changed, which the caller names in the order
 * of their blocks, each page once. None of them is locked while another is read from disk. Not
 * for filters that grow.
 */
extern void HoldPagesOfKeys(const LiveFilter &filter, const dedup::live::Address *keys, int count,
							HeldPage *held);

/* What FetchHint() fetches for a key, if its page is where it was the last time. */
extern LiveHint HintOfPage(const LiveFilter &filter, const dedup::live::Address &address);

/* The number of pages that one change may name: as many as the server's replay can hold. */
constexpr int kMostChanged = 4;

/*
 * A change of up to kMostChanged pages, collected first and then made and logged in one
 * critical section. Only one is being collected at a time. Replay on a standby locks
 * the pages in the order in which they are named here, and holds them all: so it must
 * be that of the locks, the main page first, or replay and a reader lock each other
 * out for ever. Several main pages are named in the order of their blocks.
 */
extern void StartChange(void);
/* Nothing of the page changes, but replay locks it with the others. */
extern void ChangeWith(const HeldPage &held);
/*
 * `size` bytes from `offset` on become `bytes`. Until MakeChange() nobody changes the words of 8
 * bytes that they are in, neither in the page nor by this change.
 */
extern void ChangeBytes(const HeldPage &held, size_t offset, const void *bytes, size_t size);
/* The same for one byte. */
extern void ChangeByte(const HeldPage &held, size_t offset, uint8_t byte);
/* The same for whole words, each at its offset. */
extern void ChangeWords(const HeldPage &held, const uint16 *offsets, const uint64 *words,
						int count);
/* The page becomes a copy of `scratch`, which must stay until MakeChange(). */
extern void ChangeToScratch(const HeldPage &held, const uint8_t *scratch);
/* The page's whole image is logged, whatever changes: for new pages. */
extern void LogWhole(const HeldPage &held);
extern void MakeChange(const LiveFilter &filter);

/* Makes a new page, held by HoldPageToFill(), a copy of `scratch`; logs it once. */
extern void MakeNewPage(const LiveFilter &filter, const HeldPage &held, const uint8_t *scratch);

/* A new page, or a free one, exclusively locked. The caller may hold a main page. */
extern void HoldNewPage(const LiveFilter &filter, HeldPage *held);

/* Adds so many zero pages to the end of the file, unlogged. Returns the first one's block. */
extern BlockNumber LengthenFile(const LiveFilter &filter, BlockNumber count);

/* Tells that an overflow page is free again; with no lock on it held. */
extern void RecordFreeOverflowPage(const LiveFilter &filter, BlockNumber block);

/* ---- pages of filters that grow (map.cpp) --------------------------------- */

/*
 * Locks the main page of a number. Returns false, with nothing held, for one that was never
 * written and so is empty, unless it is to be made (`make`), with an exclusive lock. In a filter
 * that does not grow the number is the block.
 */
extern bool HoldNumbered(const LiveFilter &filter, uint32 number, int lock, bool make,
						 HeldPage *held);

/* The same for the page of a key. For HoldPageOfKey() and HoldPageToRead(). */
extern bool HoldGrownPage(const LiveFilter &filter, const dedup::live::Address &address, int lock,
						  bool make, HeldPage *held);

/*
 * As HoldPageToFill(), for the page of a key, whose number `number` receives. One that was never
 * written is made by InitGivenPage() in a scratch copy, and MakeNewPage().
 */
extern bool HoldGrownPageToFill(const LiveFilter &filter, const dedup::live::Address &address,
								HeldPage *held, uint32 *number);
extern void InitGivenPage(const LiveFilter &filter, uint32 number, BlockNumber block,
						  uint8_t *bytes);

/* The block that the page of a key has as far as this backend knows, or 0. */
extern BlockNumber GuessGrownPage(const LiveFilter &filter, const dedup::live::Address &address);

/* The number of pages as far as this backend knows. It may have grown since. */
extern uint32 GuessPages(const LiveFilter &filter);

/*
 * As HoldPagesOfKeys(), for pages by their numbers, which `order` receives in the order of
 * their blocks. Returns false, with nothing held, if this backend did not know where they are.
 */
extern bool HoldGrownPages(const LiveFilter &filter, const uint32 *numbers, int count,
						   HeldPage *held, int *order);

/* Forgets where pages are. */
extern void ForgetMap(const LiveFilter &filter);

/* Notes where a new page is. */
extern void NotePage(const LiveFilter &filter, uint32 number, BlockNumber block);

/* What the root says: the number of pages, and the block of a map page, or 0. */
struct RootView
{
	uint32 pages;
	BlockNumber map;
};
extern RootView ReadRoot(const LiveFilter &filter, uint32 map);

/* Locks a block exclusively that the map has given out, which need not be written yet. */
extern void HoldGivenPage(const LiveFilter &filter, BlockNumber block, HeldPage *held);

/*
 * The block of the map page for a main page, which is made if there is none. Only who holds the
 * server's lock of page kRootBlock, and no page, may call it.
 */
extern BlockNumber MapPageFor(const LiveFilter &filter, uint32 number);

/* The block of a main page as the map says now, or 0 if it was not given out. */
extern BlockNumber MappedBlock(const LiveFilter &filter, uint32 number);

/* The number of main pages. A split that a crash has interrupted may not be counted yet. */
extern uint32 CountPages(const LiveFilter &filter);

/*
 * A walk over all main pages. It follows the splits that come after its beginning, so that it
 * sees each key once, wherever it is by then: the pages are those of its beginning, and each is
 * followed by those that have split off it since.
 */
struct PageWalk
{
	const LiveFilter *filter;
	uint32 pages; /* when the walk began */
	uint32 next;
	int waiting; /* pages that have split off, the last one first */
	struct
	{
		uint32 number;
		unsigned level; /* that they had at first */
	} split[dedup::live::kMostLevels + 1];
};
extern void StartPageWalk(const LiveFilter &filter, PageWalk *walk);

/*
 * Locks the next page; pages that were never written are passed over. Returns false after the
 * last one.
 */
extern bool HoldNextPage(PageWalk *walk, int lock, HeldPage *held);

/*
 * Gives a filter that grows the pages for so many more keys beforehand (presize.cpp). No page may
 * be locked.
 */
extern void PresizeLive(const LiveFilter &filter, uint64 keys);

/*
 * Makes a filter that grows one with so many pages at least. Those without keys are not given
 * out. No page may be locked.
 */
extern void PresizePages(const LiveFilter &filter, uint32 pages);

/* ---- splitting (split.cpp) -------------------------------------------------- */

/* The filter that wants a page to be split, and by the keys of some page the keys it has. */
struct WantedSplit
{
	Oid relid;
	double keys;
};
extern WantedSplit live_wanted_split;

/* Called where a held main page, settled, has no room: whether the filter has too few pages. */
extern void CountToSplit(const LiveFilter &filter, const HeldPage &main);

/*
 * Splits pages until there are so many. New pages without keys are not given out. Called with no
 * page locked.
 */
extern void SplitUpTo(const LiveFilter &filter, uint32 pages);

/* Splits pages until the filter has enough for so many more keys. */
extern void SplitFor(const LiveFilter &filter, uint64 keys);

/* Splits pages until the filter has enough for so many keys in all. */
extern void SplitForAll(const LiveFilter &filter, double wanted);

/* The keys of a held page and its chain, those in flight included, or `enough`, if they are more.
 */
extern unsigned CountKeys(const LiveFilter &filter, const HeldPage &main,
						  unsigned enough = PG_UINT32_MAX);

/* Splits a page if the filter wants that. Called with no page locked. */
extern void SplitWanted(const LiveFilter &filter);
static inline void
SplitIfWanted(const LiveFilter &filter)
{
	if (unlikely(live_wanted_split.relid != InvalidOid))
		SplitWanted(filter);
}

/* ---- transactions --------------------------------------------------------- */

/* A transaction id of the recent past with its epoch. */
extern uint64 WideXid(TransactionId xid);

/* The ids that were possible when that was looked up last: from one to before the other. */
extern uint64 live_xids_from;
extern uint64 live_xids_to;
extern bool LookUpPossibleXids(uint64 xid);

/*
 * Whether a transaction that a page names can exist: neither newer than the newest, nor
 * older than what the server still knows the end of.
 */
static inline bool
IsPossibleXid(uint64 xid)
{
	return (xid >= live_xids_from && xid < live_xids_to) || xid == dedup::live::kFrozen ||
		   LookUpPossibleXids(xid);
}

/* Raises XX001 if not. Everything that asks the server about a transaction calls it first. */
static inline void
CheckPageXid(const LiveFilter &filter, BlockNumber block, uint64 xid)
{
	if (unlikely(!IsPossibleXid(xid)))
		ReportBadPage(filter.rel, block, "It names a transaction that cannot exist.");
}

/*
 * Some transactions that are known to have committed, as bits of 64 ids in a row: the log of
 * commits is not looked up again for each page on which a transaction has added keys.
 */
struct KnownCommitted
{
	uint64 from; /* the first id, divided by 64 */
	uint64 bits;
};
constexpr unsigned kKnownCommitted = 256;
extern KnownCommitted live_committed[kKnownCommitted];

static inline bool
IsKnownCommitted(uint64 xid)
{
	const KnownCommitted *known = &live_committed[xid / 64 % kKnownCommitted];

	return known->from == xid / 64 && (known->bits >> xid % 64 & 1) != 0;
}

static inline void
NoteCommitted(uint64 xid)
{
	KnownCommitted *known = &live_committed[xid / 64 % kKnownCommitted];

	if (known->from != xid / 64)
		*known = {xid / 64, 0};
	known->bits |= (uint64) 1 << xid % 64;
}

/*
 * Whether what a transaction did is committed to a snapshot, or now if that is NULL, or is
 * this transaction's own (scan.cpp).
 */
extern bool CommittedFor(const LiveFilter &filter, BlockNumber block, Snapshot snapshot,
						 uint64 wide);

/* On a standby, 40001 if a held page no longer tells what an old snapshot sees of it. */
extern void CheckSettledFor(const LiveFilter &filter, const uint8_t *page, Snapshot snapshot);

/*
 * For a subtransaction of ours that has ended, the nearest one around it that is still
 * running, which has its keys now. For any other id the id itself.
 */
extern uint64 HeirOf(uint64 xid);

/* What settling may do with a tag of a page. */
extern dedup::live::Verdict JudgeXid(const LiveFilter &filter, BlockNumber block, uint64 xid);

/*
 * An id before which every transaction that has committed is known to be seen by every snapshot
 * of a filter. It spares those who judge many ids most of the calls of JudgeXid().
 */
extern uint64 SeenByAllBefore(const LiveFilter &filter);

/* As JudgeXid(), where `before` is SeenByAllBefore(). */
static inline dedup::live::Verdict
JudgeXid(const LiveFilter &filter, BlockNumber block, uint64 xid, uint64 before)
{
	if (xid < before && IsKnownCommitted(xid) && IsPossibleXid(xid))
		return dedup::live::Verdict::kCommitted;
	return JudgeXid(filter, block, xid);
}

/*
 * Settles a main page that the caller holds exclusively, and its chain, which gives
 * back pages that become empty. `fold`: committed keys go into their lines; else only
 * where the area is more than half full. Returns whether anything changed.
 */
extern bool SettlePage(const LiveFilter &filter, const HeldPage &main, bool fold);

/*
 * The same, but of the leaves of a fan only that of a key, and those behind it as long as nothing
 * of them is left.
 */
extern bool SettleNear(const LiveFilter &filter, const HeldPage &main, bool fold, uint64 rest);

/*
 * Settles a fan near a key. The fan stays, though it may be empty. Returns whether anything
 * changed.
 */
extern bool SettleLeaf(const LiveFilter &filter, const HeldPage &main, BlockNumber fan,
					   uint64 rest);

/* Whether some tag of a page can be settled, by one look at each. */
extern bool CanSettlePage(const LiveFilter &filter, const uint8_t *page);

/* The same of an overflow page in the chain of a main page, which is held. */
extern bool CanSettleChained(const LiveFilter &filter, const uint8_t *main, const uint8_t *page);

/*
 * Puts an entry into a page or its chain. `scratch`, if not null, holds a changed copy
 * of the main page that is logged together with it.
 */
extern void PutKey(const LiveFilter &filter, const HeldPage &main, uint8_t *scratch,
				   const dedup::live::Tag &tag, unsigned line, uint64 rest, bool forgotten);

/*
 * Puts an entry that was in `from`, an overflow page that the caller holds exclusively, into
 * another page of the same chain. `copy` is that page without the entry.
 */
extern void MoveKey(const LiveFilter &filter, const HeldPage &main, const HeldPage &from,
					const uint8_t *copy, const dedup::live::Tag &tag, unsigned line, uint64 rest,
					bool forgotten);

/* As PutKey(), for several keys, all different and new to the page. The list of them is spoilt. */
extern void PutKeys(const LiveFilter &filter, const HeldPage &main, const dedup::live::Tag &tag,
					dedup::live::Address *keys, int count);

/* The number of entries that NewEntries has room for. */
constexpr int kMostNewEntries = 256;

/* Entries of one tag that a held page is to get in one change. They are collected first. */
struct NewEntries
{
	HeldPage page;
	const dedup::live::AreaShape *area;
	dedup::live::Tag tag;
	dedup::live::TagChoice choice;
	uint8_t turn; /* behind the last one */
	int count;
	uint16 places[kMostNewEntries];
	uint64 taken[dedup::live::kMaxEntries / 64 + 1]; /* a bit for each place of the page */
	uint64 packed[dedup::live::kMaxEntries];         /* by place */
};

enum class EntryAdded
{
	Yes,
	Before, /* the key has been added to these entries already */
	NoRoom
};

/* `is_new`: the page has no tag with these contents. */
extern void StartEntries(NewEntries *entries, const HeldPage &page, const dedup::live::Tag &tag,
						 bool is_new = false);

/* Collects one more. Changes nothing, unless the answer is Yes. */
extern EntryAdded AddEntry(NewEntries *entries, unsigned line, uint64 rest, bool forgotten);

/* Adds the entries, of which there is one at least, to the change that is being collected. */
extern void ChangeEntries(const NewEntries &entries);

/* ---- chains (chain.cpp, fan.cpp) ------------------------------------------ */

/* Locks a page of a held main page's chain: an overflow page or its fan. */
extern void HoldInChain(const LiveFilter &filter, const HeldPage &main, BlockNumber block, int lock,
						HeldPage *page);

/* Locks an overflow page of a main page's chain exclusively. */
extern void HoldChained(const LiveFilter &filter, const HeldPage &main, BlockNumber block,
						HeldPage *page);

/* Locks the fan of a main page's chain. */
extern void HoldFan(const LiveFilter &filter, const HeldPage &main, BlockNumber block, int lock,
					HeldPage *fan);

/*
 * Locks a page that a walk over a chain comes to: a plain page or a fan, or (`in_fan`) a page of a
 * leaf. `steps` counts those of the walk, which must not go on for ever.
 */
extern void HoldStep(const LiveFilter &filter, const HeldPage &main, BlockNumber block, bool in_fan,
					 int lock, uint32 *steps, HeldPage *page);

/* The same. The page of a leaf must be one in which a key can be. */
extern void HoldStepOfKey(const LiveFilter &filter, const HeldPage &main, BlockNumber block,
						  bool in_fan, uint64 rest, int lock, uint32 *steps, HeldPage *page);

/* A walk over the pages of a chain in which a key can be. */
struct KeyWalk
{
	BlockNumber next; /* of the main page, or the first of a leaf if `in_fan` */
	bool in_fan;
	uint32 steps;
};

/* Locks the next page. Returns false after the last one. */
extern bool HoldNextOfKey(const LiveFilter &filter, const HeldPage &main, uint64 rest, int lock,
						  KeyWalk *walk, HeldPage *page);

/* A walk over all pages of a chain, the fan among them. */
struct ChainWalk
{
	BlockNumber next;
	uint32 steps;
	BlockNumber fan;              /* 0 until the walk comes to it */
	dedup::live::SlotRange slots; /* of the leaf at hand */
	BlockNumber leaves[dedup::live::kFanSlots];
};
extern void StartChainWalk(const HeldPage &main, ChainWalk *walk);
extern bool HoldNextInChain(const LiveFilter &filter, const HeldPage &main, int lock,
							ChainWalk *walk, HeldPage *page);

/*
 * Runs visit(page) over a held main page and the pages of its chain in which a key can be, until
 * it returns true. These are locked one at a time in `lock`.
 */
template <typename Visit>
static inline void
VisitPagesOf(const LiveFilter &filter, const HeldPage &main, uint64 rest, int lock, Visit visit)
{
	KeyWalk walk = {dedup::live::NextOf(main.bytes), false, 0};
	bool done = visit(main);
	HeldPage page;

	Assert(IsHeld(main, false));
	while (!done && HoldNextOfKey(filter, main, rest, lock, &walk, &page))
	{
		done = visit(page);
		ReleasePage(page);
	}
}

/*
 * Runs visit(page) over a held main page and all pages of its chain, until it returns true. The
 * fan, which has no tags and no entries, is one of them.
 */
template <typename Visit>
static inline void
VisitChain(const LiveFilter &filter, const HeldPage &main, int lock, Visit visit)
{
	ChainWalk walk;
	HeldPage page;

	Assert(IsHeld(main, false));
	if (visit(main) || dedup::live::NextOf(main.bytes) == 0)
		return;
	StartChainWalk(main, &walk);
	while (HoldNextInChain(filter, main, lock, &walk, &page))
	{
		const bool done = visit(page);

		ReleasePage(page);
		if (done)
			return;
	}
}

/* The plain pages of a chain, which are before its fan. */
struct PlainPages
{
	int count;
	BlockNumber before; /* the last one: the page before it */
	BlockNumber last;   /* or the main page */
	BlockNumber fan;    /* behind it, or 0 */
};
extern PlainPages PlainPagesOf(const LiveFilter &filter, const HeldPage &main);

/*
 * Takes a page without entries, or a fan without leaves, out of the chain. `before` is the page
 * before it, or the main page.
 */
extern void UnchainPage(const LiveFilter &filter, const HeldPage &main, BlockNumber before,
						BlockNumber block);

/* So many plain pages a chain has before it gets a fan. */
constexpr int kMostPlain = 2;

/* Whether the chains of a filter get fans. Those of windows that forget are only of keys in flight.
 */
static inline bool
HasFans(const LiveFilter &filter)
{
	return !filter.parameters.geometry.forgets;
}

/*
 * The fan to which entries go for which there is no room in the plain pages of a chain: it is made
 * if there are too many of these. Returns 0 if a plain page is to be added. Nobody holds a changed
 * copy of the main page.
 */
extern BlockNumber FanForMore(const LiveFilter &filter, const HeldPage &main);

/* Makes a chain with more plain pages than it should have one with a fan only. */
extern void SpreadLongChain(const LiveFilter &filter, const HeldPage &main);

/* The first page of the leaf of a key, or 0. */
extern BlockNumber LeafOf(const LiveFilter &filter, const HeldPage &main, BlockNumber fan,
						  uint64 rest);

/*
 * Gives the leaf of a key fewer slots, or, if it has only one, or is none, an empty page at its
 * head. Changes nothing in the main page. Returns whether there is an empty page now.
 */
extern bool MakeLeafRoom(const LiveFilter &filter, const HeldPage &main, BlockNumber fan,
						 uint64 rest);

#endif /* STREAMDEDUP_LIVE_STORE_HPP */
