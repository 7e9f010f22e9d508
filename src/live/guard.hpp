/*
 * What the parts of the guard share.
 *
 * A guarded table has three objects:
 *
 *   trigger ~dedup_guard          BEFORE INSERT OR UPDATE, each row; its arguments are
 *                                 the mode and the constraint name for errors
 *   trigger ~dedup_guard_delete   BEFORE DELETE, each row; its WHEN clause, which is
 *                                 always true, names the filter and the columns
 *   index <table>_dedup_guard     of access method streamdedup_guard on the key columns:
 *                                 stores nothing, tells us that a row landed
 *
 * The clause is the guard's description: the server keeps its references through
 * renames and dumps, maps them for each partition, and refuses to drop or alter what
 * they point to. It is on the trigger that single-row statements fire least, since
 * the server reads a clause anew for every statement that fires its trigger.
 */
#ifndef STREAMDEDUP_LIVE_GUARD_HPP
#define STREAMDEDUP_LIVE_GUARD_HPP

#include "live/live.hpp"

extern "C" {
#include "storage/itemptr.h"
#include "utils/reltrigger.h"
}

struct KeyPlan;

#define GUARD_ACCESS_METHOD "streamdedup_guard"
#define GUARD_FUNCTION "dedup_guard_trigger"

/* Triggers fire in the order of their names' bytes: these after every usual one. */
#define GUARD_TRIGGER "~dedup_guard"
#define GUARD_DELETE_TRIGGER "~dedup_guard_delete"

enum class GuardMode
{
	Skip,						/* leave the row out */
	Reject,						/* 23505 */
	Mark						/* set a column */
};

/* ---- what a table's guard is (guard_plan.cpp) ------------------------------- */

/* The triggers of a guarded table. */
struct GuardTriggers
{
	const Trigger *write;		/* BEFORE INSERT OR UPDATE */
	const Trigger *remove;		/* BEFORE DELETE */
};

/*
 * Finds the triggers of a table that call `function`; either can be missing. A trigger
 * that cannot be part of a guard, or is its second one of a kind, is an error (55000).
 */
extern GuardTriggers FindGuardTriggers(Relation rel, Oid function);

/* What a guard's WHEN clause says. */
struct GuardClause
{
	Oid			filter;
	int			columns;
	AttrNumber	attnums[INDEX_MAX_KEYS];
	Oid			types[INDEX_MAX_KEYS];
	Oid			collations[INDEX_MAX_KEYS];
	AttrNumber	mark;			/* column that says whether the row is a duplicate, or 0 */
};

/*
 * Whether an index is a guard index that is in use and sees every change of the key: of
 * plain columns, with the key's among them, and of all rows.
 */
extern bool IsUsableGuardIndex(Oid index, Oid access_method, int columns,
							   const AttrNumber *attnums);

/* What a guard does on one table, by its triggers. Cached by the write trigger. */
struct GuardPlan
{
	const char *qual;			/* the clause, mode and constraint name it was made from */
	const char *mode_text;
	const char *constraint;
	Oid			guarded;		/* the table that dedup_guard() was called for */
	GuardMode	mode;
	GuardClause clause;
	KeyPlan    *keys;
	int16		typlen[INDEX_MAX_KEYS];
	bool		typbyval[INDEX_MAX_KEYS];
};

/*
 * The plan of a table's guard, whose triggers call `function`; kept until the end of the
 * transaction at least. Call it once a query: it holds the guard against the table's
 * columns as they are now. 55000 if there is no guard, or one that dedup_guard() does not
 * make, by whoever it was made or altered.
 */
extern const GuardPlan *GetGuardPlan(Relation rel, Oid function);

/* The same, but NULL where GetGuardPlan() raises an error. */
extern const GuardPlan *FindGuardPlan(Relation rel, Oid function);

/*
 * Checks, once a query, that we will be told what lands in this table; learns whether
 * that is final: `may_kill` becomes true if not, and is left alone otherwise.
 */
extern void CheckGuardedTable(Relation rel, const GuardClause &clause, bool *may_kill);

/* 55000. `flaw` is the DETAIL: a sentence, not translated yet. */
[[noreturn]] extern void ReportIncompleteGuard(Relation rel, const char *flaw = NULL);
[[noreturn]] extern void ReportNoGuardTrigger(Relation rel, const Trigger *trigger,
											  const char *flaw);

/* Between transactions: throws the plans away if they have become too many. */
extern void TrimGuardPlans(void);

/* ---- rows that have not landed yet (guard_rows.cpp) -------------------------- */

/*
 * A row that a query is working on; lives in the query's per-tuple memory, and in the
 * list until that is reset.
 */
struct GuardRow
{
	MemoryContextCallback over;
	GuardRow   *below;
	MemoryContext context;
	int			level;			/* nesting of the query's (sub)transaction */
	Oid			heap;			/* where it goes */

	/* The row of a partition that BEFORE UPDATE has fired for: only it can move. */
	Oid			updated_in;
	ItemPointerData updated;

	/* Deleted, and not inserted elsewhere yet: its key then. */
	bool		moving;
	bool		had_key;
	Oid			guarded;		/* by whose guard; another's INSERT is no move */
	Oid			filter;
	uint64		hash;
};

/* The row that the calling trigger is fired for, if an earlier trigger entered it. */
extern GuardRow *FindGuardRow(void);

/* Enters that row, unless `row` is it already, as on its way to `rel`. */
extern GuardRow *EnterGuardRow(GuardRow *row, Relation rel);

/* The key is new, or the row is marked: it counts, unless the row does not land. */
extern void NoteGuardRow(GuardRow *row, const LiveFilter &filter, LiveCounter counted,
						 uint64 hash, bool may_kill);

/*
 * Whether any row is noted. While one is, each row is entered, even without a key, so
 * that none of an outer query's is taken for it when it lands.
 */
extern bool HaveGuardNotes(void);

/*
 * Whether this key was added for the row, and noted. If so, the note goes along with the
 * row: it is now about the table that the row was entered for last.
 */
extern bool MoveGuardNote(const GuardRow *row, Oid filter, uint64 hash);

/* Decides about the key of a row in hand, if not NULL, which did not land as it was. */
extern void SettleGuardRow(GuardRow *row);

/* Before a (sub)transaction of this nesting level commits. */
extern void SettleGuardLevel(int level);

/* After it has ended. */
extern void ForgetGuardLevel(int level);

/* A filter that the caller may use because it is in use, by his own guard. */
extern LiveFilter OpenLiveUnchecked(Oid filter, LOCKMODE lock);

/* Called by the guard index for every row that has got into a table. */
extern void GuardRowLanded(Relation heap, ItemPointer tid);

/* ---- rows that move to another partition (guard_moves.cpp) ------------------- */

/* Whether the calling BEFORE INSERT trigger is fired for a row that an UPDATE moves. */
extern bool IsGuardFiredByUpdate(void);

/*
 * In workers that apply changes: remembers the key of a row that was deleted in this
 * transaction; takes a key from those, and returns whether it was among them.
 */
extern void RememberMovedKey(Oid filter, uint64 hash);
extern bool TakeMovedKey(Oid filter, uint64 hash);

/* At the end of a transaction. */
extern void ForgetMovedKeys(void);

/* Installs a hook; once, from InitLiveGuard(). */
extern void InitGuardMoves(void);

#endif							/* STREAMDEDUP_LIVE_GUARD_HPP */
