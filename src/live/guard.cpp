/*
 * The guard: triggers that keep rows out whose key a live filter has seen, and the
 * bookkeeping that makes a key count only if its row landed.
 *
 * A BEFORE INSERT trigger runs before it is known whether the row will land: a later
 * trigger can leave it out, ON CONFLICT skip it. So the trigger adds the key and makes
 * a note; the guard index, which the server inserts into right after the table, takes
 * the note away. A note whose row is over has a key to take back.
 *
 * When is a row over? The tuple that a BEFORE trigger returns lives in the query's
 * per-tuple memory, so the server cannot reset that before it is done with the row, and
 * does reset it before it takes up the next one, or the query's AFTER triggers. A
 * reset callback marks the row's notes; it runs in aborts too and does nothing else.
 * The key is taken back when this session next comes by: at its next guarded row, in
 * its next call of a function on live filters, or before the (sub)transaction commits.
 *
 * An UPDATE that moves a row to another partition is a DELETE and an INSERT of one
 * row, that is, without a reset in between; so is what logical replication makes of
 * it. A BEFORE INSERT trigger that then left the row out would lose it.
 */
#include "live/guard.hpp"
#include "pg/keys.hpp"

extern "C" {
#include "access/genam.h"
#include "access/heapam.h"
#include "access/relation.h"
#include "access/table.h"
#include "catalog/indexing.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_trigger.h"
#include "commands/defrem.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "executor/tuptable.h"
#include "mb/pg_wchar.h"
#include "nodes/nodes.h"
#include "nodes/plannodes.h"
#include "nodes/primnodes.h"
#include "replication/logicalworker.h"
#include "storage/bufmgr.h"
#include "utils/acl.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/rls.h"
#include "utils/syscache.h"
}

namespace
{

/* What a guard does on one table, by its triggers. Cached by the write trigger. */
struct GuardPlan
{
	const char *qual;			/* the clause, mode and constraint name it was made from */
	const char *mode_text;
	const char *constraint;
	Oid			guarded;		/* the table that dedup_guard() was called for */
	GuardMode	mode;
	GuardClause clause;
	KeyPlan    *keys;
	int16		typlen[INDEX_MAX_KEYS];
	bool		typbyval[INDEX_MAX_KEYS];
};

struct GuardPlanEntry
{
	Oid			trigger;
	GuardPlan  *plan;
};

/* What a trigger keeps for its query. */
struct GuardSite
{
	const GuardPlan *plan;
	bool		checked;		/* the guard index is there */
	bool		may_kill;		/* ON CONFLICT can kill a row that is in the guard index */
	Oid			owner;			/* of the guarded table */
	bool		has_seed;
	dedup::KeySeed seed;
	NullableDatum columns[INDEX_MAX_KEYS];
	NullableDatum old_columns[INDEX_MAX_KEYS];
};

/*
 * A row that a query is working on; lives in the query's per-tuple memory, and in the
 * list until that is reset.
 */
struct GuardRow
{
	MemoryContextCallback over;
	GuardRow   *below;
	MemoryContext context;
	int			level;			/* nesting of the query's (sub)transaction */
	Oid			heap;			/* where it goes */

	/* The row of a partition that BEFORE UPDATE has fired for: only it can move. */
	Oid			updated_in;
	ItemPointerData updated;

	/* Deleted, and not inserted elsewhere yet: its key then. */
	bool		moving;
	bool		had_key;
	Oid			guarded;		/* by whose guard; another's INSERT is no move */
	Oid			filter;
	uint64		hash;
};

/* What was done for a row that has not landed yet: a key added, or a mark counted. */
struct GuardNote
{
	GuardRow   *row;			/* NULL: it is over */
	LiveCounter counted;		/* New: the key is to be taken back, too */
	Oid			filter;
	Oid			filter_file;	/* another: it was truncated, and the key went along */
	uint64		hash;
	TransactionId xid;			/* subtransaction that added it */
	int			level;			/* and its nesting level */
	SubTransactionId subid;
	Oid			heap;
	Oid			file;			/* of the heap, when it landed speculatively */
	bool		may_kill;
	bool		taken_back;		/* but not yet uncounted */
	ItemPointerData tid;		/* valid: landed, speculatively */
};

}							/* namespace */

static GuardRow *guard_rows = NULL; /* innermost query's first */

/* An UPDATE of a partitioned table, which inserts only rows that it moves. */
struct GuardUpdate
{
	MemoryContextCallback over;
	GuardUpdate *below;
	MemoryContext context;		/* of the query; holds this too */
};

static GuardUpdate *guard_updates = NULL;	/* innermost first */
static ExecutorStart_hook_type previous_executor_start = NULL;

/* Few: one for each row in hand, and what ended since the last look. */
static GuardNote *guard_notes = NULL;
static int	guard_note_count = 0;
static int	guard_note_capacity = 0;

/* Keys of rows deleted by the transaction that is being applied. */
static HTAB *guard_moved = NULL;

static MemoryContext guard_plan_context = NULL;
static HTAB *guard_plans = NULL;

/* Bytes of a column that an error shows. */
constexpr int DESCRIBED_BYTES = 256;

/* So many plans are kept; more are thrown away together, between transactions. */
constexpr long GUARD_PLANS_KEPT = 256;

/* ---- rows in hand --------------------------------------------------------- */

