// Breakable barrier of the ranks of one process, with a timeout and a check that all ranks call the same collective,
// and the mailboxes of their messages.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/core/patient_wait.hpp"
#include "rlcore/parallel/communicator/communicator.hpp"

RLCORE_BEGIN
namespace parallel {

/// The collective and the memory that one rank publishes to the other ranks.
struct intention {
  collective_call call{};
  const std::byte* data = nullptr;
  std::span<const std::size_t> counts{};
};

class rendezvous;

/// The shared state of all groups of one run_ranks(). If one group fails, all fail.
struct shared_abort_state {
  /// For this many ranks; `limit` is the timeout.
  shared_abort_state(int ranks, std::chrono::milliseconds limit)
      : deadline(limit), returned(static_cast<std::size_t>(ranks), 0) {}

  const std::chrono::milliseconds deadline;
  std::mutex mutex;
  std::string failure;       // empty: no failure
  std::exception_ptr first;  // the exception of the first rank that failed
  std::vector<char> returned;
  std::vector<rendezvous*> groups;
  std::condition_variable ended;  // a failure or the end of a rank
};

/// The rendezvous of one group. Ranks are numbered within the group; messages use the ranks of run_ranks().
class rendezvous {
 public:
  /// The group of `members`, given as ranks of run_ranks().
  rendezvous(std::shared_ptr<shared_abort_state> fate, std::vector<int> members)
      : fate_(std::move(fate)), members_(std::move(members)), shown_(members_.size()), state_(members_.size()) {
    const std::lock_guard<std::mutex> lock(fate_->mutex);
    fate_->groups.push_back(this);
  }
  rendezvous(const rendezvous&) = delete;
  rendezvous& operator=(const rendezvous&) = delete;
  ~rendezvous() {
    const std::lock_guard<std::mutex> lock(fate_->mutex);
    std::erase(fate_->groups, this);
  }

  int size() const noexcept { return static_cast<int>(members_.size()); }
  /// The run_ranks() rank of group rank `rank`.
  int member(int rank) const noexcept { return members_[static_cast<std::size_t>(rank)]; }
  /// The entry that a rank has published in the current collective.
  const intention& of(int rank) const noexcept { return shown_[static_cast<std::size_t>(rank)]; }
  const std::shared_ptr<shared_abort_state>& fate() const noexcept { return fate_; }

  /// Waits until all ranks have entered the same collective. Afterwards of() may be read until leave(). Throws
  /// communication_error, in all ranks, if a rank times out, has returned, has failed or has entered another
  /// collective.
  void enter(int rank, const intention& mine);

  /// Waits until no rank reads another rank's memory. No timeout: this rank's memory must stay valid while the other
  /// ranks copy.
  void leave();

  /// Puts a copy of data into the mailbox from `rank` to call.root. Waits only while that holds `most` messages; the
  /// timeout is `patience` deadlines.
  void post(int rank, const collective_call& call, const std::byte* data, std::size_t most, int patience);

  /// Waits for a message from call.root to `rank` and copies it to data; the timeout is `patience` deadlines. Throws
  /// communication_error, in all ranks, if none comes, or one of another type or size.
  void take(int rank, const collective_call& call, std::byte* data, int patience);

  /// Fails all groups and throws communication_error with the reason.
  [[noreturn]] void abort(int rank, const std::string& why) {
    const std::lock_guard<std::mutex> lock(fate_->mutex);
    fail("rank " + std::to_string(member(rank)) + " aborted: " + why);
    throw communication_error("rlcore: " + fate_->failure);
  }

  /// Fails all groups with the reason, unless they have failed.
  void fail_all(const std::string& why) {
    const std::lock_guard<std::mutex> lock(fate_->mutex);
    fail(why);
  }

  /// Marks a rank's function as ended, normally or by the exception `failed`. Ranks that wait for it in any group, now
  /// or later, fail.
  static void depart(shared_abort_state& fate, int rank, std::exception_ptr failed, const std::string& why);

 private:
  struct state {
    std::uint64_t sequence = 0;  // collectives entered so far
    bool inside = false;
    int source = -1;  // the rank whose message this rank waits for
  };
  static constexpr std::size_t kept_bytes = std::size_t{1} << 16;  // memory of smaller messages is not kept
  struct message {
    collective_call call{};
    std::vector<std::byte> bytes{};
  };
  using mailbox = std::deque<message>;
  using ordered_pair = std::pair<int, int>;  // from, to

  /// Memory for a message of n bytes: the smallest that has room, or none.
  std::vector<std::byte> idle_memory(std::size_t n);
  /// Keeps the memory of a received message if it is large; of too many, the largest.
  void keep_memory(std::vector<std::byte> bytes);

