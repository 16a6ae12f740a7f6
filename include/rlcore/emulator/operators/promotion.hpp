// Type promotion of operators with several inputs, and elementwise loops in the promoted type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "rlcore/emulator/execution.hpp"
#include "rlcore/emulator/plan.hpp"
#include "rlcore/emulator/rules/check.hpp"

RLCORE_BEGIN
namespace ascend::emulated {

/// The promoted type of both; refuses the call if they have none.
inline data_type promoted(planner& p, data_type a, data_type b) {
  const data_type both = rules::common_type(a, b);
  p.require(both != data_type::undefined, std::string("no common type of ") + name_of(a) + " and " + name_of(b));
  return both;
}
/// The promoted type of a tensor and a scalar: the tensor's, unless the scalar is of a higher kind.
constexpr data_type promoted_scalar(data_type t, data_type scalar) {
  const auto kind = [](data_type x) { return floating(x) ? 2 : x == data_type::boolean ? 0 : 1; };
  if (kind(scalar) <= kind(t)) return t;
  return kind(scalar) == 2 ? data_type::float32 : data_type::int64;
}

/// Rounds values of a result to the type in which the operator computed them, before they are cast to another type.
template <class Real>
void round_to(std::span<Real> values, data_type type, overflow_mode overflow) {
  if constexpr (std::is_same_v<Real, float>) round_values(values, type, rounding::nearest_even, overflow);
  if constexpr (std::is_same_v<Real, double>) {
    if (type == data_type::float16 || type == data_type::bfloat16)
      for (double& x : values) x = static_cast<double>(stored_as(to_odd(x), type, rounding::nearest_even, overflow));
  }
}
/// A scalar rounded to the operator's type.
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

/// Numbers that a formula needs besides its tensors.
struct coefficients {
  double a = 0, b = 0;
  bool first = false, second = false;
};

/// A formula as loops over elements in each working type, so that an operator is compiled as a table of these alone.
struct element_loops {
  template <class Real>
  using loop = void (*)(const execution&, const coefficients&, const Real* x, const Real* y, Real* z, std::size_t n);
  loop<float> in_float = nullptr;
  loop<double> in_double = nullptr;
  loop<std::int64_t> in_integers = nullptr;

  template <class Real>
  loop<Real> of() const {
    if constexpr (std::is_same_v<Real, float>)
      return in_float;
    else if constexpr (std::is_same_v<Real, double>)
      return in_double;
    else
      return in_integers;
  }
};
/// z[i] = f(e, c, x[i], y[i]), or f(e, c, x[i]), for i < n.
template <class F, class Real>
void element_loop(const execution& e, const coefficients& c, const Real* x, const Real* y, Real* z, std::size_t n) {
  if constexpr (std::is_invocable_v<F, const execution&, const coefficients&, Real, Real>)
    for (std::size_t i = 0; i < n; ++i) z[i] = static_cast<Real>(F{}(e, c, x[i], y[i]));
  else
    for (std::size_t i = 0; i < n; ++i) z[i] = static_cast<Real>(F{}(e, c, x[i]));
}
/// The loops of a lambda without captures f(e, c, x) or f(e, c, x, y): for floats, and for all types.
template <class F>
constexpr element_loops of_floats(F) {
  return {&element_loop<F, float>, &element_loop<F, double>, nullptr};
}
/// The loops of a formula for floats and integers.
template <class F>
constexpr element_loops of_all(F) {
  return {&element_loop<F, float>, &element_loop<F, double>, &element_loop<F, std::int64_t>};
}

/// out = f(a) or f(a, b), computed in `type`, a and b repeated to the shape of `out`: one rounding to `type`, then the
/// cast to the type of `out`.
inline kernel map_elements(planner& p, tensor a, std::optional<tensor> b, tensor out, data_type type,
                           const element_loops& loops, const coefficients& c = {}) {
  extents shape = a.shape;
  if (b && !broadcast(a.shape, b->shape, shape))
    p.refuse(invalid_parameter, "shapes " + printed(a.shape) + " and " + printed(b->shape) + " do not broadcast");
  p.require_shape(out, shape, "the output");
  a = expanded(std::move(a), shape);
  if (b) b = expanded(std::move(*b), shape);
  return in_type(p.machine, type,
                 [a = std::move(a), b = std::move(b), out = std::move(out), type, loops, c](execution& e, auto real) {
                   using Real = decltype(real);
                   const auto x = e.read<Real>(a), y = b ? e.read<Real>(*b) : x;
                   const auto z = e.result<Real>(out, true);
                   loops.of<Real>()(e, c, x.data(), y.data(), z.data(), z.size());
                   if (type != out.type) round_to(z, type, e.overflow);
                   e.store(out, z);
                 });
}

}  // namespace ascend::emulated
RLCORE_END
