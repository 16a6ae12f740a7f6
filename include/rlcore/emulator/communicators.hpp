// Communicators of the emulated HCCL, and the order in which it sums.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/dtype.hpp"
#include "rlcore/core/random.hpp"
#include "rlcore/device/npu/abi/types.hpp"
#include "rlcore/emulator/machine.hpp"
#include "rlcore/emulator/rank_group.hpp"

RLCORE_BEGIN
namespace ascend::emulated {

/// The bytes of an element; 0 for a type that HCCL cannot move.
constexpr std::size_t bytes_of(hccl_type t) {
  switch (t) {
    case hccl_type::int8:
    case hccl_type::uint8:
      return 1;
    case hccl_type::int16:
    case hccl_type::uint16:
    case hccl_type::float16:
    case hccl_type::bfloat16:
      return 2;
    case hccl_type::int32:
    case hccl_type::uint32:
    case hccl_type::float32:
      return 4;
    case hccl_type::int64:
    case hccl_type::uint64:
    case hccl_type::float64:
      return 8;
  }
  return 0;
}

/// Whether AllReduce and ReduceScatter of the A2 and A3 series support the type: not unsigned types and float64, and no
/// product of int16 or bfloat16.
constexpr bool reducible(hccl_type t, hccl_reduction op) {
  switch (t) {
    case hccl_type::int16:
    case hccl_type::bfloat16:
      return op != hccl_reduction::product;
    case hccl_type::int8:
    case hccl_type::int32:
    case hccl_type::int64:
    case hccl_type::float16:
    case hccl_type::float32:
      return true;
    default:
      return false;
  }
}

/// The order and the precision of a reduction over ranks.
struct rank_order {
  bool deterministic = true;  ///< else in an order drawn from the key for each part of the ring
  bool exact = false;         ///< in double, rounded once
  random_key key;
  std::uint32_t number = 0;  ///< of the collective, a coordinate of the draw
};

/// Reduces one element of two ranks in the element's type. Integers wrap, floats round to nearest even.
template <class T>
T reduce_pair(T a, T b, hccl_reduction op) {
  using wide = std::conditional_t<std::is_integral_v<T>,
                                  std::make_unsigned_t<std::conditional_t<std::is_integral_v<T>, T, int>>, float>;
  const auto as_value = [](T x) {
    if constexpr (std::is_integral_v<T>)
      return x;
    else
      return static_cast<float>(x);
  };
  switch (op) {
    case hccl_reduction::sum:
      return static_cast<T>(static_cast<wide>(static_cast<wide>(a) + static_cast<wide>(b)));
    case hccl_reduction::product:
      return static_cast<T>(static_cast<wide>(std::uint64_t{1} * static_cast<wide>(a) * static_cast<wide>(b)));
    case hccl_reduction::maximum:
      return as_value(a) < as_value(b) ? b : a;
    default:
      return as_value(b) < as_value(a) ? b : a;
  }
}

/// Reduces in[rank][first .. first + size) into out[0 .. size). The ring has one part for each rank; part p starts
/// after rank p and ends at rank p.
template <class T>
void reduce_part(std::span<const std::byte* const> in, std::size_t first, std::size_t size, std::size_t part,
                 hccl_reduction op, const rank_order& mode, T* out) {
  const std::size_t ranks = in.size();
  std::vector<std::size_t> order(ranks);
  for (std::size_t i = 0; i < ranks; ++i) order[i] = (part + 1 + i) % ranks;
  if (!mode.deterministic)
    for (std::size_t i = ranks; i > 1; --i)
      std::swap(order[i - 1], order[mode.key.below(static_cast<std::uint32_t>(i), mode.number,
                                                   static_cast<std::uint32_t>(part), static_cast<std::uint32_t>(i))]);
  const auto at = [&](std::size_t rank, std::size_t i) {
    T x;
    std::memcpy(&x, in[rank] + (first + i) * sizeof(T), sizeof(T));
    return x;
  };
  for (std::size_t i = 0; i < size; ++i) {
    T total = at(order[0], i);
    if constexpr (!std::is_integral_v<T>) {
      if (mode.exact && (op == hccl_reduction::sum || op == hccl_reduction::product)) {
        double exact = static_cast<double>(total);
        for (std::size_t r = 1; r < ranks; ++r) {
          const auto x = static_cast<double>(at(order[r], i));
          exact = op == hccl_reduction::sum ? exact + x : exact * x;
        }
        out[i] = static_cast<T>(static_cast<float>(exact));
        continue;
      }
    }
    for (std::size_t r = 1; r < ranks; ++r) total = reduce_pair(total, at(order[r], i), op);
    out[i] = total;
  }
}

/// Reduces all parts in order: `count` elements.
template <class T>
void reduce_all(std::span<const std::byte* const> in, std::size_t count, hccl_reduction op, const rank_order& mode,
                std::byte* out) {
  const std::size_t ranks = in.size(), each = (count + ranks - 1) / ranks;
  std::vector<T> part(each);
  for (std::size_t p = 0; p < ranks; ++p) {
    const std::size_t first = std::min(p * each, count), size = std::min(each, count - first);
    reduce_part(in, first, size, p, op, mode, part.data());
    if (size > 0) std::memcpy(out + first * sizeof(T), part.data(), size * sizeof(T));
  }
}

/// The reduction of `count` elements of each rank.
std::vector<std::byte> reduce_ranks(std::span<const std::byte* const> in, hccl_type type, std::size_t count,
                                    hccl_reduction op, const rank_order& mode);

/// One rank's communicator.
struct communicator_state {
  std::shared_ptr<rank_group> group;
  std::uint32_t rank = 0;
  int device = 0;
  std::uint64_t collectives = 0;  ///< issued; one thread issues
};

/// All live communicators, and the groups whose ranks have not all joined.
struct communicator_table {
  std::mutex mutex;
  std::map<std::uint64_t, std::shared_ptr<rank_group>> forming;  ///< by the number in the root's token
  std::map<HcclComm, std::shared_ptr<communicator_state>> alive;
  std::uint64_t tokens = 0, handles = 0;

