// Ascend NPU device: every kernel is composed of aclnn operators on one queue.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "rlcore/device/advantages/advantage_device.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/device/npu/abi/feature.hpp"
#include "rlcore/device/npu/kernels/attention.hpp"
#include "rlcore/device/npu/kernels/gelu.hpp"
#include "rlcore/device/npu/kernels/linear.hpp"
#include "rlcore/device/npu/kernels/live.hpp"
#include "rlcore/device/npu/kernels/log_prob.hpp"
#include "rlcore/device/npu/kernels/norm.hpp"
#include "rlcore/device/npu/kernels/optimizer.hpp"
#include "rlcore/device/npu/kernels/program.hpp"
#include "rlcore/device/npu/kernels/rope.hpp"
#include "rlcore/device/npu/kernels/rows.hpp"
#include "rlcore/device/npu/kernels/sampling.hpp"
#include "rlcore/device/npu/kernels/slots.hpp"
#include "rlcore/device/npu/kernels/swiglu.hpp"
#include "rlcore/device/npu/npu_settings.hpp"
#include "rlcore/device/npu/provider.hpp"
#include "rlcore/device/npu/soc.hpp"
#include "rlcore/device/npu/trace.hpp"

RLCORE_BEGIN

/// Device policy of one Ascend NPU or of the emulator, depending on the provider. Kernels are asynchronous; download()
/// and wait() block. One call at a time, from one thread at a time.
///
/// Weights, activations and gradients are float; products and attention round their inputs to the compute type. The
/// libraries choose the order of a sum by the shape of the call, so the results of a row depend, within rounding, on
/// the other rows of the call. Equal calls give equal bits if the device is deterministic.
class npu {
 public:
  static constexpr bool host_readable = false;

  /// On the CANN of this machine. Throws device_error if there is none that can be used, and as below.
  explicit npu(npu_settings settings = {}) : npu(ascend::dynamic_provider(), settings) {}
  /// Throws npu_error if the device does not exist, device_error if its chip is of another family, and capability_error
  /// if the provider lacks operators that every run needs; other missing operators fail at their first use. The
  /// environment variable RLCORE_NPU_TRACE names a file that logs every call.
  template <ascend::provider P>
  explicit npu(const P& provider, npu_settings settings = {})
      : npu(ascend::session::open(ascend::traced_if_asked(provider.calls()), std::string(provider.name())), settings) {}
  explicit npu(std::shared_ptr<ascend::session> session, npu_settings settings = {})
      : settings_(settings), queue_(checked(std::move(session)), settings.device, queue_settings(settings)) {}
  npu(const npu&) = delete;
  npu& operator=(const npu&) = delete;

  std::string_view name() const noexcept { return "npu"; }
  /// "npu 0 (Ascend910B3 by CANN 8.3.RC1), bfloat16"
  std::string description() const {
    constexpr const char* types[] = {"float32", "bfloat16", "hf32"};
    return "npu " + std::to_string(settings_.device) + " (" + queue_.device().session()->provider() + "), " +
           types[static_cast<int>(settings_.compute)] + (settings_.deterministic ? "" : ", not deterministic");
  }
  const npu_settings& settings() const noexcept { return settings_; }
  ascend::queue& queue() noexcept { return queue_; }
  bool batch_invariant() const noexcept { return false; }
  /// The free bytes of the NPU's memory.
  std::optional<std::size_t> available_bytes() const { return queue_.memory().available(); }

  void* allocate(std::size_t bytes) {
    void* p = queue_.allocate(bytes);
    c_.memory.add(p, bytes);
    return p;
  }
  void release(void* p) noexcept {
    written(c_.memory.remove(p));
    queue_.release(p);
  }
  void upload(void* device, const void* host, std::size_t bytes) {
    written({device, bytes});
    queue_.upload(device, host, bytes);
  }
  void download(void* host, const void* device, std::size_t bytes) { queue_.download(host, device, bytes); }
  void fill_zero(void* p, std::size_t bytes) {
    written({p, bytes});
    queue_.zero(p, bytes);
  }
  void wait() { queue_.wait(); }

  weight_format compute_format() const noexcept {
    return c_.rounds() ? weight_format::bfloat16 : weight_format::float32;
  }
  /// Throws device_error for int8.
  std::size_t packed_bytes(weight_format format, extent_t o, extent_t i) const {
    return ascend::kernels::packed_bytes(format, o, i);
  }
  void pack_weight(std::byte* packed, weight_format format, const float* weight, extent_t o, extent_t i) {
    ascend::kernels::pack_weight(c_, packed, format, weight, o, i);
  }
  void linear_forward(float* y, const float* x, const std::byte* packed, weight_format format, const float* bias,
                      extent_t t, extent_t o, extent_t i) {
    ascend::kernels::linear_forward(c_, y, x, packed, format, bias, t, o, i);
  }
  void linear_backward_input(float* dx, const float* dy, const float* weight, extent_t t, extent_t o, extent_t i,
                             bool accumulate) {
    products_.of_input(c_, dx, dy, weight, t, o, i, accumulate);
  }
  void linear_backward_weight(float* dweight, const float* dy, const float* x, extent_t t, extent_t o, extent_t i,
                              bool accumulate) {
    products_.of_weight(c_, dweight, dy, x, t, o, i, accumulate);
  }
  void sum_rows(float* total, const float* x, extent_t t, extent_t w) {
    const std::uint64_t before = c_.operations;
    ascend::kernels::sum_rows(c_, total, x, t, w);
    products_.unchanged_since(c_, before);
  }

