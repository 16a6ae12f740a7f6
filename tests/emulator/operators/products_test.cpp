// aclnnMatmul, aclnnBatchMatMul and aclnnGroupedMatmulAdd of the emulator, called as on hardware.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/core/dtype.hpp"
#include "rlcore/core/random.hpp"
#include "rlcore/emulator/emulated_npu.hpp"
#include "rlcore/emulator/numerics/cube.hpp"
#include "support/emulated_queue.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using namespace rlcore::ascend;
using ascend::emulated::settings;

template <class T>
std::vector<T> random_values(std::int64_t n, std::uint32_t purpose) {
  const random_key random = random_key{5}.child(purpose);
  std::vector<T> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = T(static_cast<float>(random.normal(static_cast<std::uint32_t>(i))));
  return values;
}

/// sum_k a(k) b(k) in the cube's order: groups of `group` exactly summed in double, added in float, per part of k.
template <class A, class B>
float cube_sum(std::int64_t k, std::int64_t group, A a, B b, std::vector<std::int64_t> ends = {}) {
  if (ends.empty()) ends = {k};
  float total = 0;
  std::int64_t begin = 0;
  for (const auto end : ends) {
    float c = 0;
    for (std::int64_t g = begin; g < end; g += group) {
      double wide = 0;
      for (std::int64_t j = g; j < std::min(g + group, end); ++j)
        wide += static_cast<double>(static_cast<float>(a(j))) * static_cast<double>(static_cast<float>(b(j)));
      c = static_cast<float>(c + wide);
    }
    total = begin == 0 ? c : total + c;
    begin = end;
  }
  return total;
}

/// x[m, k] w[n, k]^T, the linear layer, through aclnnMatmul.
template <class T, class Out = T>
std::vector<Out> linear(emulated_queue& d, const std::vector<T>& x, const std::vector<T>& w, std::int64_t m,
                        std::int64_t n, std::int64_t k, cube_math math = cube_math::keep) {
  const auto a = d.put(x), b = d.put(w);
  const auto c = d.q.template take<Out>(m * n);
  d.q.run(d.op().aclnnMatmul, d.q.tensor(a.data(), {m, k}), d.q.tensor(b.data(), {k, n}, {1, k}),
          d.q.tensor(c.data(), {m, n}), math);
  return d.get(c);
}
settings version(int cann) {
  settings s;
  s.cann_version = cann;
  return s;
}
template <class T>
void expect_linear(emulated_queue& d, std::int64_t group) {
  const std::int64_t m = 11, n = 23, k = 150;
  const auto x = random_values<T>(m * k, 1), w = random_values<T>(n * k, 2);
  const auto y = linear(d, x, w, m, n, k);
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      const float sum = cube_sum(
          k, group, [&](auto l) { return x[static_cast<std::size_t>(i * k + l)]; },
          [&](auto l) { return w[static_cast<std::size_t>(j * k + l)]; });
      ASSERT_EQ(static_cast<float>(y[static_cast<std::size_t>(i * n + j)]), static_cast<float>(T(sum)));
    }
}

TEST(product_operator, rounds_the_sums_of_the_cube_once) {
  emulated_queue d;
  expect_linear<bf16>(d, 16);
  expect_linear<f16>(d, 16);
  expect_linear<float>(d, 8);
}

TEST(product_operator, float_output_of_16_bit_inputs_is_refused_before_cann_8_5_and_not_rounded_then) {
  const std::int64_t m = 5, n = 7, k = 64;
  const auto x = random_values<bf16>(m * k, 3), w = random_values<bf16>(n * k, 4);
  std::vector<float> exact, rounded;
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      exact.push_back(cube_sum(
          k, 16, [&](auto l) { return x[static_cast<std::size_t>(i * k + l)]; },
          [&](auto l) { return w[static_cast<std::size_t>(j * k + l)]; }));
      rounded.push_back(bf16(exact.back()));
    }
  ASSERT_NE(exact, rounded);
  for (const int cann : {80100, 80300}) {
    emulated_queue d(version(cann));
    EXPECT_EQ(d.code_of([&] { linear<bf16, float>(d, x, w, m, n, k); }), 561103) << cann;
    const auto narrow = linear(d, x, w, m, n, k);
    EXPECT_EQ(std::vector<float>(narrow.begin(), narrow.end()), rounded) << cann;
  }
  emulated_queue d(version(80500));
  EXPECT_EQ((linear<bf16, float>(d, x, w, m, n, k)), exact);
  EXPECT_EQ((linear<bf16, float>(d, x, w, m, n, k, cube_math::use_float16)), rounded);
}

