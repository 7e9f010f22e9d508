/*
 * SQL functions on live filters: ask, add, forget, batches, snapshots.
 */
#include "core/live_method.hpp"
#include "live/page_type.hpp"
#include "pg/keys.hpp"
#include "value/datum.hpp"

extern "C" {
#include "catalog/namespace.h"
#include "catalog/pg_proc.h"
#include "storage/bufmgr.h"
#include "utils/array.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/varlena.h"
}

using dedup::Header;
using namespace dedup::live;

/* ---- the name of a filter ---------------------------------------------------------- */

namespace
{

/* How the first argument names the filter. */
enum class NameKind
{
	Text,
	Regclass
};

/* What a call site keeps in fn_extra. */
struct LiveCall
{
	KeyPlan    *keys;
	Oid			element_type;	/* dedup_new_keys: what the plan is for */
	int16		typlen;
	bool		typbyval;
	char		typalign;

	/* dedup_new_keys: the set that is being returned; it lives in `context`. */
	MemoryContext context;
	bool		active;
	Datum	   *values;
	bool	   *isnull;
	int			next;
	int			count;

	/* The name resolved last, and what its meaning depends on. */
	text	   *name;
	char	   *search_path;
	Oid			user;
	uint64		catalogs;
	Oid			relid;
};

}							/* namespace */

/* Counts changes of relations and schemas, any of which can give a name another meaning. */
static uint64 catalog_changes = 1;

static void
AtRelcacheChange(Datum, Oid)
{
	catalog_changes++;
}

static void
AtSyscacheChange(Datum, int, uint32)
{
	catalog_changes++;
}

static LiveCall *
GetLiveCall(FunctionCallInfo fcinfo)
{
	static bool registered = false;
	LiveCall   *call = (LiveCall *) fcinfo->flinfo->fn_extra;

	if (call == NULL)
	{
		if (!registered)
		{
			CacheRegisterRelcacheCallback(AtRelcacheChange, (Datum) 0);
			CacheRegisterSyscacheCallback(NAMESPACEOID, AtSyscacheChange, (Datum) 0);
			registered = true;
		}
		call = (LiveCall *) MemoryContextAllocZero(fcinfo->flinfo->fn_mcxt, sizeof(LiveCall));
		fcinfo->flinfo->fn_extra = call;
	}
	return call;
}

/*
 * Raises an error for a NULL argument. A result of NULL would silently leave out the
 * rows of a query that asks WHERE is_new(...).
 */
static void
RequireArgument(FunctionCallInfo fcinfo, int argument, const char *what, const char *function)
{
	if (PG_ARGISNULL(argument))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("%s of %s must not be null", what, function)));
}

static Oid
ResolveName(FunctionCallInfo fcinfo, LiveCall *call, NameKind kind)
{
	text	   *name;

	if (kind == NameKind::Regclass)
		return PG_GETARG_OID(0);
	name = PG_GETARG_TEXT_PP(0);
	if (call->name != NULL && call->catalogs == catalog_changes && call->user == GetUserId() &&
		VARSIZE_ANY_EXHDR(call->name) == VARSIZE_ANY_EXHDR(name) &&
		memcmp(VARDATA_ANY(call->name), VARDATA_ANY(name), VARSIZE_ANY_EXHDR(name)) == 0 &&
		strcmp(call->search_path, namespace_search_path) == 0)
		return call->relid;

	Oid			relid = RangeVarGetRelid(makeRangeVarFromNameList(textToQualifiedNameList(name)),
										 NoLock, false);
	MemoryContext old = MemoryContextSwitchTo(fcinfo->flinfo->fn_mcxt);

	if (call->name != NULL)
	{
		pfree(call->name);
		pfree(call->search_path);
		call->name = NULL;
	}
	call->search_path = pstrdup(namespace_search_path);
	call->user = GetUserId();
	call->relid = relid;
	call->catalogs = catalog_changes;
	call->name = (text *) DatumGetPointer(PointerGetDatum(cstring_to_text_with_len(VARDATA_ANY(name),
																				   (int) VARSIZE_ANY_EXHDR(name))));
	MemoryContextSwitchTo(old);
	return relid;
}

