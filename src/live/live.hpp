/*
 * Live filters: relations whose pages are a filter that all sessions share.
 *
 * A live filter is a relation of the table access method `streamdedup`. Its pages
 * (core/page.hpp) are changed in place under their buffer's lock and logged as generic
 * WAL records; there are no tuples. A key is in flight, with its transaction's id
 * beside it, until some later visitor of the page finds that transaction ended.
 *
 * Who does what:
 *   core/page.hpp     the bytes of a page; knows no PostgreSQL
 *   core/page_sum.hpp  the checksum of a page; knows no PostgreSQL
 *   store/pages.cpp   buffers, locks, extension, overflow pages
 *   store/change.cpp  changes of pages, and their WAL records
 *   store/map.cpp     where the pages of a filter that grows are
 *   store/split.cpp   splits them
 *   store/transactions.cpp  how the transactions that pages name have ended
 *   store/settle.cpp  what becomes of entries whose transactions have ended
 *   store/put.cpp     new entries
 *   filter.cpp     opens a live filter, its parameters, access rights
 *   keys.cpp       test-and-add, ask; waiting for other transactions
 *   batch.cpp      test-and-add of many keys, some pages at a time
 *   forget.cpp     forget a key, take back one that was added
 *   table_am.cpp   the access method: what it refuses, files
 *   scan.cpp       scans for dumps: rows that stand for pages
 *   restore.cpp    COPY FROM: rows of a dump become pages again; what keeps it honest
 *   bulk.cpp       adding many keys at once, in the order of their hashes
 *   vacuum.cpp     VACUUM: settles all pages
 *   give_back.cpp  gives free pages back, into which the last ones of the file move
 *   page_type.cpp  the type of what a dump holds
 *   call.cpp       call sites of SQL functions, and the names of filters
 *   functions.cpp  SQL functions on keys: ask, add, forget
 *   new_keys.cpp   dedup_new_keys
 *   snapshot.cpp   dedup_snapshot, dedup_load
 *   counters.cpp   what a transaction counts, added up when it commits
 *   counters_page.cpp  the page of counters that all sessions share
 *   cover.cpp      whether the filter has the key of every row of the table it guards
 *   prepared.cpp   what prepared transactions have counted
 *   refuse.cpp     refuses DDL and DML that a live filter cannot follow
 *   create.cpp     making filters
 *   replace.cpp    a new file, and new parameters, for a filter that stays the same relation
 *   watch.cpp      statistics
 *   check.cpp      what is wrong with the pages
 *
 * Locks: a main page's buffer lock, then those of its overflow pages in the order of
 * their chain. Several main pages, without overflow pages: in the order of their blocks. Nobody
 * waits for a transaction, nor runs foreign code, with a buffer locked. Errors are raised with no
 * critical section open; buffers are released by the resource owner.
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
 * The columns of every live filter, as CREATE TABLE in dedup_create() names them and as
 * the access method requires them: block int4, and page dedup_page, whose DEFAULT holds
 * the filter's parameters.
 */
constexpr AttrNumber kLiveBlockColumn = 1;
constexpr AttrNumber kLivePageColumn = 2;
constexpr int kLiveColumns = 2;

/* ---- a live filter and its parameters (filter.cpp) ------------------------- */

/* What the DEFAULT of the column `page` says; cached with the relation. */
struct LiveParameters
{
	dedup::Shape shape; /* of the method of live filters; seed and hash are those of the keys */
	dedup::live::Geometry geometry;
	bool forgets;             /* a window; else keys spill to overflow pages for ever */
	int64 ttl;                /* microseconds; 0: a window by count, or none */
	int64 generation;         /* length of one in microseconds, ttl / 7; 0 without ttl */
	bool renew;               /* with ttl: from the last sight, else from the first */
	uint8_t prototype_method; /* that the filter was asked for with */
	uint64 prototype_keys;    /* capacity, or window, as asked */
	double prototype_fpr;
};

struct LiveFilter
{
	Relation rel;
	LiveParameters parameters; /* a copy: the relation's cache can go at any lock */

	/* The name of the filter that this one is going to replace (replace.hpp); else NULL. */
	const char *replaces = NULL;

	dedup::KeySeed key_seed() const { return dedup::KeySeedOf(parameters.shape); }
};

/*
 * What is cached with the relation, in rd_amcache. A page is verified when this backend
 * has read it from disk, and when it meets it for the first time, since somebody else,
 * such as pg_prewarm, may have read it: `met` has a bit for each of the first
 * `met_count` blocks. `recent` says in which buffer a page was when it was held last. It has
 * one place for all blocks that are the same in the bits of `recent_mask`. It is a hint only.
 */
struct CachedLive
{
	LiveParameters parameters;
	bool whole_known;
	bool whole;
	BlockNumber met_count;
	BlockNumber recent_mask;
	uint8_t *met;

