/*
 * Finds the equality that decides which values of a type are one key, and the hash functions for
 * that equality.
 *
 * Most types are compared as their kind is: an array element by element, a row column by column, an
 * enum by its value. But a type can have an equality of its own. That equality is used wherever the
 * type is contained:
 *   - the equality of a default operator class for btree, or else for hash, that was made
 *     for the type itself. Classes for all arrays, records, enums or ranges do not count,
 *     nor do those of a type that the type is binary coercible to.
 *   - an operator "=" of the type and itself that belongs to no such class, if its owner has
 *     the rights of the type's owner.
 * The server's DISTINCT does the same if the class is one for btree. It compares a composite type
 * that has only a hash class by its columns, because it searches a btree class first and finds the
 * class of all records. It ignores an operator without a class.
 */
#ifndef STREAMDEDUP_PG_EQUALITY_HPP
#define STREAMDEDUP_PG_EQUALITY_HPP

#include "pg/pg.hpp"

/* Means the equality that a type has, its own or that of its kind. */
constexpr Oid DEFAULT_EQUALITY = InvalidOid;

/* Means the equality that all types of the kind have. No operator has this number. */
constexpr Oid EQUALITY_OF_KIND = 1;

/* Each is InvalidOid if there is none. */
struct HashFunctions
{
	Oid standard; /* 32 bits */
	Oid extended; /* 64 bits and a seed */
};

/*
 * Returns the operator of the equality that a type (not a domain) has of its own, or
 * EQUALITY_OF_KIND. Sets the hash functions for the operator.
 */
extern Oid OwnEquality(Oid type, HashFunctions *functions);

/* Finds the hash functions for an equality operator. */
extern HashFunctions HashFunctionsOf(Oid equality);

/* Finds the hash functions of a type that has no equality of its own and belongs to no kind. */
extern HashFunctions DefaultHashFunctions(Oid type);

/*
 * Returns the equality of the bounds of a range type. It is DEFAULT_EQUALITY, unless the range type
 * was made with an operator class that compares bounds by another operator.
 */
extern Oid BoundEquality(Oid range_type, Oid bound_type);

/*
 * Returns the function that decides which values of a type, or domain, are one key. Returns
 * InvalidOid if the type has no equality.
 */
extern Oid KeyEqualityFunction(Oid type);

/* Changes when the results of these functions may have changed. */
extern uint64 equality_version;

/* Must be called before equality_version is read. */
extern void WatchEqualities(void);

#endif /* STREAMDEDUP_PG_EQUALITY_HPP */