/* The call site with a plan for the key columns from argument `first` on. */
static LiveCall *
GetKeyLiveCall(FunctionCallInfo fcinfo, int first)
{
	LiveCall   *call = GetLiveCall(fcinfo);

	if (call->keys == NULL)
		call->keys = MakeKeyPlan(fcinfo, first);
	return call;
}

/* ---- ask and add --------------------------------------------------------------------- */

/* Test-and-add of the key from argument `first` on. */
static Datum
IsNew(FunctionCallInfo fcinfo, NameKind kind, bool timed)
{
	const char *function = timed ? "is_new_at()" : "is_new()";
	const int	first = timed ? 2 : 1;
	LiveCall   *call;
	LiveFilter	filter;
	uint64		hash;
	LiveAnswer	answer = LiveAnswer::New;
	bool		has_key;

	RequireArgument(fcinfo, 0, "name", function);
	if (timed)
		RequireArgument(fcinfo, 1, "event time", function);
	call = GetKeyLiveCall(fcinfo, first);
	SettleLandedRows();
	filter = OpenLive(ResolveName(fcinfo, call, kind), LiveUse::Add, GetUserId(), function);
	if (timed && filter.parameters.ttl == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("live filter \"%s\" has no window of time", LiveName(filter)),
				 errhint("Give dedup_create() a ttl, or call is_new().")));
	has_key = HashKey(call->keys, fcinfo, NullKeys::Skip, filter.key_seed(), &hash);
	if (has_key)
	{
		if (timed)
		{
			const uint32 generation = LiveGeneration(filter, PG_GETARG_TIMESTAMPTZ(1));
			const bool	ahead = LiveIsAhead(filter, generation);

			answer = LiveTestAndAdd(filter, hash, generation, LiveTime::Event);
			if (ahead && answer == LiveAnswer::New)
				WarnLiveAhead(filter, "event time is");
		}
		else
			answer = LiveTestAndAdd(filter, hash, LiveGenerationNow(filter));
		CountLive(filter, answer == LiveAnswer::Duplicate ? LiveCounter::Duplicate : LiveCounter::New, 1);
	}
	CloseLive(filter);
	PG_RETURN_BOOL(answer != LiveAnswer::Duplicate);
}

/*
 * is_new(name text, VARIADIC key "any") returns boolean, and (name regclass, …)
 *
 * Whether the key is new to a live filter, which remembers it if this transaction
 * commits. Waits for another transaction that has the same key in flight. A key with a
 * NULL column is always new, and not remembered. A NULL name raises 22004.
 */
DEDUP_FUNCTION(dedup_live_is_new)
{
	return IsNew(fcinfo, NameKind::Text, false);
}

DEDUP_FUNCTION(dedup_live_is_new_oid)
{
	return IsNew(fcinfo, NameKind::Regclass, false);
}

/*
 * is_new_at(name, at timestamptz, VARIADIC key "any") returns boolean
 *
 * The same in a filter with a ttl, by the event's own time. An event older than the
 * window before the newest one is new, and not remembered. A NULL time raises 22004.
 */
DEDUP_FUNCTION(dedup_live_is_new_at)
{
	return IsNew(fcinfo, NameKind::Text, true);
}

DEDUP_FUNCTION(dedup_live_is_new_at_oid)
{
	return IsNew(fcinfo, NameKind::Regclass, true);
}

static Datum
Seen(FunctionCallInfo fcinfo, NameKind kind)
{
	LiveCall   *call;
	LiveFilter	filter;
	uint64		hash;
	bool		seen = false;

	RequireArgument(fcinfo, 0, "name", "dedup_seen()");
	call = GetKeyLiveCall(fcinfo, 1);
	if (!RecoveryInProgress() && !IsInParallelMode())
		SettleLandedRows();
	filter = OpenLive(ResolveName(fcinfo, call, kind), LiveUse::Ask, GetUserId(), "dedup_seen()");
	if (HashKey(call->keys, fcinfo, NullKeys::Skip, filter.key_seed(), &hash))
		seen = LiveSeen(filter, hash, LiveGenerationNow(filter));
	CloseLive(filter);
	PG_RETURN_BOOL(seen);
}

