/*
 * Finding the live rows of a key in the tables of an exact guard: see search.hpp.
 *
 * Each table is searched by an index that the user has made, read with SnapshotAny: so no
 * predicate locks are taken, and every version of a row is judged here.
 */
#include "guard/search.hpp"
#include "pg/equality.hpp"

extern "C" {
#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_collation.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "optimizer/optimizer.h"
#include "partitioning/partdesc.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
}

namespace
{

/* How a table is searched. */
struct SearchIndex
{
	Oid table; /* must be first */
	Oid index;
	uint64 equalities; /* that it was chosen by */
	int columns;
	AttrNumber attnums[INDEX_MAX_KEYS]; /* of the table, by the index's columns */
	int16 order[INDEX_MAX_KEYS];        /* which of the key's columns each of them is */
	Oid equal[INDEX_MAX_KEYS];          /* functions */
	StrategyNumber strategy;
	AttrNumber mark; /* of the table, or 0 */
};

} /* namespace */

/* How tables were searched in this session; forgotten when a table or its indexes change. */
static HTAB *search_indexes = NULL;

/* So many are kept. */
constexpr long SEARCH_INDEXES_KEPT = 4096;

static void
ForgetSearchIndex(Datum, Oid relid)
{
	if (search_indexes == NULL)
		return;
	if (OidIsValid(relid))
		hash_search(search_indexes, &relid, HASH_REMOVE, NULL);
	else
	{
		hash_destroy(search_indexes);
		search_indexes = NULL;
	}
}

static void
KeepSearchIndex(const SearchIndex &chosen)
{
	static bool watching = false;

	if (!watching)
	{
		CacheRegisterRelcacheCallback(ForgetSearchIndex, (Datum) 0);
		watching = true;
	}
	if (search_indexes != NULL && hash_get_num_entries(search_indexes) >= SEARCH_INDEXES_KEPT)
		ForgetSearchIndex((Datum) 0, InvalidOid);
	if (search_indexes == NULL)
	{
		HASHCTL info = {};

		info.keysize = sizeof(Oid);
		info.entrysize = sizeof(SearchIndex);
		search_indexes =
			hash_create("dedup_guard search indexes", 64, &info, HASH_ELEM | HASH_BLOBS);
	}
	*(SearchIndex *) hash_search(search_indexes, &chosen.table, HASH_ENTER, NULL) = chosen;
}

/* ---- choosing an index -------------------------------------------------------------- */

SearchColumns
SearchColumnsOf(Relation rel, const GuardClause &clause)
{
	TupleDesc desc = RelationGetDescr(rel);
	SearchColumns columns = {};

	columns.columns = clause.columns;
	for (int i = 0; i < clause.columns; i++)
	{
		columns.names[i] = NameStr(TupleDescAttr(desc, clause.attnums[i] - 1)->attname);
		columns.types[i] = clause.types[i];
		columns.collations[i] = clause.collations[i];
	}
	if (clause.mark != 0)
		columns.mark = NameStr(TupleDescAttr(desc, clause.mark - 1)->attname);
	return columns;
}

static bool
IsDeterministic(Oid collation)
{
	return !OidIsValid(collation) || get_collation_isdeterministic(collation);
}

/* Whether two collations call the same values equal. */
static bool
AgreeOnEquality(Oid a, Oid b)
{
	return a == b || (IsDeterministic(a) && IsDeterministic(b));
}

/* The attribute of a table by its name, or 0. */
static AttrNumber
AttributeOf(Relation rel, const char *name)
{
	TupleDesc desc = RelationGetDescr(rel);

	for (int i = 0; i < desc->natts; i++)
		if (!TupleDescAttr(desc, i)->attisdropped &&
			strcmp(NameStr(TupleDescAttr(desc, i)->attname), name) == 0)
			return (AttrNumber) (i + 1);
	return 0;
}

static Expr *
ColumnOf(Relation rel, AttrNumber attnum)
{
	Form_pg_attribute column = TupleDescAttr(RelationGetDescr(rel), attnum - 1);

	return (Expr *) makeVar(1, attnum, column->atttypid, column->atttypmod, column->attcollation,
							0);
}

static List *
AddNullTest(List *list, Expr *column, NullTestType type)
{
	NullTest *test = makeNode(NullTest);

	test->arg = column;
	test->nulltesttype = type;
	test->location = -1;
	return lappend(list, test);
}

/*
 * Whether all rows that count satisfy the predicate of a partial index: no column of their
 * key is NULL, and their mark is not true.
 */
