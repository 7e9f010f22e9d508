/*
 * Functions that make empty filters: dedup_filter, dedup_window, dedup_method.
 */
#include "value/datum.hpp"

extern "C" {
#include "utils/guc.h"
}

using dedup::Method;
using dedup::OptionError;
using dedup::OptionKind;
using dedup::OptionSpec;
using dedup::OptionStatus;
using dedup::PlanStatus;
using dedup::Request;
using dedup::Shape;

/* ---- errors --------------------------------------------------------------- */

/* "fpr, keys, k, hash" */
static const char *
OptionNames(const Method &method)
{
	StringInfoData names;

	initStringInfo(&names);
	for (int i = 0; i < method.option_count; i++)
		appendStringInfo(&names, "%s, ", method.options[i].name);
	appendStringInfoString(&names, dedup::kHashOption.name);
	return names.data;
}

static const char *
MethodNames(void)
{
	StringInfoData names;

	initStringInfo(&names);
	for (size_t i = 0; i < dedup::kMethodCount; i++)
		appendStringInfo(&names, "%s%s", i == 0 ? "" : ", ", dedup::kMethods[i]->name);
	return names.data;
}

/* "one, two or three" */
static const char *
OptionWords(const OptionSpec &spec)
{
	StringInfoData words;
	const char *last = std::strrchr(spec.words, '|');

	initStringInfo(&words);
	for (const char *at = spec.words; *at != '\0'; at++)
	{
		if (*at != '|')
			appendStringInfoChar(&words, *at);
		else
			appendStringInfoString(&words, at == last ? " or " : ", ");
	}
	return words.data;
}

/* "a whole number from 1 to 16" */
static const char *
OptionRange(const OptionSpec &spec)
{
	switch (spec.kind)
	{
		case OptionKind::kOnOff:
			return "on or off";
		case OptionKind::kMultipleOf8:
			return psprintf("a multiple of 8 from %g to %g", spec.min, spec.max);
		case OptionKind::kWhole:
			return psprintf("a whole number from %.0f to %.0f", spec.min, spec.max);
		case OptionKind::kReal:
			return psprintf("a number from %g to %g", spec.min, spec.max);
		case OptionKind::kWord:
			return OptionWords(spec);
	}
	return "";
}

static void
ReportOption(const Method &method, const OptionError &error)
{
	int length = (int) error.length;

	switch (error.status)
	{
		case OptionStatus::kOk:
			return;
		case OptionStatus::kNoValue:
			ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
							errmsg("option \"%.*s\" has no value", length, error.text),
							errhint("Write options as name=value, separated by blanks.")));
			break;
		case OptionStatus::kUnknown:
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("method %s has no option \"%.*s\"", method.name, length, error.text),
					 errhint("Its options are: %s.", OptionNames(method))));
			break;
		case OptionStatus::kTwice:
			ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
							errmsg("option \"%s\" is given twice", error.spec->name)));
			break;
		case OptionStatus::kBadValue:
			ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
							errmsg("invalid value in option \"%.*s\"", length, error.text),
							errhint("Option %s of method %s takes %s.", error.spec->name,
									method.name, OptionRange(*error.spec))));
			break;
	}
}

/* "an a2 filter" */
static const char *
Article(const Method &method)
{
	return std::strchr("aeiou", method.name[0]) != NULL ? "an" : "a";
}

static void
ReportPlan(PlanStatus status, const Method &method, const Request &request)
{
	switch (status)
	{
		case PlanStatus::kOk:
			return;
		case PlanStatus::kTooLarge:
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 !method.has_rate()
						 ? errmsg("a filter of method %s would be too large", method.name)
					 : request.keys > 0
						 ? errmsg("%s %s filter for " UINT64_FORMAT
								  " keys at a rate of %g is too large",
								  Article(method), method.name, request.keys, request.fpr)
						 : errmsg("%s %s filter of " UINT64_FORMAT " bytes is too large",
								  Article(method), method.name, request.memory),
					 errdetail("A filter takes at most %d MB.", (int) (dedup::kMaxBodyBytes >> 20)),
					 !method.has_rate() ? errhint("Ask for less memory, or for a larger error.")
					 : request.memory > dedup::kMaxBodyBytes
						 ? errhint("Give at most %d MB, or use several filters, for example one a "
								   "day or one for each hash partition.",
								   (int) (dedup::kMaxBodyBytes >> 20))
						 : errhint("Use several filters, for example one a day or one for each "
								   "hash partition, or a higher rate. A live filter can be "
								   "larger: dedup_create() without a number of keys makes one "
								   "that grows.")));
			break;
		case PlanStatus::kMemoryTooSmall:
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 method.has_rate()
						 ? errmsg(UINT64_FORMAT " bytes are too few for method %s at a rate of %g",
								  request.memory, method.name, request.fpr)
						 : errmsg(UINT64_FORMAT " bytes are too few for method %s", request.memory,
								  method.name),
					 method.has_rate() ? errhint("Give more memory, or a higher rate.")
									   : errhint("Give more memory.")));
			break;
		case PlanStatus::kConflict:
			ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
							errmsg("options of method %s exclude each other", method.name),
							errhint("%s", method.conflict)));
			break;
		case PlanStatus::kNoSize:
		case PlanStatus::kTwoSizes:
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 status == PlanStatus::kNoSize
						 ? errmsg("a filter of method %s needs memory, or the options that size it",
								  method.name)
						 : errmsg("memory and the options that size a filter of method %s exclude "
								  "each other",
								  method.name),
					 errhint("Give memory such as '16kB', or NULL and options such as '%s'.",
							 method.sizing)));
			break;
	}
}

