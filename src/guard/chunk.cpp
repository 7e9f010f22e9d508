/* Chunks of TimescaleDB's hypertables; see chunk.hpp. */
#include "guard/chunk.hpp"
#include "guard/guard.hpp"
#include "pg/catalog.hpp"

extern "C" {
#include "access/genam.h"
#include "access/htup_details.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "nodes/nodeFuncs.h"
#include "nodes/nodes.h"
#include "nodes/primnodes.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/typcache.h"
}

/* ---- times --------------------------------------------------------------------------- */

namespace
{

/* The bounds of a table, as this session remembers them. */
struct KnownBounds
{
	Oid table; /* must be first */
	NameData column;
	TimeBounds bounds;
};

} /* namespace */

static HTAB *known_bounds = NULL;
/* counts how often the remembered bounds were dropped because tables may have other bounds now */
static uint64 bounds_forgotten = 0;

/* The most bounds that are kept. */
constexpr long BOUNDS_KEPT = 4096;

static void
ForgetBounds(Oid table)
{
	bounds_forgotten++;
	if (known_bounds == NULL)
		return;
	if (OidIsValid(table))
		hash_search(known_bounds, &table, HASH_REMOVE, NULL);
	else
	{
		hash_destroy(known_bounds);
		known_bounds = NULL;
	}
}

static void
WatchBounds(void)
{
	static bool watching = false;

	if (!watching)
		WatchRelations(ForgetBounds);
	watching = true;
}

static void
KeepBounds(const KnownBounds &bounds)
{
	if (known_bounds != NULL && hash_get_num_entries(known_bounds) >= BOUNDS_KEPT)
		ForgetBounds(InvalidOid);
	if (known_bounds == NULL)
	{
		HASHCTL info = {};

		info.keysize = sizeof(Oid);
		info.entrysize = sizeof(KnownBounds);
		known_bounds = hash_create("dedup_guard bounds", 64, &info, HASH_ELEM | HASH_BLOBS);
	}
	*(KnownBounds *) hash_search(known_bounds, &bounds.table, HASH_ENTER, NULL) = bounds;
}

static bool
IsColumn(const Node *node, AttrNumber attnum)
{
	const Var *var = (const Var *) node;

	return IsA(var, Var) && var->varattno == attnum && var->varlevelsup == 0;
}

static bool
IsTime(const Node *node)
{
	const Const *constant = (const Const *) node;

	return IsA(constant, Const) && constant->consttype == TIMESTAMPTZOID && !constant->constisnull;
}

/* Narrows bounds by a condition, if it compares the column with a time. */
static void
Narrow(TimeBounds *bounds, const OpExpr *condition, AttrNumber attnum)
{
	const TypeCacheEntry *type = lookup_type_cache(TIMESTAMPTZOID, TYPECACHE_BTREE_OPFAMILY);
	const Node *left;
	const Node *right;
	Oid operator_ = condition->opno;
	TimestampTz time;

	if (list_length(condition->args) != 2)
		return;
	left = (const Node *) linitial(condition->args);
	right = (const Node *) lsecond(condition->args);
	if (IsTime(left) && IsColumn(right, attnum))
	{
		const Node *column = right;

		right = left;
		left = column;
		operator_ = get_commutator(operator_);
	}
	if (!IsColumn(left, attnum) || !IsTime(right) || !OidIsValid(operator_))
		return;
	time = DatumGetTimestampTz(((const Const *) right)->constvalue);
	if (TIMESTAMP_NOT_FINITE(time))
		return;
	/* The next time after a finite one is finite, too, or "infinity". */
	switch (get_op_opfamily_strategy(operator_, type->btree_opf))
	{
		case BTLessStrategyNumber:
			bounds->to = Min(bounds->to, time);
			break;
		case BTLessEqualStrategyNumber:
			bounds->to = Min(bounds->to, time + 1);
			break;
		case BTEqualStrategyNumber:
			bounds->from = Max(bounds->from, time);
			bounds->to = Min(bounds->to, time + 1);
			break;
		case BTGreaterEqualStrategyNumber:
			bounds->from = Max(bounds->from, time);
			break;
		case BTGreaterStrategyNumber:
			bounds->from = Max(bounds->from, time + 1);
			break;
		default:
			break;
	}
}

