// Products in bfloat16 on a cuda device are chains of steps of Hopper's tensor core, whatever the tile and the number
// of rows; products in float32 have the bits of cpu in tiles of every size.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>
#include <vector>

#include "rlcore/device/arrays.hpp"
#include "rlcore/device/every_kernel.hpp"
#include "rlcore/emulator/cuda/tensor_core.hpp"
#include "rlcore/emulator/emulated_cuda.hpp"
#include "rlcore/emulator/numerics/rounding.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using nvidia::emulated::tensor_core_sum;
using nvidia::emulated::tensor_row;
using floats = std::vector<float>;

tensor_row row_of(const std::vector<std::uint16_t>& values) {
  tensor_row row;
  for (std::size_t k = 0; k < values.size(); ++k) row.set(k, values[k]);
  return row;
}
std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }

/// tests/reference/tensor_core.py
TEST(tensor_core, adds_as_rational_numbers_say) {
  std::ifstream in(RLCORE_REFERENCE_DIR "/tensor_core.json");
  const nlohmann::json golden = nlohmann::json::parse(in);
  for (const nlohmann::json& g : golden.at("cases")) {
    const float c = std::bit_cast<float>(g.at("c").get<std::uint32_t>());
    ASSERT_EQ(bits(tensor_core_sum(row_of(g.at("a")), row_of(g.at("b")), c)), g.at("d").get<std::uint32_t>()) << g;
  }
}
TEST(tensor_core, knows_infinity_and_nan) {
  constexpr std::uint16_t one = 0x3f80, minus_one = 0xbf80, infinite = 0x7f80, nan = 0x7fc0, zero = 0;
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const auto sum = [](std::uint16_t a, std::uint16_t b, float c) {
    return tensor_core_sum(row_of({one, a}), row_of({one, b}), c);
  };
  EXPECT_EQ(sum(infinite, one, 0), infinity);
  EXPECT_EQ(sum(infinite, minus_one, 0), -infinity);
  EXPECT_EQ(sum(one, one, -infinity), -infinity);
  EXPECT_EQ(bits(sum(infinite, zero, 0)), 0x7fffffffu);
  EXPECT_EQ(bits(sum(infinite, one, -infinity)), 0x7fffffffu);
  EXPECT_EQ(bits(sum(nan, one, 0)), 0x7fffffffu);
  EXPECT_EQ(sum(0x7f00, 0x4000, 0), infinity);  // 2^128
  EXPECT_EQ(sum(one, minus_one, 0), 0);
  EXPECT_FALSE(std::signbit(tensor_core_sum({}, {}, -0.0f)));
}

/// The results of a device's products of x [rows, inputs], weight [outputs, inputs] and dy [rows, outputs].
struct products {
  floats y, dx, dweight;
};
struct problem {
  extent_t rows, outputs, inputs;
  floats x = plain_values(static_cast<std::size_t>(rows * inputs), 1);
  floats weight = plain_values(static_cast<std::size_t>(outputs * inputs), 2);
  floats dy = plain_values(static_cast<std::size_t>(rows * outputs), 3);
  floats bias = plain_values(static_cast<std::size_t>(outputs), 4);
  floats before_x = plain_values(x.size(), 5), before_weight = plain_values(weight.size(), 6);

  template <class Device>
  products on(Device& d) const {
    const weight_format f = d.compute_format();
    auto x_ = to_device(d, x), weight_ = to_device(d, weight), dy_ = to_device(d, dy), bias_ = to_device(d, bias);
    auto packed = to_device(d, std::vector<std::uint8_t>(d.packed_bytes(f, outputs, inputs)));
    auto y = to_device(d, floats(static_cast<std::size_t>(rows * outputs)));
    auto dx = to_device(d, before_x), dweight = to_device(d, before_weight);
    auto* bytes = reinterpret_cast<std::byte*>(packed.data());
    d.run(op::pack_weight{bytes, f, weight_.data(), outputs, inputs});
    d.run(op::linear_forward{y.data(), x_.data(), bytes, f, bias_.data(), rows, outputs, inputs});
    d.run(op::linear_backward_input{.dx = dx.data(),
                                    .dy = dy_.data(),
                                    .weight = weight_.data(),
                                    .rows = rows,
                                    .outputs = outputs,
                                    .inputs = inputs,
                                    .accumulate = true});
    d.run(op::linear_backward_weight{.dweight = dweight.data(),
                                     .dy = dy_.data(),
                                     .x = x_.data(),
                                     .rows = rows,
                                     .outputs = outputs,
                                     .inputs = inputs,
                                     .accumulate = true});
    products p{floats(y.size()), floats(dx.size()), floats(dweight.size())};
    y.memory().download(std::span<float>(p.y));
    dx.memory().download(std::span<float>(p.dx));
    dweight.memory().download(std::span<float>(p.dweight));
    return p;
  }
};

