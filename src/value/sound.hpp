/*
 * Assertions about filters that we have just made or changed. Only servers that are built with
 * assertions check them.
 *
 * These are for our own images, never for bytes from outside. Bytes from outside are checked in
 * every server, and a flaw in them is an error.
 */
#ifndef STREAMDEDUP_VALUE_SOUND_HPP
#define STREAMDEDUP_VALUE_SOUND_HPP

#include "value/datum.hpp"

#ifdef USE_ASSERT_CHECKING

/* After every key: asserts that the header in memory is the one in the image. Takes O(1). */
extern void AssertAgrees(const struct varlena *value, const dedup::Header &header);

/*
 * After an image was made or merged: asserts the same, and that the index or the body is
 * consistent. Takes O(size).
 */
extern void AssertSound(const struct varlena *value, const dedup::Header &header);

/*
 * After a value was finished: asserts that the value would be accepted from outside. Takes O(size).
 */
extern void AssertCanonical(const struct varlena *value);

/* Does the same for a value whose checksum is not computed yet. */
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
