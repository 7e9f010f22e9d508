/*
 * Changes of pages of live filters, and their WAL records.
 *
 * GenericXLog compares two pages byte by byte to find what changed, which costs ten
 * times the change itself. What changes is known here, so the same kind of record
 * (resource manager RM_GENERIC_ID, replayed by the server's own generic_redo) is put
 * together by hand: for each page fragments of {uint16 offset, uint16 length, bytes}.
 */
#include "live/store/store.hpp"

extern "C" {
#include "access/generic_xlog.h"
#include "access/xlog.h"
#include "access/xloginsert.h"
}

/* Critical sections count in a volatile, which C++20 deprecates. */
#if defined(__clang__)
#pragma GCC diagnostic ignored "-Wdeprecated-volatile"
#else
#pragma GCC diagnostic ignored "-Wvolatile"
#endif

using dedup::LoadU32;
using dedup::LoadU64;
using dedup::StoreU32;
using namespace dedup::live;

/* ---- collecting and making a change ---------------------------------------- */

namespace
{

/* generic_redo() of the server has room for as many buffers. */
static_assert(kMostChanged <= MAX_GENERIC_XLOG_PAGES);

/* Above this many bytes of fragments the page's image is logged instead. */
constexpr size_t MAX_FRAGMENTS = 6000;

/* The fragment of the checksum, which is the last. */
constexpr size_t SUM_FRAGMENT = 2 * sizeof(uint16) + sizeof(uint32);

struct ChangedPage
{
	HeldPage held;
	const uint8_t *scratch; /* the whole new page, or null */
	bool whole;             /* log the image */
	bool fresh;             /* a new page: nothing of the old one stays */
	size_t size;            /* of the fragments */
	char fragments[MAX_FRAGMENTS + 256 + SUM_FRAGMENT];
};

ChangedPage changed[kMostChanged];
int changed_count;

} /* namespace */

void
StartChange(void)
{
	changed_count = 0;
}

static ChangedPage *
ChangedPageOf(const HeldPage &held)
{
	for (int i = 0; i < changed_count; i++)
		if (changed[i].held.buffer == held.buffer)
			return &changed[i];
	if (changed_count >= kMostChanged)
		elog(ERROR, "too many pages in one change of a live filter");
	ChangedPage *page = &changed[changed_count++];

	page->held = held;
	page->scratch = NULL;
	page->whole = false;
	page->fresh = false;
	page->size = 0;
	return page;
}

/* False: too many bytes, the image is logged. */
static bool
AppendFragment(ChangedPage *page, size_t offset, const void *bytes, size_t size,
			   size_t reserve = SUM_FRAGMENT)
{
	uint16 head[2] = {(uint16) offset, (uint16) size};

	if (page->size + sizeof head + size > sizeof page->fragments - reserve)
	{
		page->whole = true;
		return false;
	}
	memcpy(page->fragments + page->size, head, sizeof head);
	memcpy(page->fragments + page->size + sizeof head, bytes, size);
	page->size += sizeof head + size;
	return true;
}

void
ChangeBytes(const HeldPage &held, size_t offset, const void *bytes, size_t size)
{
	ChangedPage *page = ChangedPageOf(held);

	Assert(page->scratch == NULL && offset + size <= BLCKSZ);
	if (size > 256 || !AppendFragment(page, offset, bytes, size))
		elog(ERROR, "too large a change of a page of a live filter");
}

/* Whether two cache lines are equal. */
static inline bool
IsSameLine(const uint8_t *left, const uint8_t *right)
{
	uint64 differs = 0;

	for (size_t at = 0; at < dedup::kLineBytes; at += 8)
		differs |= LoadU64(left + at) ^ LoadU64(right + at);
	return differs == 0;
}

void
ChangeToScratch(const HeldPage &held, const uint8_t *scratch)
{
	ChangedPage *page = ChangedPageOf(held);
	size_t at = kMagicAt;

	Assert(page->scratch == NULL && page->size == 0);
	page->scratch = scratch;
	/* Runs of words that differ, to the byte. */
	while (at < BLCKSZ && !page->whole)
	{
		size_t end;

		if (at % dedup::kLineBytes == 0 && IsSameLine(held.bytes + at, scratch + at))
		{
			at += dedup::kLineBytes;
			continue;
		}
		if (memcmp(held.bytes + at, scratch + at, 8) == 0)
		{
			at += 8;
			continue;
		}
		end = at + 8;
		while (end < BLCKSZ && memcmp(held.bytes + end, scratch + end, 8) != 0)
			end += 8;

		size_t from = at, to = end;

		while (held.bytes[from] == scratch[from])
			from++;
		while (held.bytes[to - 1] == scratch[to - 1])
			to--;
		if (page->size + to - from + 4 > MAX_FRAGMENTS ||
			!AppendFragment(page, from, scratch + from, to - from))
			page->whole = true;
		at = end;
	}
}

