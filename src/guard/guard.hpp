/*
 * What the parts of the guard share.
 *
 * A guarded table has these objects:
 *
 *   trigger ~dedup_guard          BEFORE INSERT OR UPDATE, each row; its arguments are
 *                                 the mode, the constraint name for errors, and options
 *   trigger ~dedup_guard_delete   BEFORE DELETE, each row; its WHEN clause, which is
 *                                 always true, describes the guard (clause.hpp)
 *   trigger ~dedup_guard_forget   AFTER DELETE OR UPDATE, each row; and
 *   trigger ~dedup_guard_truncate AFTER TRUNCATE, each statement, not on partitions: both only
 *                                 where rows that go free their keys (freed.cpp)
 *   index <table>_dedup_guard     of access method streamdedup_guard on the columns that
 *                                 the guard goes by, and on the column for marks if it is
 *                                 exact: stores nothing, tells us that a row landed
 *
 * The index has no expressions: an UPDATE of a column that only an expression names would
 * not reach it. The server keeps the references of the clause through renames and dumps,
 * maps them for each partition, and refuses to drop or alter what they point to. The clause
 * is on the trigger that single-row statements fire least, since the server reads a clause
 * anew for every statement that fires its trigger.
 */
#ifndef STREAMDEDUP_GUARD_GUARD_HPP
#define STREAMDEDUP_GUARD_GUARD_HPP

#include "guard/clause.hpp"
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

/* One more element of an array that doubles. */
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

/* Triggers fire in the order of their names' bytes: these after every usual one. */
#define GUARD_TRIGGER "~dedup_guard"
#define GUARD_DELETE_TRIGGER "~dedup_guard_delete"
#define GUARD_FORGET_TRIGGER "~dedup_guard_forget"
#define GUARD_TRUNCATE_TRIGGER "~dedup_guard_truncate"

/* Registers callbacks and hooks; once, from _PG_init (init.cpp). */
extern void InitGuard(void);

/* ---- what a table's guard is (plan.cpp) ------------------------------- */

/* The triggers of a guarded table. */
struct GuardTriggers
{
	const Trigger *write;    /* BEFORE INSERT OR UPDATE */
	const Trigger *remove;   /* BEFORE DELETE */
	const Trigger *forget;   /* AFTER DELETE OR UPDATE, if rows that go free their keys */
	const Trigger *truncate; /* AFTER TRUNCATE, of the table that dedup_guard() was called for */
};

/*
 * Finds the triggers of a table that call `function`; either can be missing. A trigger
 * that cannot be part of a guard, or is its second one of a kind, is an error (55000).
 */
extern GuardTriggers FindGuardTriggers(Relation rel, Oid function);

/*
 * Whether an index is a guard index that is in use and sees every change that matters: of
 * plain columns, with those that the clause uses among them, and the mark if the guard
 * follows it, and of all rows.
 */
extern bool IsUsableGuardIndex(Oid index, Oid access_method, const GuardClause &clause,
							   const GuardOptions &options);

/*
 * The function of the table's first trigger that is a guard's and fires when a row is
 * deleted, or InvalidOid. `fires`: only of triggers that fire in this session as it is now.
 */
extern Oid FindGuardFunction(Relation rel, bool fires);

/*
 * The table whose trigger this one was cloned from, for a partition or a table that inherits;
 * 0 if a trigger is gone.
 */
extern Oid GuardedTable(Oid trigger);

/* Whether a clause can be that of a valid guard of this table, which is locked. */
extern bool IsGuardClauseOf(Relation rel, const GuardClause &clause);

/* What a guard does on one table, by its triggers. Cached by the write trigger. */
struct GuardPlan
{
	const char *qual; /* the clause and the arguments that it was made from */
	int argument_count;
	const char **arguments;
	const char *constraint;
	Oid guarded;  /* the table that dedup_guard() was called for */
	Oid function; /* of its triggers */
	GuardMode mode;
	GuardOptions options;
	GuardClause clause;
	KeyPlan *keys;
	int16 typlen[INDEX_MAX_KEYS];
	bool typbyval[INDEX_MAX_KEYS];
};

/*
 * The plan of a table's guard, whose triggers call `function`; kept until the end of the
 * transaction at least. Call it once a query: it holds the guard against the table's
 * columns as they are now. 55000 if there is no guard, or one that dedup_guard() does not
 * make, by whoever it was made or altered.
 */
