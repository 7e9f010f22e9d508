/*
 * The guard: triggers that keep rows out whose key a live filter has seen.
 *
 * A trigger tests and adds the row's key before the row lands; rows.cpp makes
 * the key count only if it does. plan.cpp reads what the table's guard is. A row
 * that this transaction has deleted may be inserted again: deleted.cpp and
 * truncate.cpp remember it. moves.cpp finds rows that come from a partition
 * without a guard. freed.cpp frees the keys of rows that go.
 */
#include "guard/divert.hpp"
#include "guard/exact.hpp"
#include "guard/row_key.hpp"
#include "pg/catalog.hpp"

extern "C" {
#include "access/htup_details.h"
#include "access/relation.h"
#include "catalog/pg_class.h"
#include "catalog/pg_trigger.h"
#include "commands/trigger.h"
#include "executor/tuptable.h"
#include "replication/logicalworker.h"
}

namespace
{

/* What a trigger keeps for its query. */
struct GuardSite
{
	const GuardPlan *plan;
	bool checked;                   /* the guard index is there */
	bool may_kill;                  /* ON CONFLICT can kill a row that is in the guard index */
	Oid owner;                      /* of the guarded table */
	bool filter_checked;            /* it is one that dedup_create() has made */
	bool changeable;                /* triggers fire after the guard's, which may change a row */
	bool removable;                 /* the same for DELETE */
	Oid root;                       /* of the partitions that the table belongs to */
	UnguardedPartitions *unguarded; /* NULL: not looked for yet */
	bool parents_checked;
	bool has_seed; /* and what follows it */
	dedup::KeySeed seed;
	bool may_delete;    /* the owner may add keys, so deleted rows may come again */
	ExactSite exact;    /* without a plan: the guard is not exact */
	DivertSite *divert; /* NULL: no row has gone into the side table yet */
	KeyReader reader;
	GuardKey key;
	GuardKey old_key;
};

} /* namespace */

/* Whether a trigger fires after another one, before a row is written, for such an event. */
static bool
FiresLater(Relation rel, Oid than, int16 events)
{
	const TriggerDesc *triggers = rel->trigdesc;
	bool later = false;

	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
	{
		const Trigger *trigger = &triggers->triggers[i];

		if (trigger->tgoid == than)
			later = true;
		else if (later && TRIGGER_FOR_ROW(trigger->tgtype) && TRIGGER_FOR_BEFORE(trigger->tgtype) &&
				 (trigger->tgtype & events) != 0 && trigger->tgenabled != TRIGGER_DISABLED)
			return true;
	}
	return false;
}

/* Makes what a trigger keeps for its query, by a plan. */
static GuardSite *
MakeSite(FunctionCallInfo fcinfo, const TriggerData *trigger, const GuardPlan *plan)
{
	GuardSite *site;
	MemoryContext old;

	/* We are called in the per-tuple memory of the query whose trigger state this is. */
	site = (GuardSite *) MemoryContextAllocZero(MemoryContextGetParent(CurrentMemoryContext),
												sizeof(GuardSite));
	site->plan = plan;
	old = MemoryContextSwitchTo(GetMemoryChunkContext(site));
	MakeKeyReader(&site->reader, &plan->clause);
	MemoryContextSwitchTo(old);
	site->exact.reader = site->reader;
	site->exact.plan = plan->options.exact ? plan : NULL;
	site->exact.query = GetMemoryChunkContext(site);
	site->changeable = FiresLater(trigger->tg_relation, trigger->tg_trigger->tgoid,
								  TRIGGER_TYPE_INSERT | TRIGGER_TYPE_UPDATE);
	site->removable =
		FiresLater(trigger->tg_relation, trigger->tg_trigger->tgoid, TRIGGER_TYPE_DELETE);
	site->root = RootOfPartition(trigger->tg_relation);
	fcinfo->flinfo->fn_extra = site;
	return site;
}

static GuardSite *
GetSite(FunctionCallInfo fcinfo, const TriggerData *trigger)
{
	GuardSite *site = (GuardSite *) fcinfo->flinfo->fn_extra;

	if (likely(site != NULL))
		return site;
	return MakeSite(fcinfo, trigger,
					GetGuardPlan(trigger->tg_relation, trigger->tg_trigger->tgfoid));
}

