/*
 * Guards on distributed tables of Citus.
 *
 * A distributed table is a shell without rows on every node, and shards, which are plain tables.
 * Each shard has a live filter and a guard of its own. The shell has two triggers that never fire
 * there. Citus makes them on each shard, too, with the shard's number behind their names, whenever
 * it makes a shard: when it moves, copies or splits one, and for a new table.
 *
 *   trigger ~dedup_distributed         BEFORE INSERT OR UPDATE OR DELETE, each row, ENABLE ALWAYS.
 *                                      Refuses rows while the shard has no guard. While logical
 *                                      replication copies a shard, it keeps the filter up to date,
 *                                      since the guard's own triggers do not fire then.
 *   trigger ~dedup_distributed_delete  BEFORE DELETE, each row. Its WHEN clause is always false.
 *                                      The clause and the arguments say what the guard of a shard
 *                                      is to be. In the clause the server follows renames.
 *
 * When the second one is made on a shard, an event trigger makes the filter and the guard
 * (shard.cpp), in the same transaction. So all shards are guarded, or none.
 *
 * The shell comes with its triggers in the order of their names, so that the first one is there
 * before the guard.
 */
#ifndef STREAMDEDUP_GUARD_DISTRIBUTED_HPP
#define STREAMDEDUP_GUARD_DISTRIBUTED_HPP

#include "guard/request.hpp"

#define DISTRIBUTED_FUNCTION "dedup_guard_shard"
#define DISTRIBUTED_TRIGGER "~dedup_distributed"
#define DISTRIBUTED_DEFINITION "~dedup_distributed_delete"

/* ---- what the guard of a shard is to be (shard_plan.cpp) ------------------------------- */

/* The arguments of the second trigger, each "name=value". All are there but the last. */
enum ShardArgument
{
	SHARD_FILTER, /* the filter's name without the number of the shard */
	SHARD_METHOD, /* and what follows: the prototype */
	SHARD_KEYS,
	SHARD_FPR,
	SHARD_HASH,
	SHARD_SEED,
	SHARD_TTL, /* microseconds; 0: none */
	SHARD_RENEW,
	SHARD_UNLOGGED,
	SHARD_ON_DUPLICATE, /* without the column of mark */
	SHARD_EXACT,
	SHARD_NULLS_NOT_DISTINCT,
	SHARD_TOO_OLD,
	SHARD_ON_DELETE,
	SHARD_LOAD, /* what dedup_guard_distributed() was given; not there when the call is over */
	kShardArguments
};
extern const char *const shard_argument_names[kShardArguments];

struct ShardPlan
{
	GuardClause clause; /* without filter and side table */
	const char *arguments[kShardArguments];
};

/* A boolean argument. */
static inline bool
ShardFlag(const ShardPlan &plan, ShardArgument argument)
{
	return strcmp(plan.arguments[argument], "on") == 0;
}

/* Whether a function is that of these triggers. */
extern bool IsDistributedFunction(Oid function);

/* The trigger of a table that says what its shards' guard is to be; or NULL. */
extern const Trigger *FindShardDefinition(Relation rel);

/* Reads it, into the current memory. Returns whether it is one that we make. */
extern bool IsShardPlan(const Trigger *trigger, ShardPlan *plan);

/* The same, but raises 55000 if it is not. */
extern void ReadShardPlan(Relation rel, const Trigger *trigger, ShardPlan *plan);

/* Whether two plans are the same, but for the seed if `any_seed`, and for `load`. */
extern bool SameShardPlan(const ShardPlan &one, const ShardPlan &other, bool any_seed);

/*
 * The number of the shard behind the name of one of our triggers. Returns NULL if there is none,
 * or if the table's name does not end with it.
 */
extern const char *ShardOfTrigger(const char *trigger, const char *table);

/* ---- statements ------------------------------------------------------------------------ */

/*
 * Lets names mean what is in pg_catalog, until AtEOXact_GUC() is called for the level that is
 * returned: others can make operators in the schemas of the session's search path.
 */
extern int UseCatalogPath(void);

/*
 * Runs a statement with parameters of type text; NULL is NULL. Needs SPI. Its names mean what is in
 * pg_catalog.
 */
extern int RunWithTexts(const char *command, int parameters, const char *const *texts);

/*
 * The same for a statement that calls functions of users, under the session's search path. It must
 * have no operators.
 */
extern int CallWithTexts(const char *command, int parameters, const char *const *texts);

/* A value of the result of the last statement, or NULL. */
extern char *ResultText(int row, int column);

/* ---- on the coordinator (distributed.cpp) ----------------------------------------------- */

/* Whether a table is one of Citus, whose rows are in shards. */
extern bool IsCitusTable(Oid table);

/* Raises an error if dedup_guard() is called for a table whose rows are in shards. */
extern void RefuseDistributed(Relation rel);

/*
 * A distributed table got the trigger that says how its shards are guarded. Raises an error if
 * the table is distributed by a column that is not in the key: alter_distributed_table() makes
 * the trigger on the table that it distributes in another way.
 */
extern void CheckDefinition(const RangeVar *table);

/*
 * Adds the commands that drop a table's triggers of this kind, at most two, and returns their
 * number. RunDistributed() runs them: Citus takes them to the shards, where their guards go, too.
 */
extern int DropDistributedCommands(Relation rel, char **commands);
extern void RunDistributed(char *const *commands, int n);

/* ---- on the nodes (shard.cpp) ------------------------------------------------------------ */

/* A trigger is about to be dropped: if it says how a shard is guarded, the guard goes first. */
extern void ShardTriggerDropped(Oid table, const char *trigger);

/* Whether a guarded table is a shard, so that rows of what is attached to it are loaded. */
extern bool IsGuardedShard(Oid table);

#endif /* STREAMDEDUP_GUARD_DISTRIBUTED_HPP */
