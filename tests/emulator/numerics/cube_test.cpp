// The cube's arithmetic as the emulator has it. These tests show that the tiled loop computes the order of sums that
// numerics/cube.hpp states, to the bit, and that this order stays within the bound of its roundings around sums in
// double. They cannot show that the hardware adds in this order: no source of the vendor says how it does, and the
// statement in literally() is ours like the loop's. npu_golden replay on a machine with an NPU can.
#include "rlcore/emulator/numerics/cube.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "rlcore/core/random.hpp"
#include "rlcore/emulator/numerics/rounding.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using namespace rlcore::ascend;
using namespace rlcore::ascend::emulated;
using emulated::matrix;

/// Normal values times 2^-spread .. 2^spread, in `type`.
std::vector<float> random_values(std::int64_t n, data_type type, std::uint32_t purpose, int spread = 0) {
  const random_key random = random_key{11}.child(purpose);
  std::vector<float> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto index = static_cast<std::uint32_t>(i);
    const int exponent =
        spread == 0 ? 0 : static_cast<int>(random.below(2 * static_cast<std::uint32_t>(spread) + 1, index, 1)) - spread;
    values[i] = stored_as(static_cast<float>(std::ldexp(random.normal(index), exponent)), type);
  }
  return values;
}

/// A matrix stored row by row or column by column.
struct stored {
  std::vector<float> values;
  matrix<float> view;
  stored(std::int64_t rows, std::int64_t columns, bool transposed, data_type type, std::uint32_t purpose,
         int spread = 0)
      : values(random_values(rows * columns, type, purpose, spread)),
        view{values.data(), transposed ? 1 : columns, transposed ? rows : 1} {}
  float at(std::int64_t i, std::int64_t j) const { return view.data[i * view.row + j * view.column]; }
};

/// What numerics/cube.hpp states, one element at a time.
float literally(const stored& a, const stored& b, std::int64_t i, std::int64_t j, std::int64_t group,
                const std::vector<std::int64_t>& part_ends) {
  float total = 0;
  std::int64_t begin = 0;
  for (const auto part_end : part_ends) {
    float accumulator = 0;
    for (std::int64_t first = begin; first < part_end; first += group) {
      double wide = 0;
      for (std::int64_t k = first; k < std::min(first + group, part_end); ++k)
        wide = wide + static_cast<double>(a.at(i, k)) * static_cast<double>(b.at(k, j));
      accumulator = static_cast<float>(static_cast<double>(accumulator) + wide);
    }
    total = begin == 0 ? accumulator : total + accumulator;
    begin = part_end;
  }
  return total;
}

struct shape {
  std::int64_t m, n, k;
};
const shape shapes[] = {{1, 1, 1},    {1, 9, 17},    {8, 8, 16},   {5, 3, 15},
                        {16, 24, 64}, {13, 19, 277}, {33, 7, 530}, {3, 70, 513}};

TEST(cube, tiles_compute_the_stated_order_to_the_bit) {
  for (const auto type : {data_type::bfloat16, data_type::float16, data_type::float32})
    for (const auto& s : shapes)
      for (int layout = 0; layout < 4; ++layout) {
        const int group = type == data_type::float32 ? 8 : 16;
        const stored a(s.m, s.k, layout % 2 == 1, type, 1, 6), b(s.k, s.n, layout / 2 == 1, type, 2, 6);
        std::vector<float> c(static_cast<std::size_t>(s.m * s.n), NAN);
        cube::multiply(cube_order{group, {}, 1}, s.m, s.n, s.k, a.view, b.view, c.data());
        for (std::int64_t i = 0; i < s.m; ++i)
          for (std::int64_t j = 0; j < s.n; ++j)
            ASSERT_EQ(c[static_cast<std::size_t>(i * s.n + j)], literally(a, b, i, j, group, {s.k}))
                << s.m << "x" << s.n << "x" << s.k << " at " << i << ", " << j;
      }
}

