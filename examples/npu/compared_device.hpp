// Differential testing: a device that computes everything twice, on the tested device and on a reference.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "kernel_bounds.hpp"
#include "kernel_outcome.hpp"
#include "rlcore/device/any_device.hpp"
#include "rlcore/device/npu/errors.hpp"
#include "rlcore/tensor/buffer.hpp"

/// Compares kernels of two devices as models and generation call them.
namespace comparison {

using rlcore::any_device;
using rlcore::extent_t;
namespace op = rlcore::op;

/// Every kernel runs on `tested`, and with the very same inputs on `reference`, which has the host's memory. Later
/// kernels use the results of `tested`, so that no difference is counted twice; if an operator rejects its arguments,
/// those of `reference`. Any other error ends the run.
class compared_device final : public rlcore::runs_any<compared_device> {
 public:
  compared_device(any_device& tested, any_device& reference) : tested_(tested), reference_(reference) {
    if (!reference.host_memory()) throw std::logic_error("the host does not reach the memory of the reference");
  }
  ~compared_device() override {
    packed_.clear();
    for (const auto& [p, a] : allocations_) reference_.release(a.shadow);
  }

  /// In the order of the first calls.
  const std::vector<outcome>& outcomes() const { return outcomes_; }

  std::string_view name() const override { return tested_.name(); }
  std::string description() const override { return tested_.description(); }
  bool batch_invariant() const override { return tested_.batch_invariant(); }
  bool gradients_in_order() const override { return tested_.gradients_in_order(); }
  bool host_memory() const override { return false; }
  std::optional<std::size_t> available_bytes() const override { return tested_.available_bytes(); }
  std::optional<rlcore::memory_peaks> most_memory() const override { return tested_.most_memory(); }
  void wait() override { tested_.wait(); }

  void* allocate(std::size_t bytes) override {
    void* const p = tested_.allocate(bytes);
    allocations_[static_cast<std::byte*>(p)] = {static_cast<std::byte*>(reference_.allocate(bytes)), bytes, false};
    return p;
  }
  void release(void* p) noexcept override {
    auto* const first = static_cast<std::byte*>(p);
    const auto found = allocations_.find(first);
    if (found == allocations_.end()) return;
    packed_.erase(packed_.lower_bound(first), packed_.lower_bound(first + found->second.bytes));
    reference_.release(found->second.shadow);
    allocations_.erase(found);
    tested_.release(p);
  }
  void upload(void* device, const void* host, std::size_t bytes) override {
    tested_.upload(device, host, bytes);
    if (bytes > 0) std::memcpy(shadow(device), host, bytes);
  }
  void download(void* host, const void* device, std::size_t bytes) override { tested_.download(host, device, bytes); }
  void fill_zero(void* p, std::size_t bytes) override {
    tested_.fill_zero(p, bytes);
    if (bytes > 0) std::memset(shadow(p), 0, bytes);
  }

  rlcore::weight_format compute_format() const override { return tested_.compute_format(); }
  std::size_t packed_bytes(rlcore::weight_format format, extent_t o, extent_t i) const override {
    return tested_.packed_bytes(format, o, i);
  }
  rlcore::logit_limits logit_tile() const override { return tested_.logit_tile(); }
  /// Each device has its own pages in memory of one size.
  std::size_t kv_page_bytes(const rlcore::attention_shape& s) const override {
    return std::max(tested_.kv_page_bytes(s), reference_.kv_page_bytes(s));
  }

  /// Runs an operation on both devices and compares what it writes. What list() does not know throws std::logic_error.
  template <class Operation>
  rlcore::operation_result<Operation> run_any(const Operation& o) {
    call c{*this, rlcore::operation_name<Operation>()};
    if constexpr (std::is_same_v<Operation, op::block_sums_of_squares>) {
      tested_.run(o);
    } else if constexpr (requires(Operation& own) { list(own, c); }) {
      Operation own = o;
      list(own, c);
      if constexpr (std::is_void_v<rlcore::operation_result<Operation>>) {
        run_both(c, [&] { reference_.run(own); }, [&] { tested_.run(o); });
      } else {
        double wanted = 0;
        std::optional<double> found;
        run_both(c, [&] { wanted = reference_.run(own); }, [&] { found = tested_.run(o); });
        if (!found) return wanted;  // refused
        outcome& to = outcomes_[number(c.name, c.bound)];
        to.compared = true;
        see(to, *found, wanted);
        return *found;
      }
    } else {
      throw std::logic_error(std::string(c.name) + " is not compared");
    }
  }

