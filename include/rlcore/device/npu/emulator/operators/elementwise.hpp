// Elementwise operators. The vector unit computes 16-bit types in float and rounds the result once, to nearest even;
// scalars are rounded to the type of the tensor first, other than those of Muls and the alpha of Add, Adds and Sub.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

#include "rlcore/device/npu/emulator/operators/promotion.hpp"

RLCORE_BEGIN
namespace ascend::emulated::plans {

template <class F>
kernel float_map(planner& p, input self, output out, F f) {
  auto x = p.in(self, float_types);
  auto y = p.out(out, float_types);
  const auto type = x.type;
  return map_one(p, std::move(x), std::move(y), type, f);
}
/// f(e, x, y) of two inputs of any type; `result_type` of the promoted one is what the operator computes in.
template <class F>
kernel any_map(planner& p, input self, input other, output out, F f) {
  auto a = p.in(self, any_type), b = p.in(other, any_type);
  auto y = p.out(out, any_type);
  const auto type = promoted(a.type, b.type);
  p.require(floating(y.type) || !floating(type), "an output of integers for a result of floats");
  return map_two(p, std::move(a), std::move(b), std::move(y), type, f);
}
/// A comparison: values are compared exactly, the output is 0 or 1.
template <class F>
kernel compare(planner& p, input self, input other, output out, F f) {
  auto a = p.in(self, any_type), b = p.in(other, any_type);
  auto y = p.out(out, any_type);
  const auto type = promoted(a.type, b.type);
  return map_two(p, std::move(a), std::move(b), std::move(y), floating(type) ? data_type::float32 : data_type::int64,
                 f);
}
template <class F>
kernel compare_scalar(planner& p, input self, scalar other, output out, F f) {
  auto a = p.in(self, any_type);
  const double bound = p.value(other);
  const auto type = promoted_scalar(a.type, p.type_of(other));
  auto y = p.out(out, any_type);
  const double b = scalar_as(bound, type);
  return map_one(p, std::move(a), std::move(y), floating(type) ? data_type::float32 : data_type::int64,
                 [b, f](execution&, auto x) { return f(x, static_cast<decltype(x)>(b)); });
}

inline kernel aclnnAdd(planner& p, input self, input other, scalar alpha, output out) {
  const double factor = p.value(alpha);
  return any_map(p, self, other, out,
                 [factor](execution&, auto x, auto y) { return x + static_cast<decltype(x)>(factor) * y; });
}
inline kernel aclnnSub(planner& p, input self, input other, scalar alpha, output out) {
  const double factor = p.value(alpha);
  return any_map(p, self, other, out,
                 [factor](execution&, auto x, auto y) { return x - static_cast<decltype(x)>(factor) * y; });
}
inline kernel aclnnMul(planner& p, input self, input other, output out) {
  return any_map(p, self, other, out, [](execution&, auto x, auto y) { return x * y; });
}
inline kernel aclnnMuls(planner& p, input self, scalar other, output out) {
  auto x = p.in(self, any_type);
  const double factor = p.value(other);
  const auto type = promoted_scalar(x.type, p.type_of(other));
  auto y = p.out(out, any_type);
  return map_one(p, std::move(x), std::move(y), type,
                 [factor](execution&, auto v) { return v * static_cast<decltype(v)>(factor); });
}
inline kernel aclnnAdds(planner& p, input self, scalar other, scalar alpha, output out) {
  auto x = p.in(self, any_type);
  const double term = p.value(other), factor = p.value(alpha);
  const auto type = promoted_scalar(x.type, p.type_of(other));
  auto y = p.out(out, any_type);
  const double rounded = scalar_as(term, type);
  return map_one(p, std::move(x), std::move(y), type, [rounded, factor](execution&, auto v) {
    using Real = decltype(v);
    return v + static_cast<Real>(factor) * static_cast<Real>(rounded);
  });
}
/// Integers are divided as floats.
inline kernel aclnnDiv(planner& p, input self, input other, output out) {
  auto a = p.in(self, any_type), b = p.in(other, any_type);
  auto y = p.out(out, float_types);
  const auto both = promoted(a.type, b.type);
  return map_two(p, std::move(a), std::move(b), std::move(y), floating(both) ? both : data_type::float32,
                 [](execution&, auto x, auto z) {
                   if constexpr (std::is_floating_point_v<decltype(x)>)
                     return x / z;
                   else
                     return x;  // never: the type is a floating one
                 });
}
inline kernel aclnnExp(planner& p, input self, output out) {
  return float_map(p, self, out, [](execution& e, auto x) {
    if constexpr (std::is_floating_point_v<decltype(x)>)
      return e.exp(x);
    else
      return x;
  });
}
inline kernel aclnnLog(planner& p, input self, output out) {
  return float_map(p, self, out, [](execution& e, auto x) {
    if constexpr (std::is_floating_point_v<decltype(x)>)
      return e.log(x);
    else
      return x;
  });
}
inline kernel aclnnNeg(planner& p, input self, output out) {
  auto x = p.in(self, any_type);
  auto y = p.out(out, any_type);
  const auto type = x.type;
  return map_one(p, std::move(x), std::move(y), type, [](execution&, auto v) { return -v; });
}
inline kernel aclnnSqrt(planner& p, input self, output out) {
  return float_map(p, self, out, [](execution&, auto x) {
    if constexpr (std::is_floating_point_v<decltype(x)>)
      return std::sqrt(x);
    else
      return x;
  });
}
/// 1 / (1 + e^-x).
template <class Real>
Real sigmoid(const execution& e, Real x) {
  if constexpr (std::is_floating_point_v<Real>)
    return Real{1} / (Real{1} + e.exp(-x));
  else
    return x;
}
inline kernel aclnnSigmoid(planner& p, input self, output out) {
  return float_map(p, self, out, [](execution& e, auto x) { return sigmoid(e, x); });
}
/// x / (1 + e^-x).
inline kernel aclnnSilu(planner& p, input self, output out) {
  return float_map(p, self, out, [](execution& e, auto x) {
    if constexpr (std::is_floating_point_v<decltype(x)>)
      return x / (decltype(x){1} + e.exp(-x));
    else
      return x;
  });
}
/// dy s (1 + x (1 - s)), s = sigmoid(x).
inline kernel aclnnSiluBackward(planner& p, input dy, input self, output dx) {
  auto g = p.in(dy, float_types), x = p.in(self, float_types);
  auto out = p.out(dx, float_types);
  p.require(g.type == x.type, "gradient and input have different types");
  const auto type = x.type;
  return map_two(p, std::move(g), std::move(x), std::move(out), type, [](execution& e, auto d, auto v) {
    using Real = decltype(v);
    const Real s = sigmoid(e, v);
    return d * (s * (Real{1} + v * (Real{1} - s)));
  });
}
/// NaN if one of both is.
inline kernel aclnnMaximum(planner& p, input self, input other, output out) {
  return any_map(p, self, other, out, [](execution&, auto x, auto y) { return x > y || x != x ? x : y; });
}
/// Either bound may be null, not both. NaN stays.
inline kernel aclnnClamp(planner& p, input self, scalar min, scalar max, output out) {
  auto x = p.in(self, any_type);
  if (!min && !max) p.refuse(null_pointer, "both bounds are null");
  const bool below = min != nullptr, above = max != nullptr;
  const double low = below ? scalar_as(p.value(min), x.type) : 0, high = above ? scalar_as(p.value(max), x.type) : 0;
  auto y = p.out(out, any_type);
  const auto type = x.type;
  return map_one(p, std::move(x), std::move(y), type, [=](execution&, auto v) {
    using Real = decltype(v);
    if (below && v < static_cast<Real>(low)) v = static_cast<Real>(low);
    if (above && v > static_cast<Real>(high)) v = static_cast<Real>(high);
    return v;
  });
}
inline kernel aclnnLtScalar(planner& p, input self, scalar other, output out) {
  return compare_scalar(p, self, other, out, [](auto x, auto y) { return x < y; });
}
inline kernel aclnnGeScalar(planner& p, input self, scalar other, output out) {
  return compare_scalar(p, self, other, out, [](auto x, auto y) { return x >= y; });
}
inline kernel aclnnEqScalar(planner& p, input self, scalar other, output out) {
  return compare_scalar(p, self, other, out, [](auto x, auto y) { return x == y; });
}
inline kernel aclnnLeTensor(planner& p, input self, input other, output out) {
  return compare(p, self, other, out, [](execution&, auto x, auto y) { return x <= y; });
}
inline kernel aclnnLtTensor(planner& p, input self, input other, output out) {
  return compare(p, self, other, out, [](execution&, auto x, auto y) { return x < y; });
}
inline kernel aclnnLogicalAnd(planner& p, input self, input other, output out) {
  return compare(p, self, other, out, [](execution&, auto x, auto y) { return x != 0 && y != 0; });
}
inline kernel aclnnIsFinite(planner& p, input self, output out) {
  auto x = p.in(self, any_type);
  auto y = p.out(out, {data_type::boolean});
  const auto type = floating(x.type) ? data_type::float32 : data_type::int64;
  return map_one(p, std::move(x), std::move(y), type, [](execution&, auto v) {
    if constexpr (std::is_floating_point_v<decltype(v)>)
      return std::isfinite(v);
    else
      return true;
  });
}
/// condition ? self : other.
inline kernel aclnnSWhere(planner& p, input condition, input self, input other, output out) {
  auto c = p.in(condition, {data_type::boolean, data_type::uint8});
  auto a = p.in(self, any_type), b = p.in(other, any_type);
  auto y = p.out(out, any_type);
  const auto type = promoted(a.type, b.type);
  extents shape, all;
  p.require(broadcast(a.shape, b.shape, shape) && broadcast(c.shape, shape, all), "shapes do not broadcast");
  p.require_shape(y, all, "the output");
  c = expanded(std::move(c), all);
  a = expanded(std::move(a), all);
  b = expanded(std::move(b), all);
  return in_type(p.machine, type,
                 [c = std::move(c), a = std::move(a), b = std::move(b), y = std::move(y)](execution& e, auto real) {
                   using Real = decltype(real);
                   const auto is = e.read<Real>(c), then = e.read<Real>(a), otherwise = e.read<Real>(b);
                   const auto z = e.result<Real>(y, true);
                   for (std::size_t i = 0; i < z.size(); ++i) z[i] = is[i] != 0 ? then[i] : otherwise[i];
                   e.store(y, z);
                 });
}
inline kernel aclnnInplaceMaskedFillScalar(planner& p, output self, input mask, scalar value) {
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

}  // namespace ascend::emulated::plans
RLCORE_END
