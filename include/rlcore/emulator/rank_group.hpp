// Rank group of an emulated communicator: rendezvous of collectives, and point-to-point messages.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/patient_wait.hpp"
#include "rlcore/device/npu/abi/types.hpp"
#include "rlcore/emulator/errors.hpp"

RLCORE_BEGIN
namespace ascend::emulated {

/// HCCL_E_*.
namespace hccl_errors {
inline constexpr int parameter = 1, pointer = 2, internal = 4, not_supported = 5, timeout = 9, runtime = 15,
                     remote = 21;
}

/// The collective that a rank calls. All members must be equal on all ranks.
struct collective_intention {
  const char* name = "";
  hccl_type type = hccl_type::int8;
  std::uint64_t count = 0;
  int reduction = -1, root = -1;

  /// Whether all members are equal; names are compared as strings.
  bool operator==(const collective_intention& o) const {
    return std::string_view(name) == o.name && type == o.type && count == o.count && reduction == o.reduction &&
           root == o.root;
  }
  std::string text() const;
};

/// The input of a rank to a collective.
struct collective_share {
  std::vector<std::byte> data;
  std::vector<std::uint64_t> counts, offsets;  ///< elements for each rank, of HcclAlltoAllV
  bool deterministic = true;
  std::vector<std::uint64_t> expected = {};  ///< elements of each rank, of HcclAlltoAllV
};

/// The ranks of one communicator. All ranks are aborted if one waits longer than the deadline, if ranks disagree, or if
/// one leaves while others wait for it. On hardware they would hang.
class rank_group {
 public:
  /// A group of `ranks` ranks that have not joined yet. `deadline` is how long a rank waits for another.
  rank_group(std::uint32_t ranks, std::chrono::milliseconds deadline)
      : deadline_(deadline), devices_(ranks, -1), left_(ranks, false), under_way_(ranks, 0) {}

  std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(devices_.size()); }

  /// Adds a rank and waits until all ranks have joined, at most five deadlines. Returns an HcclResult.
  int join(std::uint32_t ranks, std::uint32_t rank, int device);

