/* The plan to hash one value. keys.cpp makes it, and key_hash.cpp uses it. */
#ifndef STREAMDEDUP_PG_VALUE_PLAN_HPP
#define STREAMDEDUP_PG_VALUE_PLAN_HPP

#include "pg/keys.hpp"

extern "C" {
#include "utils/typcache.h"
}

/* The ways to convert a value to bytes. */
enum class KeyKind
{
	Bool,
	Int16,
	Int32,  /* also date; passed by value, signed */
	Int64,  /* also the time types */
	UInt32, /* oid, the reg types, xid, cid */
	UInt64, /* xid8, pg_lsn */
	Float4,
	Float8,
	Char, /* "char" */
	Name,
	CString,         /* a literal without a type */
	CollatedCString, /* such a literal in a nondeterministic collation */
	Text,            /* also varchar, bytea */
	BpChar,
	Fixed, /* uuid, macaddr: the bytes without changes */
	TimeTz,
	Interval,
	Inet,
	Tid,
	AclItem,
	Enum,
	Array,
	Range,
	Multirange,
	Record,
	Numeric,
	Jsonb,
	OwnHash /* hashed by the type's own hash function */
};

struct RowColumn
{
	Oid type; /* as declared; 0 if the column was dropped */
	Oid collation;
	ValuePlan *plan;
};

struct ValuePlan
{
	Oid type; /* with domains removed */
	KeyKind kind;
	int16 typlen;
	bool typbyval;
	char typalign;
	Oid collation;
	bool extended;            /* OwnHash: the function takes a seed */
	FmgrInfo hash;            /* OwnHash */
	bool in_call;             /* OwnHash: the function, which is in SQL, is running */
	TypeCacheEntry *typcache; /* ranges */
	ValuePlan *element;       /* Array, Range, Multirange, CollatedCString */

	/*
	 * Record: the columns of the last row type, as they were at that time. The columns of a named
	 * type can be altered between two calls.
	 */
	int row_columns;
	RowColumn *row;
	MemoryContext row_context; /* reset when they change */
	int in_row;                /* number of rows being hashed; too high after an error */

	/* Enum: the last label, until a label is altered */
	Oid enum_value;
	uint64 enum_version;
	NameData enum_label;

	MemoryContext context; /* the context in which plans are made */
};

/*
 * The number of keys that are being hashed. It is more than one if a hash function itself hashes
 * keys. It is too high after an error, until the transaction ends.
 */
extern int hash_depth;

/*
 * Makes the plan for values of a type in `context`. Raises an error (42883) that names the type if
 * it cannot be hashed.
 */
extern ValuePlan *MakeValuePlan(MemoryContext context, Oid type, Oid collation);

#endif /* STREAMDEDUP_PG_VALUE_PLAN_HPP */
