// What every engine of parallel::communicator has to do.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <stdexcept>
#include <vector>

#include "rlcore/parallel/communicator/communicator.hpp"

namespace communicator_checks {

using rlcore::parallel::communicator;
using std::size_t;

template <class T>
std::span<const T> read(const std::vector<T>& v) {
  return v;
}

/// What rank r holds at i, different for all (r, i).
inline std::int64_t mark(int r, size_t i) { return 1000 * r + static_cast<std::int64_t>(i); }
inline std::vector<std::int64_t> marks(int r, size_t n) {
  std::vector<std::int64_t> v(n);
  for (size_t i = 0; i < n; ++i) v[i] = mark(r, i);
  return v;
}

/// The definitions of the concept's comment, for any engine.
template <communicator C>
void check_collectives(C& c) {
  const auto size = static_cast<size_t>(c.size());
  for (const size_t n : std::vector<size_t>{0, 1, 5, 1000}) {
    const auto mine = marks(c.rank(), n);
    for (int root = 0; root < c.size(); ++root) {
      auto data = mine;
      c.broadcast(std::span(data), root);
      EXPECT_EQ(data, marks(root, n));
    }
    std::vector<std::int64_t> all(size * n, -1);
    c.all_gather(read(mine), std::span(all));
    for (size_t r = 0; r < size; ++r)
      for (size_t i = 0; i < n; ++i) ASSERT_EQ(all[r * n + i], mark(static_cast<int>(r), i));

    std::vector<std::int64_t> in_place(size * n, -1);
    const auto own = std::span(in_place).subspan(static_cast<size_t>(c.rank()) * n, n);
    std::copy(mine.begin(), mine.end(), own.begin());
    c.all_gather(std::span<const std::int64_t>(own), std::span(in_place));
    EXPECT_EQ(in_place, all);

    const auto sent = marks(c.rank(), size * n);
    std::vector<std::int64_t> got(size * n, -1);
    c.all_to_all(read(sent), std::span(got));
    for (size_t r = 0; r < size; ++r)
      for (size_t i = 0; i < n; ++i)
        ASSERT_EQ(got[r * n + i], mark(static_cast<int>(r), static_cast<size_t>(c.rank()) * n + i));
    c.barrier();
  }
}

/// Rank r gives r + 1 elements, and sends (r + k) % 3 elements to rank k.
template <communicator C>
void check_uneven_collectives(C& c) {
  const auto size = static_cast<size_t>(c.size()), self = static_cast<size_t>(c.rank());
  std::vector<size_t> counts(size), to(size), from(size);
  std::iota(counts.begin(), counts.end(), size_t{1});
  const auto mine = marks(c.rank(), self + 1);
  std::vector<std::int64_t> all(std::accumulate(counts.begin(), counts.end(), size_t{0}));
  c.all_gather_v(read(mine), std::span(all), read(counts));
  size_t at = 0;
  for (size_t r = 0; r < size; ++r)
    for (size_t i = 0; i < r + 1; ++i) ASSERT_EQ(all[at++], mark(static_cast<int>(r), i));

  for (size_t k = 0; k < size; ++k) to[k] = from[k] = (self + k) % 3;
  const auto sent = marks(c.rank(), std::accumulate(to.begin(), to.end(), size_t{0}));
  std::vector<std::int64_t> got(sent.size());
  c.all_to_all_v(read(sent), read(to), std::span(got), read(from));
  at = 0;
  for (size_t r = 0; r < size; ++r) {
    size_t first = 0;
    for (size_t k = 0; k < self; ++k) first += (r + k) % 3;
    for (size_t i = 0; i < from[r]; ++i) ASSERT_EQ(got[at++], mark(static_cast<int>(r), first + i));
  }
}

template <communicator C>
void check_shifts(C& c) {
  for (const size_t n : std::vector<size_t>{0, 1, 7, 500})
    for (int k = -c.size() - 1; k <= 2 * c.size(); ++k) {
      const auto mine = marks(c.rank(), n);
      std::vector<std::int64_t> got(n, -1);
      c.shift(read(mine), std::span(got), k);
      EXPECT_EQ(got, marks(((c.rank() - k) % c.size() + c.size()) % c.size(), n)) << "by " << k;
    }
}

/// Every rank sends to every other rank before it receives anything; messages of a pair keep their order, whatever
/// their sizes and types.
template <communicator C>
void check_messages(C& c) {
  constexpr int each = 20;
  const auto size_of = [](int from, int to, int k) { return static_cast<size_t>((from + 3 * to + 7 * k) % 5 * 40); };
  for (int k = 0; k < each; ++k)
    for (int to = 0; to < c.size(); ++to) {
      if (to == c.rank()) continue;
      const auto numbers = marks(c.rank() + 10 * k, size_of(c.rank(), to, k));
      c.send(read(numbers), to);
      const std::vector<float> last{static_cast<float>(k) + 0.5F};
      c.send(read(last), to);
    }
  for (int from = c.size() - 1; from >= 0; --from) {
    if (from == c.rank()) continue;
    for (int k = 0; k < each; ++k) {
      std::vector<std::int64_t> got(size_of(from, c.rank(), k), -1);
      c.receive(std::span(got), from);
      EXPECT_EQ(got, marks(from + 10 * k, got.size())) << "message " << k << " from " << from;
      std::vector<float> last(1);
      c.receive(std::span(last), from, 3);
      EXPECT_EQ(last[0], static_cast<float>(k) + 0.5F);
    }
  }
  const std::vector<int> mine(3);
  EXPECT_THROW(c.send(read(mine), c.rank()), std::invalid_argument);
  EXPECT_THROW(c.send(read(mine), c.size()), std::invalid_argument);
  c.barrier();
}

/// The group inside a std::unique_ptr, or the group itself.
template <class G>
auto& group_in(G& g) {
  if constexpr (requires { *g; })
    return *g;
  else
    return g;
}

/// Groups of ranks with equal remainders, backwards; and a group of them split again.
template <communicator C>
void check_splits(C& c, bool collectives = true) {
  for (const int parts : {1, 2, 3}) {
    const int color = c.rank() % parts;
    auto made = c.split(color, -c.rank());
    auto& group = group_in(made);
    const int members = (c.size() - color + parts - 1) / parts;
    ASSERT_EQ(group.size(), members);
    ASSERT_EQ(group.rank(), members - 1 - c.rank() / parts);
    if (collectives) {
      check_collectives(group);
      check_uneven_collectives(group);
      check_shifts(group);
      check_messages(group);
    }
    const int self = c.rank();
    std::vector<int> numbers(static_cast<size_t>(members));
    group.all_gather(std::span<const int>(&self, 1), std::span(numbers));
    for (int i = 0; i < members; ++i) EXPECT_EQ(numbers[static_cast<size_t>(i)], color + parts * (members - 1 - i));

    auto made_of_it = group.split(group.rank() / 2, 7);  // equal keys: the order of the ranks
    auto& pair = group_in(made_of_it);
    ASSERT_EQ(pair.rank(), group.rank() % 2);
    std::vector<int> both(static_cast<size_t>(pair.size()));
    pair.all_gather(std::span<const int>(&self, 1), std::span(both));
    for (int i = 0; i < pair.size(); ++i)
      EXPECT_EQ(both[static_cast<size_t>(i)], numbers[static_cast<size_t>(group.rank() / 2 * 2 + i)]);
    c.barrier();
  }
}

}  // namespace communicator_checks
