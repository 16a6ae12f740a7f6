// Differential testing: a device that computes everything twice, on the tested device and on a reference.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "kernel_bounds.hpp"
#include "kernel_outcome.hpp"
#include "rlcore/device/any_device.hpp"
#include "rlcore/device/npu/error.hpp"
#include "rlcore/tensor/buffer.hpp"

/// Compares kernels of two devices as models and generation call them.
namespace comparison {

using rlcore::any_device;
using rlcore::extent_t;

/// Every kernel runs on `tested`, and with the very same inputs on `reference`, which has the host's memory. Later
/// kernels use the results of `tested`, so that no difference is counted twice; if an operator rejects its arguments,
/// those of `reference`. Any other error ends the run.
class compared_device final : public any_device {
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
  bool host_memory() const override { return false; }
  std::optional<std::size_t> available_bytes() const override { return tested_.available_bytes(); }
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
  /// Packed layouts differ per device: a packed weight is compared through its products.
  void pack_weight(std::byte* packed, rlcore::weight_format format, const float* weight, extent_t o,
                   extent_t i) override {
    packed_weight& copy = packed_[packed];
    copy.outputs = o;
    copy.bytes = {reference_, reference_.packed_bytes(format, o, i)};
    run("pack_weight", exact, {in(weight, o * i)}, {}, [&](any_device& d, place at) {
      d.pack_weight(&d == &tested_ ? packed : copy.bytes.data(), format, at(weight), o, i);
    });
  }
  void linear_forward(float* y, const float* x, const std::byte* packed, rlcore::weight_format format,
                      const float* bias, extent_t t, extent_t o, extent_t i) override {
    const std::byte* const own = packed_of(packed, format, i);
    run("linear_forward", product_bound, {in(x, t * i), in(bias, o)}, {out(y, t, o, o)}, [&](any_device& d, place at) {
      d.linear_forward(at(y), at(x), &d == &tested_ ? packed : own, format, at(bias), t, o, i);
    });
  }
  void linear_backward_input(float* dx, const float* dy, const float* weight, extent_t t, extent_t o, extent_t i,
                             bool accumulate) override {
    run("linear_backward_input", product_bound, {in(dy, t * o), in(weight, o * i)}, {out(dx, t, i, i)},
        [&](any_device& d, place at) { d.linear_backward_input(at(dx), at(dy), at(weight), t, o, i, accumulate); });
  }
  void linear_backward_weight(float* dweight, const float* dy, const float* x, extent_t t, extent_t o, extent_t i,
                              bool accumulate) override {
    run("linear_backward_weight", product_bound, {in(dy, t * o), in(x, t * i)}, {out(dweight, o, i, i)},
        [&](any_device& d, place at) { d.linear_backward_weight(at(dweight), at(dy), at(x), t, o, i, accumulate); });
  }
  void sum_rows(float* total, const float* x, extent_t t, extent_t w) override {
    run("sum_rows", float_bound, {in(x, t * w)}, {out(total, 1, w, w)},
        [&](any_device& d, place at) { d.sum_rows(at(total), at(x), t, w); });
  }

