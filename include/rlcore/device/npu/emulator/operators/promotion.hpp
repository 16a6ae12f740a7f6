// The type that an operator of several inputs computes in, and loops over elements in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "rlcore/device/npu/emulator/execution.hpp"
#include "rlcore/device/npu/emulator/plan.hpp"

RLCORE_BEGIN
namespace ascend::emulated {

/// The type that holds the values of both, as PyTorch promotes: float over integer over bool, the wider of a kind,
/// float32 for float16 with bfloat16, int16 for int8 with uint8.
constexpr data_type promoted(data_type a, data_type b) {
  if (a == b) return a;
  const bool fa = floating(a), fb = floating(b);
  if (fa != fb) return fa ? a : b;
  if (fa) return bytes_of(a) == bytes_of(b) ? data_type::float32 : bytes_of(a) > bytes_of(b) ? a : b;
  if (a == data_type::boolean) return b;
  if (b == data_type::boolean) return a;
  if (bytes_of(a) == bytes_of(b))
    return bytes_of(a) == 1 ? data_type::int16 : bytes_of(a) == 2 ? data_type::int32 : data_type::int64;
  return bytes_of(a) > bytes_of(b) ? a : b;
}
/// The type of a tensor's operation with a scalar: the tensor's, unless the scalar is of a higher kind.
constexpr data_type promoted_scalar(data_type t, data_type scalar) {
  const auto kind = [](data_type x) { return floating(x) ? 2 : x == data_type::boolean ? 0 : 1; };
  if (kind(scalar) <= kind(t)) return t;
  return kind(scalar) == 2 ? data_type::float32 : data_type::int64;
}

/// Rounds values of a result to the type that the operator computed it in, before they are cast to another one.
template <class Real>
void round_to(std::span<Real> values, data_type type, overflow_mode overflow) {
  if constexpr (std::is_same_v<Real, float>) round_values(values, type, rounding::nearest_even, overflow);
  if constexpr (std::is_same_v<Real, double>) {
    if (type == data_type::float16 || type == data_type::bfloat16)
      for (double& x : values) x = static_cast<double>(stored_as(to_odd(x), type, rounding::nearest_even, overflow));
  }
}
/// A scalar as the operator's type holds it.
inline double scalar_as(double x, data_type type) {
  if (type == data_type::float32) return static_cast<double>(static_cast<float>(x));
  if (type == data_type::float16 || type == data_type::bfloat16) return static_cast<double>(stored_as(to_odd(x), type));
  return x;
}

/// Runs body(e, Real{}) with Real = std::int64_t for integer types, else the working precision.
template <class Body>
kernel in_type(const settings& machine, data_type type, Body body) {
  if (!floating(type)) return [body = std::move(body)](execution& e) { body(e, std::int64_t{}); };
  return in_working_precision(machine, std::move(body));
}

/// out = f(e, a) in `type`: one rounding to it, then the cast to the type of `out`.
template <class F>
kernel map_one(planner& p, tensor a, tensor out, data_type type, F f) {
  p.require_shape(out, a.shape, "the output");
  return in_type(p.machine, type, [a = std::move(a), out = std::move(out), type, f](execution& e, auto real) {
    using Real = decltype(real);
    const auto x = e.read<Real>(a);
    const auto y = e.result<Real>(out, true);
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = static_cast<Real>(f(e, x[i]));
    if (type != out.type) round_to(y, type, e.overflow);
    e.store(out, y);
  });
}
/// out = f(e, a, b), a and b repeated to the shape of `out`.
template <class F>
kernel map_two(planner& p, tensor a, tensor b, tensor out, data_type type, F f) {
  extents shape;
  if (!broadcast(a.shape, b.shape, shape))
    p.refuse(invalid_parameter, "shapes " + printed(a.shape) + " and " + printed(b.shape) + " do not broadcast");
  p.require_shape(out, shape, "the output");
  a = expanded(std::move(a), shape);
  b = expanded(std::move(b), shape);
  return in_type(p.machine, type,
                 [a = std::move(a), b = std::move(b), out = std::move(out), type, f](execution& e, auto real) {
                   using Real = decltype(real);
                   const auto x = e.read<Real>(a), y = e.read<Real>(b);
                   const auto z = e.result<Real>(out, true);
                   for (std::size_t i = 0; i < z.size(); ++i) z[i] = static_cast<Real>(f(e, x[i], y[i]));
                   if (type != out.type) round_to(z, type, e.overflow);
                   e.store(out, z);
                 });
}

}  // namespace ascend::emulated
RLCORE_END