TEST(cube, parts_of_k_are_summed_apart_and_added_in_order) {
  const std::int64_t m = 9, n = 21, k = 1500;
  const stored a(m, k, true, data_type::bfloat16, 3, 4), b(k, n, false, data_type::bfloat16, 4, 4);
  const std::vector<std::int64_t> whole{k}, parts{384, 768, 1152, 1500};
  std::vector<float> c(static_cast<std::size_t>(m * n)), one(c);
  cube::multiply(cube_order{16, parts, 1}, m, n, k, a.view, b.view, c.data());
  cube::multiply(cube_order{16, whole, 1}, m, n, k, a.view, b.view, one.data());
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      ASSERT_EQ(c[static_cast<std::size_t>(i * n + j)], literally(a, b, i, j, 16, parts));
  EXPECT_NE(c, one);  // the order is visible
}

TEST(cube, stays_within_the_bound_of_its_roundings) {
  for (const auto type : {data_type::bfloat16, data_type::float16, data_type::float32}) {
    const std::int64_t m = 12, n = 17, k = 2000, group = type == data_type::float32 ? 8 : 16;
    const stored a(m, k, false, type, 5), b(k, n, true, type, 6);
    std::vector<float> c(static_cast<std::size_t>(m * n));
    std::vector<double> exact(c.size());
    cube::multiply(cube_order{static_cast<int>(group), {}, 1}, m, n, k, a.view, b.view, c.data());
    cube::multiply(cube_order{static_cast<int>(group), {}, 1}, m, n, k, a.view, b.view, exact.data());
    double worst = 0;
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        const auto at = static_cast<std::size_t>(i * n + j);
        double sum = 0, magnitude = 0;
        for (std::int64_t l = 0; l < k; ++l) {
          const double product = static_cast<double>(a.at(i, l)) * b.at(l, j);
          sum += product;
          magnitude += std::fabs(product);
        }
        ASSERT_NEAR(exact[at], sum, 1e-12 * magnitude);
        const double additions = static_cast<double>((k + group - 1) / group);
        const double bound = additions * 0x1p-24 / (1 - additions * 0x1p-24) * magnitude;  // Higham 2002, (3.5)
        ASSERT_LE(std::fabs(c[at] - sum), bound);
        worst = std::max(worst, std::fabs(c[at] - sum));
      }
    EXPECT_GT(worst, 0);
  }
}

TEST(cube, a_group_is_summed_wide_and_only_groups_are_rounded) {
  std::vector<float> a(32, 0.0f), ones(32, 1.0f);
  a[0] = 0x1p30f, a[1] = 1, a[2] = -0x1p30f;  // one group of 16: nothing is lost
  float c = 0;
  const auto multiply = [&](int group) {
    cube::multiply(cube_order{group, {}, 1}, 1, 1, 32, matrix<float>{a.data(), 32, 1}, matrix<float>{ones.data(), 1, 1},
                   &c);
    return c;
  };
  EXPECT_EQ(multiply(16), 1.0f);
  a[2] = 0, a[16] = -0x1p30f;  // the next group: 1 is lost when 2^30 is rounded to float
  EXPECT_EQ(multiply(16), 0.0f);
  a[16] = 0, a[8] = -0x1p30f;
  EXPECT_EQ(multiply(16), 1.0f);
  EXPECT_EQ(multiply(8), 0.0f);
}

TEST(cube, no_bit_depends_on_the_threads_or_on_other_rows) {
  const std::int64_t m = 300, n = 520, k = 700;
  const stored a(m, k, false, data_type::bfloat16, 7), b(k, n, true, data_type::bfloat16, 8);
  std::vector<float> one(static_cast<std::size_t>(m * n)), some(one), row(static_cast<std::size_t>(n));
  for (const auto& ends : {std::vector<std::int64_t>{}, std::vector<std::int64_t>{384, 700}}) {
    cube::multiply(cube_order{16, ends, 1}, m, n, k, a.view, b.view, one.data());
    for (const int threads : {2, 3, 5}) {
      cube::multiply(cube_order{16, ends, threads}, m, n, k, a.view, b.view, some.data());
      ASSERT_EQ(one, some) << threads;
    }
    for (const std::int64_t i : {0, 7, 299}) {
      cube::multiply(cube_order{16, ends, 1}, 1, n, k, a.view.at(i, 0), b.view, row.data());
      ASSERT_EQ(std::memcmp(row.data(), one.data() + i * n, row.size() * sizeof(float)), 0);
    }
  }
  std::vector<float> tall(one.size());
  cube::multiply(cube_order{16, {}, 1}, m, n, k, a.view, b.view, one.data());
  cube::multiply(cube_order{16, {}, 3}, n, m, k, b.view.transposed(), a.view.transposed(), tall.data());
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      ASSERT_EQ(tall[static_cast<std::size_t>(j * m + i)], one[static_cast<std::size_t>(i * n + j)]);
}

