// Tensor extents or strides in a fixed-size array: describing a tensor allocates nothing.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "rlcore/core/abi.hpp"

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

}  // namespace ascend::emulated
RLCORE_END
