/* Chooses the index with which an exact guard searches a table; see search_index.hpp. */
#include "guard/search_index.hpp"
#include "guard/table_keys.hpp"
#include "pg/equality.hpp"
#include "pg/catalog.hpp"

extern "C" {
#include "access/genam.h"
#include "access/stratnum.h"
#include "access/sysattr.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_collation.h"
#include "nodes/bitmapset.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "optimizer/prep.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
}

/*
 * The indexes with which this session has searched tables. An entry is dropped when its table or
 * the table's indexes change.
 */
static HTAB *search_indexes = NULL;

/* The most entries that are kept. */
constexpr long SEARCH_INDEXES_KEPT = 4096;

static void
ForgetSearchIndex(Oid relid)
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
		WatchRelations(ForgetSearchIndex);
		watching = true;
	}
	if (search_indexes != NULL && hash_get_num_entries(search_indexes) >= SEARCH_INDEXES_KEPT)
		ForgetSearchIndex(InvalidOid);
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

static bool
IsDeterministic(Oid collation)
{
	return !OidIsValid(collation) || get_collation_isdeterministic(collation);
}

/* Returns whether two collations call the same values equal. */
static bool
AgreeOnEquality(Oid a, Oid b)
{
	return a == b || (IsDeterministic(a) && IsDeterministic(b));
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

/* Returns an expression in the form of index expressions, where a collation is the column's. */
static Node *
AsIndexHasIt(const Expr *expression)
{
	Node *node;

	while (IsA(expression, CollateExpr))
		expression = ((const CollateExpr *) expression)->arg;
	node = eval_const_expressions(NULL, (Node *) copyObjectImpl(expression));

	fix_opfuncids(node);
	return node;
}

/* Returns a predicate in the form of index predicates: an implicit AND. */
static List *
AsPredicate(const Expr *expression)
{
	Node *node = AsIndexHasIt(expression);

	return make_ands_implicit((Expr *) canonicalize_qual((Expr *) node, false));
}

/*
 * Adds that an expression is not NULL, and that its columns are not NULL, if all functions in it
 * are strict.
 */
static List *
AddNotNull(List *list, Relation rel, Expr *expression)
{
	Bitmapset *attnums = NULL;
	int attnum = -1;

	list = AddNullTest(list, expression, IS_NOT_NULL);
	if (contain_nonstrict_functions((Node *) expression))
		return list;
	pull_varattnos((Node *) expression, 1, &attnums);
	while ((attnum = bms_next_member(attnums, attnum)) >= 0)
		list =
			AddNullTest(list,
						ColumnOf(rel, (AttrNumber) (attnum + FirstLowInvalidHeapAttributeNumber)),
						IS_NOT_NULL);
	return list;
}

/*
 * Returns conditions that hold for all rows that count: their predicate, that no element of their
 * key is NULL, and that their mark is not true.
 */
static List *
KnownOfRows(Relation rel, const GuardClause &clause)
{
	List *known = clause.where != NULL ? AsPredicate(clause.where) : NIL;

	for (int i = 0; clause.nulls == NullKeys::Skip && i < clause.columns; i++)
		known = clause.expressions[i] != NULL
					? AddNotNull(known, rel, (Expr *) AsIndexHasIt(clause.expressions[i]))
					: AddNullTest(known, ColumnOf(rel, clause.attnums[i]), IS_NOT_NULL);
	if (clause.mark != 0)
	{
		BooleanTest *unmarked = makeNode(BooleanTest);

		unmarked->arg = ColumnOf(rel, clause.mark);
		unmarked->booltesttype = IS_NOT_TRUE;
		unmarked->location = -1;
		known = lappend(known, unmarked);
		if (TupleDescAttr(RelationGetDescr(rel), clause.mark - 1)->attnotnull)
			known =
				lappend(known, makeBoolExpr(NOT_EXPR, list_make1(ColumnOf(rel, clause.mark)), -1));
	}
	return known;
}

/* Returns whether a column of an index is an element of the key, in any collation. */
static bool
IsElement(const GuardClause &clause, int i, AttrNumber attnum, const Node *expression)
{
	const Node *element;

	if (clause.expressions[i] == NULL)
		return attnum != 0 && clause.attnums[i] == attnum;
	element = AsIndexHasIt(clause.expressions[i]);
	if (attnum != 0)
		return IsA(element, Var) && ((const Var *) element)->varattno == attnum;
	return equal(expression, element);
}

/* Returns whether one of the first columns of an index is that element. */
static bool
IsTaken(const SearchIndex &chosen, int columns, int element)
{
	for (int i = 0; i < columns; i++)
		if (chosen.order[i] == element)
			return true;
	return false;
}

/*
 * Returns which element of the key a column of an index is, among the elements that are not in the
 * columns before; or clause.columns.
 */
static int
ElementOf(const GuardClause &clause, const SearchIndex &chosen, int at, AttrNumber attnum,
		  const Node *expression, Oid collation)
{
	int i = 0;

	while (i < clause.columns &&
		   (IsTaken(chosen, at, i) || !IsElement(clause, i, attnum, expression) ||
			!AgreeOnEquality(collation, clause.collations[i])))
		i++;
	return i;
}

/*
 * Returns whether an index's first columns are the elements of the key, and compare as the key
 * does. Sets the fields that depend on the index. `equal` has the functions of the key's elements.
 */
static bool
HasKeyColumns(Relation index, const GuardClause &clause, const Oid *equal, SearchIndex *chosen)
{
	Form_pg_index form = index->rd_index;
	List *expressions = RelationGetIndexExpressions(index);
	int expression = 0;

	if (IndexRelationGetNumberOfKeyAttributes(index) < clause.columns)
		return false;
	for (int at = 0; at < clause.columns; at++)
	{
		const AttrNumber attnum = form->indkey.values[at];
		const int element =
			ElementOf(clause, *chosen, at, attnum,
					  attnum == 0 ? (const Node *) list_nth(expressions, expression++) : NULL,
					  index->rd_indcollation[at]);
		Oid operator_;

		if (element == clause.columns)
			return false;
		operator_ = get_opfamily_member(index->rd_opfamily[at], index->rd_opcintype[at],
										index->rd_opcintype[at], (int16) chosen->strategy);
		if (!OidIsValid(operator_) || get_opcode(operator_) != equal[element])
			return false;
		chosen->order[at] = (int16) element;
		chosen->equal[at] = equal[element];
	}
	return true;
}

/* Returns whether a table can be searched with an index, which is locked. */
static bool
CanSearch(Relation rel, Relation index, const GuardClause &clause, const Oid *equal,
		  SearchIndex *chosen)
{
	Form_pg_index form = index->rd_index;
	List *predicate;

	if (!form->indisvalid || !form->indisready || !form->indislive)
		return false;
	if (index->rd_rel->relam == BTREE_AM_OID)
		chosen->strategy = BTEqualStrategyNumber;
	else if (index->rd_rel->relam == HASH_AM_OID && clause.columns == 1 &&
			 clause.nulls == NullKeys::Skip)
		chosen->strategy = HTEqualStrategyNumber;
	else
		return false;
	if (!HasKeyColumns(index, clause, equal, chosen))
		return false;
	predicate = RelationGetIndexPredicate(index);
	chosen->proves_where =
		clause.where == NULL ||
		(predicate != NIL && predicate_implied_by(AsPredicate(clause.where), predicate, false));
	return predicate == NIL || predicate_implied_by(predicate, KnownOfRows(rel, clause), false);
}

/* Chooses the index with which a table, which is locked, is searched. */
static bool
ChooseIndex(Relation rel, const GuardClause &clause, SearchIndex *chosen)
{
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
	chosen->columns = clause.columns;
	chosen->mark = clause.mark;
	for (int i = 0; i < clause.columns; i++)
	{
		equal[i] = KeyEqualityFunction(clause.types[i]);
		if (!OidIsValid(equal[i]))
			return false;
	}
	indexes = RelationGetIndexList(rel);
	foreach(cell, indexes)
	{
		Relation index = index_open(lfirst_oid(cell), AccessShareLock);

		found = CanSearch(rel, index, clause, equal, chosen);
		chosen->index = RelationGetRelid(index);
		index_close(index, AccessShareLock);
		if (found)
			break;
	}
	list_free(indexes);
	return found;
}

Oid
FindSearchIndex(Relation rel, const GuardClause &clause)
{
	SearchIndex chosen;

	return ChooseIndex(rel, clause, &chosen) ? chosen.index : InvalidOid;
}

bool
HasSearchIndex(Relation rel, const GuardClause &clause)
{
	return OidIsValid(FindSearchIndex(rel, clause));
}

[[noreturn]] static void
ReportNoSearchIndex(Relation rel, const GuardClause &clause, Relation from, Oid on)
{
	if (rel->rd_rel->relkind != RELKIND_RELATION)
		ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE),
						errmsg("an exact guard cannot search \"%s\"", RelationGetRelationName(rel)),
						errdetail("It is not a table of this server.")));
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("table \"%s\" has no index by which an exact guard can find rows",
					RelationGetRelationName(rel)),
			 clause.nulls == NullKeys::Equal
				 ? errdetail("It needs a valid btree index, whose first columns are those of the "
							 "key, with their own equality, and of all rows that the guard "
							 "covers, also of those with a NULL in the key.")
				 : errdetail("It needs a valid index, btree or hash, whose first columns are "
							 "those of the key, with their own equality, and of all rows that "
							 "the guard covers."),
			 errhint("Run: CREATE INDEX ON %s (%s);", QualifiedGuardName(on),
					 ElementsText(RelationGetRelid(from), clause))));
	pg_unreachable();
}

void
RequireSearchIndex(Relation rel, const GuardClause &clause, Relation from, Oid on)
{
	const AsOwner before = BecomeOwner(rel);
	GuardClause mapped;
	const bool found = MapGuardClause(clause, from, rel, &mapped) && HasSearchIndex(rel, mapped);

	BecomeAgain(before);
	if (!found)
		ReportNoSearchIndex(rel, clause, from, on);
}

SearchIndex
SearchIndexOf(Relation rel, const SearchKey &key)
{
	const Oid table = RelationGetRelid(rel);
	SearchIndex chosen;
	GuardClause mapped;

	if (search_indexes != NULL)
	{
		const SearchIndex *kept =
			(const SearchIndex *) hash_search(search_indexes, &table, HASH_FIND, NULL);

		if (kept != NULL && kept->equalities == equality_version &&
			kept->columns == key.plan->clause.columns)
			return *kept;
	}
	if (!MapGuardClause(key.plan->clause, key.target, rel, &mapped) ||
		!ChooseIndex(rel, mapped, &chosen))
		ReportNoSearchIndex(rel, key.plan->clause, key.target, table);
	KeepSearchIndex(chosen);
	return chosen;
}
