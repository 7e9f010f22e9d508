/* Rows that this transaction deletes, and rows that free their keys. */
#ifndef STREAMDEDUP_GUARD_DELETED_HPP
#define STREAMDEDUP_GUARD_DELETED_HPP

#include "live/live.hpp"

extern "C" {
#include "commands/trigger.h"
}

struct GuardKey;
struct GuardPlan;

/* ---- rows that were deleted (deleted.cpp) ------------------------------ */

/* Combines a filter and a hash in it into one key, spread over all 64 bits. */
static inline uint64
DeletedKeyOf(Oid filter, uint64 hash)
{
	uint64 key = hash ^ (uint64) filter * UINT64CONST(0x9E3779B97F4A7C15);

	key = (key ^ key >> 32) * UINT64CONST(0xD6E8FEB86659FD93);
	return key ^ key >> 32;
}

/*
 * Notes a row that this transaction deletes from a guarded table. The transaction may insert the
 * key again, once for each deleted row; the new row is not a duplicate. `deleted` is the
 * subtransaction that deleted the row. `awaited`: AskDeletedRow() will be called for the row.
 * `own`: this transaction has inserted the row, so the row may have replaced another deleted row.
 * `in_window` is the result of HasKeyInWindow(). May write to a temporary file.
 */
extern void NoteDeletedRow(Oid filter, uint64 hash, SubTransactionId deleted, bool awaited = false,
						   bool own = false, bool in_window = false);

/*
 * Checks a deleted row when the statement that deleted it has ended. Returns true and removes the
 * note if this row, or another deleted row with the same key, was inserted again. Otherwise the key
 * is free, and DropDeletedRow() must remove the note when the note is not needed any more.
 */
extern bool AskDeletedRow(Oid filter, uint64 hash);
extern void DropDeletedRow(Oid filter, uint64 hash);

/* A deleted row that was inserted again. */
struct DeletedRowUse
{
	uint64 key;
	SubTransactionId deleted;
	SubTransactionId used;
	bool in_window; /* the argument of NoteDeletedRow() */
};

/* Uses one deleted row with this key, for this subtransaction. Returns false if there is none. */
extern bool UseDeletedRow(Oid filter, uint64 hash, DeletedRowUse *use);

/* Makes the deleted row usable again, because the row that used it was not inserted. */
extern void ReturnDeletedRow(const DeletedRowUse &use);

/*
 * Removes the note of a row that was not deleted in the end. Has no effect if the deleted row was
 * used already.
 */
extern void RevokeDeletedRow(Oid filter, uint64 hash, SubTransactionId deleted);

/* Declares that rows that this subtransaction has deleted may be noted later. */
extern void KeepDeletedRowsOf(SubTransactionId id);

/*
 * Must be called when subtransactions at this level begin and end, and when the transaction ends.
 */
extern void DeletedRowsSubtransactionBegins(int level);
extern void DeletedRowsSubtransactionCommits(int level);
extern void DeletedRowsSubtransactionAborts(int level, SubTransactionId id,
											SubTransactionId parent);
/* `close`: also closes the files. If false, the server closes them at the end of transaction. */
extern void ForgetDeletedRows(bool close);

/* ---- rows that free their keys (freed.cpp) ------------------------------------- */

/* Called by the trigger AFTER DELETE OR UPDATE of a guard. */
extern void GuardFreesRow(FunctionCallInfo fcinfo, const TriggerData *trigger);

/* Called by the trigger AFTER TRUNCATE of a guard. */
extern void GuardTruncated(const TriggerData *trigger);

/*
 * Returns whether the guard frees keys that count from the times of their rows, and the row with
 * this key is in the window.
 */
extern bool HasKeyInWindow(const GuardPlan *plan, const LiveFilter &filter, const GuardKey &key);

/* Frees the key of a deleted or updated row. Returns whether the filter had the key. */
extern bool ReleaseRowKey(const GuardPlan *plan, const LiveFilter &filter, const GuardKey &key,
						  uint64 hash);

/*
 * Called when an UPDATE changes the time of a row, but not its key. If the new time is earlier, the
 * key then counts from the new time.
 */
extern void MoveKeyInTime(const GuardPlan *plan, const LiveFilter &filter, const GuardKey &old_key,
						  const GuardKey &key, uint64 hash);

/*
 * Does the same for a row that is inserted in place of a deleted row. `added`: the filter has
 * returned LiveAnswer::New for the key.
 */
extern void ReplaceDeletedKey(const GuardPlan *plan, const LiveFilter &filter, const GuardKey &key,
							  uint64 hash, bool added, const DeletedRowUse &use);

/* Returns whether the guard of a table other than `guarded` uses the filter. */
extern bool IsSharedFilter(Oid filter, Oid guarded);

/*
 * Returns whether the current TRUNCATE removes all rows of the table for which dedup_guard() was
 * called. Then the filter is emptied.
 */
extern bool TruncateEmptiesFilter(const GuardPlan *plan);

/*
 * Empties the filter of a guard if this transaction has truncated the whole table. Returns false
 * and does nothing if the table has rows, if this transaction does not hold AccessExclusiveLock on
 * it, if its rows do not free their keys, or if another table uses the filter.
 */
extern bool EmptyFilterOf(const GuardPlan *plan);

/* Raises the NOTICE that the filter still has the keys of a table whose rows are all removed. */
extern void NoticeKeptKeys(Oid table, Oid filter);

/* Called at the end of a transaction. */
extern void ForgetFreeing(void);

#endif /* STREAMDEDUP_GUARD_DELETED_HPP */
