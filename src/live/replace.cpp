/*
 * Replaces the contents of a live filter; see replace.hpp.
 *
 * The files are exchanged as in VACUUM FULL: finish_heap_swap() gives the filter's row of pg_class
 * the new file, and drops the transient relation with the old one. It also rebuilds indexes and
 * handles TOAST tables, but a live filter has neither. No new file is made for the relation itself.
 * So LiveSetNewFile() in table_am.cpp, which would treat such a file as that of a TRUNCATE, is not
 * called. Notes about rows that name the old file (guard/rows.cpp) are void afterwards, as after a
 * TRUNCATE.
 */
#include "core/live_method.hpp"
#include "live/keys.hpp"
#include "live/page_type.hpp"
#include "live/replace.hpp"
#include "pg/compat_storage.hpp"
#include "pg/subtransaction.hpp"
#include "value/datum.hpp"

extern "C" {
#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "catalog/indexing.h"
#include "catalog/pg_attrdef.h"
#include MAKE_NEW_HEAP_HEADER
#include "nodes/primnodes.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
}

using namespace dedup::live;

/* ---- sizes -------------------------------------------------------------------------- */

LiveParameters
ResizeLive(const LiveFilter &filter, Datum prototype)
{
	const LiveParameters &old = filter.parameters;
	dedup::Shape shape = GetPrototype(false, prototype, LIVE_PROTOTYPE, LIVE_LOAD_HINT);
	LiveParameters parameters;

	if (shape.seed == 0)
		shape.seed = old.shape.seed;
	if (shape.hash == dedup::kXxh3Hash)
		shape.hash = old.shape.hash;
	parameters = PlanLiveParameters(shape, old.ttl, old.renew);
	if (parameters.forgets != old.forgets)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("cannot make live filter \"%s\" a filter of another kind",
							   LiveName(filter)),
						errdetail("It never forgets a key, but the prototype is a window."),
						errhint("Give a prototype of dedup_filter().")));
	return parameters;
}

/* ---- the replacement ---------------------------------------------------------------- */

LiveFilter
MakeLiveReplacement(const LiveFilter &filter, const LiveParameters &parameters)
{
	const Form_pg_class form = filter.rel->rd_rel;
	LiveFilter made = {NULL, parameters, pstrdup(LiveName(filter))};

	const Oid relid = MAKE_NEW_HEAP(RelationGetRelid(filter.rel), form->reltablespace, form->relam,
									form->relpersistence);
	made.rel = relation_open(relid, AccessExclusiveLock);
	/* This way each page is verified once. Otherwise it would be verified at each use. */
	CacheLiveParameters(made.rel, parameters);
	/* The time of a window does not go back. */
	if (parameters.ttl != 0)
		NoteLiveGeneration(made, LiveClock(filter));
	return made;
}

/* Removes an entry of a key from a held page and its chain. */
static bool
EraseEntry(const LiveFilter &filter, const HeldPage &main, const Address &address)
{
	bool erased = false;

	VisitPagesOf(filter, main, address.rest, BUFFER_LOCK_EXCLUSIVE, [&](const HeldPage &page) {
		const AreaShape &area = AreaOf(page.bytes);

		return VisitKey(page.bytes, area, address.line, address.rest,
						[&](unsigned place, const Entry &entry) {
							if (SideOf(filter, page.bytes, LoadTag(page.bytes, entry.tag).xid) !=
								Side::Present)
								return false;
							StartChange();
							ChangeByte(page, EntryAt(area, place), kTakenBack);
							MakeChange(filter);
							return erased = true;
						});
	});
	return erased;
}

/* Removes the fingerprint of a key from its line. */
static bool
EraseFingerprint(const LiveFilter &filter, const HeldPage &main, const Address &address)
{
	PGAlignedBlock scratch;
	uint8_t *copy = (uint8_t *) scratch.data;
	uint32 generation;

	memcpy(copy, main.bytes, BLCKSZ);
	if (!TakeFromLine(LineAt(copy, address.line), LinesOf(filter, copy), address.rest,
					  ClockOf(copy), &generation))
		return false;
	StartChange();
	ChangeToScratch(main, copy);
	MakeChange(filter);
	return true;
}

uint32
LastInReplacement(const LiveFilter &replacement, uint64 hash, uint32 now)
{
	const Address address = AddressIn(replacement, hash);
	HeldPage main;
	uint32 last;

	if (!HoldPageToRead(replacement, address, &main))
		return 0;
	now = Max(now, ClockOf(main.bytes));
	last = LastSight(replacement, main, address, now);
	ReleasePage(main);
	return last != 0 && Alive(last, now) ? last : 0;
}

