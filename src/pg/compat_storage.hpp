/*
 * What differs between servers, for files, pages, transactions and statistics; see compat.hpp.
 */
#ifndef STREAMDEDUP_PG_COMPAT_STORAGE_HPP
#define STREAMDEDUP_PG_COMPAT_STORAGE_HPP

#include "pg/pg.hpp"

extern "C" {
#if PG_VERSION_NUM >= 150000
#include "access/xlogrecovery.h"
#endif
#include "storage/bufmgr.h"
#include "storage/smgr.h"
}

/* ---- files of relations ------------------------------------------------------------------ */

/* FileSubid() is the subtransaction that has replaced the file. */
#if PG_VERSION_NUM >= 160000
using FileLocator = RelFileLocator;
#define FileOf(rel) ((rel)->rd_locator)
#define FileNumber(file) ((file).relNumber)
#define FileSubid(rel) ((rel)->rd_newRelfilelocatorSubid)
#define SetFile(file, space, db, number)                                                           \
	((file)->spcOid = (space), (file)->dbOid = (db), (file)->relNumber = (number))
#define ReplaceFile(rel) RelationSetNewRelfilenumber(rel, (rel)->rd_rel->relpersistence)
#else
using FileLocator = RelFileNode;
#define FileOf(rel) ((rel)->rd_node)
#define FileNumber(file) ((file).relNode)
#define FileSubid(rel) ((rel)->rd_newRelfilenodeSubid)
#define SetFile(file, space, db, number)                                                           \
	((file)->spcNode = (space), (file)->dbNode = (db), (file)->relNode = (number))
#define ReplaceFile(rel) RelationSetNewRelfilenode(rel, (rel)->rd_rel->relpersistence)
#endif
#define FileNumberOf(rel) FileNumber(FileOf(rel))

#if PG_VERSION_NUM >= 170000
#define OpenFile(file) smgropen((file), INVALID_PROC_NUMBER)
#else
#define OpenFile(file) smgropen((file), InvalidBackendId)
#endif

/* ---- buffers ----------------------------------------------------------------------------- */

#if PG_VERSION_NUM >= 190000
using BufferLock = BufferLockMode;
#else
using BufferLock = int;
#endif

/* Whether a buffer that is known from before can be pinned without a look at the table. */
#define HAS_RECENT_BUFFERS (PG_VERSION_NUM >= 140000)

/* What storage/buf_internals.h says of a buffer. */
#if PG_VERSION_NUM >= 190000
#define BUFFER_STATE(buffer) pg_atomic_read_u64(&GetBufferDescriptor((buffer) -1)->state)
#define BUFFER_IS_LOCKED(buffer) BufferIsLockedByMe(buffer)
#define BUFFER_IS_LOCKED_EXCLUSIVELY(buffer) BufferIsLockedByMeInMode(buffer, BUFFER_LOCK_EXCLUSIVE)
#else
#define BUFFER_STATE(buffer) pg_atomic_read_u32(&GetBufferDescriptor((buffer) -1)->state)
#define BUFFER_CONTENT_LOCK(buffer) BufferDescriptorGetContentLock(GetBufferDescriptor((buffer) -1))
#define BUFFER_IS_LOCKED(buffer) LWLockHeldByMe(BUFFER_CONTENT_LOCK(buffer))
#define BUFFER_IS_LOCKED_EXCLUSIVELY(buffer)                                                       \
	LWLockHeldByMeInMode(BUFFER_CONTENT_LOCK(buffer), LW_EXCLUSIVE)
#endif

/* A buffer of a file without a relation. Before 15 the file is always a permanent one. */
#if PG_VERSION_NUM >= 150000
#define READ_FILE_BUFFER(file, block, strategy, permanent)                                         \
	ReadBufferWithoutRelcache(file, MAIN_FORKNUM, block, RBM_NORMAL, strategy, permanent)
#else
#define READ_FILE_BUFFER(file, block, strategy, permanent)                                         \
	ReadBufferWithoutRelcache(file, MAIN_FORKNUM, block, RBM_NORMAL, strategy)
