// Accumulates one gradient piece on the rank that owns it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/parallel/device_memory.hpp"
#include "rlcore/parallel/reduction/reduction.hpp"
#include "rlcore/parallel/settings.hpp"
#include "rlcore/tensor/buffer.hpp"

RLCORE_BEGIN
namespace parallel {

/// Numbers in units of 2^-44 (6e-14); smaller parts of float gradients are lost. A number that is not finite, or too
/// large for a sum of `terms` of them, is `invalid`, and so is every sum with it.
struct fixed_point {
  using value = std::int64_t;
  static constexpr value invalid = std::numeric_limits<value>::min();

  /// The largest magnitude, in units, such that `terms` of them fit into 2^62.
  static double limit(std::size_t terms) noexcept {
    return std::ldexp(1.0, 62) / static_cast<double>(terms < 1 ? 1 : terms);
  }
  /// x * 2^44 rounded to the nearest integer, ties to even; invalid if |x * 2^44| is above `limit` or NaN.
  static value of(float x, double limit) noexcept {
    const double units = static_cast<double>(x) * 0x1p44;
    return std::fabs(units) <= limit ? static_cast<value>(std::nearbyint(units)) : invalid;
  }
  /// x * 2^-44; NaN if x is invalid.
  static float to_float(value x) noexcept {
    return x == invalid ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(x) * 0x1p-44f;
  }
  /// a + b; invalid if either is.
  static value sum(value a, value b) noexcept { return a == invalid || b == invalid ? invalid : a + b; }

  /// total[i] += x[i] for i < n.
  static void add(value* total, const value* x, std::size_t n) noexcept {
    for (std::size_t i = 0; i < n; ++i) total[i] = sum(total[i], x[i]);
  }
  /// The same for floats, each rounded as of() does.
  static void add(value* total, const float* x, std::size_t n, double limit) noexcept {
    for (std::size_t i = 0; i < n; ++i) total[i] = sum(total[i], of(x[i], limit));
  }
};

/// The tree nodes that consecutive ranks hold after their local additions; known to all ranks. With ranked and exact
/// sums all additions are one.
struct held_nodes {
  std::vector<reduction_node> sums, absent;

  /// Of the summing ranks [first, first + count); present[i]: does leaf i have rows?
  held_nodes(const leaf_schedule& schedule, const std::vector<bool>& present, reduction_kind kind, std::size_t first,
             std::size_t count);
};

/// Receives nodes of the leaf tree in host memory, in any order (tree, exact) or in rank order, round by round
/// (ranked), and returns their sum.
class piece_sum {
 public:
  piece_sum() = default;
  /// Sums in the order of `kind` over a tree of this many leaves.
  piece_sum(reduction_kind kind, std::size_t leaves) : kind_(kind), tree_(leaves), limit_(fixed_point::limit(leaves)) {}

  /// Starts the sum of a piece of this many values.
  void begin(std::size_t values);
  std::size_t size() const noexcept { return size_; }

  /// Adds a node; null: absent.
  void push(reduction_node node, const float* x);
  /// Adds a node as integers in units of 2^-44, for exact sums; null: absent.
  void push(reduction_node, const fixed_point::value* x) {
    if (!x) return;
    begin_fixed();
    fixed_point::add(fixed_.data(), x, size_);
  }
  /// Ends a round: the nodes of all ranks have arrived.
  void end_round() {
    if (!std::exchange(row_any_, false)) return;
    any_ ? add(total_, row_.data()) : total_.swap(row_);
    any_ = true;
  }

  /// A node that is still pending, to be added to the sums of other ranks; null if absent. With ranked sums there is
  /// one.
  const float* find(reduction_node node) const;
  const fixed_point::value* fixed() const { return any_ ? fixed_.data() : nullptr; }
  /// The sum; 0 if all nodes were absent.
  void write(std::span<float> out) const;

  std::size_t bytes() const noexcept;

 private:
  template <class F>
  void for_nodes(F&& f) const {
    if (kind_ == reduction_kind::tree) {
      for (const auto& e : tree_.entries())
        if (e.value) f(e.node, e.value->data());
    } else if (any_) {
      if (kind_ == reduction_kind::exact)
        f(reduction_node{}, fixed_.data());
      else
        f(reduction_node{}, total_.data());
    }
  }
  static float value(float x) noexcept { return x; }
  static float value(fixed_point::value x) noexcept { return fixed_point::to_float(x); }
  void begin_fixed() {
    if (!std::exchange(any_, true)) fixed_.assign(size_, 0);
  }
  std::vector<float> copy(const float* x);
  static void add(std::vector<float>& total, const float* x) {
    for (std::size_t i = 0; i < total.size(); ++i) total[i] += x[i];
  }