  void rms_norm_forward(const rlcore::norm_arguments& n, float* y, extent_t y_row, const float* x, float* rstd,
                        extent_t t) override {
    const extent_t w = n.groups * n.width;
    run("rms_norm_forward", float_bound, {in(x, t, n.row, w), in(n.weight, n.width)},
        {out(y, t, y_row, w), out(rstd, t, n.groups, n.groups)},
        [&](any_device& d, place at) { d.rms_norm_forward(moved(n, at), at(y), y_row, at(x), at(rstd), t); });
  }
  void add_rms_norm_forward(const rlcore::norm_arguments& n, float* total, const float* a, const float* b, float* y,
                            float* rstd, extent_t t) override {
    const extent_t w = n.width;
    run("add_rms_norm_forward", float_bound, {in(a, t * w), in(b, t * w), in(n.weight, w)},
        {out(total, t, w, w), out(y, t, w, w), out(rstd, t, 1, 1)}, [&](any_device& d, place at) {
          d.add_rms_norm_forward(moved(n, at), at(total), at(a), at(b), at(y), at(rstd), t);
        });
  }
  void rms_norm_backward(const rlcore::norm_arguments& n, float* dx, const float* dy, extent_t row, const float* x,
                         const float* rstd, extent_t t, bool accumulate) override {
    const extent_t w = n.groups * n.width;
    run("rms_norm_backward", float_bound,
        {in(dy, t, row, w), in(x, t, n.row, w), in(rstd, t * n.groups), in(n.weight, n.width)}, {out(dx, t, row, w)},
        [&](any_device& d, place at) {
          d.rms_norm_backward(moved(n, at), at(dx), at(dy), row, at(x), at(rstd), t, accumulate);
        });
  }
  void rms_norm_backward_weight(const rlcore::norm_arguments& n, float* dweight, const float* dy, extent_t dy_row,
                                const float* x, const float* rstd, extent_t t) override {
    const extent_t w = n.groups * n.width;
    run("rms_norm_backward_weight", float_bound,
        {in(dy, t, dy_row, w), in(x, t, n.row, w), in(rstd, t * n.groups), in(n.weight, n.width)},
        {out(dweight, 1, n.width, n.width)}, [&](any_device& d, place at) {
          d.rms_norm_backward_weight(moved(n, at), at(dweight), at(dy), dy_row, at(x), at(rstd), t);
        });
  }
  void rope(float* x, extent_t row, extent_t heads, extent_t head_dim, const std::int32_t* positions,
            const float* cosine, const float* sine, extent_t t, bool inverse) override {
    const extent_t table = rows_below(positions, t) * (head_dim / 2);
    run("rope", float_bound, {in(positions, t), in(cosine, table), in(sine, table)}, {out(x, t, row, heads * head_dim)},
        [&](any_device& d, place at) {
          d.rope(at(x), row, heads, head_dim, at(positions), at(cosine), at(sine), t, inverse);
        });
  }

