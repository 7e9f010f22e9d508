/*
 * What must hold of a filter that we have just made or changed. Only servers that are
 * built with assertions look.
 *
 * These are for our own images, never for bytes from outside: those are checked in
 * every server, and what is wrong with them is an error.
 */
#ifndef STREAMDEDUP_VALUE_SOUND_HPP
#define STREAMDEDUP_VALUE_SOUND_HPP

#include "value/datum.hpp"

#ifdef USE_ASSERT_CHECKING

/* After every key: the header in hand is the one in the image. O(1). */
extern void AssertAgrees(const struct varlena *value, const dedup::Header &header);

/* After an image was made or merged: so it is, and the index or body holds together. O(size). */
extern void AssertSound(const struct varlena *value, const dedup::Header &header);

/* After a value was finished: it would be accepted from outside. O(size). */
extern void AssertCanonical(const struct varlena *value);

/* The same of one whose checksum is yet to be computed. */
extern void AssertUnsealed(const struct varlena *value);

#else

static inline void
AssertAgrees(const struct varlena *value, const dedup::Header &header)
{
}

static inline void
AssertSound(const struct varlena *value, const dedup::Header &header)
{
}

static inline void
AssertCanonical(const struct varlena *value)
{
}

static inline void
AssertUnsealed(const struct varlena *value)
{
}

#endif

#endif /* STREAMDEDUP_VALUE_SOUND_HPP */
