/*
 * The keys of the file that dedup_rebuild() fills, and how new and deleted rows change them
 * (rebuild_keys.cpp).
 */
#ifndef STREAMDEDUP_GUARD_REBUILD_KEYS_HPP
#define STREAMDEDUP_GUARD_REBUILD_KEYS_HPP

#include "guard/guard.hpp"

extern "C" {
#include "utils/hsearch.h"
}

struct RebuiltKeys
{
	LiveFilter filter; /* the new file, which no other session uses */
	bool exact;        /* the guard is exact; else all guards forget */
	uint32 newest;     /* in a window of time: the newest generation of a row, or of the filter */
	uint32 from;       /* exact guards: rows of earlier generations may have been skipped */
	HTAB *repeated;    /* hashes that more than one row has, or may have */
	MemoryContext context;
};

/* New and deleted rows of one hash; in a window of time with their generations. */
struct KeyChanges
{
	int64 come;
	int64 gone;
	const uint32 *come_in;
	const uint32 *gone_in;
};

extern RebuiltKeys StartRebuiltKeys(const LiveFilter &filter, bool exact, MemoryContext context);

/*
 * Records that two loaded rows have the same hash. Must be called in the order of their
 * generations.
 */
extern void NoteRepeatedRows(RebuiltKeys *keys, uint64 hash, uint32 before, uint32 generation);

/* Returns whether one of the new rows may have the key of another row. */
extern bool ApplyKeyChanges(RebuiltKeys *keys, uint64 hash, const KeyChanges &changes);

#endif /* STREAMDEDUP_GUARD_REBUILD_KEYS_HPP */
