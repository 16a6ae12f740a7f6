#include "rlcore/parallel/communicator/communicator.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "rlcore/core/dtype.hpp"
#include "rlcore/parallel/communicator/alone.hpp"
#include "rlcore/parallel/communicator/threads.hpp"

namespace {

using namespace rlcore::parallel;
using std::size_t;

static_assert(communicator<alone> && communicator<thread_rank> && !communicator<int>);
static_assert(std::is_empty_v<alone> && alone::size() == 1);
static_assert(wire<float> && wire<rlcore::bf16> && !wire<std::vector<int>> && !wire<int*>);

template <class T>
std::span<const T> read(const std::vector<T>& v) {
  return v;
}

/// What rank r holds at i, different for all (r, i).
std::int64_t mark(int r, size_t i) { return 1000 * r + static_cast<std::int64_t>(i); }
std::vector<std::int64_t> marks(int r, size_t n) {
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

TEST(alone, is_a_group_of_one) {
  alone c;
  check_collectives(c);
  check_uneven_collectives(c);
}

class group_sizes : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(ranks, group_sizes, testing::Values(1, 2, 3, 4, 7));

TEST_P(group_sizes, move_the_right_bytes) {
  run_ranks(GetParam(), [&](thread_rank& c) {
    EXPECT_EQ(c.size(), GetParam());
    check_collectives(c);
    check_uneven_collectives(c);
  });
}

TEST_P(group_sizes, carry_any_wire_type) {
  struct pair {
    std::uint8_t a;
    double b;
  };
  run_ranks(GetParam(), [&](thread_rank& c) {
    const std::vector<pair> mine{{static_cast<std::uint8_t>(c.rank()), 0.5 * c.rank()}};
    std::vector<pair> all(static_cast<size_t>(c.size()));
    c.all_gather(read(mine), std::span(all));
    const std::vector<rlcore::bf16> small{rlcore::bf16(static_cast<float>(c.rank()))};
    std::vector<rlcore::bf16> halves(all.size());
    c.all_gather(read(small), std::span(halves));
    for (size_t r = 0; r < all.size(); ++r) {
      EXPECT_EQ(all[r].a, r);
      EXPECT_EQ(all[r].b, 0.5 * static_cast<double>(r));
      EXPECT_EQ(static_cast<float>(halves[r]), static_cast<float>(r));
    }
  });
}

TEST_P(group_sizes, keep_step_over_many_calls) {
  run_ranks(GetParam(), [&](thread_rank& c) {
    for (int k = 0; k < 300; ++k) {
      std::vector<int> x{c.rank() == k % c.size() ? k : -1};
      c.broadcast(std::span(x), k % c.size());
      ASSERT_EQ(x[0], k);
      if (k % 3 == c.rank() % 3) std::this_thread::yield();
    }
  });
}

TEST(collectives, refuse_sizes_that_do_not_fit) {
  alone c;
  std::vector<float> three(3), two(2);
  const std::vector<size_t> counts{3}, too_many{3, 3};
  EXPECT_THROW(c.all_gather(read(three), std::span(two)), std::invalid_argument);
  EXPECT_THROW(c.all_to_all(read(three), std::span(two)), std::invalid_argument);
  EXPECT_THROW(c.all_gather_v(read(three), std::span(three), read(too_many)), std::invalid_argument);
  EXPECT_THROW(c.all_to_all_v(read(two), read(counts), std::span(three), read(counts)), std::invalid_argument);
  EXPECT_THROW(c.broadcast(std::span(two), 1), std::invalid_argument);
  EXPECT_THROW(run_ranks(2, [&](thread_rank& t) { t.all_gather(read(three), std::span(two)); }), std::invalid_argument);
  EXPECT_THROW(run_ranks(2, [&](thread_rank& t) { t.broadcast(std::span(two), 2); }), std::invalid_argument);
  EXPECT_THROW(run_ranks(0, [](thread_rank&) {}), std::invalid_argument);
}

}  // namespace