	/* If the filter grows: what this backend knows of its map. All of it is a hint. */
	uint32 pages; /* 0: not looked up yet */
	uint32 map_room;
	BlockNumber *map; /* by the number of the main page; 0: not looked up yet */
	Buffer recent[FLEXIBLE_ARRAY_MEMBER];
};

/* Whether this is a live filter: a relation of our access method. */
extern bool IsLiveRelation(Relation rel);

/* The same by OID; false for what does not exist. */
extern bool IsLiveRelationId(Oid relid);

/*
 * What a caller is about to do. Checks privileges of `role` (SELECT asks, INSERT
 * adds, forgets and loads), and for Add that neither a standby, nor a READ ONLY
 * transaction, nor a parallel worker is at work.
 */
enum class LiveUse
{
	Ask,
	Add
};

/*
 * Opens a live filter, with AccessShareLock or RowExclusiveLock, which is kept to the
 * end of the transaction. A relation of another kind is 42809.
 */
extern LiveFilter OpenLive(Oid relid, LiveUse use, Oid role, const char *function);
extern void CloseLive(const LiveFilter &filter);

/*
 * Opens one to be asked by its OID, as OpenLive() does, but returns false for an OID that
 * names no relation: that of one that was dropped while a query over pg_class was running.
 */
extern bool OpenLiveIfExists(Oid relid, const char *function, LiveFilter *filter);

/*
 * The generation that an instant belongs to. 0 in filters without ttl, and for instants
 * before all generations, which are older than every window. Raises 22008 after the last.
 */
extern uint32 LiveGeneration(const LiveFilter &filter, TimestampTz at);

/* The clock's generation; 0 in filters without ttl. */
extern uint32 LiveGenerationNow(const LiveFilter &filter);

/* Whether a key of this generation, once committed, moves the window ahead of the clock. */
extern bool LiveIsAhead(const LiveFilter &filter, uint32 generation);

/* The WARNING about that; `what` is its subject, with its verb. */
extern void WarnLiveAhead(const LiveFilter &filter, const char *what);

/* The name of the filter, for messages. */
static inline const char *
LiveName(const LiveFilter &filter)
{
	return filter.replaces != NULL ? filter.replaces : RelationGetRelationName(filter.rel);
}

/*
 * The parameters that the relation's DEFAULT holds. Raises 55000 if it holds none, and
 * XX001 if they are not valid.
 */
extern LiveParameters LiveParametersOf(Relation rel);

/* Puts parameters into the relation's cache, which has none. */
extern void CacheLiveParameters(Relation rel, const LiveParameters &parameters);

/* Gives the cache of a filter that grows room for so many pages. */
extern void EnlargeLiveCache(Relation rel, uint32 pages);

/*
 * False for a table of the access method that was made by hand, without valid ones. It
 * holds nothing: VACUUM, ANALYZE and dumps pass over it.
 */
extern bool LiveHasParameters(Relation rel);

/*
 * Whether dedup_create() made this relation, or a restore of what it made: it has
 * parameters, the CHECK constraint that calls dedup_is_live(), and the trigger that
 * calls dedup_restore_trigger(), enabled or not. A relation by CREATE TABLE ... LIKE or
 * CREATE TABLE AS lacks at least one of them, so a restore could fill it before its
 * guarded table, whose rows would then all be refused. Cached with the relation.
 */
extern bool LiveIsWhole(Relation rel);

/* The access method's routine, by which live filters are known. */
extern const TableAmRoutine *LiveTableAm(void);

/* ---- keys (keys.cpp) -------------------------------------------------------- */

enum class LiveAnswer
{
	New, /* and remembered, in flight */
	Duplicate,
	TooOld /* timed filters: older than the window; new, not remembered */
};

/*
 * What a generation is: the clock's, or that of an event. A filter's time never goes
 * back: the clock's is taken as the newest that the filter has seen, if that is newer,
 * while an event older than the window is too old.
 */
enum class LiveTime
{
	Clock,
	Event
};

/*
 * Test-and-add in the current (sub)transaction. Waits, with nothing locked, for a
 * transaction that has the same key in flight. Counts nothing but keys that are renewed.
 *
 * In a filter with renew a duplicate is a sight of its key: the key gets the generation, if
 * that is newer than its own. Nobody waits for that: if another transaction has a newer sight
 * in flight, nothing is written.
 */
extern LiveAnswer LiveTestAndAdd(const LiveFilter &filter, uint64 hash, uint32 generation,
								 LiveTime time = LiveTime::Clock);

/*
 * Where a test-and-add of a key will read, as far as this session knows: nowhere if `page` is
 * NULL. It is no more than a hint, and stays harmless when pages have moved.
 */