 private:
  struct allocation {
    std::byte* shadow = nullptr;  ///< memory of the reference, of the same size
    std::size_t bytes = 0;
    bool own_layout = false;  ///< pages: each device keeps its own
  };
  struct packed_weight {
    extent_t outputs = 0;
    rlcore::buffer<std::byte, any_device> bytes;
  };
  /// `rows` of `width` values of `each` bytes that start `row` values apart.
  struct block {
    const void* first = nullptr;
    extent_t rows = 0, row = 0, width = 0;
    std::size_t each = sizeof(float);

    std::size_t bytes() const {
      return first == nullptr || rows == 0 ? 0 : static_cast<std::size_t>((rows - 1) * row + width) * each;
    }
  };
  /// What one operation reads and writes. Each function replaces a pointer by the reference's.
  struct call {
    compared_device& on;
    std::string_view name;
    double bound = float_bound;
    std::vector<block> reads = {}, writes = {};
    std::vector<rlcore::attention_segment> segments = {};
    std::vector<rlcore::attention_segment_gradient> gradients = {};

    template <class T>
    void move(T*& p) {
      if (p != nullptr) p = reinterpret_cast<T*>(on.shadow(p));
    }
    template <class T>
    void in(T*& p, extent_t rows, extent_t row, extent_t width) {
      reads.push_back({p, rows, row, width, sizeof(T)});
      move(p);
    }
    template <class T>
    void in(T*& p, extent_t n) {
      in(p, 1, n, n);
    }
    template <class T>
    void out(T*& p, extent_t rows, extent_t row, extent_t width) {
      writes.push_back({p, rows, row, width, sizeof(T)});
      move(p);
    }
    template <class T>
    void out(T*& p, extent_t n) {
      out(p, 1, n, n);
    }
    void in(rlcore::norm_arguments& n) { in(n.weight, n.width); }
    /// Keys and values of the segments; returns the number of rows.
    extent_t in(const rlcore::attention_shape& shape, std::span<const rlcore::attention_segment>& of) {
      extent_t t = 0;
      segments.assign(of.begin(), of.end());
      for (auto& s : segments) {
        t = std::max(t, s.first_row + s.rows);
        if (s.pages != nullptr) {
          in(s.pages, rlcore::kv_pages(keys_of(s)));
          move(s.keys), move(s.values);
        } else {
          for (const float** const p : {&s.keys, &s.values})
            in(*p, keys_of(s), s.key_row, shape.kv_heads * shape.head_dim);
        }
      }
      of = segments;
      return t;
    }
  };
  static extent_t keys_of(const rlcore::attention_segment& s) { return s.first_position + s.rows; }

  /// Packed layouts differ per device: a packed weight is compared through its products.
  void list(op::pack_weight& o, call& c) {
    packed_weight& copy = packed_[o.packed];
    copy.outputs = o.outputs;
    copy.bytes = {reference_, reference_.packed_bytes(o.format, o.outputs, o.inputs)};
    c.bound = exact;
    c.in(o.weight, o.outputs * o.inputs);
    o.packed = copy.bytes.data();
  }
  void list(op::linear_forward& o, call& c) {
    c.bound = product_bound;
    c.in(o.x, o.rows * o.inputs), c.in(o.bias, o.outputs);
    c.out(o.y, o.rows, o.outputs, o.outputs);
    o.packed = packed_of(o.packed, o.format, o.inputs);
  }
  void list(op::linear_backward_input& o, call& c) {
    c.bound = product_bound;
    c.in(o.dy, o.rows * o.outputs), c.in(o.weight, o.outputs * o.inputs);
    c.out(o.dx, o.rows, o.inputs, o.inputs);
    if (o.packed != nullptr) o.packed = packed_of(o.packed, o.format, o.inputs);
  }
  void list(op::linear_backward_weight& o, call& c) {
    c.bound = product_bound;
    c.in(o.dy, o.rows * o.outputs), c.in(o.x, o.rows * o.inputs);
    c.out(o.dweight, o.outputs, o.inputs, o.inputs);
  }
  void list(op::sum_rows& o, call& c) { c.in(o.x, o.rows * o.width), c.out(o.total, o.width); }

