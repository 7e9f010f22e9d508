/*
 * Buffers and WAL of live filters: the common part of keys.cpp, counters.cpp and the access method.
 * live.hpp has the rules for locks and errors.
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
 * Checks the checksum and the LSN of a page. Returns what is wrong, or null. The page must be
 * locked, at least shared, and not new. A damaged page is marked in memory.
 */
extern const char *LivePageFlaw(const LiveFilter &filter, uint8_t *bytes, BlockNumber block);

/* Does the same for the words of a page of counters (counters.cpp). */
extern const char *LiveCountersFlaw(const uint8_t *page);

/* Does the same for the words that say whether the filter covers its table (cover.cpp). */
extern const char *LiveCoverFlaw(const uint8_t *page);

/* Returns whether a page is a free overflow page, and not damaged. */
extern bool LiveIsFreePage(const LiveFilter &filter, uint8_t *bytes, BlockNumber block);

/*
 * Pins, locks and checks a page: the header, and the checksum if the page was read from disk or
 * this backend uses it for the first time. Returns false, with nothing held, for a page that does
 * not exist yet or was never written: such a page is empty.
 */
extern bool HoldPage(const LiveFilter &filter, BlockNumber block, dedup::live::Kind kind, int lock,
					 HeldPage *held);
extern void ReleasePage(const HeldPage &held);

/* The same for a page of a chain: an overflow page or a fan. */
extern bool HoldPageOfChain(const LiveFilter &filter, BlockNumber block, int lock, HeldPage *held);

#ifdef USE_ASSERT_CHECKING
/* Returns whether this backend has locked a page; `exclusive`: in exclusive mode. */
extern bool IsHeld(const HeldPage &held, bool exclusive);
#endif

/* Returns whether a main page may have keys in its lines; see LeaveLinesOut() in pages.cpp. */
static inline bool
MayHaveLines(const uint8_t *main)
{
	return ((const PageHeaderData *) main)->pd_lower == BLCKSZ;
}

/* Returns whether a filter grows. Its pages split, and their blocks are in a map (map.cpp). */
static inline bool
Grows(const LiveFilter &filter)
{
	return filter.parameters.geometry.layout.grows;
}

/* Returns the block of the page of counters. If the filter grows, it is the first block. */
static inline BlockNumber
CountersBlock(const LiveFilter &filter)
{
	return filter.parameters.geometry.pages;
}

/* Returns where the last buffer of a block is stored, or null. */
static inline Buffer *
RecentBuffer(const LiveFilter &filter, BlockNumber block)
{
	CachedLive *cached = (CachedLive *) filter.rel->rd_amcache;

	return cached == NULL ? NULL : &cached->recent[block & cached->recent_mask];
}

/*
 * Prefetches the memory that a test-and-add of a key reads in its page, so that the cache misses
 * overlap.
 */
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

/* In a filter that grows: the block of the root, and that of main page 0. */
constexpr BlockNumber kRootBlock = 1;
constexpr BlockNumber kFirstMainBlock = 2;

/* Returns the last block whose use never changes. A shorter file is an empty filter. */
static inline BlockNumber
LastFixedBlock(const LiveFilter &filter)
{
	return Grows(filter) ? kFirstMainBlock : CountersBlock(filter);
}

/* Returns the layout of the lines of a main page. */
static inline dedup::live::LineLayout
LinesOf(const LiveFilter &filter, const uint8_t *main)
{
	return dedup::live::LayoutIn(main, filter.parameters.geometry.layout);
}

/* ---- changing ------------------------------------------------------------- */

/*
 * Does the same as HoldPage() for a page that will be changed. The file is extended first, if
 * needed, and an empty page is initialised (and WAL-logged).
 */
extern void HoldPageToChange(const LiveFilter &filter, BlockNumber block, dedup::live::Kind kind,
							 HeldPage *held);

/*
 * Does the same for a main page that will be written as a whole. Returns true for a page that was
 * never written. Such a page is not initialised: the caller calls MakeNewPage() or releases the
 * page.
 */
extern bool HoldPageToFill(const LiveFilter &filter, BlockNumber block, HeldPage *held);

/*
 * Does the same for the main page of a key. Prefetches what its lookup reads while the page is
 * being locked.
 */
extern void HoldPageOfKey(const LiveFilter &filter, const dedup::live::Address &address,
						  HeldPage *held);

/*
 * Locks the main page of a key in shared mode. Returns false, with nothing held, if the page is
 * empty.
 */