  void rms_norm_forward(const norm_arguments& n, float* y, extent_t y_row, const float* x, float* rstd, extent_t t) {
    ascend::kernels::rms_norm_forward(c_, n, y, y_row, x, rstd, t);
  }
  void add_rms_norm_forward(const norm_arguments& n, float* total, const float* a, const float* b, float* y,
                            float* rstd, extent_t t) {
    ascend::kernels::add_rms_norm_forward(c_, n, total, a, b, y, rstd, t);
  }
  void rms_norm_backward(const norm_arguments& n, float* dx, const float* dy, extent_t row, const float* x,
                         const float* rstd, extent_t t, bool accumulate) {
    norms_.of_input(c_, n, dx, dy, row, x, rstd, t, accumulate);
  }
  void rms_norm_backward_weight(const norm_arguments& n, float* dweight, const float* dy, extent_t dy_row,
                                const float* x, const float* rstd, extent_t t) {
    norms_.of_weight(c_, n, dweight, dy, dy_row, x, rstd, t);
  }
  void rope(float* x, extent_t row, extent_t heads, extent_t head_dim, const std::int32_t* positions,
            const float* cosine, const float* sine, extent_t t, bool inverse) {
    rotation_(c_, x, row, heads, head_dim, positions, cosine, sine, t, inverse);
  }

  void store_keys_values(const attention_shape& s, std::span<const attention_segment> segments, float* layer,
                         const float* keys, const float* values, extent_t row) {
    attention_.store_keys_values(c_, s, segments, layer, keys, values, row);
  }
  /// The statistics are those of the fused operators: the maximum scaled score and the sum of exponentials.
  void attention_forward(const attention_shape& s, std::span<const attention_segment> segments, const float* q,
                         extent_t q_row, float* out, extent_t out_row, float* statistics) {
    attention_.forward(c_, s, segments, q, q_row, out, out_row, statistics);
  }
  void attention_backward(const attention_shape& s, std::span<const attention_segment> segments,
                          std::span<const attention_segment_gradient> gradients, const float* q, extent_t q_row,
                          const float* out, const float* dout, extent_t out_row, const float* statistics, float* dq) {
    attention_.backward(c_, s, segments, gradients, q, q_row, out, dout, out_row, statistics, dq);
  }

  void swiglu_forward(float* y, const float* gate_up, extent_t t, extent_t w) {
    ascend::kernels::swiglu_forward(c_, y, gate_up, t, w);
  }
  void gelu_forward(float* y, const float* x, extent_t n) { ascend::kernels::gelu_forward(c_, y, x, n); }
  void gelu_backward(float* dx, const float* dy, const float* x, extent_t n) {
    ascend::kernels::gelu_backward(c_, dx, dy, x, n);
  }
  void swiglu_backward(float* dgate_up, const float* dy, const float* gate_up, extent_t t, extent_t w) {
    ascend::kernels::swiglu_backward(c_, dgate_up, dy, gate_up, t, w);
  }

  void gather_rows(float* y, const float* x, extent_t rows, const std::int32_t* ids, extent_t count, extent_t w) {
    ascend::kernels::gather_rows(c_, y, x, rows, ids, count, w);
  }
  void scatter_add_rows(float* y, const float* x, row_ids ids, extent_t count, extent_t w) {
    ascend::kernels::scatter_add_rows(c_, y, x, ids, count, w);
  }
  void copy_rows(float* y, extent_t y_row, row_ids ids, const float* x, extent_t x_row, extent_t count, extent_t w) {
    ascend::kernels::copy_rows(c_, y, y_row, ids, x, x_row, count, w);
  }
  void scale_rows(float* y, const float* x, const float* factor, extent_t t, extent_t w) {
    ascend::kernels::scale_rows(c_, y, x, factor, t, w);
  }
  void dot_rows(float* y, const float* a, const float* b, extent_t t, extent_t w) {
    ascend::kernels::dot_rows(c_, y, a, b, t, w);
  }
  void add(float* y, const float* a, const float* b, extent_t n) { ascend::kernels::add(c_, y, a, b, n); }
  void scale(float* y, float factor, extent_t n) { ascend::kernels::scale(c_, y, factor, n); }
  void fill(float* y, float value, extent_t n) { ascend::kernels::fill(c_, y, value, n); }

