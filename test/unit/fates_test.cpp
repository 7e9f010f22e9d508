// Forgotten keys in nested subtransactions: random trees of savepoints of several sessions, in
// which keys are added and forgotten, with commits, aborts, prepared transactions and crashes. The
// pages are settled in between, and transactions of other sessions end while that is done. The
// model is a stack of sets for each session.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <vector>

#include "core/live_method.hpp"
#include "core/methods/fifo.hpp"
#include "core/settling.hpp"
#include "test_support.hpp"

namespace dedup::test {
namespace {

using live::Entry;
using live::Geometry;
using live::Kind;
using live::Settled;
using live::Standing;
using live::Tag;
using live::TagFate;
using live::Verdict;

constexpr Geometry kSet = {10, {3, false}, false};
constexpr int kSessions = 3;
constexpr int kKeys = 8;  // of a session; no other session uses them
constexpr uint64_t kFirstXid = 10;
constexpr uint64_t kForeign =
    1 << 20;  // from here on: transactions that nobody knows to have ended

using Keys = std::set<int>;

// ---- transactions, as the server knows them -----------------------------------------

enum class Status { kRunning, kCommitted, kAborted };

class Transactions {
 public:
  uint64_t Begin(uint64_t parent) {
    all_.push_back({parent, Status::kRunning});
    return kFirstXid + all_.size() - 1;
  }
  uint64_t next() const { return kFirstXid + all_.size(); }
  // The commit of a subtransaction depends on that of its parent, so only roots are committed.
  void End(uint64_t xid, bool commits) {
    at(xid).status = commits ? Status::kCommitted : Status::kAborted;
  }
  Status Of(uint64_t xid) const {
    while (at(xid).status != Status::kAborted && at(xid).parent != 0) xid = at(xid).parent;
    return at(xid).status;
  }
  uint64_t ParentOf(uint64_t xid) const { return at(xid).parent; }
  uint64_t RootOf(uint64_t xid) const {
    while (at(xid).parent != 0) xid = at(xid).parent;
    return xid;
  }
  uint64_t OldestRunning() const {
    uint64_t xid = kFirstXid;
    while (xid < next() && Of(xid) != Status::kRunning) ++xid;
    return xid;
  }

 private:
  struct One {
    uint64_t parent;
    Status status;
  };
  One& at(uint64_t xid) { return all_.at(xid - kFirstXid); }
  const One& at(uint64_t xid) const { return all_.at(xid - kFirstXid); }
  std::vector<One> all_;
};

// ---- a session and its model ------------------------------------------------------------

struct Level {
  uint64_t xid;  // 0: none yet
  Keys keys;
};
struct Session {
  Keys committed;
  std::vector<Level> levels;  // none: no transaction
  bool prepared = false;
};

// What an old snapshot sees.
struct Snapshot {
  uint64_t xmin;
  std::vector<bool> committed;  // by xid
  Keys keys;
};

struct Page {
  std::array<uint8_t, live::kPageBytes> bytes = {};
  uint8_t* data() { return bytes.data(); }
  const uint8_t* data() const { return bytes.data(); }
  const live::AreaShape& area() const { return live::AreaOf(data()); }
};

enum class Side { kAbsent, kPresent, kInFlight };

class World {
 public:
  explicit World(uint64_t seed)
      : random_(seed),
        pages_(1),
        keys_(1 + random_.Below(kKeys)),
        settles_(random_.OneIn(2) ? 0 : random_.Below(10)),
        folds_(random_.Below(4)) {
    live::InitPage(main(), Kind::kMain, 3, kSet.layout, 0);
    for (int key = 0; key < kSessions * kKeys; ++key) {
      lines_.push_back(static_cast<unsigned>(random_.Below(3)));
      rests_.push_back(random_.Next() >> (64 - fifo::kLongBits));
    }
    // Other transactions have most of the tags.
    FillTags(&pages_[0]);
    // One of the lines is full.
    uint8_t* line = live::LineAt(main(), 0);
    while (random_.OneIn(2) && !live::IsFullLine(line, kSet.layout)) {
      live::AddToLine(line, kSet.layout, random_.Next() >> (64 - fifo::kLongBits), 0, 0);
    }
  }

