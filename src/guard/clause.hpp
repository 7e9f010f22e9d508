/*
 * What a guard goes by, as its triggers say it (clause.cpp).
 *
 * The WHEN clause of the trigger BEFORE DELETE is always true. It names what the server
 * must keep track of through renames and dumps, and map for each partition: an OR of
 *
 *   'filter'::regclass IS NOT NULL     the first
 *   (element) IS NULL                  for each element of the key: a column, or an
 *                                      expression over the columns of the row
 *   OLD.column IS NOT NULL             the boolean column that marks duplicates
 *   (predicate) IS NOT TRUE            which rows are guarded
 *   (time) IS NOT NULL                 when the row's event was, timestamptz
 *   'table'::regclass IS NULL          where refused rows go
 *
 * Each wraps what the user wrote, so that no OR of his becomes one of ours. The server stops at
 * the first, so the rest is never computed there.
 *
 * The arguments of the trigger BEFORE INSERT OR UPDATE are the mode, the constraint name for
 * errors, and the words of options.
 */
#ifndef STREAMDEDUP_GUARD_CLAUSE_HPP
#define STREAMDEDUP_GUARD_CLAUSE_HPP

#include "live/live.hpp"
#include "pg/keys.hpp"

extern "C" {
#include "nodes/execnodes.h"
#include "nodes/pg_list.h"
#include "nodes/primnodes.h"
#include "utils/rel.h"
}

enum class GuardMode
{
	Skip,   /* leave the row out */
	Reject, /* 23505 */
	Mark,   /* set a column */
	Divert  /* put the row into another table */
};

struct GuardOptions
{
	bool exact;              /* what the filter may have seen is looked for in the table */
	bool nulls_not_distinct; /* NULL is a value like any other */
	bool skip_too_old;       /* rows older than the window are left out */
	bool forget;             /* rows that go free their keys */
};

/* Whether a row has a key of its own only as long as it is not marked. */
static inline bool
FollowsMarks(const GuardOptions &options)
{
	return options.exact || options.forget;
}

/* What a NULL in the key means to a guard. */
static inline NullKeys
NullsOf(const GuardOptions &options)
{
	return options.nulls_not_distinct ? NullKeys::Equal : NullKeys::Skip;
}

/* The words of options, in the order of the fields. */
constexpr int kGuardOptions = 4;
extern const char *const guard_option_words[kGuardOptions];

/* The option of a number. */
extern bool &GuardOption(GuardOptions *options, int number);

/* Reads the words behind the mode and the constraint name. Returns a flaw, or NULL. */
extern const char *ReadGuardOptions(const char *const *words, int n, GuardOptions *options);

extern bool ReadGuardMode(const char *text, GuardMode *mode);
extern const char *GuardModeName(GuardMode mode);

struct GuardClause
{
	Oid filter;
	Oid side;                           /* the table that refused rows go into, or InvalidOid */
	int columns;                        /* elements of the key */
	AttrNumber attnums[INDEX_MAX_KEYS]; /* 0: the element is an expression */
	Expr *expressions[INDEX_MAX_KEYS];  /* NULL: it is a column */
	Oid types[INDEX_MAX_KEYS];
	Oid collations[INDEX_MAX_KEYS];
	AttrNumber mark; /* column that says whether the row is a duplicate, or 0 */
	Expr *where;     /* NULL: all rows are guarded */
	Expr *at;        /* NULL: the time is the clock's */
	NullKeys nulls;  /* an option: not in the clause itself */
	bool needs_time; /* the same: rows without a time do not count */

	/* The columns of key, predicate and time, each once; the guard index has these. */
	int used_count;
	AttrNumber used[INDEX_MAX_KEYS];
};

/* Whether a row is more than its key, or that more than columns. */
static inline bool
IsComputed(const GuardClause &clause)
{
	if (clause.where != NULL || clause.at != NULL)
		return true;
	for (int i = 0; i < clause.columns; i++)
		if (clause.expressions[i] != NULL)
			return true;
	return false;
}

/* Sets what the options of a guard mean to its clause. */
static inline void
ApplyOptions(const GuardOptions &options, GuardClause *clause)
{
	clause->nulls = NullsOf(options);
	clause->needs_time = options.exact && clause->at != NULL;
}

/* Whether options and clause agree; returns a flaw, or NULL. */
extern const char *FlawOfOptions(const GuardOptions &options, const GuardClause &clause);

/* Why a live filter with these parameters cannot serve a guard; a flaw, or NULL. */
extern const char *FlawOfFilter(const LiveParameters &parameters, const GuardOptions &options,
								const GuardClause &clause);

/* Reads a clause as pg_trigger has it; returns a flaw, or NULL. Options are not filled in. */
extern const char *ReadClause(const char *qual, GuardClause *clause);
extern bool ReadGuardClause(const char *qual, GuardClause *clause);

/*
 * Reads the clause of a trigger that says how the shards of a distributed table are guarded
 * (distributed.hpp): the same without filter and side table, always false, and joined by AND.
 */
extern bool ReadClauseWithoutFilter(const char *qual, GuardClause *clause);

/*
 * Sets `used` by the rest of a clause. Returns a flaw, or NULL: too many columns, a whole row,
 * a system column.
 */
extern const char *FindUsedColumns(GuardClause *clause);

/* Holds a clause against the table and the filter as they are now. Returns a flaw, or NULL. */
extern const char *FlawOfClause(Relation rel, const GuardClause &clause);

/*
 * Why an expression over a table, or one of a clause, cannot be computed for a guard; a flaw, or
 * NULL. Functions of constants are called, as the table's owner.
 */
extern const char *FlawOfExpression(Relation rel, const Expr *expression);
extern const char *FlawOfExpressions(Relation rel, const GuardClause &clause);

/*
 * Makes the clause of a guard of `from` one of another table, by the names of columns, which
 * must have the same types. Returns false if `to` does not have them all. What is new lives in
 * the current memory.
 */
extern bool MapGuardClause(const GuardClause &clause, Relation from, Relation to,
						   GuardClause *mapped);

/* An element of a key, or another expression of a clause, as SQL over the table. */
extern char *ElementText(Oid table, const GuardClause &clause, int element);
extern char *ExpressionText(Oid table, const Expr *expression);

/* "a, lower(b)" */
extern char *ElementsText(Oid table, const GuardClause &clause);

#endif /* STREAMDEDUP_GUARD_CLAUSE_HPP */
