/*
 * Base64: the text form of our types, whose values nobody reads or writes by hand.
 */
#ifndef STREAMDEDUP_PG_BASE64_HPP
#define STREAMDEDUP_PG_BASE64_HPP

#include "pg/pg.hpp"

/*
 * The bytes that a text stands for, as a varlena. What is not base64, or more than
 * `largest` bytes, is 22P02 with a hint: what a user who types such a value wants. A
 * soft error, and NULL, where `escontext` asks for one (16+).
 */
extern struct varlena *DecodeBase64(const char *text, size_t largest, const char *type,
									const char *hint, Node *escontext);

/* The text that stands for a value's bytes. */
extern char *EncodeBase64(const struct varlena *value, const char *type);

#endif /* STREAMDEDUP_PG_BASE64_HPP */
