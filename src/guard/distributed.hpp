/*
 * Guards on distributed tables of Citus.
 *
 * A distributed table is a shell without rows on every node, and shards, which are plain tables.
 * Each shard has a live filter and a guard of its own. The shell has two triggers that never fire
 * there. Whenever Citus makes a shard, it makes these triggers on the shard, too, with the shard's
 * number behind their names. It makes shards for a new table, and when it moves, copies or splits a
 * shard.
 *
 *   trigger ~dedup_distributed         BEFORE INSERT OR UPDATE OR DELETE, each row, ENABLE ALWAYS.
 *                                      Refuses rows while the shard has no guard. While logical
 *                                      replication copies a shard, it keeps the filter up to date,
 *                                      because the guard's own triggers do not fire then.
 *   trigger ~dedup_distributed_delete  BEFORE DELETE, each row. Its WHEN clause is always false.
 *                                      The clause and the arguments define the guard of a shard.
 *                                      The server follows renames in the clause.
 *
 * When the second trigger is made on a shard, an event trigger makes the filter and the guard
 * (shard.cpp), in the same transaction. So all shards are guarded, or none.
 *
 * The shell creates its triggers in the order of their names, so the first one exists before the
 * guard.
 */
#ifndef STREAMDEDUP_GUARD_DISTRIBUTED_HPP
#define STREAMDEDUP_GUARD_DISTRIBUTED_HPP

#include "guard/request.hpp"

#define DISTRIBUTED_FUNCTION "dedup_guard_shard"
#define DISTRIBUTED_TRIGGER "~dedup_distributed"
#define DISTRIBUTED_DEFINITION "~dedup_distributed_delete"

/* ---- the definition of a shard's guard (shard_plan.cpp) -------------------------------- */

/* The arguments of the second trigger, each "name=value". Only the last may be missing. */
enum ShardArgument
{
	SHARD_FILTER, /* the filter's name without the number of the shard */
	SHARD_METHOD, /* this and the following ones: the prototype */
	SHARD_KEYS,
	SHARD_FPR,
	SHARD_HASH,
	SHARD_SEED,
	SHARD_TTL, /* microseconds; 0: no ttl */
	SHARD_RENEW,
	SHARD_UNLOGGED,
	SHARD_ON_DUPLICATE, /* without the column of mark */
	SHARD_EXACT,
	SHARD_NULLS_NOT_DISTINCT,
	SHARD_TOO_OLD,
	SHARD_ON_DELETE,
	SHARD_LOAD, /* the argument of dedup_guard_distributed(); missing when the call is over */
	kShardArguments
};
extern const char *const shard_argument_names[kShardArguments];

struct ShardPlan
{
	GuardClause clause; /* without filter and side table */
	const char *arguments[kShardArguments];
};

/* Returns a boolean argument. */
static inline bool
ShardFlag(const ShardPlan &plan, ShardArgument argument)
{
	return strcmp(plan.arguments[argument], "on") == 0;
}

/* Returns whether a function is that of these triggers. */
extern bool IsDistributedFunction(Oid function);

/* Returns the trigger of a table that defines the guards of its shards, or NULL. */
extern const Trigger *FindShardDefinition(Relation rel);

/*
 * Reads such a trigger into the current memory context. Returns whether it is one that this
 * extension makes.
 */
extern bool IsShardPlan(const Trigger *trigger, ShardPlan *plan);

/* Does the same, but raises 55000 if it is not. */
extern void ReadShardPlan(Relation rel, const Trigger *trigger, ShardPlan *plan);

/* Returns whether two plans are the same, except for the seed if `any_seed`, and for `load`. */
extern bool SameShardPlan(const ShardPlan &one, const ShardPlan &other, bool any_seed);

/*
 * Returns the number of the shard behind the name of one of our triggers. Returns NULL if there is
 * none, or if the table's name does not end with it.
 */
extern const char *ShardOfTrigger(const char *trigger, const char *table);

/* ---- statements ------------------------------------------------------------------------ */

/*
 * Makes names refer to pg_catalog, until AtEOXact_GUC() is called for the returned level. Other
 * users can make operators in the schemas of the session's search path.
 */
extern int UseCatalogPath(void);

/*
 * Runs a statement with parameters of type text; NULL is passed as NULL. Needs SPI. Names refer to
 * pg_catalog.
 */
extern int RunWithTexts(const char *command, int parameters, const char *const *texts);

/*
 * Does the same for a statement that calls users' functions, with the session's search path. It
 * must have no operators.
 */
extern int CallWithTexts(const char *command, int parameters, const char *const *texts);

/* Returns a value of the result of the last statement, or NULL. */
extern char *ResultText(int row, int column);

/* ---- on the coordinator (distributed.cpp) ----------------------------------------------- */

/* Returns whether a table belongs to Citus and its rows are in shards. */
extern bool IsCitusTable(Oid table);

/* Raises an error if dedup_guard() is called for a table whose rows are in shards. */
extern void RefuseDistributed(Relation rel);

/*
 * Called when a distributed table got the trigger that defines the guards of its shards. Raises an
 * error if the table is distributed by a column that is not in the key: alter_distributed_table()
 * makes the trigger on the table that it distributes in another way.
 */
extern void CheckDefinition(const RangeVar *table);

/*
 * Adds the commands that drop a table's triggers of this kind, at most two, and returns their
 * number. RunDistributed() runs them. Citus forwards them to the shards, where the guards are
 * dropped, too.
 */
extern int DropDistributedCommands(Relation rel, char **commands);
extern void RunDistributed(char *const *commands, int n);

/* ---- on the nodes (shard.cpp) ------------------------------------------------------------ */

/*
 * Called when a trigger is about to be dropped. If it defines a shard's guard, the guard is dropped
 * first.
 */
extern void ShardTriggerDropped(Oid table, const char *trigger);

/*
 * Returns whether a guarded table is a shard. Rows of a table that is attached to it are then
 * loaded.
 */
extern bool IsGuardedShard(Oid table);

#endif /* STREAMDEDUP_GUARD_DISTRIBUTED_HPP */
