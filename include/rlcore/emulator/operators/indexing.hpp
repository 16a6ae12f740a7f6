// Gather, index select, index add and index put. An out-of-range index is a stream error 507015 when the kernel reads
// it; the hardware accesses other memory.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/emulator/operators/movement.hpp"

RLCORE_BEGIN
namespace ascend::emulated::plans {

/// Throws outcome_error 507015 unless i is in [0, extent).
inline void check_index(std::int64_t i, std::int64_t extent, const char* name) {
  if (i < 0 || i >= extent)
    throw outcome_error{507015, std::string(name) + ": index " + std::to_string(i) + " of " + std::to_string(extent)};
}
/// Extents before and after a dimension.
std::pair<std::int64_t, std::int64_t> around(const extents& shape, std::int64_t d);
/// Calls body(e, Word{}) with an unsigned word of the element size, for operators that copy bits.
template <class Body>
kernel in_words(data_type type, Body body) {
  switch (bytes_of(type)) {
    case 1:
      return [body = std::move(body)](execution& e) { body(e, std::uint8_t{}); };
    case 2:
      return [body = std::move(body)](execution& e) { body(e, std::uint16_t{}); };
    case 4:
      return [body = std::move(body)](execution& e) { body(e, std::uint32_t{}); };
    default:
      return [body = std::move(body)](execution& e) { body(e, std::uint64_t{}); };
  }
}

/// out[i][j][k] = self[i][index[i][j][k]][k].
kernel aclnnGather(planner& p, input self, std::int64_t dim, input index, output out);
/// out[i][j][k] = self[i][index[j]][k].
kernel aclnnIndexSelect(planner& p, input self, std::int64_t dim, input index, output out);
/// out = self, then out[i][index[j]][k] += alpha source[i][j][k]: atomic additions, in random order unless
/// deterministic. 16-bit types are summed in float and rounded once.
kernel aclnnIndexAdd(planner& p, input self, std::int64_t dim, input index, input source, scalar alpha, output out);

/// Addresses of self[indices...]: the shape of the result, which has the indexed dimensions once, and the offsets of
/// its elements in self.
struct indexed_elements {
  extents common;                    ///< the shape of the indices, broadcast
  std::vector<std::size_t> indexed;  ///< dimensions of self
  extents shape;                     ///< of the result
  extents strides;                   ///< in self, of the result's elements; 0 along the indexed dimensions
  std::size_t first = 0;             ///< of the indexed dimensions in the result

  /// Refuses indices that do not broadcast or are not indices.
  indexed_elements(planner& p, const tensor& self, const std::vector<tensor>& indices);

  /// The offset in self of every index of the common shape. Throws where an index is outside of self.
  std::span<const std::int64_t> places(execution& e, const tensor& self, const std::vector<tensor>& indices) const;
  /// The offset in self of element `flat` of the result.
  std::int64_t offset(std::size_t flat, std::span<const std::int64_t> places) const;

 private:
  void put_common() {
    shape.insert(shape.end(), common.begin(), common.end());
    strides.insert(strides.end(), common.size(), 0);
  }
};

/// The storage between the first and the last element of `t`, as a vector.
tensor reached_by(const tensor& t);

/// self[indices...] = values, or += if `accumulate`. An empty tensor stands for a full slice. Adjacent indexed
/// dimensions stay in their place, else their common shape comes first. If several values are written to one element, a
/// random one wins unless deterministic; additions are in random order unless deterministic.
kernel aclnnIndexPutImpl(planner& p, output self, input_list indices, input values, bool accumulate, bool);

}  // namespace ascend::emulated::plans
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_EMULATOR)
RLCORE_BEGIN
namespace ascend::emulated::plans {

RLCORE_INLINE std::pair<std::int64_t, std::int64_t> around(const extents& shape, std::int64_t d) {
  std::pair<std::int64_t, std::int64_t> n{1, 1};
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(shape.size()); ++i)
    if (i != d) (i < d ? n.first : n.second) *= shape[static_cast<std::size_t>(i)];
  return n;
}

