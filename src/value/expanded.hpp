/*
 * Expanded filters, and values with more keys, which large ones become.
 */
#ifndef STREAMDEDUP_VALUE_EXPANDED_HPP
#define STREAMDEDUP_VALUE_EXPANDED_HPP

#include "value/datum.hpp"

/* The flat value of an expanded filter, or NULL if the datum is none. */
extern struct varlena *ValueOfExpanded(Datum datum);

/*
 * A value with one more key. Large results are expanded objects in the current
 * context. An expanded object that may be written to is changed in place.
 */
extern Datum AddToValue(Datum datum, const FilterRef &filter, uint64 hash);

/* The same for many keys, at one copy. */
extern Datum AddAllToValue(Datum datum, const FilterRef &filter, const uint64 *hashes, size_t n);

#endif /* STREAMDEDUP_VALUE_EXPANDED_HPP */
