/*
 * dedup_filter values: how an image (core/image.hpp) travels as a Datum.
 *
 * Flat: a varlena whose data is the image. Canonical images are what is stored; a
 * checksum of 0 in one says that it was not computed yet, and flattening or output
 * computes it. Working images are aggregate states, and partial states on their
 * way from a worker (fill.hpp).
 *
 * Expanded: an image in a memory context of its own, so that PL/pgSQL takes the
 * result of dedup_add() over without a copy, and from PostgreSQL 18 on lets it be
 * changed in place (expanded.hpp). Flattened wherever it is stored.
 */
#ifndef STREAMDEDUP_VALUE_DATUM_HPP
#define STREAMDEDUP_VALUE_DATUM_HPP

#include "value/errors.hpp"

extern "C" {
#include "utils/expandeddatum.h"
}

/* A filter that may be read: an image whose header was checked. */
struct FilterRef
{
	const uint8_t *image;
	dedup::Header header;
};

/* ---- reading -------------------------------------------------------------- */

/*
 * Reads an argument: detoasts, checks the header, and settles an aggregate's state
 * (in a copy).
 */
extern FilterRef GetFilter(Datum datum);

/* Reads the header of a flat value in memory; XX001 if it has none. O(1). */
extern void CheckFlat(const struct varlena *value, dedup::Header *header);

/* A flat value in memory as a filter that may be read. */
static inline FilterRef
ReadFlat(const struct varlena *value)
{
	FilterRef filter;

	CheckFlat(value, &filter.header);
	filter.image = (const uint8_t *) VARDATA(value);
	return filter;
}

/* Validates a flat value that was fetched from storage; XX001 if it is corrupt. O(size). */
extern void CheckStored(const struct varlena *value, dedup::Header *header);

/*
 * The shape of an argument that is a prototype: a filter that must not be NULL
 * (22004) nor hold keys (22023). `example` is the call that the errors suggest.
 */
extern dedup::Shape GetPrototype(bool isnull, Datum datum, const char *example = "dedup_filter()");

/* ---- making --------------------------------------------------------------- */

/* A flat value with room for an image of so many bytes. */
extern struct varlena *AllocateFlat(size_t image_bytes);

/* A flat value with a copy of these bytes. */
extern struct varlena *CopyFlat(const uint8_t *image, size_t image_bytes);

/* The empty filter of a shape. */
extern struct varlena *MakeEmptyFilter(const dedup::Shape &shape);

/* The canonical, sealed value of any filter. */
extern struct varlena *MakeCanonical(const FilterRef &filter);

#endif /* STREAMDEDUP_VALUE_DATUM_HPP */
