// Elementwise operators, and the fused AdamW. The vector unit computes 16-bit types in float and rounds the result
// once, to nearest even; scalars are first rounded to the type of the tensor, except those of Muls and the alpha of
// Add, Adds and Sub.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

#include "rlcore/emulator/plan.hpp"

RLCORE_BEGIN
namespace ascend::emulated::plans {

/// Maps f over one float tensor.
kernel float_map(planner& p, input self, output out, const element_loops& loops);
/// f(x, y) of two inputs of any type, computed in the promoted type.
kernel any_map(planner& p, input self, input other, output out, const element_loops& loops, const coefficients& c = {});
/// A comparison: values are compared exactly, the output is 0 or 1.
kernel compare(planner& p, input self, input other, output out, const element_loops& loops);
/// A comparison with a scalar, which is rounded to the promoted type of both first: the output is 0 or 1.
kernel compare_scalar(planner& p, input self, scalar other, output out, const element_loops& loops);

/// self + alpha other.
inline kernel aclnnAdd(planner& p, input self, input other, scalar alpha, output out) {
  return any_map(p, self, other, out,
                 of_all([](auto&, auto& c, auto x, auto y) { return x + static_cast<decltype(x)>(c.a) * y; }),
                 {p.value(alpha)});
}
/// self - alpha other.
inline kernel aclnnSub(planner& p, input self, input other, scalar alpha, output out) {
  return any_map(p, self, other, out,
                 of_all([](auto&, auto& c, auto x, auto y) { return x - static_cast<decltype(x)>(c.a) * y; }),
                 {p.value(alpha)});
}
/// self times other.
inline kernel aclnnMul(planner& p, input self, input other, output out) {
  return any_map(p, self, other, out, of_all([](auto&, auto&, auto x, auto y) { return x * y; }));
}
/// self times other, a scalar that is not rounded to the type of self.
kernel aclnnMuls(planner& p, input self, scalar other, output out);
/// self + alpha other, a scalar.
kernel aclnnAdds(planner& p, input self, scalar other, scalar alpha, output out);
/// Integers are divided as floats.
kernel aclnnDiv(planner& p, input self, input other, output out);
/// e^self.
inline kernel aclnnExp(planner& p, input self, output out) {
  return float_map(p, self, out, of_floats([](auto& e, auto&, auto x) { return e.exp(x); }));
}
/// The natural logarithm of self.
inline kernel aclnnLog(planner& p, input self, output out) {
  return float_map(p, self, out, of_floats([](auto& e, auto&, auto x) { return e.log(x); }));
}
/// -self.
kernel aclnnNeg(planner& p, input self, output out);
/// The square root of self.
inline kernel aclnnSqrt(planner& p, input self, output out) {
  return float_map(p, self, out, of_floats([](auto&, auto&, auto x) { return std::sqrt(x); }));
}
/// 1 / (1 + e^-x).
template <class Real>
Real sigmoid(const execution& e, Real x) {
  return Real{1} / (Real{1} + e.exp(-x));
}
/// 1 / (1 + e^-self).
inline kernel aclnnSigmoid(planner& p, input self, output out) {
  return float_map(p, self, out, of_floats([](auto& e, auto&, auto x) { return sigmoid(e, x); }));
}
/// x / (1 + e^-x).
inline kernel aclnnSilu(planner& p, input self, output out) {
  return float_map(p, self, out, of_floats([](auto& e, auto&, auto x) { return x / (decltype(x){1} + e.exp(-x)); }));
}
/// dy s (1 + x (1 - s)), s = sigmoid(x).
kernel aclnnSiluBackward(planner& p, input dy, input self, output dx);
/// NaN if one of the two is NaN.
inline kernel aclnnMaximum(planner& p, input self, input other, output out) {
  return any_map(p, self, other, out, of_all([](auto&, auto&, auto x, auto y) { return x > y || x != x ? x : y; }));
}
/// Either bound may be null, not both. NaN stays.
kernel aclnnClamp(planner& p, input self, scalar min, scalar max, output out);
/// self < other, a scalar.
inline kernel aclnnLtScalar(planner& p, input self, scalar other, output out) {
  return compare_scalar(p, self, other, out,
                        of_all([](auto&, auto& c, auto x) { return x < static_cast<decltype(x)>(c.a); }));
}
/// self >= other, a scalar.
inline kernel aclnnGeScalar(planner& p, input self, scalar other, output out) {
  return compare_scalar(p, self, other, out,
                        of_all([](auto&, auto& c, auto x) { return x >= static_cast<decltype(x)>(c.a); }));
}
/// self == other, a scalar.
inline kernel aclnnEqScalar(planner& p, input self, scalar other, output out) {
  return compare_scalar(p, self, other, out,
                        of_all([](auto&, auto& c, auto x) { return x == static_cast<decltype(x)>(c.a); }));
}
/// self <= other.
inline kernel aclnnLeTensor(planner& p, input self, input other, output out) {
  return compare(p, self, other, out, of_all([](auto&, auto&, auto x, auto y) { return x <= y; }));
}
/// self < other.
inline kernel aclnnLtTensor(planner& p, input self, input other, output out) {
  return compare(p, self, other, out, of_all([](auto&, auto&, auto x, auto y) { return x < y; }));
}
/// self != 0 and other != 0.
inline kernel aclnnLogicalAnd(planner& p, input self, input other, output out) {
  return compare(p, self, other, out, of_all([](auto&, auto&, auto x, auto y) { return x != 0 && y != 0; }));
}
/// Neither infinite nor NaN; true for integers.
kernel aclnnIsFinite(planner& p, input self, output out);
/// condition ? self : other.
kernel aclnnSWhere(planner& p, input condition, input self, input other, output out);
/// self = mask ? value : self, in place; the mask is repeated to the shape of self.
kernel aclnnInplaceMaskedFillScalar(planner& p, output self, input mask, scalar value);

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

RLCORE_INLINE kernel float_map(planner& p, input self, output out, const element_loops& loops) {
  auto x = p.in(self, float_types);
  auto y = p.out(out, float_types);
  const auto type = x.type;
  return map_elements(p, std::move(x), std::nullopt, std::move(y), type, loops);
}

RLCORE_INLINE kernel any_map(planner& p, input self, input other, output out, const element_loops& loops,
                             const coefficients& c) {
  auto a = p.in(self, any_type), b = p.in(other, any_type);
  auto y = p.out(out, any_type);
  const auto type = promoted(p, a.type, b.type);
  p.require(floating(y.type) || !floating(type), "an output of integers for a result of floats");
  return map_elements(p, std::move(a), std::move(b), std::move(y), type, loops, c);
}

RLCORE_INLINE kernel compare(planner& p, input self, input other, output out, const element_loops& loops) {
  auto a = p.in(self, any_type), b = p.in(other, any_type);
  auto y = p.out(out, any_type);
  const auto type = floating(promoted(p, a.type, b.type)) ? data_type::float32 : data_type::int64;
  return map_elements(p, std::move(a), std::move(b), std::move(y), type, loops);
}

RLCORE_INLINE kernel compare_scalar(planner& p, input self, scalar other, output out, const element_loops& loops) {
  auto a = p.in(self, any_type);
  const double bound = p.value(other);
  const auto type = promoted_scalar(a.type, p.type_of(other));
  auto y = p.out(out, any_type);
  return map_elements(p, std::move(a), std::nullopt, std::move(y),
                      floating(type) ? data_type::float32 : data_type::int64, loops, {scalar_as(bound, type)});
}

RLCORE_INLINE kernel aclnnMuls(planner& p, input self, scalar other, output out) {
  auto x = p.in(self, any_type);
  const double factor = p.value(other);
  const auto type = promoted_scalar(x.type, p.type_of(other));
  auto y = p.out(out, any_type);
  return map_elements(p, std::move(x), std::nullopt, std::move(y), type,
                      of_all([](auto&, auto& c, auto v) { return v * static_cast<decltype(v)>(c.a); }), {factor});
}

RLCORE_INLINE kernel aclnnAdds(planner& p, input self, scalar other, scalar alpha, output out) {
  auto x = p.in(self, any_type);
  const double term = p.value(other), factor = p.value(alpha);
  const auto type = promoted_scalar(x.type, p.type_of(other));
  auto y = p.out(out, any_type);
  return map_elements(p, std::move(x), std::nullopt, std::move(y), type, of_all([](auto&, auto& c, auto v) {
                        using Real = decltype(v);
                        return v + static_cast<Real>(c.b) * static_cast<Real>(c.a);
                      }),
                      {scalar_as(term, type), factor});
}

RLCORE_INLINE kernel aclnnDiv(planner& p, input self, input other, output out) {
  auto a = p.in(self, any_type), b = p.in(other, any_type);
  auto y = p.out(out, float_types);
  const auto both = promoted(p, a.type, b.type);
  return map_elements(p, std::move(a), std::move(b), std::move(y), floating(both) ? both : data_type::float32,
                      of_floats([](auto&, auto&, auto x, auto z) { return x / z; }));
}

RLCORE_INLINE kernel aclnnNeg(planner& p, input self, output out) {
  auto x = p.in(self, any_type);
  auto y = p.out(out, any_type);
  const auto type = x.type;
  return map_elements(p, std::move(x), std::nullopt, std::move(y), type,
                      of_all([](auto&, auto&, auto v) { return -v; }));
}

RLCORE_INLINE kernel aclnnSiluBackward(planner& p, input dy, input self, output dx) {
  auto g = p.in(dy, float_types), x = p.in(self, float_types);
  auto out = p.out(dx, float_types);
  p.require(g.type == x.type, "gradient and input have different types");
  const auto type = x.type;
  return map_elements(p, std::move(g), std::move(x), std::move(out), type,
                      of_floats([](auto& e, auto&, auto d, auto v) {
                        using Real = decltype(v);
                        const Real s = sigmoid(e, v);
                        return d * (s * (Real{1} + v * (Real{1} - s)));
                      }));
}

RLCORE_INLINE kernel aclnnClamp(planner& p, input self, scalar min, scalar max, output out) {
  auto x = p.in(self, any_type);
  if (!min && !max) p.refuse(null_pointer, "both bounds are null");
  coefficients c;
  c.first = min != nullptr;
  c.second = max != nullptr;
  if (c.first) c.a = scalar_as(p.value(min), x.type);
  if (c.second) c.b = scalar_as(p.value(max), x.type);
  auto y = p.out(out, any_type);
  const auto type = x.type;
  return map_elements(p, std::move(x), std::nullopt, std::move(y), type, of_all([](auto&, auto& bounds, auto v) {
                        using Real = decltype(v);
                        if (bounds.first && v < static_cast<Real>(bounds.a)) v = static_cast<Real>(bounds.a);
                        if (bounds.second && v > static_cast<Real>(bounds.b)) v = static_cast<Real>(bounds.b);
                        return v;
                      }),
                      c);
}

RLCORE_INLINE kernel aclnnIsFinite(planner& p, input self, output out) {
  auto x = p.in(self, any_type);
  auto y = p.out(out, {data_type::boolean});
  const auto type = floating(x.type) ? data_type::float32 : data_type::int64;
  return map_elements(p, std::move(x), std::nullopt, std::move(y), type,
                      of_all([](auto&, auto&, auto v) { return v - v == 0; }));
}

RLCORE_INLINE kernel aclnnSWhere(planner& p, input condition, input self, input other, output out) {
  auto c = p.in(condition, {data_type::boolean, data_type::uint8});
  auto a = p.in(self, any_type), b = p.in(other, any_type);
  auto y = p.out(out, any_type);
  const auto type = promoted(p, a.type, b.type);
  extents shape, common;
  p.require(broadcast(a.shape, b.shape, shape) && broadcast(c.shape, shape, common), "shapes do not broadcast");
  p.require_shape(y, common, "the output");
  c = expanded(std::move(c), common);
  a = expanded(std::move(a), common);
  b = expanded(std::move(b), common);
  return in_type(p.machine, type,
                 [c = std::move(c), a = std::move(a), b = std::move(b), y = std::move(y)](execution& e, auto real) {
                   using Real = decltype(real);
                   const auto is = e.read<Real>(c), then = e.read<Real>(a), otherwise = e.read<Real>(b);
                   const auto z = e.result<Real>(y, true);
                   for (std::size_t i = 0; i < z.size(); ++i) z[i] = is[i] != 0 ? then[i] : otherwise[i];
                   e.store(y, z);
                 });
}

RLCORE_INLINE kernel aclnnInplaceMaskedFillScalar(planner& p, output self, input mask, scalar value) {
  auto x = p.out(self, any_type);
  auto m = p.in(mask, {data_type::boolean});
  const double filling = scalar_as(p.value(value), x.type);
  p.require(broadcastable(m.shape, x.shape), "the mask does not broadcast to the tensor");
  m = expanded(std::move(m), x.shape);
  return in_type(p.machine, x.type, [x = std::move(x), m = std::move(m), filling](execution& e, auto real) {
    using Real = decltype(real);
    const auto is = e.read<Real>(m), v = e.read<Real>(x);
    const auto y = e.result<Real>(x, true);
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = is[i] != 0 ? static_cast<Real>(filling) : v[i];
    e.store(x, y);
  });
}

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
