// Sum, max and cumsum over dimensions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "rlcore/emulator/numerics/reductions.hpp"
#include "rlcore/emulator/operators/movement.hpp"

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

}  // namespace ascend::emulated::plans
RLCORE_END
#endif
