/*
 * Live filters: relations whose pages are a filter that all sessions share.
 *
 * A live filter is a relation of the table access method `streamdedup`. Its pages (core/page.hpp)
 * are changed in place under their buffer's lock and logged as generic WAL records. There are no
 * tuples. A key is in flight, with its transaction's id beside it, until a later visitor of the
 * page finds that the transaction has ended.
 *
 * The files:
 *   core/page.hpp     the bytes of a page; knows no PostgreSQL
 *   core/page_sum.hpp  the checksum of a page; knows no PostgreSQL
 *   store/pages.cpp   buffers, locks, extension, overflow pages
 *   store/change.cpp  changes of pages, and their WAL records
 *   store/map.cpp     where the pages of a filter that grows are
 *   store/split.cpp   splits these pages
 *   store/transactions.cpp  how the transactions that pages name have ended
 *   store/settle.cpp  settles entries whose transactions have ended
 *   store/put.cpp     new entries
 *   filter.cpp     opens a live filter, its parameters, privileges
 *   keys.cpp       test-and-add, lookups; waiting for other transactions
 *   batch.cpp      test-and-add of many keys, some pages at a time
 *   forget.cpp     forgets a key, takes back one that was added
 *   table_am.cpp   the access method: what it refuses, files
 *   scan.cpp       scans for dumps: rows that represent pages
 *   restore.cpp    COPY FROM: rows of a dump become pages again; checks against wrong restores
 *   bulk.cpp       adding many keys at once, in the order of their hashes
 *   vacuum.cpp     VACUUM: settles all pages
 *   give_back.cpp  gives free pages back, into which the last ones of the file move
 *   page_type.cpp  the type of a dump's rows
 *   call.cpp       call sites of SQL functions, and the names of filters
 *   functions.cpp  SQL functions on keys: look up, add, forget
 *   new_keys.cpp   dedup_new_keys
 *   snapshot.cpp   dedup_snapshot, dedup_load
 *   counters.cpp   the counts of a transaction, added up when it commits
 *   counters_page.cpp  the page of counters that all sessions share
 *   cover.cpp      whether the filter has the key of every row of the table it guards
 *   prepared.cpp   the counts of prepared transactions
 *   refuse.cpp     refuses DDL and DML that a live filter cannot support
 *   create.cpp     makes filters
 *   replace.cpp    a new file, and new parameters, for a filter that stays the same relation
 *   watch.cpp      statistics
 *   check.cpp      finds damaged pages
 *
 * Locks: first a main page's buffer lock, then those of its overflow pages in the order of their
 * chain. Several main pages, without overflow pages, are locked in the order of their blocks. While
 * a buffer is locked, no code waits for a transaction or calls foreign code. Errors are raised with
 * no critical section open; buffers are released by the resource owner.
 */
#ifndef STREAMDEDUP_LIVE_LIVE_HPP
#define STREAMDEDUP_LIVE_LIVE_HPP

#include "pg/pg.hpp"
#include "core/page_sum.hpp"

extern "C" {
#include "access/tableam.h"
#include "access/transam.h"
#include "access/xact.h"
#include "storage/buf.h"
#include "utils/rel.h"
#include "utils/timestamp.h"
}

/* ---- columns ---------------------------------------------------------------- */

/*
 * The columns of every live filter, as CREATE TABLE in dedup_create() names them and as the access
 * method requires them: block int4, and page dedup_page. The DEFAULT of page holds the filter's
 * parameters.
 */
constexpr AttrNumber kLiveBlockColumn = 1;
constexpr AttrNumber kLivePageColumn = 2;
constexpr int kLiveColumns = 2;

/* ---- a live filter and its parameters (filter.cpp) ------------------------- */

/* The contents of the DEFAULT of the column `page`. They are cached with the relation. */
struct LiveParameters
{
	dedup::Shape shape; /* of the method of live filters; its seed and hash are those of the keys */
	dedup::live::Geometry geometry;
	bool forgets; /* it is a window; else keys spill to overflow pages without limit */
	int64 ttl;    /* microseconds; 0: a window by count, or none */
	/* the length of a generation in microseconds, ttl / 7; 0 without ttl */
	int64 generation;
	bool renew;               /* with ttl: keys count from the last sight, else from the first */
	uint8_t prototype_method; /* the method of the prototype */
	uint64 prototype_keys;    /* the requested capacity or window */
	double prototype_fpr;
};

struct LiveFilter
{
	Relation rel;
	LiveParameters parameters; /* a copy, because any lock can free the relation's cache */

	/* The name of the filter that this one will replace (replace.hpp); else NULL. */
	const char *replaces = NULL;