/* ---- keys ----------------------------------------------------------------- */

/* The privilege that counts is that of the guarded table's owner. */
static LiveFilter
OpenGuardFilter(GuardSite *site)
{
	if (unlikely(!OidIsValid(site->owner)))
	{
		site->owner = OwnerOfTable(site->plan->guarded);
		if (!OidIsValid(site->owner))
			elog(ERROR, "cache lookup failed for relation %u", site->plan->guarded);
	}
	LiveFilter filter =
		OpenLive(site->plan->clause.filter, LiveUse::Add, site->owner, "dedup_guard");

	if (unlikely(!site->filter_checked))
	{
		if (!LiveIsWhole(filter.rel))
			ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
							errmsg("live filter \"%s\" cannot guard a table", LiveName(filter)),
							errdetail("It was not made by dedup_create(), or its constraint or its "
									  "trigger is missing."),
							errhint("Make another filter with dedup_create().")));
		site->filter_checked = true;
	}
	return filter;
}

/* Tests and adds a key as of the row's time. An event ahead of the clock counts as of now. */
static LiveAnswer
TestAndAdd(const LiveFilter &filter, uint64 hash, const GuardKey &key)
{
	if (likely(!key.has_time))
		return LiveTestAndAdd(filter, hash, LiveGenerationNow(filter));
	return LiveTestAndAdd(filter, hash, LiveGeneration(filter, Min(key.at, GetCurrentTimestamp())),
						  LiveTime::Event);
}

/*
 * A marked row repeats the key of another one. Where keys go with their rows, it has none of its
 * own: else the filter would keep a key after its row.
 */
static bool
HasNoKeyOfItsOwn(const GuardPlan *plan, TupleTableSlot *slot)
{
	return plan->options.forget && IsMarkedRow(plan, slot);
}

/* A row that moves has been deleted already: to leave it out would lose it. */
[[noreturn]] static void
RefuseMove(Relation rel)
{
	ereport(
		ERROR,
		(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
		 errmsg("cannot move a row to partition \"%s\" from one whose guard is not enabled",
				RelationGetRelationName(rel)),
		 errdetail(
			 "The filter has its key, so the guard would leave the row out, and it would be lost."),
		 errhint("Guard the partitioned table, and enable both triggers, \"%s\" and \"%s\", on all "
				 "partitions or on none.",
				 GUARD_TRIGGER, GUARD_DELETE_TRIGGER)));
	pg_unreachable();
}

/* ---- inserted rows ----------------------------------------------------------- */

static bool
ComesFromUnguarded(GuardSite *site, const TriggerData *trigger)
{
	if (site->unguarded == NULL)
		site->unguarded = FindUnguardedPartitions(GetMemoryChunkContext(site), trigger->tg_relation,
												  site->plan, trigger->tg_trigger->tgfoid);
	return MayComeFromUnguarded(site->unguarded);
}

namespace
{

/* A row that is about to be inserted. */
struct InsertedRow
{
	GuardSite *site;
	const TriggerData *trigger;
	Relation rel;
	LiveFilter filter;
	Oid filter_oid;
	GuardRow *row;  /* or NULL: nothing is known of it */
	bool moving;    /* from another partition, by an UPDATE */
	bool unguarded; /* may come from a partition without a guard */
	bool too_old;   /* older than the window: the filter cannot tell */
	bool has_key;
	uint64 hash;
	LiveAnswer answer;
	bool uses; /* a deleted row, in `use`: so it is no duplicate */
	DeletedRowUse use;
	Oid found;     /* exact: the table of the row that has the key, if it was found */
	uint32 put_as; /* exact: the generation of its key, in a window of time */
};

/* What becomes of the row, as far as its key decides. */
enum class Fate
{
	Lands, /* its key is noted, or needs no note */
	LeftOut,
	Fails /* a duplicate is an error */
};

} /* namespace */

/* Enters the row, on its way to its table. */
static void
EnterInserted(InsertedRow *in)
{
	in->row = EnterGuardRow(in->row, in->rel, in->site->plan, &in->site->reader,
							in->filter.key_seed(), in->has_key, in->hash);
	in->row->changeable = in->site->changeable;
	if (in->site->plan->options.exact)
		in->row->exact = &in->site->exact;
}

