/*
 * What differs between servers, for the parser, planner, executor and catalogs. With
 * compat_storage.hpp the only place that asks for the server's version. pg.hpp includes this.
 *
 * Most of it is macros, so that a file needs only the server's headers for those that it uses.
 */
#ifndef STREAMDEDUP_PG_COMPAT_HPP
#define STREAMDEDUP_PG_COMPAT_HPP

extern "C" {
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#endif
#if PG_VERSION_NUM >= 160000
#include "nodes/miscnodes.h"
#endif
#if PG_VERSION_NUM >= 140000
#include "utils/wait_event.h"
#else
#include "pgstat.h"
#endif
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif
}

/* ---- hooks: the parameters that not all servers have ----------------------------------- */

/*
 * X_PARAMETER is for a declaration, X for a call. Each has its comma. ProcessUtility_hook got
 * its parameter in the middle of the list, the others at the end.
 */
#if PG_VERSION_NUM >= 190000
#define EXPLAIN_PARAMETER , ExplainState *explain
#define EXPLAIN , explain
#else
#define EXPLAIN_PARAMETER
#define EXPLAIN
#endif

#if PG_VERSION_NUM >= 180000
#define ONCE_PARAMETER
#define ONCE
#else
#define ONCE_PARAMETER , bool once
#define ONCE , once
#endif

#if PG_VERSION_NUM >= 190000
#define JUMBLE_PARAMETER , const JumbleState *jumble
#define JUMBLE , jumble
#elif PG_VERSION_NUM >= 140000
#define JUMBLE_PARAMETER , JumbleState *jumble
#define JUMBLE , jumble
#else
#define JUMBLE_PARAMETER
#define JUMBLE
#endif

#if PG_VERSION_NUM >= 140000
#define READ_ONLY_TREE_PARAMETER bool read_only_tree,
#define READ_ONLY_TREE read_only_tree,
#else
#define READ_ONLY_TREE_PARAMETER
#define READ_ONLY_TREE
#endif

/* ---- errors that a caller may catch ------------------------------------------------------ */

/* Before 16 they are plain errors. SOFT_RETURN() returns the value after the error. */
#if PG_VERSION_NUM >= 160000
#define SOFT_ERROR(escontext, ...) errsave(escontext, __VA_ARGS__)
#define SOFT_RETURN(escontext, value, ...) ereturn(escontext, value, __VA_ARGS__)
#else
#define SOFT_ERROR(escontext, ...) ereport(ERROR, __VA_ARGS__)
#define SOFT_RETURN(escontext, value, ...) ereport(ERROR, __VA_ARGS__)
#endif

/* ---- settings ---------------------------------------------------------------------------- */

/* Memory that the server frees with the setting. */
#if PG_VERSION_NUM >= 160000
#define MALLOC_FOR_SETTING(size) guc_malloc(LOG, size)
#else
#define MALLOC_FOR_SETTING(size) malloc(size)
#endif

#if PG_VERSION_NUM < 150000
#define MarkGUCPrefixReserved(prefix) EmitWarningsOnPlaceholders(prefix)
#endif

/* ---- types and values -------------------------------------------------------------------- */

#if PG_VERSION_NUM < 140000
#define PG_LSNOID LSNOID
#endif

/* Multiranges; and hash functions of records and of tid. */
#define HAS_MULTIRANGES (PG_VERSION_NUM >= 140000)
#define HAS_HASHED_RECORDS (PG_VERSION_NUM >= 140000)
#define HAS_HASHED_TIDS (PG_VERSION_NUM >= 140000)

/* What pg_b64_encode() and pg_b64_decode() call a byte that is not text. */
#if PG_VERSION_NUM >= 180000
using Base64Byte = uint8;
#else
using Base64Byte = char;
#endif

/* Whether tuplesort_getdatum() returns copies, which the caller frees. */
#define TUPLESORT_COPIES (PG_VERSION_NUM < 160000)
#if PG_VERSION_NUM >= 160000
#define TUPLESORT_GETDATUM(sort, value, isnull)                                                    \
	tuplesort_getdatum(sort, true, false, value, isnull, NULL)
#else
#define TUPLESORT_GETDATUM(sort, value, isnull) tuplesort_getdatum(sort, true, value, isnull, NULL)
#endif
#if PG_VERSION_NUM < 150000
#define TUPLESORT_NONE false
#endif

/* ---- catalogs and privileges ------------------------------------------------------------- */

#if PG_VERSION_NUM >= 190000
#define SYSCACHE_ID SysCacheIdentifier
#else
#define SYSCACHE_ID int
#endif

#if PG_VERSION_NUM >= 160000
#define MAY_EXECUTE(function, role)                                                                \
	object_aclcheck(ProcedureRelationId, function, role, ACL_EXECUTE)
#define OWNS_RELATION(relid, role) object_ownercheck(RelationRelationId, relid, role)
#define OWNS_SCHEMA(schema, role) object_ownercheck(NamespaceRelationId, schema, role)
#else
#define MAY_EXECUTE(function, role) pg_proc_aclcheck(function, role, ACL_EXECUTE)
#define OWNS_RELATION(relid, role) pg_class_ownercheck(relid, role)
#define OWNS_SCHEMA(schema, role) pg_namespace_ownercheck(schema, role)
#endif

