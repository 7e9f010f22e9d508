/*
 * Choosing the index by which an exact guard searches a table: see search_index.hpp.
 */
#include "guard/search_index.hpp"
#include "pg/equality.hpp"

extern "C" {
#include "access/genam.h"
#include "access/stratnum.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_collation.h"
#include "nodes/makefuncs.h"
#include "optimizer/optimizer.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
}

/* How tables were searched in this session; forgotten when a table or its indexes change. */
static HTAB *search_indexes = NULL;

/* So many are kept. */
constexpr long SEARCH_INDEXES_KEPT = 4096;

static void
ForgetSearchIndex(Datum, Oid relid)
{
	if (search_indexes == NULL)
		return;
	if (OidIsValid(relid))
		hash_search(search_indexes, &relid, HASH_REMOVE, NULL);
	else
	{
		hash_destroy(search_indexes);
		search_indexes = NULL;
	}
}

static void
KeepSearchIndex(const SearchIndex &chosen)
{
	static bool watching = false;

	if (!watching)
	{
		CacheRegisterRelcacheCallback(ForgetSearchIndex, (Datum) 0);
		watching = true;
	}
	if (search_indexes != NULL && hash_get_num_entries(search_indexes) >= SEARCH_INDEXES_KEPT)
		ForgetSearchIndex((Datum) 0, InvalidOid);
	if (search_indexes == NULL)
	{
		HASHCTL info = {};

		info.keysize = sizeof(Oid);
		info.entrysize = sizeof(SearchIndex);
		search_indexes =
			hash_create("dedup_guard search indexes", 64, &info, HASH_ELEM | HASH_BLOBS);
	}
	*(SearchIndex *) hash_search(search_indexes, &chosen.table, HASH_ENTER, NULL) = chosen;
}

/* ---- choosing an index -------------------------------------------------------------- */

SearchColumns
SearchColumnsOf(Relation rel, const GuardClause &clause)
{
	TupleDesc desc = RelationGetDescr(rel);
	SearchColumns columns = {};

	columns.columns = clause.columns;
	for (int i = 0; i < clause.columns; i++)
	{
		columns.names[i] = NameStr(TupleDescAttr(desc, clause.attnums[i] - 1)->attname);
		columns.types[i] = clause.types[i];
		columns.collations[i] = clause.collations[i];
	}
	if (clause.mark != 0)
		columns.mark = NameStr(TupleDescAttr(desc, clause.mark - 1)->attname);
	return columns;
}

static bool
IsDeterministic(Oid collation)
{
	return !OidIsValid(collation) || get_collation_isdeterministic(collation);
}

/* Whether two collations call the same values equal. */
static bool
AgreeOnEquality(Oid a, Oid b)
{
	return a == b || (IsDeterministic(a) && IsDeterministic(b));
}

/* The attribute of a table by its name, or 0. */
static AttrNumber
AttributeOf(Relation rel, const char *name)
{
	TupleDesc desc = RelationGetDescr(rel);

	for (int i = 0; i < desc->natts; i++)
		if (!TupleDescAttr(desc, i)->attisdropped &&
			strcmp(NameStr(TupleDescAttr(desc, i)->attname), name) == 0)
			return (AttrNumber) (i + 1);
	return 0;
}

static Expr *
ColumnOf(Relation rel, AttrNumber attnum)
{
	Form_pg_attribute column = TupleDescAttr(RelationGetDescr(rel), attnum - 1);

	return (Expr *) makeVar(1, attnum, column->atttypid, column->atttypmod, column->attcollation,
							0);
}

static List *
AddNullTest(List *list, Expr *column, NullTestType type)
{
	NullTest *test = makeNode(NullTest);

	test->arg = column;
	test->nulltesttype = type;
	test->location = -1;
	return lappend(list, test);
}

/*
 * Whether all rows that count satisfy the predicate of a partial index: no column of their
 * key is NULL, and their mark is not true.
 */
static bool
ImpliesPredicate(Relation rel, const SearchIndex &chosen, List *predicate)
{
	List *known = NIL;

	if (predicate == NIL)
		return true;
	for (int i = 0; i < chosen.columns; i++)
		known = AddNullTest(known, ColumnOf(rel, chosen.attnums[i]), IS_NOT_NULL);
	if (chosen.mark != 0)
	{
		BooleanTest *unmarked = makeNode(BooleanTest);

		unmarked->arg = ColumnOf(rel, chosen.mark);
		unmarked->booltesttype = IS_NOT_TRUE;
		unmarked->location = -1;
		known = lappend(known, unmarked);
		if (TupleDescAttr(RelationGetDescr(rel), chosen.mark - 1)->attnotnull)
			known =
				lappend(known, makeBoolExpr(NOT_EXPR, list_make1(ColumnOf(rel, chosen.mark)), -1));
	}
	return predicate_implied_by(predicate, known, false);
}

/*
 * Whether an index's first columns are those of the key, and compare as the key does. Fills
 * in what depends on the index; `equal` has the functions of the key's columns.
 */