  void log_prob_forward(const float* logits, extent_t t, extent_t vocabulary, const std::int32_t* targets,
                        float temperature, float* logp, float* entropy, float* statistics) {
    ascend::kernels::log_prob_forward(c_, logits, t, vocabulary, targets, temperature, logp, entropy, statistics);
  }
  void log_prob_accumulate(log_prob_state* states, const float* logits, extent_t t, extent_t w, extent_t first,
                           const std::int32_t* targets, float temperature) {
    ascend::kernels::accumulate(c_, floats_of(states), logits, t, w, first, targets, temperature, false);
  }
  void log_prob_finish(const log_prob_state* states, extent_t t, float /*temperature*/, float* logp, float* entropy,
                       float* statistics) {
    ascend::kernels::finish(c_, floats_of(const_cast<log_prob_state*>(states)), t, logp, entropy, statistics);
  }
  void log_prob_merge(log_prob_state*, const log_prob_state*, extent_t) const {
    throw device_error("rlcore: npu: tensor parallelism and rlcore.row_chunks need device cpu");
  }
  void log_prob_backward(float* logits, extent_t t, extent_t w, extent_t first, const std::int32_t* targets,
                         float temperature, const float* dlogp, const float* dentropy, const float* entropy,
                         const float* statistics) {
    ascend::kernels::log_prob_backward(c_, logits, t, w, first, targets, temperature, dlogp, dentropy, entropy,
                                       statistics);
  }

  // functions of loss_device
  void run_program(const traced_program& p, const program_arrays<float>& arrays) {
    ascend::kernels::run_program(c_, p, arrays);
  }
  void live_slots(float* live, const mask_elements& mask, const std::int32_t* lengths, const std::int32_t* slots,
                  extent_t rows, extent_t width) {
    ascend::kernels::live_slots(c_, live, mask, lengths, slots, rows, width);
  }
  void row_sums(float* sums, const float* x, extent_t rows, extent_t width) {
    ascend::kernels::row_sums(c_, sums, x, rows, width);
  }
  void to_indices(std::int32_t* y, const float* x, extent_t n) { ascend::kernels::to_indices(c_, y, x, n); }

  // functions of advantage_device
  void row_largest(float* largest, const float* x, extent_t rows, extent_t width) {
    ascend::kernels::row_largest(c_, largest, x, rows, width);
  }
  void add_next_slots(float* y, const float* x, float factor, extent_t rows, extent_t width) {
    ascend::kernels::add_next_slots(c_, y, x, factor, rows, width);
  }
  void suffix_sums(float* y, const float* x, double decay, const float* open, extent_t rows, extent_t width) {
    ascend::kernels::suffix_sums(c_, y, x, decay, open, rows, width);
  }
  void live_first(std::int64_t* order, std::int64_t* place, const float* live, extent_t rows, extent_t width) {
    ascend::kernels::live_first(c_, order, place, live, rows, width);
  }
  void pick_slots(float* y, const float* x, const std::int64_t* slots, extent_t rows, extent_t width) {
    ascend::kernels::pick_slots(c_, y, x, slots, rows, width);
  }

  void sample(const sampling_arguments& arguments, const float* logits, extent_t t, extent_t vocabulary,
              const double* uniform, std::int32_t* tokens) {
    written({tokens, static_cast<std::size_t>(t) * sizeof(*tokens)});
    sampler_(c_, arguments, logits, t, vocabulary, uniform, tokens);
  }

  double sum_of_squares(const float* x, extent_t n) { return ascend::kernels::sum_of_squares(c_, x, n); }
  /// out[b] (host memory) = the sum of squares of x[b * block .. (b + 1) * block), as a float of the device.
  void block_sums_of_squares(const float* x, extent_t n, extent_t block, double* out) {
    for (const float s : ascend::kernels::block_sums(c_, x, n, block)) *out++ = static_cast<double>(s);
  }
  void adamw(float* w, float* m, float* v, const float* g, extent_t n, const adamw_step& s) {
    ascend::kernels::adamw(c_, w, m, v, g, n, s);
  }

 private:
  static ascend::queue_settings queue_settings(const npu_settings& s) {
    return {s.deterministic, s.sync_each_operation, s.exact_memory};
  }
  static std::shared_ptr<ascend::session> checked(std::shared_ptr<ascend::session> session) {
    if (const std::string problem = ascend::soc_problem(session->known().soc); !problem.empty())
      throw device_error(problem);
    constexpr auto needed = ascend::feature::every_run;
    if (const std::string names = ascend::missing_functions(session->table(), needed); !names.empty())
      throw ascend::capability_error(ascend::lack_text(session->provider(), names, needed), ascend::domain::operators,
                                     names.substr(0, names.find(',')));
    return session;
  }
  /// The device-specific layout of the states.
  static float* floats_of(log_prob_state* states) { return static_cast<float*>(static_cast<void*>(states)); }
  void written(const ascend::kernels::memory_range& where) noexcept {
    ++c_.operations;
    rotation_.written(where);
    attention_.written(where);
  }

  npu_settings settings_;
  ascend::queue queue_;
  ascend::kernels::context c_{queue_, settings_.compute};
  ascend::kernels::product_gradients products_;
  ascend::kernels::norm_gradients norms_;
  ascend::kernels::rotation rotation_;
  ascend::kernels::attention attention_;
  ascend::kernels::sampler sampler_;
};

static_assert(device<npu> && advantage_device<npu>);

RLCORE_END