/* The privileges that a statement needs for a relation of its range table. */
#if PG_VERSION_NUM >= 160000
#define REQUIRED_PRIVILEGES(statement, rte)                                                        \
	((rte)->perminfoindex == 0 ? ACL_NO_RIGHTS                                                     \
							   : getRTEPermissionInfo((statement)->permInfos, rte)->requiredPerms)
#else
#define REQUIRED_PRIVILEGES(statement, rte) ((rte)->requiredPerms)
#endif

#if PG_VERSION_NUM < 170000
#define RestrictSearchPath() ((void) 0)
#endif

/* The functions of a name, with any number of arguments. */
#if PG_VERSION_NUM >= 190000
#define FUNCTIONS_NAMED(name, flags)                                                               \
	FuncnameGetCandidates(name, -1, NIL, false, false, false, true, flags)
#elif PG_VERSION_NUM >= 140000
#define FUNCTIONS_NAMED(name, flags) FuncnameGetCandidates(name, -1, NIL, false, false, false, true)
#else
#define FUNCTIONS_NAMED(name, flags) FuncnameGetCandidates(name, -1, NIL, false, false, true)
#endif

#if PG_VERSION_NUM >= 190000
#define DOMAIN_HAS_CONSTRAINTS(type) DomainHasConstraints(type, NULL)
#else
#define DOMAIN_HAS_CONSTRAINTS(type) DomainHasConstraints(type)
#endif

/* Constraints can be NOT ENFORCED, and NOT NULL is one, from 18 on. */
#define HAS_NOT_NULL_CONSTRAINTS (PG_VERSION_NUM >= 180000)
#if PG_VERSION_NUM >= 180000
#define IS_ENFORCED(constraint) ((constraint)->conenforced)
#else
#define IS_ENFORCED(constraint) true
#endif

/* Partitions can be detached concurrently, and triggers replaced, from 14 on. */
#if PG_VERSION_NUM >= 140000
#define PARENT_OF_PARTITION(table) get_partition_parent(table, true)
#define PARTITIONS_OF(parent, omit_detached) RelationGetPartitionDesc(parent, omit_detached)
#define HAS_DETACHED(partitions) ((partitions)->detached_exist)
#define IS_DETACH_FINALIZE(command) ((command)->subtype == AT_DetachPartitionFinalize)
#define REPLACES_TRIGGER(statement) ((statement)->replace)
#else
#define PARENT_OF_PARTITION(table) get_partition_parent(table)
#define PARTITIONS_OF(parent, omit_detached) RelationGetPartitionDesc(parent)
#define HAS_DETACHED(partitions) false
#define IS_DETACH_FINALIZE(command) false
#define REPLACES_TRIGGER(statement) false
#endif

/* Makes an index, whatever the role's privileges are. */
#if PG_VERSION_NUM >= 190000
#define DEFINE_INDEX(table, statement)                                                             \
	DefineIndex(NULL, table, statement, InvalidOid, InvalidOid, InvalidOid, -1, false, false,      \
				true, false, false)
#elif PG_VERSION_NUM >= 160000
#define DEFINE_INDEX(table, statement)                                                             \
	DefineIndex(table, statement, InvalidOid, InvalidOid, InvalidOid, -1, false, false, true,      \
				false, false)
#else
#define DEFINE_INDEX(table, statement)                                                             \
	DefineIndex(table, statement, InvalidOid, InvalidOid, InvalidOid, false, false, true, false,   \
				false)
#endif

/* Indexes can ignore that NULLs are distinct. */
#define HAS_NULLS_NOT_DISTINCT (PG_VERSION_NUM >= 150000)

/* Guards on tables of Citus: releases of Citus for 13 lack what they need. */
#define HAS_DISTRIBUTED_GUARDS (PG_VERSION_NUM >= 140000)

/* What a CREATE TABLE ... AS or CREATE MATERIALIZED VIEW makes. */
#if PG_VERSION_NUM >= 140000
#define OBJECT_MADE_BY(statement) ((statement)->objtype)
#else
#define OBJECT_MADE_BY(statement) ((statement)->relkind)
#endif

/* ---- trees ------------------------------------------------------------------------------- */

/* Before 16 walkers are declared without arguments, as C may. */
#if PG_VERSION_NUM >= 160000
#define WALKER_TYPE tree_walker_callback
#define STATE_WALKER_TYPE planstate_tree_walker_callback
#else
#define WALKER_TYPE bool (*)()
#define STATE_WALKER_TYPE bool (*)()
#endif

#if PG_VERSION_NUM >= 150000
#define IS_MERGE(operation) ((operation) == CMD_MERGE)
#else
#define IS_MERGE(operation) false
#endif

/* From 18 on an entry of the range table has the expressions of GROUP BY. */
#if PG_VERSION_NUM >= 180000
#define IS_GROUP(rte) ((rte)->rtekind == RTE_GROUP)
#define GROUP_EXPRESSIONS(rte) ((rte)->groupexprs)
#else
#define IS_GROUP(rte) false
#define GROUP_EXPRESSIONS(rte) NIL
#endif