extern const GuardPlan *GetGuardPlan(Relation rel, Oid function);

/*
 * The same, but NULL where GetGuardPlan() raises an error. `deletes`: for a row that is
 * deleted, so that it does not matter whether the other trigger is enabled, too.
 */
extern const GuardPlan *FindGuardPlan(Relation rel, Oid function, bool deletes = false);

/*
 * Checks, once a query, that we will be told what lands in this table; learns whether
 * that is final: `may_kill` becomes true if not, and is left alone otherwise.
 */
extern void CheckGuardedTable(Relation rel, const GuardPlan *plan, bool *may_kill);

/* 55000. `flaw` is the DETAIL: a sentence, not translated yet. */
[[noreturn]] extern void ReportIncompleteGuard(Relation rel, const char *flaw = NULL);
[[noreturn]] extern void ReportNoGuardTrigger(Relation rel, const Trigger *trigger,
											  const char *flaw);

/* Between transactions: throws the plans away if they have become too many. */
extern void TrimGuardPlans(void);

/* A relation's name with its schema, quoted; palloc'd. */
extern char *QualifiedGuardName(Oid relid);

/* The owner of a table, or InvalidOid if it is gone. */
extern Oid OwnerOfTable(Oid table);

/* Whether the owner of a guarded table may add keys to the filter, as its guard does. */
extern bool TableOwnerMayAdd(Oid table, Oid filter);
extern bool GuardOwnerMayAdd(const GuardPlan *plan);

/* Whether a function is that of a guard's triggers (triggers.cpp). */
extern bool IsGuardTriggerFunction(Oid function);

/* The table of an enabled guard that uses the filter, or InvalidOid (guarded_by.cpp). */
extern Oid GuardedBy(Oid filter);

/* The table that dedup_guard() was called for of some guard, enabled or not, or InvalidOid. */
extern Oid TableOfAnyGuard(Oid filter);

/* The table of some guard, enabled or not, whose refused rows go into this one, or InvalidOid. */
extern Oid TableOfSide(Oid side);
/* The tables that dedup_guard() was called for of all guards, enabled or not, each once. */
extern List *TablesOfGuards(Oid filter);

/* Reads the clause of a row of pg_trigger; false if it is no delete trigger of a guard. */
extern bool ReadDeleteTrigger(HeapTuple tuple, TupleDesc desc, GuardClause *clause);

/*
 * What pg_trigger says of a table's guard, whatever it is worth: reads the catalog alone, and
 * so needs no lock. OIDs are invalid where there is no such trigger.
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
 * Whether the rows of a guarded table are all that its filter has to know: the guard is no
 * ledger, whose keys outlive their rows.
 */
extern bool MayBeRebuilt(const GuardRows &rows);

/* The table of an enabled exact guard that uses the filter, or InvalidOid. */
extern Oid ExactlyGuardedBy(Oid filter);

/*
 * All tables and partitions whose exact guard, enabled or not, uses the filter; NIL if there
 * are none. `guarded` is the table that dedup_guard() was called for.
 */
extern List *TablesOfExactGuard(Oid filter, Oid *guarded);

/* Whether a table other than `guarded` has an exact guard that uses the filter, enabled or not. */
extern bool IsExactElsewhere(Oid filter, Oid guarded);

/*
 * The table whose exact guard, enabled or not, uses the filter, or InvalidOid. Raises 55000 if
 * there are two such tables: triggers that were made by hand can lead to that.
 */
extern Oid TableOfExactGuard(Oid filter);

/* The filter that a table's exact guard uses, enabled or not, or InvalidOid. */
extern Oid FilterOfExactGuard(Oid table);

/* Whether a trigger fires in this session as its role for replication is now. */
extern bool GuardTriggerFires(char enabled);

/* The uppermost table of the partition tree that a table is in; itself, if in none. */
extern Oid RootOfPartition(Relation rel);

/* ---- rows that were deleted (deleted.cpp) ------------------------------ */

/* One key for a filter and a hash in it, spread over all 64 bits. */
static inline uint64
DeletedKeyOf(Oid filter, uint64 hash)
{
	uint64 key = hash ^ (uint64) filter * UINT64CONST(0x9E3779B97F4A7C15);

	key = (key ^ key >> 32) * UINT64CONST(0xD6E8FEB86659FD93);
	return key ^ key >> 32;
}