	dedup::KeySeed key_seed() const { return dedup::KeySeedOf(parameters.shape); }
};

/*
 * The data that is cached with the relation, in rd_amcache. A page is verified when this backend
 * has read it from disk, and when it uses the page for the first time, because another process,
 * such as pg_prewarm, may have read it. `met` has a bit for each of the first `met_count` blocks.
 * `recent` has the buffer of a page when it was last held. Blocks that have the same bits of
 * `recent_mask` share a place in it. It is only a hint.
 */
struct CachedLive
{
	LiveParameters parameters;
	bool whole_known;
	bool whole;
	BlockNumber met_count;
	BlockNumber recent_mask;
	uint8_t *met;

	/* If the filter grows: what this backend knows about its map. All of it is only a hint. */
	uint32 pages; /* 0: unknown */
	uint32 map_room;
	BlockNumber *map; /* by the number of the main page; 0: unknown */
	Buffer recent[FLEXIBLE_ARRAY_MEMBER];
};

/* Returns whether this is a live filter: a relation of our access method. */
extern bool IsLiveRelation(Relation rel);

/* Does the same by OID. Returns false for an OID that does not exist. */
extern bool IsLiveRelationId(Oid relid);

/*
 * The purpose for which a caller opens a filter. Privileges of `role` are checked (SELECT allows
 * lookups; INSERT allows adding, forgetting and loading). Add is not allowed on a standby, in a
 * READ ONLY transaction, or in a parallel worker.
 */
enum class LiveUse
{
	Ask,
	Add
};

/*
 * Opens a live filter with AccessShareLock or RowExclusiveLock, which is kept to the end of the
 * transaction. Raises 42809 for a relation of another kind.
 */
extern LiveFilter OpenLive(Oid relid, LiveUse use, Oid role, const char *function);
extern void CloseLive(const LiveFilter &filter);

/*
 * Opens a filter by its OID for lookups, as OpenLive() does, but returns false for an OID that
 * names no relation: the filter may have been dropped while a query over pg_class was running.
 */
extern bool OpenLiveIfExists(Oid relid, const char *function, LiveFilter *filter);

/*
 * Returns the generation of an instant. Returns 0 in filters without ttl, and for instants before
 * the first generation, which are older than every window. Raises 22008 for instants after the
 * last.
 */
extern uint32 LiveGeneration(const LiveFilter &filter, TimestampTz at);

/* Returns the clock's generation; 0 in filters without ttl. */
extern uint32 LiveGenerationNow(const LiveFilter &filter);

/*
 * Returns whether a key of this generation, after its commit, moves the window ahead of the clock.
 */
extern bool LiveIsAhead(const LiveFilter &filter, uint32 generation);

/* Raises the WARNING about that. `what` is the subject of its sentence, with the verb. */
extern void WarnLiveAhead(const LiveFilter &filter, const char *what);

/* Returns the name of the filter, for messages. */
static inline const char *
LiveName(const LiveFilter &filter)
{
	return filter.replaces != NULL ? filter.replaces : RelationGetRelationName(filter.rel);
}

/*
 * Returns the parameters in the relation's DEFAULT. Raises 55000 if it holds none, and XX001 if
 * they are not valid.
 */
extern LiveParameters LiveParametersOf(Relation rel);

/* Puts parameters into the relation's cache, which must be empty. */
extern void CacheLiveParameters(Relation rel, const LiveParameters &parameters);

/* Enlarges the cache of a filter that grows to this many pages. */
extern void EnlargeLiveCache(Relation rel, uint32 pages);

/*
 * Returns false for a table of the access method that was made by hand, without valid parameters.
 * It holds nothing: VACUUM, ANALYZE and dumps skip it.
 */
extern bool LiveHasParameters(Relation rel);

/*
 * Returns whether this relation was made by dedup_create(), or by restoring such a relation. It
 * then has parameters, the CHECK constraint that calls dedup_is_live(), and the trigger that calls
 * dedup_restore_trigger(), enabled or not. A relation made by CREATE TABLE ... LIKE or CREATE TABLE
 * AS lacks at least one of them. So a restore could fill it before its guarded table, whose rows
 * would then all be refused. Cached with the relation.
 */
extern bool LiveIsWhole(Relation rel);

/* Returns the access method's routine, by which live filters are recognized. */
extern const TableAmRoutine *LiveTableAm(void);

/* ---- keys (keys.cpp) -------------------------------------------------------- */

enum class LiveAnswer
{
	New, /* it is remembered, in flight */
	Duplicate,
	TooOld /* timed filters: older than the window; it is new, but not remembered */
};

