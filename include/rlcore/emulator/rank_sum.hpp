// Ring all-reduce arithmetic: values are rounded at every hop.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/dtype.hpp"
#include "rlcore/core/random.hpp"
#include "rlcore/device/npu/abi/types.hpp"

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

}  // namespace ascend::emulated
RLCORE_END
#endif
