/*
 * Equality, order and hash of dedup_filter values. They are those of the canonical bytes, which the
 * cast to bytea shows.
 *
 * The first 60 bytes hold a checksum of all bytes. So filters that differ already differ there,
 * except for one pair in 2^64. To compare a filter that is stored out of line with a different one,
 * or to hash it, no more bytes are read.
 *
 * A sort calls the comparison in one memory context for a whole query, so it must not leave memory
 * allocated.
 */
#include "value/datum.hpp"

extern "C" {
#include "access/detoast.h"
#include "common/hashfn.h"
}

using dedup::kHeaderBytes;

namespace
{

/* Canonical bytes with their checksum: all of them, or only the first kHeaderBytes. */
struct Bytes
{
	const uint8_t *bytes;
	size_t size; /* size of all bytes */
};

} /* namespace */

static bool
IsFinished(const dedup::Header &header)
{
	return header.canonical() && header.checksum != 0;
}

/* Finds the bytes of a value that is in memory in its stored form. Allocates nothing. */
static bool
GetPlain(Datum datum, Bytes *plain)
{
	struct varlena *value = (struct varlena *) DatumGetPointer(datum);
	dedup::Header header;

	if (VARATT_IS_EXTERNAL(value) || VARATT_IS_COMPRESSED(value))
		return false;
	plain->bytes = (const uint8_t *) VARDATA_ANY(value);
	plain->size = VARSIZE_ANY_EXHDR(value);
	return dedup::Check(plain->bytes, plain->size, &header) == dedup::Flaw::kNone &&
		   IsFinished(header);
}

/* Returns the bytes of any value. Allocates. */
static Bytes
GetBytes(Datum datum)
{
	FilterRef filter = GetFilter(datum);
	struct varlena *canonical;

	if (IsFinished(filter.header))
		return {filter.image, dedup::CanonicalBytes(filter.header)};
	canonical = MakeCanonical(filter);
	return {(const uint8_t *) VARDATA(canonical), VARSIZE(canonical) - VARHDRSZ};
}

/* Returns at least the first bytes of any value. Allocates. */
static Bytes
GetHead(Datum datum)
{
	if (VARATT_IS_EXTERNAL_ONDISK(DatumGetPointer(datum)))
	{
		struct varlena *slice = PG_DETOAST_DATUM_SLICE(datum, 0, kHeaderBytes);
		Bytes head = {(const uint8_t *) VARDATA_ANY(slice), toast_raw_datum_size(datum) - VARHDRSZ};
		dedup::Header header;

		if (VARSIZE_ANY_EXHDR(slice) == kHeaderBytes &&
			dedup::Check(head.bytes, head.size, &header) == dedup::Flaw::kNone &&
			IsFinished(header))
			return head;
	}
	return GetBytes(datum);
}

static MemoryContext
MakeScratch(void)
{
	return AllocSetContextCreateInternal(CurrentMemoryContext, "dedup_filter comparison",
										 ALLOCSET_SMALL_SIZES);
}

static int
CompareBytes(const Bytes &left, const Bytes &right, size_t from)
{
	size_t common = Min(left.size, right.size);
	int order = memcmp(left.bytes + from, right.bytes + from, common - from);

	if (order != 0)
		return order;
	return left.size < right.size ? -1 : left.size > right.size;
}

static int
CompareFilters(FunctionCallInfo fcinfo)
{
	Datum left = PG_GETARG_DATUM(0);
	Datum right = PG_GETARG_DATUM(1);
	Bytes left_bytes;
	Bytes right_bytes;
	MemoryContext scratch;
	MemoryContext old;
	int order;

	if (GetPlain(left, &left_bytes) && GetPlain(right, &right_bytes))
		return CompareBytes(left_bytes, right_bytes, 0);

	scratch = MakeScratch();
	old = MemoryContextSwitchTo(scratch);
	order = memcmp(GetHead(left).bytes, GetHead(right).bytes, kHeaderBytes);
	if (order == 0)
		order = CompareBytes(GetBytes(left), GetBytes(right), kHeaderBytes);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(scratch);
	return order;
}

/* dedup_filter_eq(dedup_filter, dedup_filter) returns boolean, and the other comparisons */
DEDUP_FUNCTION(dedup_filter_eq)
{
	PG_RETURN_BOOL(CompareFilters(fcinfo) == 0);
}

DEDUP_FUNCTION(dedup_filter_ne)
{
	PG_RETURN_BOOL(CompareFilters(fcinfo) != 0);
}

DEDUP_FUNCTION(dedup_filter_lt)
{
	PG_RETURN_BOOL(CompareFilters(fcinfo) < 0);
}

DEDUP_FUNCTION(dedup_filter_le)
{
	PG_RETURN_BOOL(CompareFilters(fcinfo) <= 0);
}

DEDUP_FUNCTION(dedup_filter_gt)
{
	PG_RETURN_BOOL(CompareFilters(fcinfo) > 0);
}

DEDUP_FUNCTION(dedup_filter_ge)
{
	PG_RETURN_BOOL(CompareFilters(fcinfo) >= 0);
}

/*
 * dedup_filter_cmp(dedup_filter, dedup_filter) returns integer
 */
DEDUP_FUNCTION(dedup_filter_cmp)
{
	int order = CompareFilters(fcinfo);

	PG_RETURN_INT32(order < 0 ? -1 : order > 0);
}

/* Copies the first bytes of a value. */
static void
CopyHead(Datum datum, uint8_t *head)
{
	Bytes plain;
	MemoryContext scratch;
	MemoryContext old;

	if (GetPlain(datum, &plain))
	{
		memcpy(head, plain.bytes, kHeaderBytes);
		return;
	}
	scratch = MakeScratch();
	old = MemoryContextSwitchTo(scratch);
	memcpy(head, GetHead(datum).bytes, kHeaderBytes);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(scratch);
}

/*
 * dedup_filter_hash(dedup_filter) returns integer
 */
DEDUP_FUNCTION(dedup_filter_hash)
{
	uint8_t head[kHeaderBytes];

	CopyHead(PG_GETARG_DATUM(0), head);
	PG_RETURN_DATUM(hash_any(head, (int) kHeaderBytes));
}

/*
 * dedup_filter_hash_extended(dedup_filter, seed bigint) returns bigint
 */
DEDUP_FUNCTION(dedup_filter_hash_extended)
{
	uint8_t head[kHeaderBytes];

	CopyHead(PG_GETARG_DATUM(0), head);
	PG_RETURN_DATUM(hash_any_extended(head, (int) kHeaderBytes, (uint64) PG_GETARG_INT64(1)));
}

/* ---- filters as keys -------------------------------------------------------- */

void
RefuseFilterAsKey(const KeyPlan *plan)
{
	if (!IsHashedBy(plan, dedup_filter_hash_extended))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_DATATYPE_MISMATCH), errmsg("a filter cannot be a key by itself"),
			 errhint("Merge filters with dedup_merge() or dedup_merge_agg(). To use the bytes of a "
					 "filter as a key, cast it to bytea.")));
}