bool
EraseFromReplacement(const LiveFilter &replacement, uint64 hash)
{
	const Address address = AddressIn(replacement, hash);
	bool erased = false;
	bool found;
	HeldPage main;

	HoldPageOfKey(replacement, address, &main);
	/* In a window of time, a key has an entry for each generation under which it was put. */
	do
	{
		found =
			EraseEntry(replacement, main, address) || EraseFingerprint(replacement, main, address);
		erased = erased || found;
	} while (found && replacement.parameters.ttl != 0);
	ReleasePage(main);
	if (erased)
		CountLive(replacement, LiveCounter::New, -1);
	return erased;
}

/* ---- exchanging --------------------------------------------------------------------- */

/*
 * Replaces the parameters in an expression that holds parameters: the DEFAULT of the column "page".
 */
static char *
ExpressionWith(const char *expression, const LiveParameters &parameters)
{
	Node *node = (Node *) stringToNode(expression);

	if (!IsA(node, Const))
		elog(ERROR, "default of a live filter is not a constant");
	((Const *) node)->constvalue = PointerGetDatum(EncodeParameters(parameters));
	((Const *) node)->constisnull = false;
	return nodeToString(node);
}

/*
 * Changes the DEFAULT. Its dependencies do not change, because it remains a constant of the same
 * type.
 */
static void
StoreParameters(Oid relid, const LiveParameters &parameters)
{
	Relation catalog = table_open(AttrDefaultRelationId, RowExclusiveLock);
	Datum values[Natts_pg_attrdef] = {};
	bool nulls[Natts_pg_attrdef] = {};
	bool replaces[Natts_pg_attrdef] = {};
	ScanKeyData key[2];
	SysScanDesc scan;
	HeapTuple tuple;
	HeapTuple changed;
	bool isnull;
	Datum expression;

	ScanKeyInit(&key[0], Anum_pg_attrdef_adrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(relid));
	ScanKeyInit(&key[1], Anum_pg_attrdef_adnum, BTEqualStrategyNumber, F_INT2EQ,
				Int16GetDatum(kLivePageColumn));
	scan = systable_beginscan(catalog, AttrDefaultIndexId, true, NULL, 2, key);
	tuple = systable_getnext(scan);
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "live filter %u has no parameters", relid);
	expression = heap_getattr(tuple, Anum_pg_attrdef_adbin, RelationGetDescr(catalog), &isnull);
	values[Anum_pg_attrdef_adbin - 1] =
		CStringGetTextDatum(ExpressionWith(TextDatumGetCString(expression), parameters));
	replaces[Anum_pg_attrdef_adbin - 1] = true;
	changed = heap_modify_tuple(tuple, RelationGetDescr(catalog), values, nulls, replaces);
	CatalogTupleUpdate(catalog, &changed->t_self, changed);
	systable_endscan(scan);
	table_close(catalog, RowExclusiveLock);
	CacheInvalidateRelcacheByRelid(relid);
}

/*
 * Reads the counts of a filter. They may be unreadable, because a filter may be replaced because it
 * is damaged.
 */
static LiveCounts
CountsOf(const LiveFilter &filter)
{
	const MemoryContext context = CurrentMemoryContext;
	const ResourceOwner owner = CurrentResourceOwner;
	LiveCounts counts = {};

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		SettleLiveCounters(filter);
		counts = ReadLiveCounts(filter);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		ErrorData *error = RollBackError(context, owner);

		if (error->sqlerrcode != ERRCODE_DATA_CORRUPTED)
			ReThrowError(error);
		counts = {};
		ereport(WARNING,
				(errmsg("the counters of live filter \"%s\" start again", LiveName(filter)),
				 errdetail_internal("%s", error->message)));
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return counts;
}

void
ExchangeLive(const LiveFilter &filter, const LiveFilter &replacement)
{
	const Oid relid = RelationGetRelid(filter.rel);
	const Oid made = RelationGetRelid(replacement.rel);
	/* Its pages name no transaction except this one. */
	const TransactionId frozen = replacement.rel->rd_rel->relfrozenxid;
	const MultiXactId multi = replacement.rel->rd_rel->relminmxid;
	const char persistence = replacement.rel->rd_rel->relpersistence;

	CarryLiveCounts(filter, CountsOf(filter), replacement);
	relation_close(replacement.rel, NoLock);
	relation_close(filter.rel, NoLock);
	FINISH_HEAP_SWAP(relid, made, frozen, multi, persistence);
	StoreParameters(relid, replacement.parameters);
	CommandCounterIncrement();
}
