/*
 * Rows that a table already has when it becomes guarded.
 *
 * A live filter does not have the keys of rows that were in a table before the table was guarded,
 * or before it was attached as a partition. A WARNING then says how many rows these are, and which
 * statement loads their keys. An exact guard loads and checks them instead (load.cpp).
 *
 * ATTACH PARTITION clones the triggers of the guard, which the hook for new objects reports
 * (refuse.cpp). By then the server has opened the guard index of the partitioned table, so the
 * library is loaded.
 */
#include "guard/distributed.hpp"
#include "guard/load.hpp"
#include "guard/table_keys.hpp"

extern "C" {
#include "access/heapam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_trigger.h"
#include "commands/trigger.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rls.h"
#include "utils/snapmgr.h"
}

/* ---- counting ----------------------------------------------------------------- */

/*
 * At most 32 MB of a table are read, in pieces of 16 pages that are spread evenly, because the
 * table is locked meanwhile.
 */
constexpr int64 MOST_BLOCKS = 4096;
constexpr BlockNumber PIECE = 16;

namespace
{

/* The key that is looked up in several tables, and the counts so far. */
struct BroughtRows
{
	LiveFilter filter;
	uint32 generation;
	TimestampTz now;
	TableKeys keys;
	int64 blocks; /* of all tables */
	int64 blocks_read;
	double credit;   /* a piece is read when this reaches 1 */
	uint64 *unknown; /* hashes that the filter does not have, one for each row */
	int rows;
	int room;
};

} /* namespace */

/* Returns whether a row is older than the window. Then the filter need not have its key. */
static bool
IsOlder(const BroughtRows &brought, const GuardKey &key)
{
	return key.has_time && key.at < brought.now &&
		   !dedup::live::Alive(LiveGeneration(brought.filter, key.at), brought.generation);
}

/* Counts the rows of a scan whose keys the filter does not have. */
static void
CountRows(BroughtRows *brought, const KeyScan &scan)
{
	const MemoryContext row_context = brought->keys.row_context;

	while (table_scan_getnextslot(scan.scan, ForwardScanDirection, scan.slot))
	{
		MemoryContext old = MemoryContextSwitchTo(row_context);
		GuardKey key;
		uint64 hash;
		bool unknown;

		CHECK_FOR_INTERRUPTS();
		unknown = ReadRowKey(brought->keys, scan, &key, &hash) && !IsOlder(*brought, key) &&
				  !LiveSeen(brought->filter, hash, brought->generation);
		MemoryContextSwitchTo(old);
		MemoryContextReset(row_context);
		if (unknown)
			*OneMore(old, &brought->unknown, &brought->rows, &brought->room) = hash;
	}
}

/*
 * Counts in one table, with the rights of its owner, because a type's hash function can be a user's
 * code. Row-level security does not apply to a scan at this level.
 */
static void
CountTable(BroughtRows *brought, Oid relid, Snapshot snapshot)
{
	const double share = Min(1.0, (double) MOST_BLOCKS / (double) brought->blocks);
	const KeyScan scan = StartKeyScan(brought->keys, relid, snapshot);
	const BlockNumber blocks = RelationGetNumberOfBlocks(scan.table);

	for (BlockNumber start = 0; start < blocks; start += PIECE)
	{
		const BlockNumber n = Min(PIECE, blocks - start);

		brought->credit += share;
		if (brought->credit < 1)
			continue;
		brought->credit -= 1;
		if (brought->blocks_read > 0)
			table_rescan(scan.scan, NULL);
		heap_setscanlimits(scan.scan, start, n);
		CountRows(brought, scan);
		brought->blocks_read += n;
	}
	EndKeyScan(scan);
}

static int
CompareHashes(const void *left, const void *right)
{
	const uint64 a = *(const uint64 *) left;
	const uint64 b = *(const uint64 *) right;

	return a < b ? -1 : a > b;
}

/* Returns how many of the rows repeat the key of another row. */
static int
CountRepeated(BroughtRows *brought)
{
	int repeated = 0;

	qsort(brought->unknown, (size_t) brought->rows, sizeof(uint64), CompareHashes);
	for (int i = 1; i < brought->rows; i++)
		repeated += brought->unknown[i] == brought->unknown[i - 1];
	return repeated;
}

/* Rounds to three digits. */
static int64
RoundedEstimate(double rows)
{
	double unit = 1;

	while (rows / unit >= 999.5)
		unit *= 10;
	return (int64) (rint(rows / unit) * unit);
}

