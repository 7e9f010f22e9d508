/*
 * Adding the keys of the rows that are in guarded tables to the guard's filter (load.cpp).
 */
#ifndef STREAMDEDUP_GUARD_LOAD_HPP
#define STREAMDEDUP_GUARD_LOAD_HPP

#include "guard/guard.hpp"

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

/* What dedup_guard() does with the rows that are there, if they are not only counted. */
extern void LoadForGuard(Relation rel, const GuardRequest &request);

/*
 * A partition is attached below a guarded table, whose clause is mapped to the partition. If
 * the guard is exact: locks the guarded table, loads the keys of the partition's rows, and
 * holds them against the rest of the table. Returns whether it is.
 */
extern bool LoadAttachedRows(Relation rel, const GuardClause &clause, Oid guarded);

/*
 * Before a table with rows is attached below a table with an exact guard, locks the table
 * that has the guard: before all others, so that nobody who writes through it is in the way.
 */
extern void LockForAttach(const AlterTableStmt *statement);

#endif /* STREAMDEDUP_GUARD_LOAD_HPP */
