/*
 * What dedup_guard() is asked for (request.cpp): read, and held against the table and the
 * filter, before anything is made.
 */
#ifndef STREAMDEDUP_GUARD_REQUEST_HPP
#define STREAMDEDUP_GUARD_REQUEST_HPP

#include "guard/guard.hpp"

extern "C" {
#include "utils/array.h"
}

struct GuardRequest
{
	Oid filter;
	int columns;
	const char *names[INDEX_MAX_KEYS];
	AttrNumber attnums[INDEX_MAX_KEYS];
	GuardMode mode;
	const char *mark; /* column name, or NULL */
	AttrNumber mark_attnum;
	bool exact;
	bool load; /* add the keys of the rows that are there */
};

/* Raises an error unless the table can get a guard; `function` is the guard's. */
extern void CheckTable(Relation rel, Oid function);

/* The same for its partitions, which it locks; warns of what the mode does to upserts. */
extern void CheckTables(Relation rel, Oid function, const GuardRequest &request);

/* Whether the current role has the rights of the table's owner. */
extern bool OwnsTable(Oid relid);

/* Opens a table with a lock. Raises an error if the caller does not own it. */
extern Relation OpenOwnTable(Oid relid, LOCKMODE lock);

/* Raises an error unless the relation is a live filter. */
extern void CheckIsFilter(Oid filter);

/* Raises an error unless the filter, which is locked, can guard the table. */
extern void CheckFilter(Relation rel, Oid filter);

/*
 * The rules of exact guards: the filter is a set and guards nothing else, and every table
 * below this one can be searched. All are locked.
 */
extern void CheckExact(Relation rel, const GuardRequest &request);

/* Raises an error for a table that outlives a crash with a filter that does not. */
extern void RequireLoggedAlike(Relation table, Oid filter);

/* Reads the key columns, and the value of on_duplicate. */
extern void ReadColumns(Relation rel, ArrayType *array, GuardRequest *request);
extern void ReadRequestedMode(Relation rel, const char *text, GuardRequest *request);

#endif /* STREAMDEDUP_GUARD_REQUEST_HPP */
