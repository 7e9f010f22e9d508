/*
 * A filter that a query fills for its own use, as long as it runs. It is exact first, then of the
 * prototype's method or of a default method.
 */
#ifndef STREAMDEDUP_QUERY_OWN_FILTER_HPP
#define STREAMDEDUP_QUERY_OWN_FILTER_HPP

#include "value/fill.hpp"

struct OwnFilter
{
	FilterState state;
	uint64 limit; /* the most hashes before the method takes over */
	uint64 keys;  /* keys that were reported as new */

	Size bytes() const { return VARSIZE(state.value); }
	dedup::KeySeed seed() const { return dedup::KeySeedOf(state.header.shape); }
};

/*
 * For calls without a prototype: a window of rate 0.001 that fills the current hash_mem. Its exact
 * form ends when the hashes with their index take that much memory.
 */
extern dedup::Shape DefaultShape(void);
extern void StartDefaultFilter(OwnFilter *own, const dedup::Shape &shape);

/*
 * Starts a filter with a prototype's shape. Raises an error (0A000) if its method does not report
 * whether a key was seen.
 */
extern void StartPrototypeFilter(OwnFilter *own, const dedup::Shape &shape);

/* Tests and adds a key. This function and the two above keep the filter in the current context. */
extern bool IsNewToOwn(OwnFilter *own, uint64 hash);

/* Does the same for several keys in turn. seen[i] is 0 for those that are new. */
extern void TestAndAddToOwn(OwnFilter *own, const uint64 *hashes, int n, uint8 *seen);

/*
 * Returns whether one of the next `n` keys may raise an error because the filter is full, or a
 * warning in WarnOwnOverfull().
 */
extern bool OwnMaySpeak(const OwnFilter *own, bool warned, int n);

/*
 * Raises a WARNING, unless `warned`, when a filter that never forgets has more keys than it can
 * hold at its rate.
 */
extern void WarnOwnOverfull(const OwnFilter *own, bool *warned, const char *function);

#endif /* STREAMDEDUP_QUERY_OWN_FILTER_HPP */