TEST(product_operator, math_types_change_what_floats_become) {
  emulated_queue d;
  const std::int64_t m = 4, n = 6, k = 40;
  const auto x = random_values<float>(m * k, 5), w = random_values<float>(n * k, 6);
  const auto expected = [&](std::int64_t group, auto convert, auto store) {
    std::vector<float> y;
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j)
        y.push_back(store(cube_sum(
            k, group, [&](auto l) { return convert(x[static_cast<std::size_t>(i * k + l)]); },
            [&](auto l) { return convert(w[static_cast<std::size_t>(j * k + l)]); })));
    return y;
  };
  const auto same = [](float v) { return v; };
  const auto half = [](float v) { return static_cast<float>(f16(v)); };
  const auto hf32 = [](float v) {  // 12 significant bits, by arithmetic; no ties among random values
    const double unit = std::ldexp(1, std::ilogb(v) - 11);
    return static_cast<float>(std::nearbyint(v / unit) * unit);
  };
  EXPECT_EQ(linear(d, x, w, m, n, k), expected(8, same, same));
  EXPECT_EQ(linear(d, x, w, m, n, k, cube_math::allow_hf32), expected(8, hf32, same));
  EXPECT_EQ(linear(d, x, w, m, n, k, cube_math::use_hf32), expected(8, hf32, same));
  EXPECT_EQ(linear(d, x, w, m, n, k, cube_math::use_float16), expected(16, half, half));
  // K = 1 is a product of the vector unit: nothing becomes HF32
  const auto outer = linear(d, std::vector<float>(x.begin(), x.begin() + m),
                            std::vector<float>(w.begin(), w.begin() + n), m, n, 1, cube_math::use_hf32);
  for (std::size_t i = 0; i < outer.size(); ++i) ASSERT_EQ(outer[i], x[i / 6] * w[i % 6]);
}

TEST(product_operator, ties_of_hf32_are_a_setting) {
  const std::vector<float> tie{1 + 0x1p-12f, 1 + 3 * 0x1p-12f}, axes{1, 0, 0, 1};  // between 12-bit neighbours
  const auto with = [&](emulated::rounding ties) {
    settings s;
    s.hf32_ties = ties;
    emulated_queue d(s);
    return linear(d, tie, axes, 1, 2, 2, cube_math::use_hf32);
  };
  EXPECT_EQ(with(emulated::rounding::nearest_zero), (std::vector<float>{1, 1 + 0x1p-11f}));
  EXPECT_EQ(with(emulated::rounding::nearest_even), (std::vector<float>{1, 1 + 0x1p-10f}));
  EXPECT_EQ(with(emulated::rounding::nearest_away), (std::vector<float>{1 + 0x1p-11f, 1 + 0x1p-10f}));
}

