// Rows, elementwise kernels and the optimizer of the npu device against the cpu.
#include <gtest/gtest.h>

#include "device/npu/counted_calls.hpp"
#include "device/npu/emulated_npu.hpp"
#include "rlcore/optim/adamw.hpp"

namespace rlcore_test::RLCORE_TEST_ID {
namespace {

template <class D>
std::vector<floats> rows_of(D& d) {
  const extent_t w = 13;
  auto table = put(d, normal(20 * w, 1)), x = put(d, normal(7 * w, 2)), y = room<float>(d, 7 * w),
       total = put(d, normal(w, 3)), sum = put(d, normal(20 * w, 4)), wide = put(d, normal(20 * (w + 4), 5)),
       plain = put(d, normal(7 * (w + 4), 6)), column = put(d, normal(20, 7));
  auto ids = put(d, indices{3, 19, 0, 3, 7, 3, 1}), different = put(d, indices{5, 2, 19, 0, 11, 6, 1});
  d.run(rlcore::op::gather_rows{.y = y, .x = table + 0, .x_rows = 20, .ids = ids, .count = 7, .width = w});
  d.run(rlcore::op::scatter_add_rows{.y = sum, .x = x, .ids = {ids, 20}, .count = 7, .width = w});
  d.run(rlcore::op::copy_rows{
      .y = wide, .y_row = w + 4, .ids = {different, 20}, .x = x, .x_row = w, .count = 7, .width = w});
  d.run(rlcore::op::copy_rows{.y = plain, .y_row = w + 4, .x = x, .x_row = w, .count = 7, .width = w});
  d.run(rlcore::op::copy_rows{
      .y = column, .y_row = 3, .x = x, .x_row = 1, .count = 6, .width = 1});  // one column of a transposed matrix
  d.run(rlcore::op::sum_rows{.total = total, .x = x, .rows = 7, .width = w});
  std::vector<floats> results{y.back(), sum.back(), wide.back(), plain.back(), column.back(), total.back()};
  d.run(rlcore::op::add{.y = y, .a = y, .b = x, .n = 7 * w});
  d.run(rlcore::op::add{.y = x, .a = y, .b = x, .n = 7 * w});
  d.run(rlcore::op::scale{.y = y, .factor = -0.3f, .n = 7 * w});
  d.run(rlcore::op::fill{.y = plain, .value = 2.5f, .n = 7 * w});
  d.fill_zero(sum, 5 * sizeof(float));
  auto scaled = room<float>(d, 7 * w), dots = room<float>(d, 7);
  d.run(rlcore::op::scale_rows{.y = scaled, .x = x, .factor = y, .rows = 7, .width = w});
  d.run(rlcore::op::dot_rows{.y = dots, .a = x, .b = y, .rows = 7, .width = w});
  d.run(rlcore::op::scale_rows{.y = y, .x = y, .factor = x, .rows = 7, .width = w});
  for (auto* m : {&y, &x, &plain, &sum, &scaled, &dots}) results.push_back(m->back());
  return results;
}

TEST(npu_rows, are_those_of_the_cpu) {
  emulated_npu on;
  cpu host(1);
  const auto got = rows_of(*on), wanted = rows_of(host);
  for (std::size_t k = 0; k < got.size(); ++k)
    if (k == 1 || k == 5 || k == 11)  // sums
      expect_near(got[k], wanted[k], 1e-6, 1e-6, "sums");
    else
      EXPECT_EQ(got[k], wanted[k]) << k;
}

TEST(npu_rows, nothing_to_do) {
  emulated_npu on;
  npu& d = *on;
  auto x = put(d, floats{1, 2});
  auto ids = put(d, indices{0});
  d.run(rlcore::op::gather_rows{.y = x, .x = x, .x_rows = 1, .ids = ids, .count = 0, .width = 2});
  d.run(rlcore::op::scatter_add_rows{.y = x, .x = x, .ids = {ids, 1}, .count = 0, .width = 2});
  d.run(rlcore::op::copy_rows{.y = x, .y_row = 2, .ids = {ids, 1}, .x = x, .x_row = 2, .count = 0, .width = 2});
  d.run(rlcore::op::copy_rows{.y = x, .y_row = 2, .x = x, .x_row = 2, .count = 0, .width = 2});
  d.run(rlcore::op::sum_rows{.total = x, .x = x, .rows = 0, .width = 2});
  d.run(rlcore::op::add{.y = x, .a = x, .b = x, .n = 0});
  d.run(rlcore::op::scale{.y = x, .factor = 2, .n = 0});
  d.run(rlcore::op::scale_rows{.y = x, .x = x, .factor = x, .rows = 0, .width = 2});
  d.run(rlcore::op::dot_rows{.y = x, .a = x, .b = x, .rows = 0, .width = 2});
  d.run(rlcore::op::fill{.y = x, .value = 2, .n = 0});
  EXPECT_EQ(d.run(rlcore::op::sum_of_squares{.x = x, .n = 0}), 0);
  d.run(rlcore::op::adamw{.weights = x, .m = x, .v = x, .gradient = x, .n = 0});
  EXPECT_EQ(x.back(), (floats{1, 2}));
}

/// A transfer to the host would wait until all that was enqueued is done.
TEST(npu_rows, numbers_of_rows_are_not_read_back) {
  counted_calls calls(emulated_calls());
  npu d(table_provider{&calls.table()}, emulated_npu::exact(compute::float32));
  auto x = put(d, floats{1, 2, 3, 4}), y = put(d, floats{10, 20, 30, 40});
  auto ids = put(d, indices{1, 0});
  calls.clear();
  d.run(rlcore::op::scatter_add_rows{.y = y, .x = x, .ids = {ids, 2}, .count = 2, .width = 2});
  d.run(rlcore::op::copy_rows{.y = x, .y_row = 2, .ids = {ids, 2}, .x = y, .x_row = 2, .count = 2, .width = 2});
  d.wait();
  EXPECT_EQ(calls.operators, 2);
  EXPECT_EQ(calls.downloads, 0);
  EXPECT_EQ(x.back(), (floats{31, 42, 13, 24}));
}

TEST(npu_optimizer, sum_of_squares) {
  emulated_npu on;
  cpu host(1);
  for (const extent_t n : {1, 100, 16384, 16385, 50000}) {
    const floats values = normal(n, 1);
    auto x = put(*on, values);
    auto y = put(host, values);
    const double wanted = host.run(op::sum_of_squares{.x = y, .n = n});
    EXPECT_NEAR(on->run(rlcore::op::sum_of_squares{.x = x, .n = n}), wanted, 1e-6 * wanted);
  }
}

template <class D>
std::array<floats, 3> steps(D& d, float gradient_scale, double decay) {
  const extent_t n = 1000;
  auto w = put(d, normal(n, 1)), m = put(d, floats(1000, 0.0f)), v = put(d, floats(1000, 0.0f));
  for (std::int64_t step = 1; step <= 4; ++step) {
    auto g = put(d, normal(n, 10 + static_cast<std::uint64_t>(step), 0.1));
    adamw_step how;
    how.lr = 1e-2, how.weight_decay = decay, how.step = step, how.gradient_scale = gradient_scale;
    d.run(rlcore::op::adamw{.weights = w, .m = m, .v = v, .gradient = g, .n = n, .step = how});
  }
  return {w.back(), m.back(), v.back()};
}

/// The operator takes beta2 in float, so that 1 - beta2 = 0.001 has an error of 5e-5 of itself: v has it too, and in
/// the step it cancels against the correction of v.
TEST(npu_optimizer, adamw) {
  cpu host(1);
  for (const bool fused : {true, false}) {
    emulated_npu on(compute::bfloat16, [&](ascend::operator_calls& op) {
      if (!fused) op.aclnnApplyAdamWV2 = {};
    });
    for (const auto& [scale, decay] : {std::pair{1.0f, 0.01}, {0.37f, 0.0}}) {
      const auto got = steps(*on, scale, decay), wanted = steps(host, scale, decay);
      expect_near(got[0], wanted[0], 1e-6, 4e-6, "w");  // steps of 1e-2 within 1e-4 of themselves
      expect_near(got[1], wanted[1], 2e-6, 1e-8, "m");
      expect_near(got[2], wanted[2], fused ? 1e-4 : 1e-6, 1e-12, "v");
    }
  }
}

/// Offloaded moments: the same bits, and between steps no byte of the NPU.
TEST(npu_optimizer, offloaded_moments_are_not_on_the_npu) {
  emulated_npu on;
  const std::size_t n = rlcore::optim::most_staged + 1000;  // two parts
  const floats first = normal(static_cast<extent_t>(n), 1), slope = normal(static_cast<extent_t>(n), 2, 0.1);
  const auto run = [&](bool host) {
    const auto in_use = [&] { return on->queue().memory().statistics().in_use; };
    auto w = put(*on, first), g = put(*on, slope);
    const std::size_t before = in_use();
    rlcore::optim::adamw<npu> o(*on, n, {.moments = {.host = host}});
    const rlcore::optim::adamw_piece whole{0, n, 0};
    for (int k = 0; k < 2; ++k) o.step(std::span(&whole, 1), w, g, 1e-2);
    EXPECT_EQ(in_use() - before >= 2 * n * sizeof(float), !host);
    EXPECT_LT(in_use() - before, host ? 4096 : 3 * n * sizeof(float));
    floats v(n);
    o.v().download(v);
    return std::pair(w.back(), v);
  };
  EXPECT_TRUE(run(true) == run(false));
}

}  // namespace
}  // namespace rlcore_test::RLCORE_TEST_ID
