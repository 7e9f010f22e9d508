/* Makes, checks and reads flat filters. */
#include "value/datum.hpp"

#include "value/expanded.hpp"
#include "value/sound.hpp"

using dedup::Flaw;
using dedup::Header;

/* ---- reading -------------------------------------------------------------- */

/* Raises an error (XX001) if the check, dedup::Check or dedup::Validate, finds a flaw. */
template <typename Checker>
static inline void
Require(Checker check, const struct varlena *value, Header *header)
{
	const uint8_t *image = (const uint8_t *) VARDATA(value);
	size_t size = VARSIZE(value) - VARHDRSZ;
	Flaw flaw = check(image, size, header);

	if (unlikely(flaw != Flaw::kNone))
		ReportFlaw(flaw, ERRCODE_DATA_CORRUPTED, image, size, NULL);
}

void
CheckFlat(const struct varlena *value, Header *header)
{
	Require(dedup::Check, value, header);
}

void
CheckStored(const struct varlena *value, Header *header)
{
	Require(dedup::Validate, value, header);
}

FilterRef
GetFilter(Datum datum)
{
	struct varlena *value = ValueOfExpanded(datum);
	FilterRef filter;

	if (value != NULL)
		CheckFlat(value, &filter.header);
	else
	{
		bool stored = VARATT_IS_EXTERNAL_ONDISK(DatumGetPointer(datum));

		value = PG_DETOAST_DATUM(datum);
		if (stored)
			CheckStored(value, &filter.header);
		else
			CheckFlat(value, &filter.header);
	}
	filter.image = (const uint8_t *) VARDATA(value);
	if (unlikely(filter.header.deferred() > 0))
	{
		struct varlena *copy = CopyFlat(filter.image, VARSIZE(value) - VARHDRSZ);

		if (!dedup::Settle((uint8_t *) VARDATA(copy), &filter.header))
			ReportFull(filter.header);
		AssertAgrees(copy, filter.header);
		filter.image = (const uint8_t *) VARDATA(copy);
	}
	return filter;
}

dedup::Shape
GetPrototype(bool isnull, Datum datum, const char *example, const char *instead)
{
	FilterRef filter;

	if (isnull)
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
						errmsg("prototype filter must not be null"),
						errhint("Give an empty filter, such as %s.", example)));
	filter = GetFilter(datum);
	if (!filter.header.exact() || filter.header.hashes() > 0)
	{
		const double count = dedup::Read(filter.image, filter.header).count;

		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("prototype filter must be empty"),
				 count < 0.5 ? errdetail("It holds no key, but has the form of a filter that holds "
										 "keys, as a snapshot of a live filter has.")
							 : errdetail("It holds about %.0f keys.", count),
				 errhint("Give an empty filter, such as %s. %s", example, instead)));
	}
	return filter.header.shape;
}

/* ---- making --------------------------------------------------------------- */

struct varlena *
AllocateFlat(size_t image_bytes)
{
	struct varlena *value = (struct varlena *) palloc(VARHDRSZ + image_bytes);

	SET_VARSIZE(value, VARHDRSZ + image_bytes);
	return value;
}

struct varlena *
CopyFlat(const uint8_t *image, size_t image_bytes)
{
	struct varlena *value = AllocateFlat(image_bytes);

	dedup::CopyInPieces((uint8_t *) VARDATA(value), image, image_bytes);
	return value;
}

struct varlena *
MakeEmptyFilter(const dedup::Shape &shape)
{
	struct varlena *value = AllocateFlat(dedup::kHeaderBytes);

	dedup::WriteEmpty(shape, (uint8_t *) VARDATA(value));
	AssertCanonical(value);
	return value;
}

struct varlena *
MakeCanonical(const FilterRef &filter)
{
	struct varlena *value = AllocateFlat(dedup::CanonicalBytes(filter.header));

	dedup::WriteCanonical(filter.image, filter.header, (uint8_t *) VARDATA(value));
	AssertCanonical(value);
	return value;
}
