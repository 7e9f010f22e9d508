/*
 * The definition of a guard; see clause.hpp. Every role that owns a table can make triggers by
 * hand, so everything in a clause is checked. A flaw is the DETAIL of an error.
 */
#include "guard/table_keys.hpp"

extern "C" {
#include "access/attmap.h"
#include "access/sysattr.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "nodes/bitmapset.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/nodes.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "rewrite/prs2lock.h"
#include "rewrite/rewriteManip.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/ruleutils.h"
}

/* ---- options ------------------------------------------------------------------ */

const char *const guard_option_words[kGuardOptions] = {GUARD_EXACT, "nulls_not_distinct",
													   "skip_too_old", "forget"};

bool &
GuardOption(GuardOptions *options, int number)
{
	switch (number)
	{
		case 0:
			return options->exact;
		case 1:
			return options->nulls_not_distinct;
		case 2:
			return options->skip_too_old;
		default:
			Assert(number == 3);
			return options->forget;
	}
}

const char *
ReadGuardOptions(const char *const *words, int n, GuardOptions *options)
{
	*options = {};
	for (int i = 0; i < n; i++)
	{
		int number = 0;

		while (number < kGuardOptions && strcmp(words[i], guard_option_words[number]) != 0)
			number++;
		if (number == kGuardOptions)
			return gettext_noop("One of its arguments is not an option of a guard.");
		if (GuardOption(options, number))
			return gettext_noop("One of its arguments is given twice.");
		GuardOption(options, number) = true;
	}
	return NULL;
}

static const char *const mode_names[] = {"skip", "reject", "mark", "divert"};

bool
ReadGuardMode(const char *text, GuardMode *mode)
{
	for (int i = 0; i < (int) lengthof(mode_names); i++)
		if (strcmp(text, mode_names[i]) == 0)
		{
			*mode = (GuardMode) i;
			return true;
		}
	return false;
}

const char *
GuardModeName(GuardMode mode)
{
	return mode_names[(int) mode];
}

/* ---- reading ------------------------------------------------------------------ */

static const char *const not_our_clause = gettext_noop(
	"The WHEN condition of its trigger BEFORE DELETE is not one that dedup_guard() writes.");

/* Returns the relation of 'name'::regclass, or InvalidOid. */
static Oid
RelationOfConst(const Expr *expr)
{
	const Const *constant = (const Const *) expr;

	if (!IsA(constant, Const) || constant->consttype != REGCLASSOID || constant->constisnull ||
		!constant->constbyval)
		return InvalidOid;
	return DatumGetObjectId(constant->constvalue);
}

static bool
IsPlainColumn(const Expr *expr)
{
	const Var *var = (const Var *) expr;

	return IsA(var, Var) && var->varno == PRS2_OLD_VARNO && var->varlevelsup == 0;
}

/* Reads an element of the key. */
static bool
ReadElement(Expr *expr, GuardClause *clause)
{
	const int i = clause->columns;

	if (i == INDEX_MAX_KEYS)
		return false;
	clause->types[i] = exprType((Node *) expr);
	clause->collations[i] = exprCollation((Node *) expr);
	if (IsPlainColumn(expr))
		clause->attnums[i] = ((const Var *) expr)->varattno;
	else
		clause->expressions[i] = expr;
	clause->columns++;
	return true;
}

/* Reads the column for marks, or the time. */
static bool
ReadMarkOrTime(Expr *expr, GuardClause *clause)
{
	if (exprType((Node *) expr) == TIMESTAMPTZOID)
	{
		if (clause->at != NULL)
			return false;
		clause->at = expr;
		return true;
	}
	if (!IsPlainColumn(expr) || clause->mark != 0)
		return false;
	clause->mark = ((const Var *) expr)->varattno;
	return ((const Var *) expr)->vartype == BOOLOID && clause->mark > 0;
}

/* Reads a part of the clause behind the first part. */
static bool
ReadPart(Node *node, GuardClause *clause)
{
	if (IsA(node, BooleanTest))
	{
		const BooleanTest *test = (const BooleanTest *) node;

		if (test->booltesttype != IS_NOT_TRUE || clause->where != NULL)
			return false;
		clause->where = test->arg;
		return clause->where != NULL;
	}

	const NullTest *test = (const NullTest *) node;

	if (!IsA(test, NullTest) || test->arg == NULL)
		return false;
	if (test->nulltesttype == IS_NOT_NULL)
		return ReadMarkOrTime(test->arg, clause);
	if (IsA(test->arg, Const) && OidIsValid(RelationOfConst(test->arg)))
	{
		if (OidIsValid(clause->side))
			return false;
		clause->side = RelationOfConst(test->arg);
		return true;
	}
	return ReadElement(test->arg, clause);
}

