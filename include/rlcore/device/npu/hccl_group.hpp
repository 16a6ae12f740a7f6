// Group of NPUs that exchange their memory by HCCL: one NPU per rank, in one or several processes.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/device/device_group.hpp"
#include "rlcore/device/npu/abi/calls.hpp"
#include "rlcore/device/npu/provider.hpp"
#include "rlcore/device/npu/queue.hpp"

RLCORE_BEGIN
namespace ascend {

/// Whether the provider has every function of HCCL that is called here.
bool has_collectives(const session& s);

/// The root info of a new group: rank 0 creates these 4108 bytes, and every rank needs them unchanged. Throws
/// communication_error, and capability_error if the provider lacks functions.
std::vector<std::byte> hccl_root(const device_handle& device);

/// A rank's end of a group, on the stream of a queue. HCCL moves bytes; it adds nothing, so sums have the order of the
/// library. It checks little between ranks, so most errors of a rank appear as timeouts of the others.
class hccl_group final : public device_group {
 public:
  /// Returns when all ranks have joined. The queue must outlive the group. Throws std::invalid_argument for a rank out
  /// of range or bytes that are no root info, communication_error if HCCL fails.
  hccl_group(ascend::queue& q, const group_place& place);
  /// Ranks that still wait for this rank fail, at their deadline at the latest.
  ~hccl_group() override;

  void all_gather(const void* in, void* out, std::span<const std::size_t> bytes) override;
  void all_to_all(const void* in, std::span<const std::size_t> sent, void* out,
                  std::span<const std::size_t> received) override;

 private:
  static constexpr hccl_type byte_type = hccl_type::int8;

  const collective_calls& comm() const { return queue_->table().comm; }
  /// Enqueues a collective and waits for it, by a clock that does not count the time in which the process is stopped.
  void run(const char* function, const std::function<int(aclrtStream)>& call);
  /// AlltoAllV, with offsets into `in`.
  void exchange(const void* in, std::span<const std::size_t> sent, std::span<const std::uint64_t> offsets, void* out,
                std::span<const std::size_t> received);
  /// HCCL returns the function and the error code; the thread's last message gives the cause.
  std::string text(const char* call, int status) const {
    return failure_text(queue_->table(), domain::collectives, status, call);
  }
  [[noreturn]] void fail(const char* function, const std::string& why) {
    if (broken_.empty()) broken_ = why;
    throw communication_error("rlcore: " + std::string(function) + " of rank " + std::to_string(rank_) + " of " +
                              std::to_string(ranks_) + ", collective " + std::to_string(sequence_) +
                              " of its NPU's group, cannot end: " + why);
  }