static void
NoteInserted(const InsertedRow *in, bool counts, LiveCounter counter)
{
	NoteGuardRow(in->row, in->filter, {counts, counter, in->uses ? &in->use : NULL, in->put_as},
				 in->hash, in->site->may_kill);
}

/*
 * A row that moves was there before, so its key needs no asking; or BEFORE UPDATE has added
 * the new key, and noted it. Returns false if the key is another one all the same.
 */
static bool
KeepsMovedKey(InsertedRow *in)
{
	in->row->moving = false;
	/* An exact guard finds that the row that was there is gone. */
	if (in->site->plan->options.exact)
	{
		SettleGuardRow(in->row);
		return !in->has_key || IsMarkedRow(in->site->plan, in->trigger->tg_trigslot);
	}
	EnterInserted(in);
	if (in->has_key && MoveGuardNote(in->row, in->filter_oid, in->hash))
		return true;
	SettleGuardRow(in->row);
	if (HasNoKeyOfItsOwn(in->site->plan, in->trigger->tg_trigslot))
		return true;

	const GuardedKey &moved = in->row->moved;

	if (!in->has_key || !moved.exists || moved.filter != in->filter_oid || moved.hash != in->hash)
		return false;
	/* A row that is marked as a duplicate stays so, and has no deleted row to use. */
	if (!in->row->marked && UseDeletedRow(in->filter_oid, in->hash, &in->use))
	{
		in->uses = true;
		NoteInserted(in, false, LiveCounter::New);
	}
	return true;
}

/* Whether a duplicate does not land, and is no error. */
static bool
LeavesOut(GuardMode mode)
{
	return mode == GuardMode::Skip || mode == GuardMode::Divert;
}

/* Whether a row is left out because it is too old. An UPDATE would lose a row that it moves. */
static bool
SkipsTooOld(const InsertedRow *in)
{
	return in->too_old && in->site->plan->options.skip_too_old && !in->uses && !in->moving;
}

/*
 * Whether a row may not be left out, nor be an error: the filter does not know that its key is
 * free. What a worker cannot tell from a row that moves it keeps: an error would stop it.
 */
static bool
MustStay(const InsertedRow *in)
{
	return MayBeRemovedRow(in->filter_oid) || IsReadmitted(in->site->plan, in->hash) ||
		   (in->too_old && in->unguarded) ||
		   (IsLogicalWorker() && (in->too_old || LeavesOut(in->site->plan->mode)) && !in->moving &&
			in->rel->rd_rel->relispartition && ComesFromUnguarded(in->site, in->trigger));
}

/* Tests and adds the key. */
static void
AskForKey(InsertedRow *in)
{
	ReadTruncatedRows(in->filter);
	in->uses = UseDeletedRow(in->filter_oid, in->hash, &in->use);
	in->answer = TestAndAdd(in->filter, in->hash, in->site->key);
	in->too_old = in->answer == LiveAnswer::TooOld;
	/* That of a row that moves was counted when it was updated. */
	if (in->too_old && !in->moving)
		CountLive(in->filter, LiveCounter::TooOld, 1);
	if ((in->answer == LiveAnswer::Duplicate || SkipsTooOld(in)) && !in->uses && MustStay(in))
	{
		in->answer = LiveAnswer::TooOld;
		in->too_old = false;
	}
}

static bool
IsDuplicate(const InsertedRow *in)
{
	return in->answer == LiveAnswer::Duplicate && !in->uses;
}

/* The same for an exact guard. */
static void
AskExactly(InsertedRow *in)
{
	const ExactSite *site = &in->site->exact;
	ExactVerdict verdict;

	in->answer = LiveAnswer::TooOld;
	verdict = JudgeExactRow(site, in->filter, {in->rel, &in->site->key, in->hash, NULL, in->row});
	CountExactSearch(in->filter, verdict, verdict.duplicate && in->moving);
	in->found = verdict.found;
	if (verdict.duplicate)
		in->answer = LiveAnswer::Duplicate;
	else if (verdict.added)
		in->answer = LiveAnswer::New;
	in->put_as = verdict.generation;
}

