/*
 * Replacing what is in a live filter (replace.cpp): another file with other keys, sized for
 * another number of them, for the same relation.
 *
 * The replacement is a relation of its own until it is exchanged: of the same schema,
 * tablespace, persistence and owner, by a name that the server gives to such relations. It is
 * made, filled and exchanged in one transaction, so nobody else ever sees it. If that
 * transaction aborts, the filter is what it was.
 */
#ifndef STREAMDEDUP_LIVE_REPLACE_HPP
#define STREAMDEDUP_LIVE_REPLACE_HPP

#include "live/live.hpp"

/*
 * The parameters of a filter that is to be resized by a prototype: keys, rate and method are
 * the prototype's, while ttl, and seed and hash unless the prototype names others, stay.
 * Raises an error if the prototype is of another kind than the filter.
 */
extern LiveParameters ResizeLive(const LiveFilter &filter, Datum prototype);

/*
 * Makes an empty replacement of a filter, which is locked. Only functions that take a
 * LiveFilter can be used with it: the relation does not hold the parameters.
 */
extern LiveFilter MakeLiveReplacement(const LiveFilter &filter, const LiveParameters &parameters);

/*
 * The generation that a key has in a replacement with a window of time whose newest is `now`; 0
 * if the key is not there.
 */
extern uint32 LastInReplacement(const LiveFilter &replacement, uint64 hash, uint32 now);

/*
 * Takes a key out of a replacement, as if it had never been added. Keys with the same
 * fingerprint go along. Returns false if it is not there.
 */
extern bool EraseFromReplacement(const LiveFilter &replacement, uint64 hash);

/*
 * Gives the filter, which this transaction has locked in AccessExclusiveLock, the file and the
 * parameters of the replacement. Both are closed, and the replacement is gone.
 */
extern void ExchangeLive(const LiveFilter &filter, const LiveFilter &replacement);

#endif /* STREAMDEDUP_LIVE_REPLACE_HPP */
