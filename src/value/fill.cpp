/*
 * Filters that are being filled.
 */
#include "value/fill.hpp"

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

/* Replaces the state's image by one with room for a new key. */
static void
GrowState(FilterState *state, uint64 limit)
{
	MakeStep(state, dedup::NextStep(state->header, limit));
}

/* States of partial aggregates may take this much memory, or as much as a hash table. */
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
		AssertAgrees(state->value, state->header);
	});
}
