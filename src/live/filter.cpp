/* Opens live filters: recognizes them, reads their parameters, and checks who may use them. */
#include <bit>

#include "live/page_type.hpp"
#include "pg/catalog.hpp"
#include "pg/compat_storage.hpp"

extern "C" {
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "catalog/pg_class.h"
#include "catalog/pg_trigger.h"
#include "commands/defrem.h"
#include "nodes/primnodes.h"
#include "nodes/value.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "utils/acl.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
}

const LiveGuard *live_guard = NULL;

bool
IsLiveRelation(Relation rel)
{
	return rel->rd_tableam == LiveTableAm();
}

bool
IsLiveRelationId(Oid relid)
{
	Oid am = get_am_oid("streamdedup", true);
	HeapTuple tuple;
	bool live = false;

	if (!OidIsValid(am))
		return false;
	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	if (HeapTupleIsValid(tuple))
	{
		Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);

		live = form->relam == am && form->relkind == RELKIND_RELATION;
		ReleaseSysCache(tuple);
	}
	return live;
}

/* The most buffers that a filter remembers: those of a filter of 512 MB. A power of two. */
constexpr BlockNumber kMostRecentBuffers = 65536;

/* ---- parameters --------------------------------------------------------------- */

/* Returns the DEFAULT of the column "page", or null. */
static struct varlena *
ParametersDefault(Relation rel)
{
	TupleConstr *constraints = rel->rd_att->constr;
	struct varlena *value = NULL;

	if (constraints != NULL)
		for (int i = 0; i < constraints->num_defval; i++)
		{
			Node *node;

			if (constraints->defval[i].adnum != kLivePageColumn)
				continue;
			node = (Node *) stringToNode(constraints->defval[i].adbin);
			if (IsA(node, Const) && !((Const *) node)->constisnull)
				value = PG_DETOAST_DATUM(((Const *) node)->constvalue);
		}
	return value;
}

bool
LiveHasParameters(Relation rel)
{
	LiveParameters parameters;
	struct varlena *value;

	if (likely(rel->rd_amcache != NULL))
		return true;
	value = ParametersDefault(rel);
	return value != NULL && TryDecodeParameters(value, &parameters);
}

/* The number of pages for which the cache of a filter that grows has room at first. */
constexpr uint32 kFewPages = 64;

/* Makes the cached data of a filter with this many pages. */
static CachedLive *
MakeCache(const LiveParameters &parameters, uint32 pages)
{
	const bool grows = parameters.geometry.layout.grows;
	/*
	 * There is room for main pages, the page of counters and as many overflow pages. Further pages
	 * are verified each time they are read.
	 */
	const BlockNumber met_count = 2 * (pages + 1);
	const BlockNumber recent_count = std::bit_ceil(Min(pages + 1, kMostRecentBuffers));
	const Size map_at = offsetof(CachedLive, recent) + recent_count * sizeof(Buffer);
	const Size met_at = map_at + (grows ? pages * sizeof(BlockNumber) : 0);
	CachedLive *cached =
		(CachedLive *) MemoryContextAllocZero(CacheMemoryContext, met_at + met_count / 8 + 1);

	cached->parameters = parameters;
	cached->met_count = met_count;
	cached->recent_mask = recent_count - 1;
	cached->met = (uint8_t *) cached + met_at;
	if (grows)
	{
		cached->map = (BlockNumber *) ((uint8_t *) cached + map_at);
		cached->map_room = pages;
	}
	return cached;
}

void
CacheLiveParameters(Relation rel, const LiveParameters &parameters)
{
	const bool grows = parameters.geometry.layout.grows;

	Assert(rel->rd_amcache == NULL);
	rel->rd_amcache = MakeCache(parameters, grows ? kFewPages : parameters.geometry.pages);
}

