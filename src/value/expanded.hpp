/* Expanded filters, and functions that add keys to a value. Large results are expanded. */
#ifndef STREAMDEDUP_VALUE_EXPANDED_HPP
#define STREAMDEDUP_VALUE_EXPANDED_HPP

#include "value/datum.hpp"

/* Returns the flat value of an expanded filter, or NULL if the datum is not one. */
extern struct varlena *ValueOfExpanded(Datum datum);

/*
 * Returns a value with one more key. Large results are expanded objects in the current context. An
 * expanded object that may be written to is changed in place.
 */
extern Datum AddToValue(Datum datum, const FilterRef &filter, uint64 hash);

/* Does the same for many keys, with a single copy. */
extern Datum AddAllToValue(Datum datum, const FilterRef &filter, const uint64 *hashes, size_t n);

#endif /* STREAMDEDUP_VALUE_EXPANDED_HPP */