  void list(op::rms_norm_forward& o, call& c) {
    const extent_t groups = o.norm.groups, w = groups * o.norm.width;
    c.in(o.x, o.rows, o.norm.row, w), c.in(o.norm);
    c.out(o.y, o.rows, o.y_row, w), c.out(o.rstd, o.rows, groups, groups);
  }
  void list(op::add_rms_norm_forward& o, call& c) {
    const extent_t w = o.norm.width;
    c.in(o.a, o.rows * w), c.in(o.b, o.rows * w), c.in(o.norm);
    c.out(o.total, o.rows, w, w), c.out(o.y, o.rows, w, w), c.out(o.rstd, o.rows, 1, 1);
  }
  void list(op::rms_norm_backward& o, call& c) {
    const extent_t w = o.norm.groups * o.norm.width;
    c.in(o.dy, o.rows, o.dy_row, w), c.in(o.x, o.rows, o.norm.row, w), c.in(o.rstd, o.rows * o.norm.groups);
    c.in(o.norm), c.out(o.dx, o.rows, o.dy_row, w);
  }
  void list(op::rms_norm_backward_weight& o, call& c) {
    const extent_t w = o.norm.groups * o.norm.width;
    c.in(o.dy, o.rows, o.dy_row, w), c.in(o.x, o.rows, o.norm.row, w), c.in(o.rstd, o.rows * o.norm.groups);
    c.in(o.norm), c.out(o.dweight, o.norm.width);
  }
  void list(op::rope& o, call& c) {
    const extent_t table = rows_below(o.positions, o.rows) * (o.head_dim / 2);
    c.in(o.positions, o.rows), c.in(o.cosine, table), c.in(o.sine, table);
    c.out(o.x, o.rows, o.row, o.heads * o.head_dim);
  }

  /// Page layouts differ per device: stored values are compared through attention.
  void list(op::store_keys_values& o, call& c) {
    holder(o.layer)->second.own_layout = true;
    const extent_t w = o.shape.kv_heads * o.shape.head_dim, t = c.in(o.shape, o.segments);
    c.bound = exact;
    c.in(o.keys, t, o.row, w), c.in(o.values, t, o.row, w), c.move(o.layer);
  }
  void list(op::attention_forward& o, call& c) {
    const extent_t w = o.shape.heads * o.shape.head_dim;
    if (!o.segments.empty() && o.segments.front().pages != nullptr) c.name = "attention_forward, pages";
    c.bound = attention_bound;
    const extent_t t = c.in(o.shape, o.segments);
    c.in(o.q, t, o.q_row, w), c.out(o.out, t, o.out_row, w), c.move(o.statistics);
  }
  void list(op::attention_backward& o, call& c) {
    const extent_t w = o.shape.heads * o.shape.head_dim, kv = o.shape.kv_heads * o.shape.head_dim;
    c.bound = attention_gradient;
    const extent_t t = c.in(o.shape, o.segments);
    c.in(o.q, t, o.q_row, w), c.in(o.out, t, o.out_row, w), c.in(o.dout, t, o.out_row, w);
    c.out(o.dq, t, o.q_row, w), c.move(o.statistics);
    c.gradients.assign(o.gradients.begin(), o.gradients.end());
    for (std::size_t i = 0; i < c.gradients.size(); ++i)
      for (float** const p : {&c.gradients[i].keys, &c.gradients[i].values})
        c.out(*p, keys_of(o.segments[i]), o.segments[i].key_row, kv);
    o.gradients = c.gradients;
  }

