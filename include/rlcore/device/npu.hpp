// Ascend NPU device: every kernel is composed of aclnn operators on one queue.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/device/device.hpp"
#include "rlcore/device/device_group.hpp"
#include "rlcore/device/npu/abi/calls.hpp"
#include "rlcore/device/npu/hccl_group.hpp"
#include "rlcore/device/npu/kernels/activations.hpp"
#include "rlcore/device/npu/kernels/attention.hpp"
#include "rlcore/device/npu/kernels/linear.hpp"
#include "rlcore/device/npu/kernels/live.hpp"
#include "rlcore/device/npu/kernels/log_prob.hpp"
#include "rlcore/device/npu/kernels/norm.hpp"
#include "rlcore/device/npu/kernels/optimizer.hpp"
#include "rlcore/device/npu/kernels/program.hpp"
#include "rlcore/device/npu/kernels/rope.hpp"
#include "rlcore/device/npu/kernels/rows.hpp"
#include "rlcore/device/npu/kernels/sampling.hpp"
#include "rlcore/device/npu/npu_settings.hpp"
#include "rlcore/device/npu/provider.hpp"
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
  bool gradients_in_order() const noexcept { return false; }
  /// The free bytes of the NPU's memory.
  std::optional<std::size_t> available_bytes() const { return queue_.memory().available(); }
  /// The most bytes of it that were in use.
  std::optional<memory_peaks> most_memory() const {
    const ascend::allocator::usage u = queue_.memory().statistics();
    return memory_peaks{u.peak, u.most_reserved};
  }

  /// Whether HCCL is there, by which NPUs exchange their memory.
  bool forms_groups() const { return ascend::has_collectives(*queue_.device().session()); }
  std::vector<std::byte> group_root() { return ascend::hccl_root(queue_.device()); }
  /// This NPU's end of a group, which must not outlive it. See ascend::hccl_group.
  std::unique_ptr<device_group> join_group(const group_place& place) { return std::make_unique<group>(*this, place); }

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
  logit_limits logit_tile() const noexcept { return {}; }
  /// Rows of keys, then rows of values, in float.
  std::size_t kv_page_bytes(const attention_shape& s) const noexcept {
    return static_cast<std::size_t>(2 * kv_page * s.kv_heads * s.head_dim) * sizeof(float);
  }
  void run(const op::pack_weight& o) {
    ascend::kernels::pack_weight(c_, o.packed, o.format, o.weight, o.outputs, o.inputs);
  }
  void run(const op::linear_forward& o) {
    ascend::kernels::linear_forward(c_, o.y, o.x, o.packed, o.format, o.bias, o.rows, o.outputs, o.inputs);
  }
  void run(const op::linear_backward_input& o) { products_.of_input(c_, o); }
  void run(const op::linear_backward_weight& o) {
    products_.of_weight(c_, o.dweight, o.dy, o.x, o.rows, o.outputs, o.inputs, o.accumulate);
  }
  void run(const op::sum_rows& o) {
    const std::uint64_t before = c_.operations;
    ascend::kernels::sum_rows(c_, o.total, o.x, o.rows, o.width);
    products_.unchanged_since(c_, before);
  }

  void run(const op::rms_norm_forward& o) {
    ascend::kernels::rms_norm_forward(c_, o.norm, o.y, o.y_row, o.x, o.rstd, o.rows);
  }
  void run(const op::add_rms_norm_forward& o) {
    ascend::kernels::add_rms_norm_forward(c_, o.norm, o.total, o.a, o.b, o.y, o.rstd, o.rows);
  }
  void run(const op::rms_norm_backward& o) {
    norms_.of_input(c_, o.norm, o.dx, o.dy, o.dy_row, o.x, o.rstd, o.rows, o.accumulate);
  }
  void run(const op::rms_norm_backward_weight& o) {
    norms_.of_weight(c_, o.norm, o.dweight, o.dy, o.dy_row, o.x, o.rstd, o.rows);
  }
  void run(const op::rope& o) {
    rotation_(c_, o.x, o.row, o.heads, o.head_dim, o.positions, o.cosine, o.sine, o.rows, o.inverse);
  }

  void run(const op::store_keys_values& o) {
    attention_.store_keys_values(c_, o.shape, o.segments, o.layer, o.keys, o.values, o.row);
  }
  /// The statistics are those of the fused operators: the maximum scaled score and the sum of exponentials.
  void run(const op::attention_forward& o) {
    attention_.forward(c_, o.shape, o.segments, o.q, o.q_row, o.out, o.out_row, o.statistics);
  }
  void run(const op::attention_backward& o) {
    attention_.backward(c_, o.shape, o.segments, o.gradients, o.q, o.q_row, o.out, o.dout, o.out_row, o.statistics,
                        o.dq);
  }

  void run(const op::swiglu_forward& o) { ascend::kernels::swiglu_forward(c_, o.y, o.gate_up, o.rows, o.width); }
  void run(const op::gelu_forward& o) { ascend::kernels::gelu_forward(c_, o.y, o.x, o.n); }
  void run(const op::gelu_backward& o) { ascend::kernels::gelu_backward(c_, o.dx, o.dy, o.x, o.n); }
  void run(const op::swiglu_backward& o) {
    ascend::kernels::swiglu_backward(c_, o.dgate_up, o.dy, o.gate_up, o.rows, o.width);
  }

  void run(const op::gather_rows& o) { ascend::kernels::gather_rows(c_, o.y, o.x, o.x_rows, o.ids, o.count, o.width); }
  void run(const op::scatter_add_rows& o) { ascend::kernels::scatter_add_rows(c_, o.y, o.x, o.ids, o.count, o.width); }
  void run(const op::copy_rows& o) {
    ascend::kernels::copy_rows(c_, o.y, o.y_row, o.ids, o.x, o.x_row, o.count, o.width);
  }
  void run(const op::scale_rows& o) { ascend::kernels::scale_rows(c_, o.y, o.x, o.factor, o.rows, o.width); }
  void run(const op::dot_rows& o) { ascend::kernels::dot_rows(c_, o.y, o.a, o.b, o.rows, o.width); }
  void run(const op::add& o) { ascend::kernels::add(c_, o.y, o.a, o.b, o.n); }
  void run(const op::scale& o) { ascend::kernels::scale(c_, o.y, o.factor, o.n); }
  void run(const op::fill& o) { ascend::kernels::fill(c_, o.y, o.value, o.n); }

  void run(const op::log_prob_forward& o) {
    ascend::kernels::log_prob_forward(c_, o.logits, o.rows, o.vocabulary, o.targets, o.temperature, o.logp, o.entropy,
                                      o.statistics);
  }
  void run(const op::log_prob_accumulate& o) {
    ascend::kernels::accumulate(c_, floats_of(o.states), o.logits, o.rows, o.width, o.first, o.targets, o.temperature,
                                false);
  }
  void run(const op::log_prob_finish& o) {
    ascend::kernels::finish(c_, floats_of(const_cast<log_prob_state*>(o.states)), o.rows, o.logp, o.entropy,
                            o.statistics);
  }
  void run(const op::log_prob_merge& o) {
    ascend::kernels::merge(c_, floats_of(o.a), floats_of(const_cast<log_prob_state*>(o.b)), o.rows);
  }
  void run(const op::log_prob_backward& o) {
    ascend::kernels::log_prob_backward(c_, o.logits, o.rows, o.width, o.first, o.targets, o.temperature, o.dlogp,
                                       o.dentropy, o.entropy, o.statistics);
  }

  // operations of losses
  void run(const op::run_program& o) { ascend::kernels::run_program(c_, o.program, o.arrays); }
  void run(const op::live_slots& o) {
    ascend::kernels::live_slots(c_, o.live, o.mask, o.lengths, o.slots, o.rows, o.width);
  }
  void run(const op::row_sums& o) { ascend::kernels::row_sums(c_, o.sums, o.x, o.rows, o.width); }
  void run(const op::to_indices& o) { ascend::kernels::to_indices(c_, o.y, o.x, o.n); }

  // operations of advantages
  void run(const op::row_largest& o) { ascend::kernels::row_largest(c_, o.largest, o.x, o.rows, o.width); }
  void run(const op::add_next_slots& o) { ascend::kernels::add_next_slots(c_, o.y, o.x, o.factor, o.rows, o.width); }
  void run(const op::suffix_sums& o) { ascend::kernels::suffix_sums(c_, o.y, o.x, o.decay, o.open, o.rows, o.width); }
  void run(const op::live_first& o) { ascend::kernels::live_first(c_, o.order, o.place, o.live, o.rows, o.width); }
  void run(const op::pick_slots& o) { ascend::kernels::pick_slots(c_, o.y, o.x, o.slots, o.rows, o.width); }

  void run(const op::sample& o) {
    written({o.tokens, static_cast<std::size_t>(o.rows) * sizeof(*o.tokens)});
    sampler_(c_, o.settings, o.logits, o.rows, o.vocabulary, o.uniform, o.tokens);
  }

  double run(const op::sum_of_squares& o) { return ascend::kernels::sum_of_squares(c_, o.x, o.n); }
  /// Each sum is a float of the device.
  void run(const op::block_sums_of_squares& o) {
    double* to = o.sums;
    for (const float s : ascend::kernels::block_sums(c_, o.x, o.n, o.block)) *to++ = static_cast<double>(s);
  }
  void run(const op::adamw& o) { ascend::kernels::adamw(c_, o.weights, o.m, o.v, o.gradient, o.n, o.step); }

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

  /// Tells the device what a collective has written.
  class group final : public device_group {
   public:
    group(npu& owner, const group_place& place) : owner_(&owner), group_(owner.queue_, place) {}
    void all_gather(const void* in, void* out, std::span<const std::size_t> bytes) override {
      owner_->written({out, std::accumulate(bytes.begin(), bytes.end(), std::size_t{0})});
      group_.all_gather(in, out, bytes);
    }
    void all_to_all(const void* in, std::span<const std::size_t> sent, void* out,
                    std::span<const std::size_t> received) override {
      owner_->written({out, std::accumulate(received.begin(), received.end(), std::size_t{0})});
      group_.all_to_all(in, sent, out, received);
    }

   private:
    npu* owner_;
    ascend::hccl_group group_;
  };

  npu_settings settings_;
  ascend::queue queue_;
  ascend::kernels::context c_{queue_, settings_.compute};
  ascend::kernels::product_gradients products_;
  ascend::kernels::norm_gradients norms_;
  ascend::kernels::rotation rotation_;
  ascend::kernels::attention attention_;
  ascend::kernels::sampler sampler_;
};

static_assert(device<npu> && advantage_device<npu> && grouped_device<npu>);

RLCORE_END
