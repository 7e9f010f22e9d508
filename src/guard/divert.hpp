/*
 * Guards in mode divert: a refused row is put into a side table.
 *
 * A side table has columns of the guarded table, which are found by their names and types, and
 *
 *   refused_at timestamptz   the time of the refusal
 *   refused_by regclass      the table whose guard refused the row: the one for which
 *                            dedup_guard() was called, or the one below it for the row, if
 *                            that inherits
 *   rest jsonb               the values of columns that the side table does not have
 *
 * side_table.cpp makes and checks side tables, divert.cpp writes rows into them, and readmit.cpp
 * brings rows back.
 */
#ifndef STREAMDEDUP_GUARD_DIVERT_HPP
#define STREAMDEDUP_GUARD_DIVERT_HPP

#include "guard/guard.hpp"

extern "C" {
#include "executor/tuptable.h"
#include "nodes/primnodes.h"
}

struct GuardRequest;

#define SIDE_AT "refused_at"
#define SIDE_BY "refused_by"
#define SIDE_REST "rest"

/* ---- side tables (side_table.cpp) -------------------------------------------------- */

/*
 * Returns whether a name is one of these. A column of the guarded table with such a name is stored
 * in `rest`.
 */
extern bool IsSideColumn(const char *name);

/* Returns the number of a column, by its name, or 0. */
extern AttrNumber ColumnByName(TupleDesc desc, const char *name);

/* Returns why a table cannot take the rows that the guard of `guarded` refuses, or NULL. */
extern const char *FlawOfSideTable(Relation side, Oid guarded);

/* Does the same for a table that may have been dropped. Needs no lock. For a view. */
extern const char *FlawOfSideTableId(Oid side, Oid guarded);

/* Reads the text behind the colon of divert:table. NULL: the table is not named. */
extern void ReadSideTable(Relation rel, const char *name, GuardRequest *request);

/* Makes the side table of a request if there is none, and checks it. */
extern void MakeSideTable(Relation rel, GuardRequest *request);

/*
 * Raises an error if refused rows of another table are put into this one: then it cannot be
 * guarded.
 */
extern void CheckIsNoSideTable(Relation rel);

/* Raises 55000. `flaw` is the DETAIL: a sentence that is not translated yet. */
[[noreturn]] extern void ReportSideTable(Oid side, Oid guarded, const char *flaw);

/* ---- writing (divert.cpp) ------------------------------------------------------------ */

/* The data that a query keeps about the side table of one table. */
struct DivertSite;

/*
 * Puts a refused row into the side table, as the owner of the guarded table. Raises an error if the
 * row is not kept there. `site` is NULL at first, and is allocated in `query`.
 */
extern void DivertRow(DivertSite **site, MemoryContext query, const GuardPlan *plan, Relation rel,
					  TupleTableSlot *slot);

/*
 * Makes every session read the text form of values in the same way. This lasts until the end of the
 * nesting level of settings that the caller has begun.
 */
extern void SetPortableText(void);

/*
 * Returns the table into which a refused row is brought back. For partitions and chunks it is the
 * guarded table, which routes the row. For another table that inherits it is that table itself,
 * because it can have columns and constraints of its own, and no rows are routed to it.
 */
extern Oid WhereRowsReturn(const GuardPlan *plan, Relation rel);

/* ---- bringing back (readmit.cpp) ----------------------------------------------------- */

/*
 * Returns whether the row of the calling trigger is one that dedup_readmit() is inserting, which
 * the filter must not refuse.
 */
extern bool IsReadmitted(const GuardPlan *plan, uint64 hash);

/*
 * Returns whether the row that the calling trigger refuses is one that dedup_readmit() is
 * inserting. Such a row stays in the side table.
 */
extern bool StaysRefused(const GuardPlan *plan);

#endif /* STREAMDEDUP_GUARD_DIVERT_HPP */