static bool
ReadFilter(Node *node, GuardClause *clause)
{
	const NullTest *test = (const NullTest *) node;

	if (!IsA(test, NullTest) || test->arg == NULL || test->nulltesttype != IS_NOT_NULL)
		return false;
	clause->filter = RelationOfConst(test->arg);
	return OidIsValid(clause->filter);
}

/* Reads a clause whose parts are joined by `op`, and whose first part is read by `read_first`. */
static const char *
ReadParts(const char *qual, BoolExprType op, bool (*read_first)(Node *node, GuardClause *clause),
		  GuardClause *clause)
{
	const BoolExpr *expr = (const BoolExpr *) stringToNode(qual);
	ListCell *cell;

	memset(clause, 0, sizeof *clause);
	if (expr == NULL || !IsA(expr, BoolExpr) || expr->boolop != op)
		return not_our_clause;
	foreach(cell, expr->args)
	{
		Node *node = (Node *) lfirst(cell);

		if (node == NULL ||
			!(foreach_current_index(cell) == 0 ? read_first(node, clause) : ReadPart(node, clause)))
			return not_our_clause;
	}
	return clause->columns > 0 ? FindUsedColumns(clause) : not_our_clause;
}

const char *
ReadClause(const char *qual, GuardClause *clause)
{
	return ReadParts(qual, OR_EXPR, ReadFilter, clause);
}

static bool
ReadFalse(Node *node, GuardClause *clause)
{
	const Const *constant = (const Const *) node;

	return IsA(constant, Const) && constant->consttype == BOOLOID && !constant->constisnull &&
		   !DatumGetBool(constant->constvalue);
}

bool
ReadClauseWithoutFilter(const char *qual, GuardClause *clause)
{
	return ReadParts(qual, AND_EXPR, ReadFalse, clause) == NULL;
}

bool
ReadGuardClause(const char *qual, GuardClause *clause)
{
	return ReadClause(qual, clause) == NULL;
}

/* ---- columns ------------------------------------------------------------------ */

static const char *
AddUsedColumn(GuardClause *clause, AttrNumber attnum)
{
	if (attnum == 0)
		return gettext_noop("It goes by a whole row.");
	if (attnum < 0)
		return gettext_noop("It goes by a system column.");
	for (int i = 0; i < clause->used_count; i++)
		if (clause->used[i] == attnum)
			return NULL;
	if (clause->used_count == INDEX_MAX_KEYS)
		return gettext_noop("Its key, predicate and time have too many columns.");
	clause->used[clause->used_count++] = attnum;
	return NULL;
}

static const char *
AddUsedColumns(GuardClause *clause, const Expr *expression)
{
	Bitmapset *attnums = NULL;
	const char *flaw = NULL;
	int attnum = -1;

	pull_varattnos((Node *) const_cast<Expr *>(expression), PRS2_OLD_VARNO, &attnums);
	if (bms_is_empty(attnums))
		return gettext_noop("One of its expressions names no column.");
	while (flaw == NULL && (attnum = bms_next_member(attnums, attnum)) >= 0)
		flaw = AddUsedColumn(clause, (AttrNumber) (attnum + FirstLowInvalidHeapAttributeNumber));
	bms_free(attnums);
	return flaw;
}

const char *
FindUsedColumns(GuardClause *clause)
{
	const char *flaw = NULL;

	clause->used_count = 0;
	for (int i = 0; i < clause->columns && flaw == NULL; i++)
		flaw = clause->expressions[i] == NULL ? AddUsedColumn(clause, clause->attnums[i])
											  : AddUsedColumns(clause, clause->expressions[i]);
	if (flaw == NULL && clause->where != NULL)
		flaw = AddUsedColumns(clause, clause->where);
	if (flaw == NULL && clause->at != NULL)
		flaw = AddUsedColumns(clause, clause->at);
	return flaw;
}

/* Returns whether a column exists, can be used by triggers, and has that type. */
static bool
IsUsableColumn(TupleDesc desc, AttrNumber attnum, Oid type, Oid collation)
{
	Form_pg_attribute column;

	if (attnum <= 0 || attnum > desc->natts)
		return false;
	column = TupleDescAttr(desc, attnum - 1);
	return !column->attisdropped && column->attgenerated == '\0' && column->atttypid == type &&
		   column->attcollation == collation;
}

/* Returns whether all columns of an expression can be used. */
static bool
HasUsableColumns(TupleDesc desc, const Expr *expression)
{
	List *vars = pull_var_clause((Node *) const_cast<Expr *>(expression), 0);
	ListCell *cell;

	foreach(cell, vars)
	{
		const Var *var = (const Var *) lfirst(cell);

		if (var->varno != PRS2_OLD_VARNO)
			return false;
		if (!IsUsableColumn(desc, var->varattno, var->vartype, var->varcollid))
			return false;
	}
	list_free(vars);
	return true;
}