  /// Page layouts differ per device: stored values are compared through attention.
  void store_keys_values(const rlcore::attention_shape& s, std::span<const rlcore::attention_segment> segments,
                         float* layer, const float* keys, const float* values, extent_t row) override {
    holder(layer)->second.own_layout = true;
    const extent_t w = s.kv_heads * s.head_dim, t = rows_of(segments);
    std::vector<block> reads = reads_of(s, segments);
    reads.insert(reads.end(), {in(keys, t, row, w), in(values, t, row, w)});
    run("store_keys_values", exact, reads, {}, [&](any_device& d, place at) {
      d.store_keys_values(s, moved(segments, at), at(layer), at(keys), at(values), row);
    });
  }
  void attention_forward(const rlcore::attention_shape& s, std::span<const rlcore::attention_segment> segments,
                         const float* q, extent_t q_row, float* out_rows, extent_t out_row,
                         float* statistics) override {
    const extent_t w = s.heads * s.head_dim, t = rows_of(segments);
    const bool pages = !segments.empty() && segments.front().pages != nullptr;
    std::vector<block> reads = reads_of(s, segments);
    reads.push_back(in(q, t, q_row, w));
    run(pages ? "attention_forward, pages" : "attention_forward", attention_bound, reads,
        {out(out_rows, t, out_row, w)}, [&](any_device& d, place at) {
          d.attention_forward(s, moved(segments, at), at(q), q_row, at(out_rows), out_row, at(statistics));
        });
  }
  void attention_backward(const rlcore::attention_shape& s, std::span<const rlcore::attention_segment> segments,
                          std::span<const rlcore::attention_segment_gradient> gradients, const float* q, extent_t q_row,
                          const float* out_rows, const float* dout, extent_t out_row, const float* statistics,
                          float* dq) override {
    const extent_t w = s.heads * s.head_dim, kv = s.kv_heads * s.head_dim, t = rows_of(segments);
    std::vector<block> reads = reads_of(s, segments), writes{out(dq, t, q_row, w)};
    reads.insert(reads.end(), {in(q, t, q_row, w), in(out_rows, t, out_row, w), in(dout, t, out_row, w)});
    for (std::size_t i = 0; i < segments.size(); ++i)
      for (float* const p : {gradients[i].keys, gradients[i].values})
        writes.push_back(out(p, keys_of(segments[i]), segments[i].key_row, kv));
    run("attention_backward", attention_gradient, reads, writes, [&](any_device& d, place at) {
      std::vector<rlcore::attention_segment_gradient> own;
      for (const auto& g : gradients) own.push_back({at(g.keys), at(g.values)});
      d.attention_backward(s, moved(segments, at), own, at(q), q_row, at(out_rows), at(dout), out_row, at(statistics),
                           at(dq));
    });
  }
  /// Parts are for ranks that share a sequence; only one here.
  extent_t attention_tile() const override { return 0; }
  void attention_forward_part(const rlcore::attention_shape&, std::span<const rlcore::attention_segment>,
                              std::span<const rlcore::attention_part>, const float*, extent_t, float*, extent_t,
                              float*) override {
    throw std::logic_error("attention in parts is not compared");
  }
  void attention_backward_part(const rlcore::attention_shape&, std::span<const rlcore::attention_segment>,
                               std::span<const rlcore::attention_part>,
                               std::span<const rlcore::attention_segment_gradient>, const float*, extent_t,
                               const float*, const float*, extent_t, const float*, float*) override {
    throw std::logic_error("attention in parts is not compared");
  }
  void swiglu_forward(float* y, const float* gate_up, extent_t t, extent_t w) override {
    run("swiglu_forward", float_bound, {in(gate_up, 2 * t * w)}, {out(y, t, w, w)},
        [&](any_device& d, place at) { d.swiglu_forward(at(y), at(gate_up), t, w); });
  }
  void swiglu_backward(float* dgate_up, const float* dy, const float* gate_up, extent_t t, extent_t w) override {
    run("swiglu_backward", float_bound, {in(dy, t * w), in(gate_up, 2 * t * w)}, {out(dgate_up, t, 2 * w, 2 * w)},
        [&](any_device& d, place at) { d.swiglu_backward(at(dgate_up), at(dy), at(gate_up), t, w); });
  }
  void gelu_forward(float* y, const float* x, extent_t n) override {
    run("gelu_forward", float_bound, {in(x, n)}, {out(y, 1, n, n)},
        [&](any_device& d, place at) { d.gelu_forward(at(y), at(x), n); });
  }
  void gelu_backward(float* dx, const float* dy, const float* x, extent_t n) override {
    run("gelu_backward", float_bound, {in(dy, n), in(x, n)}, {out(dx, 1, n, n)},
        [&](any_device& d, place at) { d.gelu_backward(at(dx), at(dy), at(x), n); });
  }
  void gather_rows(float* y, const float* x, extent_t rows, const std::int32_t* ids, extent_t count,
                   extent_t w) override {
    run("gather_rows", exact, {in(x, rows * w), in(ids, count)}, {out(y, count, w, w)},
        [&](any_device& d, place at) { d.gather_rows(at(y), at(x), rows, at(ids), count, w); });
  }
  void scatter_add_rows(float* y, const float* x, rlcore::row_ids ids, extent_t count, extent_t w) override {
    run("scatter_add_rows", float_bound, {in(x, count * w), in(ids.data, count)}, {out(y, ids.rows, w, w)},
        [&](any_device& d, place at) { d.scatter_add_rows(at(y), at(x), there(at, ids), count, w); });
  }
  void copy_rows(float* y, extent_t y_row, rlcore::row_ids ids, const float* x, extent_t x_row, extent_t count,
                 extent_t w) override {
    run("copy_rows", exact, {in(x, count, x_row, w), in(ids.data, count)},
        {out(y, ids.data ? ids.rows : count, y_row, w)},
        [&](any_device& d, place at) { d.copy_rows(at(y), y_row, there(at, ids), at(x), x_row, count, w); });
  }
  void scale_rows(float* y, const float* x, const float* factor, extent_t t, extent_t w) override {
    run("scale_rows", float_bound, {in(x, t * w), in(factor, t)}, {out(y, t, w, w)},
        [&](any_device& d, place at) { d.scale_rows(at(y), at(x), at(factor), t, w); });
  }
  void dot_rows(float* y, const float* a, const float* b, extent_t t, extent_t w) override {
    run("dot_rows", float_bound, {in(a, t * w), in(b, t * w)}, {out(y, 1, t, t)},
        [&](any_device& d, place at) { d.dot_rows(at(y), at(a), at(b), t, w); });
  }
  void add(float* y, const float* a, const float* b, extent_t n) override {
    run("add", float_bound, {in(a, n), in(b, n)}, {out(y, 1, n, n)},
        [&](any_device& d, place at) { d.add(at(y), at(a), at(b), n); });
  }
  void scale(float* y, float factor, extent_t n) override {
    run("scale", float_bound, {}, {out(y, 1, n, n)}, [&](any_device& d, place at) { d.scale(at(y), factor, n); });
  }
  void fill(float* y, float value, extent_t n) override {
    run("fill", exact, {}, {out(y, 1, n, n)}, [&](any_device& d, place at) { d.fill(at(y), value, n); });
  }