extern bool HoldPageToRead(const LiveFilter &filter, const dedup::live::Address &address,
						   HeldPage *held);

/*
 * Pins and locks the main pages of some keys to be changed. The caller names the keys in the order
 * of the pages' blocks, with one key for each page. No page is locked while another is read from
 * disk. Not for filters that grow.
 */
extern void HoldPagesOfKeys(const LiveFilter &filter, const dedup::live::Address *keys, int count,
							HeldPage *held);

/*
 * Returns what FetchHint() prefetches for a key, if its page is in the same buffer as the last
 * time.
 */
extern LiveHint HintOfPage(const LiveFilter &filter, const dedup::live::Address &address);

/* The most pages of one change: as many as the server's replay can hold. */
constexpr int kMostChanged = 4;

/*
 * A change of up to kMostChanged pages. It is collected first, and then made and WAL-logged in one
 * critical section. Only one change is collected at a time. Replay on a standby locks the pages in
 * the order in which they are named here, and holds them all. So this order must be that of the
 * locks, with the main page first; otherwise replay and a reader could deadlock. Several main pages
 * are named in the order of their blocks.
 */
extern void StartChange(void);
/* The page does not change, but replay locks it with the others. */
extern void ChangeWith(const HeldPage &held);
/*
 * Writes `size` bytes at `offset`. Until MakeChange() the words of 8 bytes that contain them must
 * not be changed otherwise, neither in the page nor by this change.
 */
extern void ChangeBytes(const HeldPage &held, size_t offset, const void *bytes, size_t size);
/* Does the same for one byte. */
extern void ChangeByte(const HeldPage &held, size_t offset, uint8_t byte);
/* Does the same for whole words, each at its own offset. */
extern void ChangeWords(const HeldPage &held, const uint16 *offsets, const uint64 *words,
						int count);
/* Makes the page a copy of `scratch`, which must stay valid until MakeChange(). */
extern void ChangeToScratch(const HeldPage &held, const uint8_t *scratch);
/* Logs an image of the whole page, whatever changes. For new pages. */
extern void LogWhole(const HeldPage &held);
extern void MakeChange(const LiveFilter &filter);

/* Makes a new page, held by HoldPageToFill(), a copy of `scratch`. Logs the page once. */
extern void MakeNewPage(const LiveFilter &filter, const HeldPage &held, const uint8_t *scratch);

/* Holds a new page, or a free one, in exclusive mode. The caller may hold a main page. */
extern void HoldNewPage(const LiveFilter &filter, HeldPage *held);

/* Extends the file by `count` zero pages. Not WAL-logged. Returns the first new block. */
extern BlockNumber LengthenFile(const LiveFilter &filter, BlockNumber count);

/* Records that an overflow page is free again. The caller must not lock it. */
extern void RecordFreeOverflowPage(const LiveFilter &filter, BlockNumber block);

/* ---- pages of filters that grow (map.cpp) --------------------------------- */

/*
 * Locks the main page with this number. A page that was never written is empty; for such a page,
 * returns false, with nothing held, unless it must be made (`make`), with an exclusive lock. In a
 * filter that does not grow, the number is the block.
 */
extern bool HoldNumbered(const LiveFilter &filter, uint32 number, int lock, bool make,
						 HeldPage *held);

/* Does the same for the page of a key. For HoldPageOfKey() and HoldPageToRead(). */
extern bool HoldGrownPage(const LiveFilter &filter, const dedup::live::Address &address, int lock,
						  bool make, HeldPage *held);

/*
 * Does HoldPageToFill() for the page of a key. `number` receives its number. A page that was never
 * written is made by InitGivenPage() in a scratch copy, and MakeNewPage().
 */
extern bool HoldGrownPageToFill(const LiveFilter &filter, const dedup::live::Address &address,
								HeldPage *held, uint32 *number);
extern void InitGivenPage(const LiveFilter &filter, uint32 number, BlockNumber block,
						  uint8_t *bytes);

/* Returns the block of a key's page as far as this backend knows, or 0. */
extern BlockNumber GuessGrownPage(const LiveFilter &filter, const dedup::live::Address &address);

/* Returns the number of pages as far as this backend knows. It may have grown since. */
extern uint32 GuessPages(const LiveFilter &filter);

/*
 * Does HoldPagesOfKeys() for pages by their numbers. `order` receives the pages in the order of
 * their blocks. Returns false, with nothing held, if this backend did not know where they are.
 */
