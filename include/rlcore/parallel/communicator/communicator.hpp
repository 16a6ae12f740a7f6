// The communicator concept: collectives that move bytes between ranks. Arithmetic is above it, in reduction.hpp, so
// that the library fixes its order on every engine.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <string>
#include <type_traits>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace parallel {

/// Types that may be sent: their bytes mean the same in every rank.
template <class T>
concept wire = std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>;

/// One rank's end of a group of ranks. All ranks call the same collectives in the same order with matching sizes;
/// engines report mismatches, as far as they can detect them, by communication_error in every rank. Calls return when
/// the result is available and the input may be reused. Sizes that do not match within one rank throw
/// std::invalid_argument.
///
/// - broadcast(data, root): sends data of rank root to all ranks.
/// - all_gather(in, out): copies in of rank r, the same size n everywhere, to out[r * n .. ] of all ranks; in may alias
///   that part of out.
/// - all_gather_v(in, out, counts): the same with counts[r] elements of rank r, concatenated.
/// - all_to_all(in, out): sends in[r * n .. ] to out[own rank * n ..] of rank r.
/// - all_to_all_v(in, in_counts, out, out_counts): the same with in_counts[r] elements for rank r and out_counts[r]
///   elements from rank r, concatenated. in and out must not overlap.
/// - shift(in, out, k): sends in to rank + k and receives out from rank - k, around the ring; the same size everywhere.
///   in and out must not overlap.
/// - split(color, key): returns the group of the ranks with the same color, ordered by key, then by rank, by value or
///   by std::unique_ptr. This group must outlive it.
/// - abort(why): aborts all ranks with communication_error.
template <class C>
concept communicator = requires(C& c, std::span<const float> in, std::span<float> out,
                                std::span<const std::size_t> counts, int root, const std::string& why) {
  { c.rank() } -> std::same_as<int>;
  { c.size() } -> std::same_as<int>;
  c.barrier();
  c.broadcast(out, root);
  c.all_gather(in, out);
  c.all_gather_v(in, out, counts);
  c.all_to_all(in, out);
  c.all_to_all_v(in, counts, out, counts);
  c.shift(in, out, root);
  c.split(root, root);
  c.abort(why);
};

}  // namespace parallel
RLCORE_END
