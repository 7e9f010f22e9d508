/*
 * The part of the BEFORE trigger for inserted rows (site.hpp).
 */
#include "guard/site.hpp"

extern "C" {
#include "catalog/pg_class.h"
#include "executor/tuptable.h"
#include "replication/logicalworker.h"
}

/* Raises 55000: a row that moves is deleted already, so it would be lost if it was left out. */
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
		 errhint(
			 "Guard the partitioned table, and enable the triggers of the guard on all partitions "
			 "or on none.")));
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
	GuardRow *row;  /* NULL: the row was not entered yet */
	bool moving;    /* an UPDATE moves the row from another partition */
	bool unguarded; /* the row may come from a partition without a guard */
	bool too_old;   /* the row is older than the window, so the filter cannot answer */
	bool has_key;
	uint64 hash;
	LiveAnswer answer;
	bool uses; /* the row uses a deleted row, which is in `use`, so it is not a duplicate */
	DeletedRowUse use;
	Oid found;     /* exact guard: the table of the row that has the key, if it was found */
	uint32 put_as; /* exact guard, in a window of time: the generation of the key */
};

/* The result of the test for a row. */
enum class Fate
{
	Lands, /* the row is returned to the server, which may insert it */
	LeftOut,
	Fails /* the row is a duplicate and raises an error */
};

} /* namespace */

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

/* If the row replaces a deleted row, which may have another time, adjusts the time of the key. */
static void
FollowRow(const InsertedRow *in)
{
	if (in->uses)
		ReplaceDeletedKey(in->site->plan, in->filter, in->site->key, in->hash,
						  in->answer == LiveAnswer::New, in->use);
}

/*
 * Returns true if the key of a row that moves need not be tested: the row had the same key in the
 * other partition, or BEFORE UPDATE has added and noted its new key. Returns false if the key has
 * changed since then.
 */
static bool
KeepsMovedKey(InsertedRow *in)
{
	in->row->moving = false;
	/* An exact guard tests every key: its search sees that the old row is deleted. */
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
	/* A row that is marked as a duplicate stays marked, and uses no deleted row. */
	if (!in->row->marked && UseDeletedRow(in->filter_oid, in->hash, &in->use))
	{
		in->uses = true;
		in->answer = LiveAnswer::Duplicate;
		FollowRow(in);
		NoteInserted(in, false, LiveCounter::New);
	}
	return true;
}

/* Returns whether a duplicate is left out without an error. */
static bool
LeavesOut(GuardMode mode)
{
	return mode == GuardMode::Skip || mode == GuardMode::Divert;
}

/*
 * Returns whether the row is left out because it is too old. A row that moves is never left out,
 * because the UPDATE would lose it.
 */
static bool
SkipsTooOld(const InsertedRow *in)
{
	return in->too_old && in->site->plan->options.skip_too_old && !in->uses && !in->moving;
}

/*
 * Returns whether the row must be inserted although the filter has its key: the key may be free,
 * but the filter does not know this. A logical replication worker also inserts a row that it cannot
 * distinguish from a row that moves, because an error would stop the worker.
 */
static bool
MustStay(const InsertedRow *in)
{
	return MayBeRemovedRow(in->filter_oid) || IsReadmitted(in->site->plan, in->hash) ||
		   (in->too_old && in->unguarded) ||
		   (IsLogicalWorker() && (in->too_old || LeavesOut(in->site->plan->mode)) && !in->moving &&
			in->rel->rd_rel->relispartition && ComesFromUnguarded(in->site, in->trigger));
}

/*
 * In a window of time, puts the key of a row that dedup_readmit() inserts under the row's own time,
 * because the key in the filter may be older. This needs no note: if the row is not inserted, the
 * whole call of dedup_readmit() fails.
 */
static void
RefreshReadmitted(const InsertedRow *in)
{
	uint32 put_as;

	if (in->filter.parameters.ttl == 0 || !IsReadmitted(in->site->plan, in->hash))
		return;
	while (LivePutKey(in->filter, in->hash, GenerationOfKey(in->filter, in->site->key), &put_as) ==
		   LivePut::Waited)
		CHECK_FOR_INTERRUPTS();
}

/* Tests and adds the key. */
static void
AskForKey(InsertedRow *in)
{
	ReadTruncatedRows(in->filter);
	ReadLeftRowsFirst(in->filter);
	in->uses = UseDeletedRow(in->filter_oid, in->hash, &in->use);
	in->answer = TestAndAddKey(in->filter, in->hash, in->site->key);
	in->too_old = in->answer == LiveAnswer::TooOld;
	if (in->answer == LiveAnswer::Duplicate && !in->uses && ReadLeftRows(in->filter))
		in->uses = UseDeletedRow(in->filter_oid, in->hash, &in->use);
	/* For a row that moves, BEFORE UPDATE has incremented the counter. */
	if (in->too_old && !in->moving)
		CountLive(in->filter, LiveCounter::TooOld, 1);
	if ((in->answer == LiveAnswer::Duplicate || SkipsTooOld(in)) && !in->uses && MustStay(in))
	{
		if (!in->too_old)
			RefreshReadmitted(in);
		in->answer = LiveAnswer::TooOld;
		in->too_old = false;
	}
	FollowRow(in);
}

static bool
IsDuplicate(const InsertedRow *in)
{
	return in->answer == LiveAnswer::Duplicate && !in->uses;
}

/* Does the same for an exact guard. */
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
 * Returns the parent table if a duplicate may be a copy of one of its rows, which will be removed
 * there; or InvalidOid. An exact guard knows in which table the other row is. Other guards do not
 * know this, so they check the parents once in each query.
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
 * Counts a row that is left out. If the mode is `divert`, puts the row into the side table. Raises
 * an error if the row would be lost.
 */
static void
LeaveOut(const InsertedRow *in)
{
	GuardSite *site = in->site;
	Oid parent;

	/* dedup_readmit() is inserting the row. It stays in the side table. */
	if (site->plan->mode == GuardMode::Divert && StaysRefused(site->plan))
		return;
	if (in->unguarded)
		RefuseMove(in->rel);
	parent = MayBeCopiedFrom(in);
	if (OidIsValid(parent))
		RefuseWhileParentHasRows(in->rel, parent);
	if (site->plan->mode == GuardMode::Divert)
		DivertRow(&site->divert, GetMemoryChunkContext(site), site->plan, in->rel,
				  in->trigger->tg_trigslot);
	else if (in->has_key && !in->too_old)
	{
		if (HaveGuardRows())
			NoteLeftOut(in->filter, in->hash);
		RememberLeftOut(in->filter_oid, in->hash);
	}
	if (!in->too_old)
		CountLive(in->filter, LiveCounter::Skipped, 1);
}

/* Enters and notes a row with a key that is not refused. */
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

/* Lets a row of an exact guard pass. The row is judged when it is in the table. */
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

HeapTuple
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
		/*
		 * The row needs no note. It is entered, so that its insertion does not remove the note of
		 * a row of an outer query.
		 */
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