/*
 * dedup_seen(name, VARIADIC key "any") returns boolean
 *
 * Whether a live filter has the key: committed, or added by this transaction. Never
 * waits, and changes nothing.
 */
DEDUP_FUNCTION(dedup_live_seen)
{
	return Seen(fcinfo, NameKind::Text);
}

DEDUP_FUNCTION(dedup_live_seen_oid)
{
	return Seen(fcinfo, NameKind::Regclass);
}

static Datum
Forget(FunctionCallInfo fcinfo, NameKind kind)
{
	LiveCall   *call;
	LiveFilter	filter;
	uint64		hash;
	bool		found = false;

	RequireArgument(fcinfo, 0, "name", "dedup_forget()");
	call = GetKeyLiveCall(fcinfo, 1);
	SettleLandedRows();
	filter = OpenLive(ResolveName(fcinfo, call, kind), LiveUse::Add, GetUserId(), "dedup_forget()");
	if (HashKey(call->keys, fcinfo, NullKeys::Skip, filter.key_seed(), &hash))
		found = LiveForget(filter, hash, LiveGenerationNow(filter));
	CloseLive(filter);
	PG_RETURN_BOOL(found);
}

/*
 * dedup_forget(name, VARIADIC key "any") returns boolean
 *
 * Forgets a key when this transaction commits; says whether it was there. Only for keys
 * whose add was answered new: forgetting one that was never added may forget another
 * with the same fingerprint, at the filter's rate.
 */
DEDUP_FUNCTION(dedup_live_forget)
{
	return Forget(fcinfo, NameKind::Text);
}

DEDUP_FUNCTION(dedup_live_forget_oid)
{
	return Forget(fcinfo, NameKind::Regclass);
}

/* ---- batches --------------------------------------------------------------------------- */

/* Forgets the set: it was returned, or the rest of it is not wanted. */
static void
EndSet(Datum argument)
{
	LiveCall   *call = (LiveCall *) DatumGetPointer(argument);

	call->active = false;
	MemoryContextReset(call->context);
}

/* Adds the whole array, and leaves the new elements to be returned. */
static void
StartSet(FunctionCallInfo fcinfo, LiveCall *call, NameKind kind)
{
	LiveFilter	filter;
	ArrayType  *array;
	Oid			type;
	MemoryContext old;
	MemoryContext work;
	uint64	   *hashes;
	int		   *places;
	LiveAnswer *answers;
	size_t		n = 0;
	size_t		fresh = 0;
	int			kept = 0;

	if (call->context == NULL)
		call->context = AllocSetContextCreateInternal(fcinfo->flinfo->fn_mcxt, "dedup_new_keys",
													  ALLOCSET_SMALL_SIZES);
	MemoryContextReset(call->context);
	work = AllocSetContextCreateInternal(call->context, "dedup_new_keys work",
										 ALLOCSET_DEFAULT_SIZES);

	/* The elements stay where they are in the array, which stays until the set's end. */
	old = MemoryContextSwitchTo(call->context);
	array = PG_GETARG_ARRAYTYPE_P(1);
	type = ARR_ELEMTYPE(array);
	if (call->element_type != type)
	{
		call->element_type = InvalidOid;
		call->keys = MakeElementKeyPlan(fcinfo->flinfo->fn_mcxt, type, PG_GET_COLLATION());
		get_typlenbyvalalign(type, &call->typlen, &call->typbyval, &call->typalign);
		call->element_type = type;
	}
	deconstruct_array(array, type, call->typlen, call->typbyval, call->typalign, &call->values,
					  &call->isnull, &call->count);
	MemoryContextSwitchTo(work);
	SettleLandedRows();
	filter = OpenLive(ResolveName(fcinfo, call, kind), LiveUse::Add, GetUserId(), "dedup_new_keys()");
	hashes = (uint64 *) palloc_extended(sizeof(uint64) * ((Size) call->count + 1), MCXT_ALLOC_HUGE);
	places = (int *) palloc_extended(sizeof(int) * ((Size) call->count + 1), MCXT_ALLOC_HUGE);
	answers = (LiveAnswer *) palloc_extended(sizeof(LiveAnswer) * ((Size) call->count + 1),
											 MCXT_ALLOC_HUGE);
	for (int i = 0; i < call->count; i++)
	{
		NullableDatum column;

		column.value = call->values[i];
		column.isnull = call->isnull[i];
		places[i] = -1;
		if (HashColumns(call->keys, &column, NullKeys::Skip, filter.key_seed(), &hashes[n]))
			places[i] = (int) n++;
	}
	LiveTestAndAddBatch(filter, hashes, n, LiveGenerationNow(filter), answers);
	for (int i = 0; i < call->count; i++)
	{
		if (places[i] >= 0 && answers[places[i]] == LiveAnswer::Duplicate)
			continue;
		call->values[kept] = call->values[i];
		call->isnull[kept] = call->isnull[i];
		kept++;
		fresh += places[i] >= 0;
	}
	if (fresh > 0)
		CountLive(filter, LiveCounter::New, (int64) fresh);
	if (n > fresh)
		CountLive(filter, LiveCounter::Duplicate, (int64) (n - fresh));
	CloseLive(filter);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(work);
	call->count = kept;
	call->next = 0;
	call->active = true;
}

