/*
 * Keys: converts SQL values to 64-bit hashes.
 *
 * A key is one value or several. Values that SQL calls equal have equal hashes. Values are
 * converted to canonical bytes (the same on every machine) and hashed with the filter's hash
 * function (XXH3 or SipHash) and seed. Types without canonical bytes, or with an equality of their
 * own (equality.hpp), are first hashed by their own extended hash function. Arrays, ranges and
 * records are hashed element by element, because the server's hashes of 8-byte integers, times and
 * types that contain them first reduce the values to 32 bits.
 */
#ifndef STREAMDEDUP_PG_KEYS_HPP
#define STREAMDEDUP_PG_KEYS_HPP

#include "pg/pg.hpp"

/* The plan to hash one value; opaque. */
struct ValuePlan;

/* Keys of one column whose types are so frequent that they have a fast path. */
enum class KeyShortcut
{
	None,
	Int16,
	Int32,
	Int64, /* and times */
	Text   /* compared by its bytes; also bytea */
};

/* So many columns a key may have at most for its hash to be kept. */
constexpr int kKeptColumns = 4;

/*
 * The key that a plan has hashed last, if values that are the same to the last bit always have
 * the same hash: all columns are integers, times and the like, passed by value, and none is NULL.
 */
struct KeptHash
{
	uint64 version; /* of the plan; 0: there is no such key */
	uint64 judged;  /* the version of the plan that `by_value` is of */
	bool by_value;
	dedup::KeySeed seed;
	Datum values[kKeptColumns];
	uint64 hash;
};

/* How to hash the key columns of one call site. */
struct KeyPlan
{
	int first; /* argument number of the first column */
	int columns;
	bool variadic; /* the columns are the elements of one array */
	KeyShortcut shortcut;
	ValuePlan **plans; /* one, if variadic */
	KeptHash *kept;    /* NULL: none is kept */

	/*
	 * The plans were made from these types and collations. They are renewed when an equality may
	 * have changed.
	 */
	Oid *types;
	Oid *collations;
	MemoryContext context;
	MemoryContext renewals; /* contains a context for each renewal; NULL before the first renewal */
	uint64 version;
};

/*
 * The meaning of a NULL column. Skip: there is no key (aggregates, and values as in a UNIQUE
 * constraint). Else NULL is a value like any other (as in DISTINCT).
 */
enum class NullKeys
{
	Skip,
	Equal
};

/*
 * Makes the plan for the key columns of this call, its arguments from `first` on. The plan is in
 * the call site's fn_mcxt. Raises an error (42883) that names the type if a type cannot be hashed.
 */
extern KeyPlan *MakeKeyPlan(FunctionCallInfo fcinfo, int first);

/* Does the same for the elements of an array type. The plan is in `context`. */
extern KeyPlan *MakeElementKeyPlan(MemoryContext context, Oid element_type, Oid collation);

/* Does the same for columns of a table. */
extern KeyPlan *MakeColumnsKeyPlan(MemoryContext context, int columns, const Oid *types,
								   const Oid *collations);

/*
 * Returns whether MakeColumnsKeyPlan() accepts a type. It accepts every row type that has no
 * equality of its own; the types of its columns are checked when a row is hashed.
 */
extern bool IsHashableType(Oid type);

/*
 * Returns whether values of a type, and all values that they contain, have hash functions of 64
 * bits. Returns false for anonymous records, and arrays of them, because their contents are not
 * known.
 */
extern bool IsWidelyHashableType(Oid type);

/*
 * Returns whether values of the type are OIDs of objects, as those of regclass are. Returns false
 * for oid itself.
 */
extern bool IsRegType(Oid type);

/* Returns whether keys are hashed without the functions of their types, which any user can make. */
extern bool HashesByBytes(const KeyPlan *plan);

/* Returns whether the key is one column whose type has this hash function. */
extern bool IsHashedBy(const KeyPlan *plan, PGFunction function);

/* Makes the plans again, with the equalities that the types have now. */
extern void RenewKeyPlan(KeyPlan *plan);

/*
 * Hashes the key of this call. Returns false if there is none because a column is NULL (only with
 * NullKeys::Skip).
 */
static pg_attribute_always_inline bool HashKey(KeyPlan *plan, FunctionCallInfo fcinfo,
											   NullKeys nulls, dedup::KeySeed seed, uint64 *hash);

/* Hashes a key whose columns are given. */
extern bool HashColumns(KeyPlan *plan, const NullableDatum *columns, NullKeys nulls,
						dedup::KeySeed seed, uint64 *hash);

/* From now on the plan keeps the hash of the key that was hashed last. */
extern void KeepLastHash(KeyPlan *plan);

/* As HashColumns(), for plans that keep the last hash: the same key is often hashed again. */
extern bool HashColumnsAgain(KeyPlan *plan, const NullableDatum *columns, NullKeys nulls,
							 dedup::KeySeed seed, uint64 *hash);

/* Makes a key that HashColumns() has hashed by the plan the one that it keeps. */
extern void KeepHash(KeyPlan *plan, const NullableDatum *columns, dedup::KeySeed seed, uint64 hash);

/* What HashKey() does beyond its short way. */
extern bool HashAnyKey(KeyPlan *plan, FunctionCallInfo fcinfo, NullKeys nulls, dedup::KeySeed seed,
					   uint64 *hash);

/* Integers of every width have the same canonical form, 8 bytes. */
static inline uint64
HashInteger(int64 value, dedup::KeySeed seed)
{
	uint8_t bytes[8];

	dedup::StoreU64(bytes, (uint64) value);
	return dedup::HashBytes(bytes, sizeof bytes, seed);
}

/* Does HashText() for a value that is compressed or stored out of line. */
extern uint64 HashToastedText(Datum value, dedup::KeySeed seed);

/* Hashes the bytes of a text or bytea. */
static pg_attribute_always_inline uint64
HashText(Datum value, dedup::KeySeed seed)
{
	struct varlena *text = (struct varlena *) DatumGetPointer(value);

	if (unlikely(VARATT_IS_EXTERNAL(text) || VARATT_IS_COMPRESSED(text)))
		return HashToastedText(value, seed);
	return dedup::HashBytes(VARDATA_ANY(text), VARSIZE_ANY_EXHDR(text), seed);
}

/* Hashes a key of one column that has a fast path and is not NULL. */
static pg_attribute_always_inline bool
HashByShortcut(const KeyPlan *plan, const NullableDatum *column, dedup::KeySeed seed, uint64 *hash)
{
	if (likely(!column->isnull))
		switch (plan->shortcut)
		{
			case KeyShortcut::Int16:
				*hash = HashInteger(DatumGetInt16(column->value), seed);
				return true;
			case KeyShortcut::Int32:
				*hash = HashInteger(DatumGetInt32(column->value), seed);
				return true;
			case KeyShortcut::Int64:
				*hash = HashInteger(DatumGetInt64(column->value), seed);
				return true;
			case KeyShortcut::Text:
				*hash = HashText(column->value, seed);
				return true;
			case KeyShortcut::None:
				break;
		}
	return false;
}

static pg_attribute_always_inline bool
HashKey(KeyPlan *plan, FunctionCallInfo fcinfo, NullKeys nulls, dedup::KeySeed seed, uint64 *hash)
{
	return HashByShortcut(plan, &fcinfo->args[plan->first], seed, hash) ||
		   HashAnyKey(plan, fcinfo, nulls, seed, hash);
}

#endif /* STREAMDEDUP_PG_KEYS_HPP */