/*
 * The meaning of a generation: that of the clock, or that of an event. A filter's time never goes
 * back. If the filter has seen a generation that is newer than the clock's, that one is used
 * instead of the clock's. But an event that is older than the window is too old.
 */
enum class LiveTime
{
	Clock,
	Event
};

/*
 * Tests and adds a key in the current (sub)transaction. Waits, with nothing locked, for a
 * transaction that has the same key in flight. Counts only keys that are renewed.
 *
 * In a filter with renew, a duplicate is a sight of its key: the key gets the generation, if that
 * is newer than its own. This never waits: if another transaction has a newer sight in flight,
 * nothing is written.
 */
extern LiveAnswer LiveTestAndAdd(const LiveFilter &filter, uint64 hash, uint32 generation,
								 LiveTime time = LiveTime::Clock);

/*
 * The memory that a test-and-add of a key will read, as far as this session knows. Unknown if
 * `page` is NULL. It is only a hint, and stays harmless when pages have moved.
 */
struct LiveHint
{
	const uint8_t *page;
	const uint8_t *buffer; /* the server's description of it */
	dedup::live::Address address;
};

/* Locks nothing and raises no error. */
extern LiveHint HintOfKey(const LiveFilter &filter, uint64 hash);

/* Prefetches that memory, without waiting for it. */
extern void FetchHint(const LiveHint &hint);

/*
 * Prefetches only as much of the pages of many keys as is needed to make the processor look up
 * their addresses. The processor waits for such lookups, even for a prefetch, but does several at a
 * time.
 */
extern void FindHints(const LiveHint *hints, int count);

/* The result of putting a key into a filter although it may be there already. */
enum class LivePut
{
	Added, /* it is in flight as this subtransaction's; LiveTakeBack() takes it back */
	Own,   /* it was in flight as this transaction's already */
	Waited /* another transaction had it in flight, and has ended; anything may have changed */
};

/*
 * Tests and adds a key for an exact guard, whose filter covers a table. Returns true if the key is
 * proved to be in no row of the table, within the window of `generation`; the key is then in
 * flight, under that generation. Returns false, with nothing changed, if the key may be in a row.
 * Waits as LiveTestAndAdd() does. Counts nothing.
 *
 * In a window of time, a missing key is proof only if the filter has the keys of all rows of the
 * window. For that, the filter must cover these rows (LiveCoversFrom()), none of them may have
 * expired yet, as seen from a row that is late, and the key's line cannot have dropped one before
 * its time.
 */
extern bool LiveAddIfNew(const LiveFilter &filter, uint64 hash, uint32 generation);

/*
 * Puts a key in flight for an exact guard, whether the filter has it or not, so that others who
 * look the key up from now on wait for this transaction. Waits, with nothing locked, for another
 * transaction that has it in flight. Counts nothing.
 *
 * In a window of time the key gets the row's generation. If the row is too old for the window, it
 * gets a very old generation: such a key is only in flight. `put` receives the generation. In a
 * window the key is put again for each row that has it, because rows with distant times have it
 * together, and each may be taken back. So the answer is never Own.
 */
extern LivePut LivePutKey(const LiveFilter &filter, uint64 hash, uint32 generation, uint32 *put);

/*
 * Returns when a key that the set may have came, relative to its other keys: 0 is the oldest, 1 the
 * youngest. It is a guess from the few keys of the key's line.
 */
extern double LiveAgeOf(const LiveFilter &filter, uint64 hash);

/* Waits, with nothing locked, until a transaction has ended. */
extern void LiveWait(TransactionId xid);

/*
 * Only looks the key up and never waits. Does not see keys that other transactions have in flight.
 */
extern bool LiveSeen(const LiveFilter &filter, uint64 hash, uint32 generation);

/*
 * Forgets a key, when this transaction commits. Returns whether it was there: in a window of
 * time, whether it was in the window before the newest generation that the filter has seen. A key
 * that has expired is forgotten, too, if the filter still has it.
 */
extern bool LiveForget(const LiveFilter &filter, uint64 hash);

/* Sights of a key in a window of time: those of some generations, both ends included. */
struct LiveSights
{
	uint32 from;
	uint32 to;
};
constexpr LiveSights kAllSights = {0, PG_UINT32_MAX};

/* The first generation of the window that ends with one. */
static inline uint32
LiveWindowStart(uint32 end)
{
	return end - Min(end, dedup::live::kWindowGenerations);
}

/*
 * The same for a key whose row is deleted: never waits, and raises no error but for damaged
 * pages or a full disk. What another transaction has in flight is left alone. In a window of time
 * the last of those sights goes, and in one whose keys are renewed all of them.
 */
