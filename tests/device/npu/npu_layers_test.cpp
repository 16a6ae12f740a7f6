// Norms, rotary positions and SwiGLU of the npu device against the cpu, in float.
#include <gtest/gtest.h>

#include "device/npu/emulated_npu.hpp"

namespace rlcore_test::RLCORE_TEST_ID {
namespace {

/// Both with and without the optional operators.
const change_of_operators ways[] = {{}, [](ascend::operator_calls& op) {
                                      op.aclnnAddRmsNorm = {}, op.aclnnSwiGlu = {}, op.aclnnSwiGluGrad = {};
                                      op.aclnnRotaryPositionEmbedding = {};
                                    }};

struct norms {
  floats y, rstd, dx, dx_sum, dx_in_place, dw;
};

/// Rows x with a gap behind each, y and dy with another.
template <class D>
norms norm_of(D& d, extent_t t, extent_t groups, extent_t width) {
  const extent_t x_row = groups * width + 3, y_row = groups * width + 5;
  auto x = put(d, normal(t * x_row, 1, 2)), w = put(d, normal(width, 2)), dy = put(d, normal(t * y_row, 3));
  auto y = put(d, normal(t * y_row, 4)), dx = put(d, normal(t * y_row, 5)), sum = put(d, normal(t * y_row, 6));
  auto dw = put(d, normal(width, 7)), rstd = room<float>(d, t * groups);
  const norm_arguments n{x_row, groups, width, w, 1e-5};
  d.run(rlcore::op::rms_norm_forward{.norm = n, .y = y, .y_row = y_row, .x = x, .rstd = rstd, .rows = t});
  d.run(rlcore::op::rms_norm_backward_weight{
      .norm = n, .dweight = dw, .dy = dy, .dy_row = y_row, .x = x, .rstd = rstd, .rows = t});
  d.run(rlcore::op::rms_norm_backward{.norm = n, .dx = dx, .dy = dy, .dy_row = y_row, .x = x, .rstd = rstd, .rows = t});
  d.run(rlcore::op::rms_norm_backward{
      .norm = n, .dx = sum, .dy = dy, .dy_row = y_row, .x = x, .rstd = rstd, .rows = t, .accumulate = true});
  d.run(rlcore::op::rms_norm_backward{.norm = n, .dx = dy, .dy = dy, .dy_row = y_row, .x = x, .rstd = rstd, .rows = t});
  return {y.back(), rstd.back(), dx.back(), sum.back(), dy.back(), dw.back()};
}

TEST(npu_norm, rows_and_heads_with_gaps) {
  emulated_npu on;
  cpu host(1);
  for (const auto& [t, groups, width] : {std::array<extent_t, 3>{1, 1, 1}, {5, 1, 70}, {7, 3, 16}, {1, 4, 33}}) {
    const norms got = norm_of(*on, t, groups, width), wanted = norm_of(host, t, groups, width);
    expect_near(got.y, wanted.y, 1e-6, 1e-6, "y");
    expect_near(got.rstd, wanted.rstd, 1e-6, 0, "rstd");
    expect_near(got.dx, wanted.dx, 1e-5, 1e-5, "dx");
    expect_near(got.dx_sum, wanted.dx_sum, 1e-5, 1e-5, "dx +=");
    expect_near(got.dx_in_place, wanted.dx_in_place, 1e-5, 1e-5, "dx in place of dy");
    expect_near(got.dw, wanted.dw, 1e-5, 1e-5, "dweight");
  }
}

/// Both gradients come from one operator; the second is not kept once its sources have changed.
TEST(npu_norm, slopes_that_change_are_read_again) {
  emulated_npu on;
  cpu host(1);
  const auto run = [](auto& d) {
    auto x = put(d, normal(40, 1)), w = put(d, normal(8, 2)), dy = put(d, normal(40, 3)), y = room<float>(d, 40),
         dx = room<float>(d, 40), dw = put(d, normal(8, 4)), rstd = room<float>(d, 5);
    const norm_arguments n{8, 1, 8, w, 1e-6};
    d.run(rlcore::op::rms_norm_forward{.norm = n, .y = y, .y_row = 8, .x = x, .rstd = rstd, .rows = 5});
    d.run(rlcore::op::rms_norm_backward_weight{
        .norm = n, .dweight = dw, .dy = dy, .dy_row = 8, .x = x, .rstd = rstd, .rows = 5});
    d.run(rlcore::op::scale{.y = dy, .factor = -3, .n = 40});
    d.run(rlcore::op::rms_norm_backward{.norm = n, .dx = dx, .dy = dy, .dy_row = 8, .x = x, .rstd = rstd, .rows = 5});
    const floats first = dx.back();
    d.run(rlcore::op::rms_norm_backward_weight{
        .norm = n, .dweight = dw, .dy = dy, .dy_row = 8, .x = x, .rstd = rstd, .rows = 5});
    d.upload(dy.data(), normal(40, 9).data(), 40 * sizeof(float));
    d.run(rlcore::op::rms_norm_backward{
        .norm = n, .dx = dx, .dy = dy, .dy_row = 8, .x = x, .rstd = rstd, .rows = 5, .accumulate = true});
    return std::array{first, dx.back(), dw.back()};
  };
  const auto got = run(*on), wanted = run(host);
  for (std::size_t k = 0; k < 3; ++k) expect_near(got[k], wanted[k], 1e-5, 1e-5, "gradient");
}

template <class D>
std::array<floats, 3> sum_and_norm(D& d, extent_t t, extent_t w, int in_place) {
  auto a = put(d, normal(t * w, 1)), b = put(d, normal(t * w, 2)), weight = put(d, normal(w, 3));
  auto total = room<float>(d, t * w), y = room<float>(d, t * w), rstd = room<float>(d, t);
  float* to = in_place == 0 ? total.data() : in_place == 1 ? a.data() : b.data();
  d.run(rlcore::op::add_rms_norm_forward{
      .norm = {w, 1, w, weight, 1e-6}, .total = to, .a = a, .b = b, .y = y, .rstd = rstd, .rows = t});
  return {in_place == 0 ? total.back() : in_place == 1 ? a.back() : b.back(), y.back(), rstd.back()};
}

TEST(npu_norm, of_a_sum) {
  cpu host(1);
  for (const auto& way : ways) {
    emulated_npu on(compute::bfloat16, way);
    for (const int in_place : {0, 1, 2}) {
      const auto got = sum_and_norm(*on, 6, 50, in_place), wanted = sum_and_norm(host, 6, 50, in_place);
      EXPECT_EQ(got[0], wanted[0]);
      expect_near(got[1], wanted[1], 1e-6, 1e-6, "y");
      expect_near(got[2], wanted[2], 1e-6, 0, "rstd");
    }
  }
}

/// Two layers of one pass over [q | k | v] rows; of `positions` the first t are used. Then other positions from the
/// same memory.
template <class D>
std::array<floats, 3> turned(D& d, extent_t t, extent_t heads, extent_t width, extent_t gap) {
  const extent_t half = width / 2, table = 40, row = heads * width + gap;
  floats cosine, sine;
  for (extent_t p = 0; p < table; ++p)
    for (extent_t j = 0; j < half; ++j) {
      const double angle = static_cast<double>(p) / std::pow(100.0, static_cast<double>(j) / static_cast<double>(half));
      cosine.push_back(static_cast<float>(std::cos(angle))), sine.push_back(static_cast<float>(std::sin(angle)));
    }
  indices where, later;
  for (extent_t k = 0; k < t; ++k) {
    where.push_back(static_cast<std::int32_t>((k * 7 + 3) % table));
    later.push_back(static_cast<std::int32_t>((k * 11 + 1) % table));
  }
  auto co = put(d, cosine), si = put(d, sine), x = put(d, normal(t * row, 1)), y = put(d, normal(t * row, 2)),
       z = put(d, normal(t * row, 3));
  auto positions = put(d, where);
  d.run(rlcore::op::rope{.x = x,
                         .row = row,
                         .heads = heads,
                         .head_dim = width,
                         .positions = positions,
                         .cosine = co,
                         .sine = si,
                         .rows = t});
  d.run(rlcore::op::rope{.x = y,
                         .row = row,
                         .heads = heads,
                         .head_dim = width,
                         .positions = positions,
                         .cosine = co,
                         .sine = si,
                         .rows = t,
                         .inverse = true});
  d.upload(positions.data(), later.data(), later.size() * sizeof(std::int32_t));
  d.run(rlcore::op::rope{.x = z,
                         .row = row,
                         .heads = heads,
                         .head_dim = width,
                         .positions = positions,
                         .cosine = co,
                         .sine = si,
                         .rows = t});
  return {x.back(), y.back(), z.back()};
}

TEST(npu_rope, turns_and_turns_back) {
  cpu host(1);
  for (const auto& way : ways) {
    emulated_npu on(compute::bfloat16, way);
    for (const auto& [t, heads, width, gap] :
         {std::array<extent_t, 4>{1, 1, 2, 0}, {5, 3, 8, 16}, {9, 2, 10, 0}, {1, 4, 64, 7}}) {
      const auto got = turned(*on, t, heads, width, gap), wanted = turned(host, t, heads, width, gap);
      for (std::size_t k = 0; k < 3; ++k) expect_near(got[k], wanted[k], 1e-6, 1e-6, "x");
    }
  }
}

template <class D>
std::array<floats, 3> activated(D& d, extent_t t, extent_t w) {
  auto gate_up = put(d, normal(t * 2 * w, 1, 3)), dy = put(d, normal(t * w, 2)), y = room<float>(d, t * w),
       slopes = room<float>(d, t * 2 * w);
  d.run(rlcore::op::swiglu_forward{.y = y, .gate_up = gate_up, .rows = t, .width = w});
  d.run(rlcore::op::swiglu_backward{.dgate_up = slopes, .dy = dy, .gate_up = gate_up, .rows = t, .width = w});
  d.run(rlcore::op::swiglu_backward{.dgate_up = gate_up, .dy = dy, .gate_up = gate_up, .rows = t, .width = w});
  return {y.back(), slopes.back(), gate_up.back()};
}

TEST(npu_swiglu, forward_and_backward) {
  cpu host(1);
  for (const auto& way : ways) {
    emulated_npu on(compute::bfloat16, way);
    for (const auto& [t, w] : {std::array<extent_t, 2>{1, 1}, {5, 16}, {3, 37}, {2, 48}}) {
      const auto got = activated(*on, t, w), wanted = activated(host, t, w);
      for (std::size_t k = 0; k < 3; ++k) expect_near(got[k], wanted[k], 2e-6, 2e-6, "swiglu");
      EXPECT_EQ(got[1], got[2]);
    }
  }
}

TEST(npu_gelu, forward_and_backward) {
  cpu host(1);
  emulated_npu on;
  const auto run = [](auto& d) {
    floats values = normal(300, 1, 3);
    for (int i = 0; i < 20; ++i) values.push_back(static_cast<float>(i - 10));
    const auto n = static_cast<extent_t>(values.size());
    auto x = put(d, values), y = room<float>(d, n), dx = put(d, normal(n, 2));
    d.run(rlcore::op::gelu_forward{.y = y, .x = x, .n = n});
    d.run(rlcore::op::gelu_backward{.dx = dx, .dy = dx, .x = x, .n = n});
    return std::array{y.back(), dx.back()};
  };
  const auto got = run(*on), wanted = run(host);
  expect_near(got[0], wanted[0], 1e-6, 1e-6, "gelu");
  expect_near(got[1], wanted[1], 1e-6, 1e-6, "its slope");
}

TEST(npu_layers, nothing_to_do) {
  emulated_npu on;
  npu& d = *on;
  auto p = put(d, floats{1, 2});
  auto ids = put(d, indices{0});
  const norm_arguments n{2, 1, 2, p, 1e-6};
  d.run(rlcore::op::rms_norm_forward{.norm = n, .y = p, .y_row = 2, .x = p, .rstd = p, .rows = 0});
  d.run(rlcore::op::add_rms_norm_forward{.norm = n, .total = p, .a = p, .b = p, .y = p, .rstd = p, .rows = 0});
  d.run(rlcore::op::rms_norm_backward{
      .norm = n, .dx = p, .dy = p, .dy_row = 2, .x = p, .rstd = p, .rows = 0, .accumulate = true});
  d.run(rlcore::op::rms_norm_backward_weight{
      .norm = n, .dweight = p, .dy = p, .dy_row = 2, .x = p, .rstd = p, .rows = 0});
  d.run(rlcore::op::rope{
      .x = p, .row = 2, .heads = 1, .head_dim = 2, .positions = ids, .cosine = p, .sine = p, .rows = 0});
  d.run(rlcore::op::swiglu_forward{.y = p, .gate_up = p, .rows = 0, .width = 2});
  d.run(rlcore::op::swiglu_backward{.dgate_up = p, .dy = p, .gate_up = p, .rows = 0, .width = 2});
  d.run(rlcore::op::gelu_forward{.y = p, .x = p, .n = 0});
  d.run(rlcore::op::gelu_backward{.dx = p, .dy = p, .x = p, .n = 0});
  EXPECT_EQ(p.back(), (floats{1, 2}));
}

}  // namespace
}  // namespace rlcore_test::RLCORE_TEST_ID
