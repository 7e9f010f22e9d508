/* Rows that go: those that this transaction deletes, and those that free their keys. */
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
 * A row that this transaction deletes from a guarded table may be inserted again: its key
 * is no duplicate then, once for each deleted row. `deleted` is the subtransaction that
 * deleted it. `awaited`: AskDeletedRow() is called for it; `own`: this transaction has inserted
 * it, so it may have come in place of another one; `in_window`: HasKeyInWindow(). May write to a
 * temporary file.
 */
extern void NoteDeletedRow(Oid filter, uint64 hash, SubTransactionId deleted, bool awaited = false,
						   bool own = false, bool in_window = false);

/*
 * Checks a deleted row when the statement that deleted it is over. Returns true if it, or another
 * deleted row of its key, was inserted again; then the note is removed. Otherwise the key is free,
 * and DropDeletedRow() must remove the note when it is not needed any more.
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

/* Uses up one deleted row of this key, for this subtransaction. Returns false if there is none. */
extern bool UseDeletedRow(Oid filter, uint64 hash, DeletedRowUse *use);

/* Makes the deleted row usable again, because the row that used it was not inserted. */
extern void ReturnDeletedRow(const DeletedRowUse &use);

/*
 * Takes a note back because the row was not deleted after all. Has no effect if the row was
 * inserted again already.
 */
extern void RevokeDeletedRow(Oid filter, uint64 hash, SubTransactionId deleted);

/* Announces that rows that this subtransaction has deleted may be noted later. */
extern void KeepDeletedRowsOf(SubTransactionId id);

/*
 * Must be called when subtransactions at this level begin and end, and when the transaction ends.
 */
extern void DeletedRowsSubtransactionBegins(int level);
extern void DeletedRowsSubtransactionCommits(int level);
extern void DeletedRowsSubtransactionAborts(int level, SubTransactionId id,
											SubTransactionId parent);
/* `close`: closes the files, too; otherwise the end of the transaction closes them. */
extern void ForgetDeletedRows(bool close);

/* ---- rows that free their keys (freed.cpp) ------------------------------------- */

/* Called by the trigger AFTER DELETE OR UPDATE of a guard. */
extern void GuardFreesRow(FunctionCallInfo fcinfo, const TriggerData *trigger);

/* Called by the trigger AFTER TRUNCATE of a guard. */
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
 * Returns whether the running TRUNCATE removes all rows of the table for which dedup_guard() was
 * called, so that the filter is emptied.
 */
extern bool TruncateEmptiesFilter(const GuardPlan *plan);

/*
 * Empties the filter of a guard whose table this transaction has truncated as a whole. Returns
 * false if there are rows, or if others use the table or the filter.
 */
extern bool EmptyFilterOf(const GuardPlan *plan);

/* Raises the NOTICE that a filter keeps the keys of rows that a whole table has lost. */
extern void NoticeKeptKeys(Oid table, Oid filter);

/* Called at the end of a transaction. */
extern void ForgetFreeing(void);

#endif /* STREAMDEDUP_GUARD_DELETED_HPP */
