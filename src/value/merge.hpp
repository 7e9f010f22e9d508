/*
 * Merging filters.
 */
#ifndef STREAMDEDUP_VALUE_MERGE_HPP
#define STREAMDEDUP_VALUE_MERGE_HPP

#include "value/fill.hpp"

/*
 * If the filters differ only in their precision, reduces the finer one to the other's shape, in the
 * current context. Other filters do not change.
 */
extern void UnifyPrecision(FilterRef *left, FilterRef *right);

/*
 * Returns the canonical, sealed value of any filter. For a state of a partial aggregate, this is a
 * plain filter.
 */
extern struct varlena *MakePlain(const FilterRef &filter);

/*
 * Returns the merge of a filter and a full state of a partial aggregate as a plain filter, not
 * sealed, in the current context. `left` must be a full state or a full plain filter. Returns NULL
 * if the arguments are others.
 */
extern struct varlena *MergeToPlain(const FilterRef &left, const FilterRef &state);

/*
 * Merges `other` into the state, by age if the method depends on it. As with FillWith(), the state
 * may get a new value.
 */
extern void MergeIntoState(FilterState *state, const FilterRef &other, uint64 limit);

/* Returns the merge of two values, canonical and sealed. */
extern struct varlena *MergeValues(FilterRef left, FilterRef right);

#endif /* STREAMDEDUP_VALUE_MERGE_HPP */
