/*
 * Buffers, file extension and overflow pages of live filters. map.cpp finds the main pages of
 * filters that grow.
 */
#include "live/store/pins.hpp"

extern "C" {
#include "access/xlog.h"
#include "storage/indexfsm.h"
#include "storage/lmgr.h"
#include "storage/smgr.h"
}

using namespace dedup::live;

/* core/page.hpp and core/page_sum.hpp expect the server's fields at these offsets. */
static_assert(SizeOfPageHeaderData == kMagicAt &&
				  offsetof(PageHeaderData, pd_prune_xid) == kSumAt &&
				  offsetof(PageHeaderData, pd_checksum) == kServerSumAt &&
				  offsetof(PageHeaderData, pd_special) == kServerSpecialAt,
			  "the header of a page has another layout");

/* ---- reading -------------------------------------------------------------- */

void
ReportBadPage(Relation rel, BlockNumber block, const char *flaw)
{
	ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED),
					errmsg("invalid page in block %u of live filter \"%s\"", block,
						   RelationGetRelationName(rel)),
					errdetail("%s", flaw),
					errhint("dedup_check() names all such pages. Restore the filter from a backup, "
							"or make it anew from the keys of its table.")));
	pg_unreachable();
}

/* Caches that the file is long enough. The server resets this flag when the file changes. */
static inline void
KnowLong(const LiveFilter &filter)
{
	Assert(RelationGetNumberOfBlocks(filter.rel) > LastFixedBlock(filter));
	/* The cached map may belong to an earlier file of the relation. */
	ForgetMap(filter);
	RelationSetTargetBlock(filter.rel, 0);
}

bool
IsLong(const LiveFilter &filter, BlockNumber block)
{
	if (KnownLong(filter) && block <= LastFixedBlock(filter))
		return true;
	if (RelationGetNumberOfBlocks(filter.rel) <= Max(block, LastFixedBlock(filter)))
		return RelationGetNumberOfBlocks(filter.rel) > block;
	if (!RecoveryInProgress() && !KnownLong(filter))
		KnowLong(filter);
	return true;
}

/*
 * Returns the end of the WAL. If the LSN of a page is newer, the LSN is damaged, and recovery would
 * skip later changes of the page. Servers before 15 do not report during recovery which record they
 * replay.
 */
static XLogRecPtr
EndOfWal(void)
{
	return RecoveryInProgress() ? END_OF_REPLAY() : GetXLogInsertRecPtr();
}

/*
 * The server keeps a damaged page in its buffer as a valid page. So the page is marked in memory,
 * and every later reader raises the error too. The mark is one byte, so a shared lock is enough.
 * The mark reaches the disk only if the page is changed, and no backend changes a damaged page.
 */
const char *
LivePageFlaw(const LiveFilter &filter, uint8_t *bytes, BlockNumber block)
{
	const char *flaw = NULL;

	/*
	 * Read the LSN before the end of the WAL. Another session with a shared lock can log the page
	 * of counters as a hint, which sets a newer LSN.
	 */
	const XLogRecPtr lsn = PageGetLSN((Page) bytes);

	if (!IsSealed(bytes, filter.parameters.shape.seed, block))
		flaw = "Its checksum does not match its contents.";
	else if (RelationNeedsWAL(filter.rel) && lsn > EndOfWal())
		flaw = "Its LSN is newer than the end of the WAL.";
	if (unlikely(flaw != NULL))
		bytes[kKindAt] |= kDamaged;
	return flaw;
}

pg_noinline void
CheckAll(const LiveFilter &filter, const HeldPage &held, Kind kind, bool read)
{
	const char *flaw = HeaderFlaw(held.bytes, kind, held.block, filter.parameters.geometry.layout);
	CachedLive *cached = (CachedLive *) filter.rel->rd_amcache;
	const bool in_cache = cached != NULL && held.block < cached->met_count;

	if (flaw == NULL && (read || in_cache || cached == NULL))
		flaw = LivePageFlaw(filter, held.bytes, held.block);
	if (flaw != NULL)
		ReportBadPage(filter.rel, held.block, flaw);
	if (in_cache)
		cached->met[held.block / 8] |= (uint8_t) (1 << held.block % 8);
}