TEST(product_operator, operands_are_views) {
  emulated_queue d(version(80500));
  const std::int64_t m = 3, n = 5, k = 7;
  const auto x = random_values<bf16>(200, 7), w = random_values<bf16>(200, 8);
  const auto a = d.put(x), b = d.put(w);
  const auto check = [&](const dimensions& sa, std::int64_t oa, const dimensions& sb, std::int64_t ob) {
    const auto out = d.put(std::vector<float>(static_cast<std::size_t>(2 * m * n), -1.0f));
    d.q.run(d.op().aclnnMatmul, d.q.tensor(a.data(), {m, k}, sa, oa), d.q.tensor(b.data(), {k, n}, sb, ob),
            d.q.tensor(out.data(), {m, n}, {2 * n, 2}), cube_math::keep);
    const auto y = d.get(out);
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        const float sum = cube_sum(
            k, 16, [&](auto l) { return x[static_cast<std::size_t>(oa + i * sa[0] + l * sa[1])]; },
            [&](auto l) { return w[static_cast<std::size_t>(ob + l * sb[0] + j * sb[1])]; });
        ASSERT_EQ(y[static_cast<std::size_t>(2 * (i * n + j))], sum);
        ASSERT_EQ(y[static_cast<std::size_t>(2 * (i * n + j) + 1)], -1.0f);
      }
  };
  check({k, 1}, 0, {n, 1}, 0);
  check({1, m}, 3, {1, k}, 1);
  check({20, 1}, 5, {1, 20}, 2);
  check({20, 2}, 1, {3, 15}, 0);
  check({0, 1}, 0, {0, 1}, 0);
}

TEST(product_operator, leading_dimensions_are_repeated) {
  emulated_queue d;
  const auto x = random_values<bf16>(2 * 3 * 4 * 5, 9), w = random_values<bf16>(3 * 5 * 6, 10),
             u = random_values<bf16>(5, 11);
  const auto a = d.put(x), b = d.put(w), v = d.put(u);
  const auto c = d.q.take<bf16>(2 * 3 * 4 * 6), e = d.q.take<bf16>(2 * 3 * 4), f = d.q.take<bf16>(3 * 6);
  d.q.run(d.op().aclnnMatmul, d.q.tensor(a.data(), {2, 3, 4, 5}), d.q.tensor(b.data(), {3, 5, 6}),
          d.q.tensor(c.data(), {2, 3, 4, 6}), cube_math::keep);
  d.q.run(d.op().aclnnMatmul, d.q.tensor(a.data(), {2, 3, 4, 5}), d.q.tensor(v.data(), {5}),
          d.q.tensor(e.data(), {2, 3, 4}), cube_math::keep);
  d.q.run(d.op().aclnnMatmul, d.q.tensor(v.data(), {5}), d.q.tensor(b.data(), {3, 5, 6}), d.q.tensor(f.data(), {3, 6}),
          cube_math::keep);
  const auto y = d.get(c), z = d.get(e), t = d.get(f);
  for (std::size_t r = 0; r < 24; ++r) {
    const std::size_t g = r / 4 % 3;
    for (std::size_t j = 0; j < 6; ++j)
      ASSERT_EQ(static_cast<float>(y[r * 6 + j]),
                static_cast<float>(bf16(cube_sum(
                    5, 16, [&](auto l) { return x[r * 5 + static_cast<std::size_t>(l)]; },
                    [&](auto l) { return w[(g * 5 + static_cast<std::size_t>(l)) * 6 + j]; }))));
    ASSERT_EQ(static_cast<float>(z[r]), static_cast<float>(bf16(cube_sum(
                                            5, 16, [&](auto l) { return x[r * 5 + static_cast<std::size_t>(l)]; },
                                            [&](auto l) { return u[static_cast<std::size_t>(l)]; }))));
  }
  for (std::size_t g = 0; g < 3; ++g)
    for (std::size_t j = 0; j < 6; ++j)
      ASSERT_EQ(static_cast<float>(t[g * 6 + j]),
                static_cast<float>(bf16(cube_sum(
                    5, 16, [&](auto l) { return u[static_cast<std::size_t>(l)]; },
                    [&](auto l) { return w[(g * 5 + static_cast<std::size_t>(l)) * 6 + j]; }))));
}

