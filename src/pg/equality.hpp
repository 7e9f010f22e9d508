/*
 * Finds the equality that decides which values of a type are one key, and the hash functions
 * that go with it.
 *
 * Most types are compared as their kind is: an array element by element, a row column by
 * column, an enum by its value. A type can have an equality of its own instead. Then that
 * equality counts, wherever the type is contained:
 *   - the equality of a default operator class for btree, or else for hash, that was made
 *     for the type itself. The classes for arrays, records, enums and ranges of every type
 *     do not count, nor do those of a type that the type is binary coercible to.
 *   - an operator "=" of the type and itself that belongs to no such class, if its owner has
 *     the rights of the type's owner.
 * The server's DISTINCT agrees where the class is one for btree. It compares a composite
 * type that has only a hash class by its columns, since it looks for a btree class first and
 * finds the class of all records. It ignores an operator without a class.
 */
#ifndef STREAMDEDUP_PG_EQUALITY_HPP
#define STREAMDEDUP_PG_EQUALITY_HPP

#include "pg/pg.hpp"

/* Stands for the equality that a type has, its own or that of its kind. */
constexpr Oid DEFAULT_EQUALITY = InvalidOid;

/* Stands for the equality that all types of the kind have. No operator has this number. */
constexpr Oid EQUALITY_OF_KIND = 1;

/* InvalidOid if there is none. */
struct HashFunctions
{
	Oid standard; /* 32 bits */
	Oid extended; /* 64 bits and a seed */
};

/*
 * Returns the operator of the equality that a type (not a domain) has of its own, or
 * EQUALITY_OF_KIND. Fills in the hash functions that go with the operator.
 */
extern Oid OwnEquality(Oid type, HashFunctions *functions);

/* Finds the hash functions that go with an equality operator. */
extern HashFunctions HashFunctionsOf(Oid equality);

/* Finds the hash functions of a type that has no equality of its own and is of no kind. */
extern HashFunctions DefaultHashFunctions(Oid type);

/*
 * Returns the equality of the bounds of a range type: DEFAULT_EQUALITY, unless it was made
 * with an operator class that compares them by another operator.
 */
extern Oid BoundEquality(Oid range_type, Oid bound_type);

/*
 * Returns the function that decides which values of a type, or domain, are one key; InvalidOid
 * if the type has no equality.
 */
extern Oid KeyEqualityFunction(Oid type);

/* Changes when the answers of these functions may have changed. */
extern uint64 equality_version;

/* Must be called before equality_version is read. */
extern void WatchEqualities(void);

#endif /* STREAMDEDUP_PG_EQUALITY_HPP */
