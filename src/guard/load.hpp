/* Adds the keys of the rows in guarded tables to the guard's filter (load.cpp). */
#ifndef STREAMDEDUP_GUARD_LOAD_HPP
#define STREAMDEDUP_GUARD_LOAD_HPP

#include "guard/table_keys.hpp"

extern "C" {
#include "nodes/parsenodes.h"
}

struct GuardRequest;

struct GuardLoad
{
	const char *function; /* the function that is called; for errors */
	bool exact;
	bool unique;      /* rows with equal keys raise an error; else a NOTICE counts them */
	bool refuse_rows; /* every row with a key raises an error */
	Oid guarded;      /* a partition is attached to this guarded table; else InvalidOid */
};

/*
 * Adds the keys of all rows of a table and its partitions to the guard's filter. All of them must
 * be locked, so that no other session writes to them. After a load for an exact guard, the filter
 * covers its table.
 */
extern void LoadGuardedRows(Relation rel, const GuardClause &clause, const GuardLoad &how);

/*
 * Raises 0A000 if the keys of a table's rows cannot be read, because it is a compressed chunk and
 * not all of its rows are older than the window of the filter. Returns the generation from which on
 * they can be read: 0 if all can.
 */
extern uint32 RequireReadable(const TableKeys &keys, const LiveFilter &filter, Oid table);

/* Does what dedup_guard() does with existing rows, unless they are only counted. */
extern void LoadForGuard(Relation rel, const GuardRequest &request);

/*
 * Called when a command makes a table a partition or child below a guarded table, whose clause is
 * mapped to it. If the guard is exact, locks the guarded table, loads the keys of the rows in the
 * new table, and compares them with those of the other tables. Returns whether the guard is exact.
 */
extern bool LoadAttachedRows(Relation rel, const GuardClause &clause, Oid guarded,
							 const char *command);

/* A guarded table whose keys are read, and the tables with rows below it. */
struct KeySource
{
	TableKeys keys;
	List *tables; /* OIDs */
};

struct RebuildLoad
{
	bool unique; /* rows with equal keys raise an error; then there is only one source */

	/*
	 * Called for every two consecutive rows with the same hash, with the generations of their
	 * times, the older one first.
	 */
	void (*repeats_hash)(void *arg, uint64 hash, uint32 before, uint32 generation);
	void *arg;
};

/* In a window of time: the filter's state after keys were loaded. */
struct LoadedTimes
{
	uint32 newest; /* generation of a row, or of the filter */
	uint32 from;   /* rows of earlier generations may have been skipped */
};

/*
 * Returns the generation of the time of a row. `now` is that of rows without a time, under
 * approximate guards.
 */
extern uint32 GenerationOfRow(const LiveFilter &filter, const GuardKey &key, bool exact,
							  TimestampTz now);

/*
 * Adds the keys of all rows that a snapshot shows to a filter that no other session uses. The
 * progress report continues afterwards; the caller must end it.
 */
extern LoadedTimes LoadBySnapshot(const List *sources, const LiveFilter &filter, Snapshot snapshot,
								  const RebuildLoad &how);

/*
 * Returns whether another row of a table with an exact guard has the key of this one. Uses the
 * search indexes.
 */
extern bool HasTwin(Oid guarded, const TableKeys &keys, const KeyRow &row);

/*
 * Called before a table with rows is attached below a table with an exact guard. Locks the table
 * that has the guard before all others, so that a session that writes through it cannot cause a
 * deadlock.
 */
extern void LockForAttach(const AlterTableStmt *statement);

#endif /* STREAMDEDUP_GUARD_LOAD_HPP */
