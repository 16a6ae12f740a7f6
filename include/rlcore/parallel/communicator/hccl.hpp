// HCCL communicator: one Ascend NPU per rank, in one or several processes.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/device/npu/abi/calls.hpp"
#include "rlcore/device/npu/provider.hpp"
#include "rlcore/device/npu/queue.hpp"
#include "rlcore/parallel/communicator/communicator.hpp"

RLCORE_BEGIN
namespace parallel {

/// Throws capability_error unless the provider has every HCCL function that is called here.
void require_collectives(const ascend::session& s);

/// The HCCL root info: rank 0 creates these 4108 bytes and sends them unchanged to all ranks. `device` is the device of
/// rank 0. Throws npu_error.
ascend::hccl_root_info hccl_root(const std::shared_ptr<ascend::session>& session, int device);

/// One rank of a group of NPUs. Host data are copied to the device, sent by HCCL as bytes, and copied back. HCCL checks
/// little between ranks, so most errors of a rank appear as timeouts of the other ranks.
///
/// The constructor returns when all ranks have joined. One thread uses a rank, and a device has one rank.
class hccl_rank : public typed_collectives<hccl_rank> {
 public:
  static constexpr const char* engine_name = "hccl";

  /// Joins the group as `rank` of `ranks` on device number `device` with the result of hccl_root(). `deadline` is the
  /// timeout of a collective. Throws std::invalid_argument for a rank out of range, capability_error if HCCL lacks
  /// functions, communication_error if HCCL fails.
  hccl_rank(std::shared_ptr<ascend::session> session, int device, const ascend::hccl_root_info& root, int ranks,
            int rank, std::chrono::milliseconds deadline = std::chrono::minutes(10));
  hccl_rank(const hccl_rank&) = delete;
  hccl_rank& operator=(const hccl_rank&) = delete;
  /// Ranks that still wait for this rank fail.
  ~hccl_rank() {
    leave();
    queue_.release(in_.data);
    queue_.release(out_.data);
  }

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  bool aborted() const noexcept { return aborted_; }

  void barrier() {
    run("barrier", [&](ascend::aclrtStream stream) { return comm().HcclBarrier(communicator_, stream); });
  }
  /// As communicator's broadcast: the root uploads, the other ranks download.
  void broadcast_bytes(element e, std::byte* data, std::size_t count, int root);
  /// As communicator's all_gather, through the device's memory.
  void all_gather_bytes(element e, const std::byte* in, std::byte* out, std::size_t count);
  /// As communicator's all_gather_v, by HCCL's AlltoAllV with the same data for every rank.
  void all_gather_v_bytes(element e, const std::byte* in, std::byte* out, std::span<const std::size_t> counts) {
    if (std::accumulate(counts.begin(), counts.end(), std::size_t{0}) == 0) return;
    const std::vector<std::size_t> same(ranks(), counts[static_cast<std::size_t>(rank_)]);
    exchange_v("all_gather_v", e, in, same, true, out, counts);
  }
  /// As communicator's all_to_all, through the device's memory.
  void all_to_all_bytes(element e, const std::byte* in, std::byte* out, std::size_t count);
  /// As communicator's all_to_all_v, through the device's memory.
  void all_to_all_v_bytes(element e, const std::byte* in, std::span<const std::size_t> in_counts, std::byte* out,
                          std::span<const std::size_t> out_counts) {
    exchange_v("all_to_all_v", e, in, in_counts, false, out, out_counts);
  }
  /// An AlltoAllV in which each rank sends to one rank.
  void shift_bytes(element e, const std::byte* in, std::byte* out, std::size_t count, int distance);
  /// Throws communication_error: this engine has no messages between two ranks.
  [[noreturn]] void send_bytes(element, const std::byte*, std::size_t, int, std::size_t, int) {
    throw no_messages("send");
  }
  /// Throws communication_error: this engine has no messages between two ranks.
  [[noreturn]] void receive_bytes(element, std::byte*, std::size_t, int, int) { throw no_messages("receive"); }
  /// Creates a new communicator for each group, on the same device.
  hccl_rank split(int color, int key);
  /// The other ranks time out waiting for this rank; on the emulator they fail at once.
  [[noreturn]] void abort(const std::string& why);

