/*
 * Making live filters: dedup_create; and what keeps a restore honest.
 */
#include "core/live_method.hpp"
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

/* 30 years of 12 months of 30 days. */
static constexpr int64 MAX_TTL = INT64CONST(30) * MONTHS_PER_YEAR * DAYS_PER_MONTH * USECS_PER_DAY;

/* An interval as a length of time: a day is 24 hours, a month 30 days. */
static int64
IntervalLength(const Interval *interval)
{
	double		length = (double) interval->time + (double) interval->day * (double) USECS_PER_DAY +
		(double) interval->month * (double) DAYS_PER_MONTH * (double) USECS_PER_DAY;

	if (!(length >= (double) (kWindowGenerations * kMinGeneration) && length <= (double) MAX_TTL))
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
PlanParameters(const dedup::Shape &prototype, int64 ttl)
{
	const dedup::Method *method = dedup::MethodByCode(prototype.method);
	const uint64 seed = prototype.seed != 0 ? prototype.seed : RandomSeed();
	LiveParameters parameters = {};
	dedup::PlanStatus status;

	RequireMembership(*method);
	if (IsLiveMethod(*method) && LayoutOf(prototype).timed)
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
		parameters.ttl = ttl;
		parameters.generation = (int64) GenerationFor((uint64) ttl);
	}
	status = dedup::live::PlanLive(prototype, (uint64) parameters.generation, seed, &parameters.shape);
	if (status != dedup::PlanStatus::kOk)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("a live filter for " UINT64_FORMAT " keys at a rate of %g is too large",
						prototype.keys, prototype.fpr),
				 errdetail("A filter takes at most %d MB of fingerprints.",
						   (int) (dedup::kMaxBodyBytes >> 20)),
				 errhint("Use several filters, for example one for each hash partition, or a higher rate.")));
	parameters.shape.hash = prototype.hash;
	parameters.geometry.layout = LayoutOf(parameters.shape);
	parameters.geometry.pages = PagesOf(parameters.shape);
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
	parameters = PlanParameters(prototype, PG_ARGISNULL(2) ? 0 : IntervalLength(PG_GETARG_INTERVAL_P(2)));

	name = makeRangeVarFromNameList(textToQualifiedNameList(PG_GETARG_TEXT_PP(0)));
	schema = RangeVarGetCreationNamespace(name);
	qualified = quote_qualified_identifier(get_namespace_name(schema), name->relname);
	own_schema = pstrdup(quote_identifier(get_namespace_name(get_func_namespace(fcinfo->flinfo->fn_oid))));

	/* The type of the column, by the schema that this function is in. */
	out = GetSysCacheOid2(TYPENAMENSP, Anum_pg_type_oid, CStringGetDatum("dedup_page"),
						  ObjectIdGetDatum(get_func_namespace(fcinfo->flinfo->fn_oid)));
	getTypeOutputInfo(out, &out, &is_varlena);
	page = OidOutputFunctionCall(out, PointerGetDatum(EncodeParameters(parameters)));

	/* The columns are kLiveBlockColumn and kLivePageColumn. */
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
