/*
 * Merging filters.
 */
#ifndef STREAMDEDUP_VALUE_MERGE_HPP
#define STREAMDEDUP_VALUE_MERGE_HPP

#include "value/fill.hpp"

/*
 * Filters that differ in their precision only: the finer of the two becomes one of the
 * other's shape, in the current context. Others stay as they are.
 */
extern void UnifyPrecision(FilterRef *left, FilterRef *right);

/* The canonical, sealed value of any filter; that of a partial aggregate's state is a plain one. */
extern struct varlena *MakePlain(const FilterRef &filter);

/*
 * The merge of a full filter and a full state of a partial aggregate as a plain filter, not sealed,
 * in the current context; the first one is a state as well, or plain. NULL: they are not these.
 */
extern struct varlena *MergeToPlain(const FilterRef &left, const FilterRef &state);

/*
 * Merges `other` into the state, by age where that matters. Like FillWith() it may
 * leave the state a new value.
 */
extern void MergeIntoState(FilterState *state, const FilterRef &other, uint64 limit);

/* The merge of two values, canonical and sealed. */
extern struct varlena *MergeValues(FilterRef left, FilterRef right);

#endif /* STREAMDEDUP_VALUE_MERGE_HPP */
