/*
 * Making live filters, and what there is to know of one: dedup_create, dedup_stats,
 * dedup_check; and what keeps a restore honest.
 */
#include "core/methods/fifo.hpp"
#include "guard/guard.hpp"
#include "live/page_type.hpp"
#include "live/store/store.hpp"
#include "pg/keys.hpp"
#include "value/datum.hpp"

extern "C" {
#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_trigger.h"
#include "commands/trigger.h"
#include "executor/spi.h"
#include "storage/procarray.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"
#include "utils/varlena.h"
}

using dedup::LoadU32;
using namespace dedup::live;

/* ---- making ------------------------------------------------------------------------ */

/* Shortest generation: a tenth of a second. */
static constexpr int64 MIN_GENERATION = 100000;

/* 30 years of 12 months of 30 days. */
static constexpr int64 MAX_TTL = INT64CONST(30) * MONTHS_PER_YEAR * DAYS_PER_MONTH * USECS_PER_DAY;

/* An interval as a length of time: a day is 24 hours, a month 30 days. */
static int64
IntervalLength(const Interval *interval)
{
	double		length = (double) interval->time + (double) interval->day * (double) USECS_PER_DAY +
		(double) interval->month * (double) DAYS_PER_MONTH * (double) USECS_PER_DAY;

	if (!(length >= 7.0 * MIN_GENERATION && length <= (double) MAX_TTL))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("ttl is out of range"),
				 errhint("Give a time from 0.7 seconds to 30 years, which are 10800 days.")));
	return interval->time + interval->day * USECS_PER_DAY +
		interval->month * (int64) DAYS_PER_MONTH * USECS_PER_DAY;
}

/* A random seed that is not 0. */
static uint64
RandomSeed(void)
{
	uint64		seed = 0;

	while (seed == 0)
		if (!pg_strong_random(&seed, sizeof seed))
			ereport(ERROR,
					(errcode(ERRCODE_INTERNAL_ERROR),
					 errmsg("could not generate a random seed")));
	return seed;
}

/* Raises an error for a prototype with options that a live filter would not follow. */
static void
RequirePlain(const dedup::Shape &prototype)
{
	char		parameters[128];

	if (dedup::IsPlain(prototype))
		return;
	dedup::DescribeParameters(prototype, parameters, sizeof parameters);
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("live filters do not take the options of this prototype"),
			 errdetail("It is a filter of method %s with %s.",
					   dedup::MethodByCode(prototype.method)->name, parameters),
			 errhint("Give a filter of dedup_filter() or dedup_window(), or one of dedup_method() with no other options than keys, fpr and hash.")));
}

static LiveParameters
PlanLive(const dedup::Shape &prototype, int64 ttl)
{
	const dedup::Method *method = dedup::MethodByCode(prototype.method);
	const uint64 seed = prototype.seed != 0 ? prototype.seed : RandomSeed();
	LiveParameters parameters = {};
	dedup::PlanStatus status = dedup::PlanStatus::kOk;

	RequireMembership(*method);
	if (method == &dedup::fifo::kMethod && dedup::fifo::LayoutOf(prototype).timed)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("prototype filter has a window of time"),
				 errhint("Give dedup_create() a ttl and an untimed prototype.")));
	RequirePlain(prototype);
	parameters.prototype_method = prototype.method;
	parameters.prototype_keys = prototype.keys;
	parameters.prototype_fpr = prototype.fpr;
	parameters.forgets = method->forgets(prototype) || ttl != 0;
	if (ttl != 0)
	{
		/* Rounded up, so that seven generations are never shorter than the ttl. */
		parameters.ttl = ttl;
		parameters.generation = (ttl + 6) / 7;
		status = dedup::fifo::PlanTimed(prototype.keys, prototype.fpr,
										(uint64) parameters.generation, seed, &parameters.shape);
	}
	else if (method == &dedup::fifo::kMethod)
	{
		parameters.shape = prototype;
		parameters.shape.seed = seed;
	}
	else
	{
		dedup::Request request;

		request.keys = prototype.keys;
		request.fpr = prototype.fpr;
		status = dedup::PlanFilter(dedup::fifo::kMethod, request, seed, &parameters.shape);
	}
	if (status != dedup::PlanStatus::kOk)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("a live filter for " UINT64_FORMAT " keys at a rate of %g is too large",
						prototype.keys, prototype.fpr),
				 errdetail("A filter takes at most %d MB of fingerprints.",
						   (int) (dedup::kMaxBodyBytes >> 20)),
				 errhint("Use several filters, for example one for each hash partition, or a higher rate.")));
	parameters.shape.hash = prototype.hash;
	parameters.geometry.layout = dedup::fifo::LayoutOf(parameters.shape);
	parameters.geometry.pages = (uint32) (parameters.shape.bytes / (kLines * dedup::kLineBytes));
	parameters.geometry.forgets = parameters.forgets;
	return parameters;
}

