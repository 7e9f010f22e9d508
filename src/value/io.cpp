/*
 * Input and output of dedup_filter: text is base64 of the canonical image, binary
 * the image itself, and so is the cast to and from bytea. Everything that comes in
 * is validated before it is used.
 */
#include "value/datum.hpp"

extern "C" {
#include "common/base64.h"
#include "libpq/pqformat.h"
}

using dedup::Flaw;
using dedup::Header;

/* pg_b64_*() take unsigned bytes from PostgreSQL 18 on. */
#if PG_VERSION_NUM >= 180000
using base64_bytes = uint8;
#else
using base64_bytes = char;
#endif

/*
 * Lengths of base64 text and of what it decodes to. The server's own macros
 * overflow an int at the largest filters.
 */
static constexpr size_t
EncodedLength(size_t size)
{
	return (size + 2) / 3 * 4;
}

static constexpr size_t
DecodedRoom(size_t length)
{
	return length / 4 * 3 + 3;
}

static constexpr size_t LARGEST_TEXT =
	EncodedLength(dedup::kMaxBodyBytes + dedup::kHeaderBytes);

/* A value of these bytes if they are a filter; else an error of this SQLSTATE. */
static struct varlena *
FromBytes(struct varlena *value, int sqlstate, Node *escontext)
{
	const uint8_t *image = (const uint8_t *) VARDATA(value);
	size_t		size = VARSIZE(value) - VARHDRSZ;
	Header		header;
	Flaw		flaw = dedup::Validate(image, size, &header);

	if (flaw == Flaw::kNone)
		return value;
	ReportFlaw(flaw, sqlstate, image, size, escontext);
	return NULL;
}

/*
 * A flat value to write out. A canonical one is written as it is, so that damage
 * stays visible to whoever reads it back; unfinished ones are finished.
 */
static struct varlena *
ToBytes(Datum datum)
{
	FilterRef	filter = GetFilter(datum);

	if (filter.header.canonical() && filter.header.checksum != 0)
		return (struct varlena *) (filter.image - VARHDRSZ);
	return MakeCanonical(filter);
}

/*
 * dedup_filter_in(cstring) returns dedup_filter
 */
DEDUP_FUNCTION(dedup_filter_in)
{
	char	   *text = PG_GETARG_CSTRING(0);
	size_t		length = strlen(text);
	struct varlena *value = NULL;
	int			size = -1;

	if (length <= LARGEST_TEXT)
	{
		size_t		room = DecodedRoom(length);

		value = AllocateFlat(room);
		size = pg_b64_decode(text, (int) length, (base64_bytes *) VARDATA(value), (int) room);
	}
	if (size < 0)
#if PG_VERSION_NUM >= 160000
		ereturn(fcinfo->context, (Datum) 0,
#else
		ereport(ERROR,
#endif
				(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
				 errmsg("invalid input syntax for type %s", "dedup_filter"),
				 errdetail("The text form of a dedup_filter is base64."),
				 errhint("Make filters with dedup_filter(), dedup_window(), dedup_method() or dedup_agg(); write dedup_filter(1000), not dedup_filter('1000').")));
	SET_VARSIZE(value, VARHDRSZ + size);
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
	struct varlena *value = ToBytes(PG_GETARG_DATUM(0));
	size_t		size = VARSIZE(value) - VARHDRSZ;
	size_t		room = EncodedLength(size);
	char	   *text = (char *) palloc(room + 1);
	int			length = pg_b64_encode((const base64_bytes *) VARDATA(value), (int) size, text,
									   (int) room);

	if (length < 0)
		elog(ERROR, "could not encode a dedup_filter of %zu bytes", size);
	text[length] = '\0';
	PG_RETURN_CSTRING(text);
}

/*
 * dedup_filter_recv(internal) returns dedup_filter
 */
DEDUP_FUNCTION(dedup_filter_recv)
{
	StringInfo	message = (StringInfo) PG_GETARG_POINTER(0);
	int			size = message->len - message->cursor;
	struct varlena *value = AllocateFlat((size_t) size);

	memcpy(VARDATA(value), pq_getmsgbytes(message, size), (size_t) size);
	PG_RETURN_POINTER(FromBytes(value, ERRCODE_INVALID_BINARY_REPRESENTATION, NULL));
}

/*
 * dedup_filter_send(dedup_filter) returns bytea
 */
DEDUP_FUNCTION(dedup_filter_send)
{
	struct varlena *bytes = ToBytes(PG_GETARG_DATUM(0));
	struct varlena *copy = AllocateFlat(VARSIZE(bytes) - VARHDRSZ);

	/* Always a copy: array_send() frees what it is given. */
	memcpy(VARDATA(copy), VARDATA(bytes), VARSIZE(bytes) - VARHDRSZ);
	PG_RETURN_POINTER(copy);
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