void
ChangeWith(const HeldPage &held)
{
	(void) ChangedPageOf(held);
}

void
LogWhole(const HeldPage &held)
{
	ChangedPage *page = ChangedPageOf(held);

	page->whole = page->fresh = true;
}

/* Makes the change of one page in its buffer, and the fragment of its checksum. */
static void
ChangePage(const LiveFilter &filter, ChangedPage *page)
{
	uint8_t *bytes = page->held.bytes;
	uint32 sum = LoadU32(bytes + kSumAt);

	if (page->scratch != NULL && page->whole)
	{
		sum -= TermsOf(bytes, kMagicAt, BLCKSZ);
		memcpy(bytes + kMagicAt, page->scratch + kMagicAt, BLCKSZ - kMagicAt);
		sum += TermsOf(bytes, kMagicAt, BLCKSZ);
	}
	else
		for (size_t at = 0; at < page->size;)
		{
			uint16 head[2];

			memcpy(head, page->fragments + at, sizeof head);

			const size_t end = (size_t) head[0] + head[1];

			sum -= TermsOf(bytes, head[0], end);
			memcpy(bytes + head[0], page->fragments + at + sizeof head, head[1]);
			sum += TermsOf(bytes, head[0], end);
			at += sizeof head + head[1];
		}
	if (page->fresh)
		sum = SumOf(bytes, filter.parameters.shape.seed, page->held.block);
	if (sum == LoadU32(bytes + kSumAt))
		return;
	StoreU32(bytes + kSumAt, sum);
	if (!page->whole)
		(void) AppendFragment(page, kSumAt, bytes + kSumAt, sizeof sum, 0);
}

#ifdef USE_ASSERT_CHECKING
/* What holds of every page after each change of it. */
static void
AssertChanged(const LiveFilter &filter, const HeldPage &held)
{
	const Kind kind = KindOf(held.bytes);

	Assert(IsHeld(held, true));
	Assert(held.bytes == (uint8_t *) BufferGetPage(held.buffer));
	Assert(kind == Kind::kCounters ? held.block == CountersBlock(filter)
		   : kind == Kind::kRoot   ? held.block == kRootBlock && Grows(filter)
		   : kind == Kind::kMain && !Grows(filter)
			   ? held.block < CountersBlock(filter)
			   : held.block >= (Grows(filter) ? kFirstMainBlock : CountersBlock(filter) + 1));
	Assert(PageFlaw(held.bytes, kind, held.block, filter.parameters.geometry) == NULL);
	Assert(IsSealed(held.bytes, filter.parameters.shape.seed, held.block));
}
#endif

void
MakeChange(const LiveFilter &filter)
{
	bool logged = RelationNeedsWAL(filter.rel);

	Assert(changed_count > 0 && !RecoveryInProgress());

	START_CRIT_SECTION();
	for (int i = 0; i < changed_count; i++)
	{
		ChangedPage *page = &changed[i];

		ChangePage(filter, page);
		MarkBufferDirty(page->held.buffer);
	}
	if (logged)
	{
		XLogRecPtr lsn;

		XLogBeginInsert();
		for (int i = 0; i < changed_count; i++)
		{
			ChangedPage *page = &changed[i];

			if (page->whole)
				XLogRegisterBuffer((uint8) i, page->held.buffer,
								   REGBUF_FORCE_IMAGE | REGBUF_STANDARD);
			else
			{
				XLogRegisterBuffer((uint8) i, page->held.buffer, REGBUF_STANDARD);
				if (page->size > 0)
					XLogRegisterBufData((uint8) i, page->fragments, (int) page->size);
			}
		}
		lsn = XLogInsert(RM_GENERIC_ID, 0);
		for (int i = 0; i < changed_count; i++)
			PageSetLSN((Page) changed[i].held.bytes, lsn);
	}
	END_CRIT_SECTION();
#ifdef USE_ASSERT_CHECKING
	for (int i = 0; i < changed_count; i++)
		AssertChanged(filter, changed[i].held);
#endif
	changed_count = 0;
}
