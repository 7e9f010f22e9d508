/*
 * The type dedup_page: what the column `page` of a live filter has. Its values are
 * the filter's parameters (the column's DEFAULT), the committed keys of one page (the rows of
 * a dump), or say that the filter covers its table (its last row). Never the bytes of a page: they
 * hold transaction ids.
 *
 * Format 2, little-endian. All values start with what gives their keys a meaning, so
 * that a page is loaded only into a filter where it means the same keys:
 *   0   u8   0xDA
 *   1   u8   2, the format
 *   2   u8   0 parameters, 1 page, 2 the filter covers its table
 *   3   u8   bytes of a slot (1: 12 bits), +128 if timed, +64 if the filter grows
 *   4   u32  bit 0 the filter forgets, bit 1 it renews, bits 4 to 7 the number of the keys' hash
 *            (core/method.hpp)
 *   8   u64  XXH3 of the rest, with this field 0
 *   16  u32  number of pages; if the filter grows, 0 in parameters, else as many as it had when
 *            the dump began
 *   20  u8   page: its level (core/linear_hash.hpp); else, and unless the filter grows, 0
 *   21  u8   parameters: method that was asked for; else 0
 *   22  u16  0
 *   24  u64  seed
 *   32  u64  length of a generation, 40 u64 ttl; microseconds
 * parameters, 88 bytes in all:
 *   48  u64  keys, 0 if the filter grows, 56 f64 rate: those the pages are sized for
 *   64  u64  keys, 72 f64 rate: as asked for
 *   80  u64  0
 * page:
 *   48  u32  block number; that of the page (core/linear_hash.hpp) if the filter grows
 *   52  u32  clock: the newest generation
 *   56  u32  number of entries
 *   60  u32  keys that gave way early; 0 if the filter grows
 *   64       entries: u64 rest and, above its 40 bits, line; u32 generation; u32 0
 *            then, unless all are empty, the lines of fingerprints
 * the filter covers its table, 64 bytes in all:
 *   48  u32  block number: that of the page of counters, which follows the others; or, if the
 *            filter grows, the most pages that a filter can have, 2097152
 *   52  u32  the generation from which on it does
 *   56       0
 */
#ifndef STREAMDEDUP_LIVE_PAGE_TYPE_HPP
#define STREAMDEDUP_LIVE_PAGE_TYPE_HPP

#include "live/live.hpp"

/* A key with long fingerprint, in a dump. */
struct DumpedEntry
{
	uint32 line;
	uint32 generation;
	uint64 rest;
};

struct DumpedPage
{
	bool covers;  /* it says that the filter covers its table, and has no keys */
	uint32 block; /* the page's number, which is its block unless the filter grows */
	uint32 clock; /* covers: from which generation on */
	uint32 early;
	uint32 count;
	const DumpedEntry *entries;
	const uint8_t *lines; /* kLines lines, or null if all are empty */

	/* If the filter grows: */
	unsigned level = 0;
	uint32 pages = 0; /* when the dump began */
};

/* What the column "block" says in the row of a filter that covers its table. */
static inline uint32
CoversRow(const LiveParameters &parameters)
{
	return parameters.geometry.layout.grows ? dedup::live::kMostPages : parameters.geometry.pages;
}

extern struct varlena *EncodeParameters(const LiveParameters &parameters);
extern struct varlena *EncodePage(const LiveParameters &parameters, const DumpedPage &page);
/* `pages`: how many a filter that grows had when the dump began. */
extern struct varlena *EncodeCovers(const LiveParameters &parameters, uint32 pages, uint32 from);

/* Checks every field; a value of the other kind raises XX001. */
extern void DecodeParameters(const struct varlena *value, LiveParameters *parameters);

/* The same as a question. */
extern bool TryDecodeParameters(const struct varlena *value, LiveParameters *parameters);

/*
 * Checks every field. Raises 22023 if the page's keys would mean other keys in this
 * filter, whose name is for the message. The result's arrays are palloc'd.
 */
extern void DecodePage(const struct varlena *value, const LiveParameters &parameters,
					   const char *filter, DumpedPage *page);

/* What gives the keys of a filter their meaning, in words for a DETAIL. */
extern char *DescribeShape(const dedup::Shape &shape);

/* ---- dumping (scan.cpp) ------------------------------------------------- */

/*
 * What a snapshot sees of a main page and its chain. Returns false if that is nothing; the
 * level is set in any case, that of a page that was never written is 0. The result's arrays are
 * palloc'd.
 */
extern bool ReadLivePage(const LiveFilter &filter, Snapshot snapshot, uint32 number,
						 DumpedPage *result);

/* ---- restoring (restore.cpp) ------------------------------------------------ */

/* 55000 if an enabled guard uses the filter. */
extern void LiveRequireUnguarded(Relation rel);

/* 55000 unless the filter is empty. */
extern void LiveRequireEmpty(const LiveFilter &filter);

/*
 * Writes a dumped page into an empty one; if the filter grows, into all that have its keys. It
 * is this transaction's as a whole: if that aborts, the page is empty.
 */
extern void LiveLoadPage(const LiveFilter &filter, const DumpedPage &dumped);

#endif /* STREAMDEDUP_LIVE_PAGE_TYPE_HPP */
