/*
 * Exact guards; see exact.hpp.
 *
 * Why the rule is correct. Every inserted row has its key in the filter: the key was loaded, or was
 * put there before the row's transaction can commit. So a key that the filter has not seen has no
 * row, and test-and-add puts it in flight in the same step. Otherwise:
 *
 *   1. A search of the table finds most duplicates. If it finds no row, this proves nothing: a row
 *      can move behind the search, and another session may be about to insert.
 *   2. The key is put in flight. If two sessions do so, the second waits for the first.
 *   3. The table is searched with a snapshot taken after that. The snapshot shows every row that
 *      was committed before, wherever it moves meanwhile; later sessions find our key in flight.
 *
 * No session waits while its key is in flight: a transaction that deletes the row and inserts it
 * again would wait for us.
 *
 * In a window of time, rows whose times are a ttl or more apart may have the same key. The search
 * skips them. The filter has the key of each row until the row has left the window, by the clock of
 * the key's page. LiveAddIfNew() decides when a missing key is proof. All other rows are searched
 * in the table, among them late rows and rows older than the window. Their keys are also put in
 * flight before the last search, so that two such rows do not miss each other. A row that this
 * transaction has deleted does not keep a row out whose time is far from the deleted row's time,
 * but near to the new row's. So the third step is also done in that case.
 */
#include "guard/exact.hpp"
#include "guard/row_key.hpp"

extern "C" {
#include "access/htup_details.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
}

/* ---- sites ----------------------------------------------------------------------------- */

LiveFilter
OpenExactFilter(const ExactSite *site)
{
	return OpenLive(site->plan->clause.filter, LiveUse::Add, site->owner, "dedup_guard");
}

/*
 * Returns whether this transaction may have attached a partition, or a partition above the table.
 * Other sessions see the rows that it inserts there as soon as it has committed, but see the
 * partition a moment later. So they must not search in between. Tables that inherit are looked up
 * by the snapshot that shows the rows, so that TimescaleDB can make chunks concurrently. But the
 * constraints of an existing table, which allow the search to skip it, are not looked up by that
 * snapshot.
 */
static bool
IsNewPartition(Relation rel)
{
	Oid table = RelationGetRelid(rel);

	while (OidIsValid(table))
	{
		HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(table));
		bool is_new;
		bool is_partition;

		if (!HeapTupleIsValid(tuple))
			return false;
		is_new = TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetRawXmin(tuple->t_data));
		is_partition = ((Form_pg_class) GETSTRUCT(tuple))->relispartition;
		ReleaseSysCache(tuple);
		if (!is_partition)
			return is_new && table == RelationGetRelid(rel) &&
				   rel->rd_createSubid == InvalidSubTransactionId;
		if (is_new)
			return true;
		table = PARENT_OF_PARTITION(table);
	}
	return false;
}

void
PrepareExactSite(ExactSite *site, Relation rel)
{
	LiveFilter filter;

	if (OidIsValid(site->owner))
		return;
	/* A row that is inserted directly into a partition has not locked the guarded table yet. */
	if (site->plan->guarded != RelationGetRelid(rel))
		LockRelationOid(site->plan->guarded,
						IsNewPartition(rel) ? ShareRowExclusiveLock : RowExclusiveLock);
	site->owner = OwnerOfTable(site->plan->guarded);
	if (!OidIsValid(site->owner))
		elog(ERROR, "cache lookup failed for relation %u", site->plan->guarded);
	filter = OpenExactFilter(site);
	site->covers = LiveCovers(filter);
	CloseLive(filter);
}

void
RequireCovered(const ExactSite *site)
{
	const Oid filter = site->plan->clause.filter;

	if (site->covers)
		return;
	ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					errmsg("live filter \"%s\" does not have the keys of table \"%s\"",
						   get_rel_name(filter), get_rel_name(site->plan->guarded)),
					errdetail("An exact guard would let duplicates of the missing keys in."),
					errhint("To load the keys, run: SELECT %s(%s);",
							quote_qualified_identifier(get_namespace_name(get_func_namespace(
														   site->plan->function)),
													   "dedup_rebuild"),
							quote_literal_cstr(QualifiedGuardName(filter)))));
}

/* ---- judging --------------------------------------------------------------------------- */

