// What every engine of parallel::communicator has to do.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
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

}  // namespace communicator_checks