extern bool LiveRelease(const LiveFilter &filter, uint64 hash, const LiveSights &sights);

/*
 * Takes back a key that this transaction added as subtransaction `xid` (the result of
 * GetCurrentTransactionId() at that time), as if it had never been added. If a generation is given,
 * that of LivePutKey(), takes back only what was put under it; 0: all sights of the key.
 */
extern void LiveTakeBack(const LiveFilter &filter, uint64 hash, TransactionId xid,
						 uint32 generation = 0);

/* ---- batches (batch.cpp) ---------------------------------------------------- */

/*
 * Tests and adds a batch, in the order of the keys' pages and within a page in the order of the
 * batch. Several pages share a WAL record. Waits as LiveTestAndAdd() does.
 */
extern void LiveTestAndAddBatch(const LiveFilter &filter, const uint64 *hashes, size_t n,
								uint32 generation, LiveAnswer *answers);

/* ---- counters (counters.cpp) ------------------------------------------------ */

enum class LiveCounter
{
	New,       /* keys remembered */
	Duplicate, /* reported as a duplicate by is_new, dedup_new_keys */
	Skipped,   /* rows that a guard has left out */
	Rejected,  /* rows for which a guard raised 23505 */
	Marked,    /* rows that a guard has marked */
	Found,     /* an exact guard searched its table for the key and found it */
	NotFound,  /* an exact guard searched its table for the key and did not find it */
	TooOld,    /* older than the window: neither remembered nor counted as new or duplicate */
	Renewed    /* duplicates whose age starts again, in filters with renew */
};
constexpr int kLiveCounters = 9;

/*
 * Counts when the current (sub)transaction commits; never if it aborts. Rejected rows count at
 * once, because their error aborts the transaction.
 */
extern void CountLive(const LiveFilter &filter, LiveCounter counter, int64 n);

/* Counts at once, even if the transaction aborts. */
extern void CountLiveNow(const LiveFilter &filter, LiveCounter counter, int64 n);

/* Returns the newest generation in which this transaction, or a committed one, added a key. */
extern uint32 LiveClock(const LiveFilter &filter);
extern void NoteLiveGeneration(const LiveFilter &filter, uint32 generation);

/*
 * Records that keys of a time window were dropped before their time. May be called while buffers
 * are locked. WarnLiveEarly() must be called when none is; it raises the WARNING, once in a
 * filter's life.
 */
extern void NoteLiveEarly(const LiveFilter &filter, unsigned early);
extern void WarnLiveEarly(const LiveFilter &filter);

/* Returns whether so many of the added keys were dropped early that the filter is too small. */
extern bool LiveIsOverfull(const LiveFilter &filter, int64 early, int64 keys);

/*
 * Returns whether this number of keys is more than a window of time was made for. A window is made
 * for the number of keys that arrive in a ttl, and keeps each key for up to a generation longer.
 */
extern bool LiveWindowIsOverfull(const LiveFilter &filter, int64 keys);

/*
 * Returns the number of keys that the filter will hold when the current transaction has committed,
 * at the time of a generation. Reads every page.
 */
extern int64 LiveKeysWithOwn(const LiveFilter &filter, uint32 now);

/* The contents of the page of counters. */
struct LiveCounts
{
	int64 value[kLiveCounters];
	TimestampTz since; /* 0: nothing was counted yet */
	uint32 clock;
	bool warned;
};
extern LiveCounts ReadLiveCounts(const LiveFilter &filter);

/*
 * Reads the counts of a filter, and whether it covers its table, for a view. Returns false if the
 * user may not read the filter, or if something is wrong. `problem` receives what is wrong, or
 * NULL.
 */
extern bool ShowLiveCounts(Oid relid, LiveCounts *counts, bool *covers, char **problem);

/*
 * Copies the counts of a filter to the one that replaces it, except the number of new keys: the
 * keys that were added to the new one are counted there.
 */
extern void CarryLiveCounts(const LiveFilter &from, const LiveCounts &counts, const LiveFilter &to);

/*
 * Counts the values of prepared transactions that have ended. Must be called before their ids grow
 * too old.
 */
extern void SettleLiveCounters(const LiveFilter &filter);

/* Registers the transaction callbacks. Called once, by _PG_init. */
extern void InitLiveCounters(void);

/* ---- filters that cover a table (cover.cpp) ---------------------------------- */

/*
 * Returns whether a filter has the key of every row of the table that its exact guard guards. It
 * does if it was loaded from that table, by this transaction or by a committed one.
 */
extern bool LiveCovers(const LiveFilter &filter);

