// The kernels of a cuda device have the bits of cpu, whatever the order in which a block's threads run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rlcore/device/arrays.hpp"
#include "rlcore/device/every_kernel.hpp"
#include "rlcore/emulator/emulated_cuda.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;

/// The results that do not show a layout, which is the device's own.
std::vector<every_kernel<cpu>::result> expected(compute type) {
  cpu device(1, type == compute::bfloat16 ? "portable" : "", type);
  std::vector<every_kernel<cpu>::result> results;
  const every_kernel<cpu> all(device);
  for (const auto& r : all.results())
    if (r.kernel != "pack_weight" && r.kernel != "store_keys_values" && r.kernel != "sample_blocks" &&
        r.kernel != "sample_weights" && r.kernel != "exp")
      results.push_back(r);
  return results;
}

void compare(compute type, const nvidia::emulator_settings& machine, bool products = true) {
  const auto want = expected(type);
  emulated_cuda device({.compute = type}, machine);
  const every_kernel<cuda> all(device);
  ASSERT_EQ(all.results().size(), want.size());
  for (std::size_t k = 0; k < want.size(); ++k) {
    ASSERT_EQ(all.results()[k].kernel, want[k].kernel) << "result " << k;
    if (!products && want[k].kernel.starts_with("linear_")) continue;
    EXPECT_TRUE(all.results()[k].bytes == want[k].bytes) << want[k].kernel << ", result " << k;
  }
}

TEST(cuda_kernels, have_the_bits_of_cpu) { compare(compute::float32, {}); }
TEST(cuda_kernels, have_them_in_any_order_of_threads) {
  compare(compute::float32, {.seed = 1});
  compare(compute::float32, {.seed = 2});
}
/// But for products, which tensor cores add up in another order: tensor_products_test.cpp.
TEST(cuda_kernels, have_them_in_bfloat16) {
  compare(compute::bfloat16, {}, false);
  compare(compute::bfloat16, {.capability = 75});
}

/// Attention over three parts of the keys, forward in ascending and backward in descending order, as a ring takes them.
template <class Device>
std::vector<float> attention_in_parts(Device& device) {
  constexpr extent_t rows = 150, heads = 4, kv_heads = 2, d = 20, row = (heads + 2 * kv_heads) * d, out_row = heads * d;
  const auto up = [&](const std::vector<float>& host) { return to_device(device, host); };
  auto qkv = up(plain_values(rows * row, 1)), dout = up(plain_values(rows * out_row, 2));
  auto out = up(std::vector<float>(rows * out_row)), statistics = up(std::vector<float>(rows * heads * 2)),
       gradient = up(std::vector<float>(rows * row));
  const attention_shape shape{heads, kv_heads, d, 0.3f};
  const extent_t bounds[] = {0, 64, 128, 1000};
  const auto segment = [&](extent_t begin) {
    const float* keys = qkv.data() + begin * row + out_row;
    return attention_segment{keys, keys + kv_heads * d, row, 0, rows, 0};
  };
  for (int k = 0; k < 3; ++k) {
    const attention_segment s = segment(bounds[k]);
    const attention_part part{bounds[k], bounds[k + 1], k > 0, k == 2};
    device.run(op::attention_forward_part{{shape, {&s, 1}, qkv.data(), row, out.data(), out_row, statistics.data()},
                                          {&part, 1}});
  }
  for (int k = 2; k >= 0; --k) {
    const attention_segment s = segment(bounds[k]);
    float* keys = gradient.data() + bounds[k] * row + out_row;
    const attention_segment_gradient to{keys, keys + kv_heads * d};
    const attention_part part{bounds[k], bounds[k + 1], k < 2, true};
    device.run(op::attention_backward_part{{shape,
                                            {&s, 1},
                                            {&to, 1},
                                            qkv.data(),
                                            row,
                                            out.data(),
                                            dout.data(),
                                            out_row,
                                            statistics.data(),
                                            gradient.data()},
                                           {&part, 1}});
  }
  std::vector<float> all(rows * out_row), slopes(rows * row);
  out.memory().download(std::span<float>(all));
  gradient.memory().download(std::span<float>(slopes));
  all.insert(all.end(), slopes.begin(), slopes.end());
  return all;
}
TEST(cuda_kernels, attend_to_keys_in_parts) {
  cpu host(1);
  emulated_cuda device({}, {.seed = 3});
  EXPECT_EQ(attention_in_parts(device), attention_in_parts(host));
}