/* Only this code uses the snapshot, so it can be changed. */
Snapshot
TakeSnapshot(void)
{
	Snapshot latest = GetLatestSnapshot();
	Snapshot own;

	if (latest->copied)
		elog(ERROR, "no snapshot of this transaction was taken before");
	own = RegisterSnapshot(latest);
	own->curcid = InvalidCommandId;
	return own;
}

SearchResult
SearchForProof(const SearchKey &key, TransactionId *deleter)
{
	SearchResult result;

	do
	{
		Snapshot snapshot;

		CHECK_FOR_INTERRUPTS();
		snapshot = TakeSnapshot();
		result = SearchBySnapshot(key, snapshot, deleter);
		UnregisterSnapshot(snapshot);
	} while (result == SearchResult::Gone);
	return result;
}

/* Returns the generation of a row; 0 without times. */
static uint32
GenerationOf(const LiveFilter &filter, const GuardKey &row)
{
	return filter.parameters.ttl == 0 ? 0 : LiveGeneration(filter, row.at);
}

/* Warns if a row that will be inserted has moved the window ahead of the clock. */
static void
WarnAhead(const LiveFilter &filter, bool ahead)
{
	if (ahead)
		ereport(WARNING,
				(errmsg("time of a row is ahead of the clock and moves the window of live filter "
						"\"%s\"",
						LiveName(filter)),
				 errdetail("When the transaction commits, that time becomes the present of the "
						   "filter. Rows with earlier times are then searched in the table, which "
						   "is slower.")));
}

ExactVerdict
JudgeExactRow(const ExactSite *site, const LiveFilter &filter, const ExactRow &row)
{
	Oid found = InvalidOid;
	const int64 ttl = filter.parameters.ttl;
	const uint32 generation = GenerationOf(filter, *row.key);
	const bool ahead = ttl != 0 && LiveIsAhead(filter, generation);
	/* Only a set knows the order in which its keys came. */
	const SearchKey key = {site->plan, row.rel, row.key, ttl, row.self, ttl == 0 ? &filter : NULL,
						   row.hash,   &found};

	for (;;)
	{
		TransactionId deleter = InvalidTransactionId;
		SearchResult result;
		uint32 put_as;
		LivePut put;

		/* A row that was not inserted yet cannot be found, but keeps its key. */
		if (IsKeyInHand(site->plan, row.hash, *row.key, ttl, row.row))
			return {true, false, false, 0, InvalidOid};
		if (LiveAddIfNew(filter, row.hash, generation))
		{
			WarnAhead(filter, ahead);
			return {false, false, true, generation, InvalidOid};
		}

		result = SearchNow(key, &deleter);
		if (result == SearchResult::Live)
			return {true, true, false, 0, found};
		if (result == SearchResult::Deleting)
		{
			LiveWait(deleter);
			continue;
		}
		/*
		 * No other session can take the key while this transaction runs: it finds the row that we
		 * have deleted, and waits for us. It may have the key in flight for its last search, so
		 * waiting for it would be a deadlock.
		 */
		if (result == SearchResult::Ours)
			return {false, true, false, 0, InvalidOid};

		put = LivePutKey(filter, row.hash, generation, &put_as);
		if (put == LivePut::Waited)
			continue;
		result = SearchForProof(key, &deleter);
		if (result == SearchResult::None)
		{
			WarnAhead(filter, ahead);
			return {false, true, put == LivePut::Added, put_as, InvalidOid};
		}
		if (put == LivePut::Added)
			LiveTakeBack(filter, row.hash, GetCurrentTransactionId(), put_as);
		if (result == SearchResult::Live)
			return {true, true, false, 0, found};
		LiveWait(deleter);
	}
}

void
CountExactSearch(const LiveFilter &filter, const ExactVerdict &verdict, bool now)
{
	const LiveCounter counter = verdict.duplicate ? LiveCounter::Found : LiveCounter::NotFound;

	if (!verdict.searched)
		return;
	if (now)
		CountLiveNow(filter, counter, 1);
	else
		CountLive(filter, counter, 1);
}

/* ---- rows that were inserted ------------------------------------------------------------- */

