// Matrix products of the npu device against the cpu.
#include <gtest/gtest.h>

#include <span>

#include "device/npu/emulated_npu.hpp"

namespace rlcore_test::RLCORE_TEST_ID {
namespace {

struct shape {
  extent_t t, o, i;
};
constexpr shape shapes[] = {{1, 1, 1}, {5, 7, 3}, {3, 130, 33}, {37, 48, 129}, {2, 1, 64}},
                aligned[] = {{16, 32, 48}, {128, 130, 144}};

/// y, dx, dweight written, dweight and dx added to, in this order.
struct products {
  floats y, dx, dw, dx_sum, dw_sum;
};

struct problem {
  shape s;
  floats x = normal(s.t * s.i, 1), w = normal(s.o * s.i, 2, 0.3), b = normal(s.o, 3), dy = normal(s.t * s.o, 4),
         dx0 = normal(s.t * s.i, 5), dw0 = normal(s.o * s.i, 6);
};

template <class D>
products multiply(D& d, const problem& p, bool bias) {
  const auto [t, o, i] = p.s;
  auto x = put(d, p.x), w = put(d, p.w), b = put(d, p.b), dy = put(d, p.dy), dx = put(d, p.dx0), dw = put(d, p.dw0);
  auto y = room<float>(d, t * o), first_dx = room<float>(d, t * i), first_dw = room<float>(d, o * i);
  auto packed = room<std::byte>(d, static_cast<extent_t>(d.packed_bytes(d.compute_format(), o, i)));
  d.run(
      rlcore::op::pack_weight{.packed = packed, .format = d.compute_format(), .weight = w, .outputs = o, .inputs = i});
  d.run(rlcore::op::linear_forward{.y = y,
                                   .x = x,
                                   .packed = packed,
                                   .format = d.compute_format(),
                                   .bias = bias ? b.data() : nullptr,
                                   .rows = t,
                                   .outputs = o,
                                   .inputs = i});
  d.run(rlcore::op::linear_backward_input{.dx = first_dx, .dy = dy, .weight = w, .rows = t, .outputs = o, .inputs = i});
  auto from_packed = room<float>(d, t * i);
  d.run(rlcore::op::linear_backward_input{.dx = from_packed,
                                          .dy = dy,
                                          .weight = w,
                                          .packed = packed,
                                          .format = d.compute_format(),
                                          .rows = t,
                                          .outputs = o,
                                          .inputs = i});
  EXPECT_EQ(from_packed.back(), first_dx.back());
  d.run(
      rlcore::op::linear_backward_weight{.dweight = first_dw, .dy = dy, .x = x, .rows = t, .outputs = o, .inputs = i});
  d.run(rlcore::op::linear_backward_input{
      .dx = dx, .dy = dy, .weight = w, .rows = t, .outputs = o, .inputs = i, .accumulate = true});
  d.run(rlcore::op::linear_backward_weight{
      .dweight = dw, .dy = dy, .x = x, .rows = t, .outputs = o, .inputs = i, .accumulate = true});
  return {y.back(), first_dx.back(), first_dw.back(), dx.back(), dw.back()};
}

/// n eps |a| |b| for sums of n products in any order of roundings, and for `rounded` results half a bf16 unit of the
/// product.
std::vector<double> bounds(const floats& magnitude, extent_t n, double eps, const floats& result, double rounded) {
  std::vector<double> bound;
  for (std::size_t k = 0; k < magnitude.size(); ++k)
    bound.push_back(static_cast<double>(n + 8) * eps * static_cast<double>(magnitude[k]) +
                    rounded * std::abs(static_cast<double>(result[k])));
  return bound;
}

void compare(npu& d, compute type, bool rounds_products, bool rounds_weight_gradients, double eps = 0x1p-24,
             std::span<const shape> of = shapes) {
  cpu host(1, {}, type == compute::bfloat16 ? compute::bfloat16 : compute::float32), exact(1);
  for (const shape& s : of) {
    SCOPED_TRACE(testing::Message() << s.t << " x " << s.o << " x " << s.i);
    const problem p{s};
    problem m{s};  // of absolute values: the magnitudes of all sums
    for (floats* v : {&m.x, &m.w, &m.b, &m.dy, &m.dx0, &m.dw0}) *v = absolute(*v);
    for (const bool bias : {true, false}) {
      const products got = multiply(d, p, bias), wanted = multiply(host, p, bias), size = multiply(exact, m, bias),
                     plain = multiply(host, p, false);
      const double half = rounds_products ? 0x1.01p-8 : 0, weight_half = rounds_weight_gradients ? 0x1.01p-8 : 0;
      expect_within(got.y, wanted.y, bounds(size.y, s.i, eps, plain.y, half), "y");
      expect_within(got.dx, wanted.dx, bounds(size.dx, s.o, eps, plain.dx, half), "dx");
      expect_within(got.dx_sum, wanted.dx_sum, bounds(size.dx_sum, s.o, eps, plain.dx, half), "dx +=");
      expect_within(got.dw, wanted.dw, bounds(size.dw, s.t, eps, plain.dw, weight_half), "dweight");
      expect_within(got.dw_sum, wanted.dw_sum, bounds(size.dw_sum, s.t, eps, plain.dw, weight_half), "dweight +=");
    }
  }
}

TEST(npu_linear, float_products) {
  emulated_npu on(compute::float32);
  compare(*on, compute::float32, false, false);
}
TEST(npu_linear, hf32_products_keep_11_bits_of_fraction) {
  emulated_npu on(compute::hf32);
  compare(*on, compute::hf32, false, false, 0x1p-12);  // loose for long sums: both factors have an error of 2^-12
}
TEST(npu_linear, bf16_products_are_rounded_before_8_5_but_not_the_gradients_of_weights) {
  emulated_npu on(compute::bfloat16);
  compare(*on, compute::bfloat16, true, false);
}
TEST(npu_linear, bf16_products_are_float_from_9_1_on) {
  emulated_npu on(compute::bfloat16, {}, 90100);
  compare(*on, compute::bfloat16, false, false);
}
TEST(npu_linear, bf16_products_of_aligned_matrices_are_float_in_8_5) {
  emulated_npu on(compute::bfloat16, {}, 80500);
  compare(*on, compute::bfloat16, false, false, 0x1p-24, aligned);
  compare(*on, compute::bfloat16, true, false);
}
TEST(npu_linear, weight_gradients_without_grouped_matmul_add) {
  const auto change = [](ascend::operator_calls& op) { op.aclnnGroupedMatmulAdd.plan = nullptr; };
  for (const int cann : {80300, 90100}) {
    emulated_npu on(compute::bfloat16, change, cann);
    compare(*on, compute::bfloat16, cann < 90100, cann < 90100);
  }
}

TEST(npu_linear, float_weights_on_a_bf16_device_stay_float) {  // the merge of adapters
  emulated_npu on(compute::bfloat16);
  npu& d = *on;
  const problem p{{5, 7, 3}};
  auto x = put(d, p.x), w = put(d, p.w), y = room<float>(d, 35);
  auto packed = room<std::byte>(d, static_cast<extent_t>(d.packed_bytes(weight_format::float32, 7, 3)));
  d.run(rlcore::op::pack_weight{
      .packed = packed, .format = weight_format::float32, .weight = w, .outputs = 7, .inputs = 3});
  d.run(rlcore::op::linear_forward{
      .y = y, .x = x, .packed = packed, .format = weight_format::float32, .rows = 5, .outputs = 7, .inputs = 3});
  cpu host(1);
  expect_near(y.back(), multiply(host, p, false).y, 1e-6, 1e-6, "y");
}

TEST(npu_linear, tiles_of_columns_are_slices_of_the_packed_weight) {
  emulated_npu on(compute::bfloat16);
  npu& d = *on;
  const extent_t t = 3, o = 96, i = 20;
  const floats values = normal(t * i, 1), weights = normal(o * i, 2);
  auto x = put(d, values), w = put(d, weights), y = room<float>(d, t * o), part = room<float>(d, t * 32);
  auto packed = room<std::byte>(d, static_cast<extent_t>(d.packed_bytes(weight_format::bfloat16, o, i)));
  d.run(rlcore::op::pack_weight{
      .packed = packed, .format = weight_format::bfloat16, .weight = w, .outputs = o, .inputs = i});
  d.run(rlcore::op::linear_forward{
      .y = y, .x = x, .packed = packed, .format = weight_format::bfloat16, .rows = t, .outputs = o, .inputs = i});
  d.run(rlcore::op::linear_forward{.y = part,
                                   .x = x,
                                   .packed = packed + d.packed_bytes(weight_format::bfloat16, 64, i),
                                   .format = weight_format::bfloat16,
                                   .rows = t,
                                   .outputs = 32,
                                   .inputs = i});
  const floats all = y.back(), slice = part.back();
  for (extent_t r = 0; r < t; ++r)
    for (extent_t j = 0; j < 32; ++j)
      EXPECT_NEAR(slice[static_cast<std::size_t>(r * 32 + j)], all[static_cast<std::size_t>(r * o + 64 + j)], 0.02);
}

/// The slopes that were rounded for the weight's gradient serve the input's, unless they have changed in between.
TEST(npu_linear, slopes_that_change_are_read_again) {
  emulated_npu on(compute::bfloat16);
  npu& d = *on;
  const floats slopes = normal(15, 1), others = normal(15, 2), identity{1, 0, 0, 0, 1, 0, 0, 0, 1};
  auto dy = put(d, slopes), x = put(d, normal(15, 3)), w = put(d, identity), dw = room<float>(d, 9),
       dx = room<float>(d, 15), total = put(d, floats(3, 0.0f));
  const auto expect = [&](const floats& wanted, const char* what) {
    d.run(rlcore::op::linear_backward_input{.dx = dx, .dy = dy, .weight = w, .rows = 5, .outputs = 3, .inputs = 3});
    expect_near(dx.back(), wanted, 0x1.01p-8, 0, what);
  };
  d.run(rlcore::op::linear_backward_weight{.dweight = dw, .dy = dy, .x = x, .rows = 5, .outputs = 3, .inputs = 3});
  d.run(rlcore::op::sum_rows{.total = total, .x = dy, .rows = 5, .width = 3});
  expect(slopes, "the same");
  d.run(rlcore::op::linear_backward_weight{.dweight = dw, .dy = dy, .x = x, .rows = 5, .outputs = 3, .inputs = 3});
  d.upload(dy.data(), others.data(), 15 * sizeof(float));
  expect(others, "uploaded");
  d.run(rlcore::op::linear_backward_weight{.dweight = dw, .dy = dy, .x = x, .rows = 5, .outputs = 3, .inputs = 3});
  d.run(rlcore::op::scale{.y = dy, .factor = -2, .n = 15});
  floats twice = others;
  for (float& v : twice) v *= -2;
  expect(twice, "scaled");
  d.run(rlcore::op::linear_backward_weight{.dweight = dw, .dy = dy, .x = x, .rows = 5, .outputs = 3, .inputs = 3});
  d.fill_zero(dy.data(), 15 * sizeof(float));
  expect(floats(15, 0.0f), "zeroed");
}

TEST(npu_linear, nothing_to_do) {
  for (const compute type : {compute::bfloat16, compute::float32}) {
    emulated_npu on(type);
    npu& d = *on;
    auto w = put(d, normal(6, 1)), x = room<float>(d, 1), dw = put(d, normal(6, 2));
    d.run(
        rlcore::op::linear_forward{.y = x, .x = x, .format = d.compute_format(), .rows = 0, .outputs = 2, .inputs = 3});
    d.run(rlcore::op::linear_backward_input{.dx = x, .dy = x, .weight = w, .rows = 0, .outputs = 2, .inputs = 3});
    d.run(rlcore::op::linear_backward_weight{
        .dweight = dw, .dy = x, .x = x, .rows = 0, .outputs = 2, .inputs = 3, .accumulate = true});
    EXPECT_EQ(dw.back(), normal(6, 2));
    d.run(rlcore::op::linear_backward_weight{.dweight = dw, .dy = x, .x = x, .rows = 0, .outputs = 2, .inputs = 3});
    EXPECT_EQ(dw.back(), floats(6, 0.0f));
  }
}

}  // namespace
}  // namespace rlcore_test::RLCORE_TEST_ID
