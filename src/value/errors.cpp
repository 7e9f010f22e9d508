/* Errors and warnings about filters, in the words of the manual. */
#include "core/live_method.hpp"
#include "core/methods/infini.hpp"
#include "value/errors.hpp"

#include "value/datum.hpp"

extern "C" {
#include "utils/float.h"
}

using dedup::Flaw;
using dedup::Header;

/* ---- bytes that are not a valid filter -------------------------------------- */

void
ReportFlaw(Flaw flaw, int sqlstate, const uint8_t *image, size_t size, Node *escontext)
{
	const char *detail = NULL;

	switch (flaw)
	{
		case Flaw::kNone:
			return;
		case Flaw::kFutureVersion:
			SOFT_ERROR(escontext,
					   (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("dedup_filter format version %d is not supported", image[1]),
						errdetail("This release of streamdedup reads version %d.",
								  dedup::kFormatVersion),
						errhint("Update streamdedup, or check that the value is a dedup_filter.")));
			return;
		case Flaw::kUnknownMethod:
			SOFT_ERROR(escontext,
					   (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("dedup_filter method number %d is not supported", image[2]),
						errhint("Update streamdedup, or check that the value is a dedup_filter.")));
			return;
		case Flaw::kUnknownHash:
			SOFT_ERROR(escontext,
					   (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("dedup_filter hash function number %u is not supported",
							   dedup::HashNumberOf(image)),
						errhint("Update streamdedup, or check that the value is a dedup_filter.")));
			return;
		case Flaw::kNotAFilter:
			detail = "It does not begin with the header of a dedup_filter.";
			break;
		case Flaw::kParameters:
			detail = "Its header holds parameters that no filter has.";
			break;
		case Flaw::kSize:
			detail = "Its size does not agree with its header.";
			break;
		case Flaw::kWorking:
			SOFT_ERROR(escontext,
					   (errcode(sqlstate == ERRCODE_DATA_CORRUPTED
									? ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE
									: sqlstate),
						errmsg("dedup_filter value is the unfinished state of an aggregate"),
						errhint("Store the result of dedup_agg() or dedup_merge_agg(), not that "
								"of their transition functions.")));
			return;
		case Flaw::kChecksum:
			detail = "Its checksum does not match its contents.";
			break;
		case Flaw::kOrder:
			detail = "Its hashes are not in order.";
			break;
		case Flaw::kBody:
			detail = "Its contents do not hold together.";
			break;
	}
	if (sqlstate == ERRCODE_DATA_CORRUPTED)
		SOFT_ERROR(escontext, (errcode(sqlstate), errmsg("dedup_filter value is corrupt"),
							   errdetail("%s", detail),
							   errhint("Restore the value from a backup, or build it again.")));
	else
		SOFT_ERROR(escontext,
				   (errcode(sqlstate), errmsg("invalid dedup_filter value of %zu bytes", size),
					errdetail("%s", detail),
					errhint("Only the unchanged output of a dedup_filter can be read back.")));
}

/* ---- what a filter cannot do ------------------------------------------------ */

/* Describes a shape in the words of the manual. */
static const char *
DescribeShape(const Header &header)
{
	char parameters[128];

	dedup::DescribeParameters(header.shape, parameters, sizeof parameters);
	if (!header.method->has_rate())
		return psprintf("%s with seed " INT64_FORMAT " (%s)", header.method->name,
						(int64) header.shape.seed, parameters);
	if (header.method->growth != NULL)
		return psprintf("%s at a rate of %g with seed " INT64_FORMAT " (%s)", header.method->name,
						header.shape.fpr, (int64) header.shape.seed, parameters);
	return psprintf("%s for " UINT64_FORMAT " keys at a rate of %g with seed " INT64_FORMAT " (%s)",
					header.method->name, header.shape.keys, header.shape.fpr,
					(int64) header.shape.seed, parameters);
}

/* Returns whether this is the shape of snapshots of live filters that grow. */
static bool
IsOfGrown(const dedup::Shape &shape)
{
	return shape.method == dedup::infini::kMethod.code &&
		   (shape.detail & dedup::infini::kLiveOrder) != 0;
}

/* Returns whether this is the shape of snapshots of live filters with a number of keys and a ttl.
 */
static bool
IsOfTimed(const dedup::Shape &shape)
{
	return dedup::live::IsLiveMethod(*dedup::MethodByCode(shape.method)) &&
		   dedup::live::LayoutOf(shape).timed;
}

/*
 * Returns the call that makes prototypes of the shape of snapshots of live filters with a number of
 * keys, or NULL if it is not such a shape.
 */