/*
 * A row that this transaction deletes from a guarded table may be inserted again: its key
 * is no duplicate then, once for each deleted row. `deleted` is the subtransaction that
 * deleted it. `awaited`: AskDeletedRow() is called for it; `own`: this transaction has inserted
 * it, so it may have come in place of another one; `in_window`: HasKeyInWindow(). May write to a
 * temporary file.
 */
extern void NoteDeletedRow(Oid filter, uint64 hash, SubTransactionId deleted, bool awaited = false,
						   bool own = false, bool in_window = false);

/*
 * What has become of a deleted row, when the statement that deleted it is over. Returns true if
 * it, or another deleted row of its key, was inserted again; then the note is gone. Otherwise
 * the key is free, and DropDeletedRow() drops the note once nobody needs it any more.
 */
extern bool AskDeletedRow(Oid filter, uint64 hash);
extern void DropDeletedRow(Oid filter, uint64 hash);

/* A deleted row that was inserted again. */
struct DeletedRowUse
{
	uint64 key;
	SubTransactionId deleted;
	SubTransactionId used;
	bool in_window; /* as it was noted */
};

/*
 * Uses one deleted row of this key up, for the current subtransaction. Returns false if
 * there is none.
 */
extern bool UseDeletedRow(Oid filter, uint64 hash, DeletedRowUse *use);

/* The row that used it did not land: it can be used again. */
extern void ReturnDeletedRow(const DeletedRowUse &use);

/* The row was not deleted after all. Without effect if it was inserted again already. */
extern void RevokeDeletedRow(Oid filter, uint64 hash, SubTransactionId deleted);

/* Rows that this subtransaction has deleted may be noted yet, later. */
extern void KeepDeletedRowsOf(SubTransactionId id);

/* What subtransactions at this nesting level do, and the end of the transaction. */
extern void DeletedRowsSubtransactionBegins(int level);
extern void DeletedRowsSubtransactionCommits(int level);
extern void DeletedRowsSubtransactionAborts(int level, SubTransactionId id,
											SubTransactionId parent);
/* `close`: closes the files, too; else the end of the transaction does. */
extern void ForgetDeletedRows(bool close);

/* ---- rows that free their keys (freed.cpp) ------------------------------------- */

/* The trigger AFTER DELETE OR UPDATE of a guard fires. */
extern void GuardFreesRow(FunctionCallInfo fcinfo, const TriggerData *trigger);

/* The trigger AFTER TRUNCATE of a guard fires. */
extern void GuardTruncated(const TriggerData *trigger);

/* Whether a guard by times frees the keys of its rows, and a row is in the window. */
extern bool HasKeyInWindow(const GuardPlan *plan, const LiveFilter &filter, const GuardKey &key);

/* Frees the key of a row that goes. Returns whether the filter had it. */
extern bool ReleaseRowKey(const GuardPlan *plan, const LiveFilter &filter, const GuardKey &key,
						  uint64 hash);

/* A row that keeps its key has another time now: the key does not count from a later one. */
extern void MoveKeyInTime(const GuardPlan *plan, const LiveFilter &filter, const GuardKey &old_key,
						  const GuardKey &key, uint64 hash);

/* The same for one that is inserted in place of a deleted one. `added`: its key was not known. */
extern void ReplaceDeletedKey(const GuardPlan *plan, const LiveFilter &filter, const GuardKey &key,
							  uint64 hash, bool added, const DeletedRowUse &use);

/* Whether a guard of another table uses a filter, too. */
extern bool IsSharedFilter(Oid filter, Oid guarded);

/*
 * Whether the TRUNCATE that is running removes all rows of the table that dedup_guard() was
 * called for, so that the filter is emptied.
 */
extern bool TruncateEmptiesFilter(const GuardPlan *plan);

/*
 * Empties the filter of a guard whose table this transaction has truncated as a whole. Returns
 * false if there are rows, or if others use the table or the filter.
 */
extern bool EmptyFilterOf(const GuardPlan *plan);

/* The NOTICE that a filter keeps keys of rows that went with their whole table. */
extern void NoticeKeptKeys(Oid table, Oid filter);

/* At the end of a transaction. */
extern void ForgetFreeing(void);

/* ---- rows that TRUNCATE has removed (truncate.cpp) ---------------------- */

/*
 * Called when the guard index of a table is built: if it is because the table was
 * truncated, this transaction may insert the removed rows again.
 */
extern void GuardIndexBuilt(Relation heap);

