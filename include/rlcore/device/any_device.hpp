// Type-erased device, chosen at run time, so that programs are compiled once for all devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "rlcore/device/block_sums.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/device/losses/loss_device.hpp"
#include "rlcore/device/packed_rows.hpp"
#include "rlcore/device/partial_attention.hpp"

RLCORE_BEGIN

/// Any device behind one virtual call per kernel; models `device`. Programs do not know at compile time whether the
/// host can read its memory, so they use download() for results. The concept describes the members; results are
/// bit-identical to those of the wrapped device. Use it from one thread, like every device.
class any_device : public any_loss_device {
 public:
  virtual std::string_view name() const = 0;
  /// Full description of the device, for report headers: "cpu (avx512), 2 threads".
  virtual std::string description() const = 0;
  virtual bool batch_invariant() const = 0;
  /// Whether the host may read and write the memory after wait().
  virtual bool host_memory() const = 0;
  /// The free bytes of device memory, if that is not host memory.
  virtual std::optional<std::size_t> available_bytes() const = 0;

  virtual weight_format compute_format() const = 0;
  virtual std::size_t packed_bytes(weight_format format, extent_t o, extent_t i) const = 0;
  virtual void pack_weight(std::byte* packed, weight_format format, const float* weight, extent_t o, extent_t i) = 0;
  virtual void linear_forward(float* y, const float* x, const std::byte* packed, weight_format format,
                              const float* bias, extent_t t, extent_t o, extent_t i) = 0;
  virtual void linear_backward_input(float* dx, const float* dy, const float* weight, extent_t t, extent_t o,
                                     extent_t i, bool accumulate) = 0;
  virtual void linear_backward_weight(float* dweight, const float* dy, const float* x, extent_t t, extent_t o,
                                      extent_t i, bool accumulate) = 0;
  virtual void sum_rows(float* total, const float* x, extent_t t, extent_t w) = 0;

  virtual void rms_norm_forward(const norm_arguments& n, float* y, extent_t y_row, const float* x, float* rstd,
                                extent_t t) = 0;
  virtual void add_rms_norm_forward(const norm_arguments& n, float* total, const float* a, const float* b, float* y,
                                    float* rstd, extent_t t) = 0;
  virtual void rms_norm_backward(const norm_arguments& n, float* dx, const float* dy, extent_t row, const float* x,
                                 const float* rstd, extent_t t, bool accumulate) = 0;
  virtual void rms_norm_backward_weight(const norm_arguments& n, float* dweight, const float* dy, extent_t dy_row,
                                        const float* x, const float* rstd, extent_t t) = 0;
  virtual void rope(float* x, extent_t row, extent_t heads, extent_t head_dim, const std::int32_t* positions,
                    const float* cosine, const float* sine, extent_t t, bool inverse) = 0;

  virtual void store_keys_values(const attention_shape& s, std::span<const attention_segment> segments, float* layer,
                                 const float* keys, const float* values, extent_t row) = 0;
  virtual void attention_forward(const attention_shape& s, std::span<const attention_segment> segments, const float* q,
                                 extent_t q_row, float* out, extent_t out_row, float* statistics) = 0;
  virtual void attention_backward(const attention_shape& s, std::span<const attention_segment> segments,
                                  std::span<const attention_segment_gradient> gradients, const float* q, extent_t q_row,
                                  const float* out, const float* dout, extent_t out_row, const float* statistics,
                                  float* dq) = 0;
  /// 0 if the wrapped device has no partial attention; then the two functions below must not be called.
  virtual extent_t attention_tile() const = 0;
  virtual void attention_forward_part(const attention_shape& s, std::span<const attention_segment> segments,
                                      std::span<const attention_part> parts, const float* q, extent_t q_row, float* out,
                                      extent_t out_row, float* statistics) = 0;
  virtual void attention_backward_part(const attention_shape& s, std::span<const attention_segment> segments,
                                       std::span<const attention_part> parts,
                                       std::span<const attention_segment_gradient> gradients, const float* q,
                                       extent_t q_row, const float* out, const float* dout, extent_t out_row,
                                       const float* statistics, float* dq) = 0;

