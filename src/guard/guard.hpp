/*
 * The common declarations of the guard.
 *
 * A guarded table has these objects:
 *
 *   trigger ~dedup_guard          BEFORE INSERT OR UPDATE, each row; its arguments are
 *                                 the mode, the constraint name for errors, and options
 *   trigger ~dedup_guard_delete   BEFORE DELETE, each row; its WHEN clause, which is
 *                                 always true, describes the guard (clause.hpp)
 *   trigger ~dedup_guard_forget   AFTER DELETE OR UPDATE, each row; and
 *   trigger ~dedup_guard_truncate AFTER TRUNCATE, each statement, not on partitions: both only
 *                                 if deleted rows free their keys (freed.cpp)
 *   index <table>_dedup_guard     of access method streamdedup_guard, on the columns that
 *                                 the guard uses, and on the column for marks if the guard is
 *                                 exact. It stores nothing; with it, the guard is called for
 *                                 each inserted row
 *
 * The index has no expressions, because an UPDATE of a column that only an expression names would
 * not reach it. The server keeps the references of the clause through renames and dumps, maps them
 * for each partition, and refuses to drop or alter the referenced objects. The clause is on the
 * trigger that single-row statements fire least, because the server reads a clause again for every
 * statement that fires its trigger.
 */
#ifndef STREAMDEDUP_GUARD_GUARD_HPP
#define STREAMDEDUP_GUARD_GUARD_HPP

#include "guard/clause.hpp"
#include "guard/deleted.hpp"
#include "live/live.hpp"

extern "C" {
#include "commands/trigger.h"
#include "nodes/execnodes.h"
#include "nodes/pg_list.h"
#include "storage/itemptr.h"
#include "utils/reltrigger.h"
}

struct ExactSite;
struct GuardKey;
struct KeyReader;

/* Adds an element to an array that is enlarged by doubling. */
template <typename Element>
static inline Element *
OneMore(MemoryContext context, Element **array, int *count, int *room)
{
	if (*count == *room)
	{
		*room = Max(16, 2 * *room);
		*array = (Element *) (*array == NULL
								  ? MemoryContextAllocHuge(context, sizeof(Element) * (Size) *room)
								  : repalloc_huge(*array, sizeof(Element) * (Size) *room));
	}
	return &(*array)[(*count)++];
}

#define GUARD_ACCESS_METHOD "streamdedup_guard"
#define GUARD_FUNCTION "dedup_guard_trigger"

/* The argument of the write trigger that makes a guard exact. */
#define GUARD_EXACT "exact"

/* Triggers fire in the order of their names' bytes: these fire after those with usual names. */
#define GUARD_TRIGGER "~dedup_guard"
#define GUARD_DELETE_TRIGGER "~dedup_guard_delete"
#define GUARD_FORGET_TRIGGER "~dedup_guard_forget"
#define GUARD_TRUNCATE_TRIGGER "~dedup_guard_truncate"

/* Registers callbacks and hooks. Called once, by _PG_init (init.cpp). */
extern void InitGuard(void);

/* ---- the definition of a table's guard (plan.cpp) ---------------------- */

/* The triggers of a guarded table. */
struct GuardTriggers
{
	const Trigger *write;    /* BEFORE INSERT OR UPDATE */
	const Trigger *remove;   /* BEFORE DELETE */
	const Trigger *forget;   /* AFTER DELETE OR UPDATE, if deleted rows free their keys */
	const Trigger *truncate; /* AFTER TRUNCATE, of the table for which dedup_guard() was called */
};

/*
 * Finds the triggers of a table that call `function`. Each can be missing. Raises an error (55000)
 * for a trigger that cannot be part of a guard, or is the second one of its kind.
 */
extern GuardTriggers FindGuardTriggers(Relation rel, Oid function);

/*
 * Returns whether an index is a guard index that is in use and is called for every relevant change.
 * It must be on plain columns, include those that the clause uses (and the mark if the guard
 * follows it), and cover all rows.
 */
