/*
 * Changes of pages: collects changes, makes them, and writes their WAL records.
 *
 * GenericXLog compares two pages byte by byte to find the changed bytes. This costs ten times the
 * change itself. The code here knows the changed bytes, so it builds the same kind of record itself
 * (resource manager RM_GENERIC_ID, replayed by the server's generic_redo). The record has, for each
 * page, fragments of {uint16 offset, uint16 length, bytes}.
 */
#include <bit>

#include "live/store/store.hpp"

extern "C" {
#include "access/generic_xlog.h"
#include "access/xloginsert.h"
#include "miscadmin.h"
}

/* START_CRIT_SECTION() increments a volatile variable, which C++20 deprecates. */
#if defined(__clang__)
#pragma GCC diagnostic ignored "-Wdeprecated-volatile"
#else
#pragma GCC diagnostic ignored "-Wvolatile"
#endif

using dedup::LoadU32;
using dedup::LoadU64;
using dedup::StoreU32;
using dedup::StoreU64;
using namespace dedup::live;

namespace
{

/* The server's generic_redo() holds at most MAX_GENERIC_XLOG_PAGES buffers. */
static_assert(kMostChanged <= MAX_GENERIC_XLOG_PAGES);

/* If the fragments of a page have more bytes than this, the page's image is logged instead. */
constexpr size_t MAX_FRAGMENTS = 6000;

/* The head of a fragment: the offset in the page and the number of bytes. */
constexpr size_t FRAGMENT_HEAD = 2 * sizeof(uint16);

/* The size of the fragment of the checksum, which is the last fragment. */
constexpr size_t SUM_FRAGMENT = FRAGMENT_HEAD + sizeof(uint32);

struct ChangedPage
{
	HeldPage held;
	const uint8_t *scratch; /* the whole new page, or null */
	bool whole;             /* log an image of the page */
	bool fresh;             /* a new page, whose checksum is computed anew */
	uint32 sum;             /* the amount that the change adds to the checksum */
	size_t size;            /* size of the fragments in bytes */
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
	page->sum = 0;
	page->size = 0;
	return page;
}

/* Does memcpy(). The sizes of most fragments, 8 and 1, need no function call. */
static inline void
CopyBytes(void *to, const void *from, size_t size)
{
	if (size == 8)
		memcpy(to, from, 8);
	else if (size == 1)
		memcpy(to, from, 1);
	else
		memcpy(to, from, size);
}

/* Appends a fragment. Returns false if there is no room. Then the page's image is logged. */
static inline bool
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
	CopyBytes(page->fragments + page->size + sizeof head, bytes, size);
	page->size += sizeof head + size;
	return true;
}

void
ChangeBytes(const HeldPage &held, size_t offset, const void *bytes, size_t size)
{
	ChangedPage *page = ChangedPageOf(held);
	const size_t from = offset / 8 * 8;
	const size_t to = (offset + size + 7) / 8 * 8;
	uint8_t words[264];

	Assert(page->scratch == NULL && offset + size <= BLCKSZ);
	if (to - from > sizeof words || !AppendFragment(page, offset, bytes, size))
		elog(ERROR, "too large a change of a page of a live filter");
	CopyBytes(words, held.bytes + from, to - from);
	CopyBytes(words + offset - from, bytes, size);
	for (size_t at = from; at < to; at += 8)
		page->sum +=
			TermOf(at / 8, LoadU64(words + at - from)) - TermOf(at / 8, LoadU64(held.bytes + at));
}

void
ChangeByte(const HeldPage &held, size_t offset, uint8_t byte)
{
	ChangedPage *page = ChangedPageOf(held);
	const size_t word = offset / 8 * 8;
	const unsigned shift = offset % 8 * 8;
	const uint64 before = LoadU64(held.bytes + word);
	const uint64 now = (before & ~((uint64) 0xff << shift)) | (uint64) byte << shift;

	Assert(page->scratch == NULL && offset < BLCKSZ);
	if (!AppendFragment(page, offset, &byte, 1))
		elog(ERROR, "too large a change of a page of a live filter");
	page->sum += TermOf(word / 8, now) - TermOf(word / 8, before);
}

void
ChangeWords(const HeldPage &held, const uint16 *offsets, const uint64 *words, int count)
{
	ChangedPage *page = ChangedPageOf(held);
	uint32 sum = page->sum;

	Assert(page->scratch == NULL);
	if (page->size + count * (FRAGMENT_HEAD + 8) > MAX_FRAGMENTS)
		elog(ERROR, "too large a change of a page of a live filter");
	for (int i = 0; i < count;)
	{
		uint16 head[2] = {offsets[i], 0};
		char *fragment = page->fragments + page->size;

		/* Adjacent words become one fragment. */
		do
		{
			const size_t place = offsets[i] / 8;

			Assert(offsets[i] % 8 == 0 && offsets[i] < BLCKSZ);
			sum += TermOf(place, words[i]) - TermOf(place, LoadU64(held.bytes + offsets[i]));
			StoreU64((uint8_t *) fragment + FRAGMENT_HEAD + head[1], words[i]);
			head[1] += 8;
		} while (++i < count && offsets[i] == offsets[i - 1] + 8);
		memcpy(fragment, head, sizeof head);
		page->size += FRAGMENT_HEAD + head[1];
	}
	page->sum = sum;
}

