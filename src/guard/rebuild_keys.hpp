/*
 * The keys of the file that dedup_rebuild() fills (rebuild_keys.cpp): how rows that have come
 * and gone since change them.
 */
#ifndef STREAMDEDUP_GUARD_REBUILD_KEYS_HPP
#define STREAMDEDUP_GUARD_REBUILD_KEYS_HPP

#include "guard/guard.hpp"

extern "C" {
#include "utils/hsearch.h"
}

struct RebuiltKeys
{
	LiveFilter filter; /* the new file, which nobody else uses */
	bool exact;        /* the guard; else all guards forget */
	uint32 newest;     /* in a window of time: the newest generation of a row, or of the filter */
	uint32 from;       /* exact guards: rows of earlier generations may have been passed over */
	HTAB *repeated;    /* hashes that more than one row has, or may have */
	MemoryContext context;
};

/* Rows of one hash that have come and gone; in a window of time with their generations. */
struct KeyChanges
{
	int64 come;
	int64 gone;
	const uint32 *come_in;
	const uint32 *gone_in;
};

extern RebuiltKeys StartRebuiltKeys(const LiveFilter &filter, bool exact, MemoryContext context);

/*
 * Two rows that were loaded, one after the other, have the same hash; the order is that of their
 * generations.
 */
extern void NoteRepeatedRows(RebuiltKeys *keys, uint64 hash, uint32 before, uint32 generation);

/* Returns whether one of the rows that have come may have the key of another row. */
extern bool ApplyKeyChanges(RebuiltKeys *keys, uint64 hash, const KeyChanges &changes);

#endif /* STREAMDEDUP_GUARD_REBUILD_KEYS_HPP */
