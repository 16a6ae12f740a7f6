// RMSNorm on the NPU, forward and backward.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "rlcore/device/device.hpp"
#include "rlcore/device/npu/kernels/context.hpp"

RLCORE_BEGIN
namespace ascend::kernels {

/// Row t of a norm's pieces: [n, groups, width].
template <class T>
tensor_argument norm_rows(const context& c, const norm_arguments& a, const T* p, extent_t n, extent_t row) {
  return c.view(p, {n, a.groups, a.width}, {row, a.width, 1});
}

/// y = weight (x rstd), one rounding of the products; rstd = (mean x^2 + eps)^-1/2. If the rows of y have gaps, the
/// operator writes to a temporary first.
void rms_norm_forward(context& c, const norm_arguments& a, float* y, extent_t y_row, const float* x, float* rstd,
                      extent_t t);

/// total = a + b and its norm.
void add_rms_norm_forward(context& c, const norm_arguments& n, float* total, const float* a, const float* b, float* y,
                          float* rstd, extent_t t);

/// Both gradients of a norm come from one operator. The weight's gradient is requested first; that of x is kept for the
/// next call.
class norm_gradients {
 public:
  /// dweight += dy xn.
  void of_weight(context& c, const norm_arguments& a, float* dweight, const float* dy, extent_t dy_row, const float* x,
                 const float* rstd, extent_t t);
  /// dx (+)= rstd (weight dy - xn mean(weight dy xn)).
  void of_input(context& c, const norm_arguments& a, float* dx, const float* dy, extent_t dy_row, const float* x,
                const float* rstd, extent_t t, bool accumulate);

 private:
  static void gradient(const context& c, const norm_arguments& a, tensor_ref dx, tensor_ref dgamma, const float* dy,
                       extent_t dy_row, const float* x, const float* rstd, extent_t first, extent_t n) {
    c.run(c.op().aclnnRmsNormGrad, norm_rows(c, a, dy + first * dy_row, n, dy_row),
          norm_rows(c, a, x + first * a.row, n, a.row), c.view(rstd + first * a.groups, {n, a.groups}),
          c.view(a.weight, {a.width}), dx, dgamma);
  }

  std::optional<scratch<float>> kept_;
  std::array<const float*, 4> asked_{};
  std::uint64_t after_ = 0;
};

}  // namespace ascend::kernels
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_DEVICE)
RLCORE_BEGIN
namespace ascend::kernels {

RLCORE_INLINE void rms_norm_forward(context& c, const norm_arguments& a, float* y, extent_t y_row, const float* x,
                                    float* rstd, extent_t t) {
  const extent_t width = a.groups * a.width;
  for_pieces(t, width, most_elements, [&](extent_t first, extent_t n) {
    const auto room = c.take<float>(y_row == width ? 0 : n * width);
    const auto result = c.view(y_row == width ? y + first * width : room.data(), {n, a.groups, a.width});
    c.run(c.op().aclnnRmsNorm, norm_rows(c, a, x + first * a.row, n, a.row), c.view(a.weight, {a.width}), a.eps, result,
          c.view(rstd + first * a.groups, {n, a.groups, 1}));
    if (y_row != width) c.copy(norm_rows(c, a, y + first * y_row, n, y_row), result);
  });
}

RLCORE_INLINE void add_rms_norm_forward(context& c, const norm_arguments& n, float* total, const float* a,
                                        const float* b, float* y, float* rstd, extent_t t) {
  const extent_t w = n.width;
  const bool fused = c.op().aclnnAddRmsNorm && total != a && total != b;
  for_pieces(t, w, most_elements, [&](extent_t first, extent_t m) {
    const auto left = c.rows(a + first * w, m, w), right = c.rows(b + first * w, m, w),
               sum = c.rows(total + first * w, m, w), to = c.rows(y + first * w, m, w),
               deviation = c.view(rstd + first, {m, 1}), weight = c.view(n.weight, {w});
    if (fused) return c.run(c.op().aclnnAddRmsNorm, left, right, weight, n.eps, to, deviation, sum);
    c.add(left, right, sum);
    c.run(c.op().aclnnRmsNorm, sum, weight, n.eps, to, deviation);
  });
}

RLCORE_INLINE void norm_gradients::of_weight(context& c, const norm_arguments& a, float* dweight, const float* dy,
                                             extent_t dy_row, const float* x, const float* rstd, extent_t t) {
  kept_.reset();
  const bool whole = t * a.groups * a.width <= most_elements;
  for_pieces(t, a.groups * a.width, most_elements, [&](extent_t first, extent_t n) {
    const auto dgamma = c.take<float>(a.width);
    kept_ = c.take<float>(n * a.groups * a.width);
    gradient(c, a, c.view(kept_->data(), {n, a.groups, a.width}), c.view(dgamma.data(), {a.width}), dy, dy_row, x, rstd,
             first, n);
    c.add(c.view(dweight, {a.width}), c.view(dgamma.data(), {a.width}), c.view(dweight, {a.width}));
  });
  if (!whole) kept_.reset();
  asked_ = {a.weight, dy, x, rstd};
  after_ = c.operations;
}

RLCORE_INLINE void norm_gradients::of_input(context& c, const norm_arguments& a, float* dx, const float* dy,
                                            extent_t dy_row, const float* x, const float* rstd, extent_t t,
                                            bool accumulate) {
  const std::array<const float*, 4> asked{a.weight, dy, x, rstd};
  if (kept_ && (after_ != c.operations || asked != asked_ || kept_->size() != t * a.groups * a.width)) kept_.reset();
  const bool known = kept_.has_value();
  for_pieces(t, a.groups * a.width, most_elements, [&](extent_t first, extent_t n) {
    const auto to = norm_rows(c, a, dx + first * dy_row, n, dy_row);
    const bool direct = !known && dx != dy && !accumulate && dy_row == a.groups * a.width;
    if (!known) {
      const auto dgamma = c.take<float>(a.width);
      if (!direct) kept_ = c.take<float>(n * a.groups * a.width);
      const auto room = c.view(direct ? nullptr : kept_->data(), {n, a.groups, a.width});
      gradient(c, a, direct ? to : room, c.view(dgamma.data(), {a.width}), dy, dy_row, x, rstd, first, n);
    }
    if (direct) return;
    const auto result = c.view(kept_->data(), {n, a.groups, a.width});
    if (accumulate)
      c.add(to, result, to);
    else
      c.copy(to, result);
  });
  kept_.reset();
}

}  // namespace ascend::kernels
RLCORE_END
#endif
