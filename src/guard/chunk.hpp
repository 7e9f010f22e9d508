/*
 * Chunks of TimescaleDB's hypertables: tables that inherit from the hypertable, each for a slice of
 * time. TimescaleDB is not needed to compile or to run this code.
 */
#ifndef STREAMDEDUP_GUARD_CHUNK_HPP
#define STREAMDEDUP_GUARD_CHUNK_HPP

#include "pg/pg.hpp"

extern "C" {
#include "utils/timestamp.h"
}

/* The times from `from` (inclusive) to `to` (exclusive). */
struct TimeBounds
{
	TimestampTz from; /* DT_NOBEGIN: no lower bound */
	TimestampTz to;   /* DT_NOEND: no upper bound */
};

/*
 * Returns the times that rows of a table can have in a timestamptz column, by the table's valid
 * CHECK constraints. TimescaleDB puts such constraints on its chunks. Returns all times if the
 * column can be NULL. Needs no lock: a session that has changed a constraint and inserts rows keeps
 * other writers of the guarded table out until they have been notified of the change (exact.cpp).
 */
extern TimeBounds CheckedTimes(Oid table, const char *column);

/* Returns whether TimescaleDB lists a table as a chunk. */
extern bool IsChunk(Oid table);

/* Returns whether TimescaleDB lists a table as a chunk with compressed rows. */
extern bool IsCompressed(Oid table);

/* Raises 0A000 if a table is a chunk with compressed rows, which are in no index of the table. */
extern void RequireUncompressed(Oid table);

#endif /* STREAMDEDUP_GUARD_CHUNK_HPP */