  ascend::queue* queue_;
  int rank_;
  std::size_t ranks_;
  std::chrono::milliseconds deadline_;
  std::function<std::string()> failure_;
  HcclComm communicator_ = nullptr;
  std::uint64_t sequence_ = 0;
  std::string broken_;
};

}  // namespace ascend
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_DEVICE)
RLCORE_BEGIN
namespace ascend {

inline constexpr const char* without_hccl = "; rlcore.npu.hccl=False does without";

RLCORE_INLINE bool has_collectives(const session& s) {
  return missing_functions(s.table(), feature::collectives).empty();
}

RLCORE_INLINE std::vector<std::byte> hccl_root(const device_handle& device) {
  constexpr auto needed = feature::collectives;
  if (const std::string names = missing_functions(device.table(), needed); !names.empty())
    throw capability_error(lack_text(device.session()->provider(), names, needed), domain::collectives,
                           names.substr(0, names.find(',')));
  const auto guard = device.enter();
  hccl_root_info root;
  if (const int status = device.table().comm.HcclGetRootInfo(&root); status != 0)
    throw communication_error(
        "rlcore: no group of NPUs: " + failure_text(device.table(), domain::collectives, status, "HcclGetRootInfo") +
        without_hccl);
  const std::span<const std::byte> bytes = std::as_bytes(std::span(&root, 1));
  return {bytes.begin(), bytes.end()};
}

RLCORE_INLINE hccl_group::hccl_group(ascend::queue& q, const group_place& place)
    : queue_(&q),
      rank_(place.rank),
      ranks_(static_cast<std::size_t>(std::max(place.size, 0))),
      deadline_(place.deadline),
      failure_(place.failure) {
  hccl_root_info root;
  if (place.rank < 0 || place.rank >= place.size || place.root.size() != sizeof root)
    throw std::invalid_argument("rlcore: hccl: rank " + std::to_string(place.rank) + " of " +
                                std::to_string(place.size) + ", root info of " + std::to_string(place.root.size()) +
                                " bytes, expected " + std::to_string(sizeof root));
  std::memcpy(&root, place.root.data(), sizeof root);
  const auto guard = queue_->device().enter();
  const int status = comm().HcclCommInitRootInfo(static_cast<std::uint32_t>(ranks_), &root,
                                                 static_cast<std::uint32_t>(rank_), &communicator_);
  if (status != 0)
    throw communication_error("rlcore: rank " + std::to_string(rank_) +
                              " cannot join its NPU's group: " + text("HcclCommInitRootInfo", status) + without_hccl);
}

RLCORE_INLINE hccl_group::~hccl_group() {
  queue_->device().leave("HcclCommDestroy", [this](const calls& c) { return c.comm.HcclCommDestroy(communicator_); });
}

RLCORE_INLINE void hccl_group::all_gather(const void* in, void* out, std::span<const std::size_t> bytes) {
  const std::size_t own = bytes[static_cast<std::size_t>(rank_)];
  if (std::ranges::all_of(bytes, [&](std::size_t n) { return n == own; })) {
    if (own > 0)
      run("HcclAllGather", [&](aclrtStream stream) {
        return comm().HcclAllGather(const_cast<void*>(in), out, own, byte_type, communicator_, stream);
      });
    return;
  }
  const std::vector<std::size_t> sent(ranks_, own);
  const std::vector<std::uint64_t> offsets(ranks_, 0);
  const auto copy = queue_->take<std::byte>(static_cast<extent_t>(own));  // AlltoAllV does not work in place
  queue_->copy(copy.data(), in, own);
  exchange(copy.data(), sent, offsets, out, bytes);
}

RLCORE_INLINE void hccl_group::all_to_all(const void* in, std::span<const std::size_t> sent, void* out,
                                          std::span<const std::size_t> received) {
  std::vector<std::uint64_t> offsets(ranks_, 0);
  std::exclusive_scan(sent.begin(), sent.end(), offsets.begin(), std::uint64_t{0});
  exchange(in, sent, offsets, out, received);
}

RLCORE_INLINE void hccl_group::exchange(const void* in, std::span<const std::size_t> sent,
                                        std::span<const std::uint64_t> offsets, void* out,
                                        std::span<const std::size_t> received) {
  const std::vector<std::uint64_t> out_counts(sent.begin(), sent.end()), in_counts(received.begin(), received.end());
  std::vector<std::uint64_t> places(ranks_, 0);
  std::exclusive_scan(in_counts.begin(), in_counts.end(), places.begin(), std::uint64_t{0});
  // A rank that sends or receives nothing may have no memory for it; HCCL takes no null.
  const auto none = queue_->take<std::byte>(in == nullptr || out == nullptr ? 32 : 0);
  if (in == nullptr) in = none.data();
  if (out == nullptr) out = none.data();
  run("HcclAlltoAllV", [&](aclrtStream stream) {
    return comm().HcclAlltoAllV(in, out_counts.data(), offsets.data(), byte_type, out, in_counts.data(), places.data(),
                                byte_type, communicator_, stream);
  });
}

RLCORE_INLINE void hccl_group::run(const char* function, const std::function<int(aclrtStream)>& call) {
  ++sequence_;
  if (!broken_.empty()) fail(function, broken_);
  const auto guard = queue_->device().enter();
  if (const int status = call(queue_->stream().get()); status != 0) fail(function, text(function, status));
  using clock = std::chrono::steady_clock;
  const auto begin = clock::now();
  clock::duration slept{};
  while (!queue_->stream().idle()) {
    if (clock::now() - begin < std::chrono::milliseconds(1)) {
      std::this_thread::yield();
      continue;
    }
    int error = 0;
    if (!ignore(queue_->table(), comm().HcclGetCommAsyncError(communicator_, &error)) && error != 0) {
      if (queue_->stream().idle()) {  // this collective had finished before
        drop_messages(queue_->table());
        break;
      }
      fail(function, text(function, error));
    }
    if (failure_)
      if (const std::string why = failure_(); !why.empty()) fail(function, why);
    if (slept > deadline_)
      fail(function, "waited " + std::to_string(deadline_.count()) + " ms in vain for the other ranks");
    const auto pause =
        std::clamp<clock::duration>(slept / 8, std::chrono::microseconds(125), std::chrono::milliseconds(5));
    std::this_thread::sleep_for(pause);
    slept += pause;
  }
  try {
    queue_->wait();
  } catch (const npu_error& e) {
    fail(function, e.what());
  }
}

}  // namespace ascend
RLCORE_END
#endif