TEST(product_operator, batches_and_mixed_types) {
  emulated_queue d;
  const auto x = random_values<f16>(4 * 2 * 3, 12);
  const auto w = random_values<float>(3 * 2, 13);
  const auto a = d.put(x);
  const auto b = d.put(w);
  const auto c = d.q.take<float>(4 * 2 * 2);
  d.q.run(d.op().aclnnBatchMatMul, d.q.tensor(a.data(), {4, 2, 3}), d.q.tensor(b.data(), {1, 3, 2}, {6, 1, 3}),
          d.q.tensor(c.data(), {4, 2, 2}), cube_math::keep);
  const auto y = d.get(c);
  for (std::size_t r = 0; r < 8; ++r)
    for (std::size_t j = 0; j < 2; ++j)
      ASSERT_EQ(y[r * 2 + j], cube_sum(
                                  3, 8, [&](auto l) { return x[r * 3 + static_cast<std::size_t>(l)]; },
                                  [&](auto l) { return w[j * 3 + static_cast<std::size_t>(l)]; }));
}

TEST(product_operator, long_sums_are_split_as_the_machine_has_cores) {
  const std::int64_t m = 6, n = 9, k = 9600;
  const auto x = random_values<bf16>(m * k, 14), w = random_values<bf16>(k * n, 15);
  std::vector<std::vector<float>> results;
  for (const int cores : {20, 24, 48}) {
    settings s = version(80500);
    s.cores = cores;
    emulated_queue d(s);
    const auto a = d.put(x), b = d.put(w);
    const auto c = d.q.take<float>(m * n);
    d.q.run(d.op().aclnnMatmul, d.q.tensor(a.data(), {m, k}, {1, m}), d.q.tensor(b.data(), {k, n}),
            d.q.tensor(c.data(), {m, n}), cube_math::keep);
    results.push_back(d.get(c));
    const auto ends = emulated::split_k({m, n, k, 2, true, false}, cores);
    EXPECT_EQ(ends.size(), cores == 48 ? 1u : static_cast<std::size_t>(cores));
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j)
        ASSERT_EQ(results.back()[static_cast<std::size_t>(i * n + j)],
                  cube_sum(
                      k, 16, [&](auto l) { return x[static_cast<std::size_t>(l * m + i)]; },
                      [&](auto l) { return w[static_cast<std::size_t>(l * n + j)]; }, ends));
  }
  EXPECT_NE(results[0], results[1]);
  EXPECT_NE(results[0], results[2]);
}

TEST(product_operator, overflow_of_float16_follows_the_mode_of_the_device) {
  emulated_queue d;
  const std::vector<f16> x{f16(300.0f), f16(300.0f)}, w{f16(300.0f), f16(300.0f)};
  EXPECT_EQ(static_cast<float>(linear(d, x, w, 1, 1, 2)[0]), INFINITY);
  ASSERT_EQ(d.q.table().rt.aclrtSetDeviceSatMode(overflow_mode::saturation), 0);
  EXPECT_EQ(static_cast<float>(linear(d, x, w, 1, 1, 2)[0]), 65504.0f);
}

TEST(product_operator, reference_mode_rounds_once) {
  settings s = version(80500);
  s.reference = true;
  emulated_queue d(s);
  const std::int64_t k = 700;
  const auto x = random_values<bf16>(k, 16), w = random_values<bf16>(k, 17);
  double sum = 0;
  for (std::size_t l = 0; l < x.size(); ++l)
    sum += static_cast<double>(static_cast<float>(x[l])) * static_cast<float>(w[l]);
  EXPECT_EQ((linear<bf16, float>(d, x, w, 1, 1, k)[0]), static_cast<float>(sum));
}

struct grouped_product : testing::Test {
  emulated_queue d;
  std::vector<bf16> x = random_values<bf16>(20 * 3, 18), w = random_values<bf16>(20 * 4, 19);
  std::vector<float> y = random_values<float>(2 * 3 * 4, 20);
  ascend::scratch<bf16> a = d.put(x), b = d.put(w);
  ascend::scratch<float> c = d.put(y);

  void run(const std::vector<std::int64_t>& ends, const dimensions& shape = {2, 3, 4}, bool tx = true, bool tw = false,
           std::int64_t type = 2) {
    const auto list = d.put(ends);
    d.q.run(d.op().aclnnGroupedMatmulAdd, d.q.tensor(a.data(), {20, 3}), d.q.tensor(b.data(), {20, 4}),
            d.q.tensor(list.data(), {static_cast<std::int64_t>(ends.size())}), d.q.tensor(c.data(), shape), tx, tw,
            type);
  }
};

