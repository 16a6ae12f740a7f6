// Sort, top-k and argmax. Ties are broken at random where the hardware guarantees no order, unless deterministic. NaN
// counts as larger than all.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "rlcore/emulator/operators/reductions.hpp"

RLCORE_BEGIN
namespace ascend::emulated::plans {

/// Whether a comes before b in descending order.
template <class Real>
bool larger(Real a, Real b) {
  if (a != a || b != b) return a != a && b == b;
  return a > b;
}

/// For each row along dimension d: the first `count` of its sorted elements and their indices.
kernel sorted_rows(planner& p, tensor x, std::int64_t d, std::int64_t count, bool descending, bool ties_by_index,
                   bool by_index, tensor values, tensor places);

/// Sorted values along a dimension, and their indices; ties keep their order if `stable` or deterministic.
kernel aclnnSort(planner& p, input self, bool stable, std::int64_t dim, bool descending, output values, output indices);
/// Unsorted results are in the order of their indices.
kernel aclnnTopk(planner& p, input self, std::int64_t k, std::int64_t dim, bool largest, bool sorted, output values,
                 output indices);
/// The first index of the maximum.
kernel aclnnArgMax(planner& p, input self, std::int64_t dim, bool keep, output out);

}  // namespace ascend::emulated::plans
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_EMULATOR)
RLCORE_BEGIN
namespace ascend::emulated::plans {

RLCORE_INLINE kernel sorted_rows(planner& p, tensor x, std::int64_t d, std::int64_t count, bool descending,
                                 bool ties_by_index, bool by_index, tensor values, tensor places) {
  extents shape = x.shape;
  if (!shape.empty()) shape[static_cast<std::size_t>(d)] = count;
  p.require(values.type == x.type, "input and output have different types");
  p.require_shape(values, shape, "the values");
  p.require_shape(places, shape, "the indices");
  p.workspace = static_cast<std::uint64_t>(x.size()) * 8 + 32;
  if (x.rank() > 0) {
    x = dimension_last(std::move(x), d);
    values = dimension_last(std::move(values), d);
    places = dimension_last(std::move(places), d);
  }
  return in_type(
      p.machine, x.type,
      [=, x = std::move(x), values = std::move(values), places = std::move(places)](execution& e, auto real) {
        using Real = decltype(real);
        const auto from = e.read<Real>(x);
        const auto to = e.result<Real>(values);
        const auto at = e.result<std::int64_t>(places);
        const auto n = static_cast<std::size_t>(x.shape.empty() ? 1 : x.shape.back()),
                   k = static_cast<std::size_t>(count);
        if (to.empty()) return;
        std::vector<std::uint32_t> order(n);
        for (std::size_t row = 0; row < from.size() / n; ++row) {
          const Real* v = from.data() + row * n;
          for (std::size_t i = 0; i < n; ++i) order[i] = static_cast<std::uint32_t>(i);
          if (!ties_by_index) e.shuffle(order);
          const auto before = [&](std::uint32_t a, std::uint32_t b) {
            return descending ? larger(v[a], v[b]) : larger(v[b], v[a]);
          };
          std::stable_sort(order.begin(), order.end(), before);
          if (by_index) std::sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(k));
          for (std::size_t i = 0; i < k; ++i) {
            to[row * k + i] = v[order[i]];
            at[row * k + i] = static_cast<std::int64_t>(order[i]);
          }
        }
        e.store(values, to);
        e.store(places, at);
      });
}

RLCORE_INLINE kernel aclnnSort(planner& p, input self, bool stable, std::int64_t dim, bool descending, output values,
                               output indices) {
  auto x = p.in(self, any_type);
  auto v = p.out(values, any_type), at = p.out(indices, {data_type::int64});
  const std::int64_t d = p.dimension(dim, x.rank());
  const std::int64_t n = x.rank() > 0 ? x.shape[static_cast<std::size_t>(d)] : 1;
  return sorted_rows(p, std::move(x), d, n, descending, stable || p.deterministic, false, std::move(v), std::move(at));
}

RLCORE_INLINE kernel aclnnTopk(planner& p, input self, std::int64_t k, std::int64_t dim, bool largest, bool sorted,
                               output values, output indices) {
  auto x = p.in(self, any_type);
  auto v = p.out(values, any_type), at = p.out(indices, {data_type::int64});
  const std::int64_t d = p.dimension(dim, x.rank());
  const std::int64_t n = x.rank() > 0 ? x.shape[static_cast<std::size_t>(d)] : 1;
  p.require(k >= 0 && k <= n, "k is larger than the dimension");
  return sorted_rows(p, std::move(x), d, k, largest, p.deterministic, !sorted, std::move(v), std::move(at));
}

RLCORE_INLINE kernel aclnnArgMax(planner& p, input self, std::int64_t dim, bool keep, output out) {
  auto x = p.in(self, any_type);
  auto y = p.out(out, index_types);
  const std::int64_t d = p.dimension(dim, x.rank());
  extents shape = x.shape;
  if (x.rank() > 0) {
    p.require(x.shape[static_cast<std::size_t>(d)] > 0, "the maximum of nothing");
    if (keep)
      shape[static_cast<std::size_t>(d)] = 1;
    else
      shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(d));
    x = dimension_last(std::move(x), d);
  }
  p.require_shape(y, shape, "the output");
  const auto type = x.type;
  return in_type(p.machine, type, [x = std::move(x), y = std::move(y)](execution& e, auto real) {
    using Real = decltype(real);
    const auto from = e.read<Real>(x);
    const auto to = e.result<std::int64_t>(y);
    const auto n = static_cast<std::size_t>(x.shape.empty() ? 1 : x.shape.back());
    for (std::size_t i = 0; i < to.size(); ++i) {
      const Real* row = from.data() + i * n;
      std::size_t best = 0;
      for (std::size_t k = 1; k < n; ++k)
        if (larger(row[k], row[best])) best = k;
      to[i] = static_cast<std::int64_t>(best);
    }
    e.store(y, to);
  });
}

}  // namespace ascend::emulated::plans
RLCORE_END
#endif
