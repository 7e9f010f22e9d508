/*
 * Filling a filter: its image is a working one, in memory of its own. Where the filter
 * is full, all of these raise an error (54000).
 *
 * Whenever the image has to grow, `value` is a new one in the current context, and the
 * old one is left to its owner.
 */
#ifndef STREAMDEDUP_VALUE_FILL_HPP
#define STREAMDEDUP_VALUE_FILL_HPP

#include "value/datum.hpp"

/* A filter that is being filled: a flat value with a working image, and its header. */
struct FilterState
{
	struct varlena *value;
	dedup::Header header;

	uint8_t *image() const { return (uint8_t *) VARDATA(value); }
};

/*
 * The most hashes before the method takes over: of values; and of the states of
 * partial aggregates, where windows stay exact longer.
 */
enum class HashLimit
{
	Value,
	State
};

/* Of approx_count_distinct: 2^12 registers, a standard error of 0.57 %. */
constexpr uint64 COUNT_MEMORY = 16 * 1024;

extern uint64 LimitOf(const dedup::Header &header, HashLimit limit);

/* Replaces the state's image by a working one, in the current context. */
extern void MakeStep(FilterState *state, const dedup::Step &step);

/*
 * Makes `state` able to take keys: a flat value in memory is turned into a working
 * one, if it is not.
 */
extern void StartFilling(FilterState *state, struct varlena *value, uint64 limit);

/* Test-and-add. True: the key was new. */
extern bool FillWith(FilterState *state, uint64 hash, uint64 limit);

/*
 * The same for an owner that keeps the state's value in the current context and wants
 * no other: one that was outgrown is freed.
 */
static inline bool
FillOwned(FilterState *state, uint64 hash, uint64 limit)
{
	struct varlena *before = state->value;
	bool is_new = FillWith(state, hash, limit);

	if (state->value != before)
		pfree(before);
	return is_new;
}

/*
 * Takes over the keys of an exact filter one by one, each as the youngest: what
 * merging many small filters into one wants, at a cost that does not depend on how
 * much the state holds.
 */
extern void TakeOverHashes(FilterState *state, const FilterRef &exact, uint64 limit);

#endif /* STREAMDEDUP_VALUE_FILL_HPP */
