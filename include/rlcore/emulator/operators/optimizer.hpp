// AdamW optimizer step.
#pragma once

#include <cmath>
#include <cstdint>
#include <utility>

#include "rlcore/emulator/operators/promotion.hpp"

RLCORE_BEGIN
namespace ascend::emulated::plans {

/// AdamW (Loshchilov, Hutter 2019) in float, with t = step + 1 (`step` is a one-element device tensor: the steps so
/// far, from 0 on; the kernel adds the 1):
///   var *= 1 - lr wd; m += (g - m)(1 - b1); v = b2 v + (1 - b2) g^2;
///   var -= lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + eps)
/// With amsgrad the largest v so far takes the place of v in the last line; maximize turns the sign of g. States of 16
/// bits are stored with ties to even in float16, away from zero in bfloat16.
kernel aclnnApplyAdamWV2(planner& p, output var, output first, output second, output largest_second, input gradient,
                         input step, float lr, float b1, float b2, float decay, float eps, bool amsgrad, bool maximize);

}  // namespace ascend::emulated::plans
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_EMULATOR)
RLCORE_BEGIN
namespace ascend::emulated::plans {

RLCORE_INLINE kernel aclnnApplyAdamWV2(planner& p, output var, output first, output second, output largest_second,
                                       input gradient, input step, float lr, float b1, float b2, float decay, float eps,
                                       bool amsgrad, bool maximize) {
  auto w = p.out(var, float_types), m = p.out(first, float_types), v = p.out(second, float_types);
  auto top = p.optional_out(largest_second, float_types);
  auto g = p.in(gradient, float_types), t = p.in(step, {data_type::float32, data_type::int64});
  p.require(m.type == w.type && v.type == w.type && (!top || top->type == w.type), "var, m and v have different types");
  p.require(g.type == w.type || w.type == data_type::float32, "the gradient's type does not go with that of var");
  p.require_shape(m, w.shape, "m");
  p.require_shape(v, w.shape, "v");
  p.require_shape(g, w.shape, "the gradient");
  if (top) p.require_shape(*top, w.shape, "the largest v");
  p.require(t.size() == 1, "step has not one element");
  if (amsgrad && !top) p.refuse(null_pointer, "amsgrad without the tensor of the largest v");
  return in_working_precision(p.machine, [=, w = std::move(w), m = std::move(m), v = std::move(v), top = std::move(top),
                                          g = std::move(g), t = std::move(t)](execution& e, auto real) {
    using Real = decltype(real);
    const Real steps = e.read<Real>(t)[0] + Real{1};
    const Real rate = static_cast<Real>(lr), beta1 = static_cast<Real>(b1), beta2 = static_cast<Real>(b2),
               tiny = static_cast<Real>(eps);
    const Real keep = Real{1} - rate * static_cast<Real>(decay);
    const Real step_size = rate / (Real{1} - std::pow(beta1, steps));
    const Real scale = Real{1} / std::sqrt(Real{1} - std::pow(beta2, steps));
    const auto w0 = e.read<Real>(w), m0 = e.read<Real>(m), v0 = e.read<Real>(v), gradient_values = e.read<Real>(g);
    const auto top0 = amsgrad ? e.read<Real>(*top) : v0;
    const auto w1 = e.result<Real>(w, true), m1 = e.result<Real>(m, true), v1 = e.result<Real>(v, true);
    const auto top1 = amsgrad ? e.result<Real>(*top, true) : std::span<Real>{};
    for (std::size_t i = 0; i < w1.size(); ++i) {
      const Real d = maximize ? -gradient_values[i] : gradient_values[i];
      const Real decayed = w0[i] * keep;
      m1[i] = m0[i] + (d - m0[i]) * (Real{1} - beta1);
      v1[i] = beta2 * v0[i] + (Real{1} - beta2) * (d * d);
      Real second_moment = v1[i];
      if (amsgrad) second_moment = top1[i] = top0[i] > v1[i] ? top0[i] : v1[i];
      w1[i] = decayed - m1[i] / (std::sqrt(second_moment) * scale + tiny) * step_size;
    }
    const rounding mode = w.type == data_type::bfloat16 ? rounding::nearest_away : rounding::nearest_even;
    e.store(w, w1, mode);
    e.store(m, m1, mode);
    e.store(v, v1, mode);
    if (amsgrad) e.store(*top, top1, mode);
  });
}

}  // namespace ascend::emulated::plans
RLCORE_END
#endif