/* ---- warning ------------------------------------------------------------------- */

/* Returns the statement that adds the keys of all rows to the filter, with qualified names. */
static char *
LoadStatement(Relation rel, const BroughtRows &brought, Oid function)
{
	const Oid relid = RelationGetRelid(rel);
	const Expr *where = brought.keys.clause.where;
	const char *schema = get_namespace_name(get_func_namespace(function));
	const Expr *time = brought.keys.clause.at;
	const char *from = psprintf("FROM %s", QualifiedGuardName(relid));
	/* The guard treats a missing time, and a time ahead of the clock, as the current time. */
	const char *is_new =
		psprintf("WHERE %s(%s::pg_catalog.regclass, %s%s)",
				 quote_qualified_identifier(schema, time != NULL ? "is_new_at" : "is_new"),
				 quote_literal_cstr(QualifiedGuardName(RelationGetRelid(brought.filter.rel))),
				 time == NULL
					 ? ""
					 : psprintf("LEAST(%s, pg_catalog.now()), ", ExpressionText(relid, time)),
				 ElementsText(relid, brought.keys.clause));

	if (where == NULL)
		return psprintf("SELECT count(*) %s %s;", from, is_new);
	/* In a single WHERE, the server could call is_new() first. */
	return psprintf("SELECT count(*) FILTER (%s) %s WHERE %s;", is_new, from,
					ExpressionText(relid, where));
}

/*
 * Returns the HINT, which says how to load the keys. is_new() assigns no key to a row with a NULL
 * in its key. So if NULL is a value, only dedup_guard() can load the keys.
 */
static char *
LoadHint(Relation rel, const BroughtRows &brought, Oid function)
{
	if (brought.keys.clause.nulls == NullKeys::Equal)
		return pstrdup(_("To load the keys, remove the guard with dedup_unguard(), and make it "
						 "again with load => true."));
	return psprintf(_("To load the keys, run: %s"), LoadStatement(rel, brought, function));
}

/*
 * Returns the DETAIL: what the guard does with such rows, and what the filter does with keys that
 * are loaded.
 */
static char *
BroughtDetail(const BroughtRows &brought, int repeated)
{
	const LiveParameters &parameters = brought.filter.parameters;
	StringInfoData text;

	initStringInfo(&text);
	appendStringInfoString(&text, _("The guard does not refuse new rows with these keys."));
	if (repeated > 0)
		appendStringInfo(&text,
						 ngettext(" %d of these rows repeats the key of another.",
								  " %d of these rows repeat the key of another.", repeated),
						 repeated);
	if (parameters.ttl != 0 && brought.keys.clause.at == NULL)
	{
		Interval ttl = {};

		ttl.day = (int32) (parameters.ttl / USECS_PER_DAY);
		ttl.time = parameters.ttl % USECS_PER_DAY;
		appendStringInfo(&text,
						 _(" The filter keeps a key that is loaded for %s from now; a condition "
						   "can leave older rows out."),
						 DatumGetCString(
							 DirectFunctionCall1(interval_out, IntervalPGetDatum(&ttl))));
	}
	else if (parameters.forgets && parameters.ttl == 0)
		appendStringInfo(&text, _(" The filter keeps the last " UINT64_FORMAT " keys."),
						 parameters.prototype_keys);
	return text.data;
}

static void
WarnOfUnknown(Relation rel, BroughtRows *brought, Oid function)
{
	const bool exact = brought->blocks_read == brought->blocks;
	const int64 rows = exact ? brought->rows
							 : RoundedEstimate((double) brought->rows * (double) brought->blocks /
											   (double) brought->blocks_read);
	const char *hidden =
		check_enable_rls(RelationGetRelid(rel), InvalidOid, true) == RLS_ENABLED
			? _(" Row-level security hides rows from this role: use one that it does not apply to.")
			: "";

	ereport(WARNING,
			(exact ? errmsg_plural("live filter \"%s\" does not have the key of " INT64_FORMAT
								   " row of table \"%s\"",
								   "live filter \"%s\" does not have the keys of " INT64_FORMAT
								   " rows of table \"%s\"",
								   (unsigned long) rows, LiveName(brought->filter), rows,
								   RelationGetRelationName(rel))
				   : errmsg("live filter \"%s\" does not have the keys of about " INT64_FORMAT
							" rows of table \"%s\"",
							LiveName(brought->filter), rows, RelationGetRelationName(rel)),
			 errdetail_internal("%s", BroughtDetail(*brought, exact ? CountRepeated(brought) : 0)),
			 errhint("%s%s", LoadHint(rel, *brought, function), hidden)));
}