TEST_F(grouped_product, adds_unrounded_sums_to_float) {
  for (const dimensions& shape : {dimensions{2, 3, 4}, dimensions{6, 4}}) {
    const auto before = d.get(c);
    run({17, 20}, shape);
    const auto after = d.get(c);
    for (std::int64_t g = 0; g < 2; ++g)
      for (std::int64_t i = 0; i < 3; ++i)
        for (std::int64_t j = 0; j < 4; ++j) {
          const std::int64_t first = g == 0 ? 0 : 17, last = g == 0 ? 17 : 20;
          const auto at = static_cast<std::size_t>((g * 3 + i) * 4 + j);
          const float sum = cube_sum(
              last - first, 16, [&](auto l) { return x[static_cast<std::size_t>((first + l) * 3 + i)]; },
              [&](auto l) { return w[static_cast<std::size_t>((first + l) * 4 + j)]; });
          ASSERT_EQ(after[at], before[at] + sum);
        }
  }
}

TEST_F(grouped_product, refuses_what_is_documented) {
  EXPECT_EQ(d.code_of([&] { run({17, 20}, {2, 3, 4}, false); }), 161002);
  EXPECT_EQ(d.code_of([&] { run({17, 20}, {2, 3, 4}, true, true); }), 161002);
  EXPECT_EQ(d.code_of([&] { run({17, 20}, {2, 3, 4}, true, false, 0); }), 161002);
  EXPECT_EQ(d.code_of([&] { run({17, 20}, {3, 4}); }), 561002);
  EXPECT_EQ(d.code_of([&] { run({20}, {2, 3, 4}); }), 561002);
  const auto list = d.put(std::vector<std::int64_t>{17, 20});
  const auto floats = d.put(std::vector<float>(80, 1.0f));
  const auto again = [&](const auto& left, const auto& right, const auto& y_data) {
    return d.code_of([&] {
      d.q.run(d.op().aclnnGroupedMatmulAdd, d.q.tensor(left.data(), {20, 3}), d.q.tensor(right.data(), {20, 4}),
              d.q.tensor(list.data(), {2}), d.q.tensor(y_data.data(), {2, 3, 4}), true, false, std::int64_t{2});
    });
  };
  EXPECT_EQ(again(a, b, c), 0);
  EXPECT_EQ(again(floats, floats, c), 161002);
  EXPECT_EQ(again(a, b, b), 161002);
  const auto halves = d.put(random_values<f16>(80, 21));
  EXPECT_EQ(again(a, halves, c), 161002);
  EXPECT_EQ(d.code_of([&] {
    d.q.run(d.op().aclnnGroupedMatmulAdd, nullptr, d.q.tensor(b.data(), {20, 4}), d.q.tensor(list.data(), {2}),
            d.q.tensor(c.data(), {2, 3, 4}), true, false, std::int64_t{2});
  }),
            161001);
}

TEST_F(grouped_product, groups_must_cover_the_rows_in_order) {
  EXPECT_EQ(d.code_of([&] { run({17, 19}); }), 507015);
}