extern bool IsUsableGuardIndex(Oid index, Oid access_method, const GuardClause &clause,
							   const GuardOptions &options);

/*
 * Returns the function of the table's first trigger that belongs to a guard and fires when a row is
 * deleted, or InvalidOid. `fires`: only triggers that fire in this session now.
 */
extern Oid FindGuardFunction(Relation rel, bool fires);

/*
 * Returns the table whose trigger this one was cloned from, for a partition or a table that
 * inherits. Returns 0 if a trigger was dropped.
 */
extern Oid GuardedTable(Oid trigger);

/* Returns whether a clause can be that of a valid guard of this locked table. */
extern bool IsGuardClauseOf(Relation rel, const GuardClause &clause);

/* The guard of one table, as its triggers define it. Cached by the write trigger. */
struct GuardPlan
{
	const char *qual; /* the clause and the arguments from which it was made */
	int argument_count;
	const char **arguments;
	const char *constraint;
	Oid guarded;  /* the table for which dedup_guard() was called */
	Oid function; /* of its triggers */
	GuardMode mode;
	GuardOptions options;
	GuardClause clause;
	KeyPlan *keys;
	int16 typlen[INDEX_MAX_KEYS];
	bool typbyval[INDEX_MAX_KEYS];
};

/*
 * Returns the plan of a table's guard, whose triggers call `function`. It is kept at least until
 * the end of the transaction. Must be called once in each query, because it checks the guard
 * against the table's current columns. Raises 55000 if there is no guard, or one that dedup_guard()
 * does not make, whoever made or altered it.
 */
extern const GuardPlan *GetGuardPlan(Relation rel, Oid function);

/*
 * Does the same, but returns NULL where GetGuardPlan() raises an error. `deletes`: for a deleted
 * row, for which it does not matter whether the other trigger is enabled.
 */
extern const GuardPlan *FindGuardPlan(Relation rel, Oid function, bool deletes = false);

/*
 * Checks, once in a query, that the guard index is called for rows that are inserted into this
 * table. Sets `may_kill` to true if ON CONFLICT can still delete them; otherwise does not change
 * it.
 */
extern void CheckGuardedTable(Relation rel, const GuardPlan *plan, bool *may_kill);

/* Raises 55000. `flaw` is the DETAIL: a sentence that is not translated yet. */
[[noreturn]] extern void ReportIncompleteGuard(Relation rel, const char *flaw = NULL);
[[noreturn]] extern void ReportNoGuardTrigger(Relation rel, const Trigger *trigger,
											  const char *flaw);

/* Called between transactions: drops the plans if there are too many. */
extern void TrimGuardPlans(void);

/* Returns a relation's name with its schema, quoted; palloc'd. */
extern char *QualifiedGuardName(Oid relid);

/* Returns the owner of a table, or InvalidOid if the table was dropped. */
extern Oid OwnerOfTable(Oid table);

/* Returns whether the owner of a guarded table may add keys to the filter, as its guard does. */
extern bool TableOwnerMayAdd(Oid table, Oid filter);
extern bool GuardOwnerMayAdd(const GuardPlan *plan);

/* Returns whether a function is that of a guard's triggers (triggers.cpp). */
extern bool IsGuardTriggerFunction(Oid function);

/* Returns the table of an enabled guard that uses the filter, or InvalidOid (guarded_by.cpp). */
extern Oid GuardedBy(Oid filter);

/* Returns the table dedup_guard() was called for, of any guard of the filter, or InvalidOid. */
extern Oid TableOfAnyGuard(Oid filter);

/* Returns the table of any guard whose refused rows are put into this table, or InvalidOid. */
extern Oid TableOfSide(Oid side);
/* Returns the tables dedup_guard() was called for, of all guards of the filter, each once. */
extern List *TablesOfGuards(Oid filter);

/* Reads the clause of a row of pg_trigger. Returns false if no guard has this delete trigger. */
extern bool ReadDeleteTrigger(HeapTuple tuple, TupleDesc desc, GuardClause *clause);

