/* The key of a guarded row; see row_key.hpp. */
#include "guard/row_key.hpp"
#include "pg/equality.hpp"

extern "C" {
#include "access/htup_details.h"
#include "executor/executor.h"
#include "mb/pg_wchar.h"
#include "optimizer/optimizer.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/rls.h"
}

/* ---- reading -------------------------------------------------------------------- */

static ExprState *
PrepareExpression(const Expr *expression)
{
	/* Nothing else of it runs in an executor's state. */
	return expression == NULL
			   ? NULL
			   : ExecInitExpr(expression_planner((Expr *) copyObjectImpl(expression)), NULL);
}

void
MakeKeyReader(KeyReader *reader, const GuardClause *clause)
{
	*reader = {};
	reader->clause = clause;
	if (!IsComputed(*clause))
		return;
	reader->context = CreateStandaloneExprContext();
	for (int i = 0; i < clause->columns; i++)
		reader->elements[i] = PrepareExpression(clause->expressions[i]);
	reader->where = PrepareExpression(clause->where);
	reader->at = PrepareExpression(clause->at);
}

void
ComputeGuardKey(const KeyReader &reader, TupleTableSlot *slot, GuardKey *key)
{
	const GuardClause &clause = *reader.clause;
	bool isnull = false;

	reader.context->ecxt_scantuple = slot;
	key->has_time = false;
	key->counts = reader.where == NULL ||
				  (DatumGetBool(ExecEvalExpr(reader.where, reader.context, &isnull)) && !isnull);
	if (!key->counts)
		return;
	for (int i = 0; i < clause.columns; i++)
		key->columns[i].value =
			clause.expressions[i] == NULL
				? slot_getattr(slot, clause.attnums[i], &key->columns[i].isnull)
				: ExecEvalExpr(reader.elements[i], reader.context, &key->columns[i].isnull);
	if (reader.at != NULL)
	{
		key->at = DatumGetTimestampTz(ExecEvalExpr(reader.at, reader.context, &isnull));
		key->has_time = !isnull;
		key->counts = key->has_time || !clause.needs_time;
	}
}

void
ReadUsedColumns(const KeyReader &reader, TupleDesc desc, const NullableDatum *used, GuardKey *key)
{
	const GuardClause &clause = *reader.clause;
	TupleTableSlot *slot;

	if (reader.context == NULL)
	{
		/* Then the used columns are the elements of the key. */
		Assert(clause.used_count == clause.columns);
		key->counts = true;
		key->has_time = false;
		memcpy(key->columns, used, sizeof(NullableDatum) * (Size) clause.columns);
		return;
	}
	slot = MakeSingleTupleTableSlot(desc, &TTSOpsVirtual);
	memset(slot->tts_isnull, true, sizeof(bool) * (Size) desc->natts);
	for (int i = 0; i < clause.used_count; i++)
	{
		slot->tts_values[clause.used[i] - 1] = used[i].value;
		slot->tts_isnull[clause.used[i] - 1] = used[i].isnull;
	}
	ExecStoreVirtualTuple(slot);
	ComputeGuardKey(reader, slot, key);
	/* The values are those of the columns, or new ones. */
	ExecDropSingleTupleTableSlot(slot);
}

/* Finds the value of a column in those of an index. It is likely the one at `at`. */
static inline bool
FindIndexed(Relation index, AttrNumber attnum, const Datum *values, const bool *isnull, int at,
			NullableDatum *value)
{
	const Form_pg_index form = index->rd_index;

	if (unlikely(at >= form->indnatts || form->indkey.values[at] != attnum))
		at = 0;
	while (at < form->indnatts && form->indkey.values[at] != attnum)
		at++;
	if (at == form->indnatts)
		return false;
	value->value = values[at];
	value->isnull = isnull[at];
	return true;
}

bool
ReadLandedKey(const KeyReader &reader, Relation heap, Relation index, const Datum *values,
			  const bool *isnull, GuardKey *key, bool *marked)
{
	const GuardClause &clause = *reader.clause;
	NullableDatum used[INDEX_MAX_KEYS];
	NullableDatum mark = {};

	for (int i = 0; i < clause.used_count; i++)
		if (!FindIndexed(index, clause.used[i], values, isnull, i, &used[i]))
			return false;
	if (marked != NULL && clause.mark != 0 &&
		!FindIndexed(index, clause.mark, values, isnull, clause.used_count, &mark))
		return false;
	if (marked != NULL)
		*marked = clause.mark != 0 && !mark.isnull && DatumGetBool(mark.value);
	ReadUsedColumns(reader, RelationGetDescr(heap), used, key);
	return true;
}

/* ---- comparing ------------------------------------------------------------------ */

bool
SameGuardKey(const GuardPlan *plan, const GuardKey &a, const GuardKey &b)
{
	if (!a.counts || !b.counts)
		return a.counts == b.counts;
	for (int i = 0; i < plan->clause.columns; i++)
	{
		const NullableDatum &one = a.columns[i];
		const NullableDatum &other = b.columns[i];

		if (one.isnull != other.isnull)
			return false;
		if (!one.isnull &&
			!datum_image_eq(one.value, other.value, plan->typbyval[i], plan->typlen[i]))
			return false;
	}
	return true;
}

