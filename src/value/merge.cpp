/* Merges filters. */
#include "value/merge.hpp"

#include "value/sound.hpp"

using dedup::Outcome;

/* Returns the filter reduced to that shape, in the current context. */
static FilterRef
ReduceFilter(const FilterRef &filter, const dedup::Shape &to)
{
	struct varlena *value = AllocateFlat(dedup::ReducedBytes(filter.header, to));

	dedup::ReduceTo(filter.image, filter.header, to, (uint8_t *) VARDATA(value));
	AssertCanonical(value);
	return ReadFlat(value);
}

void
UnifyPrecision(FilterRef *left, FilterRef *right)
{
	if (dedup::Reducible(left->header, right->header.shape))
		*left = ReduceFilter(*left, right->header.shape);
	else if (dedup::Reducible(right->header, left->header.shape))
		*right = ReduceFilter(*right, left->header.shape);
}

/*
 * Sets the shape of the values that states like this one become. Returns false if this is not a
 * state.
 */
static bool
PlainShape(const dedup::Header &state, dedup::Shape *plain)
{
	const dedup::Growth *growth = state.method->growth;
	dedup::Request request;

	if (growth == NULL)
		return false;
	request.fpr = state.shape.fpr;
	request.options.hash = state.shape.hash;
	dedup::PlanFilter(*state.method, request, state.shape.seed, plain);
	return dedup::Reducible(state, *plain);
}

struct varlena *
MakePlain(const FilterRef &filter)
{
	dedup::Shape plain;

	if (!PlainShape(filter.header, &plain))
		return MakeCanonical(filter);
	return (struct varlena *) (ReduceFilter(filter, plain).image - VARHDRSZ);
}

struct varlena *
MergeToPlain(const FilterRef &left, const FilterRef &state)
{
	dedup::Shape plain;
	uint64 most = left.header.counters.count + state.header.counters.count;
	uint64 keys;

	if (!PlainShape(state.header, &plain) ||
		!dedup::MergesToPlain(left.header, state.header, plain))
		return NULL;
	keys = dedup::PlainKeys(left.image, left.header, state.image, state.header, plain);
	for (;; keys = most)
	{
		uint32 bytes = dedup::PlainBytes(left.header, plain, keys);
		struct varlena *merged = AllocateFlat(dedup::kHeaderBytes + bytes);

		if (dedup::MergeToPlain(left.image, left.header, state.image, state.header, plain, bytes,
								(uint8_t *) VARDATA(merged)) > 0)
		{
			AssertUnsealed(merged);
			return merged;
		}
		/* The sample estimated too few keys: try again with a larger body. */
		pfree(merged);
	}
}

/* Returns the merge of two filters of any forms, canonical and not sealed. */
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

/*
 * Returns whether the union of two exact filters may become a body that grows. The hashes come in
 * order. One by one they would crowd the first lines of a small body before it grows; added
 * together, they get a body with room for all.
 */
static bool
GrowsByHashes(const dedup::Header &left, const dedup::Header &right, uint64 limit)
{
	return left.method->growth != NULL && left.hashes() + right.hashes() > limit;
}

void
MergeIntoState(FilterState *state, const FilterRef &other, uint64 limit)
{
	uint32 parts = state->header.parts() + other.header.parts();

	RequireSameShape(state->header, other.header);
	if (state->header.exact() && other.header.exact() && dedup::AnyOrder(state->header) &&
		!GrowsByHashes(state->header, other.header, limit))
		TakeOverHashes(state, other, limit);
	else
	{
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
		AssertSound(state->value, state->header);
	}
	dedup::SetParts(state->image(), &state->header, parts);
	AssertAgrees(state->value, state->header);
}

struct varlena *
MergeValues(FilterRef left, FilterRef right)
{
	struct varlena *merged;

	RequireMerge(*left.header.method, false);
	UnifyPrecision(&left, &right);
	RequireSameShape(left.header, right.header);
	merged = MergeUnsealed(left, right, left.header.exact_limit());
	dedup::Seal((uint8_t *) VARDATA(merged), VARSIZE(merged) - VARHDRSZ);
	AssertCanonical(merged);
	return merged;
}