/* The row's memory goes: the server is done with it. Runs in aborts; cannot fail. */
static void
GuardRowOver(void *arg)
{
	GuardRow   *row = (GuardRow *) arg;

	for (GuardRow **link = &guard_rows; *link != NULL; link = &(*link)->below)
		if (*link == row)
		{
			*link = row->below;
			break;
		}
	for (int i = 0; i < guard_note_count; i++)
		if (guard_notes[i].row == row)
			guard_notes[i].row = NULL;
}

/* The row that the calling trigger is fired for, if an earlier trigger entered it. */
static GuardRow *
FindRow(void)
{
	for (GuardRow *row = guard_rows; row != NULL; row = row->below)
		if (row->context == CurrentMemoryContext)
			return row;
	return NULL;
}

static GuardRow *
EnterRow(GuardRow *row, Relation rel)
{
	if (row == NULL)
	{
		row = (GuardRow *) palloc0(sizeof(GuardRow));
		row->context = CurrentMemoryContext;
		row->level = GetCurrentTransactionNestLevel();
		row->below = guard_rows;
		row->over.func = GuardRowOver;
		row->over.arg = row;
		MemoryContextRegisterResetCallback(CurrentMemoryContext, &row->over);
		guard_rows = row;
	}
	row->heap = RelationGetRelid(rel);
	return row;
}

/* ---- updates of partitioned tables ----------------------------------------- */

static void
GuardUpdateOver(void *arg)
{
	for (GuardUpdate **link = &guard_updates; *link != NULL; link = &(*link)->below)
		if (*link == arg)
		{
			*link = (*link)->below;
			break;
		}
}

static void
GuardExecutorStart(QueryDesc *query, int eflags)
{
	const PlannedStmt *statement = query->plannedstmt;

	if (previous_executor_start != NULL)
		previous_executor_start(query, eflags);
	else
		standard_ExecutorStart(query, eflags);
	if (query->operation == CMD_UPDATE && !statement->hasModifyingCTE &&
		IsA(statement->planTree, ModifyTable) &&
		((const ModifyTable *) statement->planTree)->rootRelation > 0)
	{
		MemoryContext context = query->estate->es_query_cxt;
		GuardUpdate *update = (GuardUpdate *) MemoryContextAlloc(context, sizeof(GuardUpdate));

		update->context = context;
		update->below = guard_updates;
		update->over.func = GuardUpdateOver;
		update->over.arg = update;
		MemoryContextRegisterResetCallback(context, &update->over);
		guard_updates = update;
	}
}

/* Whether the calling BEFORE INSERT trigger is fired for a row that an UPDATE moves. */
static bool
IsFiredByUpdate(void)
{
	MemoryContext query = MemoryContextGetParent(CurrentMemoryContext);

	for (GuardUpdate *update = guard_updates; update != NULL; update = update->below)
		if (update->context == query)
			return true;
	return false;
}

/* ---- notes ---------------------------------------------------------------- */

/* A relation's file, and the subtransaction that has replaced it. */
#if PG_VERSION_NUM >= 160000
#define RelationFile(rel) ((rel)->rd_locator.relNumber)
#define RelationFileSubid(rel) ((rel)->rd_newRelfilelocatorSubid)
#else
#define RelationFile(rel) ((rel)->rd_node.relNode)
#define RelationFileSubid(rel) ((rel)->rd_newRelfilenodeSubid)
#endif

static int
FindNote(const GuardRow *row)
{
	for (int i = guard_note_count - 1; row != NULL && i >= 0; i--)
		if (guard_notes[i].row == row)
			return i;
	return -1;
}

static void
RemoveNote(int i)
{
	guard_notes[i] = guard_notes[--guard_note_count];
}

static void
AddNote(GuardRow *row, const LiveFilter &filter, LiveCounter counted, uint64 hash, bool may_kill)
{
	GuardNote  *note;

	if (guard_note_count == guard_note_capacity)
	{
		int			capacity = Max(16, 2 * guard_note_capacity);
		Size		bytes = sizeof(GuardNote) * capacity;

		guard_notes = (GuardNote *) (guard_notes == NULL ?
									 MemoryContextAlloc(TopMemoryContext, bytes) :
									 repalloc(guard_notes, bytes));
		guard_note_capacity = capacity;
	}
	note = &guard_notes[guard_note_count];
	note->row = row;
	note->counted = counted;
	note->filter = RelationGetRelid(filter.rel);
	note->filter_file = RelationFile(filter.rel);
	note->hash = hash;
	note->xid = GetCurrentTransactionId();
	note->level = GetCurrentTransactionNestLevel();
	note->subid = GetCurrentSubTransactionId();
	note->heap = row->heap;
	note->may_kill = may_kill;
	note->taken_back = false;
	ItemPointerSetInvalid(&note->tid);
	guard_note_count++;
}

/* What a row's place on its page holds. */
enum class TupleState
{
	Gone,						/* nothing, or not a row of that transaction */
	Speculative,
	Landed
};

static TupleState
LookAtTuple(Relation heap, ItemPointer tid, TransactionId xid)
{
	TupleState	state = TupleState::Gone;
	Buffer		buffer = ReadBuffer(heap, ItemPointerGetBlockNumber(tid));
	Page		page;
	OffsetNumber offset = ItemPointerGetOffsetNumber(tid);

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	page = BufferGetPage(buffer);
	if (offset <= PageGetMaxOffsetNumber(page))
	{
		ItemId		item = PageGetItemId(page, offset);

		if (ItemIdIsNormal(item))
		{
			HeapTupleHeader tuple = (HeapTupleHeader) PageGetItem(page, item);

			/* A killed row has no xmin. */
			if (!TransactionIdEquals(HeapTupleHeaderGetRawXmin(tuple), xid))
				state = TupleState::Gone;
			else if (HeapTupleHeaderIsSpeculative(tuple))
				state = TupleState::Speculative;
			else
				state = TupleState::Landed;
		}
	}
	UnlockReleaseBuffer(buffer);
	return state;
}