/*
 * dedup_create(name text, prototype dedup_filter, ttl interval, unlogged boolean)
 * returns regclass
 *
 * Makes a live filter, by default in the current schema. Keys, rate, hash and seed are
 * the prototype's; without a seed a random one. With a ttl it is a window of time of so
 * many keys; else a window of the last so many keys, or, after dedup_filter(), a set
 * that never forgets.
 */
DEDUP_FUNCTION(dedup_create)
{
	dedup::Shape prototype;
	LiveParameters parameters;
	RangeVar   *name;
	Oid			schema;
	Oid			relid;
	char	   *qualified;
	char	   *own_schema;
	char	   *page;
	StringInfoData command;
	Oid			out;
	bool		is_varlena;

	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("name of the live filter must not be null")));
	prototype = GetPrototype(PG_ARGISNULL(1), PG_ARGISNULL(1) ? (Datum) 0 : PG_GETARG_DATUM(1));
	parameters = PlanLive(prototype, PG_ARGISNULL(2) ? 0 : IntervalLength(PG_GETARG_INTERVAL_P(2)));

	name = makeRangeVarFromNameList(textToQualifiedNameList(PG_GETARG_TEXT_PP(0)));
	schema = RangeVarGetCreationNamespace(name);
	qualified = quote_qualified_identifier(get_namespace_name(schema), name->relname);
	own_schema = pstrdup(quote_identifier(get_namespace_name(get_func_namespace(fcinfo->flinfo->fn_oid))));

	/* The type of the column, by the schema that this function is in. */
	out = GetSysCacheOid2(TYPENAMENSP, Anum_pg_type_oid, CStringGetDatum("dedup_page"),
						  ObjectIdGetDatum(get_func_namespace(fcinfo->flinfo->fn_oid)));
	getTypeOutputInfo(out, &out, &is_varlena);
	page = OidOutputFunctionCall(out, PointerGetDatum(EncodeParameters(parameters)));

	initStringInfo(&command);
	appendStringInfo(&command,
					 "CREATE %sTABLE %s (block int4 NOT NULL, page %s.dedup_page NOT NULL"
					 " DEFAULT '%s'::%s.dedup_page,"
					 " CONSTRAINT live_filter CHECK (%s.dedup_is_live(tableoid))) USING streamdedup",
					 !PG_ARGISNULL(3) && PG_GETARG_BOOL(3) ? "UNLOGGED " : "", qualified, own_schema,
					 page, own_schema, own_schema);
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	if (SPI_execute(command.data, false, 0) != SPI_OK_UTILITY)
		elog(ERROR, "could not create a live filter");
	resetStringInfo(&command);
	appendStringInfo(&command,
					 "CREATE TRIGGER dedup_restore BEFORE INSERT ON %s FOR EACH STATEMENT"
					 " EXECUTE FUNCTION %s.dedup_restore_trigger()", qualified, own_schema);
	if (SPI_execute(command.data, false, 0) != SPI_OK_UTILITY)
		elog(ERROR, "could not create the trigger of a live filter");
	SPI_finish();

	relid = get_relname_relid(name->relname, schema);
	PG_RETURN_OID(relid);
}