struct LiveHint
{
	const uint8_t *page;
	const uint8_t *buffer; /* the server's description of it */
	dedup::live::Address address;
};

/* Locks nothing and raises nothing. */
extern LiveHint HintOfKey(const LiveFilter &filter, uint64 hash);

/* Fetches what is there, without waiting for it. */
extern void FetchHint(const LiveHint &hint);

/*
 * Fetches as little of the pages of many keys as makes the processor look up where they are in
 * memory. It waits for that, even for a prefetch, but does several at a time.
 */
extern void FindHints(const LiveHint *hints, int count);

/* What became of a key that was put into a filter although it may be there already. */
enum class LivePut
{
	Added, /* it is in flight as this subtransaction's: LiveTakeBack() takes it back */
	Own,   /* it was in flight as this transaction's already */
	Waited /* another transaction had it in flight, and has ended: anything may have changed */
};

/*
 * Test-and-add for an exact guard, whose filter covers a table. Returns true if there is proof
 * that the key is in no row of the table, within the window of `generation`, and if it is in
 * flight now, under that generation. Returns false, and has changed nothing, if the key may be
 * in a row. Waits as LiveTestAndAdd() does. Counts nothing.
 *
 * In a window of time a key that is not there is proof only if the filter has the keys of all
 * rows of the window: it covers them (LiveCoversFrom()); none of them has expired yet, as seen
 * from a row that is late; and the key's line cannot have given one up before its time.
 */
extern bool LiveAddIfNew(const LiveFilter &filter, uint64 hash, uint32 generation);

/*
 * Puts a key in flight for an exact guard, whether the filter has it or not, so that who asks
 * for it from now on waits for this transaction. Waits, with nothing locked, for another
 * transaction that has it in flight. Counts nothing.
 *
 * In a window of time it gets the row's generation, or that of long ago if the row is too old
 * for the window: such a key is only in flight. `put` receives which one. There it is put once
 * more for each row that has it: rows whose times are apart have it together, and each may be
 * taken back. So the answer is never Own.
 */
extern LivePut LivePutKey(const LiveFilter &filter, uint64 hash, uint32 generation, uint32 *put);

/*
 * When a key that the set may have came, among its keys: from 0, the oldest, to 1. A guess by
 * the few keys of the key's line.
 */
extern double LiveAgeOf(const LiveFilter &filter, uint64 hash);

/* Waits, with nothing locked, until a transaction has ended. */
extern void LiveWait(TransactionId xid);

/* Asks only; never waits: what other transactions have in flight is not seen. */
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
 * Takes back a key that this transaction added as subtransaction `xid` (what
 * GetCurrentTransactionId() said then), as if it had never been added. With a generation, that
 * of LivePutKey(), only what was put under it; 0: all sights of the key.
 */
extern void LiveTakeBack(const LiveFilter &filter, uint64 hash, TransactionId xid,
						 uint32 generation = 0);

/* ---- batches (batch.cpp) ---------------------------------------------------- */

/*
 * Test-and-add of a batch, in the order of the keys' pages and in one page in the order of the
 * batch. Several pages share a WAL record. Waits as LiveTestAndAdd() does.
 */
extern void LiveTestAndAddBatch(const LiveFilter &filter, const uint64 *hashes, size_t n,
								uint32 generation, LiveAnswer *answers);

/* ---- counters (counters.cpp) ------------------------------------------------ */

enum class LiveCounter
{
	New,       /* keys remembered */
	Duplicate, /* answered duplicate by is_new, dedup_new_keys */
	Skipped,   /* rows left out by a guard */
	Rejected,  /* rows that a guard raised 23505 for */
	Marked,    /* rows marked by a guard */
	Found,     /* looked for in the table of an exact guard, and found there */
	NotFound,  /* the same, not found */
	TooOld,    /* older than the window: neither remembered nor counted as new or duplicate */
	Renewed    /* duplicates that count from now on, in filters with renew */
};
constexpr int kLiveCounters = 9;

/*
 * Counts when the current (sub)transaction commits; never if it aborts. Rejected rows
 * count at once, since their error is what aborts it.
 */
extern void CountLive(const LiveFilter &filter, LiveCounter counter, int64 n);

/* Counts at once, whatever becomes of the transaction. */
extern void CountLiveNow(const LiveFilter &filter, LiveCounter counter, int64 n);

/* The newest generation that this transaction, or a committed one, added a key in. */
extern uint32 LiveClock(const LiveFilter &filter);
extern void NoteLiveGeneration(const LiveFilter &filter, uint32 generation);

/*
 * Keys of a time window gave way before their time. Remembered while buffers are
 * locked; WarnLiveEarly(), when none is, raises the WARNING, once in a filter's life.
 */
extern void NoteLiveEarly(const LiveFilter &filter, unsigned early);
extern void WarnLiveEarly(const LiveFilter &filter);