/* Whether a row that was speculative when we saw it has landed after all. */
static bool
SpeculativeLanded(GuardNote *note)
{
	Relation	heap = RelationIdGetRelation(note->heap);
	bool		landed = true;

	/*
	 * Our transaction holds a lock on the table, so if it is gone, or shorter, it was
	 * this transaction that dropped or truncated it, with the row in it. If it was
	 * rewritten, all that was in it by then has landed, but for what was killed there
	 * and not tried again, and the row is in another place.
	 */
	if (!RelationIsValid(heap))
		return true;
	if (RelationFile(heap) == note->file &&
		ItemPointerGetBlockNumber(&note->tid) < RelationGetNumberOfBlocks(heap))
		landed = LookAtTuple(heap, &note->tid, note->xid) == TupleState::Landed;
	RelationClose(heap);
	return landed;
}

/*
 * Whether a subtransaction inside of the note's own has dropped a relation, or replaced
 * its file: that can be undone yet.
 */
static bool
ReplacedInside(Oid relid, const GuardNote *note)
{
	Relation	rel = RelationIdGetRelation(relid);
	bool		replaced;

	if (!RelationIsValid(rel))
		return true;
	replaced = RelationFileSubid(rel) > note->subid;
	RelationClose(rel);
	return replaced;
}

/* A filter that the caller may use because it is in use, by his own guard. */
static LiveFilter
OpenUnchecked(Oid filter, LOCKMODE lock)
{
	Relation	rel = relation_open(filter, lock);

	return {rel, LiveParametersOf(rel)};
}

/*
 * Decides about a key whose row is over. The note goes last: if anything here fails
 * in a subtransaction inside of the note's own, somebody has to try again.
 *
 * A key was counted when it was added. To uncount it in another subtransaction would
 * be undone if that one aborted, while the key stays taken back; so this waits.
 */
static void
SettleNote(int i)
{
	GuardNote  *note = &guard_notes[i];
	LiveFilter	filter;
	bool		same_level = note->level == GetCurrentTransactionNestLevel();

	if (!same_level && (note->taken_back || ReplacedInside(note->filter, note) ||
						(ItemPointerIsValid(&note->tid) && ReplacedInside(note->heap, note))))
		return;
	if (!note->taken_back && ItemPointerIsValid(&note->tid) && SpeculativeLanded(note))
	{
		RemoveNote(i);
		return;
	}

	/* Dropped by this transaction, or else our lock would have kept it. */
	if (!IsLiveRelationId(note->filter))
	{
		RemoveNote(i);
		return;
	}

	/*
	 * The key was ours to add, so it is ours to take back, even if the transaction has
	 * become READ ONLY since, or the privilege been revoked.
	 */
	filter = OpenUnchecked(note->filter, NoLock);
	if (!note->taken_back && note->counted == LiveCounter::New &&
		note->filter_file == RelationFile(filter.rel))
		LiveTakeBack(filter, note->hash, note->xid);
	note->taken_back = true;
	if (same_level)
		CountLive(filter, note->counted, -1);
	CloseLive(filter);
	if (same_level)
		RemoveNote(i);
}

/* Decides about the key of a row in hand, which did not land as it was. */
static void
SettleRow(GuardRow *row)
{
	int			i = FindNote(row);

	if (i >= 0)
	{
		guard_notes[i].row = NULL;
		SettleNote(i);
	}
}

void
SettleLandedRows(void)
{
	for (int i = guard_note_count - 1; i >= 0; i--)
		if (guard_notes[i].row == NULL)
			SettleNote(i);
}

/* At the end of a (sub)transaction no row of its level is in hand any more. */
static void
SettleLevel(int level)
{
	for (int i = guard_note_count - 1; i >= 0; i--)
		if (guard_notes[i].level >= level)
		{
			guard_notes[i].row = NULL;
			SettleNote(i);
		}
}

/*
 * The keys of an aborted subtransaction are as if never added. Its queries are over,
 * though the memory of one that an SQL function ran can outlive them: then its rows
 * must not be taken for those in hand.
 */
static void
ForgetLevel(int level)
{
	for (GuardRow **link = &guard_rows; *link != NULL;)
		if ((*link)->level >= level)
			*link = (*link)->below;
		else
			link = &(*link)->below;
	for (int i = guard_note_count - 1; i >= 0; i--)
		if (guard_notes[i].level >= level)
			RemoveNote(i);
}

static void
GuardTransactionCallback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			SettleLevel(1);
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PREPARE:
		case XACT_EVENT_ABORT:
			ForgetLevel(1);
			guard_moved = NULL;
			if (guard_plans != NULL && hash_get_num_entries(guard_plans) > GUARD_PLANS_KEPT)
			{
				guard_plans = NULL;
				MemoryContextDelete(guard_plan_context);
				guard_plan_context = NULL;
			}
			break;
		default:
			break;
	}
}

static void
GuardSubtransactionCallback(SubXactEvent event, SubTransactionId id, SubTransactionId parent,
							void *arg)
{
	if (event == SUBXACT_EVENT_PRE_COMMIT_SUB)
		SettleLevel(GetCurrentTransactionNestLevel());
	else if (event == SUBXACT_EVENT_ABORT_SUB)
		ForgetLevel(GetCurrentTransactionNestLevel());
}