/* The relations of its range table that a statement changes: whether it has some, and a loop. */
#if PG_VERSION_NUM >= 190000
#define HAS_TARGETS(statement) (!bms_is_empty((statement)->resultRelationRelids))
#define FOREACH_TARGET(rti, statement)                                                             \
	for (int rti = -1; (rti = bms_next_member((statement)->resultRelationRelids, rti)) >= 0;)
#else
#define HAS_TARGETS(statement) ((statement)->resultRelations != NIL)
#define FOREACH_TARGET(rti, statement)                                                             \
	for (int rti##_at = 0, rti;                                                                    \
		 rti##_at < list_length((statement)->resultRelations) &&                                   \
		 ((rti) = list_nth_int((statement)->resultRelations, rti##_at), true);                     \
		 rti##_at++)
#endif

/* ---- planner ----------------------------------------------------------------------------- */

/* PL/pgSQL asks a function whether it may change a variable in place. */
#define HAS_MODIFY_IN_PLACE (PG_VERSION_NUM >= 180000)

/* DISTINCT in parallel. */
#define HAS_PARALLEL_DISTINCT (PG_VERSION_NUM >= 150000)

#if PG_VERSION_NUM < 140000
#define F_ROW_NUMBER F_WINDOW_ROW_NUMBER
#endif

#if PG_VERSION_NUM >= 170000
#define ESTIMATE_ARRAY_LENGTH(root, array) estimate_array_length(root, array)
#else
#define ESTIMATE_ARRAY_LENGTH(root, array) estimate_array_length(array)
#endif

#if PG_VERSION_NUM >= 160000
#define DISTINCT_CLAUSE(root) ((root)->processed_distinctClause)
#else
#define DISTINCT_CLAUSE(root) ((root)->parse->distinctClause)
#endif

/*
 * Whether a hook inside the planner finds the aggregates of a query, and can forbid their partial
 * form.
 */
#define HAS_AGGREGATE_INFOS (PG_VERSION_NUM >= 140000)

/* Before 15 every custom path can be projected. */
#if PG_VERSION_NUM < 150000
#define CUSTOMPATH_SUPPORT_PROJECTION 0
#endif

#if PG_VERSION_NUM >= 180000
#define DISABLED_LIKE(path, child) ((path)->disabled_nodes = (child)->disabled_nodes)
#else
#define DISABLED_LIKE(path, child) ((void) 0)
#endif

/* Whether WindowAgg stops early, or leaves out rows. */
#if PG_VERSION_NUM >= 170000
#define LEAVES_OUT_ROWS(path) ((path)->runCondition != NIL || (path)->qual != NIL)
#elif PG_VERSION_NUM >= 150000
#define LEAVES_OUT_ROWS(path) ((path)->winclause->runCondition != NIL || (path)->qual != NIL)
#else
#define LEAVES_OUT_ROWS(path) false
#endif

/*
 * Before 14 a ModifyTable has a plan for each table. SOURCE_OF() is the place of the only plan
 * whose rows it takes, or NULL.
 */
#if PG_VERSION_NUM >= 140000
#define PLANS_OF_MODIFY(node) NIL
#define SOURCE_OF(node) (&outerPlan(node))
#define COUNT_TARGETS(state) ((state)->mt_nrels)
#else
#define PLANS_OF_MODIFY(node) ((node)->plans)
#define SOURCE_OF(node)                                                                            \
	(list_length((node)->plans) == 1 ? (Plan **) &linitial((node)->plans) : NULL)
#define COUNT_TARGETS(state) ((state)->mt_nplans)
#endif

/* ---- executor ---------------------------------------------------------------------------- */

/* SPI passes rows on to a receiver, one by one. */
#define HAS_SPI_RECEIVERS (PG_VERSION_NUM >= 140000)

/* What an index learns of an UPDATE that does not change its columns. */
#if PG_VERSION_NUM >= 140000
#define INDEX_UNCHANGED_PARAMETER bool unchanged,
#else
#define INDEX_UNCHANGED_PARAMETER
#endif

#if PG_VERSION_NUM >= 190000
#define TABLE_BEGINSCAN(rel, snapshot) table_beginscan(rel, snapshot, 0, NULL, SO_NONE)
#else
#define TABLE_BEGINSCAN(rel, snapshot) table_beginscan(rel, snapshot, 0, NULL)
#endif

#if PG_VERSION_NUM >= 190000
#define INDEX_BEGINSCAN(rel, index, snapshot, columns)                                             \
	index_beginscan(rel, index, snapshot, NULL, columns, 0, SO_NONE)
#elif PG_VERSION_NUM >= 180000
#define INDEX_BEGINSCAN(rel, index, snapshot, columns)                                             \
	index_beginscan(rel, index, snapshot, NULL, columns, 0)
#else
#define INDEX_BEGINSCAN(rel, index, snapshot, columns)                                             \
	index_beginscan(rel, index, snapshot, columns, 0)
#endif

#endif /* STREAMDEDUP_PG_COMPAT_HPP */
