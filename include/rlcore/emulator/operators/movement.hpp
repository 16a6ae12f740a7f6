// Cast, copy, permute, cat, fill, triu and arange.
#pragma once

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "rlcore/emulator/plan.hpp"

RLCORE_BEGIN
namespace ascend::emulated::plans {

/// Copies bits between equal types; else converts with one rounding: to nearest even, toward zero for integers.
void convert(execution& e, const tensor& from, const tensor& to);
/// `t` from `begin` on, `length` long in dimension d.
tensor narrowed(tensor t, std::int64_t d, std::int64_t begin, std::int64_t length);

/// self in the type of `out`, which has to be `type`.
kernel aclnnCast(planner& p, input self, data_type type, output out);
/// self = source repeated to its shape, between any two types and views.
kernel aclnnInplaceCopy(planner& p, output self, input source);
/// A copy of self whose dimension i is dimension dims[i] of self.
kernel aclnnPermute(planner& p, input self, ints dims, output out);
/// Concatenates the tensors along a dimension, in the type of `out`.
kernel aclnnCat(planner& p, input_list tensors, std::int64_t dim, output out);
/// Every element of t = value.
template <class Real>
void fill(execution& e, const tensor& t, Real value) {
  const auto y = e.result<Real>(t);
  for (Real& v : y) v = value;
  e.store(t, y);
}
/// Every element of t = value, in the type of t.
kernel filling(tensor t, double value);
/// self = 0.
inline kernel aclnnInplaceZero(planner& p, output self) { return filling(p.out(self, any_type), 0); }
/// self = value.
inline kernel aclnnInplaceFillScalar(planner& p, output self, scalar value) {
  auto y = p.out(self, any_type);
  return filling(std::move(y), p.value(value));
}
/// Keeps column - row >= diagonal of the last two dimensions, zero elsewhere.
kernel aclnnTriu(planner& p, input self, std::int64_t diagonal, output out);
/// start, start + step, ... below (above) end.
kernel aclnnArange(planner& p, scalar start, scalar end, scalar step, output out);

}  // namespace ascend::emulated::plans
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_EMULATOR)
RLCORE_BEGIN
namespace ascend::emulated::plans {

RLCORE_INLINE void convert(execution& e, const tensor& from, const tensor& to) {
  if (from.type == to.type) return e.move(from, to);
  if (!floating(from.type) && !floating(to.type)) return e.store(to, e.read<std::int64_t>(from));
  if (floating(from.type) && from.type != data_type::float64) return e.store(to, e.read<float>(from));
  e.store(to, e.read<double>(from));
}

RLCORE_INLINE tensor narrowed(tensor t, std::int64_t d, std::int64_t begin, std::int64_t length) {
  const auto i = static_cast<std::size_t>(d);
  t.offset += begin * t.strides[i];
  t.shape[i] = length;
  return t;
}

RLCORE_INLINE kernel aclnnCast(planner& p, input self, data_type type, output out) {
  auto x = p.in(self, any_type);
  auto y = p.out(out, any_type);
  p.require(y.type == type, "the output is not of the type asked for");
  p.require_shape(y, x.shape, "the output");
  return [x = std::move(x), y = std::move(y)](execution& e) { convert(e, x, y); };
}

RLCORE_INLINE kernel aclnnInplaceCopy(planner& p, output self, input source) {
  auto y = p.out(self, any_type);
  auto x = p.in(source, any_type);
  p.repeatable = false;
  if (!broadcastable(x.shape, y.shape))
    p.refuse(invalid_parameter,
             "the source of shape " + printed(x.shape) + " does not broadcast to " + printed(y.shape));
  x = expanded(std::move(x), y.shape);
  return [x = std::move(x), y = std::move(y)](execution& e) { convert(e, x, y); };
}

RLCORE_INLINE kernel aclnnPermute(planner& p, input self, ints dims, output out) {
  auto x = p.in(self, any_type);
  const auto order = p.values(dims);
  auto y = p.out(out, any_type);
  p.require(y.type == x.type, "input and output have different types");
  p.require(static_cast<std::int64_t>(order.size()) == x.rank(), "as many dimensions as the tensor has are needed");
  tensor view = x;
  std::vector<bool> used(order.size(), false);
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto d = static_cast<std::size_t>(p.dimension(order[i], x.rank()));
    p.require(!used[d], "a dimension is named twice");
    used[d] = true;
    view.shape[i] = x.shape[d];
    view.strides[i] = x.strides[d];
  }
  p.require_shape(y, view.shape, "the output");
  return [x = std::move(view), y = std::move(y)](execution& e) { convert(e, x, y); };
}