static Fate
FateOf(const InsertedRow *in)
{
	const GuardMode mode = in->site->plan->mode;

	if (SkipsTooOld(in))
		return Fate::LeftOut;
	if (!IsDuplicate(in))
		return Fate::Lands;
	if (mode == GuardMode::Reject || in->moving)
		return Fate::Fails;
	return LeavesOut(mode) ? Fate::LeftOut : Fate::Lands;
}

/*
 * The table that a row, which is a duplicate, may have been copied from, to be removed there;
 * or InvalidOid. The filter alone does not tell which row it repeats: then a query asks once.
 */
static Oid
MayBeCopiedFrom(const InsertedRow *in)
{
	GuardSite *site = in->site;

	if (site->plan->options.exact)
		return FoundInParent(in->rel, in->found);
	if (site->parents_checked)
		return InvalidOid;
	site->parents_checked = true;
	return GuardedParentWithRows(in->rel, in->filter_oid, in->trigger->tg_trigger->tgfoid);
}

/*
 * Counts a row that is left out, unless that would lose it, and keeps it elsewhere if it goes
 * there.
 */
static void
LeaveOut(const InsertedRow *in)
{
	GuardSite *site = in->site;
	Oid parent;

	if (in->unguarded)
		RefuseMove(in->rel);
	parent = MayBeCopiedFrom(in);
	if (OidIsValid(parent))
		RefuseWhileParentHasRows(in->rel, parent);
	if (site->plan->mode == GuardMode::Divert && StaysRefused(site->plan))
		return;
	if (site->plan->mode == GuardMode::Divert)
		DivertRow(&site->divert, GetMemoryChunkContext(site), site->plan, in->rel,
				  in->trigger->tg_trigslot);
	if (!in->too_old)
		CountLive(in->filter, LiveCounter::Skipped, 1);
}

/* Enters and notes a row that goes on with a key. */
static void
LetGoOn(InsertedRow *in)
{
	if (in->site->plan->options.exact || in->uses || in->answer != LiveAnswer::TooOld ||
		HaveGuardRows() || in->site->changeable)
		EnterInserted(in);
	if (in->answer == LiveAnswer::New)
		NoteInserted(in, true, LiveCounter::New);
	else if (in->uses)
		NoteInserted(in, false, LiveCounter::New);
	else if (in->answer == LiveAnswer::Duplicate)
		NoteInserted(in, true, LiveCounter::Marked);
	if (in->site->plan->options.exact)
	{
		in->row->judged = true;
		if (!IsDuplicate(in))
		{
			in->row->key = CopyGuardKey(in->site->plan, in->site->key.columns);
			in->row->has_time = in->site->key.has_time;
			in->row->at = in->site->key.at;
		}
	}
}

/* A row of an exact guard that is judged where it lands goes on. */
static HeapTuple
LetLand(GuardSite *site, const TriggerData *trigger)
{
	Relation rel = trigger->tg_relation;
	GuardRow *row = FindGuardRow();

	if (unlikely(!site->filter_checked))
		CloseLive(OpenGuardFilter(site));
	PrepareExactSite(&site->exact, rel);
	RequireCovered(&site->exact);
	if (row != NULL)
		row->moving = row->freed.exists = false;
	SettleGuardRow(row);
	row = EnterGuardRow(row, rel, site->plan, &site->reader, {}, false, 0);
	row->exact = &site->exact;
	return trigger->tg_trigtuple;
}