void
EnlargeLiveCache(Relation rel, uint32 pages)
{
	CachedLive *old = (CachedLive *) rel->rd_amcache;
	CachedLive *cached = MakeCache(old->parameters, Max(pages, 2 * old->map_room));

	cached->whole_known = old->whole_known;
	cached->whole = old->whole;
	cached->pages = old->pages;
	memcpy(cached->map, old->map, old->map_room * sizeof(BlockNumber));
	memcpy(cached->met, old->met, old->met_count / 8 + 1);
	for (BlockNumber i = 0; i <= old->recent_mask; i++)
		cached->recent[i] = old->recent[i];
	rel->rd_amcache = cached;
	pfree(old);
}

LiveParameters
LiveParametersOf(Relation rel)
{
	LiveParameters parameters;
	struct varlena *value;

	if (likely(rel->rd_amcache != NULL))
		return ((CachedLive *) rel->rd_amcache)->parameters;
	value = ParametersDefault(rel);
	if (value == NULL)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("table \"%s\" was not made by dedup_create()",
							   RelationGetRelationName(rel)),
						errdetail("It has the access method of live filters, but not the default "
								  "of the column \"page\" that holds a filter's parameters."),
						errhint("Drop it, and make a live filter with dedup_create().")));
	DecodeParameters(value, &parameters);
	CacheLiveParameters(rel, parameters);
	return parameters;
}

/* ---- whole filters ------------------------------------------------------------- */

/* Returns the functions whose calls are a CHECK constraint. */
static List *
CheckFunctions(Relation rel)
{
	const TupleConstr *constraints = rel->rd_att->constr;
	List *functions = NIL;

	for (int i = 0; constraints != NULL && i < constraints->num_check; i++)
	{
		const Node *node = (const Node *) stringToNode(constraints->check[i].ccbin);

		if (IsA(node, FuncExpr))
			functions = lappend_oid(functions, ((const FuncExpr *) node)->funcid);
	}
	return functions;
}

/*
 * Returns the functions that an inserting statement calls first, or would call if they were
 * enabled.
 */
static List *
InsertTriggerFunctions(Relation rel)
{
	const TriggerDesc *triggers = rel->trigdesc;
	List *functions = NIL;

	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
	{
		const Trigger *trigger = &triggers->triggers[i];

		if (TRIGGER_FOR_BEFORE(trigger->tgtype) && TRIGGER_FOR_INSERT(trigger->tgtype) &&
			!TRIGGER_FOR_ROW(trigger->tgtype) && trigger->tgqual == NULL)
			functions = lappend_oid(functions, trigger->tgfoid);
	}
	return functions;
}

static bool
AnyIs(const List *functions, bool (*is_ours)(Oid))
{
	ListCell *cell;

	foreach(cell, functions)
		if (is_ours(lfirst_oid(cell)))
			return true;
	return false;
}

bool
LiveIsWhole(Relation rel)
{
	CachedLive *cached;

	if (!IsLiveRelation(rel) || !LiveHasParameters(rel))
		return false;
	LiveParametersOf(rel);
	cached = (CachedLive *) rel->rd_amcache;
	if (likely(cached->whole_known))
		return cached->whole;

	/* Looking up functions can free the relation's cache, so both lists are read first. */
	const List *checks = CheckFunctions(rel);
	const List *triggers = InsertTriggerFunctions(rel);
	const bool whole =
		AnyIs(checks, IsLiveCheckFunction) && AnyIs(triggers, IsRestoreTriggerFunction);

	cached = (CachedLive *) rel->rd_amcache;
	if (cached != NULL)
	{
		cached->whole = whole;
		cached->whole_known = true;
	}
	return whole;
}

/* ---- opening ------------------------------------------------------------------- */

namespace
{

/* The privilege that was checked last, while nothing has changed that could revoke it. */
struct CheckedRight
{
	Oid relid;
	Oid role;
	AclMode mode;
};

CheckedRight checked[8];
int checked_next;

/* The filter that keys were added to last. */
struct LastAdded
{
	Oid relid;
	LocalTransactionId in;