/*
 * Makes deleted rows (above) of those that this transaction has removed by TRUNCATE under
 * a filter, by reading them once. Called before a key is added to the filter.
 */
extern void ReadTruncatedRows(const LiveFilter &filter);

/*
 * Whether this transaction has removed rows under a filter of which nobody knows the keys,
 * so that none may be refused.
 */
extern bool MayBeRemovedRow(Oid filter);

/*
 * Before a transaction commits: empties filters whose tables are empty, and warns of keys that it
 * leaves behind.
 */
extern void WarnOfTruncatedKeys(void);

/* What ends at the end of a subtransaction that aborts, and of the transaction. */
extern void ForgetTruncations(SubTransactionId id);

/* Installs a hook; once, from InitGuard(). */
extern void InitGuardTruncate(void);

/* ---- a filter that is truncated with its table (emptied.cpp) --------------------- */

/* Functions of LiveGuard: see live.hpp. */
extern void FilterEmptied(Relation rel);
extern bool FilterCoversAnew(const LiveFilter &filter);

/* A statement TRUNCATE is over. */
extern void CoverEmptied(void);

/* Before a transaction commits: the same, and an error for a filter that covers nothing. */
extern void CheckEmptied(void);

/*
 * Called when the guard index of a table is built: when the table was truncated, when it has
 * become logged, which it must not if the filter of its exact guard is not, and when the index
 * comes to a table with rows that has an exact guard already, which then does not know them.
 */
extern void ExactGuardIndexBuilt(Relation heap, Relation index);

/* What ends at the end of a subtransaction that aborts, and of the transaction. */
extern void ForgetEmptied(SubTransactionId id);

/* ---- rows that a table brings along (brought.cpp) ----------------------- */

/*
 * Warns if a table that is guarded from now on, or its partitions, have rows with keys
 * that the filter does not have. All of the tables are locked. `function` is the guard's
 * trigger function, beside which is_new() is found.
 */
extern void WarnOfBroughtRows(Relation rel, const GuardClause &clause, Oid function);

/*
 * A trigger was created on a table: a row of pg_trigger. If it is a guard's and was cloned
 * for a partition that is attached, warns as above.
 */
extern void GuardTriggerCreated(HeapTuple tuple);

/* A command begins, or the transaction has ended. */
extern void ForgetMadeTriggers(void);

/* ---- tables that look guarded (unguarded.cpp) --------------------------- */

/*
 * The event trigger was called for a statement: if that has loaded the library, and detaches
 * nothing, then nothing was detached before.
 */
extern void NothingDetachedBy(const Node *statement);

/* Before a transaction commits: says what this transaction has left without a guard. */
extern void LookAtUnguarded(void);

/* What ends at the end of the transaction. */
extern void ForgetUnguarded(void);

/* Installs a hook; once, from InitGuard(). */
extern void InitGuardUnguarded(void);

/* ---- rows that have not landed yet (rows.cpp) ------------------------------- */

/* A key, and the filter that it is for. */
struct GuardedKey
{
	bool exists; /* no column of it is NULL */
	Oid filter;
	uint64 hash;
	bool own;       /* of a row that this transaction has inserted */
	bool in_window; /* HasKeyInWindow() */
};

/*
 * A row that a query is working on; lives in the query's per-tuple memory, and in the
 * list until that is reset.
 */
struct GuardRow
{
	MemoryContextCallback over;
	GuardRow *below;
	MemoryContext context;
	int level; /* nesting of the query's (sub)transaction */
	int depth; /* of triggers, where the row lands */
	Oid heap;  /* where it goes, by the guard `plan` */
	const GuardPlan *plan;
	const KeyReader *reader; /* of its query */
	dedup::KeySeed seed;
	bool has_key; /* that it is to land with */
	uint64 hash;
	ExactSite *exact;         /* NULL: the guard is not exact */
	bool judged;              /* exact: it needs no judgement where it lands */
	const NullableDatum *key; /* exact: that it takes, if it has not landed yet; or NULL */
	bool has_time;            /* the same */
	TimestampTz at;
	bool changeable; /* by triggers that fire after the guard's */

	/* The row of a partition that BEFORE UPDATE has fired for: only it can move. */
	Oid updated_in;
	ItemPointerData updated;

	/* The key that an UPDATE takes out of the table when it lands. */
	GuardedKey freed;