TEST(product_operator, refuses_what_is_documented) {
  emulated_queue d;
  const auto h = d.put(random_values<f16>(64, 22));
  const auto b = d.put(random_values<bf16>(64, 23));
  const auto f = d.put(random_values<float>(64, 24));
  const auto i = d.put(std::vector<std::int32_t>(64, 1));
  const auto matmul = [&](const auto& x, const dimensions& sx, const auto& w, const dimensions& sw, const auto& y,
                          const dimensions& sy, cube_math math = cube_math::keep) {
    return d.code_of([&] {
      d.q.run(d.op().aclnnMatmul, d.q.tensor(x.data(), sx), d.q.tensor(w.data(), sw), d.q.tensor(y.data(), sy), math);
    });
  };
  const auto out = d.q.take<bf16>(64);
  EXPECT_EQ(matmul(b, {4, 4}, b, {4, 4}, out, {4, 4}), 0);
  EXPECT_EQ(matmul(b, {4, 4}, f, {4, 4}, out, {4, 4}), 161002);
  EXPECT_EQ(matmul(b, {4, 4}, h, {4, 4}, out, {4, 4}), 161002);
  EXPECT_EQ(matmul(i, {4, 4}, i, {4, 4}, out, {4, 4}), 161002);
  EXPECT_EQ(matmul(b, {4, 4}, b, {5, 4}, out, {4, 4}), 161002);
  EXPECT_EQ(matmul(b, {4, 4}, b, {4, 4}, out, {4, 5}), 161002);
  EXPECT_EQ(matmul(b, {2, 2, 4}, b, {3, 4, 4}, out, {2, 2, 4}), 161002);
  EXPECT_EQ(matmul(b, {1, 1, 1, 1, 1, 4, 4}, b, {4, 4}, out, {1, 1, 1, 1, 1, 4, 4}), 161002);
  EXPECT_EQ(matmul(b, {}, b, {4, 4}, out, {4}), 161002);
  EXPECT_EQ(matmul(b, {4, 4}, b, {4, 4}, out, {4, 4}, static_cast<cube_math>(4)), 161002);
  EXPECT_EQ(matmul(b, {4, 4}, b, {4, 4}, out, {4, 4}, static_cast<cube_math>(5)), 161002);
  EXPECT_EQ(matmul(b, {4, 4}, b, {4, 4}, out, {4, 4}, static_cast<cube_math>(-1)), 161002);
  std::string why;
  EXPECT_EQ(d.code_of(
                [&] {
                  d.q.run(d.op().aclnnMatmul, d.q.tensor(b.data(), {4, 4}), d.q.tensor(f.data(), {4, 4}),
                          d.q.tensor(out.data(), {4, 4}), cube_math::keep);
                },
                &why),
            161002);
  EXPECT_NE(why.find("a product of bfloat16 and float32"), std::string::npos) << why;
  const auto batched = [&](const dimensions& sx, const dimensions& sw, const dimensions& sy) {
    return d.code_of([&] {
      d.q.run(d.op().aclnnBatchMatMul, d.q.tensor(b.data(), sx), d.q.tensor(b.data(), sw), d.q.tensor(out.data(), sy),
              cube_math::keep);
    });
  };
  EXPECT_EQ(batched({2, 2, 2}, {2, 2, 2}, {2, 2, 2}), 0);
  EXPECT_EQ(batched({2, 2}, {2, 2}, {2, 2}), 161002);
  EXPECT_EQ(batched({2, 2, 2}, {3, 2, 2}, {2, 2, 2}), 161002);
}

TEST(product_operator, longer_tensors_than_rlcore_gives_operators_are_refused) {
  emulated_queue d;
  const auto b = d.put(random_values<bf16>(64, 23));
  const auto negate = [&](std::int64_t rows) {
    return d.code_of([&] {
      const auto t = d.q.tensor(b.data(), {rows, std::int64_t{1} << 16});
      d.q.run(d.op().aclnnNeg, t, t);
    });
  };
  EXPECT_EQ(negate(1 << 15), 161002);
}

TEST(product_operator, empty_products) {
  emulated_queue d;
  const auto a = d.put(random_values<bf16>(4, 25));
  const auto c = d.put(std::vector<bf16>(4, bf16(3.0f)));
  const auto run = [&](std::int64_t m, std::int64_t k) {
    d.q.run(d.op().aclnnMatmul, d.q.tensor(a.data(), {m, k}), d.q.tensor(a.data(), {k, 2}),
            d.q.tensor(c.data(), {m, 2}), cube_math::keep);
  };
  run(0, 2);
  EXPECT_EQ(static_cast<float>(d.get(c)[0]), 3.0f);
  run(2, 0);
  for (const bf16 x : d.get(c)) EXPECT_EQ(static_cast<float>(x), 0.0f);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