static bool
HasKeyColumns(Relation index, const SearchColumns &columns, const AttrNumber *attnums,
			  const Oid *equal, SearchIndex *chosen)
{
	Form_pg_index form = index->rd_index;

	if (IndexRelationGetNumberOfKeyAttributes(index) < columns.columns)
		return false;
	for (int at = 0; at < columns.columns; at++)
	{
		int column = 0;
		Oid operator_;

		while (column < columns.columns && attnums[column] != form->indkey.values[at])
			column++;
		if (column == columns.columns)
			return false;
		/* No column of the key stands in the index twice among the first. */
		for (int before = 0; before < at; before++)
			if (chosen->order[before] == column)
				return false;
		operator_ = get_opfamily_member(index->rd_opfamily[at], index->rd_opcintype[at],
										index->rd_opcintype[at], (int16) chosen->strategy);
		if (!OidIsValid(operator_) || get_opcode(operator_) != equal[column] ||
			!AgreeOnEquality(index->rd_indcollation[at], columns.collations[column]))
			return false;
		chosen->attnums[at] = attnums[column];
		chosen->order[at] = (int16) column;
		chosen->equal[at] = equal[column];
	}
	return true;
}

/* Whether a table can be searched by an index, which is locked. */
static bool
CanSearch(Relation rel, Relation index, const SearchColumns &columns, const AttrNumber *attnums,
		  const Oid *equal, SearchIndex *chosen)
{
	Form_pg_index form = index->rd_index;

	if (!form->indisvalid || !form->indisready || !form->indislive)
		return false;
	if (index->rd_rel->relam == BTREE_AM_OID)
		chosen->strategy = BTEqualStrategyNumber;
	else if (index->rd_rel->relam == HASH_AM_OID && columns.columns == 1)
		chosen->strategy = HTEqualStrategyNumber;
	else
		return false;
	return HasKeyColumns(index, columns, attnums, equal, chosen) &&
		   ImpliesPredicate(rel, *chosen, RelationGetIndexPredicate(index));
}

/* Chooses the index that a table, which is locked, is searched by. */
static bool
ChooseIndex(Relation rel, const SearchColumns &columns, SearchIndex *chosen)
{
	AttrNumber attnums[INDEX_MAX_KEYS];
	Oid equal[INDEX_MAX_KEYS];
	List *indexes;
	ListCell *cell;
	bool found = false;

	if (rel->rd_rel->relkind != RELKIND_RELATION)
		return false;
	WatchEqualities();
	*chosen = {};
	chosen->table = RelationGetRelid(rel);
	chosen->equalities = equality_version;
	chosen->columns = columns.columns;
	for (int i = 0; i < columns.columns; i++)
	{
		attnums[i] = AttributeOf(rel, columns.names[i]);
		equal[i] = KeyEqualityFunction(columns.types[i]);
		if (attnums[i] == 0 || !OidIsValid(equal[i]))
			return false;
	}
	if (columns.mark != NULL)
	{
		chosen->mark = AttributeOf(rel, columns.mark);
		if (chosen->mark == 0)
			return false;
	}
	indexes = RelationGetIndexList(rel);
	foreach(cell, indexes)
	{
		Relation index = index_open(lfirst_oid(cell), AccessShareLock);

		found = CanSearch(rel, index, columns, attnums, equal, chosen);
		chosen->index = RelationGetRelid(index);
		index_close(index, AccessShareLock);
		if (found)
			break;
	}
	list_free(indexes);
	return found;
}

Oid
FindSearchIndex(Relation rel, const SearchColumns &columns)
{
	SearchIndex chosen;

	return ChooseIndex(rel, columns, &chosen) ? chosen.index : InvalidOid;
}

bool
HasSearchIndex(Relation rel, const SearchColumns &columns)
{
	return OidIsValid(FindSearchIndex(rel, columns));
}

[[noreturn]] static void
ReportNoSearchIndex(Relation rel, const SearchColumns &columns, Oid on)
{
	StringInfoData list;

	if (rel->rd_rel->relkind != RELKIND_RELATION)
		ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE),
						errmsg("an exact guard cannot search \"%s\"", RelationGetRelationName(rel)),
						errdetail("It is not a table of this server.")));
	initStringInfo(&list);
	for (int i = 0; i < columns.columns; i++)
		appendStringInfo(&list, "%s%s", i == 0 ? "" : ", ", quote_identifier(columns.names[i]));
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("table \"%s\" has no index by which an exact guard can find rows",
					RelationGetRelationName(rel)),
			 errdetail("It needs a valid index, btree or hash, whose first columns are those of "
					   "the key, with their own equality, and of all rows that the guard covers."),
			 errhint("Run: CREATE INDEX ON %s (%s);", QualifiedGuardName(on), list.data)));
	pg_unreachable();
}

void
RequireSearchIndex(Relation rel, const SearchColumns &columns, Oid on)
{
	if (!HasSearchIndex(rel, columns))
		ReportNoSearchIndex(rel, columns, on);
}

SearchIndex
SearchIndexOf(Relation rel, const SearchKey &key)
{
	const Oid table = RelationGetRelid(rel);
	SearchIndex chosen;
	SearchColumns columns;

	if (search_indexes != NULL)
	{
		const SearchIndex *kept =
			(const SearchIndex *) hash_search(search_indexes, &table, HASH_FIND, NULL);

		if (kept != NULL && kept->equalities == equality_version &&
			kept->columns == key.plan->clause.columns)
			return *kept;
	}
	columns = SearchColumnsOf(key.target, key.plan->clause);
	if (!ChooseIndex(rel, columns, &chosen))
		ReportNoSearchIndex(rel, columns, table);
	KeepSearchIndex(chosen);
	return chosen;
}