extern bool HoldGrownPages(const LiveFilter &filter, const uint32 *numbers, int count,
						   HeldPage *held, int *order);

/* Drops the cached places of pages. */
extern void ForgetMap(const LiveFilter &filter);

/* Caches the place of a new page. */
extern void NotePage(const LiveFilter &filter, uint32 number, BlockNumber block);

/* The contents of the root: the number of pages, and the block of a map page, or 0. */
struct RootView
{
	uint32 pages;
	BlockNumber map;
};
extern RootView ReadRoot(const LiveFilter &filter, uint32 map);

/* Locks, in exclusive mode, a block that the map has allocated. It may not be written yet. */
extern void HoldGivenPage(const LiveFilter &filter, BlockNumber block, HeldPage *held);

/*
 * Returns the block of the map page for a main page, and makes the map page if there is none. The
 * caller must hold the server's lock of page kRootBlock, and no page.
 */
extern BlockNumber MapPageFor(const LiveFilter &filter, uint32 number);

/* The block of a main page as the map says now, or 0 if it was not given out. */
extern BlockNumber MappedBlock(const LiveFilter &filter, uint32 number);

/* The number of main pages. A split that a crash has interrupted may not be counted yet. */
extern uint32 CountPages(const LiveFilter &filter);

/*
 * A walk over all main pages. It follows the splits that happen after its start, so that it sees
 * each key exactly once. The pages are those at the start, and each is followed by the pages that
 * have split off it since.
 */
struct PageWalk
{
	const LiveFilter *filter;
	uint32 pages; /* number of pages when the walk began */
	uint32 next;
	int waiting; /* pages that have split off; the last one is first */
	struct
	{
		uint32 number;
		unsigned level; /* the level of the pages at the start */
	} split[dedup::live::kMostLevels + 1];
};
extern void StartPageWalk(const LiveFilter &filter, PageWalk *walk);

/* Locks the next page. Skips pages that were never written. Returns false after the last page. */
extern bool HoldNextPage(PageWalk *walk, int lock, HeldPage *held);

/*
 * Gives a filter that grows the pages for `keys` more keys beforehand (presize.cpp). No page may be
 * locked.
 */
extern void PresizeLive(const LiveFilter &filter, uint64 keys);

/*
 * Makes a filter that grows one with so many pages at least. Those without keys are not given
 * out. No page may be locked.
 */
extern void PresizePages(const LiveFilter &filter, uint32 pages);

/* ---- splitting (split.cpp) -------------------------------------------------- */

/* The filter that needs a split, and its number of keys, estimated from one of its pages. */
struct WantedSplit
{
	Oid relid;
	double keys;
};
extern WantedSplit live_wanted_split;

/* Called if a held, settled main page has no room. Checks whether the filter has too few pages. */
extern void CountToSplit(const LiveFilter &filter, const HeldPage &main);

/*
 * Splits pages until there are so many. New pages without keys are not given out. Called with no
 * page locked.
 */
extern void SplitUpTo(const LiveFilter &filter, uint32 pages);

/* Splits pages until the filter has enough of them for `keys` more keys. */
extern void SplitFor(const LiveFilter &filter, uint64 keys);

/* Splits pages until the filter has enough of them for `wanted` keys in total. */
extern void SplitForAll(const LiveFilter &filter, double wanted);

/* The keys of a held page and its chain, those in flight included, or `enough`, if they are more.
 */
extern unsigned CountKeys(const LiveFilter &filter, const HeldPage &main,
						  unsigned enough = PG_UINT32_MAX);

/* Splits a page if the filter needs that. No page may be locked. */
extern void SplitWanted(const LiveFilter &filter);
static inline void
SplitIfWanted(const LiveFilter &filter)
{
	if (unlikely(live_wanted_split.relid != InvalidOid))
		SplitWanted(filter);
}

/* ---- transactions --------------------------------------------------------- */

/* Returns a recent transaction id with its epoch. */
extern uint64 WideXid(TransactionId xid);

/* The ids that were possible at the last lookup: from `live_xids_from` to before `live_xids_to`. */
extern uint64 live_xids_from;
extern uint64 live_xids_to;
extern bool LookUpPossibleXids(uint64 xid);

/*
 * Returns whether a transaction that a page names can exist: it is not newer than the newest one,
 * and not so old that the server does not know its commit status any more.
 */
static inline bool
IsPossibleXid(uint64 xid)
{
	return (xid >= live_xids_from && xid < live_xids_to) || xid == dedup::live::kFrozen ||
		   LookUpPossibleXids(xid);
}

