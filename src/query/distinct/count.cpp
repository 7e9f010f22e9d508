/*
 * Replaces count(DISTINCT x) in the query before it is planned.
 *
 * So the planner does for the replacement what it does for any aggregate: FILTER, HAVING, grouping
 * sets, partial aggregation in parallel workers. The text of a view does not change, and EXPLAIN
 * VERBOSE shows the aggregate that runs.
 *
 * These counts stay exact:
 *   - counts of types without a hash function, such as anonymous records; of types that are
 *     compared here by another equality than their default one, by which keys are hashed; and of
 *     collatable types without a collation
 *   - all counts in a database without the extension, or with a version of it that has no
 *     such aggregate, and all counts of a user who may not call the aggregate
 *   - counts only over foreign tables whose wrapper can have the other server count: with the
 *     replacement, the rows would be fetched instead
 *   - counts that are out of scope (scope.hpp)
 *
 * Over distributed tables query/citus.cpp changes the replacement further, so that Citus pushes it
 * down to its workers, which then send sketches. Counts over these tables stay exact if Citus has
 * not created the extension on its workers.
 */
#include "query/distinct/count.hpp"
#include "query/distinct/distributed.hpp"
#include "query/distinct/exactly.hpp"
#include "pg/catalog.hpp"
#include "pg/keys.hpp"

extern "C" {
#include "access/genam.h"
#include "access/table.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_class.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_proc.h"
#include "foreign/fdwapi.h"
#include "nodes/nodeFuncs.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/plancache.h"
#include "utils/syscache.h"
#include "utils/typcache.h"
}

namespace
{

/* count("any"); fmgroids.h of PostgreSQL 13 has no name for it */
constexpr Oid COUNT_ANY_OID = 2147;

const char *const EXTENSION = "streamdedup";
const char *const AGGREGATE = "approx_count_distinct";

/*
 * The aggregates of this database's extension that replace counts. Each is InvalidOid if it does
 * not exist.
 */
struct Aggregates
{
	Oid extension;
	Oid schema;
	Oid any; /* approx_count_distinct("any") */
};

} /* namespace */

/* ---- the aggregates --------------------------------------------------------- */

/* The result of FindAggregates(), as long as it is valid. */
static bool aggregates_known = false;
static Aggregates known_aggregates;
static uint64 changes = 0;

/* A count stayed exact because the aggregate was missing; a cached plan may contain it. */
static bool was_missing = false;

/*
 * Creating the extension, dropping it, or moving it to another schema changes rows of pg_proc, and
 * so do GRANT and REVOKE. The server itself drops plans that contain the aggregate, as for any
 * function.
 */
static void
ProcChanged(Datum arg, SYSCACHE_ID cache, uint32 hash)
{
	if (IsPlanMark(hash))
		return;
	aggregates_known = false;
	changes++;
	if (was_missing)
	{
		was_missing = false;
		ResetPlanCache();
	}
}

/*
 * Finds the extension's function of one argument that returns bigint, in the extension's schema, or
 * InvalidOid. The function must be a member of the extension, because every user who may create
 * functions in that schema can make one of this name.
 */
static Oid
FindMember(const Aggregates &of, const char *name, Oid argument, char kind)
{
	oidvector *arguments = buildoidvector(&argument, 1);
	HeapTuple tuple = SearchSysCache3(PROCNAMEARGSNSP, CStringGetDatum(name),
									  PointerGetDatum(arguments), ObjectIdGetDatum(of.schema));
	Oid function = InvalidOid;

	pfree(arguments);
	if (HeapTupleIsValid(tuple))
	{
		Form_pg_proc form = (Form_pg_proc) GETSTRUCT(tuple);

		if (form->prokind == kind && form->prorettype == INT8OID)
			function = form->oid;
		ReleaseSysCache(tuple);
	}
	if (OidIsValid(function) && getExtensionOfObject(ProcedureRelationId, function) != of.extension)
		return InvalidOid;
	return function;
}