/* ---- restores ----------------------------------------------------------------------- */

/*
 * dedup_is_live(oid) returns boolean: what the CHECK constraint of a live filter calls
 *
 * Fails a restore into a table that was made without the access method.
 */
DEDUP_FUNCTION(dedup_is_live)
{
	Oid			relid = PG_GETARG_OID(0);

	if (get_rel_name(relid) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid)));
	if (!IsLiveRelationId(relid))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a live filter", get_rel_name(relid)),
				 errdetail("It was made without its access method, streamdedup."),
				 errhint("Restore live filters without the option --no-table-access-method.")));
	PG_RETURN_BOOL(true);
}

/* Whether a function is the C function of this library with this symbol. */
static bool
IsOurFunction(Oid function, PGFunction address, const char *symbol)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	bool		candidate = false;
	FmgrInfo	info;

	if (!HeapTupleIsValid(tuple))
		return false;
	if (((Form_pg_proc) GETSTRUCT(tuple))->prolang == ClanguageId)
	{
		bool		isnull;
		Datum		source = SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_prosrc, &isnull);

		candidate = !isnull && strcmp(TextDatumGetCString(source), symbol) == 0;
	}
	ReleaseSysCache(tuple);
	if (!candidate)
		return false;
	fmgr_info(function, &info);
	return info.fn_addr == address;
}

extern "C" Datum dedup_restore_trigger(PG_FUNCTION_ARGS);

bool
IsLiveCheckFunction(Oid function)
{
	return IsOurFunction(function, dedup_is_live, "dedup_is_live");
}

bool
IsRestoreTriggerFunction(Oid function)
{
	return IsOurFunction(function, dedup_restore_trigger, "dedup_restore_trigger");
}

bool
TableOwnerMayAdd(Oid table, Oid filter)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(table));
	Oid			owner;

	if (!HeapTupleIsValid(tuple))
		return false;
	owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	return pg_class_aclcheck(filter, owner, ACL_INSERT) == ACLCHECK_OK;
}

/*
 * Whether a trigger is the delete trigger of an enabled guard that uses the filter; in
 * a session that applies changes, one that fires there.
 * Anybody can make a trigger that names the filter, so that alone means nothing: the
 * clause must be a guard's, and the table's owner must have the right to add keys.
 */
static bool
IsGuardOf(HeapTuple tuple, TupleDesc desc, Oid filter)
{
	Form_pg_trigger trigger = (Form_pg_trigger) GETSTRUCT(tuple);
	GuardClause clause;
	Datum		qual;
	bool		isnull;

	if (trigger->tgenabled == TRIGGER_DISABLED ||
		(SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA &&
		 trigger->tgenabled == TRIGGER_FIRES_ON_ORIGIN) || !TRIGGER_FOR_ROW(trigger->tgtype) ||
		!TRIGGER_FOR_BEFORE(trigger->tgtype) || !TRIGGER_FOR_DELETE(trigger->tgtype) ||
		!IsGuardTriggerFunction(trigger->tgfoid))
		return false;
	qual = heap_getattr(tuple, Anum_pg_trigger_tgqual, desc, &isnull);
	return !isnull && ReadGuardClause(TextDatumGetCString(qual), &clause) &&
		clause.filter == filter && TableOwnerMayAdd(trigger->tgrelid, filter);
}

