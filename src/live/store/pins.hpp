/*
 * Pinning pages of live filters: what pages.cpp and map.cpp share. Only they include this.
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
 * Whether the file is known to be as long as the filter. The flag is the target block
 * of the storage manager's entry: where heaps insert next, which nothing else uses for
 * this relation. The server resets it, in every backend, whenever the file may have been
 * truncated or replaced: by TRUNCATE and VACUUM FULL (LiveSetNewFile in table_am.cpp) and
 * when free pages at the end are given back (TruncateFree in vacuum.cpp).
 */
static inline bool
KnownLong(const LiveFilter &filter)
{
	return RelationGetTargetBlock(filter.rel) != InvalidBlockNumber;
}

/* Whether the file has a block, by a look at its length unless it is known to be long enough. */
extern bool IsLong(const LiveFilter &filter, BlockNumber block);

/* Makes the file as long as the fixed blocks: zero pages, which are empty ones, unlogged. */
extern void MakeFileLong(const LiveFilter &filter);

static inline void
MakeLong(const LiveFilter &filter)
{
	if (unlikely(!KnownLong(filter)))
		MakeFileLong(filter);
}

/* PostgreSQL's header: no line pointers, and no hole that would be cleared on replay. */
extern void InitHeader(uint8_t *bytes);

/* ---- pinning and checking ------------------------------------------------------ */

/*
 * Pins a block that is still in the buffer that it was in the last time, without a look at the
 * table of buffers. Only a buffer that is used as often as the server counts: the server does
 * not count this use.
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
		/* Reading can make the relation's cache go. */
		recent = RecentBuffer(filter, block);
		if (recent != NULL)
			*recent = held->buffer;
	}
	held->bytes = (uint8_t *) BufferGetPage(held->buffer);
	return pgBufferUsage.shared_blks_read != before;
}

/* Checks all of a page that is locked, and that this backend has not met before. */
extern void CheckAll(const LiveFilter &filter, const HeldPage &held, dedup::live::Kind kind,
					 bool read);

/*
 * Checks the header of a page that is locked, and all of it if this backend has `read` it
 * from disk or meets it for the first time.
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
