// Norm, rotary positions, SwiGLU, rows and sums: values against double, gradients against central differences in
// double.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "device/cpu/sets.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using rlcore_test::normal;
using floats = std::vector<float>;
using doubles = std::vector<double>;

class elementwise : public testing::TestWithParam<std::string> {};

/// Gradient of sum(dy * f(x)) by central differences.
doubles differences(const std::function<doubles(const doubles&)>& f, const floats& x0, const floats& dy) {
  doubles x(x0.begin(), x0.end()), slope(x.size());
  const double h = 1e-5;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double keep = x[i];
    x[i] = keep + h;
    const doubles above = f(x);
    x[i] = keep - h;
    const doubles below = f(x);
    x[i] = keep;
    for (std::size_t j = 0; j < dy.size(); ++j)
      slope[i] += static_cast<double>(dy[j]) * (above[j] - below[j]) / (2 * h);
  }
  return slope;
}

void expect_near(const floats& x, const doubles& exact, double tolerance) {
  ASSERT_EQ(x.size(), exact.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    ASSERT_NEAR(static_cast<double>(x[i]), exact[i], tolerance) << "element " << i;
}

/// x and weight in one vector, so that one difference quotient gives both gradients.
doubles rms_norm(const doubles& x_and_weight, std::size_t rows, std::size_t width) {
  doubles y(rows * width);
  const double* weight = x_and_weight.data() + rows * width;
  for (std::size_t r = 0; r < rows; ++r) {
    double mean = 0;
    for (std::size_t j = 0; j < width; ++j)
      mean += x_and_weight[r * width + j] * x_and_weight[r * width + j] / static_cast<double>(width);
    for (std::size_t j = 0; j < width; ++j)
      y[r * width + j] = weight[j] * x_and_weight[r * width + j] / std::sqrt(mean + 1e-6);
  }
  return y;
}

TEST_P(elementwise, rms_norm_of_rows_and_heads) {
  cpu device(2, GetParam());
  for (const auto& [tokens, groups, width] : {std::array<extent_t, 3>{3, 1, 37}, {2, 3, 10}, {2, 2, 64}}) {
    const auto rows = static_cast<std::size_t>(tokens * groups), w = static_cast<std::size_t>(width);
    const extent_t row = groups * width;
    floats x = normal(rows * w, 1), weight = normal(w, 2), dy = normal(rows * w, 3), y(rows * w), rstd(rows),
           dx(rows * w), dweight(w);
    floats both = x;
    both.insert(both.end(), weight.begin(), weight.end());
    const norm_arguments n{row, groups, width, weight.data(), 1e-6};
    device.run(op::rms_norm_forward{
        .norm = n, .y = y.data(), .y_row = row, .x = x.data(), .rstd = rstd.data(), .rows = tokens});
    expect_near(y, rms_norm(doubles(both.begin(), both.end()), rows, w), 2e-6);
    device.run(op::rms_norm_backward{.norm = n,
                                     .dx = dx.data(),
                                     .dy = dy.data(),
                                     .dy_row = row,
                                     .x = x.data(),
                                     .rstd = rstd.data(),
                                     .rows = tokens});
    device.run(op::rms_norm_backward_weight{.norm = n,
                                            .dweight = dweight.data(),
                                            .dy = dy.data(),
                                            .dy_row = row,
                                            .x = x.data(),
                                            .rstd = rstd.data(),
                                            .rows = tokens});
    floats slopes = dx;
    slopes.insert(slopes.end(), dweight.begin(), dweight.end());
    expect_near(slopes, differences([&](const doubles& v) { return rms_norm(v, rows, w); }, both, dy), 2e-5);

    floats added(rows * w, 1.0f), in_place = dy, split(w);
    device.run(op::rms_norm_backward{.norm = n,
                                     .dx = added.data(),
                                     .dy = dy.data(),
                                     .dy_row = row,
                                     .x = x.data(),
                                     .rstd = rstd.data(),
                                     .rows = tokens,
                                     .accumulate = true});
    for (std::size_t i = 0; i < dx.size(); ++i) EXPECT_NEAR(added[i], 1 + dx[i], 1e-6f);
    device.run(op::rms_norm_backward{.norm = n,
                                     .dx = in_place.data(),
                                     .dy = in_place.data(),
                                     .dy_row = row,
                                     .x = x.data(),
                                     .rstd = rstd.data(),
                                     .rows = tokens});
    EXPECT_EQ(in_place, dx);
    for (extent_t t = 0; t < tokens; ++t)
      device.run(op::rms_norm_backward_weight{.norm = n,
                                              .dweight = split.data(),
                                              .dy = dy.data() + t * row,
                                              .dy_row = row,
                                              .x = x.data() + t * row,
                                              .rstd = rstd.data() + t * groups,
                                              .rows = 1});
    EXPECT_EQ(split, dweight);
  }
}

TEST_P(elementwise, rope_turns_pairs_of_halves) {
  cpu device(1, GetParam());
  const extent_t heads = 2, d = 10, row = 25, tokens = 3;
  floats cosine, sine;
  for (int p = 0; p < 8; ++p)
    for (int j = 0; j < 5; ++j) {
      cosine.push_back(static_cast<float>(std::cos(p * std::pow(100.0, -j / 5.0))));
      sine.push_back(static_cast<float>(std::sin(p * std::pow(100.0, -j / 5.0))));
    }
  const std::vector<std::int32_t> positions = {0, 5, 7};
  const floats x = normal(static_cast<std::size_t>(tokens * row), 4);
  floats y = x;
  device.run(op::rope{.x = y.data(),
                      .row = row,
                      .heads = heads,
                      .head_dim = d,
                      .positions = positions.data(),
                      .cosine = cosine.data(),
                      .sine = sine.data(),
                      .rows = tokens});
  for (std::size_t t = 0; t < 3; ++t)
    for (std::size_t h = 0; h < 2; ++h)
      for (std::size_t j = 0; j < 5; ++j) {
        const std::size_t first = t * 25 + h * 10 + j, second = first + 5;
        const double angle = positions[t] * std::pow(100.0, -static_cast<double>(j) / 5.0);
        const double a = x[first], b = x[second];
        EXPECT_NEAR(static_cast<double>(y[first]), a * std::cos(angle) - b * std::sin(angle), 1e-6);
        EXPECT_NEAR(static_cast<double>(y[second]), b * std::cos(angle) + a * std::sin(angle), 1e-6);
      }
  for (std::size_t t = 0; t < 3; ++t)
    for (std::size_t j = 20; j < 25; ++j) EXPECT_EQ(y[t * 25 + j], x[t * 25 + j]);
  device.run(op::rope{.x = y.data(),
                      .row = row,
                      .heads = heads,
                      .head_dim = d,
                      .positions = positions.data(),
                      .cosine = cosine.data(),
                      .sine = sine.data(),
                      .rows = tokens,
                      .inverse = true});
  expect_near(y, doubles(x.begin(), x.end()), 1e-6);
}

doubles swiglu(const doubles& x, std::size_t rows, std::size_t width) {
  doubles y;
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t j = 0; j < width; ++j) {
      const double g = x[r * 2 * width + j];
      y.push_back(g / (1 + std::exp(-g)) * x[r * 2 * width + width + j]);
    }
  return y;
}

