/*
 * The common declarations of dedup_readmit(): refused.cpp finds the rows, and readmit.cpp brings
 * them back.
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
	TimestampTz at; /* refused_at; or the latest possible time, if that is NULL */
	int table;      /* index among the side table's tables */
	ItemPointerData tid;
	bool has_key;
	bool stays;
};

struct Readmission
{
	Relation guarded;       /* the guarded table */
	const GuardPlan *guard; /* its guard */
	/* the table into which rows are brought back: the guarded one, or one that inherits from it */
	Relation rel;
	const GuardPlan *plan; /* of its guard */
	KeyReader reader;
	dedup::KeySeed seed;
	int64 ttl; /* rows whose times are at least this far apart are independent; or 0 */
	Snapshot snapshot;
	SideRows side;
	MemoryContext context;
	MemoryContext row_context; /* reset for each row */
	Refused *refused;
	int count;
	int room;
	SPIPlanPtr insert;          /* NULL: not prepared yet */
	Bitmapset *insert_defaults; /* columns that it leaves out */
	SPIPlanPtr *remove;         /* DELETE, from each of the side table's tables */
};

/* Returns the tables that the refused rows name. */
extern List *RefusingTables(const Readmission *readmission);

/* Reads the rows to bring back into `rel`. Runs with the rights of the guarded table's owner. */
extern void ScanSide(Readmission *readmission);

/*
 * Keeps a row in the side table if the table has a row with its key, or if an older refused row has
 * its key, unless the guard is exact. Sorts all by their age.
 */
extern void ChooseRows(Readmission *readmission, const LiveFilter &filter);

/* Reads a refused row again, as ReadSideRow() does. Returns false if the row is gone. */
extern bool FetchRefused(Readmission *readmission, const Refused &refused, bool all);

#endif /* STREAMDEDUP_GUARD_READMIT_HPP */