RLCORE_INLINE kernel aclnnGather(planner& p, input self, std::int64_t dim, input index, output out) {
  auto x = p.in(self, any_type), at = p.in(index, index_types);
  auto y = p.out(out, any_type);
  p.require(x.type == y.type, "input and output have different types");
  p.require(x.rank() == at.rank(), "index and input have different ranks");
  p.require_shape(y, at.shape, "the output");
  const std::int64_t d = p.dimension(dim, x.rank());
  for (std::int64_t i = 0; i < x.rank(); ++i)
    p.require(i == d || at.shape[static_cast<std::size_t>(i)] <= x.shape[static_cast<std::size_t>(i)],
              "the index is larger than the input");
  const auto type = x.type;
  return in_words(type, [x = std::move(x), at = std::move(at), y = std::move(y), d](execution& e, auto word) {
    using Word = decltype(word);
    if (y.size() == 0) return;
    const auto index_values = e.read<std::int64_t>(at);
    const auto* source = reinterpret_cast<const Word*>(e.storage(x, access::read));
    Word* words = e.take<Word>(index_values.size());
    const auto walked = static_cast<std::size_t>(d);
    const std::size_t rank = y.shape.size();
    std::vector<std::int64_t> place(rank, 0);
    for (std::size_t i = 0; i < index_values.size(); ++i) {
      std::int64_t element = x.offset;
      if (rank > 0) check_index(index_values[i], x.shape[walked], "aclnnGather");
      for (std::size_t k = 0; k < rank; ++k) element += x.strides[k] * (k == walked ? index_values[i] : place[k]);
      words[i] = source[element];
      for (std::size_t k = rank; k-- > 0;) {
        if (++place[k] < y.shape[k]) break;
        place[k] = 0;
      }
    }
    scatter_as<Word>(y, e.storage(y, access::write), words, rounding::nearest_even, e.overflow);
  });
}

RLCORE_INLINE kernel aclnnIndexSelect(planner& p, input self, std::int64_t dim, input index, output out) {
  auto x = p.in(self, any_type), at = p.in(index, index_types);
  auto y = p.out(out, any_type);
  p.require(x.type == y.type, "input and output have different types");
  p.require(at.rank() <= 1, "the index is not a vector");
  const std::int64_t d = p.dimension(dim, x.rank());
  extents shape = x.shape;
  p.require(!shape.empty(), "a tensor of rank 0");
  shape[static_cast<std::size_t>(d)] = at.size();
  p.require_shape(y, shape, "the output");
  return [x = std::move(x), at = std::move(at), y = std::move(y), d](execution& e) {
    const auto index_values = e.read<std::int64_t>(at);
    const auto walked = static_cast<std::size_t>(d);
    for (const auto i : index_values) check_index(i, x.shape[walked], "aclnnIndexSelect");
    if (d == 0 && x.contiguous() && y.contiguous() && y.size() > 0) {  // rows, as in an embedding
      const std::size_t row = static_cast<std::size_t>(around(x.shape, 0).second) * bytes_of(x.type);
      const auto size = static_cast<std::int64_t>(bytes_of(x.type));
      const std::byte* source = e.storage(x, access::read) + x.offset * size;
      std::byte* target = e.storage(y, access::write) + y.offset * size;
      for (std::size_t j = 0; j < index_values.size(); ++j)
        std::memmove(target + j * row, source + static_cast<std::size_t>(index_values[j]) * row, row);
      return;
    }
    for (std::size_t j = 0; j < index_values.size(); ++j)
      e.move(narrowed(x, d, index_values[j], 1), narrowed(y, d, static_cast<std::int64_t>(j), 1));
  };
}

RLCORE_INLINE kernel aclnnIndexAdd(planner& p, input self, std::int64_t dim, input index, input source, scalar alpha,
                                   output out) {
  auto x = p.in(self, any_type), at = p.in(index, index_types), s = p.in(source, any_type);
  const double factor = p.value(alpha);
  auto y = p.out(out, any_type);
  p.require(x.type == y.type && s.type == x.type, "self, source and output have different types");
  p.require_shape(y, x.shape, "the output");
  p.require(at.rank() <= 1, "the index is not a vector");
  const std::int64_t d = p.dimension(dim, x.rank());
  extents shape = x.shape;
  p.require(!shape.empty(), "a tensor of rank 0");
  shape[static_cast<std::size_t>(d)] = at.size();
  p.require_shape(s, shape, "the source");
  p.workspace = static_cast<std::uint64_t>(at.size()) * 8 + 32;
  return in_type(p.machine, x.type,
                 [x = std::move(x), at = std::move(at), s = std::move(s), y = std::move(y), d, factor,
                  fixed = p.deterministic](execution& e, auto real) {
                   using Real = decltype(real);
                   const auto before = e.read<Real>(x), terms = e.read<Real>(s);
                   const auto index_values = e.read<std::int64_t>(at);
                   const auto sum = e.result<Real>(y, true);
                   if (sum.data() != before.data()) std::copy(before.begin(), before.end(), sum.begin());
                   const auto [outer, inner] = around(x.shape, d);
                   const auto rows = index_values.size(), width = static_cast<std::size_t>(inner);
                   const auto extent = static_cast<std::size_t>(x.shape[static_cast<std::size_t>(d)]);
                   for (const auto i : index_values)
                     check_index(i, x.shape[static_cast<std::size_t>(d)], "aclnnIndexAdd");
                   const auto order = e.arrival_order(fixed ? 0 : rows);
                   for (std::size_t o = 0; o < static_cast<std::size_t>(outer); ++o)
                     for (std::size_t j = 0; j < rows; ++j) {
                       const std::size_t row = fixed ? j : order[j];
                       Real* to = sum.data() + (o * extent + static_cast<std::size_t>(index_values[row])) * width;
                       const Real* from = terms.data() + (o * rows + row) * width;
                       for (std::size_t k = 0; k < width; ++k) to[k] += static_cast<Real>(factor) * from[k];
                     }
                   e.store(y, sum);
                 });
}