TEST_P(elementwise, swiglu) {
  cpu device(1, GetParam());
  const extent_t rows = 2, width = 21;
  const floats x = normal(84, 5, 3), dy = normal(42, 6);
  floats y(42), dx(84), in_place = x;
  device.run(op::swiglu_forward{.y = y.data(), .gate_up = x.data(), .rows = rows, .width = width});
  expect_near(y, swiglu(doubles(x.begin(), x.end()), 2, 21), 4e-6);
  device.run(
      op::swiglu_backward{.dgate_up = dx.data(), .dy = dy.data(), .gate_up = x.data(), .rows = rows, .width = width});
  expect_near(dx, differences([](const doubles& v) { return swiglu(v, 2, 21); }, x, dy), 2e-5);
  device.run(op::swiglu_backward{
      .dgate_up = in_place.data(), .dy = dy.data(), .gate_up = in_place.data(), .rows = rows, .width = width});
  EXPECT_EQ(in_place, dx);

  const floats extreme = {-200, 200, -0.0f, 1, 1, 1};
  floats saturated(3);
  device.run(op::swiglu_forward{.y = saturated.data(), .gate_up = extreme.data(), .rows = 1, .width = 3});
  EXPECT_EQ(saturated, (floats{0, 200, 0}));
}

doubles gelu(const doubles& x) {
  doubles y;
  for (const double v : x) y.push_back(v * std::erfc(-v / std::sqrt(2.0)) / 2);
  return y;
}

TEST_P(elementwise, gelu) {
  cpu device(1, GetParam());
  floats x = normal(84, 5, 3), dy = normal(84, 6);
  for (int i = 0; i < 30; ++i) x.push_back(static_cast<float>(i - 15) / 2), dy.push_back(1);
  floats y(x.size()), dx(x.size());
  const auto n = static_cast<extent_t>(x.size());
  device.run(op::gelu_forward{.y = y.data(), .x = x.data(), .n = n});
  expect_near(y, gelu(doubles(x.begin(), x.end())), 1e-6);
  device.run(op::gelu_backward{.dx = dx.data(), .dy = dy.data(), .x = x.data(), .n = n});
  expect_near(dx, differences(gelu, x, dy), 2e-6);
  floats in_place = dy;
  device.run(op::gelu_backward{.dx = in_place.data(), .dy = in_place.data(), .x = x.data(), .n = n});
  EXPECT_EQ(in_place, dx);

  const floats extreme = {-200, 200, -1e30f, 1e30f};
  floats saturated(4), slopes(4);
  device.run(op::gelu_forward{.y = saturated.data(), .x = extreme.data(), .n = 4});
  EXPECT_EQ(saturated, (floats{0, 200, 0, 1e30f}));
  device.run(op::gelu_backward{.dx = slopes.data(), .dy = floats(4, 1).data(), .x = extreme.data(), .n = 4});
  EXPECT_EQ(slopes, (floats{0, 1, 0, 1}));
}

