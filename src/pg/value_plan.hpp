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
	Int32,						/* and date, by value, signed */
	Int64,						/* and the times */
	UInt32,						/* oid, the reg types, xid, cid */
	UInt64,						/* xid8, pg_lsn */
	Float4,
	Float8,
	Char,						/* "char" */
	Name,
	CString,					/* a literal of no type yet */
	Text,						/* also varchar, bytea */
	BpChar,
	Fixed,						/* uuid, macaddr: the bytes as they are */
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
	OwnHash						/* the type's own hash function */
};

struct ValuePlan
{
	Oid			type;			/* with domains removed */
	KeyKind		kind;
	int16		typlen;
	bool		typbyval;
	char		typalign;
	Oid			collation;
	bool		extended;		/* OwnHash: the function takes a seed */
	FmgrInfo	hash;			/* OwnHash */
	TypeCacheEntry *typcache;	/* ranges */
	ValuePlan  *element;		/* Array, Range, Multirange */

	/* Record: the plans of the row type met last */
	Oid			row_type;
	int32		row_typmod;
	int			row_columns;
	ValuePlan **row_plans;

	/* Enum: the label met last */
	Oid			enum_value;
	NameData	enum_label;

	MemoryContext context;		/* where plans are made */
};

/*
 * Makes the plan for values of a type in `context`. An unhashable type is an error
 * that names it (42883).
 */
extern ValuePlan *MakeValuePlan(MemoryContext context, Oid type, Oid collation);

#endif							/* STREAMDEDUP_PG_VALUE_PLAN_HPP */
