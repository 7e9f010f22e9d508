/*
 * Guards in mode divert: a refused row goes into a side table.
 *
 * A side table has columns of the guarded table, which are found by their names and types, and
 *
 *   refused_at timestamptz   when
 *   refused_by regclass      by the guard of which table: the one that dedup_guard() was called
 *                            for, or the one below it that the row was to go into, if that
 *                            inherits
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

/* Whether a name is one of these: a column of the guarded table with it goes into `rest`. */
extern bool IsSideColumn(const char *name);

/* Returns a column by its name, or 0. */
extern AttrNumber ColumnByName(TupleDesc desc, const char *name);

/* Returns why a table cannot take the rows that the guard of `guarded` refuses, or NULL. */
extern const char *FlawOfSideTable(Relation side, Oid guarded);

/* The same for a table that may be gone; needs no lock. For a view. */
extern const char *FlawOfSideTableId(Oid side, Oid guarded);

/* Reads what follows the colon of divert:table; NULL: the table is not named. */
extern void ReadSideTable(Relation rel, const char *name, GuardRequest *request);

/* Makes the side table of a request if there is none, and checks it. */
extern void MakeSideTable(Relation rel, GuardRequest *request);

/* Raises an error if refused rows of another table go into this one: it cannot be guarded. */
extern void CheckIsNoSideTable(Relation rel);

/* Raises 55000. `flaw` is the DETAIL: a sentence, not translated yet. */
[[noreturn]] extern void ReportSideTable(Oid side, Oid guarded, const char *flaw);

/* ---- writing (divert.cpp) ------------------------------------------------------------ */

/* What a query keeps of the side table of one table. */
struct DivertSite;

/*
 * Puts a refused row into the side table, as the owner of the guarded table. Raises an error if
 * the row is not kept there. `site` starts as NULL, and lives in `query`.
 */
extern void DivertRow(DivertSite **site, MemoryContext query, const GuardPlan *plan, Relation rel,
					  TupleTableSlot *slot);

/*
 * Makes the text form of values one that every session reads the same way, until the end of the
 * nesting level of settings that the caller has begun.
 */
extern void SetPortableText(void);

/*
 * The table into which a row comes back that was refused in another one. From partitions and
 * chunks that is the guarded table, which sends it where it belongs. A table that inherits can
 * have columns and constraints of its own, and nobody sends rows there.
 */
extern Oid WhereRowsReturn(const GuardPlan *plan, Relation rel);

/* ---- bringing back (readmit.cpp) ----------------------------------------------------- */

/*
 * Whether the row that the calling trigger is fired for is one that dedup_readmit() inserts just
 * now and that the filter may not refuse.
 */
extern bool IsReadmitted(const GuardPlan *plan, uint64 hash);

/*
 * Whether the row that the calling trigger refuses is one that dedup_readmit() inserts just now:
 * it stays where it is, in the side table.
 */
extern bool StaysRefused(const GuardPlan *plan);

#endif /* STREAMDEDUP_GUARD_DIVERT_HPP */
