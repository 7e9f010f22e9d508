/*
 * What the parts of dedup_readmit() share: readmit.cpp brings rows back that refused.cpp has found.
 */
#ifndef STREAMDEDUP_GUARD_READMIT_HPP
#define STREAMDEDUP_GUARD_READMIT_HPP

#include "guard/row_key.hpp"
#include "guard/side_rows.hpp"

extern "C" {
#include "executor/spi.h"
#include "utils/snapshot.h"
}

/* A refused row. */
struct Refused
{
	uint64 hash;
	TimestampTz at; /* refused_at; or the latest time there is, if that is NULL */
	int table;      /* of the side table's */
	ItemPointerData tid;
	bool has_key;
	bool stays;
};

struct Readmission
{
	Relation guarded;       /* the guarded table */
	const GuardPlan *guard; /* its guard */
	Relation rel;           /* into which rows come back: that one, or one that inherits from it */
	const GuardPlan *plan;  /* of its guard */
	KeyReader reader;
	dedup::KeySeed seed;
	int64 ttl; /* rows with times so far apart have nothing to do with each other; or 0 */
	Snapshot snapshot;
	SideRows side;
	MemoryContext context;
	MemoryContext row_context; /* reset for each row */
	Refused *refused;
	int count;
	int room;
	SPIPlanPtr insert;          /* NULL: not made yet */
	Bitmapset *insert_defaults; /* columns that it leaves out */
	SPIPlanPtr *remove;         /* DELETE, from each of the side table's tables */
};

/* Returns the tables that the refused rows name. */
extern List *RefusingTables(const Readmission *readmission);

/* Reads the rows that come back into `rel`. Runs as the owner of the guarded table. */
extern void ScanSide(Readmission *readmission);

/*
 * Lets those stay that have a row in the table, or an older refused row, with their key, unless the
 * guard is exact. Sorts all by their age.
 */
extern void ChooseRows(Readmission *readmission, const LiveFilter &filter);

/* Reads a refused row again, as ReadSideRow() does. Returns false if it is gone. */
extern bool FetchRefused(Readmission *readmission, const Refused &refused, bool all);

#endif /* STREAMDEDUP_GUARD_READMIT_HPP */
