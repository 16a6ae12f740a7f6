// The plan of a call: what its first phase checks and its second executes; promotion of types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "rlcore/emulator/execution.hpp"
#include "rlcore/emulator/machine.hpp"
#include "rlcore/emulator/meta.hpp"
#include "rlcore/emulator/rules/rules.hpp"
#include "rlcore/emulator/tensor.hpp"

RLCORE_BEGIN
namespace ascend::emulated {

/// Thrown by a plan. It becomes the status of the call and the text of aclGetRecentErrMsg.
struct refusal {
  aclnnStatus status;
  std::string why;
};

using types = std::initializer_list<data_type>;  ///< the types that an argument may have
inline constexpr types float_types{data_type::float32, data_type::float16, data_type::bfloat16};
inline constexpr types index_types{data_type::int32, data_type::int64};
inline constexpr types any_type{data_type::float32, data_type::float16, data_type::bfloat16, data_type::float64,
                                data_type::int8,    data_type::int16,   data_type::int32,    data_type::int64,
                                data_type::uint8,   data_type::uint16,  data_type::uint32,   data_type::uint64,
                                data_type::boolean};

/// The arguments of one call for its plan. A plan fetches tensors in the order of the signature, so that messages can
/// count them.
class planner {
 public:
  /// Plans a call of the operator `name` by this thread, whose context sets whether sums are deterministic.
  explicit planner(const char* name)
      : deterministic(emulated::deterministic()), overflow(saturation()), machine(machine_settings()), name_(name) {}

  const bool deterministic;
  const overflow_mode overflow;
  const settings& machine;
  /// Bytes of workspace that the run needs.
  std::uint64_t workspace = 0;
  /// Whether aclSetAclOpExecutorRepeatable is allowed: not if the operator copies a result into a strided view.
  bool repeatable = true;

  /// Refusals: 161001 null, 161002 wrong type, more than 8 dimensions, or beyond the storage.
  tensor in(const aclTensor* t, types allowed) { return take(t, allowed, inputs); }
  /// As in(), and nothing for null.
  std::optional<tensor> optional_in(const aclTensor* t, types allowed) {
    if (t) return in(t, allowed);
    ++tensor_;
    return std::nullopt;
  }
  /// As in(). A view with overlapping elements is refused as well.
  tensor out(const aclTensor* t, types allowed);
  /// As out(), and nothing for null.
  std::optional<tensor> optional_out(const aclTensor* t, types allowed) {
    if (t) return out(t, allowed);
    ++tensor_;
    return std::nullopt;
  }
  /// Every tensor of a list, as in(). Refusals: 161001 null, 161002 destroyed.
  std::vector<tensor> list(const aclTensorList* l, types allowed);
  /// The value of a scalar. Refusals: 161001 null, 161002 destroyed.
  template <class T = double>
  T value(const aclScalar* s) {
    return scalar_value<T>(checked(s));
  }
  /// The type of a scalar. Refusals as for value().
  data_type type_of(const aclScalar* s) { return checked(s).type; }
  /// The integers of an array. Refusals: 161001 null, 161002 destroyed.
  std::vector<std::int64_t> values(const aclIntArray* array) {
    if (!array) refuse(null_pointer, "null int array");
    if (!objects().alive(array, host_object::array)) refuse(invalid_parameter, "a destroyed int array");
    return array->values;
  }
  /// A dimension in [0, rank), counted from the end if negative. Rank 0 has a dimension 0.
  std::int64_t dimension(std::int64_t d, std::int64_t rank);

  /// Refuses the call (161002) unless the condition holds.
  void require(bool condition, const char* why) {
    if (!condition) refuse(invalid_parameter, why);
  }
  void require(bool condition, const std::string& why) {
    if (!condition) refuse(invalid_parameter, why);
  }
  /// Refuses the call (161002) unless t has the shape; `which` names t.
  void require_shape(const tensor& t, const extents& shape, const char* which) {
    if (t.shape != shape)
      refuse(invalid_parameter,
             std::string(which) + " has shape " + printed(t.shape) + " instead of " + printed(shape));
  }
  /// Throws refusal: the status, and the operator's name followed by `why`.
  [[noreturn]] void refuse(aclnnStatus status, const std::string& why) {
    throw refusal{status, std::string(name_) + ": " + why};
  }