	/*
	 * NULL: to be looked up, with its lock. Else this transaction has locked the relation, and
	 * the server has not touched its entry since: it is where it was, though nobody refers to it.
	 */
	Relation rel;
};

LastAdded last_added;
bool callbacks_registered;

} /* namespace */

static void
ForgetCheckedRights(void)
{
	memset(checked, 0, sizeof checked);
}

static void
AtRelcacheInvalidation(Oid)
{
	ForgetCheckedRights();
	last_added.rel = NULL;
}

static void
AtSyscacheInvalidation(Datum, SYSCACHE_ID, uint32)
{
	ForgetCheckedRights();
}

/* What an aborting subtransaction has locked it has not any more, and what it has made goes. */
static void
AtSubtransactionAbort(SubXactEvent event, SubTransactionId, SubTransactionId, void *)
{
	if (event == SUBXACT_EVENT_ABORT_SUB)
		last_added.rel = NULL;
}

static void
RegisterCallbacks(void)
{
	WatchRelations(AtRelcacheInvalidation);
	CacheRegisterSyscacheCallback(AUTHOID, AtSyscacheInvalidation, (Datum) 0);
	CacheRegisterSyscacheCallback(AUTHMEMROLEMEM, AtSyscacheInvalidation, (Datum) 0);
	RegisterSubXactCallback(AtSubtransactionAbort, NULL);
	callbacks_registered = true;
}

static void
CheckRight(Relation rel, Oid role, AclMode mode)
{
	Oid relid = RelationGetRelid(rel);
	AclResult result;

	for (size_t i = 0; i < lengthof(checked); i++)
		if (checked[i].relid == relid && checked[i].role == role && checked[i].mode == mode)
			return;
	if (!callbacks_registered)
		RegisterCallbacks();
	result = pg_class_aclcheck(relid, role, mode);
	if (result != ACLCHECK_OK && role != GetUserId())
		ereport(
			ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("permission denied for live filter \"%s\"", RelationGetRelationName(rel)),
			 errdetail("The owner of the guarded table, \"%s\", needs the privilege INSERT on it.",
					   GetUserNameFromId(role, true)),
			 errhint("Grant it, or remove the guard with dedup_unguard().")));
	if (result != ACLCHECK_OK)
		aclcheck_error(result, OBJECT_TABLE, RelationGetRelationName(rel));
	checked[checked_next++ % lengthof(checked)] = {relid, role, mode};
}

#ifdef USE_ASSERT_CHECKING
/* Whether a relation is what a look-up would find, and is locked to add keys. */
static bool
IsFoundAndLocked(Relation rel, Oid relid)
{
	Relation found = RelationIdGetRelation(relid);
	const bool same = found == rel && CheckRelationLockedByMe(rel, RowExclusiveLock, false);

	if (found != NULL)
		RelationClose(found);
	return same;
}
#endif

/*
 * Opens a relation that keys are added to, or returns NULL if it is gone. Most are opened for
 * one row after the other: where this transaction has locked it before, and holds the lock yet,
 * neither is looked up again until something has changed. The lock keeps the relation from going.
 */
static Relation
OpenToAdd(Oid relid)
{
	Relation rel = NULL;

	if (likely(last_added.relid == relid && last_added.in == LOCAL_XID))
	{
		if (likely(last_added.rel != NULL))
		{
			rel = last_added.rel;
			RelationIncrementReferenceCount(rel);
			Assert(IsFoundAndLocked(rel, relid));
			return rel;
		}
		rel = RelationIdGetRelation(relid);
		if (rel != NULL && !CheckRelationLockedByMe(rel, RowExclusiveLock, false))
		{
			/* The subtransaction that had locked it has been undone. */
			RelationClose(rel);
			rel = NULL;
		}
	}
	if (unlikely(!callbacks_registered))
		RegisterCallbacks();
	if (rel == NULL)
		rel = try_relation_open(relid, RowExclusiveLock);
#ifdef RELCACHE_FORCE_RELEASE
	last_added = {relid, LOCAL_XID, NULL};
#else
	last_added = {relid, LOCAL_XID, rel};
#endif
	return rel;
}