/*
 * The server calls the callback that was registered last first, and taking keys back
 * changes the counters: so this comes after InitLiveCounters().
 */
void
InitLiveGuard(void)
{
	previous_executor_start = ExecutorStart_hook;
	ExecutorStart_hook = GuardExecutorStart;
	RegisterXactCallback(GuardTransactionCallback, NULL);
	RegisterSubXactCallback(GuardSubtransactionCallback, NULL);
}

void
GuardRowLanded(Relation heap, ItemPointer tid)
{
	for (GuardRow *row = guard_rows; row != NULL; row = row->below)
		if (row->heap == RelationGetRelid(heap))
		{
			int			i = FindNote(row);

			if (i < 0)
				return;
			if (guard_notes[i].may_kill &&
				LookAtTuple(heap, tid, guard_notes[i].xid) == TupleState::Speculative)
			{
				guard_notes[i].tid = *tid;
				guard_notes[i].file = RelationFile(heap);
			}
			else
				RemoveNote(i);
			return;
		}
}

/* ---- the guard of a table ------------------------------------------------- */

static bool
ReadClauseNode(const Node *node, GuardClause *clause)
{
	if (IsA(node, BoolExpr))
	{
		const BoolExpr *expr = (const BoolExpr *) node;
		ListCell   *cell;

		if (expr->boolop != OR_EXPR)
			return false;
		foreach(cell, expr->args)
			if (!ReadClauseNode((const Node *) lfirst(cell), clause))
				return false;
		return true;
	}
	if (IsA(node, NullTest))
	{
		const NullTest *test = (const NullTest *) node;

		if (IsA(test->arg, Const))
		{
			const Const *constant = (const Const *) test->arg;

			if (OidIsValid(clause->filter) || constant->consttype != REGCLASSOID ||
				constant->constisnull || test->nulltesttype != IS_NOT_NULL)
				return false;
			clause->filter = DatumGetObjectId(constant->constvalue);
			return true;
		}
		if (IsA(test->arg, Var))
		{
			const Var  *var = (const Var *) test->arg;

			if (test->nulltesttype == IS_NOT_NULL)
			{
				if (clause->mark != 0 || var->vartype != BOOLOID)
					return false;
				clause->mark = var->varattno;
				return true;
			}
			if (clause->columns == INDEX_MAX_KEYS)
				return false;
			clause->attnums[clause->columns] = var->varattno;
			clause->types[clause->columns] = var->vartype;
			clause->collations[clause->columns] = var->varcollid;
			clause->columns++;
			return true;
		}
	}
	return false;
}

bool
ReadGuardClause(const char *qual, GuardClause *clause)
{
	const Node *node = (const Node *) stringToNode(qual);

	memset(clause, 0, sizeof *clause);
	return node != NULL && ReadClauseNode(node, clause) && OidIsValid(clause->filter) &&
		clause->columns > 0;
}

static bool
IsRowTrigger(const Trigger *trigger)
{
	return TRIGGER_FOR_ROW(trigger->tgtype) && TRIGGER_FOR_BEFORE(trigger->tgtype);
}

GuardTriggers
FindGuardTriggers(Relation rel, Oid function)
{
	GuardTriggers found = {};
	const TriggerDesc *triggers = rel->trigdesc;

	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
	{
		const Trigger *trigger = &triggers->triggers[i];
		bool		writes = TRIGGER_FOR_INSERT(trigger->tgtype) &&
			TRIGGER_FOR_UPDATE(trigger->tgtype);
		bool		removes = TRIGGER_FOR_DELETE(trigger->tgtype);
		const Trigger **place = writes ? &found.write : &found.remove;

		if (trigger->tgfoid != function)
			continue;
		if (!IsRowTrigger(trigger) || writes == removes || *place != NULL)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("trigger \"%s\" of table \"%s\" is not part of a guard",
							trigger->tgname, RelationGetRelationName(rel)),
					 errhint("Drop it; dedup_guard() makes the triggers of a guard.")));
		*place = trigger;
	}
	return found;
}

/* The table whose trigger this one was cloned from, for a partition. */
static Oid
GuardedTable(Oid trigger)
{
	Relation	pg_trigger = table_open(TriggerRelationId, AccessShareLock);
	Oid			table = InvalidOid;

	while (OidIsValid(trigger))
	{
		ScanKeyData key;
		SysScanDesc scan;
		HeapTuple	tuple;

		ScanKeyInit(&key, Anum_pg_trigger_oid, BTEqualStrategyNumber, F_OIDEQ,
					ObjectIdGetDatum(trigger));
		scan = systable_beginscan(pg_trigger, TriggerOidIndexId, true, NULL, 1, &key);
		tuple = systable_getnext(scan);
		if (!HeapTupleIsValid(tuple))
			elog(ERROR, "could not find trigger %u", trigger);
		table = ((Form_pg_trigger) GETSTRUCT(tuple))->tgrelid;
		trigger = ((Form_pg_trigger) GETSTRUCT(tuple))->tgparentid;
		systable_endscan(scan);
	}
	table_close(pg_trigger, AccessShareLock);
	return table;
}

static void
IncompleteGuard(Relation rel)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the guard of table \"%s\" is incomplete", RelationGetRelationName(rel)),
			 errdetail("One of its triggers is missing or was changed."),
			 errhint("Run dedup_unguard() and dedup_guard() again.")));
}

static GuardMode
ReadMode(const char *text, const GuardClause &clause, bool *valid)
{
	*valid = true;
	if (strcmp(text, "skip") == 0)
		return GuardMode::Skip;
	if (strcmp(text, "reject") == 0)
		return GuardMode::Reject;
	*valid = strcmp(text, "mark") == 0 && clause.mark != 0;
	return GuardMode::Mark;
}