/* The table of an enabled guard that uses the filter, or InvalidOid. */
static Oid
GuardedBy(Oid filter)
{
	Relation	depend = table_open(DependRelationId, AccessShareLock);
	Relation	triggers = table_open(TriggerRelationId, AccessShareLock);
	ScanKeyData key[2];
	SysScanDesc scan;
	HeapTuple	tuple;
	Oid			table = InvalidOid;

	ScanKeyInit(&key[0], Anum_pg_depend_refclassid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(RelationRelationId));
	ScanKeyInit(&key[1], Anum_pg_depend_refobjid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(filter));
	scan = systable_beginscan(depend, DependReferenceIndexId, true, NULL, 2, key);
	while (!OidIsValid(table) && HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_depend form = (Form_pg_depend) GETSTRUCT(tuple);
		ScanKeyData by_oid;
		SysScanDesc trigger_scan;
		HeapTuple	trigger_tuple;

		if (form->classid != TriggerRelationId)
			continue;
		ScanKeyInit(&by_oid, Anum_pg_trigger_oid, BTEqualStrategyNumber, F_OIDEQ,
					ObjectIdGetDatum(form->objid));
		trigger_scan = systable_beginscan(triggers, TriggerOidIndexId, true, NULL, 1, &by_oid);
		trigger_tuple = systable_getnext(trigger_scan);
		if (HeapTupleIsValid(trigger_tuple) &&
			IsGuardOf(trigger_tuple, RelationGetDescr(triggers), filter))
			table = ((Form_pg_trigger) GETSTRUCT(trigger_tuple))->tgrelid;
		systable_endscan(trigger_scan);
	}
	systable_endscan(scan);
	table_close(triggers, AccessShareLock);
	table_close(depend, AccessShareLock);
	return table;
}

void
LiveRequireUnguarded(Relation rel)
{
	const Oid	table = GuardedBy(RelationGetRelid(rel));

	if (OidIsValid(table))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot restore live filter \"%s\" while it guards table \"%s\"",
						RelationGetRelationName(rel), get_rel_name(table)),
				 errdetail("Rows of that table that are loaded after the filter would be refused as duplicates."),
				 errhint("Restore data alone with the option --disable-triggers, or take the guard off with dedup_unguard() first.")));
}

/*
 * dedup_restore_trigger() returns trigger: BEFORE INSERT on a live filter, once a COPY
 *
 * Rows that are loaded into a guarded table after its filter would all be skipped, so
 * a filter with an enabled guard is not restored. pg_restore --disable-triggers
 * disables this trigger and the guard.
 */
DEDUP_FUNCTION(dedup_restore_trigger)
{
	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("dedup_restore_trigger() can only be called as a trigger")));
	LiveRequireUnguarded(((TriggerData *) fcinfo->context)->tg_relation);
	PG_RETURN_POINTER(NULL);
}

/* ---- what there is in a filter --------------------------------------------------------- */

static LiveFilter
OpenNamed(Datum name, bool by_name, const char *function)
{
	Oid			relid = by_name ?
		RangeVarGetRelid(makeRangeVarFromNameList(textToQualifiedNameList(DatumGetTextPP(name))),
						 NoLock, false) : DatumGetObjectId(name);

	return OpenLive(relid, LiveUse::Ask, GetUserId(), function);
}