const NullableDatum *
CopyGuardKey(const GuardPlan *plan, const NullableDatum *columns)
{
	const int n = plan->clause.columns;
	NullableDatum *key = (NullableDatum *) palloc(sizeof(NullableDatum) * (Size) n);

	for (int i = 0; i < n; i++)
	{
		key[i].isnull = columns[i].isnull;
		key[i].value = columns[i].isnull
						   ? (Datum) 0
						   : datumCopy(columns[i].value, plan->typbyval[i], plan->typlen[i]);
	}
	return key;
}

bool
EqualGuardKeys(const GuardPlan *plan, const NullableDatum *one, const NullableDatum *other)
{
	const GuardClause &clause = plan->clause;

	for (int i = 0; i < clause.columns; i++)
	{
		Oid equality;

		if (one[i].isnull || other[i].isnull)
		{
			if (one[i].isnull != other[i].isnull || clause.nulls == NullKeys::Skip)
				return false;
			continue;
		}
		if (datum_image_eq(one[i].value, other[i].value, plan->typbyval[i], plan->typlen[i]))
			continue;
		equality = KeyEqualityFunction(clause.types[i]);
		if (!OidIsValid(equality) ||
			!DatumGetBool(
				OidFunctionCall2Coll(equality, clause.collations[i], one[i].value, other[i].value)))
			return false;
	}
	return true;
}

/* ---- duplicates ------------------------------------------------------------------ */

/* The most bytes of a column that an error shows. */
constexpr int DESCRIBED_BYTES = 256;

/*
 * Returns "(a, b)=(1, x)", or NULL if the user may not see the values, by the rules of unique
 * indexes.
 */
static char *
DescribeKey(Relation rel, const GuardPlan *plan, const NullableDatum *columns)
{
	const GuardClause &clause = plan->clause;
	Oid relid = RelationGetRelid(rel);
	StringInfoData text;

	if (check_enable_rls(relid, InvalidOid, true) == RLS_ENABLED)
		return NULL;
	if (pg_class_aclcheck(relid, GetUserId(), ACL_SELECT) != ACLCHECK_OK)
		for (int i = 0; i < clause.used_count; i++)
			if (pg_attribute_aclcheck(relid, clause.used[i], GetUserId(), ACL_SELECT) !=
				ACLCHECK_OK)
				return NULL;

	initStringInfo(&text);
	appendStringInfo(&text, "(%s)=(", ElementsText(relid, clause));
	for (int i = 0; i < clause.columns; i++)
	{
		Oid output;
		bool varlena;
		char *value;
		int length;

		getTypeOutputInfo(clause.types[i], &output, &varlena);
		value =
			columns[i].isnull ? pstrdup("null") : OidOutputFunctionCall(output, columns[i].value);
		length = (int) strlen(value);
		if (i > 0)
			appendStringInfoString(&text, ", ");
		if (length <= DESCRIBED_BYTES)
			appendStringInfoString(&text, value);
		else
			appendStringInfo(&text, "%.*s...", pg_mbcliplen(value, length, DESCRIBED_BYTES), value);
	}
	appendStringInfoChar(&text, ')');
	return text.data;
}

void
RejectRow(Relation rel, const GuardPlan *plan, const LiveFilter &filter,
		  const NullableDatum *columns)
{
	char *key = DescribeKey(rel, plan, columns);

	CountLive(filter, LiveCounter::Rejected, 1);
	ereport(ERROR,
			(errcode(ERRCODE_UNIQUE_VIOLATION),
			 plan->options.exact
				 ? errmsg("duplicate key value violates unique constraint \"%s\"", plan->constraint)
				 : errmsg("duplicate key value violates live filter \"%s\"",
						  RelationGetRelationName(filter.rel)),
			 key != NULL ? errdetail("Key %s already exists.", key) : 0,
			 errtableconstraint(rel, plan->constraint)));
	pg_unreachable();
}

HeapTuple
MarkGuardRow(Relation rel, const GuardPlan *plan, HeapTuple tuple, bool duplicate)
{
	TupleDesc desc = RelationGetDescr(rel);
	int column = plan->clause.mark;
	Datum value;
	bool isnull;

	if (plan->mode != GuardMode::Mark)
		return tuple;
	value = heap_getattr(tuple, column, desc, &isnull);
	if (!isnull && DatumGetBool(value) == duplicate)
		return tuple;
	value = BoolGetDatum(duplicate);
	isnull = false;
	return heap_modify_tuple_by_cols(tuple, desc, 1, &column, &value, &isnull);
}

bool
IsMarkedRow(const GuardPlan *plan, TupleTableSlot *slot)
{
	bool isnull;
	Datum mark;

	if (plan->mode != GuardMode::Mark)
		return false;
	mark = slot_getattr(slot, plan->clause.mark, &isnull);
	return !isnull && DatumGetBool(mark);
}