LiveFilter
OpenLive(Oid relid, LiveUse use, Oid role, const char *function)
{
	bool adds = use == LiveUse::Add;
	LiveFilter filter;

	if (adds)
	{
		PreventCommandDuringRecovery(function);
		PreventCommandIfParallelMode(function);
	}
	filter.rel = adds ? OpenToAdd(relid) : try_relation_open(relid, AccessShareLock);
	if (filter.rel == NULL)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE),
						errmsg("live filter with OID %u does not exist", relid)));
	if (unlikely(!IsLiveRelation(filter.rel)))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a live filter", RelationGetRelationName(filter.rel)),
				 errhint(
					 "Make live filters with dedup_create(); the view dedup_filters lists them.")));
	if (adds && XactReadOnly && filter.rel->rd_rel->relpersistence != RELPERSISTENCE_TEMP)
		PreventCommandIfReadOnly(function);
	if (unlikely(filter.rel->rd_rel->relpersistence == RELPERSISTENCE_UNLOGGED &&
				 RecoveryInProgress()))
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("cannot query unlogged live filter \"%s\" during recovery",
							   LiveName(filter)),
						errdetail("Unlogged relations are not replicated.")));
	CheckRight(filter.rel, role, adds ? ACL_INSERT : ACL_SELECT);
	filter.parameters = LiveParametersOf(filter.rel);
	return filter;
}

bool
OpenLiveIfExists(Oid relid, const char *function, LiveFilter *filter)
{
	Relation rel = try_relation_open(relid, AccessShareLock);

	if (rel == NULL)
		return false;
	*filter = OpenLive(relid, LiveUse::Ask, GetUserId(), function);
	relation_close(rel, NoLock);
	return true;
}

void
CloseLive(const LiveFilter &filter)
{
	relation_close(filter.rel, NoLock);
}

/* ---- time ----------------------------------------------------------------------- */

/*
 * Generations are counted from 1970. In filters whose generations are shorter than a second they
 * are counted from 2025. So the generations until 2106 or 2038 fit into 32 bits.
 */
uint32
LiveGeneration(const LiveFilter &filter, TimestampTz at)
{
	const int64 length = filter.parameters.generation;
	const bool short_ones = length < USECS_PER_SEC;
	const int64 from =
		short_ones ? INT64CONST(9132) * USECS_PER_DAY : -INT64CONST(10957) * USECS_PER_DAY;
	const int64 end =
		from + (int64) (PG_UINT32_MAX - 16) * (short_ones ? USECS_PER_SEC / 10 : USECS_PER_SEC);

	if (length == 0 || at < from)
		return 0;
	if (at >= end)
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("event time is out of range for live filter \"%s\"", LiveName(filter)),
				 errdetail("Times are in range until %s.",
						   short_ones ? "August 2038" : "February 2106")));
	return Max((uint32) ((at - from) / length), 1u);
}

uint32
LiveGenerationNow(const LiveFilter &filter)
{
	if (filter.parameters.ttl == 0)
		return 0;
	return Max(LiveGeneration(filter, GetCurrentTimestamp()), 1u);
}

/*
 * A sender with a wrong clock should not move the window unnoticed. A replay of recorded events at
 * another speed may do so.
 */
bool
LiveIsAhead(const LiveFilter &filter, uint32 generation)
{
	return generation > LiveGenerationNow(filter) && generation > LiveClock(filter);
}

void
WarnLiveAhead(const LiveFilter &filter, const char *what)
{
	ereport(WARNING,
			(errmsg("%s ahead of the clock and moves the window of live filter \"%s\"", what,
					LiveName(filter)),
			 errdetail("When the transaction commits, that time becomes the present of the filter, "
					   "until the clock has reached it. Keys older than the window before it are "
					   "forgotten. is_new() refuses a new key until the ttl has passed since that "
					   "time, and at most a seventh of the ttl longer."),
			 errhint("If the time is wrong, empty the filter with TRUNCATE and fill it again.")));
}