/*
 * The plan of a table's guard, from this session's cache if its triggers are as they
 * were. A plan that was replaced stays, since a query may be using it.
 */
static const GuardPlan *
GetGuardPlan(Relation rel, Oid function)
{
	GuardTriggers triggers = FindGuardTriggers(rel, function);
	const char *qual;
	char	  **args;
	GuardPlanEntry *entry;
	GuardPlan  *plan;
	MemoryContext old;
	Oid			trigger;
	bool		found;
	bool		valid;

	if (triggers.write == NULL || triggers.remove == NULL || triggers.write->tgnargs != 2 ||
		triggers.remove->tgqual == NULL)
		IncompleteGuard(rel);
	if ((rel->rd_rel->relispartition || IsLogicalWorker()) &&
		triggers.write->tgenabled != triggers.remove->tgenabled)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the triggers of the guard of table \"%s\" are not enabled alike",
						RelationGetRelationName(rel)),
				 errdetail("A row that moves to another partition could be lost."),
				 errhint("ALTER TABLE ... ENABLE TRIGGER both \"%s\" and \"%s\" in the same way.",
						 triggers.write->tgname, triggers.remove->tgname)));
	qual = triggers.remove->tgqual;
	args = triggers.write->tgargs;
	trigger = triggers.write->tgoid;

	if (guard_plans == NULL)
	{
		HASHCTL		info = {};

		guard_plan_context = AllocSetContextCreateInternal(TopMemoryContext, "dedup_guard plans",
														   ALLOCSET_DEFAULT_SIZES);
		info.keysize = sizeof(Oid);
		info.entrysize = sizeof(GuardPlanEntry);
		info.hcxt = guard_plan_context;
		guard_plans = hash_create("dedup_guard plans", 32, &info,
								  HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	entry = (GuardPlanEntry *) hash_search(guard_plans, &trigger, HASH_FIND, NULL);
	if (entry != NULL && strcmp(entry->plan->qual, qual) == 0 &&
		strcmp(entry->plan->mode_text, args[0]) == 0 &&
		strcmp(entry->plan->constraint, args[1]) == 0)
		return entry->plan;

	old = MemoryContextSwitchTo(guard_plan_context);
	plan = (GuardPlan *) palloc0(sizeof(GuardPlan));
	plan->qual = pstrdup(qual);
	plan->mode_text = pstrdup(args[0]);
	plan->constraint = pstrdup(args[1]);
	MemoryContextSwitchTo(old);

	if (!ReadGuardClause(qual, &plan->clause))
		IncompleteGuard(rel);
	plan->mode = ReadMode(args[0], plan->clause, &valid);
	if (!valid)
		IncompleteGuard(rel);

	/* From here on the relation's cache, and so its triggers, can go at any lock. */
	plan->guarded = GuardedTable(trigger);
	plan->keys = MakeColumnsKeyPlan(guard_plan_context, plan->clause.columns, plan->clause.types,
									plan->clause.collations);
	for (int i = 0; i < plan->clause.columns; i++)
		get_typlenbyval(plan->clause.types[i], &plan->typlen[i], &plan->typbyval[i]);

	entry = (GuardPlanEntry *) hash_search(guard_plans, &trigger, HASH_ENTER, &found);
	entry->plan = plan;
	return plan;
}

bool
IsUsableGuardIndex(Oid index, Oid access_method, int columns, const AttrNumber *attnums)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(index));
	Form_pg_index form;
	bool		usable;

	if (!HeapTupleIsValid(tuple))
		return false;
	usable = ((Form_pg_class) GETSTRUCT(tuple))->relam == access_method;
	ReleaseSysCache(tuple);
	if (!usable)
		return false;

	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(index));
	if (!HeapTupleIsValid(tuple))
		return false;
	form = (Form_pg_index) GETSTRUCT(tuple);
	usable = form->indisvalid && form->indisready && form->indislive &&
		heap_attisnull(tuple, Anum_pg_index_indpred, NULL);
	for (int i = 0; usable && i < columns; i++)
	{
		usable = false;
		for (int j = 0; j < form->indnatts; j++)
			usable = usable || form->indkey.values[j] == attnums[i];
	}
	ReleaseSysCache(tuple);
	return usable;
}

/*
 * Checks, once a query, that we will be told what lands in this table; learns whether
 * that is final.
 */
static void
CheckGuardedTable(Relation rel, GuardSite *site)
{
	Oid			access_method = get_index_am_oid(GUARD_ACCESS_METHOD, false);
	List	   *indexes;
	ListCell   *cell;
	bool		usable = false;

	if (rel->rd_rel->relkind != RELKIND_RELATION || rel->rd_rel->relam != HEAP_TABLE_AM_OID)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("table \"%s\" cannot be guarded", RelationGetRelationName(rel)),
				 errdetail("A guard works on heap tables only, and on partitions that are.")));

	indexes = RelationGetIndexList(rel);
	foreach(cell, indexes)
	{
		HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(lfirst_oid(cell)));
		Form_pg_index form;

		if (!HeapTupleIsValid(tuple))
			continue;
		form = (Form_pg_index) GETSTRUCT(tuple);
		if (form->indisunique || form->indisexclusion)
			site->may_kill = true;
		ReleaseSysCache(tuple);
		if (!usable)
			usable = IsUsableGuardIndex(lfirst_oid(cell), access_method,
										site->plan->clause.columns, site->plan->clause.attnums);
	}
	list_free(indexes);
	if (!usable)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"%s\" has no valid guard index", RelationGetRelationName(rel)),
				 errdetail("Without it a key would count even if its row did not land."),
				 errhint("REINDEX an invalid one; else run dedup_unguard() and dedup_guard() again.")));
	site->checked = true;
}

