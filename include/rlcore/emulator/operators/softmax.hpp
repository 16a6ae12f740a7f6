// Softmax along a dimension, in float with one rounding of the result.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "rlcore/emulator/numerics/reductions.hpp"
#include "rlcore/emulator/operators/promotion.hpp"

RLCORE_BEGIN
namespace ascend::emulated::plans {

/// The largest of n > 0 numbers; NaN if one is NaN.
template <class Real>
Real largest(const Real* x, std::size_t n) {
  Real best = x[0];
  for (std::size_t i = 1; i < n; ++i)
    if (x[i] > best || x[i] != x[i]) best = x[i];
  return best;
}
/// body(e, row of the result, row of the first input, row of the second or null,
/// room for a row, length, type of the inputs) for each row along `dim`.
template <class Body>
kernel by_rows(planner& p, input first, input second, std::int64_t dim, output out, Body body) {
  auto x = p.in(first, float_types);
  auto z = second ? p.optional_in(second, float_types) : std::nullopt;
  auto y = p.out(out, float_types);
  p.require_shape(y, x.shape, "the output");
  if (z) p.require_shape(*z, x.shape, "the second input");
  if (z) p.require(z->type == x.type, "the inputs have different types");
  const std::int64_t d = p.dimension(dim, x.rank());
  const auto type = x.type;
  if (x.rank() > 0) {
    x = dimension_last(std::move(x), d);
    y = dimension_last(std::move(y), d);
    if (z) z = dimension_last(std::move(*z), d);
  }
  return in_working_precision(
      p.machine, [x = std::move(x), z = std::move(z), y = std::move(y), type, body](execution& e, auto real) {
        using Real = decltype(real);
        const auto a = e.read<Real>(x);
        const auto b = z ? e.read<Real>(*z) : std::span<const Real>{};
        const auto to = e.result<Real>(y, true);
        const auto n = static_cast<std::size_t>(x.shape.empty() ? 1 : x.shape.back());
        Real* room = e.take<Real>(n);
        for (std::size_t i = 0; i + n <= to.size() && n > 0; i += n)
          body(e, to.data() + i, a.data() + i, b.empty() ? nullptr : b.data() + i, room, n, type);
        if (type != y.type) round_to(to, type, e.overflow);
        e.store(y, to);
      });
}

/// e^(x - max) / sum e^(x - max).
kernel aclnnSoftmax(planner& p, input self, std::int64_t dim, output out);
/// y (dy - sum(dy y)).
kernel aclnnSoftmaxBackward(planner& p, input dy, input result, std::int64_t dim, output out);
/// x - max - log sum e^(x - max); float16 rounds x - max to float16.
kernel aclnnLogSoftmax(planner& p, input self, std::int64_t dim, output out);

}  // namespace ascend::emulated::plans
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_EMULATOR)
RLCORE_BEGIN
namespace ascend::emulated::plans {

RLCORE_INLINE kernel aclnnSoftmax(planner& p, input self, std::int64_t dim, output out) {
  return by_rows(p, self, nullptr, dim, out,
                 [](execution& e, auto* y, const auto* x, const auto*, auto*, std::size_t n, data_type) {
                   const auto top = largest(x, n);
                   for (std::size_t i = 0; i < n; ++i) y[i] = e.exp(x[i] - top);
                   const auto sum = row_sum(y, n);
                   for (std::size_t i = 0; i < n; ++i) y[i] /= sum;
                 });
}

RLCORE_INLINE kernel aclnnSoftmaxBackward(planner& p, input dy, input result, std::int64_t dim, output out) {
  if (!result) p.refuse(null_pointer, "tensor 2: null");
  return by_rows(p, dy, result, dim, out,
                 [](execution&, auto* dx, const auto* g, const auto* y, auto* products, std::size_t n, data_type) {
                   using Real = std::remove_reference_t<decltype(*dx)>;
                   for (std::size_t i = 0; i < n; ++i) products[i] = g[i] * y[i];
                   const Real sum = row_sum(products, n);
                   for (std::size_t i = 0; i < n; ++i) dx[i] = (g[i] - sum) * y[i];
                 });
}

RLCORE_INLINE kernel aclnnLogSoftmax(planner& p, input self, std::int64_t dim, output out) {
  return by_rows(p, self, nullptr, dim, out,
                 [](execution& e, auto* y, const auto* x, const auto*, auto* powers, std::size_t n, data_type type) {
                   using Real = std::remove_reference_t<decltype(*y)>;
                   const Real top = largest(x, n);
                   for (std::size_t i = 0; i < n; ++i) y[i] = x[i] - top;
                   if (std::is_same_v<Real, float> && type == data_type::float16)
                     round_to(std::span<Real>(y, n), type, e.overflow);
                   for (std::size_t i = 0; i < n; ++i) powers[i] = e.exp(y[i]);
                   const Real log_sum = e.log(row_sum(powers, n));
                   for (std::size_t i = 0; i < n; ++i) y[i] -= log_sum;
                 });
}

}  // namespace ascend::emulated::plans
RLCORE_END
#endif
