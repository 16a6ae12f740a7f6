// CPU device: kernels for AVX-512, AVX2 and any other target, chosen at run time.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/core/as_written.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/device/arguments.hpp"
#include "rlcore/device/cpu/arguments.hpp"
#include "rlcore/device/cpu/attention.hpp"
#include "rlcore/device/cpu/instruction_sets.hpp"
#include "rlcore/device/cpu/sampling.hpp"
#include "rlcore/device/cpu/work_sharing.hpp"
#include "rlcore/device/device.hpp"

RLCORE_BEGIN

/// Device policy of the host. Calls of less than 4 microseconds stay on the calling thread; no result depends on the
/// threads. One call at a time: use a cpu object only from the thread that drives the model. Steady-state calls
/// allocate nothing.
class cpu : private cpu_kernels::work_sharing {
 public:
  static constexpr bool host_readable = true;

  /// threads = 0: one per core. `instruction_set` = "avx512_bf16", "avx512", "avx2", "portable" or empty for the best
  /// available; throws device_error if this processor lacks it, and for hf32; std::runtime_error if the program is
  /// compiled for instructions that this processor lacks, or if this thread does not use the default rounding mode.
  explicit cpu(int threads = 0, std::string_view instruction_set = {}, compute type = compute::float32)
      : work_sharing(threads), kernels_(&cpu_kernels::choose(instruction_set)), compute_(type) {
    require_arithmetic_as_written();
    if (type == compute::hf32) throw device_error("rlcore: cpu: no compute type hf32; expected float32 or bfloat16");
  }
  cpu(const cpu&) = delete;
  cpu& operator=(const cpu&) = delete;

  std::string_view name() const noexcept { return "cpu"; }
  std::string_view instruction_set() const noexcept { return kernels_->name; }
  using work_sharing::threads;
  /// "cpu (avx512, bfloat16), 2 threads"
  std::string description() const {
    return std::string(name()) + " (" + std::string(instruction_set()) +
           (compute_ == compute::bfloat16 ? ", bfloat16), " : "), ") + std::to_string(threads()) +
           (threads() == 1 ? " thread" : " threads");
  }
  /// Every sum has one order, independent of the call.
  bool batch_invariant() const noexcept { return true; }
  bool gradients_in_order() const noexcept { return true; }

  // Memory: see cpu_kernels::allocate.
  void* allocate(std::size_t bytes) { return cpu_kernels::allocate(bytes); }
  void release(void* p) noexcept { cpu_kernels::release(p); }
  void upload(void* device, const void* host, std::size_t bytes) {
    if (bytes) std::memcpy(device, host, bytes);
  }
  void download(void* host, const void* device, std::size_t bytes) {
    if (bytes) std::memcpy(host, device, bytes);
  }
  void fill_zero(void* p, std::size_t bytes) {
    const auto n = static_cast<extent_t>(bytes);
    split_by(4096, n, 2 * n, [&](extent_t begin, extent_t end) {
      std::memset(static_cast<std::byte*>(p) + begin, 0, static_cast<std::size_t>(end - begin));
    });
  }
  void wait() noexcept {}

  /// The weight format of training and scoring, determined by the compute type.
  weight_format compute_format() const noexcept {
    return compute_ == compute::float32 ? weight_format::float32 : weight_format::bfloat16;
  }
  /// Panels of 32 outputs [inputs][32]; bf16 in pairs of inputs; int8 with a scale per output. The last is padded.
  std::size_t packed_bytes(weight_format format, extent_t o, extent_t i) const noexcept {
    return static_cast<std::size_t>((o + cpu_kernels::panel_width - 1) / cpu_kernels::panel_width *
                                    cpu_kernels::panel_bytes(format, i));
  }
  logit_limits logit_tile() const noexcept { return {}; }
  std::size_t kv_page_bytes(const attention_shape& s) const noexcept {
    return static_cast<std::size_t>(cpu_kernels::page_floats(s)) * sizeof(float);
  }
  /// Packs weight [o,i]; bf16 rounds to nearest even, int8 to multiples of max |w| / 127 of the row.
  void run(const op::pack_weight& o) {
    const extent_t panels = (o.outputs + cpu_kernels::panel_width - 1) / cpu_kernels::panel_width,
                   flops = 50 * o.outputs * o.inputs;
    const extent_t chunks = chunks_for(panels, flops);
    for (std::size_t c = 0; c < static_cast<std::size_t>(chunks); ++c) scratch(c, o.inputs * cpu_kernels::panel_width);
    for_each(chunks, [&](extent_t c) {
      for (extent_t n = panels * c / chunks; n < panels * (c + 1) / chunks; ++n)
        kernels_->pack_weight(o.packed + n * cpu_kernels::panel_bytes(o.format, o.inputs), o.format, o.weight,
                              o.outputs, o.inputs, n, scratch(static_cast<std::size_t>(c)));
    });
  }

