/*
 * Rows that are inserted into a guarded table, before they land (site.hpp).
 */
#include "guard/site.hpp"

extern "C" {
#include "catalog/pg_class.h"
#include "executor/tuptable.h"
#include "replication/logicalworker.h"
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

/* The row comes in place of a deleted one, and may have another time. */
static void
FollowRow(const InsertedRow *in)
{
	if (in->uses)
		ReplaceDeletedKey(in->site->plan, in->filter, in->site->key, in->hash,
						  in->answer == LiveAnswer::New, in->use);
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
		in->answer = LiveAnswer::Duplicate;
		FollowRow(in);
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

/*
 * In a window of time a row that is brought back counts from its own time on: what the filter
 * has taken for its key may be older. Nothing is to be undone: if the row does not land, all of
 * dedup_readmit() fails.
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
	/* That of a row that moves was counted when it was updated. */
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

	/* It is in the side table, and stays there. */
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
