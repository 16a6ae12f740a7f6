// Attention of a cuda device in tiles of 64 rows and keys has the bits of cpu: several sequences, heads of many sizes,
// rows that attend to all keys, values that are not finite.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "rlcore/device/arrays.hpp"
#include "rlcore/device/every_kernel.hpp"
#include "rlcore/emulator/emulated_cuda.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using floats = std::vector<float>;

struct attention_problem {
  attention_shape shape;
  std::vector<extent_t> lengths;
  floats qkv;

  attention_problem(attention_shape s, std::vector<extent_t> l)
      : shape(s), lengths(std::move(l)), qkv(plain_values(static_cast<std::size_t>(rows() * width()), 1)) {}
  extent_t rows() const {
    extent_t n = 0;
    for (const extent_t l : lengths) n += l;
    return n;
  }
  extent_t width() const { return (shape.heads + 2 * shape.kv_heads) * shape.head_dim; }

  /// Outputs, statistics and the gradient of qkv.
  template <class Device>
  floats on(Device& d) const {
    const extent_t out_row = shape.heads * shape.head_dim, row = width(), kv = shape.kv_heads * shape.head_dim;
    const auto x = to_device(d, qkv), dout = to_device(d, plain_values(static_cast<std::size_t>(rows() * out_row), 2));
    auto out = to_device(d, floats(static_cast<std::size_t>(rows() * out_row)));
    auto statistics = to_device(d, floats(static_cast<std::size_t>(rows() * shape.heads * 2)));
    auto gradient = to_device(d, plain_values(qkv.size(), 3));
    std::vector<attention_segment> segments;
    std::vector<attention_segment_gradient> gradients;
    extent_t first = 0;
    for (const extent_t l : lengths) {
      const float* const keys = x.data() + first * row + out_row;
      float* const to = gradient.data() + first * row + out_row;
      segments.push_back({keys, keys + kv, row, first, l, 0});
      gradients.push_back({to, to + kv});
      first += l;
    }
    d.run(op::attention_forward{shape, segments, x.data(), row, out.data(), out_row, statistics.data()});
    d.run(op::attention_backward{.shape = shape,
                                 .segments = segments,
                                 .gradients = gradients,
                                 .q = x.data(),
                                 .q_row = row,
                                 .out = out.data(),
                                 .dout = dout.data(),
                                 .out_row = out_row,
                                 .statistics = statistics.data(),
                                 .dq = gradient.data()});
    floats all;
    for (const auto* part : {&out, &statistics, &gradient}) {
      floats host(part->size());
      part->memory().download(std::span<float>(host));
      all.insert(all.end(), host.begin(), host.end());
    }
    return all;
  }
};

/// Where both are NaN, they may be different ones. With `masked_nan`, gradients may be NaN on the CPU alone, whose
/// lanes multiply what is masked by 0.
void expect_the_bits_of_cpu(const attention_problem& p, std::uint64_t seed, bool masked_nan = false) {
  cpu host(1);
  emulated_cuda device({}, {.seed = seed});
  const floats found = p.on(device), want = p.on(host);
  ASSERT_EQ(found.size(), want.size());
  std::size_t others = 0;
  const std::size_t gradients = want.size() - p.qkv.size();
  for (std::size_t k = 0; k < want.size(); ++k) {
    const bool may_differ = std::isnan(found[k]) || (masked_nan && k >= gradients);
    const bool equal = std::bit_cast<std::uint32_t>(found[k]) == std::bit_cast<std::uint32_t>(want[k]);
    others += !equal && !(std::isnan(want[k]) && may_differ);
  }
  EXPECT_EQ(others, 0u) << "of " << want.size() << ": heads of " << p.shape.head_dim << ", seed " << seed;
}

TEST(cuda_attention, in_tiles_has_the_bits_of_cpu) {
  for (const extent_t head_dim : {6, 64, 96, 128, 136})
    for (const std::uint64_t seed : {0u, 1u})
      expect_the_bits_of_cpu({{4, 2, head_dim, 0.2f}, {1, 9, 64, 65, 131}}, seed);
}
TEST(cuda_attention, of_a_tile_of_nine_heads_of_a_row_too) {
  expect_the_bits_of_cpu({{9, 1, 32, 0.2f}, {40}}, 1);  // a row's heads lie in two tiles
}
TEST(cuda_attention, to_all_keys_has_them_too) {
  expect_the_bits_of_cpu({{.heads = 4, .kv_heads = 4, .head_dim = 20, .scale = 0.2f, .causal = false}, {70, 12, 130}},
                         2);
}
TEST(cuda_attention, keeps_what_is_not_finite_in_its_row) {
  attention_problem p({4, 2, 64, 0.2f}, {70, 90});
  const auto at = [&](extent_t row, extent_t column) -> float& {
    return p.qkv[static_cast<std::size_t>(row * p.width() + column)];
  };
  const extent_t keys = 4 * 64, values = keys + 2 * 64;
  at(3, 5) = std::numeric_limits<float>::quiet_NaN();
  at(80, keys + 7) = std::numeric_limits<float>::infinity();
  at(100, values + 70) = -std::numeric_limits<float>::infinity();
  at(158, values + 1) = std::numeric_limits<float>::quiet_NaN();
  expect_the_bits_of_cpu(p, 1, true);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
