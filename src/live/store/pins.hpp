/*
 * Pins pages of live filters: the common part of pages.cpp and map.cpp. Only these two files
 * include this one.
 */
#ifndef STREAMDEDUP_LIVE_STORE_PINS_HPP
#define STREAMDEDUP_LIVE_STORE_PINS_HPP

#include "live/store/store.hpp"
#include "pg/compat_storage.hpp"

extern "C" {
#include "executor/instrument.h"
#include "pgstat.h"
#include "storage/buf_internals.h"
}

/* ---- how long the file is ----------------------------------------------------- */

/*
 * Returns whether the file is known to be as long as the filter. The flag is the target block of
 * the storage manager's entry. Heaps use it for the block of the next insert; nothing else uses it
 * for this relation. The server resets it in every backend whenever the file may have been
 * truncated or replaced: by TRUNCATE and VACUUM FULL (LiveSetNewFile in table_am.cpp), and when
 * free pages at the end are given back (GiveBackFree in give_back.cpp).
 */
static inline bool
KnownLong(const LiveFilter &filter)
{
	return RelationGetTargetBlock(filter.rel) != InvalidBlockNumber;
}

/*
 * Returns whether the file has a block. Checks the file's length unless it is known to be long
 * enough.
 */
extern bool IsLong(const LiveFilter &filter, BlockNumber block);

/* Extends the file to the fixed blocks by zero pages, which are empty pages. Not WAL-logged. */
extern void MakeFileLong(const LiveFilter &filter);

static inline void
MakeLong(const LiveFilter &filter)
{
	if (unlikely(!KnownLong(filter)))
		MakeFileLong(filter);
}

/* Writes PostgreSQL's header, without line pointers, and without a hole that replay would clear. */
extern void InitHeader(uint8_t *bytes);

/* ---- pinning and checking ------------------------------------------------------ */

/*
 * Pins a block that is still in the buffer of its last use, without a lookup in the table of
 * buffers. Does so only for a buffer with a high usage count, because the server does not count
 * this use.
 */
static inline bool
PinRecent(const LiveFilter &filter, BlockNumber block, Buffer buffer)
{
#if HAS_RECENT_BUFFERS
	if (buffer <= 0 || BUF_STATE_GET_USAGECOUNT(BUFFER_STATE(buffer)) < BM_MAX_USAGE_COUNT ||
		!ReadRecentBuffer(FileOf(filter.rel), MAIN_FORKNUM, block, buffer))
		return false;
	pgstat_count_buffer_read(filter.rel);
	pgstat_count_buffer_hit(filter.rel);
	return true;
#else
	return false;
#endif
}

/* Pins a page. Returns whether this backend has read it from disk. */
static inline bool
PinPage(const LiveFilter &filter, BlockNumber block, HeldPage *held)
{
	const auto before = pgBufferUsage.shared_blks_read;
	Buffer *recent = RecentBuffer(filter, block);

	held->block = block;
	if (recent != NULL && PinRecent(filter, block, *recent))
		held->buffer = *recent;
	else
	{
		held->buffer = ReadBuffer(filter.rel, block);
		/* Reading a page can free the relation's cache. */
		recent = RecentBuffer(filter, block);
		if (recent != NULL)
			*recent = held->buffer;
	}
	held->bytes = (uint8_t *) BufferGetPage(held->buffer);
	return pgBufferUsage.shared_blks_read != before;
}

/* Checks all of a locked page that this backend uses for the first time. */
extern void CheckAll(const LiveFilter &filter, const HeldPage &held, dedup::live::Kind kind,
					 bool read);

/*
 * Checks the header of a locked page. Checks all of the page if this backend has `read` it from
 * disk or uses it for the first time.
 */
static inline void
CheckHeld(const LiveFilter &filter, const HeldPage &held, dedup::live::Kind kind, bool read)
{
	const CachedLive *cached = (const CachedLive *) filter.rel->rd_amcache;

	if (unlikely(read || cached == NULL || held.block >= cached->met_count ||
				 (cached->met[held.block / 8] >> held.block % 8 & 1) == 0 ||
				 dedup::live::HeaderFlaw(held.bytes, kind, held.block,
										 filter.parameters.geometry.layout) != NULL))
		CheckAll(filter, held, kind, read);
}

#endif /* STREAMDEDUP_LIVE_STORE_PINS_HPP */
