/* Reads the keys of the rows in guarded tables (table_keys.cpp). */
#ifndef STREAMDEDUP_GUARD_TABLE_KEYS_HPP
#define STREAMDEDUP_GUARD_TABLE_KEYS_HPP

#include "guard/row_key.hpp"

extern "C" {
#include "access/tableam.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
}

/*
 * Returns the tables with rows of their own that a guard of this table covers, those with the
 * oldest bounds first. All are locked.
 */
extern List *CoveredTables(Relation rel);

/* Returns the number of pages of these tables. */
extern int64 BlocksOfTables(const List *tables);

/* ---- as the table's owner -------------------------------------------------------------- */

/* The session's user before BecomeOwner(). An error restores it, too. */
struct AsOwner
{
	Oid user;
	int security;
	int nest_level;
};

/*
 * Functions of types may be a user's code. They run with the rights of the table's owner, in a
 * security-restricted operation, as in CREATE INDEX.
 */
extern AsOwner BecomeOwner(Relation table);
extern void BecomeAgain(const AsOwner &before);

/* ---- keys ------------------------------------------------------------------------------ */

/* The key of a guard. Its columns are found in each table by their names. */
struct TableKeys
{
	Relation from;      /* the clause belongs to the guard of this table, which stays open */
	GuardClause clause; /* if it has a mark, rows that are marked as duplicates do not count */
	KeyPlan *plan;
	dedup::KeySeed seed;
	int64 ttl; /* rows whose times are at least this far apart are independent; or 0 */
	MemoryContext row_context; /* reset for each row */
};

/*
 * The clause is that of the guard of `rel`. The result is allocated in the current memory context.
 */
extern TableKeys TableKeysOf(Relation rel, const GuardClause &clause, const LiveFilter &filter);

/* A row that counts and has a key. Its values are in the slot, or in the row's context. */
struct KeyRow
{
	Relation table;
	TupleTableSlot *slot;
	const GuardKey *key;
	uint64 hash;
};

/* A scan of one table. */
struct KeyScan
{
	Relation table;
	TableScanDesc scan;
	TupleTableSlot *slot;
	GuardClause *clause; /* of the table */
	KeyReader reader;
	AsOwner owner;
};

/* Opens a table, which is locked, and makes a reader of its keys. */
extern void OpenKeyTable(const TableKeys &keys, Oid table, KeyScan *scan);

/*
 * Between these two calls the session has the rights of the table's owner. Row-level security does
 * not apply.
 */
extern KeyScan StartKeyScan(const TableKeys &keys, Oid table, Snapshot snapshot);
extern void EndKeyScan(const KeyScan &scan);

/* Reads the key of the row in the slot. Returns false if the row has no key, or does not count. */
static inline bool
ReadRowKey(const TableKeys &keys, const KeyScan &scan, GuardKey *key, uint64 *hash)
{
	if (scan.clause->mark != 0)
	{
		bool isnull;
		const Datum marked = slot_getattr(scan.slot, scan.clause->mark, &isnull);

		if (!isnull && DatumGetBool(marked))
			return false;
	}
	ReadGuardKey(scan.reader, scan.slot, key);
	return key->counts &&
		   (HashByShortcut(keys.plan, key->columns, keys.seed, hash) ||
			HashColumns(keys.plan, key->columns, keys.clause.nulls, keys.seed, hash));
}

/*
 * Runs visit(row) over the rows of a table that count and have a key, until it returns true. Runs
 * with the rights of the table's owner, in the row's memory context.
 */
template <typename Visit>
static inline void
VisitKeys(const TableKeys &keys, Oid table, Snapshot snapshot, Visit visit)
{
	const KeyScan scan = StartKeyScan(keys, table, snapshot);
	const MemoryContext old = MemoryContextSwitchTo(keys.row_context);
	GuardKey key;
	KeyRow row = {scan.table, scan.slot, &key, 0};
	bool stop = false;

	while (!stop && table_scan_getnextslot(scan.scan, ForwardScanDirection, scan.slot))
	{
		CHECK_FOR_INTERRUPTS();
		if (ReadRowKey(keys, scan, &key, &row.hash))
			stop = visit(row);
		MemoryContextReset(keys.row_context);
	}
	MemoryContextSwitchTo(old);
	EndKeyScan(scan);
}

#endif /* STREAMDEDUP_GUARD_TABLE_KEYS_HPP */
