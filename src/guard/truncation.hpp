/*
 * A TRUNCATE of a guarded table, and the rows that it has removed. truncate.cpp records it, and
 * truncation.cpp reads the rows.
 */
#ifndef STREAMDEDUP_LIVE_TRUNCATION_HPP
#define STREAMDEDUP_LIVE_TRUNCATION_HPP

#include "guard/row_key.hpp"
#include "pg/compat_storage.hpp"

/* A guarded table that this transaction has truncated. */
struct Truncation
{
	SubTransactionId subid;
	Oid heap;
	FileLocator before; /* the file with its rows */
	bool has_toast;
	FileLocator toast; /* the file of its TOAST table */
	Oid toast_table;
	Oid after;      /* the number of the new, empty file */
	int64 inserted; /* rows, by this transaction until then */
	bool permanent;
	TupleDesc desc;
	const GuardPlan *plan;
	Oid filter_file; /* the file of the filter at that time */
	bool warn;       /* at the commit, unless the filter is truncated, too */
	bool leaves;     /* left.cpp: it does not inherit from the guarded table any more */
	CommandId until; /* only rows as they were before this command; or InvalidCommandId */

	/*
	 * How far its rows have been read: first those whose keys are all in line, up to a row; then
	 * the others, up to a row of the list that begins with a block.
	 */
	BlockNumber block;
	OffsetNumber offset;
	bool has_external; /* there are others */
	BlockNumber external_block;
	int external_noted;
	bool done;
};

/*
 * Returns the plan of a table's guard, if it has one whose triggers fire now; or NULL. Exact guards
 * search for the rows, and find that they are gone (truncate.cpp).
 */
extern const GuardPlan *FiringGuard(Relation heap);

/* Returns whether this transaction holds AccessExclusiveLock on a relation (truncate.cpp). */
extern bool HoldsExclusively(Oid relid);

/* Returns whether a relation is being truncated, by the statement or by its lock. */
extern bool IsTruncated(Oid relid);

/* Returns whether a table's file is empty, or it has none (emptied.cpp). */
extern bool HasNoBlocks(Oid table);

/* Returns a copy of the row of pg_class of a relation that a snapshot sees, or NULL. */
extern HeapTuple ReadClass(Oid relid, Snapshot snapshot);

/* Returns whether a row was marked as a duplicate. Then its key belongs to another row. */
extern bool IsMarkedTuple(const GuardPlan *plan, HeapTuple tuple, TupleDesc desc);

/*
 * Reads the columns of a row that the guard's clause uses, in its order. Returns whether any of
 * them is stored out of line.
 */
extern bool LoadTuple(const GuardPlan *plan, HeapTuple tuple, TupleDesc desc, NullableDatum *used);

/* Makes a deleted row of a removed row. The reader is that of the plan's clause. */
extern void NoteRemovedRow(const GuardPlan *plan, const KeyReader &reader, TupleDesc desc,
						   const NullableDatum *used, dedup::KeySeed seed, SubTransactionId subid);

/* Returns whether a TRUNCATE has removed any row. */
extern bool HasTruncatedRows(const Truncation *truncation);

/*
 * Makes deleted rows of all rows that a TRUNCATE has removed. If this fails within a
 * subtransaction, a later call continues from there.
 */
extern void ReadTruncation(Truncation *truncation, const LiveFilter &filter);

#endif /* STREAMDEDUP_LIVE_TRUNCATION_HPP */