  virtual void swiglu_forward(float* y, const float* gate_up, extent_t t, extent_t w) = 0;
  virtual void swiglu_backward(float* dgate_up, const float* dy, const float* gate_up, extent_t t, extent_t w) = 0;
  virtual void gelu_forward(float* y, const float* x, extent_t n) = 0;
  virtual void gelu_backward(float* dx, const float* dy, const float* x, extent_t n) = 0;
  /// Whether the function below may be called.
  virtual bool reads_packed_rows() const { return false; }
  virtual void gather_packed_rows(float* /*y*/, const std::byte* /*packed*/, weight_format /*format*/,
                                  const std::int32_t* /*ids*/, extent_t /*count*/, extent_t /*i*/) {}
  virtual void scatter_add_rows(float* y, const float* x, row_ids ids, extent_t count, extent_t w) = 0;
  virtual void dot_rows(float* y, const float* a, const float* b, extent_t t, extent_t w) = 0;
  virtual void scale(float* y, float factor, extent_t n) = 0;
  virtual void fill(float* y, float value, extent_t n) = 0;

  virtual void log_prob_forward(const float* logits, extent_t t, extent_t vocabulary, const std::int32_t* targets,
                                float temperature, float* logp, float* entropy, float* statistics) = 0;
  virtual void log_prob_accumulate(log_prob_state* states, const float* logits, extent_t t, extent_t w, extent_t first,
                                   const std::int32_t* targets, float temperature) = 0;
  virtual void log_prob_finish(const log_prob_state* states, extent_t t, float temperature, float* logp, float* entropy,
                               float* statistics) = 0;
  virtual void log_prob_merge(log_prob_state* a, const log_prob_state* b, extent_t t) = 0;
  virtual void log_prob_backward(float* logits, extent_t t, extent_t w, extent_t first, const std::int32_t* targets,
                                 float temperature, const float* dlogp, const float* dentropy, const float* entropy,
                                 const float* statistics) = 0;
  virtual void sample(const sampling_arguments& arguments, const float* logits, extent_t t, extent_t vocabulary,
                      const double* uniform, std::int32_t* tokens) = 0;

  virtual double sum_of_squares(const float* x, extent_t n) = 0;
  /// out[b] (host memory) = the sum of squares of x[b * block .. (b + 1) * block), see
  /// rlcore::block_sums_of_squares().
  virtual void block_sums_of_squares(const float* x, extent_t n, extent_t block, double* out) = 0;
  virtual void adamw(float* w, float* m, float* v, const float* g, extent_t n, const adamw_step& s) = 0;
};

static_assert(device<any_device> && partial_attention<any_device> && packed_rows<any_device> &&
              loss_device<any_device>);

/// A device of type D, made in place from `arguments`, as an any_device.
template <device D>
class any_device_of final : public any_device {
 public:
  /// Throws what the constructor of D throws.
  template <class... Arguments>
  explicit any_device_of(Arguments&&... arguments) : d_(std::forward<Arguments>(arguments)...) {}

  std::string_view name() const override { return d_.name(); }
  std::string description() const override { return describe(d_); }
  bool batch_invariant() const override { return d_.batch_invariant(); }
  bool host_memory() const override { return D::host_readable; }
  std::optional<std::size_t> available_bytes() const override {
    if constexpr (requires { d_.available_bytes(); }) return d_.available_bytes();
    return std::nullopt;
  }

  void* allocate(std::size_t bytes) override { return d_.allocate(bytes); }
  void release(void* p) noexcept override { d_.release(p); }
  void upload(void* device, const void* host, std::size_t bytes) override { d_.upload(device, host, bytes); }
  void download(void* host, const void* device, std::size_t bytes) override { d_.download(host, device, bytes); }
  void fill_zero(void* p, std::size_t bytes) override { d_.fill_zero(p, bytes); }
  void wait() override { d_.wait(); }

  weight_format compute_format() const override { return d_.compute_format(); }
  std::size_t packed_bytes(weight_format format, extent_t o, extent_t i) const override {
    return d_.packed_bytes(format, o, i);
  }
  void pack_weight(std::byte* packed, weight_format format, const float* weight, extent_t o, extent_t i) override {
    d_.pack_weight(packed, format, weight, o, i);
  }
  void linear_forward(float* y, const float* x, const std::byte* packed, weight_format format, const float* bias,
                      extent_t t, extent_t o, extent_t i) override {
    d_.linear_forward(y, x, packed, format, bias, t, o, i);
  }
  void linear_backward_input(float* dx, const float* dy, const float* weight, extent_t t, extent_t o, extent_t i,
                             bool accumulate) override {
    d_.linear_backward_input(dx, dy, weight, t, o, i, accumulate);
  }
  void linear_backward_weight(float* dweight, const float* dy, const float* x, extent_t t, extent_t o, extent_t i,
                              bool accumulate) override {
    d_.linear_backward_weight(dweight, dy, x, t, o, i, accumulate);
  }
  void sum_rows(float* total, const float* x, extent_t t, extent_t w) override { d_.sum_rows(total, x, t, w); }