  /// The error that aborted the group; 0 if none has.
  int failed() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return failed_;
  }
  std::string why() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return why_;
  }

  /// The rank has enqueued one more operation.
  void issued(std::uint32_t rank) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++under_way_[rank];
  }
  /// One operation of the rank has ended or was dropped.
  void finished(std::uint32_t rank) {
    const std::lock_guard<std::mutex> lock(mutex_);
    --under_way_[rank];
    changed_.notify_all();
  }
  /// The rank destroys its communicator; with operations in flight, all ranks are aborted.
  void leave(std::uint32_t rank);

  using shares = std::vector<collective_share>;
  /// The inputs of the ranks, by rank, and the result of combine().
  struct outcome {
    shares brought;
    std::vector<std::byte> combined;
  };
  /// The `number`-th collective of the rank. When the shares of all ranks have arrived, combine(shares) computes the
  /// result once, and all ranks return it. An outcome_error of combine() holds an HcclResult. Throws outcome_error.
  std::shared_ptr<const outcome> meet(std::uint32_t rank, std::uint64_t number, const collective_intention& mine,
                                      collective_share share,
                                      const std::function<std::vector<std::byte>(const shares&)>& combine);

  /// A message to another rank. post() sends it, and taken() waits until it has been received.
  struct message {
    collective_intention operation;
    std::vector<std::byte> data;
    bool taken = false;
  };
  /// Sends a message and does not wait. Throws outcome_error if the group has been aborted.
  std::shared_ptr<message> post(std::uint32_t from, std::uint32_t to, message m);
  /// Waits until the receiver has taken a posted message. Throws outcome_error if the group is aborted before.
  void taken(std::uint32_t from, std::uint32_t to, const message& m);
  /// The next message of the channel. Its type and count must be those of `expected`.
  std::vector<std::byte> receive(std::uint32_t from, std::uint32_t to, const collective_intention& expected);

 private:
  struct round {
    std::shared_ptr<outcome> result;
    std::vector<collective_intention> intentions;
    std::vector<bool> here;
    std::uint32_t arrived = 0, gone = 0;
    bool done = false;
  };

  /// Waits until ready(); needed(r) is whether it waits for rank r. A ready operation has succeeded, even if another
  /// one fails before this thread wakes.
  template <class Ready, class Needed>
  void wait(std::unique_lock<std::mutex>& lock, const std::string& me, Ready ready, Needed needed) {
    const auto deserted = [&] {
      for (std::uint32_t r = 0; r < size(); ++r)
        if (needed(r) && left_[r] && under_way_[r] == 0) return static_cast<int>(r);
      return -1;
    };
    const bool in_time =
        patient_wait(changed_, lock, deadline_, [&] { return failed_ != 0 || ready() || deserted() >= 0; });
    if (ready()) return;
    if (failed_ == 0) {
      if (const int r = deserted(); r >= 0) {
        end(hccl_errors::remote,
            me + " waits for rank " + std::to_string(r) + ", which has destroyed its communicator");
      } else if (!in_time) {
        std::string absent;
        for (std::uint32_t other = 0; other < size(); ++other)
          if (needed(other)) absent += (absent.empty() ? "rank " : ", ") + std::to_string(other);
        end(hccl_errors::timeout, me + " waited " + std::to_string(deadline_.count()) + " ms in vain for " + absent);
      }
    }
    raise_if_failed();
  }
  void end(int code, std::string why);
  /// The failure as an error of the stream: a timeout of a task, or an internal error.
  outcome_error raised() const { return {failed_ == hccl_errors::timeout ? 107020 : errors::internal, why_}; }
  void raise_if_failed() const {
    if (failed_ != 0) throw raised();
  }

  const std::chrono::milliseconds deadline_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int> devices_;
  std::vector<bool> left_;
  std::vector<std::int64_t> under_way_;
  std::uint32_t joined_ = 0;
  std::map<std::uint64_t, round> rounds_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::deque<std::shared_ptr<message>>> channels_;
  int failed_ = 0;
  std::string why_;
};

}  // namespace ascend::emulated
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_EMULATOR)
RLCORE_BEGIN
namespace ascend::emulated {

RLCORE_INLINE std::string collective_intention::text() const {
  std::string line =
      std::string(name) + "(count " + std::to_string(count) + ", type " + std::to_string(static_cast<int>(type));
  if (reduction >= 0) line += ", reduction " + std::to_string(reduction);
  if (root >= 0) line += ", root " + std::to_string(root);
  return line + ")";
}

RLCORE_INLINE int rank_group::join(std::uint32_t ranks, std::uint32_t rank, int device) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (failed_ == 0) {
    const std::string who = "rank " + std::to_string(rank) + " of " + std::to_string(ranks);
    if (ranks != size())
      end(hccl_errors::parameter, who + " joined a group of " + std::to_string(size()));
    else if (devices_[rank] >= 0)
      end(hccl_errors::parameter, who + " joined twice");
    else if (std::find(devices_.begin(), devices_.end(), device) != devices_.end())
      end(hccl_errors::parameter, who + " joined with device " + std::to_string(device) + ", which another rank has");
  }
  if (failed_ == 0) {
    devices_[rank] = device;
    if (++joined_ == size()) changed_.notify_all();
    if (!patient_wait(changed_, lock, 5 * deadline_, [&] { return joined_ == size() || failed_ != 0; })) {
      std::string absent;
      for (std::uint32_t r = 0; r < size(); ++r)
        if (devices_[r] < 0) absent += (absent.empty() ? "rank " : ", ") + std::to_string(r);
      end(hccl_errors::timeout, absent + " did not join in time");
    }
    if (joined_ == size()) return 0;  // later failures belong to operations, not to this call
  }
  return fail(failed_, why_);
}

