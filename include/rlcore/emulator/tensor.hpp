// A tensor of the emulator: extents, strides, elements.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/device/npu/abi/types.hpp"

RLCORE_BEGIN
namespace ascend::emulated {

/// Up to 16 numbers (tensors have 8 dimensions, intermediate shapes of indexing more), with a subset of std::vector's
/// interface. Throws std::length_error beyond.
class extents {
 public:
  static constexpr std::size_t most = 16;
  using value_type = std::int64_t;
  using iterator = std::int64_t*;
  using const_iterator = const std::int64_t*;

  extents() = default;
  /// Given numbers, n times one value, or the numbers of a range.
  extents(std::initializer_list<std::int64_t> values) { assign(values.begin(), values.end()); }
  explicit extents(std::size_t n, std::int64_t value = 0) { assign(n, value); }
  template <std::input_iterator It>
  extents(It first, It last) {
    assign(first, last);
  }
  extents(const std::vector<std::int64_t>& values) { assign(values.begin(), values.end()); }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const std::int64_t* data() const { return values_.data(); }
  iterator begin() { return values_.data(); }
  iterator end() { return begin() + size_; }
  const_iterator begin() const { return values_.data(); }
  const_iterator end() const { return begin() + size_; }
  /// Number i, which has to be below size().
  std::int64_t& operator[](std::size_t i) { return values_[i]; }
  std::int64_t operator[](std::size_t i) const { return values_[i]; }
  std::int64_t front() const { return values_[0]; }
  std::int64_t back() const { return values_[size_ - 1]; }
  std::int64_t& back() { return values_[size_ - 1]; }

  void clear() { size_ = 0; }
  /// Replaces the contents by n times one value, or by the numbers of a range.
  void assign(std::size_t n, std::int64_t value) {
    resize(n);
    std::fill(begin(), end(), value);
  }
  template <std::input_iterator It>
  void assign(It first, It last) {
    resize(static_cast<std::size_t>(std::distance(first, last)));
    std::copy(first, last, begin());
  }
  /// Appends a number.
  void push_back(std::int64_t value) {
    resize(size_ + 1);
    back() = value;
  }
  /// Inserts the numbers of a range, n times one value, or one value before `place`.
  template <std::input_iterator It>
  void insert(const_iterator place, It first, It last) {
    const auto at = place - begin(), before = static_cast<std::ptrdiff_t>(size_);
    for (; first != last; ++first) push_back(*first);
    std::rotate(begin() + at, begin() + before, end());
  }
  void insert(const_iterator place, std::size_t n, std::int64_t value) {
    const extents more(n, value);
    insert(place, more.begin(), more.end());
  }
  void insert(const_iterator place, std::int64_t value) { insert(place, &value, &value + 1); }
  /// Removes one number.
  void erase(const_iterator place) {
    const auto at = place - begin();
    std::copy(begin() + at + 1, end(), begin() + at);
    --size_;
  }
  friend bool operator==(const extents& a, const extents& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  void resize(std::size_t n) {
    if (n > most) throw std::length_error("a tensor of " + std::to_string(n) + " dimensions");
    size_ = n;
  }
  std::array<std::int64_t, most> values_{};
  std::size_t size_ = 0;
};

/// Product of the extents: 1 for rank 0.
inline std::int64_t product(const extents& shape) {
  std::int64_t n = 1;
  for (const auto d : shape) n *= d;
  return n;
}
/// Strides of a row-major tensor.
extents row_major(const extents& shape);
/// "[2, 3]".
inline std::string printed(const extents& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

/// A view: element (i0, i1, ...) lies `offset + i0 strides[0] + ...` elements after `data`, the start of a storage of
/// `storage` elements (-1 if its size was not given). Addresses are read only through execution, since they may change
/// after the executor was created; `slot` is the index of the address.
struct tensor {
  data_type type = data_type::undefined;
  extents shape, strides;
  std::int64_t offset = 0, storage = -1;
  void* data = nullptr;
  int slot = -1;

  std::int64_t size() const { return product(shape); }
  std::int64_t rank() const { return static_cast<std::int64_t>(shape.size()); }
  /// Elements in row-major order without gaps (the offset does not matter).
  bool contiguous() const;
  /// First and last element that the view reaches, counted from `data`; meaningless if it is empty.
  std::pair<std::int64_t, std::int64_t> reach() const;
};

/// The view broadcast to `shape`: missing leading and extent 1 dimensions are repeated. Throws nothing: broadcastable()
/// is the check.
tensor expanded(tensor t, const extents& shape);
/// Whether `from` can be repeated to `to`.
bool broadcastable(const extents& from, const extents& to);
/// The broadcast shape of both; false if they do not broadcast.
bool broadcast(const extents& a, const extents& b, extents& shape);
/// Dimension `i` moved to the end: reductions and softmax run along its rows.
tensor dimension_last(tensor t, std::int64_t i);

}  // namespace ascend::emulated
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_EMULATOR)
RLCORE_BEGIN
namespace ascend::emulated {

RLCORE_INLINE extents row_major(const extents& shape) {
  extents strides(shape.size());
  std::int64_t step = 1;
  for (std::size_t i = shape.size(); i-- > 0; step *= shape[i]) strides[i] = step;
  return strides;
}

RLCORE_INLINE bool tensor::contiguous() const {
  std::int64_t step = 1;
  for (std::size_t i = shape.size(); i-- > 0; step *= shape[i]) {
    if (shape[i] == 0) return true;
    if (shape[i] != 1 && strides[i] != step) return false;
  }
  return true;
}

RLCORE_INLINE std::pair<std::int64_t, std::int64_t> tensor::reach() const {
  std::int64_t first = offset, last = offset;
  for (std::size_t i = 0; i < shape.size(); ++i)
    (strides[i] < 0 ? first : last) += strides[i] * (shape[i] > 0 ? shape[i] - 1 : 0);
  return {first, last};
}

RLCORE_INLINE tensor expanded(tensor t, const extents& shape) {
  extents strides(shape.size(), 0);
  const std::size_t missing = shape.size() - t.shape.size();
  for (std::size_t i = 0; i < t.shape.size(); ++i)
    if (t.shape[i] == shape[missing + i]) strides[missing + i] = t.strides[i];
  t.shape = shape;
  t.strides = std::move(strides);
  return t;
}

RLCORE_INLINE bool broadcastable(const extents& from, const extents& to) {
  if (from.size() > to.size()) return false;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const auto d = to[to.size() - from.size() + i];
    if (from[i] != d && from[i] != 1) return false;
  }
  return true;
}

RLCORE_INLINE bool broadcast(const extents& a, const extents& b, extents& shape) {
  shape.assign(a.size() > b.size() ? a.size() : b.size(), 1);
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::size_t behind = shape.size() - i;
    const std::int64_t x = behind <= a.size() ? a[a.size() - behind] : 1,
                       y = behind <= b.size() ? b[b.size() - behind] : 1;
    if (x != y && x != 1 && y != 1) return false;
    shape[i] = x == 1 ? y : x;
  }
  return true;
}

RLCORE_INLINE tensor dimension_last(tensor t, std::int64_t i) {
  const auto k = static_cast<std::ptrdiff_t>(i);
  t.shape.push_back(t.shape[static_cast<std::size_t>(i)]);
  t.shape.erase(t.shape.begin() + k);
  t.strides.push_back(t.strides[static_cast<std::size_t>(i)]);
  t.strides.erase(t.strides.begin() + k);
  return t;
}

}  // namespace ascend::emulated
RLCORE_END
#endif
