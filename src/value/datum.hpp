/*
 * dedup_filter values: the two forms of an image (core/image.hpp) as a Datum.
 *
 * Flat: a varlena whose data is the image. Canonical images are stored. A checksum of 0 in a
 * canonical image means that it was not computed yet; flattening or output computes it. Working
 * images are aggregate states, and partial states on their way from a worker (fill.hpp).
 *
 * Expanded: an image in a memory context of its own. PL/pgSQL takes such a result of dedup_add()
 * over without a copy, and from PostgreSQL 18 on it can be changed in place (expanded.hpp). It is
 * flattened when it is stored.
 */
#ifndef STREAMDEDUP_VALUE_DATUM_HPP
#define STREAMDEDUP_VALUE_DATUM_HPP

#include "value/errors.hpp"

extern "C" {
#include "utils/expandeddatum.h"
}

/* A filter that may be read: its image, and the checked header. */
struct FilterRef
{
	const uint8_t *image;
	dedup::Header header;
};

/* ---- reading -------------------------------------------------------------- */

/*
 * Reads an argument: detoasts it, checks the header, and settles an aggregate's state (in a copy).
 */
extern FilterRef GetFilter(Datum datum);

/*
 * Reads the header of a flat value in memory. Raises XX001 if the header is not valid. Takes O(1).
 */
extern void CheckFlat(const struct varlena *value, dedup::Header *header);

/* Reads a flat value in memory as a filter. */
static inline FilterRef
ReadFlat(const struct varlena *value)
{
	FilterRef filter;

	CheckFlat(value, &filter.header);
	filter.image = (const uint8_t *) VARDATA(value);
	return filter;
}

/*
 * Validates a flat value that was fetched from storage. Raises XX001 if it is corrupt. Takes
 * O(size).
 */
extern void CheckStored(const struct varlena *value, dedup::Header *header);

/*
 * Returns the shape of an argument that is a prototype. A prototype must not be NULL (22004) nor
 * hold keys (22023). `example` is the call that the errors suggest, and `instead` what to do with a
 * filter that holds keys.
 */
extern dedup::Shape GetPrototype(bool isnull, Datum datum, const char *example = "dedup_filter()",
								 const char *instead = "Merge filters with dedup_merge().");

/* ---- making --------------------------------------------------------------- */

/* Allocates a flat value with room for an image of this many bytes. */
extern struct varlena *AllocateFlat(size_t image_bytes);

/* Returns a flat value with a copy of these bytes. */
extern struct varlena *CopyFlat(const uint8_t *image, size_t image_bytes);

/* Returns the empty filter of a shape. */
extern struct varlena *MakeEmptyFilter(const dedup::Shape &shape);

/* Returns the canonical, sealed value of any filter. */
extern struct varlena *MakeCanonical(const FilterRef &filter);

#endif /* STREAMDEDUP_VALUE_DATUM_HPP */
