/*
 * The state whether a live filter covers its table, that is, has the key of every row of it.
 *
 * Statements about that are in the page of counters, as words that name transactions, the oldest
 * first. The last word that counts decides. A word counts for its own transaction at once, for
 * others when that transaction has committed, and never if it aborts. Unlike the counters around
 * them, the words are changed as keys are: under the page's exclusive lock, with a WAL record and
 * the page's checksum over them. So they are exact after a crash, on a standby and in a copy of the
 * files. They are not in a main page, whose header has no room, and each of whose changes would log
 * them.
 *
 * A transaction that writes a word holds ShareRowExclusiveLock on the filter to its end. A
 * transaction that adds or forgets keys holds a weaker lock that conflicts with it. So only one
 * transaction writes words at a time, and what a statement has read remains true while it holds the
 * filter's lock.
 *
 * A window of time covers its table from some generation on. This generation is stored without a
 * transaction: it only increases, and covering fewer rows is never wrong.
 *
 * There are four words, and only savepoints can need all of them. If they are not enough, the
 * oldest is dropped. Then the filter covers nothing where that word would have decided.
 */
#include "live/store/store.hpp"

extern "C" {
#include "storage/lmgr.h"
#include "storage/procarray.h"
}

using dedup::LoadU64;
using dedup::StoreU64;
using namespace dedup::live;

namespace
{

/* Unused words, behind the others, are 0. */
struct CoverWords
{
	uint64 word[kCoverWords];
};

} /* namespace */

static uint64
MakeWord(uint64 xid, bool covers)
{
	return xid << 1 | (uint64) covers;
}

static uint64
XidOf(uint64 word)
{
	return word >> 1;
}

static bool
SaysCovers(uint64 word)
{
	return (word & 1) != 0;
}

static CoverWords
WordsOf(const uint8_t *page)
{
	CoverWords words;

	for (unsigned i = 0; i < kCoverWords; i++)
		words.word[i] = LoadU64(page + kCoverAt + 8 * i);
	return words;
}

static unsigned
CountWords(const CoverWords &words)
{
	unsigned n = 0;

	while (n < kCoverWords && words.word[n] != 0)
		n++;
	return n;
}

/* ---- reading ------------------------------------------------------------------------ */

const char *
LiveCoverFlaw(const uint8_t *page)
{
	const CoverWords words = WordsOf(page);
	const unsigned n = CountWords(words);

	for (unsigned i = 0; i < n; i++)
		if (XidOf(words.word[i]) == kNoXid || !IsPossibleXid(XidOf(words.word[i])))
			return "It names a transaction that cannot exist.";
	for (unsigned i = n; i < kCoverWords; i++)
		if (words.word[i] != 0)
			return "What says whether the filter covers its table is not valid.";
	if (LoadU64(page + kCoverFromAt) > PG_UINT32_MAX)
		return "What says from when on the filter covers its table is not valid.";
	return NULL;
}

/* Raises XX001 if the words are not valid. */
static void
CheckWords(const LiveFilter &filter, const uint8_t *page)
{
	const char *flaw = LiveCoverFlaw(page);

	if (unlikely(flaw != NULL))
		ReportBadPage(filter.rel, CountersBlock(filter), flaw);
}

/*
 * Returns the meaning of the words for a snapshot, or for this transaction now if the snapshot is
 * NULL.
 */
static bool
Evaluate(const LiveFilter &filter, Snapshot snapshot, const CoverWords &words)
{
	const unsigned n = CountWords(words);

	for (unsigned i = n; i-- > 0;)
		if (CommittedFor(filter, CountersBlock(filter), snapshot, XidOf(words.word[i])))
			return SaysCovers(words.word[i]);
	return false;
}

bool
LiveCoversFor(const LiveFilter &filter, Snapshot snapshot)
{
	HeldPage page;
	CoverWords words;

	if (!HoldPage(filter, CountersBlock(filter), Kind::kCounters, BUFFER_LOCK_SHARE, &page))
		return false;
	CheckWords(filter, page.bytes);
	CheckSettledFor(filter, page.bytes, snapshot);
	words = WordsOf(page.bytes);
	ReleasePage(page);
	return Evaluate(filter, snapshot, words);
}

bool
LiveCovers(const LiveFilter &filter)
{
	return LiveCoversFor(filter, NULL) || LiveCoversAnew(filter);
}

uint32
LiveCoversFrom(const LiveFilter &filter)
{
	HeldPage page;
	uint64 from;

	if (filter.parameters.ttl == 0 ||
		!HoldPage(filter, CountersBlock(filter), Kind::kCounters, BUFFER_LOCK_SHARE, &page))
		return 0;
	CheckWords(filter, page.bytes);
	from = LoadU64(page.bytes + kCoverFromAt);
	ReleasePage(page);
	return (uint32) from;
}

