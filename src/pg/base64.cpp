/*
 * Base64 text of varlenas, by the server's own functions; see base64.hpp.
 */
#include "pg/base64.hpp"

extern "C" {
#include "common/base64.h"
}

/*
 * The lengths of base64 text and of the decoded bytes. The server's own macros overflow an int at
 * the largest filters.
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

/* The number of bytes that are decoded at a time, with a pause after them. A multiple of 3. */
static constexpr size_t PIECE = dedup::kPieceBytes / 4 * 3;

/* Calls the server's pg_b64_decode() in pieces. Only the last piece may have padding. */
static int
DecodePieces(const char *text, size_t length, uint8_t *to, size_t room)
{
	size_t size = 0;

	for (size_t at = 0; at < length; at += EncodedLength(PIECE))
	{
		size_t n = Min(length - at, EncodedLength(PIECE));
		int decoded = pg_b64_decode(text + at, (int) n, (Base64Byte *) (to + size),
									(int) Min(room - size, DecodedRoom(n)));

		if (decoded < 0 || (at + n < length && (size_t) decoded != PIECE))
			return -1;
		size += (size_t) decoded;
		CHECK_FOR_INTERRUPTS();
	}
	return (int) size;
}

struct varlena *
DecodeBase64(const char *text, size_t largest, const char *type, const char *hint, Node *escontext)
{
	size_t length = strlen(text);
	struct varlena *value = NULL;
	int size = -1;

	if (length <= EncodedLength(largest))
	{
		size_t room = DecodedRoom(length);

		value = (struct varlena *) palloc(VARHDRSZ + room);
		size = DecodePieces(text, length, (uint8_t *) VARDATA(value), room);
	}
	if (size < 0)
		SOFT_RETURN(escontext, NULL,
					(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
					 errmsg("invalid input syntax for type %s", type),
					 errdetail("The text form of a %s is base64.", type), errhint("%s", hint)));
	SET_VARSIZE(value, VARHDRSZ + size);
	return value;
}

char *
EncodeBase64(const struct varlena *value, const char *type)
{
	size_t size = VARSIZE_ANY_EXHDR(value);
	size_t room = EncodedLength(size);
	char *text = (char *) palloc(room + 1);
	const char *bytes = VARDATA_ANY(value);
	size_t length = 0;

	for (size_t at = 0; at < size; at += PIECE)
	{
		int encoded = pg_b64_encode((const Base64Byte *) (bytes + at), (int) Min(size - at, PIECE),
									text + length, (int) (room - length));

		if (encoded < 0)
			elog(ERROR, "could not encode a %s of %zu bytes", type, size);
		length += (size_t) encoded;
		CHECK_FOR_INTERRUPTS();
	}
	text[length] = '\0';
	return text;
}