  void Step() {
    const int s = static_cast<int>(random_.Below(kSessions));
    Session& session = sessions_.at(static_cast<size_t>(s));
    const uint64_t what = random_.Below(100);
    if (what < settles_) {
      SettleSome(s, random_.Below(3) < folds_);
    } else if (what < 11) {
      MoveHorizon();
    } else if (what < 13) {
      if (snapshot_ && random_.OneIn(4)) {
        snapshot_.reset();
      } else if (!snapshot_) {
        TakeSnapshot();
      }
    } else if (what < 14 && random_.OneIn(10)) {
      for (Session& other : sessions_) {
        if (!other.prepared) EndTransaction(&other, false);  // a crash
      }
    } else if (what < 35 || session.prepared) {
      ChangeTransaction(&session);
    } else {
      const int key = s * kKeys + static_cast<int>(random_.Below(keys_));
      if (session.levels.empty()) session.levels.push_back({0, session.committed});
      Keys& keys = session.levels.back().keys;
      // Also asks whether it is there, as test-and-add does.
      ASSERT_EQ(keys.count(key) > 0, IsSeen(s, key)) << "key " << key;
      if (random_.OneIn(2)) {
        if (keys.insert(key).second) Put(s, {Own(&session), 0}, key, false);
      } else if (keys.erase(key) > 0) {
        Forget(s, key);
      }
    }
  }

  // Each session sees its own keys as its model says, and what is committed of the others.
  void Check() const {
    for (const Page& page : pages_) {
      const bool is_main = &page == &pages_[0];
      ASSERT_EQ(nullptr, live::PageFlaw(page.data(), is_main ? Kind::kMain : Kind::kOverflow,
                                        is_main ? 3 : 20, kSet));
    }
    for (int key = 0; key < kSessions * kKeys; ++key) {
      for (int s = 0; s < kSessions; ++s) {
        const Session& owner = sessions_.at(static_cast<size_t>(key / kKeys));
        const bool is_own = s == key / kKeys && !owner.levels.empty() && !owner.prepared;
        const Keys& keys = is_own ? owner.levels.back().keys : owner.committed;
        ASSERT_EQ(keys.count(key) > 0, IsSeen(s, key)) << "key " << key << ", session " << s;
      }
      if (snapshot_) {
        ASSERT_EQ(snapshot_->keys.count(key) > 0, IsInSnapshot(key)) << "key " << key;
      }
    }
  }

  size_t most_pages() const { return most_pages_; }

 private:
  uint8_t* main() { return pages_[0].data(); }
  const uint8_t* main() const { return pages_[0].data(); }
  unsigned LineOf(int key) const { return lines_.at(static_cast<size_t>(key)); }
  uint64_t RestOf(int key) const { return rests_.at(static_cast<size_t>(key)); }

  // ---- transactions ----

  // The id of the innermost level. It gets one, and so do those around it.
  uint64_t Own(Session* session) {
    uint64_t parent = 0;
    for (Level& level : session->levels) {
      if (level.xid == 0) level.xid = transactions_.Begin(parent);
      parent = level.xid;
    }
    return parent;
  }

  void EndTransaction(Session* session, bool commits) {
    if (session->levels.empty()) return;
    if (commits) session->committed = session->levels.back().keys;
    if (session->levels[0].xid != 0) transactions_.End(session->levels[0].xid, commits);
    session->levels.clear();
    session->prepared = false;
  }

