/*
 * Adding the keys of the rows that are in guarded tables to the guard's filter (load.cpp).
 */
#ifndef STREAMDEDUP_GUARD_LOAD_HPP
#define STREAMDEDUP_GUARD_LOAD_HPP

#include "guard/table_keys.hpp"

extern "C" {
#include "nodes/parsenodes.h"
}

struct GuardRequest;

struct GuardLoad
{
	const char *function; /* that is called; for errors */
	bool exact;
	bool unique;      /* rows with equal keys are an error; else a NOTICE counts them */
	bool refuse_rows; /* so is every row with a key */
	Oid guarded;      /* a partition is attached to this guarded table; else InvalidOid */
};

/*
 * Adds the keys of all rows of a table and its partitions to the guard's filter. All of them
 * are locked, so that nobody writes to them. After a load for an exact guard the filter covers
 * its table.
 */
extern void LoadGuardedRows(Relation rel, const GuardClause &clause, const GuardLoad &how);

/*
 * Raises 0A000 if the keys of a table's rows cannot be read: it is a compressed chunk, and not
 * all of its rows are older than the window of the filter. Returns the generation from which on
 * they can: 0 if all.
 */
extern uint32 RequireReadable(const TableKeys &keys, const LiveFilter &filter, Oid table);

/* What dedup_guard() does with the rows that are there, if they are not only counted. */
extern void LoadForGuard(Relation rel, const GuardRequest &request);

/*
 * A table becomes a partition or child below a guarded table, whose clause is mapped to it, by
 * a command. If the guard is exact: locks the guarded table, loads the keys of the rows that
 * it brings along, and holds them against the rest of the table. Returns whether it is.
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
	bool unique; /* rows with equal keys are an error; then there is one source */

	/*
	 * Called for each two rows with the same hash, one after the other, with the generations of
	 * their times, the older one first.
	 */
	void (*repeats_hash)(void *arg, uint64 hash, uint32 before, uint32 generation);
	void *arg;
};

/* In a window of time: what the filter knows when keys were loaded. */
struct LoadedTimes
{
	uint32 newest; /* generation of a row, or of the filter */
	uint32 from;   /* rows of earlier generations may have been passed over */
};

/* The generation of the time of a row; `now`: that of rows of approximate guards without one. */
extern uint32 GenerationOfRow(const LiveFilter &filter, const GuardKey &key, bool exact,
							  TimestampTz now);

/*
 * Adds the keys of all rows that a snapshot shows to a filter that nobody else uses. The
 * report of progress goes on when this is done: to be ended by the caller.
 */
extern LoadedTimes LoadBySnapshot(const List *sources, const LiveFilter &filter, Snapshot snapshot,
								  const RebuildLoad &how);

/*
 * Whether another row of a table with an exact guard has the key of this one, by the search
 * indexes.
 */
extern bool HasTwin(Oid guarded, const TableKeys &keys, const KeyRow &row);

/*
 * Before a table with rows is attached below a table with an exact guard, locks the table
 * that has the guard: before all others, so that nobody who writes through it is in the way.
 */
extern void LockForAttach(const AlterTableStmt *statement);

#endif /* STREAMDEDUP_GUARD_LOAD_HPP */