#endif

/* Adds zero pages to the end of a file. The caller has the lock for that. */
static inline void
AddZeroPages(SMgrRelation file, BlockNumber have, BlockNumber want)
{
#if PG_VERSION_NUM >= 160000
	if (have < want)
		smgrzeroextend(file, MAIN_FORKNUM, have, (int) (want - have), false);
#else
	PGAlignedBlock zero;

	memset(zero.data, 0, BLCKSZ);
	for (; have < want; have++)
	{
		CHECK_FOR_INTERRUPTS();
		smgrextend(file, MAIN_FORKNUM, have, zero.data, false);
	}
#endif
}

/* The end of what is replayed. Before 15 nobody says which record that is. */
#if PG_VERSION_NUM >= 150000
#define END_OF_REPLAY() GetCurrentReplayRecPtr(NULL)
#else
#define END_OF_REPLAY() PG_UINT64_MAX
#endif

/* The size of a value in a TOAST table. */
#if PG_VERSION_NUM >= 140000
#define EXTERNAL_SIZE(pointer) ((int32) VARATT_EXTERNAL_GET_EXTSIZE(pointer))
#else
#define EXTERNAL_SIZE(pointer) ((pointer).va_extsize)
#endif

/* ---- transactions and locks -------------------------------------------------------------- */

#if PG_VERSION_NUM >= 170000
#define LOCAL_XID (MyProc->vxid.lxid)
#define OLDEST_CLOG_XID (TransamVariables->oldestClogXid)
#else
#define LOCAL_XID (MyProc->lxid)
#define OLDEST_CLOG_XID (ShmemVariableCache->oldestClogXid)
#endif

/* How many transactions had ended when the snapshot was taken. 13 does not count them. */
#if PG_VERSION_NUM >= 140000
#define ENDED_BEFORE(snapshot) ((snapshot)->snapXactCompletionCount)
#else
#define ENDED_BEFORE(snapshot) ((snapshot)->xcnt)
#endif

/* Whether the server keeps bounds of what all snapshots see. */
#define HAS_VISIBILITY_BOUNDS (PG_VERSION_NUM >= 140000)
#if PG_VERSION_NUM >= 140000
#define OLDEST_RUNNING(rel) GetOldestNonRemovableTransactionId(rel)
#else
#define OLDEST_RUNNING(rel) GetOldestXmin(rel, PROCARRAY_FLAGS_VACUUM)
#endif

#if PG_VERSION_NUM >= 170000
#define LOCK_HELD(tag, mode) LockHeldByMe(tag, mode, false)
#else
#define LOCK_HELD(tag, mode) LockHeldByMe(tag, mode)
#endif

/* ---- statistics -------------------------------------------------------------------------- */

#if PG_VERSION_NUM >= 160000
#define COUNTED_DELETED(rel) ((rel)->pgstat_info->counts.tuples_deleted)
#else
#define COUNTED_DELETED(rel) ((rel)->pgstat_info->t_counts.t_tuples_deleted)
#endif

/* Rows of a subtransaction that a TRUNCATE has removed. */
#if PG_VERSION_NUM >= 150000
#define INSERTED_BEFORE_TRUNCATE(level) ((level)->inserted_pre_truncdrop)
#define DELETED_BEFORE_TRUNCATE(level) ((level)->deleted_pre_truncdrop)
#else
#define INSERTED_BEFORE_TRUNCATE(level) ((level)->inserted_pre_trunc)
#define DELETED_BEFORE_TRUNCATE(level) ((level)->deleted_pre_trunc)
#endif

/* ---- VACUUM ------------------------------------------------------------------------------ */

#if PG_VERSION_NUM >= 180000
#define VACUUM_DELAY_POINT() vacuum_delay_point(false)
#else
#define VACUUM_DELAY_POINT() vacuum_delay_point()
#endif