  void rms_norm_forward(const norm_arguments& n, float* y, extent_t y_row, const float* x, float* rstd,
                        extent_t t) override {
    d_.rms_norm_forward(n, y, y_row, x, rstd, t);
  }
  void add_rms_norm_forward(const norm_arguments& n, float* total, const float* a, const float* b, float* y,
                            float* rstd, extent_t t) override {
    d_.add_rms_norm_forward(n, total, a, b, y, rstd, t);
  }
  void rms_norm_backward(const norm_arguments& n, float* dx, const float* dy, extent_t row, const float* x,
                         const float* rstd, extent_t t, bool accumulate) override {
    d_.rms_norm_backward(n, dx, dy, row, x, rstd, t, accumulate);
  }
  void rms_norm_backward_weight(const norm_arguments& n, float* dweight, const float* dy, extent_t dy_row,
                                const float* x, const float* rstd, extent_t t) override {
    d_.rms_norm_backward_weight(n, dweight, dy, dy_row, x, rstd, t);
  }
  void rope(float* x, extent_t row, extent_t heads, extent_t head_dim, const std::int32_t* positions,
            const float* cosine, const float* sine, extent_t t, bool inverse) override {
    d_.rope(x, row, heads, head_dim, positions, cosine, sine, t, inverse);
  }

  void store_keys_values(const attention_shape& s, std::span<const attention_segment> segments, float* layer,
                         const float* keys, const float* values, extent_t row) override {
    d_.store_keys_values(s, segments, layer, keys, values, row);
  }
  void attention_forward(const attention_shape& s, std::span<const attention_segment> segments, const float* q,
                         extent_t q_row, float* out, extent_t out_row, float* statistics) override {
    d_.attention_forward(s, segments, q, q_row, out, out_row, statistics);
  }
  void attention_backward(const attention_shape& s, std::span<const attention_segment> segments,
                          std::span<const attention_segment_gradient> gradients, const float* q, extent_t q_row,
                          const float* out, const float* dout, extent_t out_row, const float* statistics,
                          float* dq) override {
    d_.attention_backward(s, segments, gradients, q, q_row, out, dout, out_row, statistics, dq);
  }
  extent_t attention_tile() const override { return rlcore::attention_tile(d_); }
  void attention_forward_part(const attention_shape& s, std::span<const attention_segment> segments,
                              std::span<const attention_part> parts, const float* q, extent_t q_row, float* out,
                              extent_t out_row, float* statistics) override {
    if constexpr (partial_attention<D>)
      d_.attention_forward_part(s, segments, parts, q, q_row, out, out_row, statistics);
  }
  void attention_backward_part(const attention_shape& s, std::span<const attention_segment> segments,
                               std::span<const attention_part> parts,
                               std::span<const attention_segment_gradient> gradients, const float* q, extent_t q_row,
                               const float* out, const float* dout, extent_t out_row, const float* statistics,
                               float* dq) override {
    if constexpr (partial_attention<D>)
      d_.attention_backward_part(s, segments, parts, gradients, q, q_row, out, dout, out_row, statistics, dq);
  }