  void list(op::swiglu_forward& o, call& c) {
    c.in(o.gate_up, 2 * o.rows * o.width), c.out(o.y, o.rows, o.width, o.width);
  }
  void list(op::swiglu_backward& o, call& c) {
    c.in(o.dy, o.rows * o.width), c.in(o.gate_up, 2 * o.rows * o.width);
    c.out(o.dgate_up, o.rows, 2 * o.width, 2 * o.width);
  }
  void list(op::gelu_forward& o, call& c) { c.in(o.x, o.n), c.out(o.y, o.n); }
  void list(op::gelu_backward& o, call& c) { c.in(o.dy, o.n), c.in(o.x, o.n), c.out(o.dx, o.n); }
  void list(op::gather_rows& o, call& c) {
    c.bound = exact;
    c.in(o.x, o.x_rows * o.width), c.in(o.ids, o.count), c.out(o.y, o.count, o.width, o.width);
  }
  void list(op::scatter_add_rows& o, call& c) {
    c.in(o.x, o.count * o.width), c.in(o.ids.data, o.count), c.out(o.y, o.ids.rows, o.width, o.width);
  }
  void list(op::copy_rows& o, call& c) {
    c.bound = exact;
    c.out(o.y, o.ids.data ? o.ids.rows : o.count, o.y_row, o.width);
    c.in(o.x, o.count, o.x_row, o.width), c.in(o.ids.data, o.count);
  }
  void list(op::scale_rows& o, call& c) {
    c.in(o.x, o.rows * o.width), c.in(o.factor, o.rows), c.out(o.y, o.rows, o.width, o.width);
  }
  void list(op::dot_rows& o, call& c) { c.in(o.a, o.rows * o.width), c.in(o.b, o.rows * o.width), c.out(o.y, o.rows); }
  void list(op::add& o, call& c) { c.in(o.a, o.n), c.in(o.b, o.n), c.out(o.y, o.n); }
  void list(op::scale& o, call& c) { c.out(o.y, o.n); }
  void list(op::fill& o, call& c) { c.bound = exact, c.out(o.y, o.n); }

  // Statistics and states differ per device: they are compared through their results.
  void list(op::log_prob_forward& o, call& c) {
    c.in(o.logits, o.rows * o.vocabulary), c.in(o.targets, o.rows), c.move(o.statistics);
    c.out(o.logp, o.rows), c.out(o.entropy, o.rows);
  }
  void list(op::log_prob_accumulate& o, call& c) {
    c.bound = exact;
    c.in(o.logits, o.rows * o.width), c.in(o.targets, o.rows), c.move(o.states);
  }
  void list(op::log_prob_finish& o, call& c) {
    c.move(o.states), c.move(o.statistics), c.out(o.logp, o.rows), c.out(o.entropy, o.rows);
  }
  void list(op::log_prob_merge& o, call& c) { c.bound = exact, c.move(o.a), c.move(o.b); }
  void list(op::log_prob_backward& o, call& c) {
    c.in(o.targets, o.rows), c.in(o.dlogp, o.rows), c.in(o.dentropy, o.rows), c.in(o.entropy, o.rows);
    c.out(o.logits, o.rows, o.width, o.width), c.move(o.statistics);
  }
  void list(op::sample& o, call& c) {
    c.name = o.settings.temperature == 0 ? "sample, most likely" : "sample, drawn";
    c.bound = exact;
    c.in(o.logits, o.rows * o.vocabulary), c.in(o.uniform, o.rows), c.out(o.tokens, o.rows);
  }
  void list(op::sum_of_squares& o, call& c) { c.in(o.x, o.n); }
  void list(op::adamw& o, call& c) {
    c.bound = optimizer_bound;
    c.in(o.gradient, o.n), c.out(o.weights, o.n), c.out(o.m, o.n), c.out(o.v, o.n);
  }

  std::map<const std::byte*, allocation>::iterator holder(const void* p) {
    const auto next = allocations_.upper_bound(static_cast<const std::byte*>(p));
    if (next == allocations_.begin()) throw std::logic_error("a kernel was given memory of no device");
    return std::prev(next);
  }
  std::byte* shadow(const void* p) const {
    const auto found = const_cast<compared_device*>(this)->holder(p);
    return found->second.shadow + (static_cast<const std::byte*>(p) - found->first);
  }
  bool comparable(const block& b) { return b.bytes() > 0 && !holder(b.first)->second.own_layout; }

  /// One more than the largest of the row numbers.
  extent_t rows_below(const std::int32_t* ids, extent_t count) {
    std::vector<std::int32_t> host(static_cast<std::size_t>(count));
    tested_.download(host.data(), ids, host.size() * sizeof(std::int32_t));
    return count == 0 ? 0 : 1 + *std::max_element(host.begin(), host.end());
  }
  /// The reference's copy of a packed weight, or of its outputs from an offset on.
  const std::byte* packed_of(const std::byte* packed, rlcore::weight_format format, extent_t i) const {
    const auto found = std::prev(packed_.upper_bound(packed));
    const auto offset = static_cast<std::size_t>(packed - found->first);
    extent_t first = 0;
    while (first < found->second.outputs && tested_.packed_bytes(format, first, i) < offset) ++first;
    return found->second.bytes.data() + reference_.packed_bytes(format, first, i);
  }