  // Changes no page: begins or ends a subtransaction, or ends the transaction.
  void ChangeTransaction(Session* session) {
    std::vector<Level>& levels = session->levels;
    const uint64_t what = random_.Below(20);
    if (levels.empty() || session->prepared || what == 0) {
      EndTransaction(session, !random_.OneIn(3));
      return;
    }
    if (what == 1) {
      // The levels of a prepared transaction have ended.
      levels[0].keys = levels.back().keys;
      levels.resize(1);
      session->prepared = true;
    } else if (what < 10) {
      levels.push_back({0, levels.back().keys});
    } else if (levels.size() > 1) {
      const size_t depth =
          levels.size() - 1 - (random_.OneIn(3) ? random_.Below(levels.size() - 1) : 0);
      const bool commits = what < 15;
      if (commits) {
        levels[depth - 1].keys = levels.back().keys;
      } else if (levels[depth].xid != 0) {
        transactions_.End(levels[depth].xid, false);
      }
      levels.resize(depth);
      if (!commits) levels.push_back({0, levels.back().keys});  // ROLLBACK TO
    }
  }

  bool IsCurrent(int s, uint64_t xid) const {
    const Session& session = sessions_.at(static_cast<size_t>(s));
    return !session.levels.empty() && !session.prepared && session.levels[0].xid != 0 &&
           transactions_.RootOf(xid) == session.levels[0].xid &&
           transactions_.Of(xid) != Status::kAborted;
  }

  // Does what HeirOf() of live/store/transactions.cpp does. Like that function it returns `xid`
  // unchanged if the innermost subtransaction has no id.
  uint64_t HeirOf(int s, uint64_t xid) const {
    if (xid == live::kFrozen || xid >= kForeign || !IsCurrent(s, xid)) return xid;
    const std::vector<Level>& levels = sessions_.at(static_cast<size_t>(s)).levels;
    if (levels.back().xid == 0) return xid;
    for (;; xid = transactions_.ParentOf(xid)) {
      for (const Level& level : levels) {
        if (level.xid == xid) return xid;
      }
    }
  }

  // Something happens in another session. The pages are locked meanwhile.
  void Meanwhile(int s) {
    const int other = static_cast<int>(random_.Below(kSessions));
    if (meanwhile_ && other != s && random_.OneIn(20)) {
      ChangeTransaction(&sessions_.at(static_cast<size_t>(other)));
    }
  }

  Verdict Judge(int s, uint64_t xid) {
    Meanwhile(s);
    if (xid == live::kFrozen) return Verdict::kCommitted;
    if (xid >= kForeign) return Verdict::kKeep;
    switch (transactions_.Of(xid)) {
      case Status::kRunning:
        return Verdict::kKeep;
      case Status::kAborted:
        return Verdict::kAborted;
      default:
        return xid < horizon_ ? Verdict::kCommitted : Verdict::kKeep;
    }
  }

  // Every committed transaction before the horizon is visible to all snapshots.
  void MoveHorizon() {
    uint64_t end = transactions_.OldestRunning();
    if (snapshot_ && snapshot_->xmin < end) end = snapshot_->xmin;
    if (end > horizon_) horizon_ += random_.Below(end - horizon_ + 1);
  }

  void TakeSnapshot() {
    snapshot_ = Snapshot{transactions_.OldestRunning(), {}, {}};
    for (uint64_t xid = 0; xid < transactions_.next(); ++xid) {
      snapshot_->committed.push_back(xid >= kFirstXid &&
                                     transactions_.Of(xid) == Status::kCommitted);
    }
    for (const Session& session : sessions_) {
      snapshot_->keys.insert(session.committed.begin(), session.committed.end());
    }
  }

  // ---- looking ----

  Side SideOf(int s, uint64_t xid) const {
    if (xid == live::kFrozen || IsCurrent(s, xid)) return Side::kPresent;
    switch (transactions_.Of(xid)) {
      case Status::kRunning:
        return Side::kInFlight;
      case Status::kCommitted:
        return Side::kPresent;
      default:
        return Side::kAbsent;
    }
  }

