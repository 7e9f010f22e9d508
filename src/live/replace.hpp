/*
 * Replaces the contents of a live filter (replace.cpp): another file with other keys, sized for
 * another number of keys, for the same relation.
 *
 * The replacement is a separate relation until it is exchanged. It has the same schema, tablespace,
 * persistence and owner, and a name such as the server gives to transient relations. It is made,
 * filled and exchanged in one transaction, so no other session ever sees it. If that transaction
 * aborts, the filter is unchanged.
 */
#ifndef STREAMDEDUP_LIVE_REPLACE_HPP
#define STREAMDEDUP_LIVE_REPLACE_HPP

#include "live/live.hpp"

/*
 * Returns the parameters of a filter that is resized by a prototype. Keys, rate and method are the
 * prototype's. The ttl stays, and seed and hash stay unless the prototype gives others. Raises an
 * error if the prototype is of another kind than the filter.
 */
extern LiveParameters ResizeLive(const LiveFilter &filter, Datum prototype);

/*
 * Makes an empty replacement for a filter, which must be locked. Only functions that take a
 * LiveFilter can be used with it, because the relation does not hold the parameters.
 */
extern LiveFilter MakeLiveReplacement(const LiveFilter &filter, const LiveParameters &parameters);

/*
 * Returns the generation of a key in a replacement with a window of time whose newest generation is
 * `now`. Returns 0 if the key is not there.
 */
extern uint32 LastInReplacement(const LiveFilter &replacement, uint64 hash, uint32 now);

/*
 * Removes a key from a replacement, as if it had never been added. Keys with the same fingerprint
 * are removed, too. Returns false if the key is not there.
 */
extern bool EraseFromReplacement(const LiveFilter &replacement, uint64 hash);

/*
 * Gives the filter the file and the parameters of the replacement. This transaction must have
 * locked the filter in AccessExclusiveLock. Both are closed, and the replacement is dropped.
 */
extern void ExchangeLive(const LiveFilter &filter, const LiveFilter &replacement);

#endif /* STREAMDEDUP_LIVE_REPLACE_HPP */