  reduction_kind kind_ = reduction_kind::tree;
  std::size_t size_ = 0;
  bool any_ = false, row_any_ = false;
  reduction_tree<std::vector<float>> tree_;
  double limit_ = 0;
  std::vector<std::vector<float>> idle_;
  std::vector<float> row_, total_;
  std::vector<fixed_point::value> fixed_;
};

/// exchange() of x, in device memory, by the devices of `c`: node(r) is that of rank r, if it sends one. The owner of a
/// part adds on its device what is siblings in the tree of `leaves`, or of ranked sums all; only sums go to `into`.
template <class Device, class Node>
void exchange_on_devices(Device& device, any_communicator& c, const float* x, std::span<const std::size_t> counts,
                         Node&& node, std::size_t leaves, bool in_tree, std::vector<float>& stage, piece_sum& into) {
  const std::size_t n = counts[static_cast<std::size_t>(c.rank())];
  std::vector<std::size_t> sent(counts.size(), 0), received(counts.size(), 0);
  std::vector<reduction_node> nodes;
  for (std::size_t r = 0; r < counts.size(); ++r) {
    if (x) sent[r] = counts[r];
    if (!node(r)) continue;
    received[r] = n;
    nodes.push_back(*node(r));
  }
  buffer<float, Device> rows(device, n * nodes.size());
  c.device_all_to_all(x, bytes_of<float>(sent), rows.data(), bytes_of<float>(received));
  if (nodes.empty()) return;
  if (!in_tree) {
    sum_rows(ranked{}, device, rows.data(), nodes.size(), n);
    return into.push({}, host_view(device, rows.data(), n, stage));
  }
  reduction_tree<float*> sums(leaves);
  float* at = rows.data();
  for (const reduction_node k : nodes) {
    sums.push(k, at, [&](float*& left, float*&& right) { add_values(device, left, right, n); });
    at += n;
  }
  for (const auto& e : sums.entries()) into.push(e.node, host_view(device, *e.value, n, stage));
}

}  // namespace parallel
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_PARALLEL)
RLCORE_BEGIN
namespace parallel {

RLCORE_INLINE held_nodes::held_nodes(const leaf_schedule& schedule, const std::vector<bool>& present,
                                     reduction_kind kind, std::size_t first, std::size_t count) {
  reduction_tree<char> made(schedule.sums());
  bool any = false;
  for (std::size_t r = first; r < first + count; ++r)
    for (std::size_t round = 0; round < schedule.rounds(); ++round) {
      const std::size_t at = schedule.number(r, round);
      if (at == leaf_schedule::none) continue;
      const bool has_rows = schedule.present(at, present);
      any = any || has_rows;
      made.push_leaf(at, has_rows ? std::optional<char>(0) : std::nullopt, [](char&, char&&) {});
    }
  if (kind == reduction_kind::tree) {
    for (const auto& e : made.entries()) (e.value ? sums : absent).push_back(e.node);
    std::sort(sums.begin(), sums.end(), [](reduction_node a, reduction_node b) { return a.first() < b.first(); });
  } else if (any) {
    sums.push_back({});
  }
}

RLCORE_INLINE void piece_sum::begin(std::size_t values) {
  for (auto& e : tree_.entries())
    if (e.value) idle_.push_back(std::move(*e.value));
  tree_.clear();
  size_ = values, any_ = row_any_ = false;
}

RLCORE_INLINE void piece_sum::push(reduction_node node, const float* x) {
  if (kind_ == reduction_kind::tree) {
    std::optional<std::vector<float>> value;
    if (x) value = copy(x);
    tree_.push(node, std::move(value), [this](std::vector<float>& left, std::vector<float>&& right) {
      add(left, right.data());
      idle_.push_back(std::move(right));
    });
  } else if (x && kind_ == reduction_kind::exact) {
    begin_fixed();
    fixed_point::add(fixed_.data(), x, size_, limit_);
  } else if (x) {
    row_any_ ? add(row_, x) : row_.assign(x, x + size_);
    row_any_ = true;
  }
}

RLCORE_INLINE const float* piece_sum::find(reduction_node node) const {
  if (kind_ != reduction_kind::tree) return any_ ? total_.data() : nullptr;
  for (const auto& e : tree_.entries())
    if (e.node == node && e.value) return e.value->data();
  return nullptr;
}

RLCORE_INLINE void piece_sum::write(std::span<float> out) const {
  bool written = false;
  for_nodes([&](reduction_node, const auto* x) {
    for (std::size_t i = 0; i < size_; ++i) out[i] = value(x[i]);
    written = true;
  });
  if (!written) std::fill(out.begin(), out.end(), 0.0f);
}

RLCORE_INLINE std::size_t piece_sum::bytes() const noexcept {
  std::size_t n = (row_.capacity() + total_.capacity()) * sizeof(float) + fixed_.capacity() * sizeof(fixed_[0]);
  for (const auto& v : idle_) n += v.capacity() * sizeof(float);
  for (const auto& e : tree_.entries())
    if (e.value) n += e.value->capacity() * sizeof(float);
  return n;
}

RLCORE_INLINE std::vector<float> piece_sum::copy(const float* x) {
  std::vector<float> v;
  if (!idle_.empty()) v = std::move(idle_.back()), idle_.pop_back();
  v.assign(x, x + size_);
  return v;
}

}  // namespace parallel
RLCORE_END
#endif
