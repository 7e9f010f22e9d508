/*
 * Chunks of TimescaleDB's hypertables: tables that inherit from the hypertable, each for a
 * slice of time. Nothing of TimescaleDB is needed to compile this or to run it.
 */
#ifndef STREAMDEDUP_GUARD_CHUNK_HPP
#define STREAMDEDUP_GUARD_CHUNK_HPP

#include "pg/pg.hpp"

extern "C" {
#include "utils/timestamp.h"
}

/* Times from one, inclusive, to another, exclusive. */
struct TimeBounds
{
	TimestampTz from; /* DT_NOBEGIN: none */
	TimestampTz to;   /* DT_NOEND: none */
};

/*
 * The times that rows of a table can have in a timestamptz column, by the table's valid CHECK
 * constraints: what TimescaleDB puts on its chunks. All times if the column can be NULL. Needs no
 * lock: whoever has changed a constraint and inserts keeps other writers of the guarded table
 * out until they have heard of the change (exact.cpp).
 */
extern TimeBounds CheckedTimes(Oid table, const char *column);

/* Whether TimescaleDB says that a table is a chunk. */
extern bool IsChunk(Oid table);

/* Whether it is one with compressed rows. */
extern bool IsCompressed(Oid table);

/* Raises 0A000 if a table is a chunk with compressed rows, which no index of the table has. */
extern void RequireUncompressed(Oid table);

#endif /* STREAMDEDUP_GUARD_CHUNK_HPP */