static bool
IsMutable(const Expr *expression)
{
	return contain_mutable_functions(
		(Node *) expression_planner((Expr *) copyObjectImpl(expression)));
}

/*
 * Returns whether an expression is mutable, as CREATE INDEX checks it: functions that can be
 * inlined are examined inside. That can call functions. They run with the rights of the table's
 * owner, if he has fewer rights, but never with more rights than the current role has. The clause
 * may have been made by a role whose only right is to make triggers for the table.
 */
static bool
IsMutableForOwner(Relation rel, const Expr *expression)
{
	AsOwner before;
	bool is_mutable;

	if (!has_privs_of_role(GetUserId(), rel->rd_rel->relowner))
		return IsMutable(expression);
	before = BecomeOwner(rel);
	is_mutable = IsMutable(expression);
	BecomeAgain(before);
	return is_mutable;
}

const char *
FlawOfExpression(Relation rel, const Expr *expression)
{
	Node *node = (Node *) const_cast<Expr *>(expression);

	if (expression_returns_set(node))
		return gettext_noop("One of its expressions returns a set.");
	if (contain_subplans(node))
		return gettext_noop("One of its expressions has a subquery.");
	if (IsMutableForOwner(rel, expression))
		return gettext_noop("One of its expressions is not immutable.");
	return NULL;
}

static const char *
FlawOfPart(TupleDesc desc, const Expr *expression)
{
	if (expression == NULL)
		return NULL;
	return HasUsableColumns(desc, expression)
			   ? NULL
			   : gettext_noop("It goes by something else than plain columns of the table.");
}

static const char *
FlawOfElement(TupleDesc desc, const GuardClause &clause, int i)
{
	if (clause.expressions[i] != NULL)
		return FlawOfPart(desc, clause.expressions[i]);
	if (!IsUsableColumn(desc, clause.attnums[i], clause.types[i], clause.collations[i]))
		return gettext_noop("Its key has something else than plain columns of the table.");
	for (int j = 0; j < i; j++)
		if (clause.attnums[j] == clause.attnums[i])
			return gettext_noop("Its key has a column twice.");
	return NULL;
}

const char *
FlawOfExpressions(Relation rel, const GuardClause &clause)
{
	const char *flaw = NULL;

	for (int i = 0; i < clause.columns && flaw == NULL; i++)
		if (clause.expressions[i] != NULL)
			flaw = FlawOfExpression(rel, clause.expressions[i]);
	if (flaw == NULL && clause.where != NULL)
		flaw = FlawOfExpression(rel, clause.where);
	if (flaw == NULL && clause.at != NULL)
		flaw = FlawOfExpression(rel, clause.at);
	return flaw;
}

const char *
FlawOfClause(Relation rel, const GuardClause &clause)
{
	TupleDesc desc = RelationGetDescr(rel);
	const char *flaw = NULL;

	for (int i = 0; i < clause.columns && flaw == NULL; i++)
		flaw = FlawOfElement(desc, clause, i);
	if (flaw == NULL)
		flaw = FlawOfPart(desc, clause.where);
	if (flaw == NULL)
		flaw = FlawOfPart(desc, clause.at);
	if (flaw != NULL)
		return flaw;
	for (int i = 0; i < clause.used_count; i++)
		if (clause.used[i] == clause.mark)
			return gettext_noop(
				"The column that marks duplicates is part of the key, predicate or time.");
	if (clause.mark != 0 && !IsUsableColumn(desc, clause.mark, BOOLOID, InvalidOid))
		return gettext_noop("The column that marks duplicates is not a plain boolean column.");

	/* The descriptor may be a different one after this, with the same columns. */
	if (!IsLiveRelationId(clause.filter))
		return gettext_noop(
			"The relation that its trigger BEFORE DELETE names is not a live filter.");
	if (get_rel_persistence(clause.filter) == RELPERSISTENCE_TEMP)
		return gettext_noop("Its live filter is temporary.");
	return NULL;
}

const char *
FlawOfOptions(const GuardOptions &options, const GuardClause &clause)
{
	if (options.skip_too_old && clause.at == NULL)
		return gettext_noop("It leaves out rows that are too old, but rows have no time.");
	if (options.skip_too_old && options.exact)
		return gettext_noop("It leaves out rows that are too old, but an exact guard knows rows of "
							"any age.");
	return NULL;
}