static bool
ImpliesPredicate(Relation rel, const SearchIndex &chosen, List *predicate)
{
	List *known = NIL;

	if (predicate == NIL)
		return true;
	for (int i = 0; i < chosen.columns; i++)
		known = AddNullTest(known, ColumnOf(rel, chosen.attnums[i]), IS_NOT_NULL);
	if (chosen.mark != 0)
	{
		BooleanTest *unmarked = makeNode(BooleanTest);

		unmarked->arg = ColumnOf(rel, chosen.mark);
		unmarked->booltesttype = IS_NOT_TRUE;
		unmarked->location = -1;
		known = lappend(known, unmarked);
		if (TupleDescAttr(RelationGetDescr(rel), chosen.mark - 1)->attnotnull)
			known =
				lappend(known, makeBoolExpr(NOT_EXPR, list_make1(ColumnOf(rel, chosen.mark)), -1));
	}
	return predicate_implied_by(predicate, known, false);
}

/*
 * Whether an index's first columns are those of the key, and compare as the key does. Fills
 * in what depends on the index; `equal` has the functions of the key's columns.
 */
static bool
HasKeyColumns(Relation index, const SearchColumns &columns, const AttrNumber *attnums,
			  const Oid *equal, SearchIndex *chosen)
{
	Form_pg_index form = index->rd_index;

	if (IndexRelationGetNumberOfKeyAttributes(index) < columns.columns)
		return false;
	for (int at = 0; at < columns.columns; at++)
	{
		int column = 0;
		Oid operator_;

		while (column < columns.columns && attnums[column] != form->indkey.values[at])
			column++;
		if (column == columns.columns)
			return false;
		/* No column of the key stands in the index twice among the first. */
		for (int before = 0; before < at; before++)
			if (chosen->order[before] == column)
				return false;
		operator_ = get_opfamily_member(index->rd_opfamily[at], index->rd_opcintype[at],
										index->rd_opcintype[at], (int16) chosen->strategy);
		if (!OidIsValid(operator_) || get_opcode(operator_) != equal[column] ||
			!AgreeOnEquality(index->rd_indcollation[at], columns.collations[column]))
			return false;
		chosen->attnums[at] = attnums[column];
		chosen->order[at] = (int16) column;
		chosen->equal[at] = equal[column];
	}
	return true;
}

/* Whether a table can be searched by an index, which is locked. */
static bool
CanSearch(Relation rel, Relation index, const SearchColumns &columns, const AttrNumber *attnums,
		  const Oid *equal, SearchIndex *chosen)
{
	Form_pg_index form = index->rd_index;

	if (!form->indisvalid || !form->indisready || !form->indislive)
		return false;
	if (index->rd_rel->relam == BTREE_AM_OID)
		chosen->strategy = BTEqualStrategyNumber;
	else if (index->rd_rel->relam == HASH_AM_OID && columns.columns == 1)
		chosen->strategy = HTEqualStrategyNumber;
	else
		return false;
	return HasKeyColumns(index, columns, attnums, equal, chosen) &&
		   ImpliesPredicate(rel, *chosen, RelationGetIndexPredicate(index));
}

/* Chooses the index that a table, which is locked, is searched by. */
static bool
ChooseIndex(Relation rel, const SearchColumns &columns, SearchIndex *chosen)
{
	AttrNumber attnums[INDEX_MAX_KEYS];
	Oid equal[INDEX_MAX_KEYS];
	List *indexes;
	ListCell *cell;
	bool found = false;

	if (rel->rd_rel->relkind != RELKIND_RELATION)
		return false;
	WatchEqualities();
	*chosen = {};
	chosen->table = RelationGetRelid(rel);
	chosen->equalities = equality_version;
	chosen->columns = columns.columns;
	for (int i = 0; i < columns.columns; i++)
	{
		attnums[i] = AttributeOf(rel, columns.names[i]);
		equal[i] = KeyEqualityFunction(columns.types[i]);
		if (attnums[i] == 0 || !OidIsValid(equal[i]))
			return false;
	}
	if (columns.mark != NULL)
	{
		chosen->mark = AttributeOf(rel, columns.mark);
		if (chosen->mark == 0)
			return false;
	}
	indexes = RelationGetIndexList(rel);
	foreach(cell, indexes)
	{
		Relation index = index_open(lfirst_oid(cell), AccessShareLock);

		found = CanSearch(rel, index, columns, attnums, equal, chosen);
		chosen->index = RelationGetRelid(index);
		index_close(index, AccessShareLock);
		if (found)
			break;
	}
	list_free(indexes);
	return found;
}

bool
HasSearchIndex(Relation rel, const SearchColumns &columns)
{
	SearchIndex chosen;

	return ChooseIndex(rel, columns, &chosen);
}