  /// A rank of this group that waits for run_ranks() rank `member`, or -1.
  int waits_for(int member) const;
  std::string name(int rank, const intention& entered) const;
  void open();
  static void break_all(shared_abort_state& fate, const std::string& why) {
    if (fate.failure.empty()) fate.failure = why;
    for (rendezvous* group : fate.groups) group->changed_.notify_all();
    fate.ended.notify_all();
  }
  void fail(const std::string& why) { break_all(*fate_, why); }
  [[noreturn]] void raise(int rank, const intention& mine) const {
    throw communication_error("rlcore: " + std::string(name_of(mine.call.operation)) + " of rank " +
                              std::to_string(member(rank)) + " cannot end: " + fate_->failure);
  }

  std::shared_ptr<shared_abort_state> fate_;
  std::vector<int> members_;
  std::condition_variable changed_;
  std::vector<intention> shown_;
  std::vector<state> state_;
  std::map<ordered_pair, mailbox> boxes_;     // since their first message
  std::vector<std::vector<std::byte>> idle_;  // memory of received messages
  int arrived_ = 0;
  std::uint64_t round_ = 0;
};

}  // namespace parallel
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_PARALLEL)
RLCORE_BEGIN
namespace parallel {

RLCORE_INLINE void rendezvous::enter(int rank, const intention& mine) {
  std::unique_lock<std::mutex> lock(fate_->mutex);
  auto& me = state_[static_cast<std::size_t>(rank)];
  ++me.sequence;
  if (!fate_->failure.empty()) raise(rank, mine);
  for (const int m : members_)
    if (fate_->returned[static_cast<std::size_t>(m)] != 0) {
      fail(name(rank, mine) + ": rank " + std::to_string(m) + " has already returned");
      raise(rank, mine);
    }
  me.inside = true;
  shown_[static_cast<std::size_t>(rank)] = mine;
  const std::uint64_t round = round_;
  if (++arrived_ == size()) {
    for (int r = 1; r < size(); ++r)
      if (!of(r).call.fits(of(0).call)) {
        fail("ranks disagree: " + name(0, of(0)) + ", but " + name(r, of(r)));
        raise(rank, mine);
      }
    open();
    return;
  }
  const auto ready = [&] { return round_ != round || !fate_->failure.empty(); };
  if (!patient_wait(changed_, lock, fate_->deadline, ready)) {
    std::string absent;
    for (int r = 0; r < size(); ++r)
      if (!state_[static_cast<std::size_t>(r)].inside)
        absent += (absent.empty() ? "rank " : ", rank ") + std::to_string(member(r)) + " (after " +
                  std::to_string(state_[static_cast<std::size_t>(r)].sequence) + " collectives)";
    fail(name(rank, mine) + " waited " + std::to_string(fate_->deadline.count()) + " ms in vain for " + absent);
  }
  if (round_ == round) raise(rank, mine);
}

RLCORE_INLINE void rendezvous::leave() {
  std::unique_lock<std::mutex> lock(fate_->mutex);
  const std::uint64_t round = round_;
  if (++arrived_ == size())
    open();
  else
    changed_.wait(lock, [&] { return round_ != round; });
}

/// Is it the error of a rank that misses another?
RLCORE_INLINE bool lacks_rank(const std::exception_ptr& e) {
  try {
    std::rethrow_exception(e);
  } catch (const communication_error&) {
    return true;
  } catch (...) {
    return false;
  }
}

RLCORE_INLINE void rendezvous::depart(shared_abort_state& fate, int rank, std::exception_ptr failed,
                                      const std::string& why) {
  const std::lock_guard<std::mutex> lock(fate.mutex);
  fate.returned[static_cast<std::size_t>(rank)] = 1;
  fate.ended.notify_all();
  if (failed) {
    // A rank that waited for this one may have been faster to fail.
    if (!fate.first || (lacks_rank(fate.first) && !lacks_rank(failed))) fate.first = std::move(failed);
    break_all(fate, "rank " + std::to_string(rank) + " failed: " + why);
    return;
  }
  for (const rendezvous* group : fate.groups)
    if (const int waiting = group->waits_for(rank); waiting >= 0)
      return break_all(fate, "rank " + std::to_string(rank) + " returned while " +
                                 group->name(waiting, group->of(waiting)) + " waits for it");
}

RLCORE_INLINE int rendezvous::waits_for(int member) const {
  if (std::find(members_.begin(), members_.end(), member) == members_.end()) return -1;
  for (int r = 0; r < size(); ++r) {
    const state& s = state_[static_cast<std::size_t>(r)];
    if (s.inside || (s.source >= 0 && this->member(s.source) == member && boxes_.at({s.source, r}).empty())) return r;
  }
  return -1;
}

RLCORE_INLINE std::vector<std::byte> rendezvous::idle_memory(std::size_t n) {
  auto best = idle_.end();
  for (auto each = idle_.begin(); each != idle_.end(); ++each)
    if (each->capacity() >= n && (best == idle_.end() || each->capacity() < best->capacity())) best = each;
  if (n < kept_bytes || best == idle_.end()) return {};
  std::vector<std::byte> bytes = std::move(*best);
  idle_.erase(best);
  return bytes;
}

RLCORE_INLINE void rendezvous::keep_memory(std::vector<std::byte> bytes) {
  if (bytes.capacity() < kept_bytes) return;
  idle_.push_back(std::move(bytes));
  if (idle_.size() <= members_.size()) return;
  const auto smaller = [](const auto& a, const auto& b) { return a.capacity() < b.capacity(); };
  idle_.erase(std::min_element(idle_.begin(), idle_.end(), smaller));
}

RLCORE_INLINE void rendezvous::post(int rank, const collective_call& call, const std::byte* data, std::size_t most,
                                    int patience) {
  const std::size_t n = call.count * call.of.bytes;
  const int to = call.root;
  message sent{call, {}};
  {
    std::unique_lock<std::mutex> lock(fate_->mutex);
    const intention mine{call};
    ++state_[static_cast<std::size_t>(rank)].sequence;
    const mailbox& target = boxes_[{rank, to}];
    const auto ready = [&] { return target.size() < most || !fate_->failure.empty(); };
    if (!ready() && !patient_wait(changed_, lock, fate_->deadline * patience, ready))
      fail(name(rank, mine) + ": rank " + std::to_string(member(to)) + " has not received " +
           std::to_string(target.size()) + " messages");
    if (fate_->failure.empty() && fate_->returned[static_cast<std::size_t>(member(to))] != 0)
      fail(name(rank, mine) + ": rank " + std::to_string(member(to)) + " has already returned");
    if (!fate_->failure.empty()) raise(rank, mine);
    sent.bytes = idle_memory(n);
  }
  if (n != 0) sent.bytes.assign(data, data + n);
  {
    const std::lock_guard<std::mutex> lock(fate_->mutex);
    boxes_[{rank, to}].push_back(std::move(sent));
  }
  changed_.notify_all();
}

RLCORE_INLINE void rendezvous::take(int rank, const collective_call& call, std::byte* data, int patience) {
  const int from = call.root;
  message received;
  {
    std::unique_lock<std::mutex> lock(fate_->mutex);
    state& me = state_[static_cast<std::size_t>(rank)];
    ++me.sequence;
    const intention mine{call};
    shown_[static_cast<std::size_t>(rank)] = mine;
    mailbox& source = boxes_[{from, rank}];
    const auto ready = [&] { return !source.empty() || !fate_->failure.empty(); };
    if (!ready() && fate_->returned[static_cast<std::size_t>(member(from))] != 0)
      fail(name(rank, mine) + ": rank " + std::to_string(member(from)) + " has already returned");
    me.source = from;
    if (!ready() && !patient_wait(changed_, lock, fate_->deadline * patience, ready))
      fail(name(rank, mine) + " waited " + std::to_string((fate_->deadline * patience).count()) +
           " ms in vain for rank " + std::to_string(member(from)) + " (after " +
           std::to_string(state_[static_cast<std::size_t>(from)].sequence) + " collectives)");
    me.source = -1;
    if (!fate_->failure.empty()) raise(rank, mine);
    received = std::move(source.front());
    source.pop_front();
    const collective_call& sent = received.call;
    if (sent.count != call.count || sent.of.bytes != call.of.bytes || sent.of.kind != call.of.kind) {
      fail("ranks disagree: " + name(rank, mine) + ", but rank " + std::to_string(member(from)) + " called " +
           sent.text());
      raise(rank, mine);
    }
  }
  if (const std::size_t n = call.count * call.of.bytes; n != 0) std::memcpy(data, received.bytes.data(), n);
  {
    const std::lock_guard<std::mutex> lock(fate_->mutex);
    keep_memory(std::move(received.bytes));
  }
  changed_.notify_all();
}

RLCORE_INLINE std::string rendezvous::name(int rank, const intention& entered) const {
  std::string s = "rank " + std::to_string(member(rank)) + " in collective " +
                  std::to_string(state_[static_cast<std::size_t>(rank)].sequence) + ", " + entered.call.text();
  if (members_.size() == fate_->returned.size()) return s;
  s += " of the group of ranks";
  for (const int m : members_) s += " " + std::to_string(m);
  return s;
}

RLCORE_INLINE void rendezvous::open() {
  arrived_ = 0;
  ++round_;
  for (state& s : state_) s.inside = false;
  changed_.notify_all();
}

}  // namespace parallel
RLCORE_END
#endif
