/*
 * What dedup_guard() is asked for (request.cpp): read, and held against the table and the
 * filter, before anything is made.
 */
#ifndef STREAMDEDUP_GUARD_REQUEST_HPP
#define STREAMDEDUP_GUARD_REQUEST_HPP

#include "guard/guard.hpp"

extern "C" {
#include "nodes/primnodes.h"
#include "utils/array.h"
}

struct GuardRequest
{
	GuardClause clause;
	GuardOptions options;
	GuardMode mode;
	const char *mark; /* column name, or NULL */
	RangeVar *side;   /* the table that refused rows go into, or NULL */
	bool load;        /* add the keys of the rows that are there */
};

/*
 * Reads an expression over the columns of a table, which is locked: immutable, without
 * subqueries, aggregates and the like. `boolean`: a condition. Errors name the argument.
 */
extern Expr *ReadExpression(Relation rel, const char *text, const char *argument, bool boolean);

/* Raises an error, whose hint is its expression, if a column is generated. */
extern void RefuseGeneratedColumn(Relation rel, AttrNumber attnum);

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

/* Reads the elements of the key. */
extern void ReadColumns(Relation rel, ArrayType *array, GuardRequest *request);

/* Reads the predicate, the time, and options; NULL for what is not given. */
extern void ReadWhere(Relation rel, const char *text, GuardRequest *request);
extern void ReadTime(Relation rel, const char *text, GuardRequest *request);
extern void ReadTooOld(const char *text, GuardRequest *request);
extern void ReadOnDelete(const char *text, GuardRequest *request);
extern void ReadNullsNotDistinct(bool value, GuardRequest *request);

/* Completes the clause when all of it was read. */
extern void FinishRequest(Relation rel, GuardRequest *request);

/* Reads the value of on_duplicate, when the rest was read. */
extern void ReadRequestedMode(Relation rel, const char *text, GuardRequest *request);

/* The arguments of dedup_guard(). */
enum GuardArgument
{
	ARG_TABLE,
	ARG_FILTER,
	ARG_COLUMNS,
	ARG_ON_DUPLICATE,
	ARG_EXACT,
	ARG_LOAD,
	ARG_WHERE,
	ARG_NULLS_NOT_DISTINCT,
	ARG_AT,
	ARG_TOO_OLD,
	ARG_ON_DELETE
};

/* Raises an error if one of them is NULL that must not be. */
extern void CheckGuardArguments(FunctionCallInfo fcinfo);

/* An argument of type text, or NULL. */
extern const char *TextArgument(FunctionCallInfo fcinfo, int argument);

/* Raises an error for an argument that has a name here and is NULL. */
extern void CheckNotNull(FunctionCallInfo fcinfo, int arguments, const char *const *names);

/* Runs those of some commands that are not NULL. */
extern void RunAll(char *const *commands, int n);

/*
 * Appends what a clause (clause.hpp) says of the rows of a table, each part behind `joiner`: key,
 * mark, condition and time.
 */
extern void AppendClauseParts(StringInfo command, Relation rel, const GuardRequest &request,
							  const char *joiner);

#endif /* STREAMDEDUP_GUARD_REQUEST_HPP */