static Datum
Stats(FunctionCallInfo fcinfo, bool by_name)
{
	LiveFilter	filter = OpenNamed(PG_GETARG_DATUM(0), by_name, "dedup_stats()");
	const LiveParameters &parameters = filter.parameters;
	const LineLayout &layout = parameters.geometry.layout;
	LiveCounts	counts = ReadLiveCounts(filter);
	uint32		now = parameters.ttl == 0 ? 0 :
		Max(LiveGeneration(filter, GetCurrentTimestamp()), 0u);
	int64		held = 0;
	int64		in_flight = 0;
	int64		overflow = 0;
	int64		early = 0;
	double		rate = 0;
	TupleDesc	desc;
	Datum		values[22];
	bool		isnull[22] = {};
	Interval   *ttl;
	const char *kind;
	int			n = 0;
	double		room;

	/* Backfills have a clock of their own. */
	if (parameters.ttl != 0 && counts.clock != 0 && counts.clock < now)
		now = counts.clock;
	for (BlockNumber block = 0; block < parameters.geometry.pages; block++)
	{
		HeldPage	main;

		CHECK_FOR_INTERRUPTS();
		if (!HoldPage(filter, block, Kind::kMain, BUFFER_LOCK_SHARE, &main))
			continue;
		early += LoadU32(main.bytes + kEarlyAt);
		for (unsigned line = 0; line < kLines; line++)
		{
			dedup::fifo::Slots slots;
			unsigned	alive = 0;

			dedup::fifo::ReadSlots(LineAt(main.bytes, line), layout, &slots);
			for (unsigned i = 0; i < slots.count; i++)
				alive += !layout.timed ||
					dedup::fifo::Alive(dedup::fifo::GenerationOf(slots.value[i], ClockOf(main.bytes)), now);
			held += alive;
			rate += dedup::fifo::LineRate(layout, alive);
		}
		VisitChain(filter, main, BUFFER_LOCK_SHARE, [&](const HeldPage &page) {
			overflow += page.block != main.block;
			ForEachEntry(page.bytes, AreaOf(page.bytes), [&](unsigned, const Entry &entry) {
				const uint64 xid = LoadTag(page.bytes, entry.tag).xid;

				if (JudgeXid(filter.rel, xid) == Verdict::kKeep &&
					(TransactionIdIsCurrentTransactionId((TransactionId) xid) ||
					 TransactionIdIsInProgress((TransactionId) xid)))
					in_flight++;
				else if ((xid == kFrozen || TransactionIdDidCommit((TransactionId) xid)) != entry.forgotten)
					held++;
			});
			return false;
		});
		ReleasePage(main);
	}
	rate /= (double) parameters.geometry.pages * kLines;
	/* A window by count holds more than it promises: all its lines are full in the end. */
	room = (double) parameters.prototype_keys;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	ttl = (Interval *) palloc0(sizeof(Interval));
	ttl->day = (int32) (parameters.ttl / USECS_PER_DAY);
	ttl->time = parameters.ttl % USECS_PER_DAY;
	kind = parameters.ttl != 0 ? "window of time" : parameters.forgets ? "window of keys" : "set";
	if (parameters.shape.hash != dedup::kXxh3Hash)
		kind = psprintf("%s, hash=%s", kind, dedup::kHashNames[parameters.shape.hash]);
	values[n++] = CStringGetTextDatum(kind);
	values[n++] = Int64GetDatum((int64) parameters.prototype_keys);
	values[n++] = Float8GetDatum(parameters.prototype_fpr);
	values[n++] = Int64GetDatum((int64) parameters.shape.seed);
	isnull[n] = parameters.ttl == 0;
	values[n++] = IntervalPGetDatum(ttl);
	values[n++] = BoolGetDatum(filter.rel->rd_rel->relpersistence == RELPERSISTENCE_PERMANENT);
	for (int i = 0; i < kLiveCounters; i++)
		values[n++] = Int64GetDatum(counts.value[i]);
	isnull[n] = counts.since == 0;
	values[n++] = TimestampTzGetDatum(counts.since);
	values[n++] = Int64GetDatum(held);
	values[n++] = Float8GetDatum((double) held / room);
	values[n++] = Float8GetDatum(rate);
	values[n++] = BoolGetDatum(LiveIsOverfull(filter, early,
												Max(counts.value[(int) LiveCounter::New], held)) ||
							   (!parameters.forgets && (double) held > room));
	values[n++] = Int64GetDatum(early);
	values[n++] = Int64GetDatum(in_flight);
	values[n++] = Int64GetDatum(overflow);
	values[n++] = Int64GetDatum((int64) RelationGetNumberOfBlocks(filter.rel) * BLCKSZ);
	CloseLive(filter);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, isnull)));
}

/*
 * dedup_stats(name) returns record
 *
 * What a live filter was made for, what has been counted since it was last empty, and
 * what it holds now. Reads every page.
 */
DEDUP_FUNCTION(dedup_live_stats)
{
	return Stats(fcinfo, true);
}

DEDUP_FUNCTION(dedup_live_stats_oid)
{
	return Stats(fcinfo, false);
}

/* ---- checking ------------------------------------------------------------------------------ */

namespace
{

struct Report
{
	Tuplestorestate *rows;
	TupleDesc	desc;
};

}							/* namespace */