/* Does the same as HoldPage(). The page must be of the kind kind_of(bytes). */
template <typename KindOfPage>
static inline bool
HoldWritten(const LiveFilter &filter, BlockNumber block, int lock, KindOfPage kind_of,
			HeldPage *held)
{
	bool read;

	if (!IsLong(filter, block))
		return false;
	read = PinPage(filter, block, held);
	LockBuffer(held->buffer, (BufferLock) lock);
	if (PageIsNew((Page) held->bytes))
	{
		UnlockReleaseBuffer(held->buffer);
		return false;
	}
	CheckHeld(filter, *held, kind_of(held->bytes), read);
	return true;
}

bool
HoldPage(const LiveFilter &filter, BlockNumber block, Kind kind, int lock, HeldPage *held)
{
	return HoldWritten(
		filter, block, lock, [kind](const uint8_t *) { return kind; }, held);
}

bool
HoldPageOfChain(const LiveFilter &filter, BlockNumber block, int lock, HeldPage *held)
{
	return HoldWritten(
		filter, block, lock,
		[](const uint8_t *bytes) {
			return (bytes[kKindAt] & ~kDamaged) == (uint8_t) Kind::kFan ? Kind::kFan
																		: Kind::kOverflow;
		},
		held);
}

void
ReleasePage(const HeldPage &held)
{
	UnlockReleaseBuffer(held.buffer);
}

#ifdef USE_ASSERT_CHECKING
bool
IsHeld(const HeldPage &held, bool exclusive)
{
	return held.block == BufferGetBlockNumber(held.buffer) &&
		   (exclusive ? BUFFER_IS_LOCKED_EXCLUSIVELY(held.buffer) : BUFFER_IS_LOCKED(held.buffer));
}
#endif

/* ---- pages to change -------------------------------------------------------- */

/* Adds zero pages until the file has `want` pages. The caller must hold the extension lock. */
static void
Lengthen(const LiveFilter &filter, BlockNumber have, BlockNumber want)
{
	AddZeroPages(RelationGetSmgr(filter.rel), have, want);
}

BlockNumber
LengthenFile(const LiveFilter &filter, BlockNumber count)
{
	BlockNumber first;

	LockRelationForExtension(filter.rel, ExclusiveLock);
	first = RelationGetNumberOfBlocks(filter.rel);
	Lengthen(filter, first, first + count);
	UnlockRelationForExtension(filter.rel, ExclusiveLock);
	return first;
}

void
MakeFileLong(const LiveFilter &filter)
{
	const BlockNumber want = LastFixedBlock(filter) + 1;

	if (RelationGetNumberOfBlocks(filter.rel) < want)
	{
		LockRelationForExtension(filter.rel, ExclusiveLock);
		Lengthen(filter, RelationGetNumberOfBlocks(filter.rel), want);
		UnlockRelationForExtension(filter.rel, ExclusiveLock);
	}
	KnowLong(filter);
}

void
InitHeader(uint8_t *bytes)
{
	PageHeader header = (PageHeader) bytes;

	PageInit((Page) bytes, BLCKSZ, 0);
	header->pd_lower = BLCKSZ;
	header->pd_upper = BLCKSZ;
	header->pd_special = BLCKSZ;
}

/*
 * Makes the empty lines of a new main page a hole, which page images in the WAL leave out. Lines
 * change only by ChangeToScratch(). MakeChange() ends the hole when it applies such a change.
 */
static void
LeaveLinesOut(uint8_t *bytes)
{
	((PageHeader) bytes)->pd_lower = kLinesAt;
}

/* Locks and checks a pinned page for HoldPageToChange(). Initialises the page if it is new. */
static inline void
LockToChange(const LiveFilter &filter, BlockNumber block, Kind kind, bool read, HeldPage *held)
{
	LockBuffer(held->buffer, BUFFER_LOCK_EXCLUSIVE);
	if (PageIsNew((Page) held->bytes))
	{
		StartChange();
		LogWhole(*held);
		InitHeader(held->bytes);
		InitPage(held->bytes, kind, block, filter.parameters.geometry.layout, 0);
		if (kind == Kind::kMain)
			LeaveLinesOut(held->bytes);
		MakeChange(filter);
		return;
	}
	CheckHeld(filter, *held, kind, read);
}

