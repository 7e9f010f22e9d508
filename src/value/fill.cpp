/*
 * Filters that are being filled.
 */
#include "value/fill.hpp"

#include <numeric>

#include "value/sound.hpp"

extern "C" {
#include "executor/nodeHash.h"
}

using dedup::Header;
using dedup::Outcome;
using dedup::Step;

void
MakeStep(FilterState *state, const Step &step)
{
	struct varlena *grown = AllocateFlat(dedup::StepBytes(state->header, step));

	if (!dedup::MakeWorking(state->image(), state->header, step, (uint8_t *) VARDATA(grown)))
		ReportFull(state->header);
	state->value = grown;
	CheckFlat(grown, &state->header);
	AssertSound(grown, state->header);
}

/* Replaces the state's image by one that has room for a key that is new. */
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
		AssertAgrees(state->value, state->header);
	}
}

bool
FillWith(FilterState *state, uint64 hash, uint64 limit)
{
	switch (dedup::TestAndAdd(state->image(), &state->header, hash))
	{
		case Outcome::kNew:
			AssertAgrees(state->value, state->header);
			return true;
		case Outcome::kSeen:
			AssertAgrees(state->value, state->header);
			return false;
		case Outcome::kNoRoom:
			break;
		case Outcome::kFull:
			ReportFull(state->header);
	}
	GrowState(state, limit);
	if (!dedup::AddNew(state->image(), &state->header, hash))
		ReportFull(state->header);
	AssertAgrees(state->value, state->header);
	return true;
}

/* Takes over a key of a filter that is exact. */
static void
TakeOverHash(FilterState *state, uint64 hash, uint64 count, uint64 limit)
{
	Outcome outcome = dedup::TakeOver(state->image(), &state->header, hash, count);

	if (outcome == Outcome::kNoRoom)
	{
		GrowState(state, limit);
		if (!dedup::AddNew(state->image(), &state->header, hash, count))
			outcome = Outcome::kFull;
	}
	if (outcome == Outcome::kFull)
		ReportFull(state->header);
	AssertAgrees(state->value, state->header);
}

/*
 * The list of a filter is in order of the hashes. A body that grows must not get its keys so: it
 * would be crowded at one end when it has the most keys for its size, join entries there, and
 * answer for many keys more than its rate allows. So steps of about n / 1.618 lead through the
 * list.
 */
static void
TakeOverMixed(FilterState *state, const FilterRef &exact, uint64 limit)
{
	const uint64 n = exact.header.hashes();
	uint64 *hashes = (uint64 *) palloc_extended(Max(n, 1) * sizeof(uint64), MCXT_ALLOC_HUGE);
	uint64 stride = (uint64) ((double) n * 0.6180339887498949) + 1;
	uint64 i = 0;

	dedup::ForEachEntry(exact.image, exact.header,
						[&](uint64 hash, uint64) { hashes[i++] = hash; });
	while (std::gcd(stride, n) > 1)
		stride++;
	i = 0;
	for (uint64 done = 0; done < n; done++, i = (i + stride) % n)
		TakeOverHash(state, hashes[i], 1, limit);
	pfree(hashes);
}

void
TakeOverHashes(FilterState *state, const FilterRef &exact, uint64 limit)
{
	if (state->header.method->growth != NULL)
	{
		TakeOverMixed(state, exact, limit);
		return;
	}
	dedup::ForEachEntry(exact.image, exact.header, [&](uint64 hash, uint64 count) {
		TakeOverHash(state, hash, count, limit);
	});
}
