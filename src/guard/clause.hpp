/*
 * The definition of a guard, as it is stored in its triggers (clause.cpp).
 *
 * The WHEN clause of the trigger BEFORE DELETE is always true. It names the objects that the server
 * must follow through renames and dumps, and map for each partition. It is an OR of
 *
 *   'filter'::regclass IS NOT NULL     the first
 *   (element) IS NULL                  for each element of the key: a column, or an
 *                                      expression over the columns of the row
 *   OLD.column IS NOT NULL             the boolean column that marks duplicates
 *   (predicate) IS NOT TRUE            which rows are guarded
 *   (time) IS NOT NULL                 when the row's event was, timestamptz
 *   'table'::regclass IS NULL          the side table for refused rows
 *
 * Each part encloses the user's text in parentheses, so that an OR in it does not become one of
 * ours. The server stops at the first part, so the others are never computed there.
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
	Reject, /* raise 23505 */
	Mark,   /* set a column */
	Divert  /* put the row into another table */
};

struct GuardOptions
{
	/* exact guard: if the filter may have seen a key, the table is searched for it */
	bool exact;
	bool nulls_not_distinct; /* NULL is a value like any other */
	bool skip_too_old;       /* rows older than the window are left out */
	bool forget;             /* deleted rows free their keys */
};

/* Returns whether a row has a key of its own only as long as it is not marked. */
static inline bool
FollowsMarks(const GuardOptions &options)
{
	return options.exact || options.forget;
}

/* Returns what a NULL in the key means to a guard. */
static inline NullKeys
NullsOf(const GuardOptions &options)
{
	return options.nulls_not_distinct ? NullKeys::Equal : NullKeys::Skip;
}

/* The words of options, in the order of the fields. */
constexpr int kGuardOptions = 4;
extern const char *const guard_option_words[kGuardOptions];

/* Returns the option with this number. */
extern bool &GuardOption(GuardOptions *options, int number);

/* Reads the words behind the mode and the constraint name. Returns a flaw, or NULL. */
extern const char *ReadGuardOptions(const char *const *words, int n, GuardOptions *options);

extern bool ReadGuardMode(const char *text, GuardMode *mode);
extern const char *GuardModeName(GuardMode mode);

struct GuardClause
{
	Oid filter;
	Oid side;                           /* the side table for refused rows, or InvalidOid */
	int columns;                        /* elements of the key */
	AttrNumber attnums[INDEX_MAX_KEYS]; /* 0: the element is an expression */
	Expr *expressions[INDEX_MAX_KEYS];  /* NULL: it is a column */
	Oid types[INDEX_MAX_KEYS];
	Oid collations[INDEX_MAX_KEYS];
	AttrNumber mark; /* the column that marks a row as a duplicate, or 0 */
	Expr *where;     /* NULL: all rows are guarded */
	Expr *at;        /* NULL: the time is the clock's */
	NullKeys nulls;  /* from the options; it is not in the clause itself */
	bool needs_time; /* from the options: rows without a time do not count */

	/* The columns of key, predicate and time, each once. The guard index has these columns. */
	int used_count;
	AttrNumber used[INDEX_MAX_KEYS];
};

/*
 * Returns whether expressions must be computed to read a row: the clause has more than a key of
 * columns.
 */
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

/* Applies the options of a guard to its clause. */
static inline void
ApplyOptions(const GuardOptions &options, GuardClause *clause)
{
	clause->nulls = NullsOf(options);
	clause->needs_time = options.exact && clause->at != NULL;
}

/* Checks whether options and clause are consistent. Returns a flaw, or NULL. */
extern const char *FlawOfOptions(const GuardOptions &options, const GuardClause &clause);

/* Checks whether a live filter with these parameters can serve a guard. Returns a flaw, or NULL. */
extern const char *FlawOfFilter(const LiveParameters &parameters, const GuardOptions &options,
								const GuardClause &clause);

/* Reads a clause from pg_trigger. Returns a flaw, or NULL. Does not set the options. */
extern const char *ReadClause(const char *qual, GuardClause *clause);
extern bool ReadGuardClause(const char *qual, GuardClause *clause);

/*
 * Reads the clause of a trigger that defines the guards of a distributed table's shards
 * (distributed.hpp). It has the same parts except the filter and the side table, is always false,
 * and its parts are joined by AND.
 */
extern bool ReadClauseWithoutFilter(const char *qual, GuardClause *clause);

/*
 * Sets `used` from the other parts of a clause. Returns a flaw, or NULL. Flaws are too many
 * columns, a whole row, and a system column.
 */
extern const char *FindUsedColumns(GuardClause *clause);

/* Checks a clause against the current table and filter. Returns a flaw, or NULL. */
extern const char *FlawOfClause(Relation rel, const GuardClause &clause);

/*
 * Checks whether an expression over a table, or one of a clause, can be computed for a guard.
 * Returns a flaw, or NULL. Functions of constants are called, with the rights of the table's owner.
 */
extern const char *FlawOfExpression(Relation rel, const Expr *expression);
extern const char *FlawOfExpressions(Relation rel, const GuardClause &clause);

/*
 * Maps the clause of a guard of `from` to another table, by the names of columns, which must have
 * the same types. Returns false if `to` lacks one of them. New data is allocated in the current
 * memory context.
 */
extern bool MapGuardClause(const GuardClause &clause, Relation from, Relation to,
						   GuardClause *mapped);

/* Returns an element of a key, or another expression of a clause, as SQL over the table. */
extern char *ElementText(Oid table, const GuardClause &clause, int element);
extern char *ExpressionText(Oid table, const Expr *expression);

/* Returns the elements of a key as SQL: "a, lower(b)". */
extern char *ElementsText(Oid table, const GuardClause &clause);

#endif /* STREAMDEDUP_GUARD_CLAUSE_HPP */
