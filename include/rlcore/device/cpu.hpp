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
#include "rlcore/device/compute.hpp"
#include "rlcore/device/cpu/attention.hpp"
#include "rlcore/device/cpu/instruction_sets.hpp"
#include "rlcore/device/cpu/log_prob_merge.hpp"
#include "rlcore/device/cpu/packed_row.hpp"
#include "rlcore/device/cpu/sampling.hpp"
#include "rlcore/device/cpu/work_sharing.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/device/packed_rows.hpp"
#include "rlcore/device/partial_attention.hpp"

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
  /// Packs weight [o,i]; bf16 rounds to nearest even, int8 to multiples of max |w| / 127 of the row.
  void pack_weight(std::byte* packed, weight_format format, const float* weight, extent_t o, extent_t i) {
    const extent_t panels = (o + cpu_kernels::panel_width - 1) / cpu_kernels::panel_width, flops = 50 * o * i;
    const extent_t chunks = chunks_for(panels, flops);
    for (std::size_t c = 0; c < static_cast<std::size_t>(chunks); ++c) scratch(c, i * cpu_kernels::panel_width);
    for_each(chunks, [&](extent_t c) {
      for (extent_t n = panels * c / chunks; n < panels * (c + 1) / chunks; ++n)
        kernels_->pack_weight(packed + n * cpu_kernels::panel_bytes(format, i), format, weight, o, i, n,
                              scratch(static_cast<std::size_t>(c)));
    });
  }

  void linear_forward(float* y, const float* x, const std::byte* packed, weight_format format, const float* bias,
                      extent_t t, extent_t o, extent_t i) {
    constexpr cpu_kernels::operand kinds[] = {cpu_kernels::operand::float_panels, cpu_kernels::operand::bf16_panels,
                                              cpu_kernels::operand::int8_panels};
    multiply({y, o, x, i, 1, packed, kinds[static_cast<int>(format)], 0, cpu_kernels::panel_bytes(format, i), bias,
              false, format == weight_format::bfloat16, t, o, i});
  }
  void linear_backward_input(float* dx, const float* dy, const float* weight, extent_t t, extent_t o, extent_t i,
                             bool accumulate) {
    multiply({dx, i, dy, o, 1, reinterpret_cast<const std::byte*>(weight), cpu_kernels::operand::rows, i, 0, nullptr,
              accumulate, rounds(), t, i, o});
  }
  void linear_backward_weight(float* dweight, const float* dy, const float* x, extent_t t, extent_t o, extent_t i,
                              bool accumulate) {
    multiply({dweight, i, dy, 1, o, reinterpret_cast<const std::byte*>(x), cpu_kernels::operand::rows, i, 0, nullptr,
              accumulate, rounds(), o, i, t});
  }
  void sum_rows(float* total, const float* x, extent_t t, extent_t w) {
    split_columns(w, 5 * t * w, [&](extent_t begin, extent_t end) { kernels_->sum_rows(total, x, w, t, begin, end); });
  }

  void rms_norm_forward(const norm_arguments& n, float* y, extent_t y_row, const float* x, float* rstd, extent_t t) {
    split(t, 15 * t * n.groups * n.width,
          [&](extent_t begin, extent_t end) { kernels_->rms_norm_forward(n, y, y_row, x, rstd, begin, end); });
  }
  void add_rms_norm_forward(const norm_arguments& n, float* total, const float* a, const float* b, float* y,
                            float* rstd, extent_t t) {
    split(t, 20 * t * n.width,
          [&](extent_t begin, extent_t end) { kernels_->add_rms_norm_forward(n, total, a, b, y, rstd, begin, end); });
  }
  void rms_norm_backward(const norm_arguments& n, float* dx, const float* dy, extent_t dy_row, const float* x,
                         const float* rstd, extent_t t, bool accumulate) {
    split(t, 20 * t * n.groups * n.width, [&](extent_t begin, extent_t end) {
      kernels_->rms_norm_backward(n, dx, dy, dy_row, x, rstd, accumulate, begin, end);
    });
  }
  void rms_norm_backward_weight(const norm_arguments& n, float* dweight, const float* dy, extent_t dy_row,
                                const float* x, const float* rstd, extent_t t) {
    split_columns(n.width, 10 * t * n.groups * n.width, [&](extent_t begin, extent_t end) {
      kernels_->rms_norm_weight_backward(n, dweight, dy, dy_row, x, rstd, t, begin, end);
    });
  }
  void rope(float* x, extent_t row, extent_t heads, extent_t head_dim, const std::int32_t* positions,
            const float* cosine, const float* sine, extent_t t, bool inverse) {
    split(t, 15 * t * heads * head_dim, [&](extent_t begin, extent_t end) {
      kernels_->rope(x, row, heads, head_dim, positions, cosine, sine, inverse, begin, end);
    });
  }

  void store_keys_values(const attention_shape& s, std::span<const attention_segment> segments, float* layer,
                         const float* keys, const float* values, extent_t row) {
    const auto pairs = static_cast<extent_t>(segments.size()) * s.kv_heads;
    extent_t floats = 0;
    for (const auto& segment : segments) floats += segment.rows * 2 * s.kv_heads * s.head_dim;
    split(pairs, 100 * floats, [&](extent_t begin, extent_t end) {
      for (extent_t pair = begin; pair < end; ++pair)
        kernels_->store_keys_values(s, segments[static_cast<std::size_t>(pair / s.kv_heads)], pair % s.kv_heads, layer,
                                    keys, values, row);
    });
  }
  void attention_forward(const attention_shape& s, std::span<const attention_segment> segments, const float* q,
                         extent_t q_row, float* out, extent_t out_row, float* statistics) {
    attention_forward_part(s, segments, {}, q, q_row, out, out_row, statistics);
  }
  void attention_backward(const attention_shape& s, std::span<const attention_segment> segments,
                          std::span<const attention_segment_gradient> gradients, const float* q, extent_t q_row,
                          const float* out, const float* dout, extent_t out_row, const float* statistics, float* dq) {
    attention_backward_part(s, segments, {}, gradients, q, q_row, out, dout, out_row, statistics, dq);
  }

  extent_t attention_tile() const noexcept { return cpu_kernels::attention_keys; }
  /// Without `parts`, all keys of each segment.
  void attention_forward_part(const attention_shape& s, std::span<const attention_segment> segments,
                              std::span<const attention_part> parts, const float* q, extent_t q_row, float* out,
                              extent_t out_row, float* statistics) {
    constexpr extent_t whole = std::numeric_limits<std::int32_t>::max();
    attention_.plan(s, segments, threads() > 1 ? cpu_kernels::attention_most_rows : whole);
    attend(s, 4, [&](const cpu_kernels::attention_unit& u, float* memory) {
      kernels_->attention_forward(s, segments[u.segment], parts.empty() ? all_keys : parts[u.segment], u.kv_head,
                                  u.begin, u.end, q, q_row, out, out_row, statistics, memory);
    });
  }
  void attention_backward_part(const attention_shape& s, std::span<const attention_segment> segments,
                               std::span<const attention_part> parts,
                               std::span<const attention_segment_gradient> gradients, const float* q, extent_t q_row,
                               const float* out, const float* dout, extent_t out_row, const float* statistics,
                               float* dq) {
    attention_.plan(s, segments, std::numeric_limits<std::int32_t>::max());  // sums over rows have one order
    attend(s, 10, [&](const cpu_kernels::attention_unit& u, float* memory) {
      kernels_->attention_backward(s, segments[u.segment], parts.empty() ? all_keys : parts[u.segment], u.kv_head, q,
                                   q_row, out, dout, out_row, statistics, dq, gradients[u.segment].keys,
                                   gradients[u.segment].values, memory);
    });
  }

  void swiglu_forward(float* y, const float* gate_up, extent_t t, extent_t w) {
    split(t, 35 * t * w, [&](extent_t begin, extent_t end) { kernels_->swiglu_forward(y, gate_up, w, begin, end); });
  }
  void swiglu_backward(float* dgate_up, const float* dy, const float* gate_up, extent_t t, extent_t w) {
    split(t, 45 * t * w,
          [&](extent_t begin, extent_t end) { kernels_->swiglu_backward(dgate_up, dy, gate_up, w, begin, end); });
  }
  void gelu_forward(float* y, const float* x, extent_t n) {
    split(n, 45 * n, [&](extent_t begin, extent_t end) { kernels_->gelu_forward(y, x, begin, end); });
  }
  void gelu_backward(float* dx, const float* dy, const float* x, extent_t n) {
    split(n, 50 * n, [&](extent_t begin, extent_t end) { kernels_->gelu_backward(dx, dy, x, begin, end); });
  }

  void gather_rows(float* y, const float* x, extent_t /*rows*/, const std::int32_t* ids, extent_t count, extent_t w) {
    split(count, 10 * count * w,
          [&](extent_t begin, extent_t end) { kernels_->gather_rows(y, x, ids, w, begin, end); });
  }
  bool reads_packed_rows() const noexcept { return true; }
  void gather_packed_rows(float* y, const std::byte* packed, weight_format format, const std::int32_t* ids,
                          extent_t count, extent_t i) {
    split(count, 50 * count * i, [&](extent_t begin, extent_t end) {
      for (extent_t k = begin; k < end; ++k) cpu_kernels::read_packed_row(y + k * i, packed, format, ids[k], i);
    });
  }
  void scatter_add_rows(float* y, const float* x, row_ids ids, extent_t count, extent_t w) {
    split_columns(w, 15 * count * w, [&](extent_t begin, extent_t end) {
      kernels_->scatter_add_rows(y, x, ids.data, count, w, begin, end);
    });
  }
  void copy_rows(float* y, extent_t y_row, row_ids ids, const float* x, extent_t x_row, extent_t count, extent_t w) {
    split_columns(w, 10 * count * w, [&](extent_t begin, extent_t end) {
      for (extent_t k = 0; k < count; ++k)
        std::memcpy(y + (ids.data ? static_cast<extent_t>(ids.data[k]) : k) * y_row + begin, x + k * x_row + begin,
                    static_cast<std::size_t>(end - begin) * sizeof(float));
    });
  }
  void scale_rows(float* y, const float* x, const float* factor, extent_t t, extent_t w) {
    split(t, 10 * t * w, [&](extent_t begin, extent_t end) { kernels_->scale_rows(y, x, factor, w, begin, end); });
  }
  void dot_rows(float* y, const float* a, const float* b, extent_t t, extent_t w) {
    split(t, 10 * t * w, [&](extent_t begin, extent_t end) { kernels_->dot_rows(y, a, b, w, begin, end); });
  }
  void add(float* y, const float* a, const float* b, extent_t n) {
    split_elements(n, 15 * n,
                   [&](extent_t begin, extent_t end) { kernels_->add(y + begin, a + begin, b + begin, end - begin); });
  }
  void scale(float* y, float factor, extent_t n) {
    split_elements(n, 10 * n, [&](extent_t begin, extent_t end) { kernels_->scale(y + begin, factor, end - begin); });
  }
  void fill(float* y, float value, extent_t n) {
    split_elements(n, 10 * n, [&](extent_t begin, extent_t end) { std::fill(y + begin, y + end, value); });
  }

  void log_prob_forward(const float* logits, extent_t t, extent_t vocabulary, const std::int32_t* targets,
                        float temperature, float* logp, float* entropy, float* statistics) {
    split(t, 20 * t * vocabulary, [&](extent_t begin, extent_t end) {
      for (extent_t r = begin; r < end; ++r) {
        log_prob_state state;
        kernels_->log_prob_accumulate(state, logits + r * vocabulary, 0, vocabulary, targets[r], temperature);
        kernels_->log_prob_finish(state, temperature, logp + r, entropy ? entropy + r : nullptr,
                                  statistics ? statistics + 2 * r : nullptr);
      }
    });
  }
  void log_prob_accumulate(log_prob_state* states, const float* logits, extent_t t, extent_t w, extent_t first,
                           const std::int32_t* targets, float temperature) {
    split(t, 20 * t * w, [&](extent_t begin, extent_t end) {
      for (extent_t r = begin; r < end; ++r)
        kernels_->log_prob_accumulate(states[r], logits + r * w, first, w, targets[r], temperature);
    });
  }
  void log_prob_finish(const log_prob_state* states, extent_t t, float temperature, float* logp, float* entropy,
                       float* statistics) {
    for (extent_t r = 0; r < t; ++r)
      kernels_->log_prob_finish(states[r], temperature, logp + r, entropy ? entropy + r : nullptr,
                                statistics ? statistics + 2 * r : nullptr);
  }
  void log_prob_merge(log_prob_state* a, const log_prob_state* b, extent_t t) {
    split(t, 200 * t, [&](extent_t begin, extent_t end) {
      for (extent_t r = begin; r < end; ++r) a[r] = cpu_kernels::merged(a[r], b[r]);
    });
  }
  void log_prob_backward(float* logits, extent_t t, extent_t w, extent_t first, const std::int32_t* targets,
                         float temperature, const float* dlogp, const float* dentropy, const float* entropy,
                         const float* statistics) {
    split(t, 20 * t * w, [&](extent_t begin, extent_t end) {
      for (extent_t r = begin; r < end; ++r)
        kernels_->log_prob_backward(logits + r * w, first, w, targets[r], temperature, dlogp[r], dentropy[r],
                                    entropy[r], statistics + 2 * r);
    });
  }

  void sample(const sampling_arguments& arguments, const float* logits, extent_t t, extent_t vocabulary,
              const double* uniform, std::int32_t* tokens) {
    sampler_(*kernels_, pool_, arguments, logits, t, vocabulary, uniform, tokens);
  }

  /// Chunks of 16384 elements, their sums added in order.
  double sum_of_squares(const float* x, extent_t n) {
    constexpr extent_t chunk = 16384;
    const extent_t chunks = (n + chunk - 1) / chunk;
    sums_.resize(static_cast<std::size_t>(chunks));
    split(chunks, 10 * n, [&](extent_t begin, extent_t end) {
      for (extent_t c = begin; c < end; ++c)
        sums_[static_cast<std::size_t>(c)] = kernels_->sum_of_squares(x + c * chunk, std::min(chunk, n - c * chunk));
    });
    double total = 0;
    for (const double s : sums_) total += s;
    return total;
  }

  /// out[b] = the sum over values [b * block, (b + 1) * block) of x [n].
  void block_sums_of_squares(const float* x, extent_t n, extent_t block, double* out) {
    split((n + block - 1) / block, 10 * n, [&](extent_t begin, extent_t end) {
      for (extent_t b = begin; b < end; ++b)
        out[b] = kernels_->sum_of_squares(x + b * block, std::min(block, n - b * block));
    });
  }

  void adamw(float* w, float* m, float* v, const float* g, extent_t n, const adamw_step& s) {
    const cpu_kernels::adamw_arguments a = cpu_kernels::arguments_of(s);
    split_elements(n, 100 * n, [&](extent_t begin, extent_t end) {
      kernels_->adamw(a, w + begin, m + begin, v + begin, g + begin, end - begin);
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
