#include "value/datum.hpp"

extern "C" {
#include "access/detoast.h"
#include "executor/nodeHash.h"
#include "nodes/nodes.h"
#if PG_VERSION_NUM >= 160000
#include "nodes/miscnodes.h"
#endif
}

using dedup::Flaw;
using dedup::Form;
using dedup::Header;
using dedup::Outcome;
using dedup::Step;

/* ---- errors --------------------------------------------------------------- */

#if PG_VERSION_NUM >= 160000
#define FLAW_REPORT(escontext, ...) errsave(escontext, __VA_ARGS__)
#else
#define FLAW_REPORT(escontext, ...) ereport(ERROR, __VA_ARGS__)
#endif

void
ReportFlaw(Flaw flaw, int sqlstate, const uint8_t *image, size_t size, Node *escontext)
{
	const char *detail = NULL;

	switch (flaw)
	{
		case Flaw::kNone:
			return;
		case Flaw::kFutureVersion:
			FLAW_REPORT(escontext,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("dedup_filter format version %d is not supported", image[1]),
						 errdetail("This release of streamdedup reads version %d.",
								   dedup::kFormatVersion),
						 errhint(
							 "Update streamdedup, or check that the value is a dedup_filter.")));
			return;
		case Flaw::kUnknownMethod:
			FLAW_REPORT(escontext,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("dedup_filter method number %d is not supported", image[2]),
						 errhint(
							 "Update streamdedup, or check that the value is a dedup_filter.")));
			return;
		case Flaw::kUnknownHash:
			FLAW_REPORT(escontext,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("dedup_filter hash function number %u is not supported",
								dedup::HashNumberOf(image)),
						 errhint(
							 "Update streamdedup, or check that the value is a dedup_filter.")));
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
			FLAW_REPORT(escontext,
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
		FLAW_REPORT(escontext, (errcode(sqlstate), errmsg("dedup_filter value is corrupt"),
								errdetail("%s", detail),
								errhint("Restore the value from a backup, or build it again.")));
	else
		FLAW_REPORT(escontext,
					(errcode(sqlstate), errmsg("invalid dedup_filter value of %zu bytes", size),
					 errdetail("%s", detail),
					 errhint("Only the unchanged output of a dedup_filter can be read back.")));
}

/* A shape in the user's words. */
static const char *
DescribeShape(const Header &header)
{
	char parameters[128];

	dedup::DescribeParameters(header.shape, parameters, sizeof parameters);
	if (!header.method->has_rate())
		return psprintf("%s with seed " INT64_FORMAT " (%s)", header.method->name,
						(int64) header.shape.seed, parameters);
	return psprintf("%s for " UINT64_FORMAT " keys at a rate of %g with seed " INT64_FORMAT " (%s)",
					header.method->name, header.shape.keys, header.shape.fpr,
					(int64) header.shape.seed, parameters);
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
					left.method->has_rate() || right.method->has_rate()
						? errhint("Build both from the same prototype: the same method, number of "
								  "keys, rate, options and seed.")
						: errhint("Build both from the same prototype: the same method, memory, "
								  "options and seed.")));
}

static FilterRef
ReduceFilter(const FilterRef &filter, const dedup::Shape &to)
{
	struct varlena *value = AllocateFlat(dedup::ReducedBytes(filter.header, to));
	FilterRef reduced;

	dedup::ReduceTo(filter.image, filter.header, to, (uint8_t *) VARDATA(value));
	CheckFlat(value, &reduced.header);
	reduced.image = (const uint8_t *) VARDATA(value);
	return reduced;
}

void
UnifyPrecision(FilterRef *left, FilterRef *right)
{
	if (dedup::Reducible(left->header, right->header.shape))
		*left = ReduceFilter(*left, right->header.shape);
	else if (dedup::Reducible(right->header, left->header.shape))
		*right = ReduceFilter(*right, left->header.shape);
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
					errhint("Make a larger one, or one that takes every key: dedup_filter(), whose "
							"rate rises, or dedup_window(), which forgets old keys.")));
	pg_unreachable();
}