  // The executor keeps the addresses by slot, the slots of inputs and outputs, and the tensors, which have to live
  // until the second phase.
  std::vector<void*> addresses;
  std::vector<int> inputs, outputs;
  std::vector<const aclTensor*> tensors;

 private:
  tensor take(const aclTensor* t, types allowed, std::vector<int>& slots);
  const aclScalar& checked(const aclScalar* s) {
    if (!s) refuse(null_pointer, "null scalar");
    if (!objects().alive(s, host_object::scalar)) refuse(invalid_parameter, "a destroyed scalar");
    return *s;
  }
  std::string here() const { return "tensor " + std::to_string(tensor_) + ": "; }

  const char* name_;
  int tensor_ = 0;
};

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

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_EMULATOR)
RLCORE_BEGIN
namespace ascend::emulated {

RLCORE_INLINE tensor planner::out(const aclTensor* t, types allowed) {
  tensor result = take(t, allowed, outputs);
  for (std::size_t i = 0; i < result.shape.size(); ++i)
    require(result.strides[i] != 0 || result.shape[i] <= 1, "an output with stride 0");
  if (!result.contiguous()) repeatable = false;
  return result;
}

RLCORE_INLINE std::vector<tensor> planner::list(const aclTensorList* l, types allowed) {
  if (!l) refuse(null_pointer, "null tensor list");
  if (!objects().alive(l, host_object::list)) refuse(invalid_parameter, "a destroyed tensor list");
  std::vector<tensor> views;
  for (const auto* t : l->tensors) views.push_back(in(t, allowed));
  return views;
}

RLCORE_INLINE std::int64_t planner::dimension(std::int64_t d, std::int64_t rank) {
  const std::int64_t n = rank > 0 ? rank : 1;
  if (d < -n || d >= n)
    refuse(invalid_parameter, "dimension " + std::to_string(d) + " of a tensor of rank " + std::to_string(rank));
  return d < 0 ? d + n : d;
}

RLCORE_INLINE tensor planner::take(const aclTensor* t, types allowed, std::vector<int>& slots) {
  ++tensor_;
  if (!t) refuse(null_pointer, here() + "null");
  if (!objects().alive(t, host_object::tensor)) refuse(invalid_parameter, here() + "a destroyed tensor");
  tensor copy = t->view;
  bool known = false;
  for (const auto a : allowed) known = known || a == copy.type;
  if (!known) refuse(invalid_parameter, here() + "type " + name_of(copy.type) + " is not supported");
  if (copy.rank() > 8) refuse(invalid_parameter, here() + "more than 8 dimensions");
  // Not a vendor rule, but some CANN kernels count in int32. rlcore passes no larger tensors to operators.
  if (machine.strict && copy.size() > std::numeric_limits<std::int32_t>::max())
    refuse(invalid_parameter, here() + "more than 2^31 - 1 elements: " + printed(copy.shape));
  const auto [first, last] = copy.reach();
  if (first < 0 || (copy.storage >= 0 && copy.size() > 0 && last >= copy.storage))
    refuse(invalid_parameter, here() + "the view of shape " + printed(copy.shape) + ", strides " +
                                  printed(copy.strides) + " and offset " + std::to_string(copy.offset) +
                                  " leaves its storage of " + std::to_string(copy.storage));
  if (machine.strict && reinterpret_cast<std::uintptr_t>(copy.data) % 32 != 0)
    refuse(invalid_parameter, here() + "the address of the storage is not a multiple of 32 (use the offset)");
  copy.slot = static_cast<int>(addresses.size());
  addresses.push_back(copy.data);
  slots.push_back(copy.slot);
  tensors.push_back(t);
  return copy;
}

}  // namespace ascend::emulated
RLCORE_END
#endif
