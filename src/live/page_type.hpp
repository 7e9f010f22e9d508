/*
 * The type dedup_page of the column `page` of a live filter. A value is one of three: the filter's
 * parameters (the column's DEFAULT), the committed keys of one page (the rows of a dump), or a mark
 * that the filter covers its table (the last row of a dump). A value is never the bytes of a page,
 * because these hold transaction ids.
 *
 * Format 2, little-endian. All values start with the fields that define the meaning of their keys,
 * so that a page is loaded only into a filter where it means the same keys:
 *   0   u8   0xDA
 *   1   u8   2, the format
 *   2   u8   0 parameters, 1 page, 2 the filter covers its table
 *   3   u8   bytes of a slot (1: 12 bits), +128 if timed, +64 if the filter grows
 *   4   u32  bit 0 the filter forgets, bit 1 it renews, bits 4 to 7 the number of the keys' hash
 *            (core/method.hpp)
 *   8   u64  XXH3 of the rest, with this field 0
 *   16  u32  number of pages. If the filter grows: 0 in parameters, else the number of pages when
 *            the dump began
 *   20  u8   page of a filter that grows: its level (core/linear_hash.hpp); else 0
 *   21  u8   parameters: method of the prototype; else 0
 *   22  u16  0
 *   24  u64  seed
 *   32  u64  length of a generation, 40 u64 ttl; microseconds
 * parameters, 88 bytes in all:
 *   48  u64  keys, 0 if the filter grows, 56 f64 rate: those the pages are sized for
 *   64  u64  keys, 72 f64 rate: as requested
 *   80  u64  0
 * page:
 *   48  u32  block number; the page's number (core/linear_hash.hpp) if the filter grows
 *   52  u32  clock: the newest generation
 *   56  u32  number of entries
 *   60  u32  keys that were dropped early; 0 if the filter grows
 *   64       entries: u64 rest and, above its 40 bits, line; u32 generation; u32 0
 *            then, unless all are empty, the lines of fingerprints
 * the filter covers its table, 64 bytes in all:
 *   48  u32  block number: that of the page of counters, which follows the others. If the
 *            filter grows: the most pages that a filter can have, 2097152
 *   52  u32  the generation from which on it covers the table
 *   56       0
 */
#ifndef STREAMDEDUP_LIVE_PAGE_TYPE_HPP
#define STREAMDEDUP_LIVE_PAGE_TYPE_HPP

#include "live/live.hpp"

/* A key with a long fingerprint, in a dump. */
struct DumpedEntry
{
	uint32 line;
	uint32 generation;
	uint64 rest;
};

struct DumpedPage
{
	bool covers;  /* the value only says that the filter covers its table, and has no keys */
	uint32 block; /* the page's number, which is its block unless the filter grows */
	uint32 clock; /* if `covers`: the generation from which on it covers the table */
	uint32 early;
	uint32 count;
	const DumpedEntry *entries;
	const uint8_t *lines; /* kLines lines, or null if all are empty */

	/* If the filter grows: */
	unsigned level = 0;
	uint32 pages = 0; /* when the dump began */
};

/* Returns the value of the column "block" in the row that says that the filter covers its table. */
static inline uint32
CoversRow(const LiveParameters &parameters)
{
	return parameters.geometry.layout.grows ? dedup::live::kMostPages : parameters.geometry.pages;
}

extern struct varlena *EncodeParameters(const LiveParameters &parameters);
extern struct varlena *EncodePage(const LiveParameters &parameters, const DumpedPage &page);
/* `pages` is the number of pages of a filter that grows when the dump began. */
extern struct varlena *EncodeCovers(const LiveParameters &parameters, uint32 pages, uint32 from);

/* Reads parameters and checks every field. Raises XX001 for a value of another kind. */
extern void DecodeParameters(const struct varlena *value, LiveParameters *parameters);

/* Does the same, but returns false instead of raising an error. */
extern bool TryDecodeParameters(const struct varlena *value, LiveParameters *parameters);

/*
 * Reads a page and checks every field. Raises 22023 if the page's keys would mean other keys in
 * this filter. `filter` is its name, for the message. The result's arrays are palloc'd.
 */
extern void DecodePage(const struct varlena *value, const LiveParameters &parameters,
					   const char *filter, DumpedPage *page);

/* Describes, for a DETAIL, the parameters that define the meaning of a filter's keys. */
extern char *DescribeShape(const dedup::Shape &shape);

/* ---- dumping (scan.cpp) ------------------------------------------------- */

/*
 * Reads the keys of a main page and its chain that a snapshot sees. Returns false if there are
 * none. Sets the level in any case; it is 0 for a page that was never written. The result's arrays
 * are palloc'd.
 */
extern bool ReadLivePage(const LiveFilter &filter, Snapshot snapshot, uint32 number,
						 DumpedPage *result);

/* ---- restoring (restore.cpp) ------------------------------------------------ */

/* Raises 55000 if an enabled guard uses the filter. */
extern void LiveRequireUnguarded(Relation rel);

/* Raises 55000 unless the filter is empty. */
extern void LiveRequireEmpty(const LiveFilter &filter);

/*
 * Writes a dumped page into an empty page. If the filter grows, writes it into all pages that have
 * its keys. The page belongs to this transaction as a whole: if it aborts, the page is empty again.
 */
extern void LiveLoadPage(const LiveFilter &filter, const DumpedPage &dumped);

#endif /* STREAMDEDUP_LIVE_PAGE_TYPE_HPP */