/*
 * The contents of pg_trigger about a table's guard, valid or not. Only the catalog is read, so no
 * lock is needed. An OID is invalid if there is no such trigger.
 */
struct GuardRows
{
	Oid write;
	char write_enabled;
	const char *mode; /* the first argument */
	GuardOptions options;
	Oid remove;
	char remove_enabled;
	Oid forget;
	char forget_enabled;
	Oid truncate;
	char truncate_enabled;
	GuardClause clause;
};
extern GuardRows ReadGuardRows(Oid table);

/*
 * Returns whether the filter needs only the keys of the rows in a guarded table: the guard is not a
 * ledger, whose keys outlive their rows.
 */
extern bool MayBeRebuilt(const GuardRows &rows);

/* Returns the table of an enabled exact guard that uses the filter, or InvalidOid. */
extern Oid ExactlyGuardedBy(Oid filter);

/*
 * Returns all tables and partitions whose exact guard, enabled or not, uses the filter; NIL if
 * there are none. `guarded` is the table for which dedup_guard() was called.
 */
extern List *TablesOfExactGuard(Oid filter, Oid *guarded);

/* Returns whether a table other than `guarded` has an exact guard that uses the filter. */
extern bool IsExactElsewhere(Oid filter, Oid guarded);

/*
 * Returns the table whose exact guard, enabled or not, uses the filter, or InvalidOid. Raises 55000
 * if there are two such tables, which can be the result of triggers made by hand.
 */
extern Oid TableOfExactGuard(Oid filter);

/* Returns the filter that a table's exact guard uses, enabled or not, or InvalidOid. */
extern Oid FilterOfExactGuard(Oid table);

/* Returns whether a trigger fires in this session with its current role for replication. */
extern bool GuardTriggerFires(char enabled);

/* Returns the uppermost table of a table's partition tree; the table itself if it is in none. */
extern Oid RootOfPartition(Relation rel);

/* ---- rows that TRUNCATE has removed (truncate.cpp) ---------------------- */

/*
 * Called when the guard index of a table is built. If the reason is that the table was truncated,
 * this transaction may insert the removed rows again.
 */
extern void GuardIndexBuilt(Relation heap);

/*
 * Makes deleted rows (above) of the rows that this transaction has removed by TRUNCATE under a
 * filter, by reading them once. Called before a key is added to the filter.
 */
extern void ReadTruncatedRows(const LiveFilter &filter);

/*
 * Returns whether this transaction has removed rows under a filter whose keys are not known, so
 * that no row may be refused.
 */
extern bool MayBeRemovedRow(Oid filter);

/*
 * Called before a transaction commits: empties filters whose tables are empty, and warns about keys
 * that remain.
 */
extern void WarnOfTruncatedKeys(void);

/* Drops the state of a subtransaction that aborts, or of the transaction at its end. */
extern void ForgetTruncations(SubTransactionId id);

/* Installs a hook. Called once, by InitGuard(). */
extern void InitGuardTruncate(void);

/* ---- a filter that is truncated with its table (emptied.cpp) --------------------- */

/* Functions of LiveGuard; see live.hpp. */
extern void FilterEmptied(Relation rel);
extern bool FilterCoversAnew(const LiveFilter &filter);

/* Called when a TRUNCATE statement is over. */
extern void CoverEmptied(void);

/* Called before a transaction commits: also raises an error for a filter that covers nothing. */
extern void CheckEmptied(void);

/*
 * Called when the guard index of a table is built. There are three cases. The table was truncated.
 * The table has become logged, which is not allowed if the filter of its exact guard is unlogged.
 * Or the index is made on a table with rows that already has an exact guard, which does not know
 * these rows.
 */
extern void ExactGuardIndexBuilt(Relation heap, Relation index);

/* Drops the state of a subtransaction that aborts, or of the transaction at its end. */
extern void ForgetEmptied(SubTransactionId id);

/* ---- rows that a table already has (brought.cpp) ------------------------ */