/// One element: steps of 16 places in order, from `start` on.
template <class A, class B>
float chain(extent_t depth, float start, A a, B b) {
  const auto bf16 = [](float v) { return ascend::emulated::to_bfloat16(v); };
  for (extent_t p = 0; p < depth; p += 16) {
    tensor_row u, v;
    for (extent_t k = p; k < p + 16 && k < depth; ++k) {
      u.set(static_cast<std::size_t>(k - p), bf16(a(k)));
      v.set(static_cast<std::size_t>(k - p), bf16(b(k)));
    }
    start = tensor_core_sum(u, v, start);
  }
  return start;
}
products chains_of(const problem& p) {
  const auto at = [](const floats& x, extent_t i, extent_t width, extent_t j) {
    return x[static_cast<std::size_t>(i * width + j)];
  };
  products all;
  for (extent_t t = 0; t < p.rows; ++t)
    for (extent_t o = 0; o < p.outputs; ++o)
      all.y.push_back(chain(
                          p.inputs, 0, [&](extent_t k) { return at(p.x, t, p.inputs, k); },
                          [&](extent_t k) { return at(p.weight, o, p.inputs, k); }) +
                      p.bias[static_cast<std::size_t>(o)]);
  for (extent_t t = 0; t < p.rows; ++t)
    for (extent_t i = 0; i < p.inputs; ++i)
      all.dx.push_back(chain(
          p.outputs, at(p.before_x, t, p.inputs, i), [&](extent_t k) { return at(p.dy, t, p.outputs, k); },
          [&](extent_t k) { return at(p.weight, k, p.inputs, i); }));
  for (extent_t o = 0; o < p.outputs; ++o)
    for (extent_t i = 0; i < p.inputs; ++i)
      all.dweight.push_back(chain(
          p.rows, at(p.before_weight, o, p.inputs, i), [&](extent_t k) { return at(p.dy, k, p.outputs, o); },
          [&](extent_t k) { return at(p.x, k, p.inputs, i); }));
  return all;
}
bool same_bits(const floats& a, const floats& b) { return std::ranges::equal(a, b, {}, bits, bits); }
void expect_equal(const products& found, const products& want, const problem& p) {
  const auto name = testing::Message() << p.rows << " rows, " << p.inputs << " -> " << p.outputs;
  EXPECT_TRUE(same_bits(found.y, want.y)) << name;
  EXPECT_TRUE(same_bits(found.dx, want.dx)) << name;
  EXPECT_TRUE(same_bits(found.dweight, want.dweight)) << name;
}

/// Rows, outputs and inputs for each kernel, at its edges and where fours are not whole or not aligned.
const std::vector<problem>& problems() {
  static const std::vector<problem> all{{1, 1, 1},    {1, 40, 33},  {5, 7, 16},   {16, 70, 130},
                                        {17, 33, 15}, {60, 65, 48}, {70, 66, 31}, {130, 257, 68}};
  return all;
}
TEST(cuda_products, in_bfloat16_are_chains_of_steps_of_16) {
  for (const std::uint64_t seed : {0u, 1u}) {
    emulated_cuda device({.compute = compute::bfloat16}, {.seed = seed});
    for (const problem& p : problems()) expect_equal(p.on(device), chains_of(p), p);
  }
}
TEST(cuda_products, in_float32_have_the_bits_of_cpu) {
  cpu host(1);
  emulated_cuda device({}, {.seed = 1});
  for (const problem& p : problems()) expect_equal(p.on(device), p.on(host), p);
  const problem deep{70, 80, 530};  // more than two sums of 256
  expect_equal(deep.on(device), deep.on(host), deep);
}
TEST(cuda_products, before_tensor_cores_have_the_bits_of_cpu) {
  cpu host(1, "portable", compute::bfloat16);
  emulated_cuda device({.compute = compute::bfloat16}, {.capability = 75});
  EXPECT_TRUE(device.gradients_in_order());
  for (const problem& p : problems()) expect_equal(p.on(device), p.on(host), p);
}

/// Law 1: a row of 130 is the row alone, and the row among 16, which other kernels compute.
TEST(cuda_products, of_a_row_do_not_depend_on_the_others) {
  emulated_cuda device({.compute = compute::bfloat16});
  const problem all{130, 257, 100};
  const floats whole = all.on(device).y;
  for (const extent_t rows : {1, 16, 40}) {
    problem some{rows, all.outputs, all.inputs};
    some.x.assign(all.x.end() - rows * all.inputs, all.x.end());
    const floats y = some.on(device).y;
    EXPECT_TRUE(std::equal(y.begin(), y.end(), whole.end() - rows * all.outputs)) << rows;
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