static GuardSite *
GetSite(FunctionCallInfo fcinfo, const TriggerData *trigger)
{
	GuardSite  *site = (GuardSite *) fcinfo->flinfo->fn_extra;

	if (likely(site != NULL))
		return site;

	/* We are called in the per-tuple memory of the query whose trigger state this is. */
	site = (GuardSite *) MemoryContextAllocZero(MemoryContextGetParent(CurrentMemoryContext),
												sizeof(GuardSite));
	site->plan = GetGuardPlan(trigger->tg_relation, trigger->tg_trigger->tgfoid);
	fcinfo->flinfo->fn_extra = site;
	return site;
}

/* ---- rows that a publisher has moved ---------------------------------------- */

namespace
{

struct MovedKey
{
	Oid			filter;
	uint64		hash;
};

}							/* namespace */

/*
 * A row that moves between partitions of the publisher arrives as a DELETE and an
 * INSERT, messages of their own. So in a worker that applies changes a key whose row
 * was deleted in this transaction may be inserted in it once more.
 */
static void
RememberMoved(Oid filter, uint64 hash)
{
	MovedKey	key;

	if (guard_moved == NULL)
	{
		HASHCTL		info = {};

		info.keysize = sizeof(MovedKey);
		info.entrysize = sizeof(MovedKey);
		info.hcxt = TopTransactionContext;
		guard_moved = hash_create("dedup_guard moved keys", 64, &info,
								  HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	memset(&key, 0, sizeof key);
	key.filter = filter;
	key.hash = hash;
	(void) hash_search(guard_moved, &key, HASH_ENTER, NULL);
}

static bool
TakeMoved(Oid filter, uint64 hash)
{
	MovedKey	key;
	bool		found = false;

	if (likely(guard_moved == NULL))
		return false;
	memset(&key, 0, sizeof key);
	key.filter = filter;
	key.hash = hash;
	(void) hash_search(guard_moved, &key, HASH_REMOVE, &found);
	return found;
}

/* ---- keys ----------------------------------------------------------------- */

/* The privilege that counts is that of the guarded table's owner. */
static LiveFilter
OpenGuardFilter(GuardSite *site)
{
	if (unlikely(!OidIsValid(site->owner)))
	{
		HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(site->plan->guarded));

		if (!HeapTupleIsValid(tuple))
			elog(ERROR, "cache lookup failed for relation %u", site->plan->guarded);
		site->owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
		ReleaseSysCache(tuple);
	}
	return OpenLive(site->plan->clause.filter, LiveUse::Add, site->owner, "dedup_guard");
}

static void
LoadColumns(const GuardPlan *plan, TupleTableSlot *slot, NullableDatum *columns)
{
	for (int i = 0; i < plan->clause.columns; i++)
		columns[i].value = slot_getattr(slot, plan->clause.attnums[i], &columns[i].isnull);
}

/* False if a column is NULL: then there is no key, as in a UNIQUE constraint. */
static bool
HashGuardKey(const GuardPlan *plan, const NullableDatum *columns, dedup::KeySeed seed,
			 uint64 *hash)
{
	return HashColumns(plan->keys, columns, NullKeys::Skip, seed, hash);
}

/* Whether two keys are the same to the last bit. */
static bool
SameColumns(const GuardPlan *plan, const NullableDatum *a, const NullableDatum *b)
{
	for (int i = 0; i < plan->clause.columns; i++)
	{
		if (a[i].isnull != b[i].isnull)
			return false;
		if (!a[i].isnull &&
			!datum_image_eq(a[i].value, b[i].value, plan->typbyval[i], plan->typlen[i]))
			return false;
	}
	return true;
}

static LiveAnswer
TestAndAdd(const LiveFilter &filter, uint64 hash)
{
	uint32		generation = 0;

	if (filter.parameters.ttl != 0)
		generation = LiveGeneration(filter, GetCurrentTimestamp());
	return LiveTestAndAdd(filter, hash, generation);
}

/*
 * "(a, b)=(1, x)", or NULL if the user may not see that, by the rules of unique
 * indexes.
 */
static char *
DescribeKey(Relation rel, const GuardPlan *plan, const NullableDatum *columns)
{
	const GuardClause &clause = plan->clause;
	Oid			relid = RelationGetRelid(rel);
	StringInfoData text;

	if (check_enable_rls(relid, InvalidOid, true) == RLS_ENABLED)
		return NULL;
	if (pg_class_aclcheck(relid, GetUserId(), ACL_SELECT) != ACLCHECK_OK)
		for (int i = 0; i < clause.columns; i++)
			if (pg_attribute_aclcheck(relid, clause.attnums[i], GetUserId(),
									  ACL_SELECT) != ACLCHECK_OK)
				return NULL;

	initStringInfo(&text);
	for (int i = 0; i < clause.columns; i++)
	{
		Form_pg_attribute column = TupleDescAttr(RelationGetDescr(rel), clause.attnums[i] - 1);

		appendStringInfo(&text, "%s%s", i == 0 ? "(" : ", ",
						 quote_identifier(NameStr(column->attname)));
	}
	for (int i = 0; i < clause.columns; i++)
	{
		Oid			output;
		bool		varlena;
		char	   *value;
		int			length;

		getTypeOutputInfo(clause.types[i], &output, &varlena);
		value = OidOutputFunctionCall(output, columns[i].value);
		length = (int) strlen(value);
		appendStringInfoString(&text, i == 0 ? ")=(" : ", ");
		if (length <= DESCRIBED_BYTES)
			appendStringInfoString(&text, value);
		else
			appendStringInfo(&text, "%.*s...", pg_mbcliplen(value, length, DESCRIBED_BYTES),
							 value);
	}
	appendStringInfoChar(&text, ')');
	return text.data;
}

[[noreturn]] static void
RejectRow(Relation rel, const GuardPlan *plan, const LiveFilter &filter,
		  const NullableDatum *columns)
{
	char	   *key = DescribeKey(rel, plan, columns);

	CountLive(filter, LiveCounter::Rejected, 1);
	ereport(ERROR,
			(errcode(ERRCODE_UNIQUE_VIOLATION),
			 errmsg("duplicate key value violates live filter \"%s\"",
					RelationGetRelationName(filter.rel)),
			 key != NULL ? errdetail("Key %s already exists.", key) : 0,
			 errtableconstraint(rel, plan->constraint)));
	pg_unreachable();
}

/* ---- the triggers --------------------------------------------------------- */

/* The row, with its mark set. */
static HeapTuple
MarkRow(Relation rel, const GuardPlan *plan, HeapTuple tuple, bool duplicate)
{
	TupleDesc	desc = RelationGetDescr(rel);
	int			column = plan->clause.mark;
	Datum		value;
	bool		isnull;

	if (plan->mode != GuardMode::Mark)
		return tuple;
	value = heap_getattr(tuple, column, desc, &isnull);
	if (!isnull && DatumGetBool(value) == duplicate)
		return tuple;
	value = BoolGetDatum(duplicate);
	isnull = false;
	return heap_modify_tuple_by_cols(tuple, desc, 1, &column, &value, &isnull);
}

/* The key is new, or the row is marked: it counts, unless the row does not land. */
static void
NoteRow(GuardRow *row, const LiveFilter &filter, LiveCounter counted, uint64 hash, bool may_kill)
{
	AddNote(row, filter, counted, hash, may_kill);
	CountLive(filter, counted, 1);
}

static HeapTuple
GuardInsertedRow(GuardSite *site, const TriggerData *trigger)
{
	const GuardPlan *plan = site->plan;
	Relation	rel = trigger->tg_relation;
	HeapTuple	tuple = trigger->tg_trigtuple;
	GuardRow   *row = FindRow();
	bool		moving = row != NULL && row->moving && row->guarded == plan->guarded;
	LiveFilter	filter;
	LiveAnswer	answer;
	uint64		hash = 0;
	bool		has_key;

	LoadColumns(plan, trigger->tg_trigslot, site->columns);
	filter = OpenGuardFilter(site);
	has_key = HashGuardKey(plan, site->columns, filter.key_seed(), &hash);

	if (moving)
	{
		int			i = FindNote(row);

		/*
		 * The row was there before, so its key needs no asking; or BEFORE UPDATE has
		 * added the new key, and noted it.
		 */
		row->moving = false;
		EnterRow(row, rel);
		if (has_key && i >= 0 && guard_notes[i].counted == LiveCounter::New &&
			guard_notes[i].filter == plan->clause.filter &&
			guard_notes[i].hash == hash)
		{
			guard_notes[i].heap = RelationGetRelid(rel);
			CloseLive(filter);
			return tuple;
		}
		SettleRow(row);
		if (has_key && row->had_key && row->filter == plan->clause.filter && row->hash == hash)
		{
			CloseLive(filter);
			return tuple;
		}
	}
	else
	{
		if (row != NULL)
			row->moving = false;
		SettleRow(row);
	}

	if (!has_key)
	{
		/* No note; so that none of an outer query's is taken for this row's. */
		if (guard_note_count > 0)
			EnterRow(row, rel);
		CloseLive(filter);
		return MarkRow(rel, plan, tuple, false);
	}

	if (TakeMoved(plan->clause.filter, hash))
	{
		if (guard_note_count > 0)
			EnterRow(row, rel);
		CloseLive(filter);
		return tuple;
	}

	answer = TestAndAdd(filter, hash);
	if (answer == LiveAnswer::Duplicate)
	{
		/* A row that moves has been deleted already: to leave it out would lose it. */
		if (plan->mode == GuardMode::Reject || moving)
			RejectRow(rel, plan, filter, site->columns);
		if (plan->mode == GuardMode::Skip && IsFiredByUpdate())
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("cannot move a row to partition \"%s\" from one whose guard is not enabled",
							RelationGetRelationName(rel)),
					 errdetail("Its key has been seen, so the row would be lost."),
					 errhint("ALTER TABLE ... ENABLE TRIGGER both \"%s\" and \"%s\" of the other partition.",
							 GUARD_TRIGGER, GUARD_DELETE_TRIGGER)));
		if (plan->mode == GuardMode::Skip)
		{
			CountLive(filter, LiveCounter::Skipped, 1);
			CloseLive(filter);
			return NULL;
		}
		NoteRow(EnterRow(row, rel), filter, LiveCounter::Marked, hash, site->may_kill);
	}
	if (answer == LiveAnswer::New)
		NoteRow(EnterRow(row, rel), filter, LiveCounter::New, hash, site->may_kill);
	else if (answer != LiveAnswer::Duplicate && guard_note_count > 0)
		EnterRow(row, rel);
	CloseLive(filter);
	return MarkRow(rel, plan, tuple, answer == LiveAnswer::Duplicate);
}