static void
NarrowByAll(TimeBounds *bounds, const Node *condition, AttrNumber attnum)
{
	ListCell *cell;

	if (condition != NULL && IsA(condition, OpExpr))
		Narrow(bounds, (const OpExpr *) condition, attnum);
	else if (condition != NULL && IsA(condition, BoolExpr) &&
			 ((const BoolExpr *) condition)->boolop == AND_EXPR)
		foreach(cell, ((const BoolExpr *) condition)->args)
			NarrowByAll(bounds, (const Node *) lfirst(cell), attnum);
}

/* Returns whether a column exists, has type timestamptz, and is never NULL. */
static bool
IsTimeColumn(Oid table, AttrNumber attnum)
{
	HeapTuple tuple = attnum == InvalidAttrNumber
						  ? NULL
						  : SearchSysCache2(ATTNUM, ObjectIdGetDatum(table), Int16GetDatum(attnum));
	bool is = false;

	if (HeapTupleIsValid(tuple))
	{
		is = ((Form_pg_attribute) GETSTRUCT(tuple))->attnotnull &&
			 ((Form_pg_attribute) GETSTRUCT(tuple))->atttypid == TIMESTAMPTZOID;
		ReleaseSysCache(tuple);
	}
	return is;
}

static TimeBounds
ReadBounds(Oid table, const char *column)
{
	TimeBounds bounds = {DT_NOBEGIN, DT_NOEND};
	const AttrNumber attnum = get_attnum(table, column);
	Relation catalog;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple tuple;

	if (!IsTimeColumn(table, attnum))
		return bounds;
	catalog = table_open(ConstraintRelationId, AccessShareLock);
	ScanKeyInit(&key, Anum_pg_constraint_conrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(table));
	scan = systable_beginscan(catalog, ConstraintRelidTypidNameIndexId, true, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_constraint constraint = (Form_pg_constraint) GETSTRUCT(tuple);
		bool isnull;
		Datum condition;

		if (constraint->contype != CONSTRAINT_CHECK || !constraint->convalidated ||
			!IS_ENFORCED(constraint))
			continue;
		condition =
			heap_getattr(tuple, Anum_pg_constraint_conbin, RelationGetDescr(catalog), &isnull);
		if (!isnull)
			NarrowByAll(&bounds, (const Node *) stringToNode(TextDatumGetCString(condition)),
						attnum);
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return bounds;
}

TimeBounds
CheckedTimes(Oid table, const char *column)
{
	KnownBounds bounds = {};
	uint64 forgotten;
	const KnownBounds *known =
		known_bounds == NULL
			? NULL
			: (const KnownBounds *) hash_search(known_bounds, &table, HASH_FIND, NULL);

	if (known != NULL && strcmp(NameStr(known->column), column) == 0)
		return known->bounds;
	bounds.table = table;
	namestrcpy(&bounds.column, column);
	WatchBounds();
	forgotten = bounds_forgotten;
	bounds.bounds = ReadBounds(table, column);
	/* Changes that happened while the bounds were read may be missing from them. */
	if (forgotten == bounds_forgotten)
		KeepBounds(bounds);
	return bounds.bounds;
}

/* ---- compressed rows ------------------------------------------------------------------- */

/*
 * Returns TimescaleDB's list of chunks, or InvalidOid. The name of the table alone does not prove
 * that it is this list.
 */
static Oid
ListOfChunks(void)
{
	static Oid known = InvalidOid;
	const Oid schema = get_namespace_oid("_timescaledb_catalog", true);
	const Oid list = OidIsValid(schema) ? get_relname_relid("chunk", schema) : InvalidOid;

	if (!OidIsValid(list))
		return InvalidOid;
	if (list != known)
	{
		const Oid extension = get_extension_oid("timescaledb", true);

		if (!OidIsValid(extension) || getExtensionOfObject(RelationRelationId, list) != extension)
			return InvalidOid;
		known = list;
	}
	return list;
}

/* Returns whether a row of that list says that the chunk has compressed rows. */
static bool
SaysCompressed(HeapTuple tuple, TupleDesc desc, Oid list)
{
	const AttrNumber status = get_attnum(list, "status");
	bool isnull = true;
	Datum value = (Datum) 0;

	if (status != InvalidAttrNumber)
		value = heap_getattr(tuple, status, desc, &isnull);
	/* This is the lowest bit. The other bits have further information about a compressed chunk. */
	return !isnull && TupleDescAttr(desc, status - 1)->atttypid == INT4OID &&
		   (DatumGetInt32(value) & 1) != 0;
}

/* Returns the index of the list with which a chunk is found by its name, or InvalidOid. */
static Oid
IndexOfChunks(Relation rel, AttrNumber schema, AttrNumber table)
{
	List *indexes = RelationGetIndexList(rel);
	Oid found = InvalidOid;
	ListCell *cell;

	foreach(cell, indexes)
	{
		Relation index = index_open(lfirst_oid(cell), AccessShareLock);
		const Form_pg_index form = index->rd_index;

		if (form->indnkeyatts == 2 && form->indisunique && form->indkey.values[0] == schema &&
			form->indkey.values[1] == table)
			found = lfirst_oid(cell);
		index_close(index, AccessShareLock);
	}
	list_free(indexes);
	return found;
}

/* Returns whether a table is in the list; `compressed`: and has compressed rows. */
static bool
IsListed(Oid table, bool *compressed)
{
	const Oid list = ListOfChunks();
	Relation rel;
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple tuple;
	NameData schema_name;
	NameData table_name;
	bool listed = false;

	*compressed = false;
	if (!OidIsValid(list))
		return false;

	const AttrNumber schema = get_attnum(list, "schema_name");
	const AttrNumber name = get_attnum(list, "table_name");

	if (schema == InvalidAttrNumber || name == InvalidAttrNumber)
		return false;
	namestrcpy(&schema_name, get_namespace_name(get_rel_namespace(table)));
	namestrcpy(&table_name, get_rel_name(table));
	rel = table_open(list, AccessShareLock);
	ScanKeyInit(&keys[0], schema, BTEqualStrategyNumber, F_NAMEEQ, NameGetDatum(&schema_name));
	ScanKeyInit(&keys[1], name, BTEqualStrategyNumber, F_NAMEEQ, NameGetDatum(&table_name));

	const Oid index = IndexOfChunks(rel, schema, name);

	scan = systable_beginscan(rel, index, OidIsValid(index), NULL, 2, keys);
	while (!*compressed && HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		listed = true;
		*compressed = SaysCompressed(tuple, RelationGetDescr(rel), list);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return listed;
}

bool
IsChunk(Oid table)
{
	bool compressed;

	return IsListed(table, &compressed);
}

bool
IsCompressed(Oid table)
{
	bool compressed;

	(void) IsListed(table, &compressed);
	return compressed;
}

void
RequireUncompressed(Oid table)
{
	if (!IsCompressed(table))
		return;
	ereport(
		ERROR,
		(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
		 errmsg("cannot look for keys in the compressed chunk \"%s\"", get_rel_name(table)),
		 errdetail(
			 "A guard finds rows with an index of the table, and compressed rows are in no index."),
		 errhint("To decompress the chunk, run: SELECT decompress_chunk(%s);",
				 quote_literal_cstr(QualifiedGuardName(table)))));
}