  std::size_t number(std::string_view name, double bound) {
    std::size_t n = 0;
    while (n < outcomes_.size() && outcomes_[n].kernel != name) ++n;
    if (n == outcomes_.size()) outcomes_.push_back({std::string(name), bound, 0, 0, false, {}});
    return n;
  }

  template <class OnReference, class OnTested>
  void run_both(const call& c, OnReference on_reference, OnTested on_tested) {
    const std::size_t own = number(c.name, c.bound);
    ++outcomes_[own].calls;
    for (const auto* const blocks : {&c.reads, &c.writes})  // gradients are added to
      for (const block& b : *blocks)
        if (comparable(b)) tested_.download(shadow(b.first), b.first, b.bytes());
    on_reference();
    try {
      on_tested();
      tested_.wait();
    } catch (const rlcore::ascend::npu_error& e) {
      fail(outcomes_[own], e.what());
      if (e.domain != rlcore::ascend::domain::operators) throw;
      for (const block& b : c.writes)
        if (comparable(b)) tested_.upload(const_cast<void*>(b.first), shadow(b.first), b.bytes());
      return;
    }
    for (const block& b : c.writes)
      if (comparable(b)) compare(outcomes_[own], b);
  }

  static void fail(outcome& o, const std::string& why) {
    o.difference = std::numeric_limits<double>::infinity();
    if (o.problem.empty()) o.problem = o.kernel + ": " + why;
  }
  static double value(const std::byte* p, std::size_t each) {
    if (each == sizeof(double)) return *reinterpret_cast<const double*>(p);
    return static_cast<double>(*reinterpret_cast<const float*>(p));
  }
  /// Tokens are equal or not; other values differ relative to their own size or to that of all.
  void compare(outcome& o, const block& b) {
    o.compared = true;
    std::vector<std::byte> found(b.bytes());
    tested_.download(found.data(), b.first, found.size());
    const std::byte* const wanted = shadow(b.first);
    const auto at = [&](extent_t r, extent_t c) { return static_cast<std::size_t>(r * b.row + c) * b.each; };
    if (o.kernel.starts_with("sample")) {
      for (extent_t c = 0; c < b.width; ++c)
        if (std::memcmp(found.data() + at(0, c), wanted + at(0, c), b.each) != 0) {
          o.difference += 1;
          if (o.problem.empty()) o.problem = o.kernel + ": other tokens than the processor's";
        }
      return;
    }
    double squares = 0;
    for (extent_t r = 0; r < b.rows; ++r)
      for (extent_t c = 0; c < b.width; ++c) {
        const double x = value(wanted + at(r, c), b.each);
        if (std::isfinite(x)) squares += x * x;
      }
    const double size = std::sqrt(squares / static_cast<double>(b.rows * b.width));
    for (extent_t r = 0; r < b.rows; ++r)
      for (extent_t c = 0; c < b.width; ++c)
        see(o, value(found.data() + at(r, c), b.each), value(wanted + at(r, c), b.each), size, r, c);
  }
  static void see(outcome& o, double found, double wanted, double size = 0, extent_t row = 0, extent_t column = 0) {
    if (found == wanted || (std::isnan(found) && std::isnan(wanted))) return;
    double difference = std::abs(found - wanted) / std::max(std::abs(wanted), size);
    if (std::isnan(difference) || std::isinf(wanted)) difference = std::numeric_limits<double>::infinity();
    o.difference = std::max(o.difference, difference);
    if (difference > o.bound && o.problem.empty()) {
      char text[160];
      std::snprintf(text, sizeof text, ": element %lld,%lld is %.7g, the processor has %.7g",
                    static_cast<long long>(row), static_cast<long long>(column), found, wanted);
      o.problem = o.kernel + text;
    }
  }

  any_device& tested_;
  any_device& reference_;
  std::map<const std::byte*, allocation> allocations_;
  std::map<const std::byte*, packed_weight> packed_;
  std::vector<outcome> outcomes_;
};

}  // namespace comparison
