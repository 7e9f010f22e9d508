/*
 * Base64 text of varlenas, by the server's own functions; see base64.hpp.
 */
#include "pg/base64.hpp"

extern "C" {
#include "common/base64.h"
}

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

struct varlena *
DecodeBase64(const char *text, size_t largest, const char *type, const char *hint,
			 Node *escontext)
{
	size_t		length = strlen(text);
	struct varlena *value = NULL;
	int			size = -1;

	if (length <= EncodedLength(largest))
	{
		size_t		room = DecodedRoom(length);

		value = (struct varlena *) palloc(VARHDRSZ + room);
		size = pg_b64_decode(text, (int) length, (base64_bytes *) VARDATA(value), (int) room);
	}
	if (size < 0)
#if PG_VERSION_NUM >= 160000
		ereturn(escontext, NULL,
#else
		ereport(ERROR,
#endif
				(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
				 errmsg("invalid input syntax for type %s", type),
				 errdetail("The text form of a %s is base64.", type),
				 errhint("%s", hint)));
	SET_VARSIZE(value, VARHDRSZ + size);
	return value;
}

char *
EncodeBase64(const struct varlena *value, const char *type)
{
	size_t		size = VARSIZE_ANY_EXHDR(value);
	size_t		room = EncodedLength(size);
	char	   *text = (char *) palloc(room + 1);
	int			length = pg_b64_encode((const base64_bytes *) VARDATA_ANY(value), (int) size, text,
									   (int) room);

	if (length < 0)
		elog(ERROR, "could not encode a %s of %zu bytes", type, size);
	text[length] = '\0';
	return text;
}