void
RequireMerge(const Header &header, bool parallel)
{
	if (header.method->merge != NULL)
		return;
	ereport(
		ERROR,
		(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
		 errmsg("filters of method %s cannot be merged", header.method->name),
		 errdetail("Merging is %s.", header.method->merging),
		 parallel
			 ? errhint(
				   "Plan the query serially, without partial aggregates: SET "
				   "max_parallel_workers_per_gather = 0, and enable_partitionwise_aggregate = off.")
			 : errhint(
				   "Build one filter from the keys of both, or use a method that can be merged.")));
}

void
RequireMembership(const dedup::Method &method)
{
	if (method.answers == dedup::Answers::kMembership)
		return;
	ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					errmsg("filters of method %s do not say whether a key was seen", method.name),
					method.answers == dedup::Answers::kFrequency
						? errdetail("They say how often it was seen: dedup_frequency().")
						: errdetail("They say how many distinct keys were seen: dedup_count()."),
					errhint("Use a filter of dedup_filter() or dedup_window().")));
}

void
RequireFrequency(const dedup::Method &method)
{
	if (method.answers == dedup::Answers::kFrequency)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("filters of method %s do not say how often a key was seen", method.name),
			 method.answers == dedup::Answers::kMembership
				 ? errdetail("They say whether it was seen: dedup_contains().")
				 : errdetail("They say how many distinct keys were seen: dedup_count()."),
			 errhint(
				 "Use a filter of dedup_method('count_min', NULL, 'epsilon=0.001 delta=0.01').")));
}

/* The methods that can forget, "a, b, c". */
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

/* ---- reading -------------------------------------------------------------- */

void
CheckFlat(const struct varlena *value, Header *header)
{
	const uint8_t *image = (const uint8_t *) VARDATA(value);
	size_t size = VARSIZE(value) - VARHDRSZ;
	Flaw flaw = dedup::Check(image, size, header);

	if (unlikely(flaw != Flaw::kNone))
		ReportFlaw(flaw, ERRCODE_DATA_CORRUPTED, image, size, NULL);
}

void
CheckStored(const struct varlena *value, Header *header)
{
	const uint8_t *image = (const uint8_t *) VARDATA(value);
	size_t size = VARSIZE(value) - VARHDRSZ;
	Flaw flaw = dedup::Validate(image, size, header);

	if (unlikely(flaw != Flaw::kNone))
		ReportFlaw(flaw, ERRCODE_DATA_CORRUPTED, image, size, NULL);
}

FilterRef
GetFilter(Datum datum)
{
	struct varlena *value = ValueOfExpanded(datum);
	FilterRef filter;

	if (value != NULL)
		CheckFlat(value, &filter.header);
	else
	{
		bool stored = VARATT_IS_EXTERNAL_ONDISK(DatumGetPointer(datum));

		value = PG_DETOAST_DATUM(datum);
		if (stored)
			CheckStored(value, &filter.header);
		else
			CheckFlat(value, &filter.header);
	}
	filter.image = (const uint8_t *) VARDATA(value);
	if (unlikely(filter.header.deferred() > 0))
	{
		struct varlena *copy = CopyFlat(filter.image, VARSIZE(value) - VARHDRSZ);

		if (!dedup::Settle((uint8_t *) VARDATA(copy), &filter.header))
			ReportFull(filter.header);
		filter.image = (const uint8_t *) VARDATA(copy);
	}
	return filter;
}

dedup::Shape
GetPrototype(bool isnull, Datum datum)
{
	FilterRef filter;

	if (isnull)
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
						errmsg("prototype filter must not be null"),
						errhint("Give an empty filter, such as dedup_filter(1000000, 0.01).")));
	filter = GetFilter(datum);
	if (!filter.header.exact() || filter.header.hashes() > 0)
	{
		const double count = dedup::Read(filter.image, filter.header).count;

		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("prototype filter must be empty"),
				 count < 0.5 ? errdetail("It holds no key, but has the form of a filter that holds "
										 "keys, as a snapshot of a live filter has.")
							 : errdetail("It holds about %.0f keys.", count),
				 errhint("Give an empty filter, such as dedup_filter(1000000, 0.01); merge filters "
						 "with dedup_merge().")));
	}
	return filter.header.shape;
}