static const char *
PrototypeOfSnapshot(const dedup::Shape &shape)
{
	const dedup::Method *method = dedup::MethodByCode(shape.method);
	dedup::Request request;
	dedup::Shape planned;

	if (!dedup::live::IsLiveMethod(*method))
		return NULL;
	request.keys = shape.keys;
	request.fpr = shape.fpr;
	request.options.hash = shape.hash;
	if (dedup::PlanFilter(*method, request, shape.seed, &planned) != dedup::PlanStatus::kOk ||
		planned != shape)
		return NULL;
	return psprintf("dedup_method('%s', NULL, 'keys=" UINT64_FORMAT " fpr=%s%s%s', " INT64_FORMAT
					")",
					method->name, shape.keys, float8out_internal(shape.fpr),
					shape.hash == dedup::kXxh3Hash ? "" : " hash=",
					shape.hash == dedup::kXxh3Hash ? "" : dedup::kHashNames[shape.hash],
					(int64) shape.seed);
}

/* Adds the HINT that describes how to get two filters that can be merged. */
static int
HintForShapes(const Header &left, const Header &right)
{
	const bool live =
		dedup::live::IsLiveMethod(*left.method) || dedup::live::IsLiveMethod(*right.method);
	const char *prototype = NULL;

	if (IsOfGrown(left.shape) != IsOfGrown(right.shape))
		return errhint("Merge the snapshot of a live filter that grows only with other such "
					   "snapshots, of the same rate, seed and hash. If filters cannot be merged, "
					   "query each of them.");
	if (IsOfGrown(left.shape))
		return errhint("Make both live filters with the same rate, seed and hash. dedup_create() "
					   "takes a random seed unless the prototype gives one.");
	if (IsOfTimed(left.shape) || IsOfTimed(right.shape))
		return errhint("Merge the snapshot of a window of time only with those of live filters "
					   "that were made with the same prototype, seed and ttl.");
	if (left.method != right.method)
		prototype = dedup::live::IsLiveMethod(*left.method) ? PrototypeOfSnapshot(left.shape)
															: PrototypeOfSnapshot(right.shape);
	if (prototype != NULL)
		return errhint("Build the other filter from the prototype %s.", prototype);
	if (left.method->growth != NULL && right.method->growth != NULL)
		return errhint("Build both with the same rate, seed and hash.");
	if (live)
		return errhint("Build both from the same prototype: the same method, number of keys, rate, "
					   "options and seed. dedup_create() takes a random seed unless the prototype "
					   "gives one.");
	if (left.method->has_rate() || right.method->has_rate())
		return errhint("Build both from the same prototype: the same method, number of keys, rate, "
					   "options and seed.");
	return errhint(
		"Build both from the same prototype: the same method, memory, options and seed.");
}

void
RequireSameShape(const Header &left, const Header &right)
{
	if (left.shape == right.shape)
		return;
	ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					errmsg("cannot merge filters of different shapes"),
					errdetail("The left filter is %s, the right one %s.", DescribeShape(left),
							  DescribeShape(right)),
					HintForShapes(left, right)));
}

void
ReportFull(const Header &header)
{
	char parameters[128];

	dedup::DescribeParameters(header.shape, parameters, sizeof parameters);
	ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					errmsg("the %s filter is full", header.method->name),
					errdetail("It was made for " UINT64_FORMAT " keys (%s).", header.shape.keys,
							  parameters),
					errhint("Make a larger one, or one that takes every key: dedup_filter(), which "
							"grows, or dedup_window(), which forgets old keys.")));
	pg_unreachable();
}

void
RequireMerge(const dedup::Method &method, bool partial_plan)
{
	if (method.merge != NULL)
		return;
	ereport(
		ERROR,
		(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
		 errmsg("filters of method %s cannot be merged", method.name),
		 errdetail("Merging is %s.", method.merging),
		 partial_plan
			 ? errhint(
				   "Plan the query without partial aggregates: SET max_parallel_workers_per_gather "
				   "= 0, enable_partitionwise_aggregate = off and, from PostgreSQL 19 on, "
				   "enable_eager_aggregate = off.")
			 : errhint("Build one filter from all keys, or use a method that can be merged.")));
}

void
RequireMembership(const dedup::Method &method)
{
	if (method.answers == dedup::Answers::kMembership)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("filters of method %s do not report whether a key was seen", method.name),
			 method.answers == dedup::Answers::kFrequency
				 ? errdetail("They report how often it was seen: use dedup_frequency().")
				 : errdetail("They report how many distinct keys were seen: use dedup_count()."),
			 errhint("Use a filter of dedup_filter() or dedup_window().")));
}

void
RequireFrequency(const dedup::Method &method)
{
	if (method.answers == dedup::Answers::kFrequency)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("filters of method %s do not report how often a key was seen", method.name),
			 method.answers == dedup::Answers::kMembership
				 ? errdetail("They report whether it was seen: use dedup_contains().")
				 : errdetail("They report how many distinct keys were seen: use dedup_count()."),
			 errhint(
				 "Use a filter of dedup_method('count_min', NULL, 'epsilon=0.001 delta=0.01').")));
}