[[noreturn]] static void
ReportNoSearchIndex(Relation rel, const SearchColumns &columns, Oid on)
{
	StringInfoData list;

	if (rel->rd_rel->relkind != RELKIND_RELATION)
		ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE),
						errmsg("an exact guard cannot search \"%s\"", RelationGetRelationName(rel)),
						errdetail("It is not a table of this server.")));
	initStringInfo(&list);
	for (int i = 0; i < columns.columns; i++)
		appendStringInfo(&list, "%s%s", i == 0 ? "" : ", ", quote_identifier(columns.names[i]));
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("table \"%s\" has no index by which an exact guard can find rows",
					RelationGetRelationName(rel)),
			 errdetail("It needs a valid index, btree or hash, whose first columns are those of "
					   "the key, with their own equality, and of all rows that the guard covers."),
			 errhint("Run: CREATE INDEX ON %s (%s);", QualifiedGuardName(on), list.data)));
	pg_unreachable();
}

void
RequireSearchIndex(Relation rel, const SearchColumns &columns, Oid on)
{
	if (!HasSearchIndex(rel, columns))
		ReportNoSearchIndex(rel, columns, on);
}

/* The same from this session's memory, if nothing has changed. */
static SearchIndex
SearchIndexOf(Relation rel, const SearchKey &key)
{
	const Oid table = RelationGetRelid(rel);
	SearchIndex chosen;
	SearchColumns columns;

	if (search_indexes != NULL)
	{
		const SearchIndex *kept =
			(const SearchIndex *) hash_search(search_indexes, &table, HASH_FIND, NULL);

		if (kept != NULL && kept->equalities == equality_version &&
			kept->columns == key.plan->clause.columns)
			return *kept;
	}
	columns = SearchColumnsOf(key.target, key.plan->clause);
	if (!ChooseIndex(rel, columns, &chosen))
		ReportNoSearchIndex(rel, columns, table);
	KeepSearchIndex(chosen);
	return chosen;
}

/* ---- searching a table --------------------------------------------------------------- */