RLCORE_INLINE void rank_group::leave(std::uint32_t rank) {
  const std::lock_guard<std::mutex> lock(mutex_);
  left_[rank] = true;
  if (under_way_[rank] > 0)
    end(hccl_errors::remote, "rank " + std::to_string(rank) + " destroyed its communicator with " +
                                 std::to_string(under_way_[rank]) + " operations under way");
  changed_.notify_all();
}

RLCORE_INLINE auto rank_group::meet(std::uint32_t rank, std::uint64_t number, const collective_intention& mine,
                                    collective_share share,
                                    const std::function<std::vector<std::byte>(const shares&)>& combine)
    -> std::shared_ptr<const outcome> {
  std::unique_lock<std::mutex> lock(mutex_);
  raise_if_failed();
  round& r = rounds_[number];
  if (!r.result) {
    r.result = std::make_shared<outcome>();
    r.result->brought.resize(size());
    r.intentions.resize(size());
    r.here.assign(size(), false);
  }
  const std::shared_ptr<outcome> result = r.result;
  r.intentions[rank] = mine;
  r.here[rank] = true;
  r.result->brought[rank] = std::move(share);
  if (++r.arrived == size()) {
    for (std::uint32_t other = 1; other < size(); ++other)
      if (!(r.intentions[other] == r.intentions[0]))
        end(hccl_errors::parameter, "ranks disagree: in collective " + std::to_string(number) + " rank 0 is in " +
                                        r.intentions[0].text() + ", rank " + std::to_string(other) + " in " +
                                        r.intentions[other].text());
    raise_if_failed();
    try {
      if (combine) r.result->combined = combine(r.result->brought);
    } catch (const outcome_error& e) {
      end(e.code, mine.text() + ": " + e.message);
      raise_if_failed();
    }
    r.done = true;
    changed_.notify_all();
  } else {
    const std::string me =
        "rank " + std::to_string(rank) + " in collective " + std::to_string(number) + ", " + mine.text() + ",";
    wait(lock, me, [&] { return r.done; }, [&](std::uint32_t other) { return !r.here[other]; });
  }
  if (++r.gone == size()) rounds_.erase(number);
  return result;
}

RLCORE_INLINE auto rank_group::post(std::uint32_t from, std::uint32_t to, message m) -> std::shared_ptr<message> {
  const std::lock_guard<std::mutex> lock(mutex_);
  raise_if_failed();
  auto posted = std::make_shared<message>(std::move(m));
  channels_[{from, to}].push_back(posted);
  changed_.notify_all();
  return posted;
}

RLCORE_INLINE void rank_group::taken(std::uint32_t from, std::uint32_t to, const message& m) {
  std::unique_lock<std::mutex> lock(mutex_);
  wait(
      lock, "rank " + std::to_string(from) + " sending to rank " + std::to_string(to) + ", " + m.operation.text() + ",",
      [&] { return m.taken; }, [&](std::uint32_t other) { return other == to; });
}

RLCORE_INLINE std::vector<std::byte> rank_group::receive(std::uint32_t from, std::uint32_t to,
                                                         const collective_intention& expected) {
  std::unique_lock<std::mutex> lock(mutex_);
  raise_if_failed();
  auto& channel = channels_[{from, to}];
  const std::string me =
      "rank " + std::to_string(to) + " receiving from rank " + std::to_string(from) + ", " + expected.text() + ",";
  wait(lock, me, [&] { return !channel.empty(); }, [&](std::uint32_t other) { return other == from; });
  const std::shared_ptr<message> m = channel.front();
  channel.pop_front();
  if (m->operation.type != expected.type || m->operation.count != expected.count) {
    end(hccl_errors::parameter, me + " was sent " + m->operation.text());
    raise_if_failed();
  }
  m->taken = true;
  changed_.notify_all();
  return std::move(m->data);
}

RLCORE_INLINE void rank_group::end(int code, std::string why) {
  if (failed_ == 0) {
    failed_ = code;
    why_ = std::move(why);
  }
  changed_.notify_all();
}

}  // namespace ascend::emulated
RLCORE_END
#endif
