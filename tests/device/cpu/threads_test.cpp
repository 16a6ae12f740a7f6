// Element-wise kernels on arrays large enough to be dealt to threads: the same bits for any number of them, and nothing
// left out or written beyond the end.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "device/cpu/sets.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using rlcore_test::normal;
using floats = std::vector<float>;

class work_sharing : public testing::TestWithParam<std::string> {
 protected:
  static constexpr extent_t rows = 701, width = 150;
  static constexpr std::size_t size = 701 * 150;

  /// What `f` makes of a device and a result of n values is the same on one thread and on three, and stays inside.
  template <class F>
  void expect_same_bits(std::size_t n, F f) {
    floats a = normal(n + 1, 20), b = a;
    cpu one(1, GetParam()), three(3, GetParam());
    f(one, a.data());
    f(three, b.data());
    EXPECT_EQ(a, b);
    EXPECT_EQ(a.back(), normal(n + 1, 20).back());
  }
  const floats x = normal(2 * size, 1), y = normal(2 * size, 2), weight = normal(150, 3);
  const norm_arguments norm{width, 1, width, weight.data(), 1e-6};
};

TEST_P(work_sharing, element_wise) {
  expect_same_bits(
      size, [&](cpu& d, float* to) { d.run(op::add{.y = to, .a = x.data(), .b = y.data(), .n = rows * width}); });
  expect_same_bits(size, [&](cpu& d, float* to) { d.run(op::scale{.y = to, .factor = 1.1f, .n = rows * width}); });
  expect_same_bits(size, [&](cpu& d, float* to) { d.run(op::fill{.y = to, .value = 3, .n = rows * width}); });
  expect_same_bits(size, [&](cpu& d, float* to) { d.fill_zero(to, size * sizeof(float)); });
  expect_same_bits(3 * size, [&](cpu& d, float* to) {
    floats v(size, 0.5f);
    d.run(op::adamw{.weights = to,
                    .m = to + size,
                    .v = v.data(),
                    .gradient = x.data(),
                    .n = rows * width,
                    .step = {.lr = 0.1, .step = 3}});
    std::copy(v.begin(), v.end(), to + 2 * size);
  });
}

TEST_P(work_sharing, rows) {
  std::vector<std::int32_t> ids(701);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>((i * 13) % 701);
  expect_same_bits(size, [&](cpu& d, float* to) {
    d.run(op::gather_rows{.y = to, .x = x.data(), .x_rows = rows, .ids = ids.data(), .count = rows, .width = width});
  });
  expect_same_bits(size, [&](cpu& d, float* to) {
    d.run(op::scatter_add_rows{.y = to, .x = x.data(), .ids = {ids.data(), rows}, .count = rows, .width = width});
  });
  expect_same_bits(size, [&](cpu& d, float* to) {
    d.run(op::copy_rows{.y = to,
                        .y_row = width,
                        .ids = {ids.data(), rows},
                        .x = x.data(),
                        .x_row = 2 * width,
                        .count = rows,
                        .width = width - 1});
  });
  expect_same_bits(
      150, [&](cpu& d, float* to) { d.run(op::sum_rows{.total = to, .x = x.data(), .rows = rows, .width = width}); });
}

TEST_P(work_sharing, norms_and_activations) {
  floats rstd(701, 0.7f);
  expect_same_bits(size, [&](cpu& d, float* to) {
    d.run(
        op::rms_norm_forward{.norm = norm, .y = to, .y_row = width, .x = x.data(), .rstd = rstd.data(), .rows = rows});
  });
  expect_same_bits(size, [&](cpu& d, float* to) {
    d.run(op::rms_norm_backward{.norm = norm,
                                .dx = to,
                                .dy = y.data(),
                                .dy_row = width,
                                .x = x.data(),
                                .rstd = rstd.data(),
                                .rows = rows,
                                .accumulate = true});
  });
  expect_same_bits(150, [&](cpu& d, float* to) {
    d.run(op::rms_norm_backward_weight{.norm = norm,
                                       .dweight = to,
                                       .dy = y.data(),
                                       .dy_row = width,
                                       .x = x.data(),
                                       .rstd = rstd.data(),
                                       .rows = rows});
  });
  expect_same_bits(size, [&](cpu& d, float* to) {
    d.run(op::swiglu_forward{.y = to, .gate_up = x.data(), .rows = rows, .width = width});
  });
  expect_same_bits(2 * size, [&](cpu& d, float* to) {
    d.run(op::swiglu_backward{.dgate_up = to, .dy = y.data(), .gate_up = x.data(), .rows = rows, .width = width});
  });
}

TEST_P(work_sharing, a_sum_and_its_norm_in_one_pass) {
  floats sum(size), normed(size), rstd(701), same = x, normed_too(size), rstd_too(701);
  same.resize(size);
  cpu one(1, GetParam()), three(3, GetParam());
  one.run(op::add{.y = sum.data(), .a = x.data(), .b = y.data(), .n = rows * width});
  one.run(op::rms_norm_forward{
      .norm = norm, .y = normed.data(), .y_row = width, .x = sum.data(), .rstd = rstd.data(), .rows = rows});
  three.run(op::add_rms_norm_forward{.norm = norm,
                                     .total = same.data(),
                                     .a = same.data(),
                                     .b = y.data(),
                                     .y = normed_too.data(),
                                     .rstd = rstd_too.data(),
                                     .rows = rows});
  EXPECT_EQ(sum, same);
  EXPECT_EQ(normed, normed_too);
  EXPECT_EQ(rstd, rstd_too);
}

INSTANTIATE_TEST_SUITE_P(sets, work_sharing, testing::ValuesIn(rlcore_test::instruction_sets()),
                         [](const auto& each) { return each.param; });

/// Large blocks lie on huge pages, which start at multiples of 2 MiB; all are writable to their last byte.
TEST(memory, is_aligned) {
  cpu device(1);
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, std::size_t{100}, std::size_t{2} << 20, (std::size_t{5} << 20) + 13}) {
    auto* p = static_cast<unsigned char*>(device.allocate(bytes));
    ASSERT_NE(p, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % (bytes >> 21 ? std::size_t{2} << 20 : 64), 0u);
    for (std::size_t i = 0; i < bytes; i += 4096) p[i] = 1;
    if (bytes) p[bytes - 1] = 1;
    device.release(p);
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