/* Notes the size of a relation without rows and indexes, and its oldest transactions. */
#if PG_VERSION_NUM >= 180000
#define UPDATE_RELSTATS(rel, blocks, xid, multi)                                                   \
	vac_update_relstats(rel, blocks, 0, 0, 0, false, xid, multi, NULL, NULL, false)
#elif PG_VERSION_NUM >= 150000
#define UPDATE_RELSTATS(rel, blocks, xid, multi)                                                   \
	vac_update_relstats(rel, blocks, 0, 0, false, xid, multi, NULL, NULL, false)
#else
#define UPDATE_RELSTATS(rel, blocks, xid, multi)                                                   \
	vac_update_relstats(rel, blocks, 0, 0, false, xid, multi, false)
#endif

/* Tells the statistics that a relation was vacuumed, and has no rows. */
#if PG_VERSION_NUM >= 190000
#define REPORT_VACUUM(rel, start) pgstat_report_vacuum(rel, 0, 0, start)
#elif PG_VERSION_NUM >= 180000
#define REPORT_VACUUM(rel, start) pgstat_report_vacuum(RelationGetRelid(rel), false, 0, 0, start)
#else
#define REPORT_VACUUM(rel, start)                                                                  \
	((void) (start), pgstat_report_vacuum(RelationGetRelid(rel), false, 0, 0))
#endif

/* ---- table access methods ---------------------------------------------------------------- */

/* Scans of a range of rows' numbers. */
#define HAS_TID_RANGE_SCANS (PG_VERSION_NUM >= 140000)

/*
 * Parameters of the functions of a table access method: options of INSERT, UPDATE and DELETE;
 * whether a row moves to another partition; which indexes an UPDATE changes; what ANALYZE reads
 * a block by; the oldest transaction that it knows; the snapshot of REPACK CONCURRENTLY.
 */
#if PG_VERSION_NUM >= 190000
#define INSERT_OPTIONS uint32
#define DELETE_OPTIONS uint32,
#define IS_MOVED_PARAMETER
#define OLDEST_XMIN_PARAMETER
#define REPACK_SNAPSHOT Snapshot,
using VacuumParameters = const struct VacuumParams;
#else
#define INSERT_OPTIONS int
#define DELETE_OPTIONS
#define IS_MOVED_PARAMETER , bool
#define OLDEST_XMIN_PARAMETER TransactionId,
#define REPACK_SNAPSHOT
using VacuumParameters = struct VacuumParams;
#endif

#if PG_VERSION_NUM >= 160000
#define UPDATED_INDEXES TU_UpdateIndexes
#define relation_set_new_file relation_set_new_filelocator
#else
#define UPDATED_INDEXES bool
#define relation_set_new_file relation_set_new_filenode
#endif

#if PG_VERSION_NUM >= 170000
#define ANALYZE_BLOCK_PARAMETERS ReadStream *
#else
#define ANALYZE_BLOCK_PARAMETERS BlockNumber, BufferAccessStrategy
#endif

/* Makes a relation like another for a rewrite, and puts it in the place of the other. */
#if PG_VERSION_NUM >= 190000
#define MAKE_NEW_HEAP_HEADER "commands/repack.h"
#else
#define MAKE_NEW_HEAP_HEADER "commands/cluster.h"
#endif
#if PG_VERSION_NUM >= 150000
#define MAKE_NEW_HEAP(relid, space, access_method, persistence)                                    \
	make_new_heap(relid, space, access_method, persistence, NoLock)
#else
#define MAKE_NEW_HEAP(relid, space, access_method, persistence)                                    \
	make_new_heap(relid, space, persistence, NoLock)
#endif
#if PG_VERSION_NUM >= 190000
#define FINISH_HEAP_SWAP(relid, made, xid, multi, persistence)                                     \
	finish_heap_swap(relid, made, false, false, false, true, true, xid, multi, persistence)
#else
#define FINISH_HEAP_SWAP(relid, made, xid, multi, persistence)                                     \
	finish_heap_swap(relid, made, false, false, false, true, xid, multi, persistence)
#endif

#endif /* STREAMDEDUP_PG_COMPAT_STORAGE_HPP */