	/* Deleted, and not inserted elsewhere yet: its key then. */
	bool moving;
	bool marked; /* as a duplicate */
	Oid root;    /* of the partitions that it moves between */
	GuardedKey moved;
};

/* The row that the calling trigger is fired for, if an earlier trigger entered it. */
extern GuardRow *FindGuardRow(void);

/*
 * Enters that row, unless `row` is it already, as on its way to `rel` with a key, or with
 * none.
 */
extern GuardRow *EnterGuardRow(GuardRow *row, Relation rel, const GuardPlan *plan,
							   const KeyReader *reader, dedup::KeySeed seed, bool has_key,
							   uint64 hash);

/* Whether any row is in hand: then each that may land is entered, so that it is found. */
extern bool HaveGuardRows(void);

/* What counts unless the row does not land. */
struct GuardEffect
{
	bool counts;              /* in `counter` */
	LiveCounter counter;      /* New: the key was added, too */
	const DeletedRowUse *use; /* or NULL */
	uint32 generation;        /* exact: that the key was put under, in a window of time; or 0 */
};
extern void NoteGuardRow(GuardRow *row, const LiveFilter &filter, const GuardEffect &effect,
						 uint64 hash, bool may_kill);

/*
 * The same for a row that has just landed. `may_kill`: ON CONFLICT may kill it yet, and its
 * key is taken back then.
 */
extern void NoteLandedRow(GuardRow *row, const LiveFilter &filter, uint64 hash, uint32 generation,
						  Relation heap, ItemPointer tid, bool may_kill);

/*
 * Whether a row that has not landed yet, another than this one, has taken a key of `plan`;
 * `ttl`: not if their times are as far apart, unless it is 0.
 */
extern bool IsKeyInHand(const GuardPlan *plan, uint64 hash, const GuardKey &key, int64 ttl,
						const GuardRow *except);

/*
 * A row is left out whose key a row in hand has. If that one does not land, both would be lost:
 * it is an error then.
 */
extern void NoteLeftOut(const LiveFilter &filter, uint64 hash);

/*
 * Whether this key was added for the row, and noted. If so, the note goes along with the
 * row: it is now about the table that the row was entered for last.
 */
extern bool MoveGuardNote(const GuardRow *row, Oid filter, uint64 hash);

/* Takes back the keys of rows that did not land, of queries that have ended. */
extern void SettleGuardRows(void);

/* Decides about the key of a row in hand, if not NULL, which did not land as it was. */
extern void SettleGuardRow(GuardRow *row);

/*
 * The row in hand is about to be deleted, but a trigger that fires later could keep it:
 * when it is over, NoteDeletedRow() is taken back if it is still there.
 */
extern void CheckDeletionLater(GuardRow *row, Relation rel, ItemPointer tid, Oid filter,
							   uint64 hash);

/* Whether this row is one for which that was said already, by a trigger around this one. */
extern bool IsDeletionPending(Relation rel, ItemPointer tid);

/* Before a (sub)transaction of this nesting level commits. */
extern void SettleGuardLevel(int level);

/* After it has ended. */
extern void ForgetGuardLevel(int level);

/* A filter that the caller may use because it is in use, by his own guard. */
extern LiveFilter OpenLiveUnchecked(Oid filter, LOCKMODE lock);

/* Installs a hook; once, from InitGuard(). */
extern void InitGuardRows(void);

/* The pages of a filter are being copied to another file: its keys are the same. */
extern void NoteFileCopied(Relation rel, Oid to);

/* Whether one file of a relation goes on as another: it was moved, not truncated. */
extern bool IsSameFile(Oid before, Oid now);

/* Whether the row has a note. */
extern bool HasGuardNote(const GuardRow *row);

/* The row has landed: its note, if it has one, goes, unless ON CONFLICT may kill the row yet. */
extern void GuardNoteLanded(const GuardRow *row, Relation heap, ItemPointer tid);

/*
 * The row in hand that has just landed in a table: the innermost that goes there, if no trigger
 * is running inside of which another query could have inserted it without the guard's triggers.
 */
extern GuardRow *FindLandedRow(Relation heap);

/*
 * Called by the guard index for every row that has got into a table (landed.cpp).
 */
extern void GuardRowLanded(Relation heap, Relation index, const Datum *values, const bool *isnull,
						   ItemPointer tid, IndexInfo *info);

/* ---- rows that are read ahead (read_ahead.cpp) -------------------------- */

/* Installs a hook; once, from InitGuard(). */
extern void InitGuardReadAhead(void);