/* Lists the methods that can forget: "a, b, c". */
static const char *
ForgettingMethods(void)
{
	StringInfoData names;

	initStringInfo(&names);
	for (const dedup::Method *method : dedup::kMethods)
		if (method->forget != NULL)
			appendStringInfo(&names, "%s%s%s%s", names.len == 0 ? "" : ", ", method->name,
							 method->may_forget != NULL ? " with " : "",
							 method->may_forget != NULL ? method->variant : "");
	return names.data;
}

void
RequireForget(const Header &header)
{
	if (header.method->can_forget(header.shape))
		return;
	ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					errmsg("a filter of method %s cannot forget a key", header.method->name),
					errhint("These can: %s.", ForgettingMethods())));
}

/* ---- sizes ------------------------------------------------------------------ */

void
CheckRate(double fpr)
{
	if (!(fpr >= dedup::kMinFpr && fpr <= dedup::kMaxFpr))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("false-positive rate %s is out of range", float8out_internal(fpr)),
						errhint("Give a rate from %g to %g; with 0.01, one new key in a hundred is "
								"reported as a duplicate.",
								dedup::kMinFpr, dedup::kMaxFpr)));
}

void
CheckKeys(int64 keys)
{
	if (keys < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("number of keys must be at least 1, not " INT64_FORMAT, keys),
				 errhint("Give the number of distinct keys that the filter must hold. Without "
						 "a number dedup_filter() grows.")));
	if ((uint64) keys > dedup::kMaxKeys)
		ereport(
			ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
			 errmsg("number of keys " INT64_FORMAT " is too large", keys),
			 errdetail("A filter takes at most %d MB.", (int) (dedup::kMaxBodyBytes >> 20)),
			 errhint(
				 "Use several filters, for example one a day or one for each hash partition.")));
}

/*
 * Warns that a growing filter has reached its largest size, and holds more keys than it can hold at
 * its rate.
 */
static void
WarnFullyGrown(const FilterRef &filter, const char *what)
{
	const dedup::Reading reading = dedup::Read(filter.image, filter.header);
	const dedup::Shape &shape = filter.header.shape;

	ereport(WARNING,
			(errmsg("%s made a filter that cannot grow further", what),
			 errdetail(
				 "It has reached %d MB, which keep a false-positive rate of %g up to " UINT64_FORMAT
				 " keys, and now holds about %.0f keys at a rate of %.3g.",
				 (int) (dedup::kMaxBodyBytes >> 20), shape.fpr,
				 filter.header.method->growth->most_keys(shape), reading.count, reading.fpr),
			 errhint("No key is missed, but more new keys are reported as duplicates. Use several "
					 "filters, for example one a day or one for each hash partition; or give "
					 "dedup_filter() the number of keys: such a filter holds more keys in as many "
					 "bytes.")));
}

bool
WarnIfOverfull(const FilterRef &filter, const char *what)
{
	dedup::Reading reading;
	bool by_chance;
	bool forgets;

	/* Only filters with a rate can exceed it, and reading a sketch is expensive. */
	if (filter.header.exact() || !filter.header.method->has_rate())
		return false;
	if (filter.header.method->growth != NULL)
	{
		/* The number of its keys is known without reading the body. */
		if (!dedup::Overfull(filter.header, reading))
			return false;
		WarnFullyGrown(filter, what);
		return true;
	}
	reading = dedup::Read(filter.image, filter.header);
	if (!dedup::Overfull(filter.header, reading))
		return false;
	by_chance = filter.header.method->remembers(filter.header.shape) == dedup::Remembers::kByChance;
	forgets = filter.header.method->forgets(filter.header.shape);
	ereport(
		WARNING,
		(errmsg("%s made an overfull filter", what),
		 errdetail("It was sized for " UINT64_FORMAT
				   " keys at a false-positive rate of %g, and now holds about %.0f keys at a "
				   "rate of %.3g.",
				   filter.header.shape.keys, filter.header.shape.fpr, reading.count, reading.fpr),
		 by_chance
			 ? errhint("More new keys are reported as duplicates than the rate allows. Build the "
					   "filter for more keys, or by a method and options that keep the rate.")
		 : forgets
			 ? errhint("No key is missed, but more new keys are reported as duplicates. Build the "
					   "filters for as many keys as they hold together.")
			 : errhint("No key is missed, but more new keys are reported as duplicates. Build the "
					   "filters for as many keys as they hold together, or without a number of "
					   "keys: dedup_filter() grows.")));
	return true;
}
