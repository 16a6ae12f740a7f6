#include "rlcore/parallel/reduction/reduction.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include "rlcore/core/dtype.hpp"
#include "rlcore/core/random.hpp"
#include "rlcore/parallel/communicator/communicator.hpp"
#include "rlcore/parallel/communicator/threads.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::parallel;
using std::size_t;

/// Numbers of very different size, so that almost every order of summation gives other bits.
float number(int leaf, size_t i) {
  const rlcore::random_key key{7};
  const auto a = static_cast<std::uint32_t>(leaf), b = static_cast<std::uint32_t>(i);
  return static_cast<float>(std::ldexp(key.normal(a, b), static_cast<int>(key.below(24, a, b, 1))));
}
std::vector<float> numbers(int leaf, size_t n) {
  std::vector<float> v(n);
  for (size_t i = 0; i < n; ++i) v[i] = number(leaf, i);
  return v;
}

/// The tree's definition: the left part is the largest power of two below the number of leaves.
float tree_of(int first, int last, size_t i) {
  if (last - first == 1) return number(first, i);
  int left = 1;
  while (2 * left < last - first) left *= 2;
  return tree_of(first, first + left, i) + tree_of(first + left, last, i);
}
float sequence_of(int last, size_t i) {
  float total = number(0, i);
  for (int r = 1; r < last; ++r) total += number(r, i);
  return total;
}

class reduction_sizes : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(ranks, reduction_sizes, testing::Values(1, 2, 3, 4, 5, 6, 7, 8));

TEST_P(reduction_sizes, add_in_the_promised_order) {
  const int size = GetParam();
  for (const size_t n : std::vector<size_t>{0, 1, 3, 257}) {
    run_ranks(size, [&](thread_rank& c) {
      auto in_tree = numbers(c.rank(), n), in_sequence = in_tree;
      all_reduce_sum(tree{}, c, std::span(in_tree));
      all_reduce_sum(ranked{}, c, std::span(in_sequence));
      for (size_t i = 0; i < n; ++i) {
        ASSERT_EQ(in_tree[i], tree_of(0, size, i));
        ASSERT_EQ(in_sequence[i], sequence_of(size, i));
      }
    });
  }
}

TEST_P(reduction_sizes, give_the_same_bits_in_one_call_or_many) {
  run_ranks(GetParam(), [&](thread_rank& c) {
    auto whole = numbers(c.rank(), 100), cut = whole;
    reduction_scratch<float> scratch;
    all_reduce_sum(ranked{}, c, std::span(whole), scratch);
    for (size_t at = 0; at < cut.size(); at += 7)
      all_reduce_sum(ranked{}, c, std::span(cut).subspan(at, std::min<size_t>(7, cut.size() - at)), scratch);
    EXPECT_EQ(whole, cut);
  });
}

TEST_P(reduction_sizes, scatter_parts_of_any_size) {
  const int size = GetParam();
  std::vector<size_t> counts;
  for (int r = 0; r < size; ++r) counts.push_back(r == 1 ? 0 : static_cast<size_t>(3 + 2 * r));
  size_t total = 0;
  for (const size_t n : counts) total += n;
  run_ranks(size, [&](thread_rank& c) {
    const auto in = numbers(c.rank(), total);
    std::vector<float> mine(counts[static_cast<size_t>(c.rank())]);
    reduction_scratch<float> scratch;
    reduce_scatter_sum(tree{}, c, std::span<const float>(in), std::span<const size_t>(counts), std::span(mine),
                       scratch);
    size_t first = 0;
    for (int r = 0; r < c.rank(); ++r) first += counts[static_cast<size_t>(r)];
    for (size_t i = 0; i < mine.size(); ++i) EXPECT_EQ(mine[i], tree_of(0, size, first + i));
  });
}

TEST(tree, bits_do_not_depend_on_the_number_of_ranks) {
  constexpr int leaves = 8;
  constexpr size_t n = 33;
  for (const int size : {1, 2, 4, 8}) {
    run_ranks(size, [&](thread_rank& c) {
      const int own = leaves / size;
      std::vector<float> x(n);
      for (size_t i = 0; i < n; ++i) x[i] = tree_of(c.rank() * own, (c.rank() + 1) * own, i);
      all_reduce_sum(tree{}, c, std::span(x));
      for (size_t i = 0; i < n; ++i) ASSERT_EQ(x[i], tree_of(0, leaves, i)) << size << " ranks";
    });
  }
}

TEST(reduction, integers_are_exact) {
  run_ranks(5, [](thread_rank& c) {
    const std::int64_t large = std::int64_t{1} << 60;
    EXPECT_EQ(all_reduce_sum(ranked{}, c, large + c.rank()), 5 * large + 10);
    EXPECT_EQ(all_reduce_sum(tree{}, c, large + c.rank()), 5 * large + 10);
  });
}

TEST(reduction, short_numbers_travel_and_long_ones_add_up) {
  // 1 + 7 * 2^-9: in bf16 every single addition would be rounded away.
  run_ranks(8, [](thread_rank& c) {
    const std::vector<rlcore::bf16> in(8, rlcore::bf16(c.rank() == 0 ? 1.0f : 0x1p-9f));
    const std::vector<size_t> counts(8, 1);
    std::vector<float> out(1);
    reduction_scratch<rlcore::bf16, float> scratch;
    reduce_scatter_sum(ranked{}, c, std::span<const rlcore::bf16>(in), std::span<const size_t>(counts), std::span(out),
                       scratch);
    EXPECT_EQ(out[0], 1.0f + 7 * 0x1p-9f);
  });
}

TEST(reduction, alone_changes_nothing) {
  alone c;
  std::vector<float> x{1, 2, std::numeric_limits<float>::infinity()};
  const auto before = x;
  all_reduce_sum(tree{}, c, std::span(x));
  EXPECT_EQ(x, before);
  EXPECT_EQ(all_reduce_sum(ranked{}, c, 3), 3);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