/* Returns whether two cache lines are equal. */
static inline bool
IsSameLine(const uint8_t *left, const uint8_t *right)
{
	uint64 differs = 0;

	for (size_t at = 0; at < dedup::kLineBytes; at += 8)
		differs |= LoadU64(left + at) ^ LoadU64(right + at);
	return differs == 0;
}

/* Appends a run of bytes of the scratch page. If there are too many bytes, sets `whole` instead. */
static inline void
AppendRun(ChangedPage *page, size_t from, size_t to)
{
	if (page->whole || from == to)
		return;
	if (page->size + FRAGMENT_HEAD + to - from > MAX_FRAGMENTS)
		page->whole = true;
	else
		(void) AppendFragment(page, from, page->scratch + from, to - from);
}

void
ChangeToScratch(const HeldPage &held, const uint8_t *scratch)
{
	ChangedPage *page = ChangedPageOf(held);
	size_t from = 0, to = 0; /* a run of bytes that differ; gaps up to FRAGMENT_HEAD are in it */

	Assert(page->scratch == NULL && page->size == 0);
	page->scratch = scratch;
	for (size_t line = 0; line < BLCKSZ; line += dedup::kLineBytes)
	{
		if (IsSameLine(held.bytes + line, scratch + line))
			continue;
		for (size_t at = Max(line, kMagicAt); at < line + dedup::kLineBytes; at += 8)
		{
			const uint64 before = LoadU64(held.bytes + at);
			const uint64 now = LoadU64(scratch + at);
			const uint64 differs = before ^ now;

			if (differs == 0)
				continue;
			page->sum += TermOf(at / 8, now) - TermOf(at / 8, before);

			const size_t first = at + std::countr_zero(differs) / 8;

			if (first > to + FRAGMENT_HEAD)
			{
				AppendRun(page, from, to);
				from = first;
			}
			to = at + 8 - std::countl_zero(differs) / 8;
		}
	}
	AppendRun(page, from, to);
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

/*
 * Ends the hole that LeaveLinesOut() has made. From now on the lines may have keys, so images of
 * the page must contain the lines. Returns the amount that this adds to the checksum.
 */
static uint32
TakeLinesIn(ChangedPage *page)
{
	uint8_t *bytes = page->held.bytes;
	const LocationIndex lower = BLCKSZ;
	const uint32 before = TermOf(1, LoadU64(bytes + kServerSumAt) >> 16);

	((PageHeader) bytes)->pd_lower = lower;
	if (!page->whole)
		(void) AppendFragment(page, offsetof(PageHeaderData, pd_lower), &lower, sizeof lower);
	return TermOf(1, LoadU64(bytes + kServerSumAt) >> 16) - before;
}

/* Changes one page in its buffer. Appends the fragment of its checksum. */
static void
ChangePage(const LiveFilter &filter, ChangedPage *page)
{
	uint8_t *bytes = page->held.bytes;
	uint32 sum = LoadU32(bytes + kSumAt) + page->sum;

	if (page->scratch != NULL && page->whole)
		memcpy(bytes + kMagicAt, page->scratch + kMagicAt, BLCKSZ - kMagicAt);
	else
		for (size_t at = 0; at < page->size;)
		{
			uint16 head[2];

			memcpy(head, page->fragments + at, sizeof head);
			CopyBytes(bytes + head[0], page->fragments + at + sizeof head, head[1]);
			at += sizeof head + head[1];
		}
	/* Lines change only by ChangeToScratch(). */
	if (page->scratch != NULL && !MayHaveLines(bytes))
		sum += TakeLinesIn(page);
	if (page->fresh)
	{
		const uint64 seed = filter.parameters.shape.seed;

		sum = page->scratch == NULL && KindOf(bytes) == Kind::kMain
				  ? SumOfEmpty(bytes, seed, page->held.block)
				  : SumOf(bytes, seed, page->held.block);
	}
	if (sum == LoadU32(bytes + kSumAt))
		return;
	StoreU32(bytes + kSumAt, sum);
	if (!page->whole)
		(void) AppendFragment(page, kSumAt, bytes + kSumAt, sizeof sum, 0);
}

#ifdef USE_ASSERT_CHECKING
/* Checks the invariants of a page after a change. */
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
	for (size_t at = ((PageHeader) held.bytes)->pd_lower; at < BLCKSZ; at++)
		Assert(kind == Kind::kMain && at >= kLinesAt && held.bytes[at] == 0);
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