  static communicator_table& instance() {
    static auto* const one = new communicator_table;
    return *one;
  }
  /// Registers a rank's communicator; returns its handle, which is no valid address and is never reused.
  HcclComm add(std::shared_ptr<communicator_state> c);
  /// The communicator of a handle; null if the handle is invalid or destroyed.
  std::shared_ptr<communicator_state> find(HcclComm handle) {
    const std::lock_guard<std::mutex> lock(mutex);
    const auto at = alive.find(handle);
    return at == alive.end() ? nullptr : at->second;
  }
};

/// How long a rank waits for another, from the machine's settings.
inline std::chrono::milliseconds collective_deadline() {
  return std::chrono::milliseconds(machine_settings().collective_milliseconds);
}

/// Whether this call sums in a deterministic order: set by the context or by HCCL_DETERMINISTIC, or always on (A3).
bool deterministic_sums();

/// A call of a collective on the host: finds the communicator, runs the common checks, and enqueues.
struct collective_call {
  /// Checks that the communicator is alive and has not failed, the thread's device, and that no buffer is null.
  collective_call(const char* function, HcclComm handle, std::initializer_list<const void*> buffers = {});

  /// Sets the result to `code` and the error text to `why`.
  void refuse(int code, const std::string& why) { result = fail(code, std::string(name) + ": " + why); }
  /// Refuses types that HCCL does not support.
  void moves(hccl_type type) {
    if (result == 0 && bytes_of(type) == 0)
      refuse(hccl_errors::not_supported, "type " + std::to_string(static_cast<int>(type)) + " cannot be moved");
  }
  /// Refuses a rank beyond the last one.
  void ranked(std::uint32_t other) {
    if (result == 0 && other >= state->group->size())
      refuse(hccl_errors::parameter, "rank " + std::to_string(other) + " of " + std::to_string(state->group->size()));
  }

  /// run(state, number of this collective) on the stream's thread; messages between two ranks are not counted.
  template <class F>
  HcclResult enqueue(aclrtStream stream, F run, bool counted = true) {
    if (result != 0) return result;
    const std::uint64_t number = state->collectives;
    state->group->issued(state->rank);
    // Runs when the task ends or is dropped.
    const std::shared_ptr<void> end(nullptr, [s = state](void*) { s->group->finished(s->rank); });
    const int code =
        emulated::enqueue(stream, name, [run = std::move(run), s = state, number, end] { run(*s, number); });
    if (code != 0) return hccl_errors::runtime;
    if (counted) ++state->collectives;
    return 0;
  }

  const char* name;
  std::shared_ptr<communicator_state> state;
  HcclResult result = 0;
};

}  // namespace ascend::emulated
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_EMULATOR)
RLCORE_BEGIN
namespace ascend::emulated {

RLCORE_INLINE std::vector<std::byte> reduce_ranks(std::span<const std::byte* const> in, hccl_type type,
                                                  std::size_t count, hccl_reduction op, const rank_order& mode) {
  std::vector<std::byte> out(count * bytes_of(type));
  switch (type) {
    case hccl_type::int8:
      reduce_all<std::int8_t>(in, count, op, mode, out.data());
      break;
    case hccl_type::int16:
      reduce_all<std::int16_t>(in, count, op, mode, out.data());
      break;
    case hccl_type::int32:
      reduce_all<std::int32_t>(in, count, op, mode, out.data());
      break;
    case hccl_type::int64:
      reduce_all<std::int64_t>(in, count, op, mode, out.data());
      break;
    case hccl_type::float16:
      reduce_all<f16>(in, count, op, mode, out.data());
      break;
    case hccl_type::bfloat16:
      reduce_all<bf16>(in, count, op, mode, out.data());
      break;
    default:
      reduce_all<float>(in, count, op, mode, out.data());
  }
  return out;
}

RLCORE_INLINE HcclComm communicator_table::add(std::shared_ptr<communicator_state> c) {
  const std::lock_guard<std::mutex> lock(mutex);
  const auto handle = reinterpret_cast<HcclComm>(std::uintptr_t{0x63} << 56 | ++handles << 4);  // no valid address
  alive.emplace(handle, std::move(c));
  born(host_object::communicator);
  return handle;
}

RLCORE_INLINE bool deterministic_sums() {
  const char* asked = std::getenv("HCCL_DETERMINISTIC");
  const std::string_view value = asked == nullptr ? "" : asked;
  return deterministic() || value == "true" || value == "TRUE" || value == "strict" || value == "STRICT" ||
         machine_settings().soc.rfind("Ascend910_93", 0) == 0;
}

RLCORE_INLINE collective_call::collective_call(const char* function, HcclComm handle,
                                               std::initializer_list<const void*> buffers)
    : name(function) {
  if (handle == nullptr)
    refuse(hccl_errors::pointer, "the communicator is null");
  else if (state = communicator_table::instance().find(handle); !state)
    refuse(hccl_errors::parameter, "not a communicator, or destroyed already");
  else if (state->group->failed() != 0)
    refuse(state->group->failed(), state->group->why());
  else if (current_device() != state->device)
    refuse(hccl_errors::runtime, "the communicator belongs to device " + std::to_string(state->device) +
                                     ", the thread's device is " + std::to_string(current_device()));
  for (const void* buffer : buffers)
    if (result == 0 && buffer == nullptr) refuse(hccl_errors::pointer, "a buffer is null");
}

}  // namespace ascend::emulated
RLCORE_END
#endif