/* ---- making --------------------------------------------------------------- */

struct varlena *
AllocateFlat(size_t image_bytes)
{
	struct varlena *value = (struct varlena *) palloc(VARHDRSZ + image_bytes);

	SET_VARSIZE(value, VARHDRSZ + image_bytes);
	return value;
}

struct varlena *
CopyFlat(const uint8_t *image, size_t image_bytes)
{
	struct varlena *value = AllocateFlat(image_bytes);

	dedup::CopyInPieces((uint8_t *) VARDATA(value), image, image_bytes);
	return value;
}

struct varlena *
MakeEmptyFilter(const dedup::Shape &shape)
{
	struct varlena *value = AllocateFlat(dedup::kHeaderBytes);

	dedup::WriteEmpty(shape, (uint8_t *) VARDATA(value));
	return value;
}

struct varlena *
MakeCanonical(const FilterRef &filter)
{
	struct varlena *value = AllocateFlat(dedup::CanonicalBytes(filter.header));

	dedup::WriteCanonical(filter.image, filter.header, (uint8_t *) VARDATA(value));
	return value;
}

Datum
ForgetInValue(Datum datum, const FilterRef &filter, uint64 hash)
{
	FilterRef stored = filter;
	struct varlena *value;
	size_t size;

	if (!filter.header.method->can_forget(filter.header.shape))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("a filter of method %s cannot forget a key", filter.header.method->name),
				 errhint("These can: %s.", ForgettingMethods())));
	if (!filter.header.canonical())
	{
		struct varlena *canonical = MakeCanonical(filter);

		CheckFlat(canonical, &stored.header);
		stored.image = (const uint8_t *) VARDATA(canonical);
	}
	value = AllocateFlat(dedup::ForgetBytes(stored.header));
	size = dedup::ForgetFrom(stored.image, stored.header, hash, (uint8_t *) VARDATA(value));
	if (size == 0)
	{
		pfree(value);
		return datum;
	}
	SET_VARSIZE(value, VARHDRSZ + size);
	dedup::Seal((uint8_t *) VARDATA(value), size);
	return PointerGetDatum(value);
}

/* ---- filling -------------------------------------------------------------- */

void
MakeStep(FilterState *state, const Step &step)
{
	struct varlena *grown = AllocateFlat(dedup::StepBytes(state->header, step));

	if (!dedup::MakeWorking(state->image(), state->header, step, (uint8_t *) VARDATA(grown)))
		ReportFull(state->header);
	state->value = grown;
	CheckFlat(grown, &state->header);
}

/* The same, by one that has room for a key that is new. */
static void
GrowState(FilterState *state, uint64 limit)
{
	MakeStep(state, dedup::NextStep(state->header, limit));
}

/* States of partial aggregates may take so much, or what a hash table may. */
static constexpr Size STATE_MEMORY = (Size) 64 << 20;

uint64
LimitOf(const Header &header, HashLimit limit)
{
	uint64 value_limit = header.exact_limit();
	uint64 state_limit = Max(get_hash_memory_limit(), STATE_MEMORY) / 24;

	if (limit == HashLimit::Value)
		return value_limit;
	return Min(header.state_limit(), Max(value_limit, state_limit));
}

void
StartFilling(FilterState *state, struct varlena *value, uint64 limit)
{
	state->value = value;
	CheckFlat(value, &state->header);
	if (state->header.canonical())
		MakeStep(state, dedup::FirstStep(state->header, limit));
	else
	{
		dedup::Align(state->image(), &state->header);
		if (!dedup::Settle(state->image(), &state->header))
			ReportFull(state->header);
	}
}