/* Whether a row that an index gives for the key has it: a hash index gives others, too. */
static bool
HasKey(const ScanKeyData *keys, const SearchIndex &with, TupleTableSlot *slot)
{
	for (int i = 0; i < with.columns; i++)
	{
		bool isnull;
		Datum value = slot_getattr(slot, with.attnums[i], &isnull);

		if (isnull ||
			!DatumGetBool(FunctionCall2Coll(const_cast<FmgrInfo *>(&keys[i].sk_func),
											keys[i].sk_collation, value, keys[i].sk_argument)))
			return false;
	}
	return true;
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

/*
 * Runs look(table, slot) over all versions of the rows of a table, which is locked, that have
 * the key and count, until it returns true.
 */
template <typename Look>
static void
ScanTable(Relation rel, const SearchKey &key, Look look)
{
	const SearchIndex with = SearchIndexOf(rel, key);
	const bool is_target = RelationGetRelid(rel) == RelationGetRelid(key.target);
	ScanKeyData keys[INDEX_MAX_KEYS];
	Relation index = index_open(with.index, AccessShareLock);
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	IndexScanDesc scan;

	for (int i = 0; i < with.columns; i++)
		ScanKeyEntryInitialize(&keys[i], 0, (AttrNumber) (i + 1), with.strategy, InvalidOid,
							   index->rd_indcollation[i], with.equal[i],
							   key.columns[with.order[i]].value);
#if PG_VERSION_NUM >= 180000
	scan = index_beginscan(rel, index, SnapshotAny, NULL, with.columns, 0);
#else
	scan = index_beginscan(rel, index, SnapshotAny, with.columns, 0);
#endif
	index_rescan(scan, keys, with.columns, NULL, 0);
	while (index_getnext_slot(scan, ForwardScanDirection, slot))
	{
		CHECK_FOR_INTERRUPTS();
		if (is_target && key.self != NULL && ItemPointerEquals(&slot->tts_tid, key.self))
			continue;
		if (scan->xs_recheck && !HasKey(keys, with, slot))
			continue;
		if (!IsMarked(with, slot) && look(rel, slot))
			break;
	}
	index_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	index_close(index, AccessShareLock);
}

/* ---- searching all of them ------------------------------------------------------------- */

/* Adds the tables below a partitioned one, those with the newest bounds first. */
static void
AddLeaves(Relation parent, List **leaves)
{
#if PG_VERSION_NUM >= 140000
	PartitionDesc partitions = RelationGetPartitionDesc(parent, true);
#else
	PartitionDesc partitions = RelationGetPartitionDesc(parent);
#endif
	const int n = partitions->nparts;
	Oid *oids = (Oid *) palloc(sizeof(Oid) * (Size) Max(n, 1));
	bool *is_leaf = (bool *) palloc(sizeof(bool) * (Size) Max(n, 1));

	/* The descriptor can be replaced while others are opened. */
	if (n > 0)
	{
		memcpy(oids, partitions->oids, sizeof(Oid) * (Size) n);
		memcpy(is_leaf, partitions->is_leaf, sizeof(bool) * (Size) n);
	}
	for (int i = n - 1; i >= 0; i--)
	{
		Relation child;

		if (is_leaf[i])
		{
			*leaves = lappend_oid(*leaves, oids[i]);
			continue;
		}
		child = try_relation_open(oids[i], AccessShareLock);
		if (child == NULL)
			continue;
		AddLeaves(child, leaves);
		relation_close(child, AccessShareLock);
	}
	pfree(oids);
	pfree(is_leaf);
}

List *
LeavesOf(Oid table)
{
	Relation rel = relation_open(table, NoLock);
	List *leaves = NIL;

	if (rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE)
		AddLeaves(rel, &leaves);
	else
		leaves = list_make1_oid(table);
	relation_close(rel, NoLock);
	return leaves;
}

/* The pages of a table as of the last VACUUM, ANALYZE or build of an index; at least 1. */
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
 * Which of some leaves, newest first, has rows that came when the key did, if rows go into
 * them one after the other. How many pages each has is looked up for every so many searches.
 */
static int
LikelyLeaf(const List *leaves, double age)
{
	constexpr int SEARCHES = 256;
	static double *newer = NULL; /* pages of the leaves before this one; the sum at last */
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
 * Searches a partition. Returns false if it is locked so that one would have to wait, and
 * `wait` is false.
 */
template <typename Look>
static bool
ScanLeaf(Oid table, bool wait, const SearchKey &key, Look look)
{
	Relation leaf;

	if (!wait && !ConditionalLockRelationOid(table, AccessShareLock))
		return false;
	leaf = try_relation_open(table, wait ? AccessShareLock : NoLock);
	if (leaf == NULL)
	{
		if (!wait)
			UnlockRelationOid(table, AccessShareLock);
		return true;
	}
	/* It may have been detached since the list was made: its rows are another table's. */
	if (leaf->rd_rel->relispartition)
		ScanTable(leaf, key, look);
	relation_close(leaf, AccessShareLock);
	return true;
}

/*
 * Searches the target, then the other partitions of the guarded table one by one, until one
 * has something: first those around the one where the key is likely to be, as far as that
 * needs no waiting for locks; then the rest, newest bounds first. look(table, slot) sets
 * `result`, and returns whether that is all.
 */
template <typename Look>
static void
ScanAll(const SearchKey &key, const SearchResult *result, Look look)
{
	const Oid target = RelationGetRelid(key.target);
	List *leaves;
	int n;
	bool *done;

	ScanTable(key.target, key, look);
	if (*result != SearchResult::None || key.plan->guarded == target)
		return;
	leaves = LeavesOf(key.plan->guarded);
	n = list_length(leaves);
	done = (bool *) palloc0((Size) Max(n, 1));
	for (int i = 0; i < n; i++)
		done[i] = list_nth_oid(leaves, i) == target;
	if (key.filter != NULL && n > 2)
	{
		const int likely = LikelyLeaf(leaves, LiveAgeOf(*key.filter, key.hash));

		/* likely, likely + 1, likely - 1, likely + 2, ... */
		for (int step = 0; step < 2 * n && *result == SearchResult::None; step++)
		{
			const int i = step % 2 == 0 ? likely - step / 2 : likely + (step + 1) / 2;

			if (i >= 0 && i < n && !done[i])
				done[i] = ScanLeaf(list_nth_oid(leaves, i), false, key, look);
		}
	}
	for (int i = 0; i < n && *result == SearchResult::None; i++)
		if (!done[i])
			(void) ScanLeaf(list_nth_oid(leaves, i), true, key, look);
	pfree(done);
	list_free(leaves);
}

/* What a version of a row is just now. */
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

/* Whether a version of a row was committed before, and is deleted or updated by us. */
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

	ScanAll(key, &result, [&](Relation rel, TupleTableSlot *slot) {
		bool inserting;
		const SearchResult now = JudgeNow(rel, slot, &inserting, deleter);

		if (now == SearchResult::Gone)
			ours = ours || IsDeletedByUs(slot);
		if (inserting || now == SearchResult::Gone)
			return false;
		result = now;
		return now == SearchResult::Live;
	});
	return result == SearchResult::None && ours ? SearchResult::Ours : result;
}

SearchResult
SearchBySnapshot(const SearchKey &key, Snapshot snapshot, TransactionId *deleter)
{
	SearchResult result = SearchResult::None;
	SearchKey proof = key;

	/* Nearly always there is nothing: then the order does not matter. */
	proof.filter = NULL;
	ScanAll(proof, &result, [&](Relation rel, TupleTableSlot *slot) {
		bool inserting;

		if (!table_tuple_satisfies_snapshot(rel, slot, snapshot))
			return false;
		result = JudgeNow(rel, slot, &inserting, deleter);
		return result == SearchResult::Live;
	});
	return result;
}