/* ---- rows that move to another partition (moves.cpp) ------------------- */

/* Partitions beside a guarded one that the same filter does not guard just now. */
struct UnguardedPartitions
{
	MemoryContextCallback over;
	bool may_move;    /* the query may move rows, as far as is known */
	bool only_moves;  /* every row that it inserts is one that it moves */
	List *partitions; /* OIDs */
	int64 *deleted;   /* rows, from each, when it was asked last */
};

/* What the calling BEFORE INSERT trigger of a partition has to look at, for its query. */
extern UnguardedPartitions *FindUnguardedPartitions(MemoryContext context, Relation rel,
													const GuardPlan *plan, Oid function);

/*
 * Whether the row that the trigger is fired for may come from one of these, where no guard
 * has seen it go. To be asked for every row; in a worker that applies changes, where each
 * row is a query of its own, for duplicates only.
 */
extern bool MayComeFromUnguarded(UnguardedPartitions *unguarded);

/*
 * The table with rows of its own and the same filter that a table inherits from, not as a
 * partition; or InvalidOid. A duplicate may be a copy of one of these rows, which are to be
 * removed there.
 */
extern Oid GuardedParentWithRows(Relation rel, Oid filter, Oid function);

/* The same of an exact guard, which has found the row with the key in a table. */
extern Oid FoundInParent(Relation rel, Oid found);

/* 55000: a duplicate cannot be left out of a table that inherits from such a parent. */
[[noreturn]] extern void RefuseWhileParentHasRows(Relation rel, Oid parent);

/* A duplicate is marked instead: then the parent must not be truncated in this transaction. */
extern void NoteMarkedCopy(Oid parent);

/* Called when the guard index of a table is built: if the table was truncated, checks that. */
extern void CheckMarkedCopies(Relation heap);

/* What ends at the end of a subtransaction that aborts, and of the transaction. */
extern void ForgetMarkedCopies(SubTransactionId id);

/* Installs a hook; once, from InitGuard(). */
extern void InitGuardMoves(void);

/* ---- tables that are dropped or detached (left.cpp) --------------------- */

/* A trigger is about to be dropped: perhaps with its table, or when that is detached. */
extern void GuardTriggerGoes(Oid trigger);

/* The same of a table that does not inherit from a guarded one any more, or soon does not. */
extern void GuardedTableLeaves(Oid table);

/*
 * Makes deleted rows (above) of those of guarded tables that this transaction has dropped or
 * detached under a filter, by reading them once. Called before a row is refused. Returns
 * whether anything was read.
 */
extern bool ReadLeftRows(const LiveFilter &filter);

/*
 * The same, called before a key is added: where the filter may not have the key of such a row any
 * more, the row that comes again is none that is refused, and must use it up all the same.
 */
extern void ReadLeftRowsFirst(const LiveFilter &filter);

/* A function of LiveGuard: see live.hpp. */
extern void KeyForgotten(void);

/* TRUNCATE is about to shorten the file of a table in place: reads the rows that have left with it.
 */
extern void LeftTableShrinks(Relation heap);

/* What ends at the end of a subtransaction that aborts, and of the transaction. */
extern void ForgetLeft(SubTransactionId id);

/* ---- rows that are left out and whose twin is deleted (lost.cpp) -------- */

/*
 * Remembers that a row with this key was left out. Not in a plain INSERT, inside of which
 * nothing is deleted that was there when it began.
 */
extern void RememberLeftOut(Oid filter, uint64 hash);

/* Whether the query that fires the calling trigger, or something inside of it, has left out any. */
extern bool HaveLeftOut(void);

/*
 * A row with this key is deleted, or `updates`: gets another one. Raises 55000 if the query that
 * does so has left a row with this key out, or something inside of it has; or if so many rows
 * were left out that this cannot be told. Called from the trigger.
 */
extern void CheckLeftOut(Relation rel, Oid filter, uint64 hash, bool updates);

/* What ends at the end of a subtransaction that aborts, and of the transaction. */
extern void ForgetLeftOut(SubTransactionId id);

/* Installs hooks; once, from InitGuard(). */
extern void InitGuardLost(void);

/* ---- WITH clauses that delete rows (with.cpp) --------------------------- */

/* Installs a hook; once, from InitGuard(). */
extern void InitGuardWith(void);

#endif /* STREAMDEDUP_GUARD_GUARD_HPP */