bool
FillWith(FilterState *state, uint64 hash, uint64 limit)
{
	switch (dedup::TestAndAdd(state->image(), &state->header, hash))
	{
		case Outcome::kNew:
			return true;
		case Outcome::kSeen:
			return false;
		case Outcome::kNoRoom:
			break;
		case Outcome::kFull:
			ReportFull(state->header);
	}
	GrowState(state, limit);
	if (!dedup::AddNew(state->image(), &state->header, hash))
		ReportFull(state->header);
	return true;
}

/* The merge of two filters of any forms, canonical and not sealed. */
static struct varlena *
MergeUnsealed(const FilterRef &left, const FilterRef &right, uint64 limit)
{
	dedup::MergeBytes needs = dedup::MergeNeeds(left.header, right.header, limit);
	struct varlena *merged = AllocateFlat(needs.out);
	uint8_t *scratch = needs.scratch == 0 ? NULL
										  : (uint8_t *) MemoryContextAllocHuge(CurrentMemoryContext,
																			   needs.scratch);
	size_t size = dedup::MergeTo(left.image, left.header, right.image, right.header, limit,
								 (uint8_t *) VARDATA(merged), scratch);

	if (size == 0)
		ReportFull(left.header);
	SET_VARSIZE(merged, VARHDRSZ + size);
	if (scratch != NULL)
		pfree(scratch);
	return merged;
}

void
TakeOverHashes(FilterState *state, const FilterRef &exact, uint64 limit)
{
	dedup::ForEachEntry(exact.image, exact.header, [&](uint64 hash, uint64 count) {
		Outcome outcome = dedup::TakeOver(state->image(), &state->header, hash, count);

		if (outcome == Outcome::kNoRoom)
		{
			GrowState(state, limit);
			if (!dedup::AddNew(state->image(), &state->header, hash, count))
				outcome = Outcome::kFull;
		}
		if (outcome == Outcome::kFull)
			ReportFull(state->header);
	});
}

void
MergeIntoState(FilterState *state, const FilterRef &other, uint64 limit)
{
	uint32 parts = state->header.parts() + other.header.parts();

	RequireSameShape(state->header, other.header);
	if (state->header.exact() && other.header.exact() && dedup::AnyOrder(state->header))
		TakeOverHashes(state, other, limit);
	else
		switch (dedup::MergeInPlace(state->image(), &state->header, other.image, other.header))
		{
			case Outcome::kNoRoom:
				StartFilling(state, MergeUnsealed({state->image(), state->header}, other, limit),
							 limit);
				break;
			case Outcome::kFull:
				ReportFull(state->header);
			default:
				break;
		}
	dedup::SetParts(state->image(), &state->header, parts);
}

struct varlena *
MergeValues(FilterRef left, FilterRef right)
{
	struct varlena *merged;

	RequireMerge(left.header, false);
	UnifyPrecision(&left, &right);
	RequireSameShape(left.header, right.header);
	merged = MergeUnsealed(left, right, left.header.exact_limit());
	dedup::Seal((uint8_t *) VARDATA(merged), VARSIZE(merged) - VARHDRSZ);
	return merged;
}

bool
WarnIfOverfull(const FilterRef &filter, const char *what)
{
	dedup::Reading reading;
	bool by_chance;

	/* Only a rate can be passed, and reading a sketch is not free. */
	if (filter.header.exact() || !filter.header.method->has_rate())
		return false;
	reading = dedup::Read(filter.image, filter.header);
	if (!dedup::Overfull(filter.header, reading))
		return false;
	by_chance = filter.header.method->remembers(filter.header.shape) == dedup::Remembers::kByChance;
	ereport(WARNING,
			(errmsg("%s made an overfull filter", what),
			 errdetail("It was sized for " UINT64_FORMAT
					   " keys at a false-positive rate of %g, and now holds about %.0f keys at a "
					   "rate of %.3g.",
					   filter.header.shape.keys, filter.header.shape.fpr, reading.count,
					   reading.fpr),
			 by_chance
				 ? errhint("More new keys are called duplicates than the rate says. Build the "
						   "filter for more keys, or by a method and options that keep the rate.")
				 : errhint("No key is missed, but more new keys are called duplicates. Build the "
						   "filters for as many keys as they hold together.")));
	return true;
}