const char *
FlawOfFilter(const LiveParameters &parameters, const GuardOptions &options,
			 const GuardClause &clause)
{
	if (clause.at != NULL && parameters.ttl == 0)
		return gettext_noop("Its rows have times, but its live filter has no ttl.");
	if (!options.exact)
		return NULL;
	if (parameters.forgets && parameters.ttl == 0)
		return gettext_noop(
			"It is exact, and its live filter is a window, which forgets keys whose "
			"rows are there.");
	if (parameters.ttl != 0 && clause.at == NULL)
		return gettext_noop("It is exact, and its live filter has a ttl, but rows have no time.");
	if (parameters.renew)
		return gettext_noop("It is exact, and its live filter renews the time of a key, which is "
							"that of a row.");
	return NULL;
}

/* ---- other tables --------------------------------------------------------------- */

/* Returns the column of a table with the name and type of another table's column, or 0. */
static AttrNumber
ColumnLike(TupleDesc desc, Form_pg_attribute like)
{
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute column = TupleDescAttr(desc, i);

		if (!column->attisdropped && strcmp(NameStr(column->attname), NameStr(like->attname)) == 0)
			return column->atttypid == like->atttypid ? (AttrNumber) (i + 1) : (AttrNumber) 0;
	}
	return 0;
}

static Expr *
MapExpression(const Expr *expression, const AttrMap *map)
{
	bool whole_row;

	if (expression == NULL)
		return NULL;
	return (Expr *) map_variable_attnos((Node *) const_cast<Expr *>(expression), PRS2_OLD_VARNO, 0,
										map, InvalidOid, &whole_row);
}

bool
MapGuardClause(const GuardClause &clause, Relation from, Relation to, GuardClause *mapped)
{
	TupleDesc desc = RelationGetDescr(from);
	AttrMap *map;

	*mapped = clause;
	if (RelationGetRelid(from) == RelationGetRelid(to))
		return true;
	map = make_attrmap(desc->natts);
	for (int i = 0; i < clause.used_count; i++)
	{
		const AttrNumber attnum = clause.used[i];
		const AttrNumber there = ColumnLike(RelationGetDescr(to), TupleDescAttr(desc, attnum - 1));

		if (there == 0)
			return false;
		map->attnums[attnum - 1] = mapped->used[i] = there;
	}
	for (int i = 0; i < clause.columns; i++)
	{
		if (clause.attnums[i] != 0)
			mapped->attnums[i] = map->attnums[clause.attnums[i] - 1];
		mapped->expressions[i] = MapExpression(clause.expressions[i], map);
	}
	mapped->where = MapExpression(clause.where, map);
	mapped->at = MapExpression(clause.at, map);
	if (clause.mark != 0)
		mapped->mark = ColumnLike(RelationGetDescr(to), TupleDescAttr(desc, clause.mark - 1));
	free_attrmap(map);
	return clause.mark == 0 || mapped->mark != 0;
}

/* ---- as text ---------------------------------------------------------------------- */

char *
ExpressionText(Oid table, const Expr *expression)
{
	const char *name = get_rel_name(table);

	return deparse_expression((Node *) const_cast<Expr *>(expression),
							  deparse_context_for(name == NULL ? "?" : name, table), false, false);
}

/* Returns whether parentheses enclose the whole of an expression. */
static bool
IsInParentheses(const char *text)
{
	int depth = 0;

	for (const char *at = text; *at != '\0'; at++)
	{
		/* A doubled quote ends one string and begins another. */
		if (*at == '\'' || *at == '"')
		{
			at = strchr(at + 1, *at);
			if (at == NULL)
				return false;
		}
		else if (*at == '(')
			depth++;
		else if (*at == ')')
			depth--;
		if (depth == 0)
			return at > text && at[1] == '\0';
	}
	return false;
}

char *
ElementText(Oid table, const GuardClause &clause, int element)
{
	if (clause.expressions[element] != NULL)
	{
		char *text = ExpressionText(table, clause.expressions[element]);

		/* An index accepts these unchanged: a function call, and an expression in parentheses. */
		return (IsA(clause.expressions[element], FuncExpr) &&
				((const FuncExpr *) clause.expressions[element])->funcformat ==
					COERCE_EXPLICIT_CALL) ||
					   IsInParentheses(text)
				   ? text
				   : psprintf("(%s)", text);
	}

	const char *name = get_attname(table, clause.attnums[element], true);

	return pstrdup(quote_identifier(name == NULL ? "?" : name));
}

char *
ElementsText(Oid table, const GuardClause &clause)
{
	StringInfoData list;

	initStringInfo(&list);
	for (int i = 0; i < clause.columns; i++)
		appendStringInfo(&list, "%s%s", i == 0 ? "" : ", ", ElementText(table, clause, i));
	return list.data;
}
