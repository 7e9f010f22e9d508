/* dedup_create(): makes live filters. */
#include "core/live_method.hpp"
#include "live/page_type.hpp"
#include "value/datum.hpp"

extern "C" {
#include "catalog/namespace.h"
#include "executor/spi.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/varlena.h"
}

using namespace dedup::live;

/* 30 years of 12 months of 30 days. */
static constexpr int64 MAX_TTL = INT64CONST(30) * MONTHS_PER_YEAR * DAYS_PER_MONTH * USECS_PER_DAY;

/* Returns an interval as a length of time: a day is 24 hours, a month 30 days. */
static int64
IntervalLength(const Interval *interval)
{
	double length = (double) interval->time + (double) interval->day * (double) USECS_PER_DAY +
					(double) interval->month * (double) DAYS_PER_MONTH * (double) USECS_PER_DAY;

	if (!(length >= (double) (kWindowGenerations * kMinGeneration) && length <= (double) MAX_TTL))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("ttl is out of range"),
				 errhint("Give a time from 0.7 seconds to 30 years, which are 10800 days.")));
	return interval->time + interval->day * USECS_PER_DAY +
		   interval->month * (int64) DAYS_PER_MONTH * USECS_PER_DAY;
}

/* Returns a random seed that is not 0. */
static uint64
RandomSeed(void)
{
	uint64 seed = 0;

	while (seed == 0)
		if (!pg_strong_random(&seed, sizeof seed))
			ereport(ERROR,
					(errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not generate a random seed")));
	return seed;
}

/* Raises an error for a prototype with options that a live filter would not follow. */
static void
RequirePlain(const dedup::Shape &prototype)
{
	char parameters[128];

	if (dedup::IsPlain(prototype))
		return;
	dedup::DescribeParameters(prototype, parameters, sizeof parameters);
	ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					errmsg("live filters do not take the options of this prototype"),
					errdetail("It is a filter of method %s with %s.",
							  dedup::MethodByCode(prototype.method)->name, parameters),
					errhint("Give a filter of dedup_filter() or dedup_window(), or one of "
							"dedup_method() with no other options than keys, fpr and hash.")));
}

LiveParameters
PlanLiveParameters(const dedup::Shape &prototype, int64 ttl, bool renew)
{
	const dedup::Method *method = dedup::MethodByCode(prototype.method);
	const uint64 seed = prototype.seed != 0 ? prototype.seed : RandomSeed();
	LiveParameters parameters = {};
	dedup::PlanStatus status;
	bool grows;

	RequireMembership(*method);
	if (IsLiveMethod(*method) && LayoutOf(prototype).timed)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("prototype filter has a window of time"),
						errhint("Give dedup_create() a ttl and an untimed prototype.")));
	RequirePlain(prototype);
	parameters.prototype_method = prototype.method;
	parameters.prototype_keys = prototype.keys;
	parameters.prototype_fpr = prototype.fpr;
	parameters.forgets = method->forgets(prototype) || ttl != 0;
	grows = method->growth != NULL;
	if (ttl != 0)
	{
		parameters.ttl = ttl;
		parameters.generation = (int64) GenerationFor((uint64) ttl);
		parameters.renew = renew;
	}
	else if (renew)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("only a window of time can renew its keys"),
						errdetail("Without a ttl no key expires."),
						errhint("Give dedup_create() a ttl, or leave renew out.")));
	status = grows ? PlanGrowing(prototype.fpr, (uint64) parameters.generation, seed,
								 prototype.hash, &parameters.shape)
				   : dedup::live::PlanLive(prototype, (uint64) parameters.generation, seed,
										   &parameters.shape);
	if (status != dedup::PlanStatus::kOk && grows)
		ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
						errmsg("a live filter that grows cannot have a rate of %g", prototype.fpr),
						errhint("Give a higher rate.")));
	if (status != dedup::PlanStatus::kOk)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("a live filter for " UINT64_FORMAT " keys at a rate of %g is too large",
						prototype.keys, prototype.fpr),
				 errdetail("A filter takes at most %d MB of fingerprints.",
						   (int) (dedup::kMaxBodyBytes >> 20)),
				 parameters.forgets && ttl == 0
					 ? errhint("Use several filters, for example one for each hash partition, or a "
							   "higher rate. Or give a ttl instead of a number of keys: such a "
							   "filter grows.")
					 : errhint("Give no number of keys, only fpr: such a filter grows, and keeps "
							   "its rate up to %.0f keys.",
							   dedup::live::kGrowsTo)));
	parameters.shape.hash = prototype.hash;
	parameters.geometry.layout = LayoutOf(parameters.shape);
	parameters.geometry.layout.grows = grows;
	parameters.geometry.pages = PagesOf(parameters.shape);
	/* A filter that grows has room for all keys until they expire. */
	parameters.geometry.forgets = parameters.forgets && !grows;
	return parameters;
}

LiveParameters
ReadLivePrototype(Datum prototype, bool *any_seed)
{
	const dedup::Shape shape = GetPrototype(false, prototype, LIVE_PROTOTYPE, LIVE_LOAD_HINT);

	*any_seed = shape.seed == 0;
	return PlanLiveParameters(shape, 0, false);
}