/* Returns the row as it goes on, or NULL if it is left out. */
static HeapTuple
GuardInsertedRow(GuardSite *site, const TriggerData *trigger)
{
	const GuardPlan *plan = site->plan;
	Relation rel = trigger->tg_relation;
	HeapTuple tuple = trigger->tg_trigtuple;
	InsertedRow in;
	bool marked = false;

	if (plan->options.exact && plan->mode == GuardMode::Reject)
		return LetLand(site, trigger);
	in.site = site;
	in.trigger = trigger;
	in.rel = rel;
	in.row = FindGuardRow();
	in.moving = in.row != NULL && in.row->moving && in.row->root == site->root;
	in.unguarded = in.uses = in.too_old = false;
	in.found = InvalidOid;
	in.hash = 0;
	in.put_as = 0;
	ReadGuardKey(site->reader, trigger->tg_trigslot, &site->key);
	in.filter = OpenGuardFilter(site);
	in.filter_oid = plan->clause.filter;
	in.has_key = HashGuardKey(plan, site->key, in.filter.key_seed(), &in.hash);
	if (plan->options.exact)
	{
		PrepareExactSite(&site->exact, rel);
		RequireCovered(&site->exact);
	}
	if (rel->rd_rel->relispartition && !in.moving && !IsLogicalWorker())
		in.unguarded = ComesFromUnguarded(site, trigger);

	if (in.moving)
	{
		if (KeepsMovedKey(&in))
		{
			CloseLive(in.filter);
			return tuple;
		}
		marked = in.row->marked;
	}
	else
	{
		if (in.row != NULL)
			in.row->moving = in.row->freed.exists = false;
		SettleGuardRow(in.row);
	}

	if (!in.has_key)
	{
		/* No note; so that none of an outer query's is taken for this row's. */
		if (HaveGuardRows() || site->changeable)
			EnterInserted(&in);
	}
	else
	{
		if (plan->options.exact)
			AskExactly(&in);
		else
			AskForKey(&in);
		switch (FateOf(&in))
		{
			case Fate::Fails:
				RejectRow(rel, plan, in.filter, site->key.columns);
			case Fate::LeftOut:
				LeaveOut(&in);
				CloseLive(in.filter);
				return NULL;
			case Fate::Lands:
				LetGoOn(&in);
		}
		marked = IsDuplicate(&in);
		if (marked)
		{
			const Oid parent = MayBeCopiedFrom(&in);

			if (OidIsValid(parent))
				NoteMarkedCopy(parent);
		}
	}
	CloseLive(in.filter);
	return MarkGuardRow(rel, plan, tuple, marked);
}

/* ---- updated and deleted rows -------------------------------------------------- */

/* A row of a partition can move: what its BEFORE DELETE trigger knows it by. */
static void
NoteUpdatedPlace(GuardRow *row, const TriggerData *trigger)
{
	Relation rel = trigger->tg_relation;

	if (!rel->rd_rel->relispartition)
		return;
	row->updated_in = RelationGetRelid(rel);
	row->updated = trigger->tg_trigtuple->t_self;
}

/*
 * Enters a row of an exact guard that is updated: it is judged where it lands, unless neither
 * its key changes nor it ceases to be marked.
 */
static void
EnterExactUpdate(GuardSite *site, const TriggerData *trigger, GuardRow *row)
{
	const GuardPlan *plan = site->plan;

	row = EnterGuardRow(row, trigger->tg_relation, plan, &site->reader, {}, false, 0);
	row->exact = &site->exact;
	row->changeable = site->changeable;
	row->judged =
		SameGuardKey(plan, site->old_key, site->key) && SameGuardTime(site->old_key, site->key) &&
		(IsMarkedRow(plan, trigger->tg_newslot) || !IsMarkedRow(plan, trigger->tg_trigslot));
	NoteUpdatedPlace(row, trigger);
}

/*
 * An UPDATE that changes the key takes a new one, and the old one is then that of a
 * deleted row. That the new one is a duplicate is an error in every mode: an UPDATE that
 * silently leaves rows as they were helps nobody.
 */