/*
 * Raises XX001 if it cannot exist. To be called before the server is queried about a transaction.
 */
static inline void
CheckPageXid(const LiveFilter &filter, BlockNumber block, uint64 xid)
{
	if (unlikely(!IsPossibleXid(xid)))
		ReportBadPage(filter.rel, block, "It names a transaction that cannot exist.");
}

/*
 * Transactions that are known to have committed, as bits for 64 consecutive ids. So the commit log
 * is not read again for each page on which a transaction has added keys.
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
 * Returns whether the work of a transaction is committed for a snapshot (now, if that is NULL), or
 * is this transaction's own (scan.cpp).
 */
extern bool CommittedFor(const LiveFilter &filter, BlockNumber block, Snapshot snapshot,
						 uint64 wide);

/*
 * On a standby, raises 40001 if a held page does not hold the state for an old snapshot any more.
 */
extern void CheckSettledFor(const LiveFilter &filter, const uint8_t *page, Snapshot snapshot);

/*
 * For an ended subtransaction of this transaction: returns the nearest enclosing one that is still
 * running, which owns its keys now. For any other id, returns the id.
 */
extern uint64 HeirOf(uint64 xid);

/* Returns what settling may do with a tag of a page. */
extern dedup::live::Verdict JudgeXid(const LiveFilter &filter, BlockNumber block, uint64 xid);

/*
 * Returns an id such that every committed transaction before it is known to be visible to every
 * snapshot of a filter. It saves most of the calls of JudgeXid() for many ids.
 */
extern uint64 SeenByAllBefore(const LiveFilter &filter);

/* Does JudgeXid(); `before` is SeenByAllBefore(). */
static inline dedup::live::Verdict
JudgeXid(const LiveFilter &filter, BlockNumber block, uint64 xid, uint64 before)
{
	if (xid < before && IsKnownCommitted(xid) && IsPossibleXid(xid))
		return dedup::live::Verdict::kCommitted;
	return JudgeXid(filter, block, xid);
}

/*
 * Settles a main page that the caller holds in exclusive mode, and its chain. Pages of the chain
 * that become empty are freed. `fold`: committed keys go into their lines; else this is done only
 * if the area is more than half full. Returns whether anything changed.
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
 * Puts an entry into a page or its chain. If `scratch` is not null, it is a changed copy of the
 * main page that is logged together with the entry.
 */
extern void PutKey(const LiveFilter &filter, const HeldPage &main, uint8_t *scratch,
				   const dedup::live::Tag &tag, unsigned line, uint64 rest, bool forgotten);

/*
 * Moves an entry from `from`, an overflow page that the caller holds in exclusive mode, to another
 * page of the same chain. `copy` is `from` without the entry.
 */
extern void MoveKey(const LiveFilter &filter, const HeldPage &main, const HeldPage &from,
					const uint8_t *copy, const dedup::live::Tag &tag, unsigned line, uint64 rest,
					bool forgotten);

/* Does PutKey() for several keys, all different and new to the page. Changes the list. */
extern void PutKeys(const LiveFilter &filter, const HeldPage &main, const dedup::live::Tag &tag,
					dedup::live::Address *keys, int count);

/* The number of entries for which NewEntries has room. */
constexpr int kMostNewEntries = 256;

/* Entries of one tag that a held page gets in one change. They are collected first. */
struct NewEntries
{
	HeldPage page;
	const dedup::live::AreaShape *area;
	dedup::live::Tag tag;
	dedup::live::TagChoice choice;
	uint8_t turn; /* the page's turn after the last entry */
	int count;
	uint16 places[kMostNewEntries];
	uint64 taken[dedup::live::kMaxEntries / 64 + 1]; /* a bit for each place of the page */
	uint64 packed[dedup::live::kMaxEntries];         /* indexed by place */
};

enum class EntryAdded
{
	Yes,
	Before, /* the key was added to these entries before */
	NoRoom
};

/* `is_new`: the page has no tag with these contents. */
extern void StartEntries(NewEntries *entries, const HeldPage &page, const dedup::live::Tag &tag,
						 bool is_new = false);

/* Collects one more entry. Changes nothing, unless the result is Yes. */
extern EntryAdded AddEntry(NewEntries *entries, unsigned line, uint64 rest, bool forgotten);

/* Adds the collected entries, at least one, to the current change. */
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

/*
 * Returns whether the chains of a filter get fans. The chains of windows that forget have only keys
 * in flight.
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
