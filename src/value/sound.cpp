/*
 * Assertions about filters.
 */
#include "value/sound.hpp"

#ifdef USE_ASSERT_CHECKING

using dedup::Flaw;
using dedup::Form;
using dedup::Header;

static const uint8_t *
ImageOf(const struct varlena *value)
{
	return (const uint8_t *) VARDATA(value);
}

static size_t
ImageBytes(const struct varlena *value)
{
	return VARSIZE(value) - VARHDRSZ;
}

/* Compares all but the checksums, because that of a canonical image is set last. */
static bool
SameHeader(const Header &left, const Header &right)
{
	return left.method == right.method && left.shape == right.shape && left.form == right.form &&
		   left.counters.count == right.counters.count &&
		   left.counters.state == right.counters.state && left.deferred() == right.deferred() &&
		   left.parts() == right.parts() && (left.exact() || left.body_at() == right.body_at());
}

void
AssertAgrees(const struct varlena *value, const Header &header)
{
	Header read;

	Assert(dedup::Check(ImageOf(value), ImageBytes(value), &read) == Flaw::kNone);
	Assert(SameHeader(read, header));
}

/* Returns whether the index finds each hash, and the links pass through all of them. */
static bool
IndexHolds(const uint8_t *image, const Header &header)
{
	const dedup::WorkingExact exact(const_cast<uint8_t *>(image), header);
	uint64 linked = 0;

	for (uint64 place = 0; place < exact.n(); place++)
		if (exact.Find(exact.at(place)) == dedup::kNowhere)
			return false;
	exact.ForEach([&](uint64, uint64) { linked++; });
	return linked == exact.n();
}

void
AssertSound(const struct varlena *value, const Header &header)
{
	const uint8_t *image = ImageOf(value);

	AssertAgrees(value, header);
	if (header.form == Form::kWorkingExact)
		Assert(IndexHolds(image, header));
	else if (!header.exact() && header.method->sound != NULL)
		Assert(header.method->sound(header.shape, header.counters, image + header.body_at()));
}

void
AssertCanonical(const struct varlena *value)
{
	Header header;

	Assert(dedup::Validate(ImageOf(value), ImageBytes(value), &header) == Flaw::kNone);
}

void
AssertUnsealed(const struct varlena *value)
{
	struct varlena *copy = CopyFlat(ImageOf(value), ImageBytes(value));

	dedup::Seal((uint8_t *) VARDATA(copy), ImageBytes(copy));
	AssertCanonical(copy);
	pfree(copy);
}

#endif /* USE_ASSERT_CHECKING */