/* ---- writing ------------------------------------------------------------------------ */

/*
 * Drops the words of aborted transactions, and words before one that all snapshots see; that one
 * becomes a word without a transaction. Returns the newest transaction that is visible to all, or
 * kNoXid.
 */
static uint64
Settle(const LiveFilter &filter, CoverWords *words)
{
	const unsigned n = CountWords(*words);
	CoverWords kept = {};
	unsigned k = 0;
	uint64 settled = kNoXid;

	for (unsigned i = 0; i < n; i++)
	{
		const uint64 word = words->word[i];
		const Verdict verdict = JudgeXid(filter, CountersBlock(filter), XidOf(word));

		if (verdict == Verdict::kAborted)
			continue;
		if (verdict == Verdict::kCommitted)
		{
			if (XidOf(word) != kFrozen)
				settled = Max(settled, XidOf(word));
			kept = {};
			k = 0;
			if (SaysCovers(word))
				kept.word[k++] = MakeWord(kFrozen, true);
			continue;
		}
		kept.word[k++] = word;
	}
	*words = kept;
	return settled;
}

/* Writes words into the page, which is held exclusively, unless the page has them already. */
static void
WriteWords(const LiveFilter &filter, const HeldPage &page, const CoverWords &words, uint64 settled)
{
	uint8_t bytes[8 * kCoverWords];
	uint8_t header[kHeaderEnd];

	for (unsigned i = 0; i < kCoverWords; i++)
		StoreU64(bytes + 8 * i, words.word[i]);
	memcpy(header, page.bytes, sizeof header);
	NoteSettled(header, settled);
	if (memcmp(bytes, page.bytes + kCoverAt, sizeof bytes) == 0)
		return;
	StartChange();
	ChangeBytes(page, kSettledLowAt, header + kSettledLowAt, kHeaderEnd - kSettledLowAt);
	ChangeBytes(page, kCoverAt, bytes, sizeof bytes);
	/* The page's counters change without WAL, so a standby gets their current values, too. */
	LogWhole(page);
	MakeChange(filter);
}

/* Adds a word of this subtransaction as the last. */
static void
AddWord(CoverWords *words, uint64 xid, bool covers)
{
	unsigned n = CountWords(*words);

	if (n > 0 && XidOf(words->word[n - 1]) == xid)
		n--;
	if (n == kCoverWords)
	{
		memmove(words->word, words->word + 1, sizeof words->word - sizeof words->word[0]);
		n--;
	}
	words->word[n] = MakeWord(xid, covers);
}

void
RaiseLiveCoversFrom(const LiveFilter &filter, uint32 from)
{
	HeldPage page;
	uint8_t bytes[8];

	Assert(filter.parameters.ttl != 0 || from == 0);
	if (from == 0)
		return;
	HoldPageToChange(filter, CountersBlock(filter), Kind::kCounters, &page);
	CheckWords(filter, page.bytes);
	if (LoadU64(page.bytes + kCoverFromAt) < from)
	{
		StoreU64(bytes, from);
		StartChange();
		ChangeBytes(page, kCoverFromAt, bytes, sizeof bytes);
		LogWhole(page);
		MakeChange(filter);
	}
	ReleasePage(page);
}

void
SetLiveCovers(const LiveFilter &filter, bool covers, uint32 from)
{
	HeldPage page;
	CoverWords words;

	LockRelation(filter.rel, ShareRowExclusiveLock);
	RaiseLiveCoversFrom(filter, from);
	if (LiveCoversFor(filter, NULL) == covers)
		return;

	const uint64 xid = WideXid(GetCurrentTransactionId());

	HoldPageToChange(filter, CountersBlock(filter), Kind::kCounters, &page);
	CheckWords(filter, page.bytes);
	words = WordsOf(page.bytes);

	const uint64 settled = Settle(filter, &words);

	AddWord(&words, xid, covers);
	WriteWords(filter, page, words, settled);
	ReleasePage(page);
}

uint64
SettleLiveCovers(const LiveFilter &filter)
{
	HeldPage page;
	CoverWords words;
	uint64 oldest = kNoXid;

	if (!HoldPage(filter, CountersBlock(filter), Kind::kCounters, BUFFER_LOCK_EXCLUSIVE, &page))
		return kNoXid;
	CheckWords(filter, page.bytes);
	words = WordsOf(page.bytes);

	const uint64 settled = Settle(filter, &words);

	WriteWords(filter, page, words, settled);
	ReleasePage(page);
	for (unsigned i = 0; i < CountWords(words); i++)
		if (XidOf(words.word[i]) != kFrozen && (oldest == kNoXid || XidOf(words.word[i]) < oldest))
			oldest = XidOf(words.word[i]);
	return oldest;
}