RLCORE_INLINE kernel aclnnCat(planner& p, input_list tensors, std::int64_t dim, output out) {
  auto parts = p.list(tensors, any_type);
  auto y = p.out(out, any_type);
  p.require(!parts.empty(), "an empty list");
  const std::int64_t d = p.dimension(dim, y.rank());
  std::int64_t at = 0;
  std::vector<std::pair<tensor, tensor>> moves;
  for (auto& part : parts) {
    if (part.rank() == 1 && part.size() == 0) continue;  // allowed with any shape of the other tensors
    p.require(part.rank() == y.rank() && y.rank() > 0, "tensors of different ranks");
    for (std::int64_t i = 0; i < y.rank(); ++i)
      p.require(i == d || part.shape[static_cast<std::size_t>(i)] == y.shape[static_cast<std::size_t>(i)],
                "extents differ outside of the dimension");
    const std::int64_t length = part.shape[static_cast<std::size_t>(d)];
    moves.emplace_back(std::move(part), narrowed(y, d, at, length));
    at += length;
  }
  p.require(y.rank() == 0 || at == y.shape[static_cast<std::size_t>(d)], "the output has another length");
  return [moves = std::move(moves)](execution& e) {
    for (const auto& [from, to] : moves) convert(e, from, to);
  };
}

RLCORE_INLINE kernel filling(tensor t, double value) {
  return [t = std::move(t), value](execution& e) {
    if (t.type == data_type::float32) return fill(e, t, static_cast<float>(value));
    if (floating(t.type)) return fill(e, t, value);
    fill(e, t, static_cast<std::int64_t>(value));
  };
}

RLCORE_INLINE kernel aclnnTriu(planner& p, input self, std::int64_t diagonal, output out) {
  auto x = p.in(self, any_type);
  auto y = p.out(out, any_type);
  p.require(x.type == y.type, "input and output have different types");
  p.require(x.rank() >= 2, "a matrix is needed");
  p.require_shape(y, x.shape, "the output");
  return in_type(p.machine, x.type, [x = std::move(x), y = std::move(y), diagonal](execution& e, auto real) {
    using Real = decltype(real);
    const std::int64_t columns = y.shape.back(), rows = y.shape[y.shape.size() - 2];
    const auto from = e.read<Real>(x);
    const auto to = e.result<Real>(y, true);
    for (std::size_t i = 0; i < to.size(); ++i) {
      const auto k = static_cast<std::int64_t>(i);
      to[i] = k % columns - k / columns % rows >= diagonal ? from[i] : Real{0};
    }
    e.store(y, to);
  });
}

RLCORE_INLINE kernel aclnnArange(planner& p, scalar start, scalar end, scalar step, output out) {
  const double first = p.value(start), last = p.value(end), by = p.value(step);
  auto y = p.out(out, any_type);
  p.require(by != 0 && (last - first) / by >= 0, "the step does not lead from start to end");
  const auto n = static_cast<std::int64_t>(std::ceil((last - first) / by));
  p.require(y.rank() <= 1 && y.size() == n, "the output has another length");
  const auto type = y.type;
  return in_type(p.machine, type, [y = std::move(y), first, by](execution& e, auto real) {
    using Real = decltype(real);
    const auto to = e.result<Real>(y);
    for (std::size_t i = 0; i < to.size(); ++i)
      to[i] = static_cast<Real>(first) + static_cast<Real>(i) * static_cast<Real>(by);
    e.store(y, to);
  });
}

}  // namespace ascend::emulated::plans
RLCORE_END
#endif
