/* Finds rows with equal keys; see twins.hpp. */
#include <algorithm>

#include "guard/twins.hpp"
#include "pg/equality.hpp"

extern "C" {
#include "access/table.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/rls.h"
#include "utils/snapmgr.h"
}

/* ---- lists of hashes ------------------------------------------------------------------- */

HashList
MakeHashList(int64 room)
{
	HashList list = {};

	list.room = room;
	list.hashes = (uint64 *) palloc_extended(sizeof(uint64) * (Size) room, MCXT_ALLOC_HUGE);
	return list;
}

void
AppendHash(HashList *list, uint64 hash)
{
	Assert(list->count < list->room && list->directory == NULL);
	list->hashes[list->count++] = hash;
}

void
EmptyHashList(HashList *list)
{
	list->count = 0;
	if (list->directory != NULL)
		pfree(list->directory);
	list->directory = NULL;
}

void
IndexHashes(HashList *list)
{
	int bits = 1;
	int64 buckets;
	int64 at = 0;

	/* A load into a filter that grows has them in another order. */
	if (!std::is_sorted(list->hashes, list->hashes + list->count))
		std::sort(list->hashes, list->hashes + list->count);
	while (((int64) 1 << bits) < list->count && bits < 30)
		bits++;
	buckets = (int64) 1 << bits;
	list->shift = 64 - bits;
	/* It is freed with the list. */
	list->directory = (uint32 *) MemoryContextAllocHuge(GetMemoryChunkContext(list->hashes),
														sizeof(uint32) * (Size) (buckets + 1));
	for (int64 bucket = 0; bucket <= buckets; bucket++)
	{
		while (at < list->count && (int64) (list->hashes[at] >> list->shift) < bucket)
			at++;
		list->directory[bucket] = (uint32) at;
	}
}

/* ---- equality of keys ------------------------------------------------------------------ */

namespace
{

/* The way to compare the columns of a key. */
struct KeyEquality
{
	int columns;
	Oid collations[INDEX_MAX_KEYS];
	FmgrInfo equals[INDEX_MAX_KEYS]; /* fn_oid 0: equal if their hashes are */
	int16 typlen[INDEX_MAX_KEYS];
	bool typbyval[INDEX_MAX_KEYS];
};

/* A row with one of the hashes. */
struct TwinRow
{
	TwinRow *next; /* with the same hash */
	TimestampTz at;
	NullableDatum columns[FLEXIBLE_ARRAY_MEMBER];
};

/* The rows that the scans have found so far. */
struct Twins
{
	const TwinSearch *search;
	/* with memory of its own, because this code may be called for a row of another scan */
	TableKeys keys;
	const HashList *hashes;
	KeyEquality equality;
	TwinRow **rows;         /* indexed by hash */
	MemoryContext context;  /* of the rows */
	bool hidden;            /* row-level security hides rows from this role */
	TransactionId wait_for; /* is about to delete a row that has a twin */
};

} /* namespace */

static void
MakeKeyEquality(const GuardClause &clause, KeyEquality *equality)
{
	equality->columns = clause.columns;
	for (int i = 0; i < clause.columns; i++)
	{
		const Oid function = KeyEqualityFunction(clause.types[i]);

		equality->collations[i] = clause.collations[i];
		equality->equals[i].fn_oid = InvalidOid;
		if (OidIsValid(function))
			fmgr_info(function, &equality->equals[i]);
		get_typlenbyval(clause.types[i], &equality->typlen[i], &equality->typbyval[i]);
	}
}

/* A NULL occurs only if it is a value like any other. */
static bool
KeysEqual(KeyEquality *equality, const NullableDatum *one, const NullableDatum *other)
{
	for (int i = 0; i < equality->columns; i++)
	{
		if (one[i].isnull || other[i].isnull)
		{
			if (one[i].isnull != other[i].isnull)
				return false;
			continue;
		}
		if (OidIsValid(equality->equals[i].fn_oid) &&
			!DatumGetBool(FunctionCall2Coll(&equality->equals[i], equality->collations[i],
											one[i].value, other[i].value)))
			return false;
	}
	return true;
}

/* ---- the error ------------------------------------------------------------------------- */

/* Returns "(a, b)=(1, x)". */
static char *
DescribeKey(const TwinSearch &search, const NullableDatum *columns)
{
	StringInfoData text;

	initStringInfo(&text);
	appendStringInfo(&text, "(%s)=(", ElementsText(RelationGetRelid(search.table), search.clause));
	for (int i = 0; i < search.clause.columns; i++)
	{
		Oid output;
		bool is_varlena;

		getTypeOutputInfo(search.clause.types[i], &output, &is_varlena);
		appendStringInfo(&text, "%s%s", i == 0 ? "" : ", ",
						 columns[i].isnull ? "null"
										   : OidOutputFunctionCall(output, columns[i].value));
	}
	appendStringInfoChar(&text, ')');
	return text.data;
}