  void run(const op::linear_forward& o) {
    constexpr cpu_kernels::operand kinds[] = {cpu_kernels::operand::float_panels, cpu_kernels::operand::bf16_panels,
                                              cpu_kernels::operand::int8_panels, cpu_kernels::operand::bf16_panels};
    multiply({o.y, o.outputs, o.x, o.inputs, 1, o.packed, kinds[static_cast<int>(o.format)], 0,
              cpu_kernels::panel_bytes(o.format, o.inputs), o.bias, false, o.format == weight_format::bfloat16, false,
              o.rows, o.outputs, o.inputs});
  }
  void run(const op::linear_backward_input& o) {
    multiply({o.dx, o.inputs, o.dy, o.outputs, 1, reinterpret_cast<const std::byte*>(o.weight),
              cpu_kernels::operand::rows, o.inputs, 0, nullptr, o.accumulate, rounds(), true, o.rows, o.inputs,
              o.outputs});
  }
  void run(const op::linear_backward_weight& o) {
    multiply({o.dweight, o.inputs, o.dy, 1, o.outputs, reinterpret_cast<const std::byte*>(o.x),
              cpu_kernels::operand::rows, o.inputs, 0, nullptr, o.accumulate, rounds(), true, o.outputs, o.inputs,
              o.rows});
  }
  void run(const op::sum_rows& o) {
    split_columns(o.width, 5 * o.rows * o.width,
                  [&](extent_t begin, extent_t end) { kernels_->sum_rows(o.total, o.x, o.width, o.rows, begin, end); });
  }

  void run(const op::rms_norm_forward& o) {
    split(o.rows, 15 * o.rows * o.norm.groups * o.norm.width, [&](extent_t begin, extent_t end) {
      kernels_->rms_norm_forward(o.norm, o.y, o.y_row, o.x, o.rstd, begin, end);
    });
  }
  void run(const op::add_rms_norm_forward& o) {
    split(o.rows, 20 * o.rows * o.norm.width, [&](extent_t begin, extent_t end) {
      kernels_->add_rms_norm_forward(o.norm, o.total, o.a, o.b, o.y, o.rstd, begin, end);
    });
  }
  void run(const op::rms_norm_backward& o) {
    split(o.rows, 20 * o.rows * o.norm.groups * o.norm.width, [&](extent_t begin, extent_t end) {
      kernels_->rms_norm_backward(o.norm, o.dx, o.dy, o.dy_row, o.x, o.rstd, o.accumulate, begin, end);
    });
  }
  void run(const op::rms_norm_backward_weight& o) {
    split_columns(o.norm.width, 10 * o.rows * o.norm.groups * o.norm.width, [&](extent_t begin, extent_t end) {
      kernels_->rms_norm_weight_backward(o.norm, o.dweight, o.dy, o.dy_row, o.x, o.rstd, o.rows, begin, end);
    });
  }
  void run(const op::rope& o) {
    split(o.rows, 15 * o.rows * o.heads * o.head_dim, [&](extent_t begin, extent_t end) {
      kernels_->rope(o.x, o.row, o.heads, o.head_dim, o.positions, o.cosine, o.sine, o.inverse, begin, end);
    });
  }

  void run(const op::store_keys_values& o) {
    const auto pairs = static_cast<extent_t>(o.segments.size()) * o.shape.kv_heads;
    extent_t floats = 0;
    for (const auto& segment : o.segments) floats += segment.rows * 2 * o.shape.kv_heads * o.shape.head_dim;
    split(pairs, 100 * floats, [&](extent_t begin, extent_t end) {
      for (extent_t pair = begin; pair < end; ++pair)
        kernels_->store_keys_values(o.shape, o.segments[static_cast<std::size_t>(pair / o.shape.kv_heads)],
                                    pair % o.shape.kv_heads, o.layer, o.keys, o.values, o.row);
    });
  }
  void run(const op::attention_forward& o) { attend_forward(o, {}); }
  void run(const op::attention_backward& o) { attend_backward(o, {}); }
  extent_t attention_tile() const noexcept { return cpu_kernels::attention_keys; }
  void run(const op::attention_forward_part& o) { attend_forward(o.whole, o.parts); }
  void run(const op::attention_backward_part& o) { attend_backward(o.whole, o.parts); }