/*
 * Sets this from now on, if this (sub)transaction commits. Locks the filter in
 * ShareRowExclusiveLock. A caller that loads keys so that the filter covers the table takes that
 * lock before, so that no key is forgotten meanwhile. `from`: as for RaiseLiveCoversFrom().
 */
extern void SetLiveCovers(const LiveFilter &filter, bool covers, uint32 from = 0);

/*
 * Returns the generation from which on a window of time covers its table. Rows of older generations
 * may have been skipped when their keys were loaded. It never decreases before the filter is
 * emptied, even if the transaction aborts, and is exact after a crash.
 */
extern uint32 LiveCoversFrom(const LiveFilter &filter);
extern void RaiseLiveCoversFrom(const LiveFilter &filter, uint32 from);

/*
 * Returns whether a filter covers its table for a snapshot, or for this transaction now if the
 * snapshot is NULL.
 */
extern bool LiveCoversFor(const LiveFilter &filter, Snapshot snapshot);

/* For VACUUM: returns the oldest transaction that is still named, or kNoXid. */
extern uint64 SettleLiveCovers(const LiveFilter &filter);

/* ---- guards ------------------------------------------------------------------- */

/*
 * The functions of the guard that live filters call. The guard registers them, because it uses live
 * filters, and live filters must not depend on it.
 */
struct LiveGuard
{
	/* Takes back the keys of rows that were not inserted, of queries that have ended. */
	void (*settle_rows)(void);

	/* The pages of a filter are being copied to another file. Its keys stay the same. */
	void (*file_copied)(Relation rel, Oid to);

	/* Returns the table of an enabled guard that uses the filter, or InvalidOid. */
	Oid (*guarded_table)(Oid filter);

	/* Does the same for an exact guard. */
	Oid (*exactly_guarded_table)(Oid filter);

	/*
	 * The filter is about to be truncated. Raises an error if it is used by an exact guard whose
	 * table is not truncated, too.
	 */
	void (*emptied)(Relation rel);

	/*
	 * If this transaction has truncated the filter and its table, the empty filter covers the empty
	 * table: records that, and returns true.
	 */
	bool (*covers_anew)(const LiveFilter &filter);

	/* A key is removed from a filter by a function call. */
	void (*key_forgotten)(void);
};

/* NULL: there are no guards. */
extern const LiveGuard *live_guard;

/* Called before this session looks up or adds a key by a function call. */
static inline void
SettleLandedRows(void)
{
	if (likely(live_guard != NULL))
		live_guard->settle_rows();
}

static inline void
NoteForgottenKey(void)
{
	if (likely(live_guard != NULL))
		live_guard->key_forgotten();
}

static inline void
NoteLiveFileCopied(Relation rel, Oid to)
{
	if (live_guard != NULL)
		live_guard->file_copied(rel, to);
}

static inline Oid
LiveGuardedTable(Oid filter)
{
	return live_guard != NULL ? live_guard->guarded_table(filter) : InvalidOid;
}

static inline Oid
LiveExactlyGuardedTable(Oid filter)
{
	return live_guard != NULL ? live_guard->exactly_guarded_table(filter) : InvalidOid;
}

static inline void
NoteLiveEmptied(Relation rel)
{
	if (live_guard != NULL)
		live_guard->emptied(rel);
}

static inline bool
LiveCoversAnew(const LiveFilter &filter)
{
	return live_guard != NULL && live_guard->covers_anew(filter);
}

/* ---- making filters (create.cpp) --------------------------------------------- */

/* The prototype that errors suggest: live filters need a number of keys. */
inline constexpr char LIVE_PROTOTYPE[] = "dedup_filter(1000000, 0.01)";

/* The hint for a prototype that holds keys. */
inline constexpr char LIVE_LOAD_HINT[] = "Load the keys of a filter with dedup_load().";

/* Returns the parameters of a filter that dedup_create() makes from a prototype. Raises errors. */
extern LiveParameters PlanLiveParameters(const dedup::Shape &prototype, int64 ttl, bool renew);

/* Does the same for a prototype as a value, without a ttl. `any_seed`: it has no seed. */
extern LiveParameters ReadLivePrototype(Datum prototype, bool *any_seed);

/* ---- refusals (refuse.cpp) -------------------------------------------------- */

/* Installs hooks. Called once, by _PG_init. */
extern void InitLiveRefusals(void);

/* Returns whether this is the function that the CHECK constraint of a live filter calls. */
extern bool IsLiveCheckFunction(Oid function);

/* Returns whether this is the function that the trigger of a live filter calls. */
extern bool IsRestoreTriggerFunction(Oid function);

#endif /* STREAMDEDUP_LIVE_LIVE_HPP */