[[noreturn]] static void
ReportTwins(const Twins &twins, const NullableDatum *columns)
{
	const TwinSearch &search = *twins.search;

	ereport(ERROR, (errcode(ERRCODE_UNIQUE_VIOLATION),
					errmsg("could not load the keys of table \"%s\" into live filter \"%s\"",
						   RelationGetRelationName(search.table), search.filter),
					twins.hidden ? errdetail("Duplicate keys exist.")
								 : errdetail("Key %s is duplicated.", DescribeKey(search, columns)),
					errtable(search.table)));
	pg_unreachable();
}

/* ---- searching ------------------------------------------------------------------------- */

/*
 * Returns whether a row still exists. Remembers the transaction that is deleting it, if there is
 * one.
 */
static bool
IsStillThere(Twins *twins, const KeyRow &row)
{
	TupleTableSlot *slot = table_slot_create(row.table, NULL);
	ItemPointerData tid = row.slot->tts_tid;
	SnapshotData dirty;
	bool found;

	InitDirtySnapshot(dirty);
	found = table_tuple_fetch_row_version(row.table, &tid, &dirty, slot);
	ExecDropSingleTupleTableSlot(slot);
	if (found && TransactionIdIsValid(dirty.xmax))
		twins->wait_for = dirty.xmax;
	return found && !TransactionIdIsValid(dirty.xmax);
}

static TimestampTz
TimeOf(const TwinSearch &search, const KeyRow &row)
{
	return row.key->has_time ? row.key->at : search.now;
}

/* Keeps a row for comparisons with others. */
static void
KeepRow(Twins *twins, int64 at, const KeyRow &row)
{
	const KeyEquality &equality = twins->equality;
	MemoryContext old = MemoryContextSwitchTo(twins->context);
	TwinRow *kept = (TwinRow *) palloc(offsetof(TwinRow, columns) +
									   sizeof(NullableDatum) * (Size) equality.columns);

	for (int i = 0; i < equality.columns; i++)
	{
		kept->columns[i] = row.key->columns[i];
		if (!kept->columns[i].isnull)
			kept->columns[i].value =
				datumCopy(kept->columns[i].value, equality.typbyval[i], equality.typlen[i]);
	}
	kept->at = TimeOf(*twins->search, row);
	kept->next = twins->rows[at];
	twins->rows[at] = kept;
	MemoryContextSwitchTo(old);
}

/*
 * Compares a row; `kept`: it is one of the rows that are kept for comparisons. Returns whether the
 * search is over.
 */
static bool
LookAtRow(Twins *twins, const KeyRow &row, bool kept)
{
	const int64 at = FindHash(*twins->hashes, row.hash);

	if (at < 0)
		return false;
	for (TwinRow *other = twins->rows[at]; other != NULL; other = other->next)
	{
		CHECK_FOR_INTERRUPTS();
		if (twins->search->ttl != 0 &&
			AreApart(other->at, TimeOf(*twins->search, row), twins->search->ttl))
			continue;
		if (!KeysEqual(&twins->equality, other->columns, row.key->columns))
			continue;
		if (kept || IsStillThere(twins, row))
			ReportTwins(*twins, row.key->columns);
		return TransactionIdIsValid(twins->wait_for);
	}
	if (kept)
		KeepRow(twins, at, row);
	return false;
}

static void
LookAtTables(Twins *twins, const List *tables, Snapshot snapshot, bool kept)
{
	ListCell *cell;

	foreach(cell, tables)
	{
		if (TransactionIdIsValid(twins->wait_for))
			return;
		VisitKeys(twins->keys, lfirst_oid(cell), snapshot,
				  [&](const KeyRow &row) { return LookAtRow(twins, row, kept); });
	}
}

void
CheckNoTwins(const TwinSearch &search, HashList *hashes)
{
	MemoryContext context =
		AllocSetContextCreateInternal(CurrentMemoryContext, "dedup_guard duplicates",
									  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	Twins twins = {};

	if (hashes->directory == NULL)
		IndexHashes(hashes);
	twins.search = &search;
	twins.keys = *search.keys;
	twins.keys.row_context =
		AllocSetContextCreateInternal(context, "dedup_guard row", ALLOCSET_DEFAULT_SIZES);
	twins.hashes = hashes;
	twins.context = AllocSetContextCreateInternal(context, "dedup_guard duplicate rows",
												  ALLOCSET_DEFAULT_SIZES);
	/* The scans run as another role. */
	twins.hidden =
		check_enable_rls(RelationGetRelid(search.table), InvalidOid, true) == RLS_ENABLED;
	MakeKeyEquality(search.clause, &twins.equality);
	do
	{
		Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());

		twins.wait_for = InvalidTransactionId;
		MemoryContextReset(twins.context);
		twins.rows = (TwinRow **) MemoryContextAllocZero(twins.context,
														 sizeof(TwinRow *) * (Size) hashes->count);
		LookAtTables(&twins, search.tables, snapshot, true);
		LookAtTables(&twins, search.others, snapshot, false);
		UnregisterSnapshot(snapshot);
		if (TransactionIdIsValid(twins.wait_for))
			XactLockTableWait(twins.wait_for, NULL, NULL, XLTW_None);
	} while (TransactionIdIsValid(twins.wait_for));
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}
