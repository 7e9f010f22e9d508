/*
 * Finds rows with equal keys among the rows of tables (twins.cpp).
 *
 * Equal keys have equal hashes, but different keys can have equal hashes, too. So the hashes
 * determine which rows are read, and the equality of the columns decides.
 */
#ifndef STREAMDEDUP_GUARD_TWINS_HPP
#define STREAMDEDUP_GUARD_TWINS_HPP

#include "guard/table_keys.hpp"

/*
 * Hashes, each once. After they are indexed, they are in ascending order, with a directory by their
 * first bits.
 */
struct HashList
{
	uint64 *hashes;
	int64 count;
	int64 room;
	uint32 *directory; /* made by IndexHashes() */
	int shift;
};

extern HashList MakeHashList(int64 room);
extern void AppendHash(HashList *list, uint64 hash);
extern void EmptyHashList(HashList *list);

/* Must be called when all hashes are in the list, before FindHash(). */
extern void IndexHashes(HashList *list);

/* Returns the place of a hash in the list, or -1. */
static inline int64
FindHash(const HashList &list, uint64 hash)
{
	const uint64 bucket = hash >> list.shift;

	for (int64 i = list.directory[bucket]; i < list.directory[bucket + 1]; i++)
		if (list.hashes[i] == hash)
			return i;
	return -1;
}

/* The tables in which rows with equal keys are an error. */
struct TwinSearch
{
	const TableKeys *keys;
	Relation table;     /* named by the error */
	const char *filter; /* named by the error */
	GuardClause clause; /* of `table` */
	int64 ttl;          /* rows whose times are at least this far apart do not count; 0: no times */
	TimestampTz now;    /* the time of rows without one */
	const List *tables; /* each row of these tables is compared with the others, */
	const List *others; /* and with the rows of these tables, which can be deleted meanwhile */
};

/* Raises 23505 if two of the rows with one of these hashes have equal keys. */
extern void CheckNoTwins(const TwinSearch &search, HashList *hashes);

#endif /* STREAMDEDUP_GUARD_TWINS_HPP */