/*
 * Warns if a newly guarded table, or its partitions, have rows with keys that the filter does not
 * have. All of the tables are locked. `function` is the guard's trigger function; is_new() is found
 * in its schema.
 */
extern void WarnOfBroughtRows(Relation rel, const GuardClause &clause, Oid function);

/*
 * Called when a trigger was created: a row of pg_trigger. If it is a guard's and was cloned for a
 * partition that is being attached, warns as above.
 */
extern void GuardTriggerCreated(HeapTuple tuple);

/* Called when a command begins, and after the transaction has ended. */
extern void ForgetMadeTriggers(void);

/* ---- tables that look guarded (unguarded.cpp) --------------------------- */

/*
 * Called when the event trigger was called for a statement. If that call has loaded the library,
 * and the statement detaches nothing, then nothing was detached before.
 */
extern void NothingDetachedBy(const Node *statement);

/* Called before a transaction commits: reports the tables that are not guarded any more. */
extern void LookAtUnguarded(void);

/* Drops the state at the end of the transaction. */
extern void ForgetUnguarded(void);

/* Installs a hook. Called once, by InitGuard(). */
extern void InitGuardUnguarded(void);

/* ---- rows that were not inserted yet (rows.cpp) ----------------------------- */

/* A key, and the filter that it belongs to. */
struct GuardedKey
{
	bool exists; /* no column of it is NULL */
	Oid filter;
	uint64 hash;
	bool own;       /* of a row that this transaction has inserted */
	bool in_window; /* HasKeyInWindow() */
};

/*
 * A row that a query is processing ("in progress"). It is in the query's per-tuple memory, and in
 * the list until that is reset.
 */
struct GuardRow
{
	MemoryContextCallback over;
	GuardRow *below;
	MemoryContext context;
	int level; /* nesting level of the query's (sub)transaction */
	int depth; /* nesting depth of triggers at which the row is inserted */
	Oid heap;  /* the table that it goes into, by the guard `plan` */
	const GuardPlan *plan;
	const KeyReader *reader; /* of its query */
	dedup::KeySeed seed;
	bool has_key; /* the key with which it must be inserted */
	uint64 hash;
	ExactSite *exact; /* NULL: the guard is not exact */
	bool judged;      /* exact guard: the row needs no judgement when it is inserted */
	/* exact guard: the key that it takes, if it was not inserted yet; or NULL */
	const NullableDatum *key;
	bool has_time; /* exact guard: the time */
	TimestampTz at;
	bool changeable; /* by triggers that fire after the guard's */

	/* The row of a partition for which BEFORE UPDATE has fired. Only this row can move. */
	Oid updated_in;
	ItemPointerData updated;

	/* The key that an UPDATE removes from the table. */
	GuardedKey freed;

	/* The row was deleted, and not inserted elsewhere yet: its key at that time. */
	bool moving;
	bool marked; /* as a duplicate */
	Oid root;    /* the root of the partitions between which it moves */
	GuardedKey moved;
};

/* Returns the row of the calling trigger, if an earlier trigger has entered it. */
extern GuardRow *FindGuardRow(void);

/*
 * Enters the row of the calling trigger, unless `row` is that already. It goes into `rel`, with a
 * key or without one.
 */
extern GuardRow *EnterGuardRow(GuardRow *row, Relation rel, const GuardPlan *plan,
							   const KeyReader *reader, dedup::KeySeed seed, bool has_key,
							   uint64 hash);

/* Returns whether any row is in progress. Then each row that may be inserted must be entered. */
extern bool HaveGuardRows(void);

/* The effects of a row, which are undone if the row is not inserted. */
struct GuardEffect
{
	bool counts;              /* in `counter` */
	LiveCounter counter;      /* New: the key was added, too */
	const DeletedRowUse *use; /* or NULL */
	/* exact guard, in a window of time: the generation under which the key was put; or 0 */
	uint32 generation;
};
extern void NoteGuardRow(GuardRow *row, const LiveFilter &filter, const GuardEffect &effect,
						 uint64 hash, bool may_kill);