 private:
  static communication_error no_messages(const char* call) {
    return communication_error(std::string("rlcore: ") + call +
                               ": no messages between two NPUs; expected ranks as threads or processes of MPI");
  }
  static constexpr ascend::hccl_type bytes = ascend::hccl_type::int8;
  struct buffer {
    void* data = nullptr;
    std::size_t size = 0;
  };

  const ascend::collective_calls& comm() const { return queue_.table().comm; }

  void grow(buffer& b, std::size_t size);
  void upload(buffer& to, const std::byte* from, std::size_t n) {
    grow(to, n);
    queue_.upload(to.data, from, n);
  }
  void download(std::byte* to, std::size_t n) { queue_.download(to, out_.data, n); }
  std::size_t ranks() const noexcept { return static_cast<std::size_t>(size_); }

  template <class Call>
  void exchange(const char* collective, const std::byte* in, std::size_t in_bytes, std::byte* out,
                std::size_t out_bytes, Call call) {
    upload(in_, in, in_bytes);
    grow(out_, out_bytes);
    run(collective, call);
    download(out, out_bytes);
  }
  /// `same`: sends all of `in` to all ranks.
  void exchange_v(const char* collective, element e, const std::byte* in, std::span<const std::size_t> in_counts,
                  bool same, std::byte* out, std::span<const std::size_t> out_counts);

  /// Enqueues and waits with a timeout, by a clock that does not count the time in which the process is stopped.
  template <class Call>
  void run(const char* collective, Call call) {
    ++sequence_;
    if (!broken_.empty()) fail(collective, broken_);
    const auto guard = queue_.device().enter();
    if (const int status = call(queue_.stream().get()); status != 0) fail(collective, text(collective, status));
    using clock = std::chrono::steady_clock;
    const auto begin = clock::now();
    clock::duration slept{};
    while (!queue_.stream().idle()) {
      if (clock::now() - begin < std::chrono::milliseconds(1)) {
        std::this_thread::yield();
        continue;
      }
      int error = 0;
      if (!ascend::ignore(queue_.table(), comm().HcclGetCommAsyncError(communicator_, &error)) && error != 0) {
        if (queue_.stream().idle()) {  // this collective had finished before
          ascend::drop_messages(queue_.table());
          break;
        }
        fail(collective, text(collective, error));
      }
      if (slept > deadline_)
        fail(collective, "waited " + std::to_string(deadline_.count()) + " ms in vain for the other ranks");
      const auto pause =
          std::clamp<clock::duration>(slept / 8, std::chrono::microseconds(125), std::chrono::milliseconds(5));
      std::this_thread::sleep_for(pause);
      slept += pause;
    }
    try {
      queue_.wait();
    } catch (const ascend::npu_error& e) {
      fail(collective, e.what());
    }
  }
  /// HCCL returns the function and the error code; the thread's last message gives the cause.
  std::string text(const char* call, int status) const {
    return ascend::failure_text(queue_.table(), ascend::domain::collectives, status, call);
  }
  [[noreturn]] void fail(const char* collective, const std::string& why) {
    if (broken_.empty()) broken_ = why;
    throw communication_error("rlcore: " + std::string(collective) + " of rank " + std::to_string(rank_) +
                              ", its collective " + std::to_string(sequence_) + ", cannot end: " + why);
  }
  void leave() noexcept;

