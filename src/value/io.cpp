/*
 * Input and output of dedup_filter. The text form is base64 of the canonical image. The binary
 * form, and the cast to and from bytea, is the image itself. All input is validated before it is
 * used.
 */
#include "value/datum.hpp"
#include "pg/base64.hpp"

extern "C" {
#include "libpq/pqformat.h"
}

using dedup::Flaw;
using dedup::Header;

/*
 * Returns a value of these bytes if they are a valid filter. Else raises an error with this
 * SQLSTATE.
 */
static struct varlena *
FromBytes(struct varlena *value, int sqlstate, Node *escontext)
{
	const uint8_t *image = (const uint8_t *) VARDATA(value);
	size_t size = VARSIZE(value) - VARHDRSZ;
	Header header;
	Flaw flaw = dedup::Validate(image, size, &header);

	if (flaw == Flaw::kNone)
		return value;
	ReportFlaw(flaw, sqlstate, image, size, escontext);
	return NULL;
}

/*
 * Returns a flat value to be written out. A canonical value is written unchanged, so that damage is
 * noticed when it is read back. A working value is finished first.
 */
static struct varlena *
ToBytes(Datum datum)
{
	FilterRef filter = GetFilter(datum);

	if (filter.header.canonical() && filter.header.checksum != 0)
		return (struct varlena *) (filter.image - VARHDRSZ);
	return MakeCanonical(filter);
}

/*
 * dedup_filter_in(cstring) returns dedup_filter
 */
DEDUP_FUNCTION(dedup_filter_in)
{
	struct varlena *value =
		DecodeBase64(PG_GETARG_CSTRING(0), dedup::kMaxBodyBytes + dedup::kHeaderBytes,
					 "dedup_filter",
					 "Make filters with dedup_filter(), dedup_window(), dedup_method() or "
					 "dedup_agg(); write dedup_filter(1000), not dedup_filter('1000').",
					 fcinfo->context);

	if (value != NULL)
		value = FromBytes(value, ERRCODE_INVALID_TEXT_REPRESENTATION, fcinfo->context);
	if (value == NULL)
		PG_RETURN_NULL();
	PG_RETURN_POINTER(value);
}

/*
 * dedup_filter_out(dedup_filter) returns cstring
 */
DEDUP_FUNCTION(dedup_filter_out)
{
	PG_RETURN_CSTRING(EncodeBase64(ToBytes(PG_GETARG_DATUM(0)), "dedup_filter"));
}

/*
 * dedup_filter_recv(internal) returns dedup_filter
 */
DEDUP_FUNCTION(dedup_filter_recv)
{
	StringInfo message = (StringInfo) PG_GETARG_POINTER(0);
	int size = message->len - message->cursor;
	struct varlena *value =
		CopyFlat((const uint8_t *) pq_getmsgbytes(message, size), (size_t) size);

	PG_RETURN_POINTER(FromBytes(value, ERRCODE_INVALID_BINARY_REPRESENTATION, NULL));
}

/*
 * dedup_filter_send(dedup_filter) returns bytea
 */
DEDUP_FUNCTION(dedup_filter_send)
{
	struct varlena *bytes = ToBytes(PG_GETARG_DATUM(0));

	/* This is always a copy, because array_send() frees its argument. */
	PG_RETURN_POINTER(CopyFlat((const uint8_t *) VARDATA(bytes), VARSIZE(bytes) - VARHDRSZ));
}

/*
 * dedup_filter_from_bytea(bytea) returns dedup_filter: the cast
 */
DEDUP_FUNCTION(dedup_filter_from_bytea)
{
	PG_RETURN_POINTER(FromBytes(PG_DETOAST_DATUM(PG_GETARG_DATUM(0)),
								ERRCODE_INVALID_BINARY_REPRESENTATION, NULL));
}

/*
 * dedup_filter_to_bytea(dedup_filter) returns bytea: the cast
 */
DEDUP_FUNCTION(dedup_filter_to_bytea)
{
	PG_RETURN_POINTER(ToBytes(PG_GETARG_DATUM(0)));
}