  void run(const op::swiglu_forward& o) {
    split(o.rows, 35 * o.rows * o.width,
          [&](extent_t begin, extent_t end) { kernels_->swiglu_forward(o.y, o.gate_up, o.width, begin, end); });
  }
  void run(const op::swiglu_backward& o) {
    split(o.rows, 45 * o.rows * o.width, [&](extent_t begin, extent_t end) {
      kernels_->swiglu_backward(o.dgate_up, o.dy, o.gate_up, o.width, begin, end);
    });
  }
  void run(const op::gelu_forward& o) {
    split(o.n, 45 * o.n, [&](extent_t begin, extent_t end) { kernels_->gelu_forward(o.y, o.x, begin, end); });
  }
  void run(const op::gelu_backward& o) {
    split(o.n, 50 * o.n, [&](extent_t begin, extent_t end) { kernels_->gelu_backward(o.dx, o.dy, o.x, begin, end); });
  }

  void run(const op::gather_rows& o) {
    split(o.count, 10 * o.count * o.width,
          [&](extent_t begin, extent_t end) { kernels_->gather_rows(o.y, o.x, o.ids, o.width, begin, end); });
  }
  bool reads_packed_rows() const noexcept { return true; }
  bool has_bfloat16_exact() const noexcept { return true; }
  void run(const op::gather_packed_rows& o) {
    split(o.count, 50 * o.count * o.inputs, [&](extent_t begin, extent_t end) {
      for (extent_t k = begin; k < end; ++k)
        cpu_kernels::read_packed_row(o.y + k * o.inputs, o.packed, o.format, o.ids[k], o.inputs);
    });
  }
  void run(const op::scatter_add_rows& o) {
    split_columns(o.width, 15 * o.count * o.width, [&](extent_t begin, extent_t end) {
      kernels_->scatter_add_rows(o.y, o.x, o.ids.data, o.count, o.width, begin, end);
    });
  }
  void run(const op::copy_rows& o) {
    split_columns(o.width, 10 * o.count * o.width, [&](extent_t begin, extent_t end) {
      for (extent_t k = 0; k < o.count; ++k)
        std::memcpy(o.y + (o.ids.data ? static_cast<extent_t>(o.ids.data[k]) : k) * o.y_row + begin,
                    o.x + k * o.x_row + begin, static_cast<std::size_t>(end - begin) * sizeof(float));
    });
  }
  void run(const op::scale_rows& o) {
    split(o.rows, 10 * o.rows * o.width,
          [&](extent_t begin, extent_t end) { kernels_->scale_rows(o.y, o.x, o.factor, o.width, begin, end); });
  }
  void run(const op::dot_rows& o) {
    split(o.rows, 10 * o.rows * o.width,
          [&](extent_t begin, extent_t end) { kernels_->dot_rows(o.y, o.a, o.b, o.width, begin, end); });
  }
  void run(const op::add& o) {
    split_elements(o.n, 15 * o.n, [&](extent_t begin, extent_t end) {
      kernels_->add(o.y + begin, o.a + begin, o.b + begin, end - begin);
    });
  }
  void run(const op::scale& o) {
    split_elements(o.n, 10 * o.n,
                   [&](extent_t begin, extent_t end) { kernels_->scale(o.y + begin, o.factor, end - begin); });
  }
  void run(const op::fill& o) {
    split_elements(o.n, 10 * o.n, [&](extent_t begin, extent_t end) { std::fill(o.y + begin, o.y + end, o.value); });
  }

