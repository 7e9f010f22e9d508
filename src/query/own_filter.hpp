/*
 * A filter that a query fills for itself, as long as it runs: exact first, then of a
 * prototype's method or of a default's.
 */
#ifndef STREAMDEDUP_QUERY_OWN_FILTER_HPP
#define STREAMDEDUP_QUERY_OWN_FILTER_HPP

#include "value/fill.hpp"

struct OwnFilter
{
	FilterState state;
	uint64 limit; /* most hashes before the method takes over */
	uint64 keys;  /* answered new */

	Size bytes() const { return VARSIZE(state.value); }
	dedup::KeySeed seed() const { return dedup::KeySeedOf(state.header.shape); }
};

/*
 * Without a prototype: a window of rate 0.001 that fills hash_mem, as that is now. Its
 * exact form ends when the hashes with their index take as much.
 */
extern dedup::Shape DefaultShape(void);
extern void StartDefaultFilter(OwnFilter *own, const dedup::Shape &shape);

/*
 * With a prototype's shape. An error (0A000) if its method does not say whether a key
 * was seen.
 */
extern void StartPrototypeFilter(OwnFilter *own, const dedup::Shape &shape);

/*
 * Test-and-add. Both of the above and this keep the filter in the current context.
 */
extern bool IsNewToOwn(OwnFilter *own, uint64 hash);

/* The same for several keys in turn; seen[i] is 0 for those that are new. */
extern void TestAndAddToOwn(OwnFilter *own, const uint64 *hashes, int n, uint8 *seen);

/*
 * Returns whether one of the next `n` keys may raise an error since the filter is full, or
 * be one with which WarnOwnOverfull() has something to say.
 */
extern bool OwnMaySpeak(const OwnFilter *own, bool warned, int n);

/* WARNING, unless `warned`, when a filter that never forgets has more keys than it can. */
extern void WarnOwnOverfull(const OwnFilter *own, bool *warned, const char *function);

#endif /* STREAMDEDUP_QUERY_OWN_FILTER_HPP */
