// The communicator concept (collectives that move bytes between ranks), collectives of typed values, and the
// communicator of one rank. Arithmetic is above it, in reduction.hpp: the library fixes its order on every engine.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"

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
/// - send(data, to, most, patience): copies data for rank `to`, another rank, and returns. Waits only while `most`
///   messages of this pair are under way, with the timeout of receive(). Messages of a pair arrive in the order of the
///   calls.
/// - receive(data, from, patience): waits for the next message of rank `from`, of the same type and size. The timeout
///   is `patience` times that of a collective.
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
  c.send(in, root);
  c.receive(out, root);
  c.split(root, root);
  c.abort(why);
};

/// Unless it gives another limit, a send waits while so many messages from its rank to the receiver are under way.
inline constexpr std::size_t most_messages = 128;

/// The calls of the concept communicator, and the states before and after them.
enum class collective : std::uint8_t {
  barrier,
  broadcast,
  all_gather,
  all_gather_v,
  all_to_all,
  all_to_all_v,
  shift,
  send,
  receive,
  split,
  start,  ///< no collective: engine startup, the ranks connect
  end     ///< no collective: the rank has finished
};
inline constexpr std::size_t collective_kinds = 12;

/// The name used in messages.
constexpr const char* name_of(collective c) noexcept {
  constexpr const char* names[collective_kinds] = {"barrier",    "broadcast",    "all_gather", "all_gather_v",
                                                   "all_to_all", "all_to_all_v", "shift",      "send",
                                                   "receive",    "split",        "the start",  "the end"};
  const auto at = static_cast<std::size_t>(c);
  return at < collective_kinds ? names[at] : "nothing known";
}

/// Is it a message between two ranks, which other ranks need not count with the collectives?
constexpr bool is_message(collective c) noexcept { return c == collective::send || c == collective::receive; }

/// What the number `root` of a call means: "root ", "by ", "to " or "from ".
constexpr const char* word_of_root(collective c) noexcept {
  return c == collective::shift ? "by " : c == collective::send ? "to " : c == collective::receive ? "from " : "root ";
}

/// The part of the element type that all ranks must agree on.
struct element {
  std::size_t bytes = 0;
  char kind = 0;  ///< 'f' floating point, 'i' signed, 'u' unsigned, 'x' other
};
/// The size and kind of T.
template <class T>
constexpr element element_of() noexcept {
  if constexpr (std::is_floating_point_v<T>)
    return {sizeof(T), 'f'};
  else if constexpr (std::is_integral_v<T>)
    return {sizeof(T), std::is_signed_v<T> ? 'i' : 'u'};
  else
    return {sizeof(T), 'x'};
}

/// A collective with the arguments that all ranks must agree on.
struct collective_call {
  collective operation = collective::barrier;
  element of{};
  std::size_t count = 0;  ///< equal in all ranks; 0 where sizes differ by rank
  int root = 0;           ///< the root of a broadcast, the distance of a shift, the other rank of a message

  /// Is it the same call in both ranks? All fields must be equal.
  bool fits(const collective_call& other) const noexcept {
    return operation == other.operation && of.bytes == other.of.bytes && of.kind == other.of.kind &&
           count == other.count && root == other.root;
  }
  std::string text() const {
    std::string s = name_of(operation);
    if (of.bytes != 0)
      s += " (" + std::to_string(count) + " elements of " + std::to_string(of.bytes) + " bytes, kind '" + of.kind +
           "', " + word_of_root(operation) + std::to_string(root) + ")";
    return s;
  }
};

/// Throws std::invalid_argument unless `found` equals `expected`.
inline void check_size(const char* collective, const char* name, std::size_t found, std::size_t expected) {
  if (found != expected)
    throw std::invalid_argument(std::string("rlcore: ") + collective + ": " + name + " has " + std::to_string(found) +
                                " elements, expected " + std::to_string(expected));
}

/// Throws std::invalid_argument unless root is one of `size` ranks.
inline void check_root(const char* collective, int root, int size) {
  if (root < 0 || root >= size)
    throw std::invalid_argument(std::string("rlcore: ") + collective + ": root " + std::to_string(root) +
                                ", expected 0 .. " + std::to_string(size - 1));
}