/*
 * The whole array is added at the first call; what is new comes out value by value, so
 * that elements which are rows are returned as rows.
 */
static Datum
NewKeys(FunctionCallInfo fcinfo, NameKind kind)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	LiveCall   *call = GetLiveCall(fcinfo);

	if (result == NULL || !IsA(result, ReturnSetInfo) || !(result->allowedModes & SFRM_ValuePerCall))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("set-valued function called in context that cannot accept a set")));
	if (!call->active)
	{
		RequireArgument(fcinfo, 0, "name", "dedup_new_keys()");
		/* array_agg() over no rows: there is no key to answer for. */
		if (PG_ARGISNULL(1))
		{
			result->isDone = ExprEndResult;
			PG_RETURN_NULL();
		}
		StartSet(fcinfo, call, kind);
		RegisterExprContextCallback(result->econtext, EndSet, PointerGetDatum(call));
	}
	if (call->next >= call->count)
	{
		UnregisterExprContextCallback(result->econtext, EndSet, PointerGetDatum(call));
		EndSet(PointerGetDatum(call));
		result->isDone = ExprEndResult;
		PG_RETURN_NULL();
	}
	result->isDone = ExprMultipleResult;
	fcinfo->isnull = call->isnull[call->next];
	return call->values[call->next++];
}

/*
 * dedup_new_keys(name, keys anyarray) returns setof anyelement
 *
 * Those elements that are new, in order; the filter remembers them as one batch, with
 * one WAL record a page. NULL elements are new, and not remembered.
 */
DEDUP_FUNCTION(dedup_live_new_keys)
{
	return NewKeys(fcinfo, NameKind::Text);
}

DEDUP_FUNCTION(dedup_live_new_keys_oid)
{
	return NewKeys(fcinfo, NameKind::Regclass);
}

/* ---- snapshots ----------------------------------------------------------------------------- */

/* The newest generation in what a snapshot sees of a page. */
static uint32
NewestOf(const DumpedPage &page)
{
	uint32		newest = page.clock;

	for (uint32 i = 0; i < page.count; i++)
		newest = Max(newest, page.entries[i].generation);
	return newest;
}