/* Whether so many keys, of so many added, gave way early that the filter is too small. */
extern bool LiveIsOverfull(const LiveFilter &filter, int64 early, int64 keys);

/* What the page of counters says. */
struct LiveCounts
{
	int64 value[kLiveCounters];
	TimestampTz since; /* 0: nothing was counted yet */
	uint32 clock;
	bool warned;
};
extern LiveCounts ReadLiveCounts(const LiveFilter &filter);

/*
 * The counts of a filter, and whether it covers its table, for a view: of one that the user
 * may ask. False if not, or if something is wrong: what that is, or NULL, is `problem`.
 */
extern bool ShowLiveCounts(Oid relid, LiveCounts *counts, bool *covers, char **problem);

/*
 * The counts of a filter become those of the one that replaces it, but that of new keys: the
 * keys that were added to the new one are counted there.
 */
extern void CarryLiveCounts(const LiveFilter &from, const LiveCounts &counts, const LiveFilter &to);

/* Counts what ended prepared transactions have left: before their ids grow too old. */
extern void SettleLiveCounters(const LiveFilter &filter);

/* Registers the transaction callbacks; once, from _PG_init. */
extern void InitLiveCounters(void);

/* ---- filters that cover a table (cover.cpp) ---------------------------------- */

/*
 * Whether a filter has the key of every row of the table that its exact guard guards: it
 * was loaded from that table, by this transaction or by one that has committed.
 */
extern bool LiveCovers(const LiveFilter &filter);

/*
 * From now on, if this (sub)transaction commits. Locks the filter in ShareRowExclusiveLock.
 * Whoever loads keys to make it cover the table takes that lock before, so that nobody
 * forgets a key meanwhile. `from`: as for RaiseLiveCoversFrom().
 */
extern void SetLiveCovers(const LiveFilter &filter, bool covers, uint32 from = 0);

/*
 * The generation from which on a window of time covers its table: rows of older ones may have
 * been passed over when their keys were loaded. It never goes down before the filter is emptied,
 * whatever becomes of the transaction, and is exact after a crash.
 */
extern uint32 LiveCoversFrom(const LiveFilter &filter);
extern void RaiseLiveCoversFrom(const LiveFilter &filter, uint32 from);

/* The same as a snapshot sees it, or this transaction now if that is NULL. */
extern bool LiveCoversFor(const LiveFilter &filter, Snapshot snapshot);

/* For VACUUM: returns the oldest transaction that is still named, or kNoXid. */
extern uint64 SettleLiveCovers(const LiveFilter &filter);

/* ---- guards ------------------------------------------------------------------- */

/*
 * What live filters need of the guard, which uses them, and not the other way round: it
 * registers these functions.
 */
struct LiveGuard
{
	/* Takes back the keys of rows that did not land, of queries that have ended. */
	void (*settle_rows)(void);

	/* The pages of a filter are being copied to another file: its keys are the same. */
	void (*file_copied)(Relation rel, Oid to);

	/* The table of an enabled guard that uses the filter, or InvalidOid. */
	Oid (*guarded_table)(Oid filter);

	/* The same for an exact guard. */
	Oid (*exactly_guarded_table)(Oid filter);

	/*
	 * The filter is about to be truncated. An error if an exact guard uses it whose table
	 * is not truncated, too.
	 */
	void (*emptied)(Relation rel);

	/*
	 * If this transaction has truncated the filter and its table, the empty filter covers the
	 * empty table: says so, and returns true.
	 */
	bool (*covers_anew)(const LiveFilter &filter);

	/* A key is taken out of a filter by function. */
	void (*key_forgotten)(void);
};

/* NULL: there are no guards. */
extern const LiveGuard *live_guard;

/* Called before this session asks or adds a key by function. */
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

/* What errors suggest as a prototype: live filters need a number of keys. */
inline constexpr char LIVE_PROTOTYPE[] = "dedup_filter(1000000, 0.01)";

/* The parameters of a filter that dedup_create() makes of a prototype. Raises errors. */
extern LiveParameters PlanLiveParameters(const dedup::Shape &prototype, int64 ttl, bool renew);

/* The same for a prototype as a value, without a ttl. `any_seed`: it has none. */
extern LiveParameters ReadLivePrototype(Datum prototype, bool *any_seed);

/* ---- refusals (refuse.cpp) -------------------------------------------------- */

/* Installs hooks; once, from _PG_init. */
extern void InitLiveRefusals(void);

/* The function that the CHECK constraint of a live filter calls. */
extern bool IsLiveCheckFunction(Oid function);

/* The function that the trigger of a live filter calls. */
extern bool IsRestoreTriggerFunction(Oid function);

#endif /* STREAMDEDUP_LIVE_LIVE_HPP */