/*
 * Does the same for a row that was just inserted. `may_kill`: ON CONFLICT may still delete it, and
 * its key is taken back then.
 */
extern void NoteLandedRow(GuardRow *row, const LiveFilter &filter, uint64 hash, uint32 generation,
						  Relation heap, ItemPointer tid, bool may_kill);

/*
 * Returns whether a row that was not inserted yet, other than `except`, has taken a key of `plan`.
 * `ttl`: not if their times are at least this far apart, unless it is 0.
 */
extern bool IsKeyInHand(const GuardPlan *plan, uint64 hash, const GuardKey &key, int64 ttl,
						const GuardRow *except);

/*
 * Records that a row is left out because a row in progress has its key. If that row is not
 * inserted, both rows would be lost: this raises an error then.
 */
extern void NoteLeftOut(const LiveFilter &filter, uint64 hash);

/*
 * Returns whether this key was added for the row, and noted. If so, the note moves with the row: it
 * is then about the table for which the row was last entered.
 */
extern bool MoveGuardNote(const GuardRow *row, Oid filter, uint64 hash);

/* Takes back the keys of rows that were not inserted, of queries that have ended. */
extern void SettleGuardRows(void);

/* Decides about the key of a row in progress (or NULL) that was not inserted as entered. */
extern void SettleGuardRow(GuardRow *row);

/*
 * The row in progress is about to be deleted, but a trigger that fires later could prevent that.
 * When the deletion is over, NoteDeletedRow() is taken back if the row still exists.
 */
extern void CheckDeletionLater(GuardRow *row, Relation rel, ItemPointer tid, Oid filter,
							   uint64 hash);

/* Returns whether an enclosing trigger has called CheckDeletionLater() for this row. */
extern bool IsDeletionPending(Relation rel, ItemPointer tid);

/* Called before a (sub)transaction of this nesting level commits. */
extern void SettleGuardLevel(int level);

/* Called after it has ended. */
extern void ForgetGuardLevel(int level);

/* Opens a filter without checking privileges: the caller's own guard uses the filter. */
extern LiveFilter OpenLiveUnchecked(Oid filter, LOCKMODE lock);

/* Installs a hook. Called once, by InitGuard(). */
extern void InitGuardRows(void);

/* Called when the pages of a filter are copied to another file. Its keys stay the same. */
extern void NoteFileCopied(Relation rel, Oid to);

/* Returns whether a file of a relation was copied to another one, and not truncated. */
extern bool IsSameFile(Oid before, Oid now);

/* Returns whether the row has a note. */
extern bool HasGuardNote(const GuardRow *row);

/*
 * Called when the row was inserted: its note, if any, is removed, unless ON CONFLICT may still
 * delete the row.
 */
extern void GuardNoteLanded(const GuardRow *row, Relation heap, ItemPointer tid);

/*
 * Returns the row in progress that was just inserted into a table: the innermost that goes there.
 * Returns none if a running trigger has an inner query that could have inserted the row without the
 * guard's triggers.
 */
extern GuardRow *FindLandedRow(Relation heap);

/* Called by the guard index for every row that was inserted into a table (landed.cpp). */
extern void GuardRowLanded(Relation heap, Relation index, const Datum *values, const bool *isnull,
						   ItemPointer tid, IndexInfo *info);

/* ---- rows that are read ahead (read_ahead.cpp) -------------------------- */

/* Installs a hook. Called once, by InitGuard(). */
extern void InitGuardReadAhead(void);

/* ---- rows that move to another partition (moves.cpp) ------------------- */

/* Partitions of a guarded partition's tree that the same filter does not guard at the moment. */
struct UnguardedPartitions
{
	MemoryContextCallback over;
	bool may_move;    /* the query may move rows, as far as is known */
	bool only_moves;  /* every row that it inserts is one that it moves */
	List *partitions; /* OIDs */
	int64 *deleted;   /* number of deleted rows, of each partition, at the last check */
};