RLCORE_INLINE indexed_elements::indexed_elements(planner& p, const tensor& self, const std::vector<tensor>& indices) {
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (indices[i].rank() == 1 && indices[i].size() == 0) continue;
    extents wider;
    p.require(broadcast(common, indices[i].shape, wider), "the indices do not broadcast");
    common = std::move(wider);
    indexed.push_back(i);
  }
  p.require(!indexed.empty(), "no index");
  // The indexed dimensions come first, or at the place of the first of them.
  const bool adjacent = indexed.back() - indexed.front() + 1 == indexed.size();
  first = adjacent ? indexed.front() : 0;
  if (!adjacent) put_common();
  for (std::size_t i = 0; i < self.shape.size(); ++i) {
    if (adjacent && i == indexed.front()) put_common();
    if (std::find(indexed.begin(), indexed.end(), i) != indexed.end()) continue;
    shape.push_back(self.shape[i]);
    strides.push_back(self.strides[i]);
  }
}

RLCORE_INLINE std::span<const std::int64_t> indexed_elements::places(execution& e, const tensor& self,
                                                                     const std::vector<tensor>& indices) const {
  const auto n = static_cast<std::size_t>(product(common));
  auto* at = e.take<std::int64_t>(n);
  std::fill(at, at + n, self.offset);
  for (const auto i : indexed) {
    const auto index_values = e.read<std::int64_t>(indices[i]);
    for (std::size_t j = 0; j < n; ++j) {
      const std::int64_t wrapped = index_values[j] < 0 ? index_values[j] + self.shape[i] : index_values[j];
      check_index(wrapped, self.shape[i], "aclnnIndexPutImpl");
      at[j] += wrapped * self.strides[i];
    }
  }
  return {at, n};
}

RLCORE_INLINE std::int64_t indexed_elements::offset(std::size_t flat, std::span<const std::int64_t> places) const {
  std::int64_t element = 0, rest = static_cast<std::int64_t>(flat), place = 0, scale = 1;
  for (std::size_t k = shape.size(); k-- > 0;) {
    const std::int64_t i = rest % shape[k];
    rest /= shape[k];
    if (k >= first && k < first + common.size()) {
      place += i * scale;
      scale *= shape[k];
    } else {
      element += i * strides[k];
    }
  }
  return element + places[static_cast<std::size_t>(place)];
}

RLCORE_INLINE tensor reached_by(const tensor& t) {
  const auto [low, high] = t.reach();
  tensor reached = t;
  reached.shape = {high + 1 - low};
  reached.strides = {1};
  reached.offset = low;
  return reached;
}

RLCORE_INLINE kernel aclnnIndexPutImpl(planner& p, output self, input_list indices, input values, bool accumulate,
                                       bool) {
  auto x = p.out(self, any_type);
  auto at = p.list(indices, index_types);
  auto v = p.in(values, any_type);
  p.require(v.type == x.type, "self and values have different types");
  p.require(static_cast<std::int64_t>(at.size()) <= x.rank(), "more indices than dimensions");
  const indexed_elements elements(p, x, at);
  p.require(broadcastable(v.shape, elements.shape), "the values do not broadcast to " + printed(elements.shape));
  v = expanded(std::move(v), elements.shape);
  for (const auto i : elements.indexed) at[i] = expanded(std::move(at[i]), elements.common);
  p.workspace = static_cast<std::uint64_t>(product(elements.common)) * 8 + 32;
  return in_type(
      p.machine, x.type,
      [=, x = std::move(x), at = std::move(at), v = std::move(v), fixed = p.deterministic](execution& e, auto real) {
        using Real = decltype(real);
        const auto places = elements.places(e, x, at);
        const auto from = e.read<Real>(v);
        if (from.empty()) return;
        // The kernel updates a compact copy of the elements that self's view reaches, then stores it with
        // one rounding.
        const tensor reached = reached_by(x);
        const auto old = e.read<Real>(reached);
        const auto sum = e.result<Real>(reached, true);
        if (sum.data() != old.data()) std::copy(old.begin(), old.end(), sum.begin());
        const auto order = e.arrival_order(fixed ? 0 : from.size());
        for (std::size_t j = 0; j < from.size(); ++j) {
          const std::size_t flat = fixed ? j : order[j];
          Real& to = sum[static_cast<std::size_t>(elements.offset(flat, places) - reached.offset)];
          to = accumulate ? to + from[flat] : from[flat];
        }
        e.store(reached, sum);
      });
}

}  // namespace ascend::emulated::plans
RLCORE_END
#endif