  void run(const op::log_prob_forward& o) {
    split(o.rows, 20 * o.rows * o.vocabulary, [&](extent_t begin, extent_t end) {
      for (extent_t r = begin; r < end; ++r) {
        log_prob_state state;
        kernels_->log_prob_accumulate(state, o.logits + r * o.vocabulary, 0, o.vocabulary, o.targets[r], o.temperature);
        kernels_->log_prob_finish(state, o.temperature, o.logp + r, o.entropy ? o.entropy + r : nullptr,
                                  o.statistics ? o.statistics + 2 * r : nullptr);
      }
    });
  }
  void run(const op::log_prob_accumulate& o) {
    split(o.rows, 20 * o.rows * o.width, [&](extent_t begin, extent_t end) {
      for (extent_t r = begin; r < end; ++r)
        kernels_->log_prob_accumulate(o.states[r], o.logits + r * o.width, o.first, o.width, o.targets[r],
                                      o.temperature);
    });
  }
  void run(const op::log_prob_finish& o) {
    for (extent_t r = 0; r < o.rows; ++r)
      kernels_->log_prob_finish(o.states[r], o.temperature, o.logp + r, o.entropy ? o.entropy + r : nullptr,
                                o.statistics ? o.statistics + 2 * r : nullptr);
  }
  void run(const op::log_prob_merge& o) {
    split(o.rows, 200 * o.rows, [&](extent_t begin, extent_t end) {
      for (extent_t r = begin; r < end; ++r) o.a[r] = cpu_kernels::merged(o.a[r], o.b[r]);
    });
  }
  void run(const op::log_prob_backward& o) {
    split(o.rows, 20 * o.rows * o.width, [&](extent_t begin, extent_t end) {
      for (extent_t r = begin; r < end; ++r)
        kernels_->log_prob_backward(o.logits + r * o.width, o.first, o.width, o.targets[r], o.temperature, o.dlogp[r],
                                    o.dentropy[r], o.entropy[r], o.statistics + 2 * r);
    });
  }

  void run(const op::sample& o) {
    sampler_(*kernels_, pool_, o.settings, o.logits, o.rows, o.vocabulary, o.uniform, o.tokens);
  }

  /// Chunks of 16384 elements, their sums added in order.
  double run(const op::sum_of_squares& o) {
    constexpr extent_t chunk = 16384;
    const extent_t chunks = (o.n + chunk - 1) / chunk;
    sums_.resize(static_cast<std::size_t>(chunks));
    split(chunks, 10 * o.n, [&](extent_t begin, extent_t end) {
      for (extent_t c = begin; c < end; ++c)
        sums_[static_cast<std::size_t>(c)] =
            kernels_->sum_of_squares(o.x + c * chunk, std::min(chunk, o.n - c * chunk));
    });
    double total = 0;
    for (const double s : sums_) total += s;
    return total;
  }

  void run(const op::block_sums_of_squares& o) {
    split((o.n + o.block - 1) / o.block, 10 * o.n, [&](extent_t begin, extent_t end) {
      for (extent_t b = begin; b < end; ++b)
        o.sums[b] = kernels_->sum_of_squares(o.x + b * o.block, std::min(o.block, o.n - b * o.block));
    });
  }

  void run(const op::adamw& o) {
    const cpu_kernels::adamw_arguments a = cpu_kernels::arguments_of(o.step);
    split_elements(o.n, 100 * o.n, [&](extent_t begin, extent_t end) {
      kernels_->adamw(a, o.weights + begin, o.m + begin, o.v + begin, o.gradient + begin, end - begin);
    });
  }

  /// y = e^x, the exponential of the kernels above.
  void exp(float* y, const float* x, extent_t n) { kernels_->exp(y, x, n); }

 private:
  static constexpr attention_part all_keys{};

  bool rounds() const noexcept { return compute_ == compute::bfloat16; }

