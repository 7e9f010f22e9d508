/*
 * Sorts the hashes of many keys with the server's tuplesort, in a limited amount of memory.
 *
 * A hash can carry an age: the number of its row's partition, or the time of its row. Equal hashes
 * come in the order of their ages. Hashes without ages are sorted as int8, the fastest sort. Hashes
 * with ages are sorted as uuid, which the server compares first by 8 bytes: the hash.
 */
#ifndef STREAMDEDUP_GUARD_HASH_SORT_HPP
#define STREAMDEDUP_GUARD_HASH_SORT_HPP

extern "C" {
#include "postgres.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_type.h"
#include "port/pg_bswap.h"
#include "utils/tuplesort.h"
#include "utils/typcache.h"
#include "utils/uuid.h"
}

struct HashSort
{
	Tuplesortstate *state;
	bool aged;
};

/* The server sorts signed integers: this keeps the order of hashes. */
static inline int64
SortableHash(uint64 hash)
{
	return (int64) (hash ^ UINT64CONST(1) << 63);
}

/* Starts a sort that takes at most `memory` kB. */
static inline HashSort
StartHashSort(bool aged, int memory)
{
	const Oid type = aged ? UUIDOID : INT8OID;
	const Oid less = lookup_type_cache(type, TYPECACHE_LT_OPR)->lt_opr;

	return {tuplesort_begin_datum(type, less, InvalidOid, false, memory, NULL, TUPLESORT_NONE),
			aged};
}

/* Does the same for times. */
static inline uint64
SortableTime(int64 at)
{
	return (uint64) at ^ UINT64CONST(1) << 63;
}
static inline int64
TimeOf(uint64 sortable)
{
	return (int64) (sortable ^ UINT64CONST(1) << 63);
}

/* Adds a hash. The age is ignored in a sort without ages. */
static inline void
PutHash(const HashSort &sort, uint64 hash, uint64 age)
{
	if (sort.aged)
	{
		const uint64 parts[] = {pg_hton64(hash), pg_hton64(age)};
		pg_uuid_t value;

		memcpy(value.data, parts, UUID_LEN);
		tuplesort_putdatum(sort.state, PointerGetDatum(&value), false);
	}
	else
		tuplesort_putdatum(sort.state, Int64GetDatum(SortableHash(hash)), false);
}

/* Gets the next hash. Returns false after the last one. */
static inline bool
NextHash(const HashSort &sort, uint64 *hash, uint64 *age)
{
	Datum value;
	bool isnull;

	if (!TUPLESORT_GETDATUM(sort.state, &value, &isnull))
		return false;
	if (sort.aged)
	{
		uint64 parts[2];

		memcpy(parts, DatumGetUUIDP(value)->data, UUID_LEN);
		*hash = pg_ntoh64(parts[0]);
		*age = pg_ntoh64(parts[1]);
	}
	else
	{
		*hash = (uint64) SortableHash((uint64) DatumGetInt64(value));
		*age = 0;
	}
	if (TUPLESORT_COPIES && (sort.aged || !FLOAT8PASSBYVAL))
		pfree(DatumGetPointer(value));
	return true;
}

#endif /* STREAMDEDUP_GUARD_HASH_SORT_HPP */
