/*
 * The plan for hashing one value: made in keys.cpp, followed in key_hash.cpp.
 */
#ifndef STREAMDEDUP_PG_VALUE_PLAN_HPP
#define STREAMDEDUP_PG_VALUE_PLAN_HPP

#include "pg/keys.hpp"

extern "C" {
#include "utils/typcache.h"
}

/* The ways to bring a value to bytes. */
enum class KeyKind
{
	Bool,
	Int16,
	Int32,  /* and date, by value, signed */
	Int64,  /* and the times */
	UInt32, /* oid, the reg types, xid, cid */
	UInt64, /* xid8, pg_lsn */
	Float4,
	Float8,
	Char, /* "char" */
	Name,
	CString,         /* a literal of no type yet */
	CollatedCString, /* such a literal in a nondeterministic collation */
	Text,            /* also varchar, bytea */
	BpChar,
	Fixed, /* uuid, macaddr: the bytes as they are */
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
	OwnHash /* the type's own hash function */
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
	bool in_call;             /* OwnHash: the function, in SQL, is running */
	TypeCacheEntry *typcache; /* ranges */
	ValuePlan *element;       /* Array, Range, Multirange, CollatedCString */

	/*
	 * Record: the columns of the row type met last, as they were then. A named
	 * type's columns can be altered between two calls.
	 */
	int row_columns;
	RowColumn *row;
	MemoryContext row_context; /* reset when they change */
	int in_row;                /* rows being hashed; too high after an error */

	/* Enum: the label met last, until one is altered */
	Oid enum_value;
	uint64 enum_version;
	NameData enum_label;

	MemoryContext context; /* where plans are made */
};

/*
 * The number of keys that are being hashed: more than one if a hash function hashes keys.
 * Too high after an error, until the transaction ends.
 */
extern int hash_depth;

/*
 * Makes the plan for values of a type in `context`. An unhashable type is an error
 * that names it (42883).
 */
extern ValuePlan *MakeValuePlan(MemoryContext context, Oid type, Oid collation);

#endif /* STREAMDEDUP_PG_VALUE_PLAN_HPP */