  struct View {
    Side side;
    uint64_t since;
    bool was_there;
  };
  View ViewOf(int s, const Entry& entry, const Tag& tag) const {
    const uint64_t base = live::BaseOf(tag);
    const uint64_t since = !entry.forgotten ? tag.xid : base == live::kNoXid ? live::kFrozen : base;
    const Side added = SideOf(s, since);
    if (!entry.forgotten || added != Side::kPresent) return {added, since, false};
    switch (SideOf(s, tag.xid)) {
      case Side::kPresent:
        return {Side::kAbsent, since, false};
      case Side::kAbsent:
        return {Side::kPresent, since, false};
      default:
        return {Side::kInFlight, since, true};
    }
  }

  bool IsInLine(int key) const {
    return live::LineHolds(live::LineAt(main(), LineOf(key)), kSet.layout, RestOf(key), 0, 0);
  }

  template <typename Visit>
  bool VisitEntries(int key, Visit visit) const {
    for (size_t i = 0; i < pages_.size(); ++i) {
      const Page& page = pages_[i];
      if (live::VisitKey(page.data(), page.area(), LineOf(key), RestOf(key),
                         [&](unsigned place, const Entry& entry) {
                           return visit(i, place, entry, live::LoadTag(page.data(), entry.tag));
                         })) {
        return true;
      }
    }
    return false;
  }

  bool IsSeen(int s, int key) const {
    return IsInLine(key) ||
           VisitEntries(key, [&](size_t, unsigned, const Entry& entry, const Tag& tag) {
             const View view = ViewOf(s, entry, tag);
             return view.side == Side::kPresent || view.was_there;
           });
  }

  bool IsInSnapshot(int key) const {
    const auto sees = [this](uint64_t xid) {
      return xid == live::kFrozen ||
             (xid < snapshot_->committed.size() && snapshot_->committed[xid]);
    };
    return IsInLine(key) ||
           VisitEntries(key, [&](size_t, unsigned, const Entry& entry, const Tag& tag) {
             const bool was_there = tag.base == 0 || sees(live::BaseOf(tag));
             return entry.forgotten ? was_there && !sees(tag.xid) : sees(tag.xid);
           });
  }

  // ---- changing pages ----

  // Gives most tags of a page to other transactions, which have added keys that do not matter.
  void FillTags(Page* page) {
    const uint64_t left = 1 + random_.Below(random_.OneIn(2) ? 3 : page->area().tags);
    for (uint64_t i = left; i < page->area().tags; ++i) {
      (void)live::PutEntry(page->data(), page->area(), {kForeign + i, 0}, 50,
                           random_.Next() >> (64 - fifo::kLongBits), false);
    }
  }

  void Put(int s, const Tag& tag, int key, bool forgotten) {
    const auto put = [&](Page* page) {
      return live::PutEntry(page->data(), page->area(), tag, LineOf(key), RestOf(key), forgotten);
    };
    if (put(&pages_[0])) return;
    SettleSome(s, false);
    if (put(&pages_[0])) return;
    SettleSome(s, true);
    for (Page& page : pages_) {
      if (put(&page)) return;
    }
    pages_.emplace_back();
    live::InitPage(pages_.back().data(), Kind::kOverflow, 20, kSet.layout, 3);
    FillTags(&pages_.back());
    most_pages_ = std::max(most_pages_, pages_.size());
    ASSERT_TRUE(put(&pages_.back()));
  }

