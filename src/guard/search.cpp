/*
 * Finds the live rows of a key in the tables of an exact guard; see search.hpp.
 *
 * Each table is searched with an index that the user has made. The index is read with SnapshotAny,
 * so no predicate locks are taken, and every version of a row is judged here.
 */
#include "guard/chunk.hpp"
#include "guard/inherit.hpp"
#include "guard/search_index.hpp"

extern "C" {
#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "catalog/pg_opfamily.h"
#include "catalog/pg_type.h"
#include "partitioning/partbounds.h"
#include "partitioning/partdesc.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/partcache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/typcache.h"
}

/* ---- searching a table --------------------------------------------------------------- */

namespace
{

/* The parts of a row that must be read from the table, because the index does not show them. */
struct RowCheck
{
	GuardClause clause; /* of the table that is searched */
	KeyReader reader;
	MemoryContext memory; /* NULL: not made yet */
};

} /* namespace */

static void
PrepareCheck(RowCheck *check, const SearchKey &key, Relation rel)
{
	MemoryContext old;

	if (check->memory != NULL)
		return;
	if (!MapGuardClause(key.plan->clause, key.target, rel, &check->clause))
		elog(ERROR, "table \"%s\" does not have the columns of the guard",
			 RelationGetRelationName(rel));
	check->memory = AllocSetContextCreateInternal(CurrentMemoryContext, "dedup_guard search",
												  ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(check->memory);
	MakeKeyReader(&check->reader, &check->clause);
	MemoryContextSwitchTo(old);
}

/*
 * Returns whether a row that an index returns for the key has the key: a hash index returns others,
 * too.
 */
static bool
HasKey(const ScanKeyData *keys, const SearchIndex &with, const NullableDatum *columns)
{
	for (int i = 0; i < with.columns; i++)
	{
		const NullableDatum &column = columns[with.order[i]];

		if (column.isnull ||
			!DatumGetBool(FunctionCall2Coll(const_cast<FmgrInfo *>(&keys[i].sk_func),
											keys[i].sk_collation, column.value,
											keys[i].sk_argument)))
			return false;
	}
	return true;
}

/* Returns whether the index alone shows that a row that it returns counts and has the key. */
static bool
NeedsNoCheck(const SearchKey &key, const SearchIndex &with, bool recheck)
{
	return !recheck && with.proves_where && key.plan->clause.at == NULL;
}

/*
 * Returns whether a row has the key, and counts. Only for rows that some snapshot shows: the values
 * of others may be gone, and expressions may fail for them.
 */
static bool
PassesCheck(RowCheck *check, const SearchKey &key, const ScanKeyData *keys, const SearchIndex &with,
			bool recheck, Relation rel, TupleTableSlot *slot)
{
	MemoryContext row;
	MemoryContext old;
	GuardKey found;
	bool passes;

	if (likely(NeedsNoCheck(key, with, recheck)))
		return true;
	PrepareCheck(check, key, rel);
	row = AllocSetContextCreateInternal(check->memory, "dedup_guard row", ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(row);
	ReadGuardKey(check->reader, slot, &found);
	passes = found.counts && (key.ttl == 0 || !AreApart(found.at, key.row->at, key.ttl)) &&
			 (!recheck || HasKey(keys, with, found.columns));
	MemoryContextSwitchTo(old);
	MemoryContextDelete(row);
	return passes;
}

/* Fills in the scan keys for an index. */
static void
FillScanKeys(const SearchKey &key, const SearchIndex &with, Relation index, ScanKeyData *keys)
{
	for (int i = 0; i < with.columns; i++)
	{
		const NullableDatum &column = key.row->columns[with.order[i]];

		if (column.isnull)
			ScanKeyEntryInitialize(&keys[i], SK_ISNULL | SK_SEARCHNULL, (AttrNumber) (i + 1),
								   InvalidStrategy, InvalidOid, InvalidOid, InvalidOid, (Datum) 0);
		else
			ScanKeyEntryInitialize(&keys[i], 0, (AttrNumber) (i + 1), with.strategy, InvalidOid,
								   index->rd_indcollation[i], with.equal[i], column.value);
	}
}

static bool
IsMarked(const SearchIndex &with, TupleTableSlot *slot)
{
	bool isnull;
	Datum mark;

	if (with.mark == 0)
		return false;
	mark = slot_getattr(slot, with.mark, &isnull);
	return !isnull && DatumGetBool(mark);
}

/* Returns the next version of a row. The slot is made for the first: most tables have none. */
static bool
NextVersion(IndexScanDesc scan, Relation rel, TupleTableSlot **slot)
{
	if (*slot == NULL)
	{
		if (index_getnext_tid(scan, ForwardScanDirection) == NULL)
			return false;
		*slot = table_slot_create(rel, NULL);
		if (index_fetch_heap(scan, *slot))
			return true;
	}
	return index_getnext_slot(scan, ForwardScanDirection, *slot);
}

/*
 * Runs look(table, slot, passes) over all versions of the rows of a table, which is locked, that
 * may have the key, until it returns true. passes() returns whether a version has the key and
 * counts.
 */
template <typename Look>
static void
ScanTable(Relation rel, const SearchKey &key, Look look)
{
	const SearchIndex with = SearchIndexOf(rel, key);
	const bool is_target = RelationGetRelid(rel) == RelationGetRelid(key.target);
	ScanKeyData keys[INDEX_MAX_KEYS];
	Relation index = index_open(with.index, AccessShareLock);
	TupleTableSlot *slot = NULL;
	RowCheck check;
	IndexScanDesc scan;

	check.memory = NULL;
	FillScanKeys(key, with, index, keys);
	scan = INDEX_BEGINSCAN(rel, index, SnapshotAny, with.columns);
	index_rescan(scan, keys, with.columns, NULL, 0);
	while (NextVersion(scan, rel, &slot))
	{
		CHECK_FOR_INTERRUPTS();
		if (is_target && key.self != NULL && ItemPointerEquals(&slot->tts_tid, key.self))
			continue;
		if (!IsMarked(with, slot) && look(rel, slot, [&] {
				return PassesCheck(&check, key, keys, with, scan->xs_recheck, rel, slot);
			}))
			break;
	}
	index_endscan(scan);
	if (slot != NULL)
		ExecDropSingleTupleTableSlot(slot);
	if (check.memory != NULL)
		MemoryContextDelete(check.memory);
	index_close(index, AccessShareLock);
}

/* ---- searching all of them ------------------------------------------------------------- */

namespace
{

struct Partition
{
	Oid table;
	bool is_leaf;
	bool apart; /* by its bounds no row of it can count */
};

/* The rows that count by their times: those less than the ttl away. */
struct Near
{
	const char *column; /* the name of the time column; NULL: there is none, or no ttl */
	TimestampTz at;
	int64 ttl;
};

} /* namespace */

static Near
NearOf(const SearchKey &key)
{
	const Expr *time = key.plan->clause.at;

	if (key.ttl == 0 || time == NULL || !IsA(time, Var))
		return {};
	return {get_attname(RelationGetRelid(key.target), ((const Var *) time)->varattno, false),
			key.row->at, key.ttl};
}

/*
 * Returns whether a table is partitioned by ranges, whose first column is this one, in the usual
 * order.
 */
static bool
IsByRangeOf(Relation parent, const char *column)
{
	const PartitionKey by = RelationGetPartitionKey(parent);

	return column != NULL && by->strategy == PARTITION_STRATEGY_RANGE &&
		   by->partattrs[0] == get_attnum(RelationGetRelid(parent), column) &&
		   by->partopcintype[0] == TIMESTAMPTZOID &&
		   by->partopfamily[0] ==
			   lookup_type_cache(TIMESTAMPTZOID, TYPECACHE_BTREE_OPFAMILY)->btree_opf;
}

/*
 * Copies the partitions of a table, because the server can replace its list while other tables are
 * opened. Marks the partitions all of whose rows are a ttl or more away, by their bounds.
 */
static Partition *
CopyPartitions(Relation parent, PartitionDesc partitions, const Near &near)
{
	const int n = partitions->nparts;
	const PartitionBoundInfo bounds = partitions->boundinfo;
	Partition *copy = (Partition *) palloc(sizeof(Partition) * (Size) Max(n, 1));

	for (int i = 0; i < n; i++)
		copy[i] = {partitions->oids[i], partitions->is_leaf[i], false};
	if (n == 0 || !IsByRangeOf(parent, near.column))
		return copy;
	for (int i = 0; i < bounds->ndatums; i++)
	{
		TimestampTz bound;

		if (bounds->kind[i][0] != PARTITION_RANGE_DATUM_VALUE)
			continue;
		bound = DatumGetTimestampTz(bounds->datums[i][0]);
		if (!AreApart(bound, near.at, near.ttl))
			continue;
		/* These are the ranges before and behind a bound; there may be no partition for them. */
		if (bound < near.at && bounds->indexes[i] >= 0)
			copy[bounds->indexes[i]].apart = true;
		if (bound > near.at && bounds->indexes[i + 1] >= 0)
			copy[bounds->indexes[i + 1]].apart = true;
	}
	return copy;
}

static void AddLeaves(Relation parent, const Near &near, List **leaves, List **leaving);

/* Adds a partition, or the tables below it, unless all its rows are too far away. */
static void
AddPartition(const Partition &partition, const Near &near, List **leaves, List **leaving)
{
	Relation rel;

	if (partition.apart)
		return;
	if (partition.is_leaf)
	{
		*leaves = lappend_oid(*leaves, partition.table);
		return;
	}
	rel = try_relation_open(partition.table, AccessShareLock);
	if (rel == NULL)
		return;
	AddLeaves(rel, near, leaves, leaving);
	relation_close(rel, AccessShareLock);
}

/*
 * Adds the tables below a partitioned one, those with the newest bounds first. Tables that are
 * being detached concurrently are put into another list, if there is one.
 */
static void
AddLeaves(Relation parent, const Near &near, List **leaves, List **leaving)
{
	PartitionDesc desc = PARTITIONS_OF(parent, true);
	const bool detached = HAS_DETACHED(desc);
	const int n = desc->nparts;
	Partition *partitions = CopyPartitions(parent, desc, near);

	for (int i = n - 1; i >= 0; i--)
		AddPartition(partitions[i], near, leaves, leaving);
	if (detached && leaving != NULL)
	{
		PartitionDesc with = PARTITIONS_OF(parent, false);
		const int m = with->nparts;
		Partition *all = CopyPartitions(parent, with, near);

		for (int i = m - 1; i >= 0; i--)
		{
			int stays = 0;

			while (stays < n && partitions[stays].table != all[i].table)
				stays++;
			if (stays == n)
				AddPartition(all[i], near, leaving, leaving);
		}
		pfree(all);
	}
	pfree(partitions);
}

/* Returns whether no row of a table that inherits is near, by the CHECK constraints of its time. */
static bool
IsApart(Oid table, const Near &near)
{
	TimeBounds bounds;

	if (near.column == NULL)
		return false;
	bounds = CheckedTimes(table, near.column);
	return (bounds.to < near.at && AreApart(bounds.to, near.at, near.ttl)) ||
		   (bounds.from > near.at && AreApart(bounds.from, near.at, near.ttl));
}

/*
 * Returns the tables that inherit from a table and are near. Leaves out temporary tables of other
 * sessions, which only these can see.
 */
static List *
InheritingLeaves(Oid table, Snapshot snapshot, const Near &near)
{
	List *leaves = InheritorsOf(table, snapshot);
	ListCell *cell;

	foreach(cell, leaves)
		if (isOtherTempNamespace(get_rel_namespace(lfirst_oid(cell))) ||
			IsApart(lfirst_oid(cell), near))
			leaves = foreach_delete_current(leaves, cell);
	return leaves;
}

/*
 * Returns the tables of a guard that are near. `leaving` receives those that are being detached, or
 * is NULL. The tables that inherit are those that a snapshot shows. So if a row in such a table is
 * visible, the table is included.
 */
static List *
AllLeavesOf(Oid table, Snapshot snapshot, const Near &near, List **leaving)
{
	Relation rel = relation_open(table, NoLock);
	List *leaves = NIL;

	if (rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE)
		AddLeaves(rel, near, &leaves, leaving);
	else
		leaves = lappend_oid(InheritingLeaves(table, snapshot, near), table);
	relation_close(rel, NoLock);
	return leaves;
}

List *
LeavesOf(Oid table)
{
	return AllLeavesOf(table, NULL, {}, NULL);
}

/* Returns the pages of a table as of the last VACUUM, ANALYZE or build of an index; at least 1. */
static double
KnownPages(Oid table)
{
	HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(table));
	int32 pages = 0;

	if (HeapTupleIsValid(tuple))
	{
		pages = ((Form_pg_class) GETSTRUCT(tuple))->relpages;
		ReleaseSysCache(tuple);
	}
	return (double) Max(pages, 1);
}

/*
 * Returns which of some leaves, newest first, has rows that came when the key did, if rows are put
 * into them one after the other. The numbers of pages are looked up again after a number of
 * searches.
 */
static int
LikelyLeaf(const List *leaves, double age)
{
	constexpr int SEARCHES = 256;
	/* pages of the leaves before this one; the last element is the sum */
	static double *newer = NULL;
	static int room = 0;
	static int known = 0;
	static Oid last = InvalidOid;
	static int searches = 0;
	const int n = list_length(leaves);
	int from = 0;
	int to = n - 1;

	if (room <= n)
	{
		const int larger = 2 * n + 16;

		known = 0;
		newer = (double *) (newer == NULL ? MemoryContextAlloc(TopMemoryContext,
															   sizeof(double) * (Size) larger)
										  : repalloc(newer, sizeof(double) * (Size) larger));
		room = larger;
	}
	if (known != n || last != list_nth_oid(leaves, n - 1) || ++searches > SEARCHES)
	{
		newer[0] = 0;
		for (int i = 0; i < n; i++)
			newer[i + 1] = newer[i] + KnownPages(list_nth_oid(leaves, i));
		known = n;
		last = list_nth_oid(leaves, n - 1);
		searches = 0;
	}
	while (from < to)
	{
		const int middle = (from + to + 1) / 2;

		if (newer[middle] <= (1 - age) * newer[n])
			from = middle;
		else
			to = middle - 1;
	}
	return from;
}

/*
 * Searches a partition. Returns false if its lock is not available at once and `wait` is false.
 * `proves`: if nothing is found, this must mean that there is nothing.
 */
template <typename Look>
static bool
ScanLeaf(Oid table, bool wait, bool proves, const SearchKey &key, SearchResult *result, Look look)
{
	Relation leaf;

	if (!wait && !ConditionalLockRelationOid(table, AccessShareLock))
		return false;
	leaf = try_relation_open(table, wait ? AccessShareLock : NoLock);

	/*
	 * The partition may have been detached since the list was made; its rows then belong to another
	 * table. Before detaching it, the server has waited for the transactions whose rows we have
	 * skipped.
	 */
	if (leaf == NULL || (!leaf->rd_rel->relispartition &&
						 get_rel_relkind(key.plan->guarded) == RELKIND_PARTITIONED_TABLE))
		*result = SearchResult::Gone;
	else
		ScanTable(leaf, key, look);
	if (proves && *result == SearchResult::None && !leaf->rd_rel->relispartition)
		RequireUncompressed(table);
	/* The same is done for a table that inherited. It is only checked if something was found. */
	if (*result != SearchResult::None && leaf != NULL && !leaf->rd_rel->relispartition &&
		table != key.plan->guarded && !InheritsFrom(table, key.plan->guarded))
		*result = SearchResult::Gone;
	if (leaf != NULL)
		relation_close(leaf, AccessShareLock);
	else if (!wait)
		UnlockRelationOid(table, AccessShareLock);
	return true;
}

/*
 * Searches partitions one by one until one has something. First come those around the one that is
 * likely to have the key, if their locks are available at once; then the others, newest bounds
 * first.
 */
template <typename Look>
static void
ScanLeaves(const SearchKey &key, const List *leaves, bool proves, SearchResult *result, Look look)
{
	const int n = list_length(leaves);
	bool *done = (bool *) palloc0((Size) Max(n, 1));

	for (int i = 0; i < n; i++)
		done[i] = list_nth_oid(leaves, i) == RelationGetRelid(key.target);
	if (key.filter != NULL && n > 2)
	{
		const int likely = LikelyLeaf(leaves, LiveAgeOf(*key.filter, key.hash));

		/* the order is likely, likely + 1, likely - 1, likely + 2, ... */
		for (int step = 0; step < 2 * n && *result == SearchResult::None; step++)
		{
			const int i = step % 2 == 0 ? likely - step / 2 : likely + (step + 1) / 2;

			if (i >= 0 && i < n && !done[i])
				done[i] = ScanLeaf(list_nth_oid(leaves, i), false, proves, key, result, look);
		}
	}
	for (int i = 0; i < n && *result == SearchResult::None; i++)
		if (!done[i])
			(void) ScanLeaf(list_nth_oid(leaves, i), true, proves, key, result, look);
	pfree(done);
}

/*
 * Returns whether a guarded table consists of the target alone: as far as the session knows or, for
 * a proof, as a snapshot shows.
 */
static bool
IsAlone(const SearchKey &key, Snapshot snapshot)
{
	List *children;
	bool alone;

	if (key.plan->guarded != RelationGetRelid(key.target))
		return false;
	if (snapshot == NULL)
		return !key.target->rd_rel->relhassubclass;
	children = InheritorsOf(key.plan->guarded, snapshot);
	alone = children == NIL;
	list_free(children);
	return alone;
}

/*
 * Searches the target, then the other partitions of the guarded table, or the tables that inherit
 * from it. look(table, slot, passes, leaving) sets `result`, and returns whether to stop.
 * `leaving`: the partition is being detached concurrently. Its rows do not belong to the guarded
 * table, but a session that deletes one may rely on us to wait for it (exact.cpp).
 */
template <typename Look>
static void
ScanAll(const SearchKey &key, Snapshot snapshot, SearchResult *result, Look look)
{
	List *leaving = NIL;
	List *leaves;

	ScanTable(key.target, key, [&](Relation rel, TupleTableSlot *slot, auto passes) {
		return look(rel, slot, passes, false);
	});
	if (*result != SearchResult::None || IsAlone(key, snapshot))
		return;
	if (snapshot != NULL && !key.target->rd_rel->relispartition)
		RequireUncompressed(RelationGetRelid(key.target));
	leaves = AllLeavesOf(key.plan->guarded, snapshot, NearOf(key), &leaving);
	ScanLeaves(key, leaves, snapshot != NULL, result,
			   [&](Relation rel, TupleTableSlot *slot, auto passes) {
				   return look(rel, slot, passes, false);
			   });
	ScanLeaves(key, leaving, snapshot != NULL, result,
			   [&](Relation rel, TupleTableSlot *slot, auto passes) {
				   return look(rel, slot, passes, true);
			   });
	list_free(leaves);
	list_free(leaving);
}

/* Returns the current state of a version of a row. */
static SearchResult
JudgeNow(Relation rel, TupleTableSlot *slot, bool *inserting, TransactionId *deleter)
{
	SnapshotData now;

	InitDirtySnapshot(now);
	*inserting = false;
	if (!table_tuple_satisfies_snapshot(rel, slot, &now))
		return SearchResult::Gone;
	*inserting = TransactionIdIsValid(now.xmin);
	if (*inserting || !TransactionIdIsValid(now.xmax))
		return SearchResult::Live;
	*deleter = now.xmax;
	return SearchResult::Deleting;
}

/*
 * Returns whether a version of a row was committed before, and is deleted or updated by this
 * transaction.
 */
static bool
IsDeletedByUs(TupleTableSlot *slot)
{
	const BufferHeapTupleTableSlot *row = (const BufferHeapTupleTableSlot *) slot;
	TransactionId xmin;
	TransactionId xmax = InvalidTransactionId;
	HeapTupleHeader header;

	if (!TTS_IS_BUFFERTUPLE(slot) || !BufferIsValid(row->buffer))
		return false;
	header = row->base.tuple->t_data;
	LockBuffer(row->buffer, BUFFER_LOCK_SHARE);
	xmin = HeapTupleHeaderGetXmin(header);
	if ((header->t_infomask & HEAP_XMAX_INVALID) == 0 &&
		!HEAP_XMAX_IS_LOCKED_ONLY(header->t_infomask))
		xmax = HeapTupleHeaderGetUpdateXid(header);
	LockBuffer(row->buffer, BUFFER_LOCK_UNLOCK);
	return TransactionIdIsValid(xmax) && TransactionIdIsCurrentTransactionId(xmax) &&
		   !TransactionIdIsCurrentTransactionId(xmin) && TransactionIdDidCommit(xmin);
}

SearchResult
SearchNow(const SearchKey &key, TransactionId *deleter)
{
	SearchResult result = SearchResult::None;
	bool ours = false;

	ScanAll(key, NULL, &result, [&](Relation rel, TupleTableSlot *slot, auto passes, bool leaving) {
		bool inserting;
		TransactionId xid = InvalidTransactionId;
		const SearchResult now = JudgeNow(rel, slot, &inserting, &xid);

		if (now == SearchResult::Gone)
			ours = ours || (IsDeletedByUs(slot) && passes());
		if (inserting || now == SearchResult::Gone || (leaving && now == SearchResult::Live) ||
			!passes())
			return false;
		result = now;
		*deleter = xid;
		if (now == SearchResult::Live && key.found != NULL)
			*key.found = RelationGetRelid(rel);
		return now == SearchResult::Live;
	});
	return result == SearchResult::None && ours && key.ttl == 0 ? SearchResult::Ours : result;
}

SearchResult
SearchBySnapshot(const SearchKey &key, Snapshot snapshot, TransactionId *deleter)
{
	SearchResult result = SearchResult::None;
	SearchKey proof = key;

	/* Nearly always there is no row; then the order does not matter. */
	proof.filter = NULL;
	ScanAll(proof, snapshot, &result,
			[&](Relation rel, TupleTableSlot *slot, auto passes, bool leaving) {
				SearchResult now;
				bool inserting;

				if (!table_tuple_satisfies_snapshot(rel, slot, snapshot) || !passes())
					return false;
				now = JudgeNow(rel, slot, &inserting, deleter);
				if (leaving && now == SearchResult::Live)
					return false;
				result = now;
				if (now == SearchResult::Live && key.found != NULL)
					*key.found = RelationGetRelid(rel);
				return result == SearchResult::Live;
			});
	return result;
}
