// AdamW step and sums of squares on the NPU.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "rlcore/core/elementary.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/device/npu/kernels/context.hpp"

RLCORE_BEGIN
namespace ascend::kernels {

/// Float sums of blocks of x [n], computed on the device and downloaded.
std::vector<float> block_sums(context& c, const float* x, extent_t n, extent_t block);

/// Float sums of chunks of 16384 elements, added in double in order.
inline double sum_of_squares(context& c, const float* x, extent_t n) {
  double total = 0;
  for (const float s : block_sums(c, x, n, 16384)) total += static_cast<double>(s);
  return total;
}

/// ApplyAdamWV2, which takes its coefficients in float and computes 1 - beta from them: for beta2 = 0.999, 1 - beta2
/// and so v are off by 5e-5, but not the step, since v's bias correction is off by the same factor.
void adamw(context& c, float* w, float* m, float* v, const float* g, extent_t n, const adamw_step& s);

}  // namespace ascend::kernels
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_DEVICE)
RLCORE_BEGIN
namespace ascend::kernels {

RLCORE_INLINE std::vector<float> block_sums(context& c, const float* x, extent_t n, extent_t block) {
  const extent_t blocks = (n + block - 1) / block, whole = n / block;
  if (n <= 0) return {};
  const auto sums = c.take<float>(blocks);
  const auto sum = [&](const float* from, extent_t rows, extent_t width, float* to) {
    const auto squares = c.take<float>(rows * width);
    const auto values = c.rows(from, rows, width), result = c.rows(squares.data(), rows, width);
    c.mul(values, values, result);
    c.sum(result, 1, false, c.view(to, {rows}));
  };
  for_pieces(whole, block, most_temporary,
             [&](extent_t first, extent_t rows) { sum(x + first * block, rows, block, sums.data() + first); });
  if (whole < blocks) sum(x + whole * block, 1, n - whole * block, sums.data() + whole);
  std::vector<float> host(static_cast<std::size_t>(blocks));
  c.q.download(host.data(), sums.data(), host.size() * sizeof(float));
  return host;
}

RLCORE_INLINE void adamw(context& c, float* w, float* m, float* v, const float* g, extent_t n, const adamw_step& s) {
  if (n <= 0) return;
  const bool fused = static_cast<bool>(c.op().aclnnApplyAdamWV2);
  const auto steps = c.take<float>(1);
  if (fused) {
    const auto before = static_cast<float>(s.step - 1);
    c.q.upload(steps.data(), &before, sizeof before);
  }
  const double correction1 = 1 - elementary::pow(s.beta1, static_cast<double>(s.step)),
               correction2 = 1 - elementary::pow(s.beta2, static_cast<double>(s.step));
  for_pieces(n, 1, most_temporary, [&](extent_t first, extent_t count) {
    const auto part = [&](const float* p) { return c.view(p + first, {count}); };
    const auto weight = part(w), mean = part(m), square = part(v);
    const auto slopes = c.take<float>(s.gradient_scale != 1 ? count : 0);
    const auto slope = s.gradient_scale != 1 ? c.view(slopes.data(), {count}) : part(g);
    if (s.gradient_scale != 1) c.mul(part(g), s.gradient_scale, slope);
    if (fused)
      return c.run(c.op().aclnnApplyAdamWV2, weight, mean, square, nullptr, slope, c.view(steps.data(), {1}),
                   static_cast<float>(s.lr), static_cast<float>(s.beta1), static_cast<float>(s.beta2),
                   static_cast<float>(s.weight_decay), static_cast<float>(s.eps), false, false);
    const auto room = c.take<float>(count);
    const auto x = c.view(room.data(), {count});
    const auto add_times = [&](tensor_ref to, tensor_ref term, double factor) {
      c.run(c.op().aclnnAdd, to, term, c.q.scalar(factor), to);
    };
    c.sub(slope, mean, x);
    add_times(mean, x, 1 - s.beta1);
    c.mul(slope, slope, x);
    c.mul(square, static_cast<float>(s.beta2), square);
    add_times(square, x, 1 - s.beta2);
    c.run(c.op().aclnnSqrt, square, x);
    c.mul(x, static_cast<float>(1 / std::sqrt(correction2)), x);
    c.add(x, static_cast<float>(s.eps), x);
    c.run(c.op().aclnnDiv, mean, x, x);
    c.mul(weight, static_cast<float>(1 - s.lr * s.weight_decay), weight);
    add_times(weight, x, -s.lr / correction1);
  });
}

}  // namespace ascend::kernels
RLCORE_END
#endif