  void multiply(cpu_kernels::gemm_arguments g) {
    using cpu_kernels::panel_width;
    constexpr extent_t depth_block = cpu_kernels::gemm_depth_block;
    if (g.kind != cpu_kernels::operand::rows ||
        g.rows * std::min(g.depth, depth_block) < 2 * cpu_kernels::gemm_a_floats)
      return share(g);
    // Several blocks of rows read B, so it is packed into panels once.
    const extent_t panels = (g.columns + panel_width - 1) / panel_width, depth = g.depth;
    const float* b = reinterpret_cast<const float*>(g.b);
    float* packed = shared_scratch(panels * panel_width * std::min(depth, depth_block));
    g.b = reinterpret_cast<const std::byte*>(packed);
    g.kind = cpu_kernels::operand::float_panels;
    for (extent_t p = 0; p < depth; p += depth_block) {
      g.depth = std::min(depth_block, depth - p);
      g.panel_bytes = cpu_kernels::panel_bytes(weight_format::float32, g.depth);
      split(panels, 4 * panels * panel_width * g.depth, [&](extent_t begin, extent_t end) {
        for (extent_t n = begin; n < end; ++n)
          kernels_->pack_panel(packed + n * panel_width * g.depth, b + p * g.b_row + n * panel_width, g.b_row, g.depth,
                               g.columns - n * panel_width, g.round);
      });
      share(g);
      g.a += g.depth * g.a_step;
      g.accumulate = true;
    }
  }
  /// Threads share the longer side of C: panels of columns, or rows. If B is small enough for every thread to read all
  /// of it, they share the rows. Other kernels then find a row in the cache of the thread that computed it.
  void share(const cpu_kernels::gemm_arguments& g) {
    if (g.rows <= 0 || g.columns <= 0) return;
    const extent_t panels = (g.columns + cpu_kernels::panel_width - 1) / cpu_kernels::panel_width;
    const bool few_bytes =
        g.kind != cpu_kernels::operand::rows && g.rows >= 24 * threads() && g.columns * g.depth <= 131072;
    const bool by_columns = !few_bytes && g.columns >= g.rows && panels >= threads();
    const extent_t chunks = chunks_for(by_columns ? panels : g.rows, 2 * g.rows * g.columns * g.depth);
    for (std::size_t c = 0; c < static_cast<std::size_t>(chunks); ++c) scratch(c, cpu_kernels::gemm_scratch);
    for_each(chunks, [&](extent_t c) {
      float* memory = scratch(static_cast<std::size_t>(c));
      if (by_columns)
        kernels_->gemm(g, 0, g.rows, panels * c / chunks * cpu_kernels::panel_width,
                       std::min(g.columns, panels * (c + 1) / chunks * cpu_kernels::panel_width), memory);
      else
        kernels_->gemm(g, g.rows * c / chunks, g.rows * (c + 1) / chunks, 0, g.columns, memory);
    });
  }

  /// Without `parts`, all keys of each segment.
  void attend_forward(const op::attention_forward& o, std::span<const attention_part> parts) {
    constexpr extent_t whole = std::numeric_limits<std::int32_t>::max();
    attention_.plan(o.shape, o.segments, threads() > 1 ? cpu_kernels::attention_most_rows : whole);
    attend(o.shape, 4, [&](const cpu_kernels::attention_unit& u, float* memory) {
      kernels_->attention_forward(o.shape, o.segments[u.segment], parts.empty() ? all_keys : parts[u.segment],
                                  u.kv_head, u.begin, u.end, o.q, o.q_row, o.out, o.out_row, o.statistics, memory);
    });
  }
  void attend_backward(const op::attention_backward& o, std::span<const attention_part> parts) {
    // sums over rows have one order
    attention_.plan(o.shape, o.segments, std::numeric_limits<std::int32_t>::max());
    attend(o.shape, 10, [&](const cpu_kernels::attention_unit& u, float* memory) {
      kernels_->attention_backward(o.shape, o.segments[u.segment], parts.empty() ? all_keys : parts[u.segment],
                                   u.kv_head, o.q, o.q_row, o.out, o.dout, o.out_row, o.statistics, o.dq,
                                   o.gradients[u.segment].keys, o.gradients[u.segment].values, memory);
    });
  }
  /// Calls f(unit, scratch) for every unit of the plan. A thread takes the next unit when it has finished one.
  template <class F>
  void attend(const attention_shape& s, extent_t flops_per_product, F&& f) {
    const auto units = attention_.units();
    const extent_t chunks =
        chunks_for(static_cast<extent_t>(units.size()), flops_per_product * s.head_dim * attention_.products());
    for (std::size_t c = 0; c < static_cast<std::size_t>(chunks); ++c) scratch(c, cpu_kernels::attention_scratch(s));
    std::atomic<std::size_t> next = 0;
    for_each(chunks, [&](extent_t c) {
      for (std::size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < units.size();)
        f(units[i], scratch(static_cast<std::size_t>(c)));
    });
  }

  const cpu_kernels::table* kernels_;
  compute compute_;
  cpu_kernels::attention_units attention_;
  std::vector<double> sums_;
  cpu_sampler sampler_;
};

static_assert(device<cpu> && partial_attention<cpu> && packed_rows<cpu>);

RLCORE_END
