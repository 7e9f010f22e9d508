/*
 * A TRUNCATE of a guarded table, and the rows that it has removed: what truncate.cpp
 * notes, and truncation.cpp reads.
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
	FileLocator toast; /* that of its TOAST table */
	Oid toast_table;
	Oid after;      /* the number of the empty one */
	int64 inserted; /* rows, by this transaction until then */
	bool permanent;
	TupleDesc desc;
	const GuardPlan *plan;
	Oid filter_file; /* of the filter then */
	bool warn;       /* when it commits, unless the filter is truncated, too */
	bool leaves;     /* left.cpp: it does not inherit from the guarded table any more */
	CommandId until; /* only rows as they were before this command; or InvalidCommandId */

	/*
	 * How far its rows have been read: first those whose keys are all in line, up to a
	 * row; then the others, up to a row of the list that begins with a block.
	 */
	BlockNumber block;
	OffsetNumber offset;
	bool has_external; /* there are others */
	BlockNumber external_block;
	int external_noted;
	bool done;
};

/*
 * The plan of a table's guard, if it has one whose triggers fire just now; or NULL. Exact
 * guards look for the rows, and find that they are gone (truncate.cpp).
 */
extern const GuardPlan *FiringGuard(Relation heap);

/* Whether this transaction holds AccessExclusiveLock on a relation (truncate.cpp). */
extern bool HoldsExclusively(Oid relid);

/* Whether a relation is one that is being truncated: by the statement, or by its lock. */
extern bool IsTruncated(Oid relid);

/* Whether a table's file is empty, or it has none (emptied.cpp). */
extern bool HasNoBlocks(Oid table);

/* The row of pg_class of a relation as a snapshot sees it; a copy, or NULL. */
extern HeapTuple ReadClass(Oid relid, Snapshot snapshot);

/* Whether a row was marked as a duplicate, so that its key is another row's. */
extern bool IsMarkedTuple(const GuardPlan *plan, HeapTuple tuple, TupleDesc desc);

/*
 * The columns of a row that the guard's clause uses, in its order. Returns whether any of them
 * is stored out of line.
 */
extern bool LoadTuple(const GuardPlan *plan, HeapTuple tuple, TupleDesc desc, NullableDatum *used);

/* Makes a deleted row of one that was removed. The reader is that of the plan's clause. */
extern void NoteRemovedRow(const GuardPlan *plan, const KeyReader &reader, TupleDesc desc,
						   const NullableDatum *used, dedup::KeySeed seed, SubTransactionId subid);

/* Whether a TRUNCATE has removed any row. */
extern bool HasTruncatedRows(const Truncation *truncation);

/*
 * Makes deleted rows of all that a TRUNCATE has removed. If this fails within a
 * subtransaction, it goes on later from where it was.
 */
extern void ReadTruncation(Truncation *truncation, const LiveFilter &filter);

#endif /* STREAMDEDUP_LIVE_TRUNCATION_HPP */