static void
ReportProblem(const Report &report, BlockNumber block, const char *problem)
{
	Datum		values[2] = {Int64GetDatum((int64) block), CStringGetTextDatum(problem)};
	bool		isnull[2] = {};

	tuplestore_putvalues(report.rows, report.desc, values, isnull);
}

static Datum
CheckLive(FunctionCallInfo fcinfo, bool by_name)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	Report		report;
	LiveFilter	filter;
	BlockNumber blocks;
	bool	   *reached;
	MemoryContext old;

	if (result == NULL || !IsA(result, ReturnSetInfo) || !(result->allowedModes & SFRM_Materialize) ||
		get_call_result_type(fcinfo, NULL, &report.desc) != TYPEFUNC_COMPOSITE)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("set-valued function called in context that cannot accept a set")));
	old = MemoryContextSwitchTo(result->econtext->ecxt_per_query_memory);
	report.desc = CreateTupleDescCopy(report.desc);
	report.rows = tuplestore_begin_heap((result->allowedModes & SFRM_Materialize_Random) != 0, false,
										work_mem);
	result->returnMode = SFRM_Materialize;
	result->setDesc = report.desc;
	result->setResult = report.rows;
	MemoryContextSwitchTo(old);

	filter = OpenNamed(PG_GETARG_DATUM(0), by_name, "dedup_check()");
	blocks = RelationGetNumberOfBlocks(filter.rel);
	reached = (bool *) palloc_extended(blocks + 1, MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	for (BlockNumber block = 0; block < Min(blocks, CountersBlock(filter) + 1); block++)
	{
		const Kind	kind = block == CountersBlock(filter) ? Kind::kCounters : Kind::kMain;
		Buffer		buffer = ReadBuffer(filter.rel, block);
		uint8_t    *page = (uint8_t *) BufferGetPage(buffer);
		const char *flaw = NULL;
		BlockNumber next = 0;

		CHECK_FOR_INTERRUPTS();
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		if (!PageIsNew((Page) page))
		{
			flaw = PageFlaw(page, kind, block, filter.parameters.geometry);
			if (flaw == NULL && kind == Kind::kMain)
				next = NextOf(page);
		}
		if (flaw != NULL)
			ReportProblem(report, block, flaw);
		while (next != 0)
		{
			Buffer		overflow;
			uint8_t    *bytes;
			BlockNumber at = next;

			if (next <= CountersBlock(filter) || next >= blocks)
			{
				/* It may be younger than our look at the file's length. */
				blocks = Min(blocks, RelationGetNumberOfBlocks(filter.rel));
				if (next <= CountersBlock(filter) || next >= RelationGetNumberOfBlocks(filter.rel))
					ReportProblem(report, block, "Its chain of overflow pages leads out of the file.");
				break;
			}
			if (reached[next])
			{
				ReportProblem(report, next, "It is in more than one chain.");
				break;
			}
			reached[next] = true;
			overflow = ReadBuffer(filter.rel, next);
			bytes = (uint8_t *) BufferGetPage(overflow);
			LockBuffer(overflow, BUFFER_LOCK_SHARE);
			flaw = PageIsNew((Page) bytes) ? "It is empty, but in a chain." :
				PageFlaw(bytes, Kind::kOverflow, next, filter.parameters.geometry);
			if (flaw == NULL && LoadU32(bytes + kOwnerAt) != block)
				flaw = "It belongs to another page's chain.";
			next = flaw == NULL ? NextOf(bytes) : 0;
			UnlockReleaseBuffer(overflow);
			if (flaw != NULL)
				ReportProblem(report, at, flaw);
		}
		UnlockReleaseBuffer(buffer);
	}
	CloseLive(filter);
	return (Datum) 0;
}

/*
 * dedup_check(name) returns setof record (block bigint, problem text)
 *
 * Looks at every byte of every page and reports what is wrong; no rows if all is well.
 */
DEDUP_FUNCTION(dedup_live_check)
{
	return CheckLive(fcinfo, true);
}

DEDUP_FUNCTION(dedup_live_check_oid)
{
	return CheckLive(fcinfo, false);
}
