/*
 * Which equality decides that two values are one key, and by which hash function.
 *
 * Most types are compared as their kind is: an array element by element, a row column by
 * column, an enum by its value. A type can have an equality of its own instead, and then
 * that counts, wherever the type is contained:
 *   - that of a default operator class for btree, or else for hash, which was made for the
 *     type itself. The classes for arrays, records, enums and ranges of every type do not
 *     count, nor do those of a type that the type is binary coercible to.
 *   - an operator "=" of the type and itself that belongs to no class, if it was made by
 *     somebody with the rights of the type's owner. No hash function goes with it.
 * The server's DISTINCT is of the same opinion where the class is one for btree. Of a
 * composite type that has only a hash class it goes by the columns, since it looks for a
 * btree class first and finds that of all records; an operator alone it does not know.
 */
#ifndef STREAMDEDUP_PG_EQUALITY_HPP
#define STREAMDEDUP_PG_EQUALITY_HPP

#include "pg/pg.hpp"

/* Any type's equality is asked for like this: whatever it has. */
constexpr Oid DEFAULT_EQUALITY = InvalidOid;

/* The equality that all types of the kind have. No operator has this number. */
constexpr Oid EQUALITY_OF_KIND = 1;

/* InvalidOid: there is none. */
struct HashFunctions
{
	Oid			standard;		/* 32 bits */
	Oid			extended;		/* 64 bits and a seed */
};

/*
 * Returns the operator of the equality that a type (not a domain) has of its own, or
 * EQUALITY_OF_KIND. Fills in the hash functions that go with the operator.
 */
extern Oid	OwnEquality(Oid type, HashFunctions *functions);

/* Finds the hash functions that go with an equality operator. */
extern HashFunctions HashFunctionsOf(Oid equality);

/* The hash functions that go with the default equality of a type that is of no kind. */
extern HashFunctions DefaultHashFunctions(Oid type);

/*
 * Returns the equality of the bounds of a range type: DEFAULT_EQUALITY, unless it was made
 * with an operator class that compares them by another operator.
 */
extern Oid	BoundEquality(Oid range_type, Oid bound_type);

/* Changes when the answers of these functions may have changed. */
extern uint64 equality_version;

/* To be called before equality_version is read. */
extern void WatchEqualities(void);

#endif							/* STREAMDEDUP_PG_EQUALITY_HPP */