TEST(cube, no_bit_depends_on_the_instruction_set) {
  constexpr std::int64_t k = 77;
  alignas(64) double a[8 * k], b[8 * k];
  const auto left = random_values(8 * k, data_type::float32, 9, 20),
             right = random_values(8 * k, data_type::float32, 10, 20);
  std::copy(left.begin(), left.end(), a);
  std::copy(right.begin(), right.end(), b);
  for (const std::int64_t group : {8, 16}) {
    std::array<float, 64> expected{};
    choose_cube_tiles("sse2").add_float(expected.data(), a, b, k, group);
    for (const char* name : {"avx2", "avx512"}) {
      std::array<float, 64> c{};
      choose_cube_tiles(name).add_float(c.data(), a, b, k, group);
      ASSERT_EQ(c, expected) << choose_cube_tiles(name).name;
    }
  }
  EXPECT_STREQ(choose_cube_tiles("sse2").name, "sse2");
}

TEST(cube, infinities_and_nan_pass) {
  std::vector<float> a{INFINITY, 1, 2, NAN}, b{1, 1, 1, 1}, c(4);
  cube::multiply(cube_order{16, {}, 1}, 2, 2, 2, matrix<float>{a.data(), 2, 1}, matrix<float>{b.data(), 2, 1},
                 c.data());
  EXPECT_EQ(c[0], INFINITY);
  EXPECT_TRUE(std::isnan(c[2]) && std::isnan(c[3]));
  cube::multiply(cube_order{16, {}, 1}, 2, 2, 0, matrix<float>{a.data(), 0, 1}, matrix<float>{b.data(), 2, 1},
                 c.data());
  EXPECT_EQ(c, std::vector<float>(4, 0.0f));
}

TEST(split_k, cuts_what_the_tiling_cuts) {
  const auto parts = [](const product_shape& p) { return split_k(p, 20).size(); };
  EXPECT_EQ(parts({4096, 4096, 4096}), 1u);
  EXPECT_EQ(parts({4096, 4096, 27391}), 1u);
  EXPECT_EQ(parts({4096, 4096, 27392}), 72u);  // single-core split: ceil(27392 / 384) pieces
  EXPECT_EQ(parts({128, 128, 27392}), 20u);    // too few tiles: one run of pieces per core
  EXPECT_EQ(parts({128, 128, 7679}), 1u);
  EXPECT_EQ(parts({128, 128, 7680}), 20u);  // 384 per core
  EXPECT_EQ(parts({128, 128, 7680, 2, false, true}), 1u);
  EXPECT_EQ(parts({1280, 128, 7680}), 1u);  // as many tiles as half the cores
  EXPECT_EQ(parts({256, 256, 1000, 2, true, false}), 3u);
  EXPECT_EQ(parts({256, 256, 999, 2, true, false}), 1u);
  EXPECT_EQ(parts({256, 257, 1000, 2, true, false}), 1u);
  EXPECT_EQ(parts({256, 256, 4608, 2, true, false}), 12u);
  EXPECT_EQ(parts({256, 256, 4609, 2, true, false}), 1u);
  EXPECT_EQ(parts({64, 64, 6144, 4, false, true}), 20u);
  EXPECT_EQ(parts({64, 64, 6144, 4, false, true, true}), 1u);
  EXPECT_EQ(parts({64, 64, 6144, 2, false, true}), 1u);
  EXPECT_EQ(split_k({128, 128, 7680}, 24).size(), 1u);  // another machine, another order
}

TEST(split_k, parts_are_whole_pieces_in_order) {
  for (const std::int64_t k : {1000, 4608, 27392, 30001}) {
    const auto ends = split_k({200, 200, k, 2, true, false}, 20);
    std::int64_t last = 0;
    for (const auto end : ends) {
      EXPECT_GT(end, last);
      EXPECT_TRUE(end % 384 == 0 || end == k);
      last = end;
    }
    EXPECT_EQ(last, k);
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