/* ---- functions ------------------------------------------------------------ */

namespace
{

/* The last filter that a call site made: sizing a filter can take a large part of a millisecond. */
struct LastMade
{
	const Method *method; /* NULL: there is none */
	int64 keys;
	double fpr;
	int64 seed;
	struct varlena *value;
};

/* The same for dedup_method, with its arguments as they were written. */
struct LastMethod
{
	MemoryContext context; /* of the fields below; it is reset when they change */
	text *name;            /* NULL: there is none */
	text *memory;          /* or NULL */
	text *options;
	int64 seed;
	struct varlena *value;
};

} /* namespace */

static struct varlena *
CopyValue(const struct varlena *value)
{
	return CopyFlat((const uint8_t *) VARDATA(value), VARSIZE(value) - VARHDRSZ);
}

/* If the number of keys is 0, the filter grows. */
static Datum
MakeFilter(FunctionCallInfo fcinfo, int64 keys, const Method &method)
{
	double fpr = PG_GETARG_FLOAT8(1);
	int64 seed = PG_GETARG_INT64(2);
	LastMade *last = (LastMade *) fcinfo->flinfo->fn_extra;
	struct varlena *value;

	if (last == NULL)
	{
		last = (LastMade *) MemoryContextAllocZero(fcinfo->flinfo->fn_mcxt, sizeof(LastMade));
		last->value = (struct varlena *) MemoryContextAlloc(fcinfo->flinfo->fn_mcxt,
															VARHDRSZ + dedup::kHeaderBytes);
		fcinfo->flinfo->fn_extra = last;
	}
	if (last->method != &method || last->keys != keys || last->fpr != fpr || last->seed != seed)
	{
		Request request;
		Shape shape;

		last->method = NULL;
		if (method.growth == NULL)
			CheckKeys(keys);
		CheckRate(fpr);
		request.keys = (uint64) keys;
		request.fpr = fpr;
		ReportPlan(dedup::PlanFilter(method, request, (uint64) seed, &shape), method, request);
		value = MakeEmptyFilter(shape);
		memcpy(last->value, value, VARSIZE(value));
		last->keys = keys;
		last->fpr = fpr;
		last->seed = seed;
		last->method = &method;
	}
	PG_RETURN_POINTER(CopyValue(last->value));
}

/*
 * dedup_filter(capacity bigint, fpr float8, seed bigint) returns dedup_filter
 *
 * Returns an empty filter that never forgets, with a false-positive rate of at most `fpr` (1e-9 to
 * 0.5). It is made for `capacity` distinct keys (1 to 2^40, at most 512 MB). If `capacity` is NULL,
 * it grows up to 512 MB. If another argument is NULL, the result is NULL.
 */
DEDUP_FUNCTION(dedup_filter_make)
{
	if (PG_ARGISNULL(1) || PG_ARGISNULL(2))
		PG_RETURN_NULL();
	if (PG_ARGISNULL(0))
		return MakeFilter(fcinfo, 0, dedup::GrowingMethod());
	return MakeFilter(fcinfo, PG_GETARG_INT64(0), dedup::FilterMethod(PG_GETARG_FLOAT8(1)));
}

/*
 * dedup_window(keys bigint, fpr float8, seed bigint) returns dedup_filter
 *
 * Returns an empty filter that remembers the last `keys` distinct keys seen.
 */
DEDUP_FUNCTION(dedup_window_make)
{
	return MakeFilter(fcinfo, PG_GETARG_INT64(0), dedup::WindowMethod());
}

/* The largest number that ParseMemory() returns. Every method refuses it as too large. */
constexpr double MOST_BYTES = 1e18;

