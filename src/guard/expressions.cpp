/*
 * Reads expressions that dedup_guard() gets as text: elements of the key, the predicate, and the
 * time. They are parsed as expressions of an index are, and have the same restrictions.
 */
#include "guard/request.hpp"

extern "C" {
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/parsenodes.h"
#include "optimizer/optimizer.h"
#include "parser/parse_clause.h"
#include "parser/parse_collate.h"
#include "parser/parse_expr.h"
#include "parser/parse_node.h"
#include "parser/parse_relation.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/ruleutils.h"
}

/* The text before the user's text when it is parsed. */
static const char before_text[] = "SELECT (";

namespace
{

/* An expression that is being read, for errors. */
struct ParsedText
{
	const char *text;
	const char *argument;
};

} /* namespace */

/* Converts a position in the parsed text to one in the user's text, and adds a context line. */
static void
ParsedTextContext(void *arg)
{
	const ParsedText *parsed = (const ParsedText *) arg;
	const int position = geterrposition();

	if (position > 0)
	{
		errposition(0);
		internalerrposition(Max(1, position - (int) strlen(before_text)));
		internalerrquery(parsed->text);
	}
	errcontext("argument \"%s\" of dedup_guard()", parsed->argument);
}

/* Parses a text that must be a single expression. Does not analyse it. */
static Node *
ParseText(const ParsedText &parsed)
{
	List *statements = pg_parse_query(psprintf("%s%s\n)", before_text, parsed.text));
	const SelectStmt *select = NULL;
	const ResTarget *target = NULL;

	if (list_length(statements) == 1)
		select = (const SelectStmt *) linitial_node(RawStmt, statements)->stmt;
	if (select != NULL && IsA(select, SelectStmt) && select->op == SETOP_NONE &&
		select->distinctClause == NIL && select->intoClause == NULL &&
		list_length(select->targetList) == 1 && select->fromClause == NIL &&
		select->whereClause == NULL && select->groupClause == NIL && select->havingClause == NULL &&
		select->windowClause == NIL && select->valuesLists == NIL && select->sortClause == NIL &&
		select->limitOffset == NULL && select->limitCount == NULL && select->lockingClause == NIL &&
		select->withClause == NULL)
		target = linitial_node(ResTarget, select->targetList);
	if (target == NULL || target->name != NULL || target->indirection != NIL)
		ereport(ERROR, (errcode(ERRCODE_SYNTAX_ERROR),
						errmsg("\"%s\" is not one expression", parsed.text)));
	return target->val;
}

/* ---- restrictions ------------------------------------------------------------------ */

/* Returns the expression of a generated column as text, or NULL. */
static char *
GenerationText(Relation rel, AttrNumber attnum)
{
	const TupleConstr *constraints = RelationGetDescr(rel)->constr;

	for (int i = 0; constraints != NULL && i < constraints->num_defval; i++)
		if (constraints->defval[i].adnum == attnum)
			return ExpressionText(RelationGetRelid(rel),
								  (const Expr *) stringToNode(constraints->defval[i].adbin));
	return NULL;
}

void
RefuseGeneratedColumn(Relation rel, AttrNumber attnum)
{
	Form_pg_attribute column = TupleDescAttr(RelationGetDescr(rel), attnum - 1);
	char *text;

	if (column->attgenerated == '\0')
		return;
	text = GenerationText(rel, attnum);
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("a guard cannot use the generated column \"%s\"", NameStr(column->attname)),
			 errdetail("It is computed after the guard's trigger has run."),
			 text != NULL ? errhint("Use its expression instead: %s.", quote_literal_cstr(text))
						  : 0));
}

/* Refuses everything except plain columns of the row itself. */
static void
CheckColumns(Relation rel, const Expr *expression, const ParsedText &parsed)
{
	GuardClause used = {};
	const char *flaw;

	used.where = const_cast<Expr *>(expression);
	flaw = FindUsedColumns(&used);
	if (flaw != NULL)
		ereport(ERROR, (errcode(ERRCODE_INVALID_COLUMN_REFERENCE),
						errmsg("a guard cannot use \"%s\"", parsed.text),
						errdetail_internal("%s", _(flaw))));
	for (int i = 0; i < used.used_count; i++)
		RefuseGeneratedColumn(rel, used.used[i]);
}

static void
CheckImmutable(Relation rel, const Expr *expression, const ParsedText &parsed)
{
	if (FlawOfExpression(rel, expression) != NULL)
		ereport(ERROR, (errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
						errmsg("\"%s\" is not immutable", parsed.text),
						errdetail("Its result must depend on the row alone, not on settings, the "
								  "time zone or other tables.")));
}

/* ---- reading ---------------------------------------------------------------------- */

/* Reads an expression; `boolean`: it is a condition. */
static Expr *
ReadText(Relation rel, const ParsedText &parsed, bool boolean)
{
	ParseState *state = make_parsestate(NULL);
	ParseNamespaceItem *item;
	Node *node = ParseText(parsed);

	state->p_sourcetext = psprintf("%s%s\n)", before_text, parsed.text);
	item = addRangeTableEntryForRelation(state, rel, AccessShareLock, NULL, false, true);
	addNSItemToQuery(state, item, false, true, true);
	if (boolean)
		node = transformWhereClause(state, node, EXPR_KIND_INDEX_PREDICATE, "WHERE");
	else
		node = transformExpr(state, node, EXPR_KIND_INDEX_EXPRESSION);
	assign_expr_collations(state, node);
	free_parsestate(state);
	CheckColumns(rel, (const Expr *) node, parsed);
	CheckImmutable(rel, (const Expr *) node, parsed);
	return (Expr *) node;
}

Expr *
ReadExpression(Relation rel, const char *text, const char *argument, bool boolean)
{
	const ParsedText parsed = {text, argument};
	ErrorContextCallback context;
	Expr *expression;

	context.callback = ParsedTextContext;
	context.arg = const_cast<ParsedText *>(&parsed);
	context.previous = error_context_stack;
	error_context_stack = &context;
	expression = ReadText(rel, parsed, boolean);
	error_context_stack = context.previous;
	return expression;
}