void
WarnOfBroughtRows(Relation rel, const GuardClause &clause, Oid function)
{
	MemoryContext context = AllocSetContextCreateInternal(CurrentMemoryContext, "dedup_guard rows",
														  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	BroughtRows brought = {};
	List *tables = CoveredTables(rel);
	ListCell *cell;

	brought.blocks = BlocksOfTables(tables);
	if (brought.blocks > 0)
	{
		Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());

		brought.filter = OpenLiveUnchecked(clause.filter, AccessShareLock);
		brought.now = GetCurrentTimestamp();
		/* If rows have times of their own, the present is the time of the newest row. */
		if (brought.filter.parameters.ttl != 0)
			brought.generation = clause.at != NULL ? LiveClock(brought.filter)
												   : LiveGeneration(brought.filter, brought.now);
		brought.keys = TableKeysOf(rel, clause, brought.filter);
		/* In large tables, reads the middle piece of each stretch; in others, every piece. */
		brought.credit = brought.blocks > MOST_BLOCKS ? 0.5 : 0;
		foreach(cell, tables)
			CountTable(&brought, lfirst_oid(cell), snapshot);
		UnregisterSnapshot(snapshot);
		if (brought.rows > 0)
			WarnOfUnknown(rel, &brought, function);
		CloseLive(brought.filter);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}

/* ---- partitions that are attached ------------------------------------------------ */

/*
 * The triggers BEFORE DELETE of guards that the running command has made, from the uppermost table
 * down. Only the uppermost is used: its rows are those of all partitions. In TopTransactionContext.
 */
static List *made_triggers = NIL;

static bool
IsGuardDeleteTrigger(Form_pg_trigger trigger)
{
	return trigger->tgtype == (TRIGGER_TYPE_ROW | TRIGGER_TYPE_BEFORE | TRIGGER_TYPE_DELETE) &&
		   IsGuardTriggerFunction(trigger->tgfoid);
}

/* Reads the clause of a trigger from its row of pg_trigger. */
static bool
ReadClauseOf(HeapTuple tuple, GuardClause *clause)
{
	Relation catalog = table_open(TriggerRelationId, AccessShareLock);
	bool isnull;
	Datum qual = heap_getattr(tuple, Anum_pg_trigger_tgqual, RelationGetDescr(catalog), &isnull);

	table_close(catalog, AccessShareLock);
	return !isnull && ReadGuardClause(TextDatumGetCString(qual), clause);
}

void
GuardTriggerCreated(HeapTuple tuple)
{
	Form_pg_trigger trigger = (Form_pg_trigger) GETSTRUCT(tuple);
	MemoryContext old;
	GuardClause clause;
	Relation rel;
	bool cloned;

	if (IsBinaryUpgrade || !IsGuardDeleteTrigger(trigger))
		return;
	cloned = list_member_oid(made_triggers, trigger->tgparentid);
	old = MemoryContextSwitchTo(TopTransactionContext);
	made_triggers =
		cloned ? lappend_oid(made_triggers, trigger->oid) : list_make1_oid(trigger->oid);
	MemoryContextSwitchTo(old);

	/* dedup_guard() checks the rows itself, and a restore has loaded the filter. */
	if (cloned || !OidIsValid(trigger->tgparentid) || !ReadClauseOf(tuple, &clause))
		return;

	/* The table's own trigger for INSERT may not exist yet. */
	const Oid guarded = GuardedTable(trigger->tgparentid);

	ApplyOptions(ReadGuardRows(guarded).options, &clause);
	rel = table_open(trigger->tgrelid, NoLock);
	if (IsGuardClauseOf(rel, clause) &&
		!LoadAttachedRows(rel, clause, guarded, "ALTER TABLE ... ATTACH PARTITION") &&
		trigger->tgenabled != TRIGGER_DISABLED && TableOwnerMayAdd(guarded, clause.filter))
	{
		/* Citus attaches the partitions of a shard that it has moved. */
		if (IsGuardedShard(guarded))
			LoadGuardedRows(rel, clause,
							{"ALTER TABLE ... ATTACH PARTITION", false, false, false, InvalidOid});
		else
			WarnOfBroughtRows(rel, clause, trigger->tgfoid);
	}
	table_close(rel, NoLock);
}

void
ForgetMadeTriggers(void)
{
	made_triggers = NIL;
}