static HeapTuple
GuardUpdatedRow(GuardSite *site, const TriggerData *trigger)
{
	const GuardPlan *plan = site->plan;
	const Oid filter_oid = plan->clause.filter;
	Relation rel = trigger->tg_relation;
	GuardRow *row = FindGuardRow();
	bool entered = false;

	/* ON CONFLICT DO UPDATE: the row that was to be inserted did not land. */
	if (row != NULL)
	{
		row->moving = row->freed.exists = row->changeable = false;
		SettleGuardRow(row);
	}

	ReadGuardKey(site->reader, trigger->tg_trigslot, &site->old_key);
	ReadGuardKey(site->reader, trigger->tg_newslot, &site->key);
	if (plan->options.exact)
	{
		EnterExactUpdate(site, trigger, row);
		return trigger->tg_newtuple;
	}
	const bool keyless = HasNoKeyOfItsOwn(plan, trigger->tg_newslot);
	const bool was_keyless = HasNoKeyOfItsOwn(plan, trigger->tg_trigslot);

	if (!SameGuardKey(plan, site->old_key, site->key) || keyless != was_keyless || site->changeable)
	{
		LiveFilter filter = OpenGuardFilter(site);
		const dedup::KeySeed seed = filter.key_seed();
		uint64 hash = 0;
		uint64 old_hash = 0;
		const bool has_key = HashGuardKey(plan, site->key, seed, &hash);
		const bool had_key = HashGuardKey(plan, site->old_key, seed, &old_hash) && !was_keyless;
		const bool takes_key = has_key && !keyless;

		if (takes_key != had_key || (takes_key && hash != old_hash))
		{
			DeletedRowUse use;
			bool uses = false;
			LiveAnswer answer = LiveAnswer::TooOld;

			/* A marked row that comes back among those that are guarded has the key of another. */
			if (takes_key && (site->old_key.counts || !IsMarkedRow(plan, trigger->tg_newslot)))
			{
				ReadTruncatedRows(filter);
				uses = UseDeletedRow(filter_oid, hash, &use);
				answer = TestAndAdd(filter, hash, site->key);
				if (answer == LiveAnswer::TooOld)
					CountLive(filter, LiveCounter::TooOld, 1);
				if (answer == LiveAnswer::Duplicate && !uses)
					RejectRow(rel, plan, filter, site->key.columns);
			}
			row = EnterGuardRow(row, rel, plan, &site->reader, seed, has_key, hash);
			if (answer == LiveAnswer::New || uses)
				NoteGuardRow(row, filter,
							 {answer == LiveAnswer::New, LiveCounter::New, uses ? &use : NULL, 0},
							 hash, false);
			row->freed = {had_key && !IsMarkedRow(plan, trigger->tg_trigslot), filter_oid,
						  old_hash};
			row->freed_inserted = HeapTupleHeaderGetRawXmin(trigger->tg_trigtuple->t_data);
			entered = true;
		}
		else if (site->changeable)
		{
			row = EnterGuardRow(row, rel, plan, &site->reader, seed, has_key, hash);
			entered = true;
		}
		if (entered)
			row->changeable = site->changeable;
		CloseLive(filter);
	}
	if (!entered && (HaveGuardRows() || rel->rd_rel->relispartition))
		row = EnterGuardRow(row, rel, plan, &site->reader, {}, false, 0);
	NoteUpdatedPlace(row, trigger);
	return trigger->tg_newtuple;
}

/* A row of an exact guard is on its way to another partition. */
static void
EnterExactMove(GuardSite *site, const TriggerData *trigger, GuardRow *row)
{
	if (row == NULL)
		row = EnterGuardRow(NULL, trigger->tg_relation, site->plan, &site->reader, {}, false, 0);
	row->moving = true;
	row->marked = IsMarkedRow(site->plan, trigger->tg_trigslot);
	row->root = site->root;
	row->freed.exists = row->moved.exists = false;
}

/*
 * Remembers the row as one that may be inserted again; and, if BEFORE UPDATE has just fired
 * for it, as one that is on its way to another partition.
 */