  // Forgets a key in the way of TryToForget() in live/forget.cpp.
  void Forget(int s, int key) {
    const uint64_t own = Own(&sessions_.at(static_cast<size_t>(s)));
    for (bool settled = false;; settled = true) {
      size_t at = 0;
      unsigned place = 0;
      uint64_t since = 0;
      Entry found = {};
      if (!VisitEntries(key, [&](size_t page, unsigned where, const Entry& entry, const Tag& tag) {
            const View view = ViewOf(s, entry, tag);
            at = page, place = where, since = view.since, found = entry;
            return view.side == Side::kPresent;
          })) {
        uint32_t generation = 0;
        ASSERT_TRUE(live::TakeFromLine(live::LineAt(main(), LineOf(key)), kSet.layout, RestOf(key),
                                       0, &generation));
        Put(s, {own, 0}, key, true);
        return;
      }
      Page& page = pages_[at];
      if (since != live::kFrozen && HeirOf(s, since) == HeirOf(s, own)) {
        live::TakeBack(page.data(), page.area(), place);
        return;
      }
      const Tag tag = {own, 0, since == live::kFrozen ? 0 : static_cast<uint32_t>(since)};
      const live::TagChoice choice = live::ChooseTag(page.data(), page.area(), tag);
      if (choice.tag != 0) {
        live::StoreTag(page.data(), choice.tag, tag);
        found.tag = choice.tag;
        found.forgotten = true;
        live::StoreEntry(page.data(), page.area(), place, found);
        return;
      }
      if (settled) {
        live::TakeBack(page.data(), page.area(), place);
        Put(s, tag, key, true);
        return;
      }
      SettleSome(s, true);
    }
  }

  // Returns the fate of a tag, as FateOf() of live/store/settle.cpp does.
  TagFate FateOf(int s, const Tag& tag) {
    if (tag.base == 0) return live::FateOfTag(tag, HeirOf(s, tag.xid));
    const uint64_t base = live::BaseOf(tag);
    const Standing adds = {Judge(s, base), HeirOf(s, base)};
    return live::FateOfForgotten(tag, adds, {Judge(s, tag.xid), HeirOf(s, tag.xid)});
  }

  void SettleOne(int s, Page* page, bool fold) {
    Verdict verdicts[live::kMaxTags + 1] = {};
    const unsigned tags = page->area().tags;
    for (unsigned tag = 1; tag <= tags; ++tag) {
      const Tag value = live::LoadTag(page->data(), tag);
      if (value.xid != live::kNoXid) live::ApplyFate(main(), page->data(), tag, FateOf(s, value));
    }
    for (unsigned tag = 1; tag <= tags; ++tag) {
      const Tag value = live::LoadTag(page->data(), tag);
      if (value.xid != live::kNoXid) {
        verdicts[tag] = live::VerdictOn(value, Judge(s, value.xid), false);
      }
    }
    Settled settled;
    live::Settle(main(), page->data(), kSet, verdicts, fold, &settled);
  }

  void SettleSome(int s, bool fold) {
    for (size_t i = 0; i < pages_.size(); ++i) {
      if (random_.OneIn(3)) continue;
      meanwhile_ = true;
      SettleOne(s, &pages_[i], fold);
      meanwhile_ = false;
    }
    while (pages_.size() > 1 &&
           live::CountEntries(pages_.back().data(), live::kOverflowArea) == 0) {
      pages_.pop_back();
    }
  }

  Random random_;
  std::vector<Page> pages_;  // the main page and its chain
  uint64_t keys_;            // of each session
  uint64_t settles_;         // in so many of 100 steps
  uint64_t folds_;           // in so many of 3 of these
  std::vector<unsigned> lines_;
  std::vector<uint64_t> rests_;
  std::array<Session, kSessions> sessions_;
  Transactions transactions_;
  std::optional<Snapshot> snapshot_;
  uint64_t horizon_ = kFirstXid;
  size_t most_pages_ = 1;
  bool meanwhile_ = false;
};

TEST(Fates, ForgottenKeysAreThoseOfTheModel) {
  size_t most = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    World world(seed);
    for (int step = 0; step < 1500; ++step) {
      world.Step();
      world.Check();
      if (HasFatalFailure()) FAIL() << "seed " << seed << ", step " << step;
    }
    most = std::max(most, world.most_pages());
  }
  EXPECT_GT(most, 1u);  // tags ran out
}

}  // namespace
}  // namespace dedup::test