  int rank_, size_;
  std::chrono::milliseconds deadline_;
  ascend::queue queue_;
  ascend::HcclComm communicator_ = nullptr;
  buffer in_, out_;
  std::uint64_t sequence_ = 0;
  bool aborted_ = false;
  std::string broken_;
};

static_assert(communicator<hccl_rank>);

/// Calls f(hccl_rank&) in one thread per device 0 .. size - 1 of a machine, and returns when all have. If a rank
/// throws, the collectives of the other ranks throw communication_error and the first exception is rethrown; the
/// exception of an aborting rank takes precedence over those it causes.
template <ascend::provider P, class F>
void run_hccl_ranks(const P& provider, int size, F&& f, std::chrono::milliseconds deadline = std::chrono::minutes(10)) {
  const auto session = ascend::session::open(provider.calls(), std::string(provider.name()));
  if (size < 1 || size > session->device_count())
    throw std::invalid_argument("rlcore: run_hccl_ranks: " + std::to_string(size) + " ranks, expected 1 to " +
                                std::to_string(session->device_count()) + ", the number of devices");
  const ascend::hccl_root_info root = hccl_root(session, 0);
  std::mutex lock;
  std::exception_ptr first;
  const auto keep = [&](bool cause = false) {
    const std::lock_guard hold(lock);
    if (!first || cause) first = std::current_exception();
  };
  const auto run = [&](int rank) {
    try {
      hccl_rank self(session, rank, root, size, rank, deadline);
      try {
        f(self);
      } catch (...) {
        keep(self.aborted());  // before the other ranks notice, unless it aborts
      }
    } catch (...) {
      keep();
    }
  };
  std::vector<std::thread> ranks;
  ranks.reserve(static_cast<std::size_t>(size));
  try {
    for (int rank = 0; rank < size; ++rank) ranks.emplace_back(run, rank);
  } catch (...) {  // thread creation failed
    keep();
  }
  for (std::thread& t : ranks) t.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace parallel
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_PARALLEL)
RLCORE_BEGIN
namespace parallel {

RLCORE_INLINE void require_collectives(const ascend::session& s) {
  constexpr auto needed = ascend::feature::collectives;
  if (const std::string names = ascend::missing_functions(s.table(), needed); !names.empty())
    throw ascend::capability_error(ascend::lack_text(s.provider(), names, needed), ascend::domain::collectives,
                                   names.substr(0, names.find(',')));
}

RLCORE_INLINE ascend::hccl_root_info hccl_root(const std::shared_ptr<ascend::session>& session, int device) {
  const ascend::device_handle handle(session, device);
  const auto guard = handle.enter();
  ascend::hccl_root_info root;
  require_collectives(*session);
  ascend::check(handle.table(), ascend::domain::collectives, handle.table().comm.HcclGetRootInfo(&root),
                "HcclGetRootInfo");
  return root;
}

RLCORE_INLINE hccl_rank::hccl_rank(std::shared_ptr<ascend::session> session, int device,
                                   const ascend::hccl_root_info& root, int ranks, int rank,
                                   std::chrono::milliseconds deadline)
    : rank_(rank), size_(ranks), deadline_(deadline), queue_(std::move(session), device) {
  if (ranks < 1 || rank < 0 || rank >= ranks)
    throw std::invalid_argument("rlcore: hccl: rank " + std::to_string(rank) + " of " + std::to_string(ranks));
  require_collectives(*queue_.device().session());
  const auto guard = queue_.device().enter();
  const int status = comm().HcclCommInitRootInfo(static_cast<std::uint32_t>(ranks), &root,
                                                 static_cast<std::uint32_t>(rank), &communicator_);
  if (status != 0)
    throw communication_error("rlcore: rank " + std::to_string(rank) +
                              " cannot join: " + text("HcclCommInitRootInfo", status));
}

RLCORE_INLINE void hccl_rank::broadcast_bytes(element e, std::byte* data, std::size_t count, int root) {
  const std::size_t n = count * e.bytes;
  if (n == 0) return;
  grow(out_, n);
  if (rank_ == root) upload(out_, data, n);
  run("broadcast", [&](ascend::aclrtStream stream) {
    return comm().HcclBroadcast(out_.data, n, bytes, static_cast<std::uint32_t>(root), communicator_, stream);
  });
  if (rank_ != root) download(data, n);
}

RLCORE_INLINE void hccl_rank::all_gather_bytes(element e, const std::byte* in, std::byte* out, std::size_t count) {
  const std::size_t n = count * e.bytes;
  if (n == 0) return;
  exchange("all_gather", in, n, out, n * ranks(), [&](ascend::aclrtStream stream) {
    return comm().HcclAllGather(in_.data, out_.data, n, bytes, communicator_, stream);
  });
}

RLCORE_INLINE void hccl_rank::all_to_all_bytes(element e, const std::byte* in, std::byte* out, std::size_t count) {
  const std::size_t n = count * e.bytes;
  if (n == 0) return;
  exchange("all_to_all", in, n * ranks(), out, n * ranks(), [&](ascend::aclrtStream stream) {
    return comm().HcclAlltoAll(in_.data, n, bytes, out_.data, n, bytes, communicator_, stream);
  });
}

RLCORE_INLINE void hccl_rank::shift_bytes(element e, const std::byte* in, std::byte* out, std::size_t count,
                                          int distance) {
  if (count == 0) return;
  std::vector<std::size_t> to(ranks(), 0), from(ranks(), 0);
  const int step = distance % size_;
  to[static_cast<std::size_t>(rank_after(rank_, step, size_))] = count;
  from[static_cast<std::size_t>(rank_after(rank_, -step, size_))] = count;
  exchange_v("shift", e, in, to, false, out, from);
}

RLCORE_INLINE hccl_rank hccl_rank::split(int color, int key) {
  std::vector<requested_split> wishes(ranks());
  const requested_split mine{color, key};
  all_gather(std::span<const requested_split>(&mine, 1), std::span(wishes));
  const std::vector<int> group = split_group(wishes, color);
  std::vector<ascend::hccl_root_info> roots(ranks());
  ascend::hccl_root_info root{};
  if (group.front() == rank_) root = hccl_root(queue_.device().session(), queue_.device().index());
  all_gather(std::span<const ascend::hccl_root_info>(&root, 1), std::span(roots));
  return hccl_rank(queue_.device().session(), queue_.device().index(), roots[static_cast<std::size_t>(group.front())],
                   static_cast<int>(group.size()),
                   static_cast<int>(std::find(group.begin(), group.end(), rank_) - group.begin()), deadline_);
}

RLCORE_INLINE void hccl_rank::abort(const std::string& why) {
  broken_ = "rank " + std::to_string(rank_) + " aborted: " + why;
  aborted_ = true;
  leave();
  throw communication_error("rlcore: " + broken_);
}

RLCORE_INLINE void hccl_rank::grow(buffer& b, std::size_t size) {
  if (size <= b.size && b.data != nullptr) return;
  queue_.release(std::exchange(b.data, nullptr));
  b.size = 0;
  b.data = queue_.allocate(std::max<std::size_t>(size, 32));
  b.size = size;
}

RLCORE_INLINE void hccl_rank::exchange_v(const char* collective, element e, const std::byte* in,
                                         std::span<const std::size_t> in_counts, bool same, std::byte* out,
                                         std::span<const std::size_t> out_counts) {
  std::vector<std::uint64_t> lists[4];  // counts and offsets of in, then of out, in bytes
  std::uint64_t from = 0, to = 0;
  for (std::size_t r = 0; r < in_counts.size(); ++r) {
    lists[0].push_back(in_counts[r] * e.bytes);
    lists[1].push_back(from);
    lists[2].push_back(out_counts[r] * e.bytes);
    lists[3].push_back(to);
    if (!same) from += lists[0].back();
    to += lists[2].back();
  }
  const std::size_t in_bytes = same ? lists[0][0] : from;
  exchange(collective, in, in_bytes, out, to, [&](ascend::aclrtStream stream) {
    return comm().HcclAlltoAllV(in_.data, lists[0].data(), lists[1].data(), bytes, out_.data, lists[2].data(),
                                lists[3].data(), bytes, communicator_, stream);
  });
}

RLCORE_INLINE void hccl_rank::leave() noexcept {
  if (communicator_ == nullptr) return;
  queue_.device().leave("HcclCommDestroy",
                        [this](const ascend::calls& c) { return c.comm.HcclCommDestroy(communicator_); });
  communicator_ = nullptr;
}

}  // namespace parallel
RLCORE_END
#endif