/* Returns the partitions that the calling BEFORE INSERT trigger must check, for its query. */
extern UnguardedPartitions *FindUnguardedPartitions(MemoryContext context, Relation rel,
													const GuardPlan *plan, Oid function);

/*
 * Returns whether the row of the trigger may come from one of these, where no guard has seen its
 * deletion. Must be called for every row; in a worker that applies changes, where each row is a
 * query of its own, only for duplicates.
 */
extern bool MayComeFromUnguarded(UnguardedPartitions *unguarded);

/*
 * Returns a table with rows of its own and the same filter from which a table inherits, not as a
 * partition; or InvalidOid. A duplicate may be a copy of one of these rows, which are about to be
 * removed there.
 */
extern Oid GuardedParentWithRows(Relation rel, Oid filter, Oid function);

/* Does the same for an exact guard, which has found the row with the key in a table. */
extern Oid FoundInParent(Relation rel, Oid found);

/* Raises 55000: a duplicate cannot be left out of a table that inherits from such a parent. */
[[noreturn]] extern void RefuseWhileParentHasRows(Relation rel, Oid parent);

/* Records that a duplicate is marked instead: the parent must not be truncated then. */
extern void NoteMarkedCopy(Oid parent);

/* Called when the guard index of a table is built: checks this if the table was truncated. */
extern void CheckMarkedCopies(Relation heap);

/* Drops the state of a subtransaction that aborts, or of the transaction at its end. */
extern void ForgetMarkedCopies(SubTransactionId id);

/* Installs a hook. Called once, by InitGuard(). */
extern void InitGuardMoves(void);

/* ---- tables that are dropped or detached (left.cpp) --------------------- */

/* Called when a trigger is about to be dropped, perhaps with its table, or by a DETACH. */
extern void GuardTriggerGoes(Oid trigger);

/* Does the same for a table that does not inherit from a guarded table any more, or soon. */
extern void GuardedTableLeaves(Oid table);

/*
 * Makes deleted rows (above) of the rows of guarded tables that this transaction has dropped or
 * detached under a filter, by reading them once. Called before a row is refused. Returns whether
 * anything was read.
 */
extern bool ReadLeftRows(const LiveFilter &filter);

/*
 * Does the same, and is called before a key is added. If the filter may not have the key of such a
 * row any more, the row that is inserted again would not be refused; it must use the deleted row up
 * all the same.
 */
extern void ReadLeftRowsFirst(const LiveFilter &filter);

/* A function of LiveGuard; see live.hpp. */
extern void KeyForgotten(void);

/*
 * Called when TRUNCATE is about to shorten the file of a table in place: reads the rows that are
 * removed with it.
 */
extern void LeftTableShrinks(Relation heap);

/* Drops the state of a subtransaction that aborts, or of the transaction at its end. */
extern void ForgetLeft(SubTransactionId id);

/* ---- rows that are left out and whose twin is deleted (lost.cpp) -------- */

/*
 * Remembers that a row with this key was left out. Does nothing in a plain INSERT, in which no row
 * is deleted that existed when it began.
 */
extern void RememberLeftOut(Oid filter, uint64 hash);

/* Returns whether the query of the calling trigger, or a query inside it, has left out a row. */
extern bool HaveLeftOut(void);

/*
 * Called from the trigger when a row with this key is deleted, or (`updates`) gets another key.
 * Raises 55000 if the query that does so, or a query inside it, has left a row with this key out,
 * or if so many rows were left out that this is not known.
 */
extern void CheckLeftOut(Relation rel, Oid filter, uint64 hash, bool updates);

/* Drops the state of a subtransaction that aborts, or of the transaction at its end. */
extern void ForgetLeftOut(SubTransactionId id);

/* Installs hooks. Called once, by InitGuard(). */
extern void InitGuardLost(void);

/* ---- WITH clauses that delete rows (with.cpp) --------------------------- */

/* Installs a hook. Called once, by InitGuard(). */
extern void InitGuardWith(void);

#endif /* STREAMDEDUP_GUARD_GUARD_HPP */