/* The rate of a filter that is made without a prototype. */
static constexpr double DEFAULT_FPR = 0.0001;

/*
 * Returns the shape to make a filter of: the prototype's, or that of a filter that grows at a rate.
 */
static dedup::Shape
ReadPrototype(FunctionCallInfo fcinfo)
{
	const double fpr = PG_ARGISNULL(5) ? -1 : PG_GETARG_FLOAT8(5);
	dedup::Request request;
	dedup::Shape shape;

	if (PG_ARGISNULL(5))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("fpr must not be null")));
	if (!PG_ARGISNULL(1))
	{
		if (fpr != DEFAULT_FPR)
			ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
							errmsg("cannot give both a prototype and fpr"),
							errhint("Give the prototype the rate: dedup_filter(1000000, %g), or "
									"dedup_filter(fpr => %g) for a live filter that grows.",
									fpr, fpr)));
		return GetPrototype(false, PG_GETARG_DATUM(1), LIVE_PROTOTYPE, LIVE_LOAD_HINT);
	}
	if (!(fpr >= dedup::kMinFpr && fpr <= dedup::kMaxFpr))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("fpr is out of range"),
				 errdetail("It must be between %g and %g.", dedup::kMinFpr, dedup::kMaxFpr)));
	request.fpr = fpr;
	if (dedup::PlanFilter(dedup::GrowingMethod(), request, 0, &shape) != dedup::PlanStatus::kOk)
		elog(ERROR, "could not plan a filter that grows");
	return shape;
}

/*
 * dedup_create(name text, prototype dedup_filter, ttl interval, unlogged boolean, renew boolean,
 * fpr float8) returns regclass
 *
 * Makes a live filter, by default in the current schema. Without a prototype, or with one that
 * grows, it grows with the number of keys. Else keys, rate, hash and seed are the prototype's; if
 * the prototype has no seed, it is random. With a ttl it is a window of time, from the first sight
 * of a key or, with renew, from the last. Without a ttl it is a window of the last keys if the
 * prototype is one. If the prototype was made by dedup_filter(), or there is none, it is a set that
 * never forgets.
 */
DEDUP_FUNCTION(dedup_create)
{
	dedup::Shape prototype;
	LiveParameters parameters;
	RangeVar *name;
	Oid schema;
	Oid relid;
	char *qualified;
	char *own_schema;
	char *page;
	StringInfoData command;
	Oid out;
	bool is_varlena;

	if (PG_ARGISNULL(0))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
						errmsg("name of the live filter must not be null")));
	prototype = ReadPrototype(fcinfo);
	parameters =
		PlanLiveParameters(prototype, PG_ARGISNULL(2) ? 0 : IntervalLength(PG_GETARG_INTERVAL_P(2)),
						   !PG_ARGISNULL(4) && PG_GETARG_BOOL(4));

	name = makeRangeVarFromNameList(textToQualifiedNameList(PG_GETARG_TEXT_PP(0)));
	schema = RangeVarGetCreationNamespace(name);
	qualified = quote_qualified_identifier(get_namespace_name(schema), name->relname);
	own_schema =
		pstrdup(quote_identifier(get_namespace_name(get_func_namespace(fcinfo->flinfo->fn_oid))));

	/* Finds the type of the column in the schema of this function. */
	out = GetSysCacheOid2(TYPENAMENSP, Anum_pg_type_oid, CStringGetDatum("dedup_page"),
						  ObjectIdGetDatum(get_func_namespace(fcinfo->flinfo->fn_oid)));
	getTypeOutputInfo(out, &out, &is_varlena);
	page = OidOutputFunctionCall(out, PointerGetDatum(EncodeParameters(parameters)));

	/* The columns are kLiveBlockColumn and kLivePageColumn. */
	initStringInfo(&command);
	appendStringInfo(
		&command,
		"CREATE %sTABLE %s (block int4 NOT NULL, page %s.dedup_page NOT NULL"
		" DEFAULT '%s'::%s.dedup_page,"
		" CONSTRAINT live_filter CHECK (%s.dedup_is_live(tableoid))) USING streamdedup",
		!PG_ARGISNULL(3) && PG_GETARG_BOOL(3) ? "UNLOGGED " : "", qualified, own_schema, page,
		own_schema, own_schema);
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	if (SPI_execute(command.data, false, 0) != SPI_OK_UTILITY)
		elog(ERROR, "could not create a live filter");
	resetStringInfo(&command);
	appendStringInfo(&command,
					 "CREATE TRIGGER dedup_restore BEFORE INSERT ON %s FOR EACH STATEMENT"
					 " EXECUTE FUNCTION %s.dedup_restore_trigger()",
					 qualified, own_schema);
	if (SPI_execute(command.data, false, 0) != SPI_OK_UTILITY)
		elog(ERROR, "could not create the trigger of a live filter");
	SPI_finish();

	relid = get_relname_relid(name->relname, schema);
	PG_RETURN_OID(relid);
}
