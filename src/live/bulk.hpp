/*
 * Adding many keys to a live filter at once, in the order of their pages (bulk.cpp).
 */
#ifndef STREAMDEDUP_LIVE_BULK_HPP
#define STREAMDEDUP_LIVE_BULK_HPP

#include "live/live.hpp"

/* A load that is under way. Everything that is added is this subtransaction's. */
struct LiveBulk
{
	const LiveFilter *filter;
	uint32 generation; /* the newest; the clock's unless by_time */
	bool by_time;      /* the age of a key is its generation */
	uint64 own;

	/* Called, with nothing locked, for each key that the filter may have had already. */
	void (*known)(void *arg, uint64 hash);
	void *known_arg;

	int64 added;

	/* The keys of one page, which wait to be written together. */
	uint32 pages; /* by which keys have their pages: a filter that grows can have more by now */
	uint32 page;
	unsigned line; /* of the last key */
	unsigned in_line;
	unsigned left_out; /* keys of a window for which the page has no room */
	unsigned early;    /* the same, of keys that were written: they gave way to younger ones */
	uint64 *hashes;
	uint32 *ages;
	int count;
	bool aged; /* they are not all of one age */

	/* Room for as many. */
	uint64 *sorted;
	uint64 *waits;
	dedup::live::Address *addresses;
};

/*
 * The order in which a load takes keys: that of these numbers, which are as many and as different
 * as hashes. That of hashes is the order of pages, unless the filter grows: its page bits begin
 * with what the line leaves of the hash, 64 bits of a product with an odd number, which can be
 * undone.
 */
constexpr uint64 kLinesInverse = UINT64CONST(0xdab7ec1dd3431b57);
static_assert(kLinesInverse * dedup::live::kLines == 1);
static inline uint64
LoadOrderOf(const LiveFilter &filter, uint64 hash)
{
	return filter.parameters.geometry.layout.grows ? hash * dedup::live::kLines : hash;
}
static inline uint64
HashInLoadOrder(const LiveFilter &filter, uint64 number)
{
	return filter.parameters.geometry.layout.grows ? number * kLinesInverse : number;
}

/*
 * Starts a load of about so many keys into a filter that is open to be added to; an empty one
 * that grows gets pages for them beforehand. `known` can be NULL. `newest` is not 0 if the age of
 * each key is its generation, in a window of time: then it is the newest of these, or of the
 * filter, if that is newer. Else keys count from now on. The LiveBulk is freed with the current
 * memory context.
 */
extern LiveBulk *StartLiveBulk(const LiveFilter &filter, uint64 keys, uint32 newest,
							   void (*known)(void *arg, uint64 hash), void *known_arg);

/*
 * Adds a key. Keys must come in the order of LoadOrderOf(), each once. Each line gets the keys with
 * the lowest age first, as if they had come in that order. Waits, with nothing locked, for
 * transactions that have the same key in flight. A window keeps as many keys as it has room
 * for. A key that is there already gets the generation, if that is newer than its own, in
 * filters with renew and in loads by generation.
 */
extern void AddToLiveBulk(LiveBulk *bulk, uint64 hash, uint32 age);

/* Adds what waits yet. Counts the keys that were added. */
extern void FinishLiveBulk(LiveBulk *bulk);

/* Whether the lines of a main page hold no key. */
extern bool LinesEmpty(const LiveFilter &filter, const uint8_t *main);

/* Whether a main page, which has been settled, holds nothing: no keys, and no loader. */
extern bool IsEmptyPage(const LiveFilter &filter, const uint8_t *main);

#endif /* STREAMDEDUP_LIVE_BULK_HPP */
