/* Adds many keys to a live filter at once, in the order of their pages (bulk.cpp). */
#ifndef STREAMDEDUP_LIVE_BULK_HPP
#define STREAMDEDUP_LIVE_BULK_HPP

#include "live/live.hpp"

/* A load in progress. All that it adds belongs to this subtransaction. */
struct LiveBulk
{
	const LiveFilter *filter;
	uint32 generation; /* the newest one; the clock's unless by_time */
	bool by_time;      /* the generation of a key is its age */
	uint64 own;

	/* Called for each key that the filter may have had already, while nothing is locked. */
	void (*known)(void *arg, uint64 hash);
	void *known_arg;

	int64 added;

	/* The keys of one page, which wait to be written together. */
	/*
	 * the number of pages by which the keys are ordered; a filter that grows can have more by now
	 */
	uint32 pages;
	uint32 page;
	unsigned line; /* of the last key */
	unsigned in_line;
	unsigned left_out; /* number of keys of a window for which the page has no room */
	unsigned early;    /* number of written keys that were dropped for younger ones */
	uint64 *hashes;
	uint32 *ages;
	int count;
	bool aged; /* they have different ages */

	/* The arrays have room for this many keys. */
	uint64 *sorted;
	uint64 *waits;
	dedup::live::Address *addresses;
};

/*
 * The order in which a load takes keys: the order of these numbers, which are a one-to-one function
 * of the hashes. The order of hashes is that of pages, unless the filter grows. In a filter that
 * grows, the page bits begin with the part of the hash that the line does not use: 64 bits of a
 * product with an odd number, which can be inverted.
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
 * Starts a load of about `keys` keys into a filter that was opened to add keys. An empty filter
 * that grows gets pages for them beforehand. `known` can be NULL. If `newest` is 0, keys count from
 * now on. Else the age of each key is its generation in a window of time, and `newest` is the
 * newest of these generations, or the newest of the filter, if that is newer. The LiveBulk is freed
 * with the current memory context.
 */
extern LiveBulk *StartLiveBulk(const LiveFilter &filter, uint64 keys, uint32 newest,
							   void (*known)(void *arg, uint64 hash), void *known_arg);

/*
 * Adds a key. Keys must come in the order of LoadOrderOf(), each once. Each line gets the keys with
 * the lowest age first, as if they had come in that order. Waits, with nothing locked, for
 * transactions that have the same key in flight. A window keeps as many keys as it has room for. In
 * filters with renew, and in loads by generation, a key that is there already gets the new
 * generation, if that is newer.
 */
extern void AddToLiveBulk(LiveBulk *bulk, uint64 hash, uint32 age);

/* Adds the keys that still wait. Counts the keys that were added. */
extern void FinishLiveBulk(LiveBulk *bulk);

/* Returns whether the lines of a main page hold no key. */
extern bool LinesEmpty(const LiveFilter &filter, const uint8_t *main);

/* Returns whether a main page, which must be settled, holds no keys and has no loader. */
extern bool IsEmptyPage(const LiveFilter &filter, const uint8_t *main);

#endif /* STREAMDEDUP_LIVE_BULK_HPP */
