/*
 * The common declarations of the access method's parts: the callbacks that are not in table_am.cpp.
 */
#ifndef STREAMDEDUP_LIVE_TABLE_AM_HPP
#define STREAMDEDUP_LIVE_TABLE_AM_HPP

#include "live/live.hpp"
#include "pg/compat_storage.hpp"

[[noreturn]] extern void RefuseLive(Relation rel, const char *what, const char *hint);

/* The callbacks of scans, and of rows by their place (scan.cpp) */
extern void FillLiveScans(TableAmRoutine *am);

/* multi_insert, which COPY FROM calls: a restore (restore.cpp) */
extern void LiveMultiInsert(Relation rel, TupleTableSlot **slots, int count, CommandId command,
							INSERT_OPTIONS options, struct BulkInsertStateData *state);

/* relation_vacuum: VACUUM (vacuum.cpp) */
extern void LiveVacuum(Relation rel, VacuumParameters *params, BufferAccessStrategy strategy);

/* relation_copy_for_cluster: VACUUM FULL (vacuum.cpp) */
extern void LiveCopyForCluster(Relation from, Relation to, Relation index, bool sort,
							   TransactionId oldest_xmin, REPACK_SNAPSHOT TransactionId *xid_cutoff,
							   MultiXactId *multi_cutoff, double *tuples, double *vacuumed,
							   double *recently_dead);

#endif /* STREAMDEDUP_LIVE_TABLE_AM_HPP */