TEST(cuda_kernels, read_rows_of_packed_weights) {
  emulated_cuda device;
  cpu host(1);
  const std::vector<float> weight = plain_values(7 * 33, 1);
  const std::vector<std::int32_t> ids{6, 0, 3, 3};
  const auto rows = [&](auto& d, weight_format format) {
    const auto w = to_device(d, weight);
    const auto i = to_device(d, ids);
    auto packed = to_device(d, std::vector<std::uint8_t>(d.packed_bytes(format, 7, 33)));
    auto y = to_device(d, std::vector<float>(ids.size() * 33));
    auto* bytes = reinterpret_cast<std::byte*>(packed.data());
    d.run(op::pack_weight{bytes, format, w.data(), 7, 33});
    d.run(op::gather_packed_rows{y.data(), bytes, format, i.data(), 4, 33});
    std::vector<float> found(ids.size() * 33);
    y.memory().download(std::span<float>(found));
    return found;
  };
  for (const weight_format f : {weight_format::float32, weight_format::bfloat16, weight_format::bfloat16_exact})
    EXPECT_EQ(rows(device, f), rows(host, f));
}

/// Large weights are packed in strips of a multiple of 32 rows, and read from the first of them.
TEST(cuda_kernels, read_weights_that_were_packed_in_strips) {
  constexpr extent_t outputs = 70, inputs = 33, rows = 3;
  cpu host(1);
  emulated_cuda device;
  const auto product = [&](auto& d, weight_format format) {
    auto w = to_device(d, plain_values(outputs * inputs, 1));
    auto x = to_device(d, plain_values(rows * inputs, 2));
    auto packed = to_device(d, std::vector<std::uint8_t>(d.packed_bytes(format, outputs, inputs)));
    auto y = to_device(d, std::vector<float>(rows * outputs));
    auto* bytes = reinterpret_cast<std::byte*>(packed.data());
    for (extent_t first = 0; first < outputs; first += 32)
      d.run(op::pack_weight{bytes + d.packed_bytes(format, first, inputs), format, w.data() + first * inputs,
                            std::min<extent_t>(32, outputs - first), inputs});
    d.run(op::linear_forward{y.data(), x.data(), bytes, format, nullptr, rows, outputs, inputs});
    std::vector<float> found(rows * outputs);
    y.memory().download(std::span<float>(found));
    return found;
  };
  for (const weight_format f :
       {weight_format::float32, weight_format::bfloat16, weight_format::int8, weight_format::bfloat16_exact})
    EXPECT_EQ(product(device, f), product(host, f)) << static_cast<int>(f);
}

/// Calls without rows, and products of nothing.
TEST(cuda_kernels, take_nothing) {
  emulated_cuda device;
  auto y = to_device(device, std::vector<float>{1, 2});
  const std::uint64_t before = nvidia::calls_of_emulator().launches;
  device.run(op::add{.y = y.data(), .a = y.data(), .b = y.data(), .n = 0});
  device.run(op::rms_norm_forward{.norm = {2, 1, 2, y.data()}, .y = y.data(), .y_row = 2, .x = y.data(), .rows = 0});
  device.run(op::log_prob_forward{.rows = 0, .vocabulary = 5});
  EXPECT_EQ(device.run(op::sum_of_squares{.x = y.data(), .n = 0}), 0);
  EXPECT_EQ(nvidia::calls_of_emulator().launches, before);
  device.run(op::linear_backward_weight{
      .dweight = y.data(), .dy = nullptr, .x = nullptr, .rows = 0, .outputs = 1, .inputs = 2, .accumulate = true});
  std::vector<float> found(2);
  y.memory().download(std::span<float>(found));
  EXPECT_EQ(found, (std::vector<float>{1, 2}));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