  // Statistics and states differ per device: they are compared through their results.
  void log_prob_forward(const float* logits, extent_t t, extent_t vocabulary, const std::int32_t* targets,
                        float temperature, float* logp, float* entropy, float* statistics) override {
    run("log_prob_forward", float_bound, {in(logits, t * vocabulary), in(targets, t)},
        {out(logp, 1, t, t), out(entropy, 1, t, t)}, [&](any_device& d, place at) {
          d.log_prob_forward(at(logits), t, vocabulary, at(targets), temperature, at(logp), at(entropy),
                             at(statistics));
        });
  }
  void log_prob_accumulate(rlcore::log_prob_state* states, const float* logits, extent_t t, extent_t w, extent_t first,
                           const std::int32_t* targets, float temperature) override {
    run("log_prob_accumulate", exact, {in(logits, t * w), in(targets, t)}, {}, [&](any_device& d, place at) {
      d.log_prob_accumulate(at(states), at(logits), t, w, first, at(targets), temperature);
    });
  }
  void log_prob_finish(const rlcore::log_prob_state* states, extent_t t, float temperature, float* logp, float* entropy,
                       float* statistics) override {
    run("log_prob_finish", float_bound, {}, {out(logp, 1, t, t), out(entropy, 1, t, t)}, [&](any_device& d, place at) {
      d.log_prob_finish(at(states), t, temperature, at(logp), at(entropy), at(statistics));
    });
  }
  void log_prob_merge(rlcore::log_prob_state* a, const rlcore::log_prob_state* b, extent_t t) override {
    run("log_prob_merge", exact, {}, {}, [&](any_device& d, place at) { d.log_prob_merge(at(a), at(b), t); });
  }
  void log_prob_backward(float* logits, extent_t t, extent_t w, extent_t first, const std::int32_t* targets,
                         float temperature, const float* dlogp, const float* dentropy, const float* entropy,
                         const float* statistics) override {
    run("log_prob_backward", float_bound, {in(targets, t), in(dlogp, t), in(dentropy, t), in(entropy, t)},
        {out(logits, t, w, w)}, [&](any_device& d, place at) {
          d.log_prob_backward(at(logits), t, w, first, at(targets), temperature, at(dlogp), at(dentropy), at(entropy),
                              at(statistics));
        });
  }
  void sample(const rlcore::sampling_arguments& how, const float* logits, extent_t t, extent_t vocabulary,
              const double* uniform, std::int32_t* tokens) override {
    run(how.temperature == 0 ? "sample, most likely" : "sample, drawn", exact,
        {in(logits, t * vocabulary), in(uniform, t)}, {out(tokens, 1, t, t)},
        [&](any_device& d, place at) { d.sample(how, at(logits), t, vocabulary, at(uniform), at(tokens)); });
  }