/*
 * An UPDATE that changes the key takes a new one; the old one stays seen. That the
 * new one is a duplicate is an error in every mode: an UPDATE that silently leaves
 * rows as they were helps nobody.
 */
static HeapTuple
GuardUpdatedRow(GuardSite *site, const TriggerData *trigger)
{
	const GuardPlan *plan = site->plan;
	Relation	rel = trigger->tg_relation;
	GuardRow   *row = FindRow();
	bool		added = false;

	/* ON CONFLICT DO UPDATE: the row that was to be inserted did not land. */
	if (row != NULL)
	{
		row->moving = false;
		SettleRow(row);
	}

	LoadColumns(plan, trigger->tg_trigslot, site->old_columns);
	LoadColumns(plan, trigger->tg_newslot, site->columns);
	if (!SameColumns(plan, site->old_columns, site->columns))
	{
		LiveFilter	filter = OpenGuardFilter(site);
		const dedup::KeySeed seed = filter.key_seed();
		uint64		hash;
		uint64		old_hash;

		if (HashGuardKey(plan, site->columns, seed, &hash) &&
			!(HashGuardKey(plan, site->old_columns, seed, &old_hash) && hash == old_hash))
		{
			LiveAnswer	answer = TestAndAdd(filter, hash);

			if (answer == LiveAnswer::Duplicate)
				RejectRow(rel, plan, filter, site->columns);
			if (answer == LiveAnswer::New)
			{
				NoteRow(EnterRow(row, rel), filter, LiveCounter::New, hash, false);
				added = true;
			}
		}
		CloseLive(filter);
	}
	if (!added && (guard_note_count > 0 || rel->rd_rel->relispartition))
		EnterRow(row, rel);
	if (rel->rd_rel->relispartition)
	{
		row = FindRow();
		row->updated_in = RelationGetRelid(rel);
		row->updated = trigger->tg_trigtuple->t_self;
	}
	return trigger->tg_newtuple;
}