/// Throws std::invalid_argument unless `peer` is another of `size` ranks than `rank`.
inline void check_peer(const char* call, int peer, int rank, int size) {
  check_root(call, peer, size);
  if (peer == rank)
    throw std::invalid_argument(std::string("rlcore: ") + call + ": rank " + std::to_string(rank) +
                                " and itself, expected another rank");
}

/// Throws std::invalid_argument unless there is one count per rank and they add up to `elements`.
inline void check_counts(const char* collective, const char* name, std::span<const std::size_t> counts, int size,
                         std::size_t elements) {
  check_size(collective, "the list of counts", counts.size(), static_cast<std::size_t>(size));
  check_size(collective, name, elements, std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
}

/// A rank's arguments of split(): its group by color and its order in the group by key.
struct requested_split {
  int color = 0, key = 0;
};

/// The ranks with `color`, ordered by key, then by rank.
inline std::vector<int> split_group(std::span<const requested_split> wishes, int color) {
  std::vector<int> group;
  for (std::size_t r = 0; r < wishes.size(); ++r)
    if (wishes[r].color == color) group.push_back(static_cast<int>(r));
  std::stable_sort(group.begin(), group.end(), [&](int a, int b) {
    return wishes[static_cast<std::size_t>(a)].key < wishes[static_cast<std::size_t>(b)].key;
  });
  return group;
}

/// Timeout or lost rank: restart from the last checkpoint (EX_TEMPFAIL).
inline constexpr int exit_stuck = 75;

/// CRTP base of an engine: checks sizes, reduces the element type to the part that ranks compare, and calls the
/// engine's
///
///   broadcast_bytes(element, data, count, root)               all_gather_bytes(element, in, out, count)
///   all_gather_v_bytes(element, in, out, counts)              all_to_all_bytes(element, in, out, count per rank)
///   all_to_all_v_bytes(element, in, in_counts, out, counts)   shift_bytes(element, in, out, count, distance)
///   send_bytes(element, data, count, to, most, patience)      receive_bytes(element, data, count, from, patience)
///
/// with counts in elements.
template <class Engine>
class typed_collectives {
 public:
  /// As communicator's. Throws std::invalid_argument if there is no rank `root`.
  template <wire T>
  void broadcast(std::span<T> data, int root) {
    check_root("broadcast", root, engine().size());
    engine().broadcast_bytes(element_of<T>(), bytes(data), data.size(), root);
  }
  /// As communicator's. Throws std::invalid_argument unless out has room for size() times `in`.
  template <wire T>
  void all_gather(std::span<const T> in, std::span<T> out) {
    check_size("all_gather", "out", out.size(), in.size() * ranks());
    engine().all_gather_bytes(element_of<T>(), bytes(in), bytes(out), in.size());
  }
  /// As communicator's. Throws std::invalid_argument unless the counts fit `in`, `out` and the ranks.
  template <wire T>
  void all_gather_v(std::span<const T> in, std::span<T> out, std::span<const std::size_t> counts) {
    check_counts("all_gather_v", "out", counts, engine().size(), out.size());
    check_size("all_gather_v", "in", in.size(), counts[static_cast<std::size_t>(engine().rank())]);
    engine().all_gather_v_bytes(element_of<T>(), bytes(in), bytes(out), counts);
  }
  /// As communicator's. Throws std::invalid_argument unless `in` is a multiple of size() and `out` as long as `in`.
  template <wire T>
  void all_to_all(std::span<const T> in, std::span<T> out) {
    const std::size_t n = in.size() / ranks();
    check_size("all_to_all", "in", in.size(), n * ranks());
    check_size("all_to_all", "out", out.size(), in.size());
    engine().all_to_all_bytes(element_of<T>(), bytes(in), bytes(out), n);
  }
  /// As communicator's. Throws std::invalid_argument unless both lists of counts fit their data and the ranks.
  template <wire T>
  void all_to_all_v(std::span<const T> in, std::span<const std::size_t> in_counts, std::span<T> out,
                    std::span<const std::size_t> out_counts) {
    check_counts("all_to_all_v", "in", in_counts, engine().size(), in.size());
    check_counts("all_to_all_v", "out", out_counts, engine().size(), out.size());
    engine().all_to_all_v_bytes(element_of<T>(), bytes(in), in_counts, bytes(out), out_counts);
  }
  /// As communicator's. Throws std::invalid_argument unless `out` is as long as `in`.
  template <wire T>
  void shift(std::span<const T> in, std::span<T> out, int distance) {
    check_size("shift", "out", out.size(), in.size());
    engine().shift_bytes(element_of<T>(), bytes(in), bytes(out), in.size(), distance);
  }

  /// As communicator's. Throws std::invalid_argument unless `to` is another rank.
  template <wire T>
  void send(std::span<const T> data, int to, std::size_t most = most_messages, int patience = 1) {
    check_peer("send", to, engine().rank(), engine().size());
    engine().send_bytes(element_of<T>(), bytes(data), data.size(), to, most, patience);
  }
  /// As communicator's. Throws std::invalid_argument unless `from` is another rank, and communication_error for a
  /// message of another type or size.
  template <wire T>
  void receive(std::span<T> data, int from, int patience = 1) {
    check_peer("receive", from, engine().rank(), engine().size());
    engine().receive_bytes(element_of<T>(), bytes(data), data.size(), from, patience);
  }

 private:
  Engine& engine() noexcept { return static_cast<Engine&>(*this); }
  std::size_t ranks() noexcept { return static_cast<std::size_t>(engine().size()); }
  template <class T>
  static std::byte* bytes(std::span<T> s) noexcept {
    return static_cast<std::byte*>(static_cast<void*>(s.data()));
  }
  template <class T>
  static const std::byte* bytes(std::span<const T> s) noexcept {
    return static_cast<const std::byte*>(static_cast<const void*>(s.data()));
  }
};

/// The rank that is `distance` ranks after this one around the ring of `size`.
constexpr int rank_after(int rank, int distance, int size) noexcept {
  return static_cast<int>(((static_cast<long long>(rank) + distance) % size + size) % size);
}

/// Empty; every collective is a copy or nothing, and loops over ranks vanish because size() is a constant.
struct alone : typed_collectives<alone> {
  static constexpr const char* engine_name = "alone";
  static constexpr int rank() noexcept { return 0; }
  static constexpr int size() noexcept { return 1; }
  static constexpr void barrier() noexcept {}
  /// Returns the single-rank group for any color.
  static constexpr alone split(int, int) noexcept { return {}; }
  /// Throws communication_error.
  [[noreturn]] static void abort(const std::string& why) { throw communication_error("rlcore: aborted: " + why); }

  /// Does nothing.
  static void broadcast_bytes(element, std::byte*, std::size_t, int) noexcept {}
  /// Copies in to out.
  static void all_gather_bytes(element e, const std::byte* in, std::byte* out, std::size_t count) noexcept {
    if (in != out && count != 0) std::memcpy(out, in, count * e.bytes);
  }
  /// Copies in to out.
  static void all_gather_v_bytes(element e, const std::byte* in, std::byte* out,
                                 std::span<const std::size_t> counts) noexcept {
    all_gather_bytes(e, in, out, counts[0]);
  }
  /// Copies in to out.
  static void all_to_all_bytes(element e, const std::byte* in, std::byte* out, std::size_t count) noexcept {
    all_gather_bytes(e, in, out, count);
  }
  /// Copies in to out. Throws std::invalid_argument if the two counts differ.
  static void all_to_all_v_bytes(element e, const std::byte* in, std::span<const std::size_t> counts, std::byte* out,
                                 std::span<const std::size_t> out_counts) {
    check_size("all_to_all_v", "out", out_counts[0], counts[0]);
    all_gather_bytes(e, in, out, counts[0]);
  }
  /// Copies in to out for any distance.
  static void shift_bytes(element e, const std::byte* in, std::byte* out, std::size_t count, int) noexcept {
    all_gather_bytes(e, in, out, count);
  }
  /// Never called: there is no other rank.
  static void send_bytes(element, const std::byte*, std::size_t, int, std::size_t, int) noexcept {}
  /// Never called: there is no other rank.
  static void receive_bytes(element, std::byte*, std::size_t, int, int) noexcept {}
};

static_assert(communicator<alone> && std::is_empty_v<alone>);

}  // namespace parallel
RLCORE_END
