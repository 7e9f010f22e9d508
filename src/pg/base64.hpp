/* Base64: the text form of our types, whose values people neither read nor write by hand. */
#ifndef STREAMDEDUP_PG_BASE64_HPP
#define STREAMDEDUP_PG_BASE64_HPP

#include "pg/pg.hpp"

/*
 * Returns the bytes of a base64 text as a varlena. Raises 22P02 with a hint if the text is not
 * base64, or has more than `largest` bytes. The hint is for users who type such a value. If
 * `escontext` requests it (PostgreSQL 16 and later), the error is soft and the result is NULL.
 */
extern struct varlena *DecodeBase64(const char *text, size_t largest, const char *type,
									const char *hint, Node *escontext);

/* Returns the base64 text of a value's bytes. */
extern char *EncodeBase64(const struct varlena *value, const char *type);

#endif /* STREAMDEDUP_PG_BASE64_HPP */