static Aggregates
LookUpAggregates(void)
{
	Aggregates found = {};
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple tuple;
	Relation rel;

	rel = table_open(ExtensionRelationId, AccessShareLock);
	ScanKeyInit(&key, Anum_pg_extension_extname, BTEqualStrategyNumber, F_NAMEEQ,
				CStringGetDatum(EXTENSION));
	scan = systable_beginscan(rel, ExtensionNameIndexId, true, NULL, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
	{
		found.extension = ((Form_pg_extension) GETSTRUCT(tuple))->oid;
		found.schema = ((Form_pg_extension) GETSTRUCT(tuple))->extnamespace;
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	if (OidIsValid(found.extension))
		found.any = FindMember(found, AGGREGATE, ANYOID, PROKIND_AGGREGATE);
	return found;
}

/* Does the same, and remembers the result until something changes. */
static Aggregates
FindAggregates(void)
{
	static bool registered = false;

	if (!registered)
	{
		CacheRegisterSyscacheCallback(PROCOID, ProcChanged, (Datum) 0);
		registered = true;
	}
	if (!aggregates_known)
	{
		uint64 before = changes;

		known_aggregates = LookUpAggregates();
		aggregates_known = changes == before;
	}
	return known_aggregates;
}

/* ---- what can be replaced --------------------------------------------------- */

bool
IsHashedEquality(Oid type, Oid equality)
{
	TypeCacheEntry *entry = lookup_type_cache(type, TYPECACHE_EQ_OPR);

	return OidIsValid(entry->eq_opr) && entry->eq_opr == equality && IsWidelyHashableType(type);
}

bool
IsCountDistinct(const Aggref *aggregate)
{
	return aggregate->aggfnoid == COUNT_ANY_OID && aggregate->aggdistinct != NIL;
}

/*
 * Returns whether the query reads only foreign tables of wrappers that may have the other server
 * group.
 */
static bool
IsForeign(const Query *query)
{
	bool foreign = false;
	ListCell *cell;

	check_stack_depth();
	foreach(cell, query->rtable)
	{
		const RangeTblEntry *entry = lfirst_node(RangeTblEntry, cell);

		switch (entry->rtekind)
		{
			case RTE_RELATION:
				if (entry->relkind != RELKIND_FOREIGN_TABLE ||
					GetFdwRoutineByRelId(entry->relid)->GetForeignUpperPaths == NULL)
					return false;
				foreign = true;
				break;
			case RTE_SUBQUERY:
				if (!IsForeign(entry->subquery))
					return false;
				foreign = true;
				break;
			case RTE_JOIN:
				break;
			default:
				if (!IS_GROUP(entry))
					return false;
		}
	}
	return foreign;
}

/*
 * Returns the level of the query that computes the aggregate, or NULL if that query is planned
 * separately.
 */
static const ScopeLevel *
LevelOf(const Aggref *aggregate, const ScopeLevel *level)
{
	for (Index up = aggregate->agglevelsup; up > 0 && level != NULL; up--)
		level = level->outer;
	return level;
}

/*
 * The parser allows count(DISTINCT x) to be ordered by x only. The direction does not change a
 * count, but the operator defines equality.
 */
static bool
CanReplace(const Aggref *aggregate, const ScopeLevel *level)
{
	SortGroupClause *distinct;
	Node *argument;
	Oid type;
	ListCell *cell;

	if (list_length(aggregate->args) != 1 || list_length(aggregate->aggdistinct) != 1 ||
		aggregate->aggkind != AGGKIND_NORMAL || aggregate->aggvariadic)
		return false;
	distinct = linitial_node(SortGroupClause, aggregate->aggdistinct);
	foreach(cell, aggregate->aggorder)
		if (lfirst_node(SortGroupClause, cell)->tleSortGroupRef != distinct->tleSortGroupRef)
			return false;

	argument = (Node *) linitial_node(TargetEntry, aggregate->args)->expr;
	type = exprType(argument);
	if (!IsHashedEquality(type, distinct->eqop) ||
		(OidIsValid(get_typcollation(type)) && !OidIsValid(exprCollation(argument))))
		return false;

	level = LevelOf(aggregate, level);
	return level != NULL && !IsForeign(level->query);
}

/* ---- replacing -------------------------------------------------------------- */

static void
Replace(Aggref *aggregate, Oid by)
{
	TargetEntry *entry = linitial_node(TargetEntry, aggregate->args);

	aggregate->aggfnoid = by;
	aggregate->aggdistinct = NIL;
	aggregate->aggorder = NIL;
	aggregate->aggtranstype = InvalidOid; /* the planner fills it in */
	aggregate->inputcollid = exprCollation((Node *) entry->expr);
	entry->ressortgroupref = 0;
}

/*
 * Removes ORDER BY and DISTINCT from a query that returns one row at most. With them, Citus would
 * have the workers sort their states, which are cstrings and cannot be ordered. Returns false if
 * there can be several rows.
 */
static bool
ForgetOrderOfOneRow(Query *query)
{
	if (query->sortClause == NIL && query->distinctClause == NIL)
		return true;
	if (query->groupClause != NIL || query->groupingSets != NIL)
		return true; /* there is nothing to sort */
	if (query->hasTargetSRFs)
		return false;
	query->sortClause = NIL;
	query->distinctClause = NIL;
	query->hasDistinctOn = false;
	return true;
}

/* ---- the whole query -------------------------------------------------------- */

namespace
{

struct Replacing
{
	Aggregates by;
	bool distributed;
	int replaced;
};

} /* namespace */

static void
VisitAggregate(Aggref *aggregate, const ScopeLevel *level, ScopeWalk *walk)
{
	Replacing *replacing = (Replacing *) walk->context;

	if (!IsCountDistinct(aggregate) || !CanReplace(aggregate, level))
		return;
	if (replacing->distributed && !ForgetOrderOfOneRow(LevelOf(aggregate, level)->query))
		return;
	Replace(aggregate, replacing->by.any);
	replacing->replaced++;
}

Query *
RewriteCountDistinct(Query *query, bool distributed)
{
	Replacing replacing = {};
	ScopeWalk walk = {};
	Query *copy;

	replacing.by = FindAggregates();
	replacing.distributed = distributed;
	if (!OidIsValid(replacing.by.any) || !MayCall(replacing.by.any))
	{
		was_missing = true;
		return query;
	}
	if (distributed && !IsDistributedExtension(replacing.by.extension))
		return query;
	walk.visit_aggregate = VisitAggregate;
	walk.context = &replacing;
	copy = (Query *) copyObjectImpl(query);
	WalkStatement(copy, &walk);
	return replacing.replaced > 0 ? copy : query;
}
