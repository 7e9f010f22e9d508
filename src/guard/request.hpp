/*
 * The arguments of dedup_guard() (request.cpp). They are read, and checked against the table and
 * the filter, before any object is made.
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
	RangeVar *side;   /* the table for refused rows, or NULL */
	bool load;        /* add the keys of existing rows */
};

/*
 * Reads an expression over the columns of a table, which is locked. It must be immutable, without
 * subqueries, aggregates and the like. `boolean`: it is a condition. Errors name the argument.
 */
extern Expr *ReadExpression(Relation rel, const char *text, const char *argument, bool boolean);

/* Raises an error if a column is generated. The hint shows its expression. */
extern void RefuseGeneratedColumn(Relation rel, AttrNumber attnum);

/* Raises an error unless the table can get a guard. `function` is the guard's. */
extern void CheckTable(Relation rel, Oid function);

/* Does the same for its partitions, which it locks. Warns about effects of the mode on upserts. */
extern void CheckTables(Relation rel, Oid function, const GuardRequest &request);

/* Returns whether the current role has the rights of the table's owner. */
extern bool OwnsTable(Oid relid);

/* Opens a table with a lock. Raises an error if the caller does not own it. */
extern Relation OpenOwnTable(Oid relid, LOCKMODE lock);

/* Raises an error unless the relation is a live filter. */
extern void CheckIsFilter(Oid filter);

/* Raises an error unless the filter, which is locked, can guard the table. */
extern void CheckFilter(Relation rel, Oid filter);

/*
 * Checks the rules of exact guards: the filter is a set and guards nothing else, and every table
 * below this one can be searched. All are locked.
 */
extern void CheckExact(Relation rel, const GuardRequest &request);

/* Raises an error if the table survives a crash and the filter does not. */
extern void RequireLoggedAlike(Relation table, Oid filter);

/* Reads the elements of the key. */
extern void ReadColumns(Relation rel, ArrayType *array, GuardRequest *request);

/* Read the predicate, the time, and options; NULL for those that are not given. */
extern void ReadWhere(Relation rel, const char *text, GuardRequest *request);
extern void ReadTime(Relation rel, const char *text, GuardRequest *request);
extern void ReadTooOld(const char *text, GuardRequest *request);
extern void ReadOnDelete(const char *text, GuardRequest *request);
extern void ReadNullsNotDistinct(bool value, GuardRequest *request);

/* Completes the clause after all of it was read. */
extern void FinishRequest(Relation rel, GuardRequest *request);

/* Reads the value of on_duplicate, after the others were read. */
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

/* Raises an error if an argument is NULL that must not be NULL. */
extern void CheckGuardArguments(FunctionCallInfo fcinfo);

/* Returns an argument of type text, or NULL. */
extern const char *TextArgument(FunctionCallInfo fcinfo, int argument);

/* Raises an error for an argument that has a name here and is NULL. */
extern void CheckNotNull(FunctionCallInfo fcinfo, int arguments, const char *const *names);

/* Runs the commands that are not NULL. */
extern void RunAll(char *const *commands, int n);

/*
 * Appends the parts of a clause (clause.hpp) about the rows of a table, each behind `joiner`: key,
 * mark, condition and time.
 */
extern void AppendClauseParts(StringInfo command, Relation rel, const GuardRequest &request,
							  const char *joiner);

#endif /* STREAMDEDUP_GUARD_REQUEST_HPP */
