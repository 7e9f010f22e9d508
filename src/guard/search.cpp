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

/* The partitions of a table; `leaving`: only those that are being detached concurrently. */
static List *
PartitionsOf(Relation parent, bool leaving)
{
#if PG_VERSION_NUM >= 140000
	PartitionDesc partitions = RelationGetPartitionDesc(parent, true);
	List *list = NIL;

	for (int i = 0; i < partitions->nparts && !leaving; i++)
		list = lappend_oid(list, partitions->oids[i]);
	if (leaving && partitions->detached_exist)
	{
		List *stay = PartitionsOf(parent, false);

		partitions = RelationGetPartitionDesc(parent, false);
		for (int i = 0; i < partitions->nparts; i++)
			if (!list_member_oid(stay, partitions->oids[i]))
				list = lappend_oid(list, partitions->oids[i]);
		list_free(stay);
	}
	return list;
#else
	PartitionDesc partitions = RelationGetPartitionDesc(parent);
	List *list = NIL;

	for (int i = 0; i < partitions->nparts && !leaving; i++)
		list = lappend_oid(list, partitions->oids[i]);
	return list;
#endif
}

/*
 * Adds the tables below a partitioned one, those with the newest bounds first. Those that are
 * being detached go into another list, if there is one.
 */
static void
AddLeaves(Relation parent, List **leaves, List **leaving)
{
	for (int pass = 0; pass < 2; pass++)
	{
		List **into = pass == 0 ? leaves : leaving;
		List *partitions;

		if (into == NULL)
			continue;
		partitions = PartitionsOf(parent, pass != 0);
		for (int i = list_length(partitions); i-- > 0;)
		{
			const Oid oid = list_nth_oid(partitions, i);
			Relation child;

			if (get_rel_relkind(oid) != RELKIND_PARTITIONED_TABLE)
			{
				*into = lappend_oid(*into, oid);
				continue;
			}
			child = try_relation_open(oid, AccessShareLock);
			if (child == NULL)
				continue;
			AddLeaves(child, into, pass == 0 ? leaving : into);
			relation_close(child, AccessShareLock);
		}
		list_free(partitions);
	}
}

/* Returns the tables of a guard; `leaving`: where those go that are being detached, or NULL. */
static List *
AllLeavesOf(Oid table, List **leaving)
{
	Relation rel = relation_open(table, NoLock);
	List *leaves = NIL;

	if (rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE)
		AddLeaves(rel, &leaves, leaving);
	else
		leaves = list_make1_oid(table);
	relation_close(rel, NoLock);
	return leaves;
}

List *
LeavesOf(Oid table)
{
	return AllLeavesOf(table, NULL);
}

/* Searches partitions one by one until one has something. */
template <typename Look>
static void
ScanLeaves(const SearchKey &key, const List *leaves, SearchResult *result, Look look)
{
	ListCell *cell;

	foreach(cell, leaves)
	{
		Relation leaf;

		if (*result != SearchResult::None)
			break;
		if (lfirst_oid(cell) == RelationGetRelid(key.target))
			continue;
		leaf = try_relation_open(lfirst_oid(cell), AccessShareLock);

		/*
		 * It may have been detached since the list was made: its rows are another table's. To
		 * do that, the server has waited for transactions whose rows we have passed over.
		 */
		if (leaf == NULL || !leaf->rd_rel->relispartition)
			*result = SearchResult::Gone;
		else
			ScanTable(leaf, key, look);
		if (leaf != NULL)
			relation_close(leaf, AccessShareLock);
	}
}

/*
 * Searches the target, then the other partitions of the guarded table. look(table, slot,
 * leaving) sets `result`, and returns whether that is all; `leaving`: the partition is being
 * detached concurrently. A row of that is none of the guarded table, but whoever deletes it
 * may count on us to wait for him (exact.cpp).
 */
template <typename Look>
static void
ScanAll(const SearchKey &key, SearchResult *result, Look look)
{
	List *leaving = NIL;
	List *leaves;

	ScanTable(key.target, key,
			  [&](Relation rel, TupleTableSlot *slot) { return look(rel, slot, false); });
	if (*result != SearchResult::None || key.plan->guarded == RelationGetRelid(key.target))
		return;
	leaves = AllLeavesOf(key.plan->guarded, &leaving);
	ScanLeaves(key, leaves, result,
			   [&](Relation rel, TupleTableSlot *slot) { return look(rel, slot, false); });
	ScanLeaves(key, leaving, result,
			   [&](Relation rel, TupleTableSlot *slot) { return look(rel, slot, true); });
	list_free(leaves);
	list_free(leaving);
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

	ScanAll(key, &result, [&](Relation rel, TupleTableSlot *slot, bool leaving) {
		bool inserting;
		const SearchResult now = JudgeNow(rel, slot, &inserting, deleter);

		if (now == SearchResult::Gone)
			ours = ours || IsDeletedByUs(slot);
		if (inserting || now == SearchResult::Gone || (leaving && now == SearchResult::Live))
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

	ScanAll(key, &result, [&](Relation rel, TupleTableSlot *slot, bool leaving) {
		SearchResult now;
		bool inserting;

		if (!table_tuple_satisfies_snapshot(rel, slot, snapshot))
			return false;
		now = JudgeNow(rel, slot, &inserting, deleter);
		if (leaving && now == SearchResult::Live)
			return false;
		result = now;
		return result == SearchResult::Live;
	});
	return result;
}