static HeapTuple
GuardDeletedRow(FunctionCallInfo fcinfo, const TriggerData *trigger)
{
	Relation rel = trigger->tg_relation;
	GuardRow *row = FindGuardRow();
	bool moves =
		IsLogicalWorker() || (row != NULL && row->updated_in == RelationGetRelid(rel) &&
							  ItemPointerEquals(&row->updated, &trigger->tg_trigtuple->t_self));
	GuardSite *site;
	Oid filter_oid;
	uint64 hash = 0;
	bool has_key;
	bool marked;

	site = (GuardSite *) fcinfo->flinfo->fn_extra;
	if (unlikely(site == NULL) && moves)
		site = GetSite(fcinfo, trigger);
	else if (unlikely(site == NULL))
	{
		const GuardPlan *plan = FindGuardPlan(rel, trigger->tg_trigger->tgfoid, true);

		/* Rows can be deleted under a guard that is not valid; none can be inserted. */
		if (plan == NULL)
			return trigger->tg_trigtuple;
		site = MakeSite(fcinfo, trigger, plan);
	}
	if (site->plan->options.exact)
	{
		if (moves)
			EnterExactMove(site, trigger, row);
		return trigger->tg_trigtuple;
	}
	filter_oid = site->plan->clause.filter;
	if (!site->has_seed)
	{
		LiveFilter filter;

		if (!IsLiveRelationId(filter_oid))
			ReportIncompleteGuard(rel);
		filter = OpenLiveUnchecked(filter_oid, AccessShareLock);
		site->seed = filter.key_seed();
		site->may_delete = GuardOwnerMayAdd(site->plan);
		site->has_seed = true;
		CloseLive(filter);
	}
	ReadGuardKey(site->reader, trigger->tg_trigslot, &site->key);
	has_key = HashGuardKey(site->plan, site->key, site->seed, &hash);
	marked = IsMarkedRow(site->plan, trigger->tg_trigslot);
	if (moves)
	{
		if (row == NULL)
			row = EnterGuardRow(NULL, rel, site->plan, &site->reader, site->seed, has_key, hash);
		row->moving = true;
		row->marked = marked;
		row->freed.exists = false;
		row->root = site->root;
		row->moved = {has_key, filter_oid, hash};
	}
	if (has_key && !marked && site->may_delete &&
		!(site->removable && IsDeletionPending(rel, &trigger->tg_trigtuple->t_self)))
	{
		NoteDeletedRow(filter_oid, hash, GetCurrentSubTransactionId(), site->plan->options.forget,
					   HeapTupleHeaderGetRawXmin(trigger->tg_trigtuple->t_data));
		if (site->removable)
		{
			if (row == NULL)
				row =
					EnterGuardRow(NULL, rel, site->plan, &site->reader, site->seed, has_key, hash);
			CheckDeletionLater(row, rel, &trigger->tg_trigtuple->t_self, filter_oid, hash);
		}
	}
	return trigger->tg_trigtuple;
}

/* Whether the triggers of a guard whose rows free their keys fire so. */
static bool
FiresAfterwards(const TriggerData *trigger)
{
	return TRIGGER_FIRED_AFTER(trigger->tg_event) &&
		   (TRIGGER_FIRED_FOR_ROW(trigger->tg_event)
				? !TRIGGER_FIRED_BY_INSERT(trigger->tg_event)
				: TRIGGER_FIRED_BY_TRUNCATE(trigger->tg_event));
}

/*
 * dedup_guard_trigger() returns trigger
 */
DEDUP_FUNCTION(dedup_guard_trigger)
{
	const TriggerData *trigger = (const TriggerData *) fcinfo->context;
	GuardSite *site;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
						errmsg("function %s must be called as a trigger", GUARD_FUNCTION)));
	if (FiresAfterwards(trigger))
	{
		SettleGuardRows();
		if (TRIGGER_FIRED_FOR_ROW(trigger->tg_event))
			GuardFreesRow(fcinfo, trigger);
		else
			GuardTruncated(trigger);
		PG_RETURN_POINTER(NULL);
	}
	if (!TRIGGER_FIRED_BEFORE(trigger->tg_event) || !TRIGGER_FIRED_FOR_ROW(trigger->tg_event))
		ReportNoGuardTrigger(trigger->tg_relation, trigger->tg_trigger,
							 gettext_noop("It is not fired BEFORE each row."));

	SettleGuardRows();
	if (TRIGGER_FIRED_BY_DELETE(trigger->tg_event))
		PG_RETURN_POINTER(GuardDeletedRow(fcinfo, trigger));

	site = GetSite(fcinfo, trigger);
	if (unlikely(!site->checked))
	{
		CheckGuardedTable(trigger->tg_relation, site->plan, &site->may_kill);
		site->exact.may_kill = site->may_kill;
		site->checked = true;
	}
	if (TRIGGER_FIRED_BY_INSERT(trigger->tg_event))
		PG_RETURN_POINTER(GuardInsertedRow(site, trigger));
	PG_RETURN_POINTER(GuardUpdatedRow(site, trigger));
}

bool
IsGuardTriggerFunction(Oid function)
{
	return IsOurFunction(function, dedup_guard_trigger, GUARD_FUNCTION);
}
