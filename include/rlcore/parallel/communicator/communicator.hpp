// What parallel code asks of an engine: to move bytes between ranks. Arithmetic is above it, in reduction.hpp, so that
// its order is ours and the same on every engine.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <string>
#include <type_traits>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace parallel {

/// What may travel: bytes that mean the same in every rank.
template <class T>
concept wire = std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>;

/// One rank's end of a group of ranks. All ranks call the same collectives in the same order with fitting sizes; a rank
/// that does not is reported, as far as the engine can, by communication_error in every rank. Calls return when the
/// result is there and the input may be reused. Sizes that do not fit inside one rank are std::invalid_argument.
///
/// - broadcast(data, root): data of rank root to all.
/// - all_gather(in, out): in, the same size n everywhere, to out[r * n .. ] of all ranks; in may be that part of out.
/// - all_gather_v(in, out, counts): the same for counts[r] elements of rank r, one after the other.
/// - all_to_all(in, out): in[r * n .. ] goes to rank r, and lands in out[own rank * n ..] there.
/// - all_to_all_v(in, in_counts, out, out_counts): the same with in_counts[r] elements for rank r, one after the other,
///   and out_counts[r] elements from rank r. in and out must not overlap.
/// - shift(in, out, k): in goes to rank + k, out comes from rank - k, around the ring; the same size everywhere. in and
///   out must not overlap.
/// - split(color, key): the group of the ranks that name the same color, ordered by key, then by rank. A group of its
///   own, by value or by std::unique_ptr, to be used while this one lives.
/// - abort(why): ends the work of all ranks with communication_error.
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