static Datum
TakeSnapshot(FunctionCallInfo fcinfo, NameKind kind)
{
	LiveCall   *call = GetLiveCall(fcinfo);
	LiveFilter	filter;
	const dedup::Shape *shape;
	const LineLayout *layout;
	struct varlena *value;
	uint8_t    *image;
	uint32		clock = 0;
	MemoryContext context;
	MemoryContext old;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	SettleLandedRows();
	if (kind == NameKind::Text)
		filter = OpenLive(ResolveName(fcinfo, call, kind), LiveUse::Ask, GetUserId(), "dedup_snapshot()");
	else if (!OpenLiveIfExists(PG_GETARG_OID(0), "dedup_snapshot()", &filter))
		PG_RETURN_NULL();
	shape = &filter.parameters.shape;
	layout = &filter.parameters.geometry.layout;
	value = AllocateFlat(dedup::kHeaderBytes + shape->bytes);
	image = (uint8_t *) VARDATA(value);
	context = AllocSetContextCreateInternal(CurrentMemoryContext, "dedup_snapshot",
											ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(context);
	/* Pages of a timed filter have clocks of their own; the value has the newest. */
	for (bool again = true; again;)
	{
		again = false;
		dedup::ClearInPieces(image + dedup::kHeaderBytes, shape->bytes);
		for (BlockNumber block = 0; block < filter.parameters.geometry.pages && !again; block++)
		{
			uint8_t    *lines = image + dedup::kHeaderBytes +
				(size_t) block * kLines * dedup::kLineBytes;
			DumpedPage	page;

			CHECK_FOR_INTERRUPTS();
			MemoryContextReset(context);
			if (!ReadLivePage(filter, GetActiveSnapshot(), block, &page))
				continue;
			if (NewestOf(page) > clock)
			{
				clock = NewestOf(page);
				again = block > 0;
			}
			if (page.lines != NULL)
				memcpy(lines, page.lines, kLines * dedup::kLineBytes);
			if (layout->timed && page.clock != 0)
				for (unsigned line = 0; line < kLines; line++)
					ExpireLine(lines + line * dedup::kLineBytes, *layout, page.clock, clock);
			for (uint32 i = 0; i < page.count; i++)
			{
				const DumpedEntry &entry = page.entries[i];

				if (layout->timed && !Alive(entry.generation, clock))
					continue;
				AddToLine(lines + entry.line * dedup::kLineBytes, *layout, entry.rest,
						  entry.generation, clock);
			}
		}
		if (again)
			for (BlockNumber block = 0; block < filter.parameters.geometry.pages; block++)
			{
				DumpedPage	page;

				CHECK_FOR_INTERRUPTS();
				MemoryContextReset(context);
				if (ReadLivePage(filter, GetActiveSnapshot(), block, &page))
					clock = Max(clock, NewestOf(page));
			}
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	dedup::WriteHeader(image, *shape, dedup::Form::kFull, dedup::Counters{0, clock}, 0);
	dedup::Seal(image, dedup::kHeaderBytes + shape->bytes);
	CloseLive(filter);
	PG_RETURN_POINTER(value);
}

/*
 * dedup_snapshot(name) returns dedup_filter
 *
 * A value of method fifo with the keys that the current snapshot sees as committed, and
 * this transaction's own.
 */
DEDUP_FUNCTION(dedup_live_snapshot)
{
	return TakeSnapshot(fcinfo, NameKind::Text);
}

DEDUP_FUNCTION(dedup_live_snapshot_oid)
{
	return TakeSnapshot(fcinfo, NameKind::Regclass);
}

/* Loads exact hashes, as one batch. Returns how many were new. */
static int64
LoadHashes(const LiveFilter &filter, const FilterRef &source)
{
	const size_t n = (size_t) source.header.hashes();
	uint64	   *hashes = (uint64 *) palloc_extended(sizeof(uint64) * (n + 1), MCXT_ALLOC_HUGE);
	LiveAnswer *answers = (LiveAnswer *) palloc_extended(sizeof(LiveAnswer) * (n + 1), MCXT_ALLOC_HUGE);
	size_t		at = 0;
	int64		fresh = 0;

	dedup::ForEachHash(source.image, source.header, [&](uint64_t hash) {
		if (at < n)
			hashes[at++] = hash;
	});
	LiveTestAndAddBatch(filter, hashes, at, LiveGenerationNow(filter), answers);
	dedup::ForUnits(at, 8 * sizeof(LiveAnswer), [&](uint64_t from, uint64_t to) {
		for (size_t i = from; i < to; i++)
			fresh += answers[i] == LiveAnswer::New;
	});
	return fresh;
}

/* Loads the lines of a snapshot. Returns how many keys they hold. */
static int64
LoadLines(const LiveFilter &filter, const FilterRef &source)
{
	const LineLayout &layout = filter.parameters.geometry.layout;
	const uint8_t *body = source.image + source.header.body_at();
	int64		keys = 0;

	LiveRequireEmpty(filter);
	for (uint32 block = 0; block < filter.parameters.geometry.pages; block++)
	{
		const uint8_t *lines = body + (size_t) block * kLines * dedup::kLineBytes;
		int64		here = 0;

		CHECK_FOR_INTERRUPTS();
		for (unsigned line = 0; line < kLines; line++)
		{
			if (!IsValidLine(lines + line * dedup::kLineBytes, layout))
				ereport(ERROR,
						(errcode(ERRCODE_DATA_CORRUPTED),
						 errmsg("dedup_filter value is corrupt"),
						 errdetail("A line of fingerprints is not valid.")));
			here += KeysInLine(lines + line * dedup::kLineBytes, layout);
		}
		if (here == 0)
			continue;
		LiveLoadPage(filter, {block, source.header.counters.state, 0, 0, NULL, lines});
		keys += here;
	}
	return keys;
}

/* What a value is, in words that compare with those of a live filter. */
static char *
DescribeValue(const FilterRef &value)
{
	const dedup::Shape &shape = value.header.shape;

	if (IsLiveMethod(*value.header.method))
		return DescribeShape(shape);
	return psprintf("seed " INT64_FORMAT ", hash %s and method %s", (int64) shape.seed,
					dedup::kHashNames[shape.hash], value.header.method->name);
}

static Datum
Load(FunctionCallInfo fcinfo, NameKind kind)
{
	LiveCall   *call = GetLiveCall(fcinfo);
	LiveFilter	filter;
	FilterRef	source;
	int64		keys;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		PG_RETURN_NULL();
	SettleLandedRows();
	filter = OpenLive(ResolveName(fcinfo, call, kind), LiveUse::Add, GetUserId(), "dedup_load()");
	source = GetFilter(PG_GETARG_DATUM(1));
	RequireMembership(*source.header.method);
	if (dedup::KeySeedOf(source.header.shape) != filter.key_seed() ||
		(!source.header.exact() && !(source.header.shape == filter.parameters.shape)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("cannot load a filter of another shape into live filter \"%s\"", LiveName(filter)),
				 errdetail("The live filter is for " UINT64_FORMAT " keys at a rate of %g with %s; the value is for " UINT64_FORMAT " keys at a rate of %g with %s.",
						   filter.parameters.shape.keys, filter.parameters.shape.fpr,
						   DescribeShape(filter.parameters.shape),
						   source.header.shape.keys, source.header.shape.fpr, DescribeValue(source)),
				 errhint("Snapshots can be loaded into filters made with the same parameters and seed; filters that are still exact into any with the same seed and hash.")));
	if (source.header.exact())
	{
		keys = LoadHashes(filter, source);
		if (keys > 0)
			CountLive(filter, LiveCounter::New, keys);
	}
	else
		keys = LoadLines(filter, source);
	CloseLive(filter);
	PG_RETURN_INT64(keys);
}

/*
 * dedup_load(name, filter dedup_filter) returns bigint
 *
 * Adds the keys of a value: those of a snapshot to an empty filter of the same
 * parameters, the hashes of an exact filter to any with its seed and hash. Returns how many keys
 * were loaded. They are this transaction's until it commits.
 */
DEDUP_FUNCTION(dedup_live_load)
{
	return Load(fcinfo, NameKind::Text);
}

DEDUP_FUNCTION(dedup_live_load_oid)
{
	return Load(fcinfo, NameKind::Regclass);
}