/* Converts "16MB" to bytes. */
static uint64
ParseMemory(text *memory)
{
	char *written = text_to_cstring(memory);
	const char *hint = NULL;
	double bytes;

	/* The caller refuses larger amounts, with another SQLSTATE. */
	if (!parse_real(written, &bytes, GUC_UNIT_BYTE, &hint) || std::isinf(bytes) || rint(bytes) < 1)
		ereport(
			ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid amount of memory: \"%s\"", written),
			 hint != NULL
				 ? errhint("%s", _(hint))
				 : errhint(
					   "Give bytes, or a number with a unit, such as 64kB or 16MB; at most %d MB.",
					   (int) (dedup::kMaxBodyBytes >> 20))));
	return bytes < MOST_BYTES ? (uint64) rint(bytes) : (uint64) MOST_BYTES;
}

/* Returns whether a text argument, or its absence, is the same as in the last call. */
static bool
SameText(const text *argument, const text *last)
{
	if (argument == NULL || last == NULL)
		return argument == last;
	return VARSIZE_ANY_EXHDR(argument) == VARSIZE_ANY_EXHDR(last) &&
		   memcmp(VARDATA_ANY(argument), VARDATA_ANY(last), VARSIZE_ANY_EXHDR(last)) == 0;
}

static text *
CopyText(const text *argument)
{
	return argument == NULL
			   ? NULL
			   : cstring_to_text_with_len(VARDATA_ANY(argument), VARSIZE_ANY_EXHDR(argument));
}

static struct varlena *
MakeNamed(text *name, text *memory, text *written, int64 seed)
{
	const Method *method;
	Request request;
	Shape shape;
	OptionError error;

	method = dedup::MethodByName(VARDATA_ANY(name), VARSIZE_ANY_EXHDR(name));
	if (method == NULL)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("there is no method \"%s\"", text_to_cstring(name)),
						errhint("The methods are: %s.", MethodNames())));
	error = dedup::ParseOptions(*method, VARDATA_ANY(written), VARSIZE_ANY_EXHDR(written),
								&request.options);
	ReportOption(*method, error);
	if (memory != NULL)
		request.memory = ParseMemory(memory);
	if (method->has_rate() && request.options.given[dedup::kFpr])
		request.fpr = request.options.value[dedup::kFpr];
	if (method->has_rate() && method->growth == NULL && request.options.given[dedup::kKeys])
		request.keys = (uint64) request.options.value[dedup::kKeys];
	if (method->growth != NULL && request.memory > 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("a filter of method %s takes no amount of memory", method->name),
						errdetail("It grows with its keys."),
						errhint("Give NULL, and a rate as option: fpr=0.001.")));
	if (method->has_rate() && method->growth == NULL && (request.keys > 0) == (request.memory > 0))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 request.keys > 0 ? errmsg("memory and the option keys exclude each other")
								  : errmsg("a filter needs memory, or the option keys"),
				 errhint("Give memory such as '16MB', or NULL and the option keys=1000000.")));
	ReportPlan(request.memory > dedup::kMaxBodyBytes
				   ? PlanStatus::kTooLarge
				   : dedup::PlanFilter(*method, request, (uint64) seed, &shape),
			   *method, request);
	return MakeEmptyFilter(shape);
}

/*
 * dedup_method(method text, memory text, options text, seed bigint) returns dedup_filter
 *
 * Returns an empty filter of a named method. It is sized by memory or, if that is NULL, by the
 * option keys. Methods without a rate are sized by options of their own. docs/methods.md describes
 * each method's options.
 */
DEDUP_FUNCTION(dedup_method_make)
{
	text *name;
	text *memory;
	text *written;
	int64 seed;
	LastMethod *last = (LastMethod *) fcinfo->flinfo->fn_extra;
	struct varlena *value;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(2) || PG_ARGISNULL(3))
		PG_RETURN_NULL();
	name = PG_GETARG_TEXT_PP(0);
	memory = PG_ARGISNULL(1) ? NULL : PG_GETARG_TEXT_PP(1);
	written = PG_GETARG_TEXT_PP(2);
	seed = PG_GETARG_INT64(3);
	if (last == NULL)
	{
		last = (LastMethod *) MemoryContextAllocZero(fcinfo->flinfo->fn_mcxt, sizeof(LastMethod));
		last->context = AllocSetContextCreateInternal(fcinfo->flinfo->fn_mcxt, "dedup_method cache",
													  ALLOCSET_SMALL_SIZES);
		fcinfo->flinfo->fn_extra = last;
	}
	if (last->name == NULL || !SameText(name, last->name) || !SameText(memory, last->memory) ||
		!SameText(written, last->options) || seed != last->seed)
	{
		MemoryContext old;

		last->name = NULL;
		value = MakeNamed(name, memory, written, seed);
		MemoryContextReset(last->context);
		old = MemoryContextSwitchTo(last->context);
		last->value = CopyValue(value);
		last->memory = CopyText(memory);
		last->options = CopyText(written);
		last->seed = seed;
		last->name = CopyText(name);
		MemoryContextSwitchTo(old);
		PG_RETURN_POINTER(value);
	}
	PG_RETURN_POINTER(CopyValue(last->value));
}