/*
 * Remembers the key of a row that is on its way to another partition: that BEFORE UPDATE
 * has just fired for. What a DELETE in a WITH clause takes out, for an INSERT of the same
 * query to put in, is not that row but its key's second one, whatever the plan.
 */
static HeapTuple
GuardDeletedRow(FunctionCallInfo fcinfo, const TriggerData *trigger)
{
	Relation	rel = trigger->tg_relation;
	GuardSite  *site;
	GuardRow   *row;

	row = FindRow();
	if (!IsLogicalWorker() &&
		!(row != NULL && row->updated_in == RelationGetRelid(rel) &&
		  ItemPointerEquals(&row->updated, &trigger->tg_trigtuple->t_self)))
		return trigger->tg_trigtuple;

	site = GetSite(fcinfo, trigger);
	if (!site->has_seed)
	{
		LiveFilter	filter;

		if (!IsLiveRelationId(site->plan->clause.filter))
			IncompleteGuard(rel);
		filter = OpenUnchecked(site->plan->clause.filter, AccessShareLock);
		site->seed = filter.key_seed();
		site->has_seed = true;
		CloseLive(filter);
	}
	LoadColumns(site->plan, trigger->tg_trigslot, site->columns);
	row = EnterRow(row, rel);
	row->moving = true;
	row->guarded = site->plan->guarded;
	row->filter = site->plan->clause.filter;
	row->had_key = HashGuardKey(site->plan, site->columns, site->seed, &row->hash);
	if (row->had_key && IsLogicalWorker())
		RememberMoved(row->filter, row->hash);
	return trigger->tg_trigtuple;
}

/*
 * dedup_guard_trigger() returns trigger
 */
DEDUP_FUNCTION(dedup_guard_trigger)
{
	const TriggerData *trigger = (const TriggerData *) fcinfo->context;
	GuardSite  *site;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function %s must be called as a trigger", GUARD_FUNCTION)));
	if (!TRIGGER_FIRED_BEFORE(trigger->tg_event) || !TRIGGER_FIRED_FOR_ROW(trigger->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function %s must be fired before each row", GUARD_FUNCTION),
				 errhint("dedup_guard() makes the triggers of a guard.")));

	SettleLandedRows();
	if (TRIGGER_FIRED_BY_DELETE(trigger->tg_event))
		PG_RETURN_POINTER(GuardDeletedRow(fcinfo, trigger));

	site = GetSite(fcinfo, trigger);
	if (unlikely(!site->checked))
		CheckGuardedTable(trigger->tg_relation, site);
	if (TRIGGER_FIRED_BY_INSERT(trigger->tg_event))
		PG_RETURN_POINTER(GuardInsertedRow(site, trigger));
	PG_RETURN_POINTER(GuardUpdatedRow(site, trigger));
}

/* ---- questions of others -------------------------------------------------- */

bool
IsGuardTriggerFunction(Oid function)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	FmgrInfo	info;
	Datum		source;
	bool		isnull;
	bool		named;

	if (!HeapTupleIsValid(tuple))
		return false;
	source = SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_prosrc, &isnull);
	named = !isnull && ((Form_pg_proc) GETSTRUCT(tuple))->prolang == ClanguageId &&
		strcmp(TextDatumGetCString(source), GUARD_FUNCTION) == 0;
	ReleaseSysCache(tuple);
	if (!named)
		return false;

	/* Some other library may have a function of that name. */
	fmgr_info(function, &info);
	return info.fn_addr == dedup_guard_trigger;
}
