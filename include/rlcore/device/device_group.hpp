// Collectives of several devices on their own memory, without the host: NPUs by HCCL.
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN

/// A rank's place in a group that is to be formed.
struct group_place {
  std::span<const std::byte> root;  ///< what the device of rank 0 made for this group
  int rank = 0, size = 1;
  std::chrono::milliseconds deadline{};  ///< how long a call waits for the other ranks
  /// Why another rank has failed, or nothing: asked while a call waits for it.
  std::function<std::string()> failure = {};
};

/// One device's end of a group. All devices of the group make the same calls in the same order, with sizes in bytes
/// that fit. `in` and `out` are memory of the device. A call comes after the device's earlier operations and returns
/// when its result is there. Throws communication_error if the other ranks do not come, or if one has failed.
class device_group {
 public:
  device_group() = default;
  device_group(const device_group&) = delete;
  device_group& operator=(const device_group&) = delete;
  virtual ~device_group() = default;

  /// out = the bytes[r] bytes of every rank r, in rank order. `in` may be this rank's part of `out`.
  virtual void all_gather(const void* in, void* out, std::span<const std::size_t> bytes) = 0;
  /// Sends sent[r] bytes of `in` to rank r and receives received[r] bytes from it, both in rank order. They must not
  /// overlap.
  virtual void all_to_all(const void* in, std::span<const std::size_t> sent, void* out,
                          std::span<const std::size_t> received) = 0;
};

/// A device that may form groups, if forms_groups(): group_root() on rank 0 makes what join_group() needs on every
/// rank. A device outlives its groups.
template <class D>
concept grouped_device = requires(D& d, const D& c, const group_place& place) {
  { c.forms_groups() } -> std::same_as<bool>;
  { d.group_root() } -> std::same_as<std::vector<std::byte>>;
  { d.join_group(place) } -> std::same_as<std::unique_ptr<device_group>>;
};

RLCORE_END