TEST_P(elementwise, rows) {
  cpu device(3, GetParam());
  const extent_t width = 33;
  const floats table = normal(10 * 33, 7), slopes = normal(4 * 33, 8);
  const std::vector<std::int32_t> ids = {3, 9, 3, 0};
  floats rows(4 * 33), gradient(10 * 33), split = gradient, total(33), total_split(33);
  device.run(op::gather_rows{
      .y = rows.data(), .x = table.data(), .x_rows = 10, .ids = ids.data(), .count = 4, .width = width});
  device.run(op::scatter_add_rows{
      .y = gradient.data(), .x = slopes.data(), .ids = {ids.data(), 10}, .count = 4, .width = width});
  device.run(op::sum_rows{.total = total.data(), .x = slopes.data(), .rows = 4, .width = width});
  for (std::size_t k = 0; k < 4; ++k) {
    device.run(op::scatter_add_rows{
        .y = split.data(), .x = slopes.data() + k * 33, .ids = {ids.data() + k, 10}, .count = 1, .width = width});
    device.run(op::sum_rows{.total = total_split.data(), .x = slopes.data() + k * 33, .rows = 1, .width = width});
    for (std::size_t j = 0; j < 33; ++j) EXPECT_EQ(rows[k * 33 + j], table[static_cast<std::size_t>(ids[k]) * 33 + j]);
  }
  EXPECT_EQ(gradient, split);
  EXPECT_EQ(total, total_split);
  for (std::size_t j = 0; j < 33; ++j) {
    EXPECT_EQ(gradient[3 * 33 + j], slopes[j] + slopes[2 * 33 + j]);
    EXPECT_EQ(total[j], ((slopes[j] + slopes[33 + j]) + slopes[66 + j]) + slopes[99 + j]);
    EXPECT_EQ(gradient[33 + j], 0.0f);
  }
}

TEST_P(elementwise, rows_with_a_factor_and_their_products) {
  cpu device(2, GetParam());
  for (const std::size_t w : {std::size_t{1}, std::size_t{7}, std::size_t{33}, std::size_t{200}}) {
    const floats a = normal(5 * w, 3), b = normal(5 * w, 4), factor = normal(5, 5);
    floats scaled(5 * w), dot(5), one(1);
    device.run(op::scale_rows{
        .y = scaled.data(), .x = a.data(), .factor = factor.data(), .rows = 5, .width = static_cast<extent_t>(w)});
    device.run(
        op::dot_rows{.y = dot.data(), .a = a.data(), .b = b.data(), .rows = 5, .width = static_cast<extent_t>(w)});
    for (std::size_t t = 0; t < 5; ++t) {
      double sum = 0, size = 0;
      for (std::size_t j = 0; j < w; ++j) {
        EXPECT_EQ(scaled[t * w + j], a[t * w + j] * factor[t]);
        sum += double{a[t * w + j]} * double{b[t * w + j]};
        size += std::abs(double{a[t * w + j]} * double{b[t * w + j]});
      }
      EXPECT_NEAR(double{dot[t]}, sum, 1e-6 * size);
      device.run(op::dot_rows{
          .y = one.data(), .a = a.data() + t * w, .b = b.data() + t * w, .rows = 1, .width = static_cast<extent_t>(w)});
      EXPECT_EQ(one[0], dot[t]);
    }
  }
}

TEST_P(elementwise, sum_of_squares_is_accurate_and_independent_of_threads) {
  cpu one(1, GetParam()), three(3, GetParam());
  const floats x = normal(600001, 9);
  double exact = 0;
  for (const float v : x) exact += static_cast<double>(v) * static_cast<double>(v);
  const double sum = one.run(op::sum_of_squares{.x = x.data(), .n = 600001});
  EXPECT_NEAR(sum, exact, 1e-12 * exact);
  EXPECT_EQ(sum, three.run(op::sum_of_squares{.x = x.data(), .n = 600001}));
}

TEST_P(elementwise, unknown_set_is_refused) {
  try {
    cpu device(1, "avx51");
    FAIL();
  } catch (const device_error& e) {
    EXPECT_NE(std::string(e.what()).find("'avx51' is not available here; this processor has "), std::string::npos)
        << e.what();
  }
}

INSTANTIATE_TEST_SUITE_P(sets, elementwise, testing::ValuesIn(rlcore_test::instruction_sets()),
                         [](const auto& each) { return each.param; });

}  // namespace
}  // namespace RLCORE_TEST_ID