void
HoldPageToChange(const LiveFilter &filter, BlockNumber block, Kind kind, HeldPage *held)
{
	MakeLong(filter);

	const bool read = PinPage(filter, block, held);

	LockToChange(filter, block, kind, read, held);
}

bool
HoldPageToFill(const LiveFilter &filter, BlockNumber block, HeldPage *held)
{
	MakeLong(filter);

	const bool read = PinPage(filter, block, held);

	LockBuffer(held->buffer, BUFFER_LOCK_EXCLUSIVE);
	if (PageIsNew((Page) held->bytes))
		return true;
	CheckHeld(filter, *held, Kind::kMain, read);
	return false;
}

void
MakeNewPage(const LiveFilter &filter, const HeldPage &held, const uint8_t *scratch)
{
	Assert(PageIsNew((Page) held.bytes));
	StartChange();
	ChangeToScratch(held, scratch);
	LogWhole(held);
	InitHeader(held.bytes);
	MakeChange(filter);
}

void
HoldPageOfKey(const LiveFilter &filter, const Address &address, HeldPage *held)
{
	const BlockNumber block = (BlockNumber) address.group;

	if (Grows(filter))
	{
		(void) HoldGrownPage(filter, address, BUFFER_LOCK_EXCLUSIVE, true, held);
		return;
	}
	Assert(block < CountersBlock(filter) && address.line < kLines);
	MakeLong(filter);

	const bool read = PinPage(filter, block, held);

	PrefetchKey(held->bytes, address);
	LockToChange(filter, block, Kind::kMain, read, held);
}

bool
HoldPageToRead(const LiveFilter &filter, const Address &address, HeldPage *held)
{
	return Grows(filter) ? HoldGrownPage(filter, address, BUFFER_LOCK_SHARE, false, held)
						 : HoldPage(filter, (BlockNumber) address.group, Kind::kMain,
									BUFFER_LOCK_SHARE, held);
}

void
HoldPagesOfKeys(const LiveFilter &filter, const Address *keys, int count, HeldPage *held)
{
	bool read[kMostChanged];

	Assert(count <= kMostChanged && !Grows(filter));
	MakeLong(filter);
	for (int i = 0; i < count; i++)
	{
		Assert(i == 0 || keys[i - 1].group < keys[i].group);
		read[i] = PinPage(filter, (BlockNumber) keys[i].group, &held[i]);
	}
	for (int i = 0; i < count; i++)
		LockToChange(filter, held[i].block, Kind::kMain, read[i], &held[i]);
}

bool
LiveIsFreePage(const LiveFilter &filter, uint8_t *bytes, BlockNumber block)
{
	/* A damaged page may be a page of a chain, if the damage is in its kind. */
	return LivePageFlaw(filter, bytes, block) == NULL &&
		   HeaderFlaw(bytes, Kind::kFree, block, filter.parameters.geometry.layout) == NULL;
}

void
HoldNewPage(const LiveFilter &filter, HeldPage *held)
{
	BlockNumber block;

	while ((block = GetFreeIndexPage(filter.rel)) != InvalidBlockNumber)
	{
		/* The free space map is only a hint. Its block may be beyond the file, or in use. */
		if (block <= LastFixedBlock(filter) || block >= RelationGetNumberOfBlocks(filter.rel))
			continue;
		(void) PinPage(filter, block, held);
		if (ConditionalLockBuffer(held->buffer))
		{
			/* If the filter grows, a new page may be an allocated main page that is not written. */
			if (PageIsNew((Page) held->bytes) && !Grows(filter))
			{
				InitHeader(held->bytes);
				return;
			}
			if (!PageIsNew((Page) held->bytes) && LiveIsFreePage(filter, held->bytes, block))
				return;
			LockBuffer(held->buffer, BUFFER_LOCK_UNLOCK);
		}
		ReleaseBuffer(held->buffer);
	}
	LockRelationForExtension(filter.rel, ExclusiveLock);
	held->buffer = ReadBuffer(filter.rel, P_NEW);
	LockBuffer(held->buffer, BUFFER_LOCK_EXCLUSIVE);
	UnlockRelationForExtension(filter.rel, ExclusiveLock);
	held->block = BufferGetBlockNumber(held->buffer);
	held->bytes = (uint8_t *) BufferGetPage(held->buffer);
	InitHeader(held->bytes);
}
