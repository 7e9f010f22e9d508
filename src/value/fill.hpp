/*
 * Fills a filter: its image is a working one, in memory of its own. All these functions raise an
 * error (54000) if the filter is full.
 *
 * When the image has to grow, `value` becomes a new one in the current context. The caller may free
 * the old one.
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
 * The most hashes before the method takes over: for values, and for the states of partial
 * aggregates, in which windows stay exact longer.
 */
enum class HashLimit
{
	Value,
	State
};

extern uint64 LimitOf(const dedup::Header &header, HashLimit limit);

/* Replaces the state's image by a working image, in the current context. */
extern void MakeStep(FilterState *state, const dedup::Step &step);

/*
 * Prepares `state` to take keys: turns a flat value in memory into a working one, if it is not yet.
 */
extern void StartFilling(FilterState *state, struct varlena *value, uint64 limit);

/* Tests and adds a key. Returns true if the key was new. */
extern bool FillWith(FilterState *state, uint64 hash, uint64 limit);

/*
 * Does the same, and frees the old value when the state has grown. For callers that keep the
 * state's value in the current context and have no other pointer to it.
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
 * Adds the keys of an exact filter one by one, each as the youngest. Used to merge many small
 * filters into one: the cost does not depend on how much the state holds.
 */
extern void TakeOverHashes(FilterState *state, const FilterRef &exact, uint64 limit);

#endif /* STREAMDEDUP_VALUE_FILL_HPP */