  void swiglu_forward(float* y, const float* gate_up, extent_t t, extent_t w) override {
    d_.swiglu_forward(y, gate_up, t, w);
  }
  void swiglu_backward(float* dgate_up, const float* dy, const float* gate_up, extent_t t, extent_t w) override {
    d_.swiglu_backward(dgate_up, dy, gate_up, t, w);
  }
  void gelu_forward(float* y, const float* x, extent_t n) override { d_.gelu_forward(y, x, n); }
  void gelu_backward(float* dx, const float* dy, const float* x, extent_t n) override {
    d_.gelu_backward(dx, dy, x, n);
  }
  void gather_rows(float* y, const float* x, extent_t rows, const std::int32_t* ids, extent_t count,
                   extent_t w) override {
    d_.gather_rows(y, x, rows, ids, count, w);
  }
  bool reads_packed_rows() const override { return rlcore::reads_packed_rows(d_); }
  void gather_packed_rows(float* y, const std::byte* packed, weight_format format, const std::int32_t* ids,
                          extent_t count, extent_t i) override {
    if constexpr (packed_rows<D>) d_.gather_packed_rows(y, packed, format, ids, count, i);
  }
  void scatter_add_rows(float* y, const float* x, row_ids ids, extent_t count, extent_t w) override {
    d_.scatter_add_rows(y, x, ids, count, w);
  }
  void copy_rows(float* y, extent_t y_row, row_ids ids, const float* x, extent_t x_row, extent_t count,
                 extent_t w) override {
    d_.copy_rows(y, y_row, ids, x, x_row, count, w);
  }
  void scale_rows(float* y, const float* x, const float* factor, extent_t t, extent_t w) override {
    d_.scale_rows(y, x, factor, t, w);
  }
  void dot_rows(float* y, const float* a, const float* b, extent_t t, extent_t w) override {
    d_.dot_rows(y, a, b, t, w);
  }
  void add(float* y, const float* a, const float* b, extent_t n) override { d_.add(y, a, b, n); }
  void scale(float* y, float factor, extent_t n) override { d_.scale(y, factor, n); }
  void fill(float* y, float value, extent_t n) override { d_.fill(y, value, n); }

  void log_prob_forward(const float* logits, extent_t t, extent_t vocabulary, const std::int32_t* targets,
                        float temperature, float* logp, float* entropy, float* statistics) override {
    d_.log_prob_forward(logits, t, vocabulary, targets, temperature, logp, entropy, statistics);
  }
  void log_prob_accumulate(log_prob_state* states, const float* logits, extent_t t, extent_t w, extent_t first,
                           const std::int32_t* targets, float temperature) override {
    d_.log_prob_accumulate(states, logits, t, w, first, targets, temperature);
  }
  void log_prob_finish(const log_prob_state* states, extent_t t, float temperature, float* logp, float* entropy,
                       float* statistics) override {
    d_.log_prob_finish(states, t, temperature, logp, entropy, statistics);
  }
  void log_prob_merge(log_prob_state* a, const log_prob_state* b, extent_t t) override { d_.log_prob_merge(a, b, t); }
  void log_prob_backward(float* logits, extent_t t, extent_t w, extent_t first, const std::int32_t* targets,
                         float temperature, const float* dlogp, const float* dentropy, const float* entropy,
                         const float* statistics) override {
    d_.log_prob_backward(logits, t, w, first, targets, temperature, dlogp, dentropy, entropy, statistics);
  }
  void sample(const sampling_arguments& arguments, const float* logits, extent_t t, extent_t vocabulary,
              const double* uniform, std::int32_t* tokens) override {
    d_.sample(arguments, logits, t, vocabulary, uniform, tokens);
  }

  double sum_of_squares(const float* x, extent_t n) override { return d_.sum_of_squares(x, n); }
  void block_sums_of_squares(const float* x, extent_t n, extent_t block, double* out) override {
    rlcore::block_sums_of_squares(d_, x, n, block, out);
  }
  void adamw(float* w, float* m, float* v, const float* g, extent_t n, const adamw_step& s) override {
    d_.adamw(w, m, v, g, n, s);
  }

  bool runs_losses() const override { return loss_device<D>; }
  void run_program(const traced_program& p, const program_arrays<float>& arrays) override {
    if constexpr (loss_device<D>) return d_.run_program(p, arrays);
    any_loss_device::run_program(p, arrays);
  }
  void live_slots(float* live, const mask_elements& mask, const std::int32_t* lengths, const std::int32_t* slots,
                  extent_t rows, extent_t width) override {
    if constexpr (loss_device<D>) return d_.live_slots(live, mask, lengths, slots, rows, width);
    any_loss_device::live_slots(live, mask, lengths, slots, rows, width);
  }
  void row_sums(float* sums, const float* x, extent_t rows, extent_t width) override {
    if constexpr (loss_device<D>) return d_.row_sums(sums, x, rows, width);
    any_loss_device::row_sums(sums, x, rows, width);
  }
  void to_indices(std::int32_t* y, const float* x, extent_t n) override {
    if constexpr (loss_device<D>) return d_.to_indices(y, x, n);
    any_loss_device::to_indices(y, x, n);
  }

 private:
  D d_;
};

RLCORE_END
