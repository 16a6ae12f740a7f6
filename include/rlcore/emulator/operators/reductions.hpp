// Operators over an axis: sums, maxima, softmax, sort, top-k, argmax. Ties are broken at random where the hardware
// guarantees no order, unless deterministic. NaN counts as larger than all.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "rlcore/emulator/numerics/rounding.hpp"
#include "rlcore/emulator/operators/movement.hpp"
#include "rlcore/emulator/plan.hpp"

RLCORE_BEGIN
namespace ascend::emulated::plans {

/// Input of a reduction, with dimensions in the order in which the vector unit reads them.
struct reduction {
  tensor view;        ///< kept dimensions first if `rows`, else reduced ones first
  bool rows = false;  ///< the last dimension is reduced: rows are summed, else they are added to each other
  std::int64_t kept = 1, reduced = 1;
};
/// Empty dims mean all dimensions. The output has the kept extents and, with `keep`, 1 instead of the reduced ones.
reduction over(planner& p, const tensor& x, std::vector<std::int64_t> dims, bool keep, const tensor& y);

/// Sum in the requested type: the input is first cast to it; 16-bit types are summed in float and rounded once.
kernel aclnnReduceSum(planner& p, input self, ints dims, bool keep, data_type type, output out);
/// The maximum over dimensions; NaN if any element is NaN.
kernel aclnnAmax(planner& p, input self, ints dims, bool keep, output out);
/// The running sum along a dimension, in order; 16-bit types are summed in float and rounded per element.
kernel aclnnCumsum(planner& p, input self, std::int64_t dim, data_type type, output out);

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

RLCORE_INLINE reduction over(planner& p, const tensor& x, std::vector<std::int64_t> dims, bool keep, const tensor& y) {
  std::vector<bool> gone(x.shape.size(), dims.empty());
  for (const auto dim : dims) {
    const auto d = static_cast<std::size_t>(p.dimension(dim, x.rank()));
    if (x.rank() == 0) continue;
    p.require(!gone[d], "a dimension is named twice");
    gone[d] = true;
  }
  reduction r;
  r.view = x;
  r.view.shape.clear();
  r.view.strides.clear();
  r.rows = !gone.empty() && gone.back();
  extents shape;
  const auto put = [&](bool reduced) {
    for (std::size_t i = 0; i < gone.size(); ++i) {
      if (gone[i] != reduced) continue;
      r.view.shape.push_back(x.shape[i]);
      r.view.strides.push_back(x.strides[i]);
      (reduced ? r.reduced : r.kept) *= x.shape[i];
    }
  };
  put(!r.rows);
  put(r.rows);
  for (std::size_t i = 0; i < gone.size(); ++i) {
    if (!gone[i]) shape.push_back(x.shape[i]);
    if (gone[i] && keep) shape.push_back(1);
  }
  p.require_shape(y, shape, "the output");
  return r;
}

RLCORE_INLINE kernel aclnnReduceSum(planner& p, input self, ints dims, bool keep, data_type type, output out) {
  auto x = p.in(self, any_type);
  const auto d = p.values(dims);
  auto y = p.out(out, any_type);
  p.require(y.type == type, "the output is not of the type asked for");
  auto r = over(p, x, d, keep, y);
  p.workspace = static_cast<std::uint64_t>(r.kept) * 4 + 32;
  const bool cast = floating(type) && bytes_of(type) == 2 && x.type != type;
  return in_type(p.machine, type, [r = std::move(r), y = std::move(y), cast, type](execution& e, auto real) {
    using Real = decltype(real);
    auto from = e.read<Real>(r.view);
    if (cast) {
      Real* copy = e.take<Real>(from.size());
      std::copy(from.begin(), from.end(), copy);
      round_to(std::span<Real>(copy, from.size()), type, e.overflow);
      from = {copy, from.size()};
    }
    const auto to = e.result<Real>(y);
    const auto n = static_cast<std::size_t>(r.reduced);
    if (r.rows) {
      for (std::size_t i = 0; i < to.size(); ++i) to[i] = row_sum(from.data() + i * n, n);
    } else {
      std::fill(to.begin(), to.end(), Real{0});
      for (std::size_t k = 0; k < n; ++k)
        for (std::size_t i = 0; i < to.size(); ++i) to[i] = k == 0 ? from[i] : to[i] + from[k * to.size() + i];
    }
    e.store(y, to);
  });
}

RLCORE_INLINE kernel aclnnAmax(planner& p, input self, ints dims, bool keep, output out) {
  auto x = p.in(self, any_type);
  const auto d = p.values(dims);
  auto y = p.out(out, any_type);
  p.require(x.type == y.type, "input and output have different types");
  auto r = over(p, x, d, keep, y);
  p.require(r.reduced > 0 || r.kept == 0, "the maximum of nothing");
  return in_type(p.machine, x.type, [r = std::move(r), y = std::move(y)](execution& e, auto real) {
    using Real = decltype(real);
    const auto from = e.read<Real>(r.view);
    const auto to = e.result<Real>(y);
    const auto n = static_cast<std::size_t>(r.reduced);
    const std::size_t step = r.rows ? 1 : to.size();
    for (std::size_t i = 0; i < to.size(); ++i) {
      const Real* row = from.data() + (r.rows ? i * n : i);
      Real best = row[0];
      for (std::size_t k = 1; k < n; ++k) {
        const Real v = row[k * step];
        if (v > best || v != v) best = v;
        if (best != best) break;
      }
      to[i] = best;
    }
    e.store(y, to);
  });
}

RLCORE_INLINE kernel aclnnCumsum(planner& p, input self, std::int64_t dim, data_type type, output out) {
  auto x = p.in(self, any_type);
  auto y = p.out(out, any_type);
  p.require(y.type == type, "the output is not of the type asked for");
  p.require_shape(y, x.shape, "the output");
  const std::int64_t d = p.dimension(dim, x.rank());
  if (x.rank() > 0) {
    x = dimension_last(std::move(x), d);
    y = dimension_last(std::move(y), d);
  }
  return in_type(p.machine, type, [x = std::move(x), y = std::move(y)](execution& e, auto real) {
    using Real = decltype(real);
    const auto from = e.read<Real>(x);
    const auto to = e.result<Real>(y, true);
    const auto n = static_cast<std::size_t>(x.shape.empty() ? 1 : x.shape.back());
    Real sum{0};
    for (std::size_t i = 0; i < to.size(); ++i) {
      sum = i % n == 0 ? from[i] : sum + from[i];
      to[i] = sum;
    }
    e.store(y, to);
  });
}

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