  double sum_of_squares(const float* x, extent_t n) override {
    std::optional<double> own, wanted;
    run("sum_of_squares", float_bound, {in(x, n)}, {},
        [&](any_device& d, place at) { (&d == &tested_ ? own : wanted) = d.sum_of_squares(at(x), n); });
    if (!own) return *wanted;  // refused
    outcome& o = outcomes_[number("sum_of_squares", float_bound)];
    o.compared = true;
    see(o, *own, *wanted);
    return *own;
  }
  void block_sums_of_squares(const float* x, extent_t n, extent_t size, double* sums) override {
    tested_.block_sums_of_squares(x, n, size, sums);
  }
  void adamw(float* w, float* m, float* v, const float* g, extent_t n, const rlcore::adamw_step& s) override {
    run("adamw", optimizer_bound, {in(g, n)}, {out(w, 1, n, n), out(m, 1, n, n), out(v, 1, n, n)},
        [&](any_device& d, place at) { d.adamw(at(w), at(m), at(v), at(g), n, s); });
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
  /// A caller's pointer translated to the device of a call.
  struct place {
    const compared_device* shadows;  ///< null: unchanged
    template <class T>
    T* operator()(T* p) const {
      if (shadows == nullptr || p == nullptr) return p;
      return reinterpret_cast<T*>(shadows->shadow(p));
    }
  };
  using kernel = std::function<void(any_device&, place)>;

  template <class T>
  static block in(const T* p, extent_t n) {
    return {p, 1, n, n, sizeof(T)};
  }
  template <class T>
  static block in(const T* p, extent_t rows, extent_t row, extent_t width) {
    return {p, rows, row, width, sizeof(T)};
  }
  template <class T>
  static block out(T* p, extent_t rows, extent_t row, extent_t width) {
    return {p, rows, row, width, sizeof(T)};
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

  // Translates the arguments of a call to either device.
  static rlcore::norm_arguments moved(rlcore::norm_arguments n, place at) {
    n.weight = at(n.weight);
    return n;
  }
  static std::vector<rlcore::attention_segment> moved(std::span<const rlcore::attention_segment> segments, place at) {
    std::vector<rlcore::attention_segment> all(segments.begin(), segments.end());
    for (auto& s : all) s.keys = at(s.keys), s.values = at(s.values), s.pages = at(s.pages);
    return all;
  }
  static extent_t rows_of(std::span<const rlcore::attention_segment> segments) {
    extent_t t = 0;
    for (const auto& s : segments) t = std::max(t, s.first_row + s.rows);
    return t;
  }
  static extent_t keys_of(const rlcore::attention_segment& s) { return s.first_position + s.rows; }
  static std::vector<block> reads_of(const rlcore::attention_shape& shape,
                                     std::span<const rlcore::attention_segment> segments) {
    std::vector<block> all;
    for (const auto& s : segments)
      if (s.pages != nullptr)
        all.push_back(in(s.pages, rlcore::kv_pages(keys_of(s))));
      else
        for (const float* const p : {s.keys, s.values})
          all.push_back(in(p, keys_of(s), s.key_row, shape.kv_heads * shape.head_dim));
    return all;
  }
  static rlcore::row_ids there(const place& at, const rlcore::row_ids& ids) { return {at(ids.data), ids.rows}; }
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

  void run(std::string_view name, double bound, std::vector<block> reads, const std::vector<block>& writes,
           const kernel& call) {
    const std::size_t own = number(name, bound);
    ++outcomes_[own].calls;
    reads.insert(reads.end(), writes.begin(), writes.end());  // gradients are added to
    for (const block& b : reads)
      if (comparable(b)) tested_.download(shadow(b.first), b.first, b.bytes());
    call(reference_, {this});
    try {
      call(tested_, {nullptr});
      tested_.wait();
    } catch (const rlcore::ascend::npu_error& e) {
      fail(outcomes_[own], e.what());
      if (e.domain != rlcore::ascend::domain::operators) throw;
      for (const block& b : writes)
        if (comparable(b)) tested_.upload(const_cast<void*>(b.first), shadow(b.first), b.bytes());
      return;
    }
    for (const block& b : writes)
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