/* Returns the data that a query that inserts into a guard index keeps about its table's guard. */
static ExactSite *
LandingSite(Relation heap, IndexInfo *info)
{
	ExactSite *site = (ExactSite *) info->ii_AmCache;
	const GuardPlan *plan = NULL;
	Oid function;

	if (site != NULL)
		return site;
	function = FindGuardFunction(heap, false);
	if (OidIsValid(function))
		plan = FindGuardPlan(heap, function, true);
	site = (ExactSite *) MemoryContextAllocZero(info->ii_Context, sizeof(ExactSite));
	site->plan = plan != NULL && plan->options.exact ? plan : NULL;
	site->query = info->ii_Context;
	if (site->plan != NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(info->ii_Context);

		MakeKeyReader(&site->reader, &site->plan->clause);
		MemoryContextSwitchTo(old);
	}
	info->ii_AmCache = site;
	return site;
}

bool
LandsWithKey(const GuardRow *row, Relation heap, Relation index, const Datum *values,
			 const bool *isnull)
{
	GuardKey key;

	/* An index that does not have all columns is not the guard's. */
	return !ReadLandedKey(*row->reader, heap, index, values, isnull, &key, NULL) ||
		   (key.counts && EqualGuardKeys(row->plan, row->key, key.columns) &&
			key.has_time == row->has_time && (!key.has_time || key.at == row->at));
}

/* Puts the key of a row in flight that stays, whatever other rows have its key. */
static bool
AddLandedKey(const LiveFilter &filter, uint64 hash, uint32 generation)
{
	uint32 put_as;
	LivePut put;

	if (LiveAddIfNew(filter, hash, generation))
		return true;
	do
		put = LivePutKey(filter, hash, generation, &put_as);
	while (put == LivePut::Waited);
	return put == LivePut::Added;
}

/* Judges an inserted row. Raises 23505 if it may not stay. */
static void
JudgeLanded(const ExactSite *site, const LiveFilter &filter, const ExactRow &landed, GuardRow *row)
{
	const GuardPlan *plan = site->plan;
	uint32 generation = 0;
	bool added;

	/* A duplicate that no trigger has seen cannot be left out or marked any more. */
	if (row == NULL && plan->mode != GuardMode::Reject)
		added = AddLandedKey(filter, landed.hash, GenerationOf(filter, *landed.key));
	else
	{
		const ExactVerdict verdict = JudgeExactRow(site, filter, landed);

		CountExactSearch(filter, verdict, verdict.duplicate);
		if (verdict.duplicate)
			RejectRow(landed.rel, plan, filter, landed.key->columns);
		added = verdict.added;
		generation = verdict.generation;
	}
	if (!added)
		return;
	if (row == NULL)
		CountLive(filter, LiveCounter::New, 1);
	else
		NoteLandedRow(row, filter, landed.hash, generation, landed.rel, landed.self,
					  site->may_kill);
}

void
ExactRowLanded(Relation heap, Relation index, const Datum *values, const bool *isnull,
			   ItemPointer tid, IndexInfo *info, GuardRow *row)
{
	ExactSite *site = row != NULL ? row->exact : LandingSite(heap, info);
	GuardKey key;
	MemoryContext memory;
	MemoryContext old;
	LiveFilter filter;
	uint64 hash;
	bool marked;

	/* A new index gets rows that already exist until it is valid. */
	if (site == NULL || site->plan == NULL || !index->rd_index->indisvalid)
		return;
	SettleGuardRows();
	PrepareExactSite(site, heap);
	if (!site->covers)
	{
		/* A row that no trigger has seen, as in a restore, stays: dedup_rebuild() will check it. */
		if (row != NULL)
			RequireCovered(site);
		return;
	}
	/*
	 * The server calls this function in the query's memory context, and functions of types leave
	 * copies behind. Code that these run may insert a row and call this function again, too.
	 */
	memory = site->memory;
	site->memory = NULL;
	if (memory == NULL)
		memory =
			AllocSetContextCreateInternal(site->query, "dedup_guard row", ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(memory);
	filter = OpenExactFilter(site);
	if (ReadLandedKey(site->reader, heap, index, values, isnull, &key, &marked) && !marked &&
		HashGuardKey(site->plan, key, filter.key_seed(), &hash))
		JudgeLanded(site, filter, {heap, &key, hash, tid, row}, row);
	CloseLive(filter);
	MemoryContextSwitchTo(old);
	MemoryContextReset(memory);
	site->memory = memory;
}
