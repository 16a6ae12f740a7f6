// Measures the speed of one rank of this machine while all ranks do the same work.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/device/cpu.hpp"
#include "rlcore/optim/adamw.hpp"
#include "rlcore/parallel/reduction/piece_sum.hpp"
#include "rlcore/parallel/reduction/reduction.hpp"
#include "rlcore/planning/cluster.hpp"

RLCORE_BEGIN
namespace train::planning {

/// Collective: every rank of `c` creates one and makes the same calls. All times are those of the slowest rank.
class rank_meter {
 public:
  /// A point takes about `seconds`.
  rank_meter(cpu& device, parallel::any_communicator& c, double seconds) : d_(&device), c_(&c), budget_(seconds) {}

  measured_rank measure();

  /// The seconds of one call of f(); all ranks begin together. Takes the best of eight groups of calls, or of four long
  /// ones: this is least sensitive to unrelated load.
  template <class F>
  double time(F&& f) {
    f();
    const double once = group(f, 1);
    const int calls = std::max(1, static_cast<int>(budget_ / 8 / std::max(once, 1e-7)));
    double best = once;
    for (int k = 0; k < (once > budget_ / 2 ? 4 : 8); ++k) best = std::min(best, group(f, calls));
    return best;
  }

 private:
  using clock = std::chrono::steady_clock;
  static clock::time_point now() { return clock::now(); }
  static double seconds_since(clock::time_point begin) {
    return std::chrono::duration<double>(clock::now() - begin).count();
  }
  template <class F>
  double group(F&& f, int calls) {
    c_->barrier();
    const auto begin = now();
    for (int i = 0; i < calls; ++i) f();
    return slowest(seconds_since(begin)) / calls;
  }
  double slowest(double elapsed) {
    std::vector<double> gathered(static_cast<std::size_t>(c_->size()), elapsed);
    if (c_->size() > 1) c_->all_gather(std::span<const double>(&elapsed, 1), std::span<double>(gathered));
    return *std::max_element(gathered.begin(), gathered.end());
  }
  static std::vector<float> numbers(std::size_t n, float scale);
  static std::size_t z(extent_t n) { return static_cast<std::size_t>(n); }

  void products(measured_rank& r);

  /// 1024 tokens in sequences of one length, 4 query heads of 64 on 2.
  void attention(measured_rank& r);

  /// The work of a layer on its rows besides products and attention.
  void elements(measured_rank& r);

  void rest(measured_rank& r);

  /// Measures the steady state: buffers take turns, each is cold at its turn, and calls follow one another directly.
  void collectives(measured_rank& r);

  cpu* d_;
  parallel::any_communicator* c_;
  double budget_;
};

}  // namespace train::planning
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_PLANNING)
RLCORE_BEGIN
namespace train::planning {

RLCORE_INLINE measured_rank rank_meter::measure() {
  measured_rank r;
  r.ranks = c_->size();
  products(r);
  attention(r);
  elements(r);
  rest(r);
  if (c_->size() > 1) collectives(r);
  return r;
}

RLCORE_INLINE std::vector<float> rank_meter::numbers(std::size_t n, float scale) {
  std::vector<float> x(n);
  std::uint32_t s = 1;
  for (float& v : x) {
    s = s * 1664525u + 1013904223u;
    v = scale * (static_cast<float>(s >> 8) * 0x1p-23f - 1);
  }
  return x;
}

RLCORE_INLINE void rank_meter::products(measured_rank& r) {
  const std::size_t values = std::size_t{24} << 20;
  const std::vector<float> weights = numbers(values, 0.05f);
  std::vector<float> gradients(values, 0.0f);
  buffer<std::byte, cpu> packed(*d_, values * sizeof(float));
  for (const bool cold : {false, true})
    for (const extent_t t : {16, 64, 256, 1024}) {
      curve ahead, back_x, back_w;
      for (const extent_t w : {64, 128, 256, 512, 1024}) {
        // Weights take turns, so that they come from the same level of memory as those of a model's layers.
        const std::size_t size = z(w * w), copies = std::max<std::size_t>(2, (cold ? values : values / 24) / size);
        const weight_format format = d_->compute_format();
        const std::size_t bytes = d_->packed_bytes(format, w, w);
        for (std::size_t k = 0; k < copies; ++k)
          d_->run(op::pack_weight{.packed = packed.data() + k * bytes,
                                  .format = format,
                                  .weight = weights.data() + k * size,
                                  .outputs = w,
                                  .inputs = w});
        const std::vector<float> x = numbers(z(t * w), 1), dy = numbers(z(t * w), 0.01f);
        std::vector<float> y(x.size());
        std::size_t at = 0;
        const auto next = [&] { return at = (at + 1) % copies; };
        const double operations = 2 * static_cast<double>(t) * static_cast<double>(w * w);
        const auto add = [&](curve& c, double s) { c.points.push_back({static_cast<double>(w), operations / s}); };
        add(ahead, time([&] {
              d_->run(op::linear_forward{.y = y.data(),
                                         .x = x.data(),
                                         .packed = packed.data() + next() * bytes,
                                         .format = format,
                                         .rows = t,
                                         .outputs = w,
                                         .inputs = w});
            }));
        add(back_x, time([&] {
              d_->run(op::linear_backward_input{.dx = y.data(),
                                                .dy = dy.data(),
                                                .weight = weights.data() + next() * size,
                                                .rows = t,
                                                .outputs = w,
                                                .inputs = w});
            }));
        add(back_w, time([&] {
              d_->run(op::linear_backward_weight{.dweight = gradients.data() + next() * size,
                                                 .dy = dy.data(),
                                                 .x = x.data(),
                                                 .rows = t,
                                                 .outputs = w,
                                                 .inputs = w});
            }));
      }
      const auto keep = [&](surface& s, curve& c) { s.rows.push_back({static_cast<double>(t), std::move(c)}); };
      keep(cold ? r.cold_forward : r.forward, ahead);
      keep(cold ? r.cold_backward_x : r.backward_x, back_x);
      keep(cold ? r.cold_backward_w : r.backward_w, back_w);
    }
}

RLCORE_INLINE void rank_meter::attention(measured_rank& r) {
  for (const extent_t length : {16, 64, 256, 1024}) {
    const extent_t tokens = 1024, count = tokens / length;
    const attention_shape s{4, 2, 64, 0.125f};
    const extent_t q = s.heads * s.head_dim, kv = s.kv_heads * s.head_dim, row = q + 2 * kv;
    std::vector<float> qkv = numbers(z(tokens * row), 1), dqkv(qkv.size());
    std::vector<float> out(z(tokens * q)), dout = numbers(out.size(), 1), statistics(z(tokens * s.heads * 2));
    std::vector<attention_segment> segments;
    std::vector<attention_segment_gradient> gradients;
    for (extent_t b = 0; b < count; ++b) {
      const extent_t at = b * length * row + q;
      attention_segment segment;
      segment.keys = qkv.data() + at, segment.values = segment.keys + kv;
      segment.key_row = row, segment.first_row = b * length, segment.rows = length;
      segments.push_back(segment);
      gradients.push_back({dqkv.data() + at, dqkv.data() + at + kv});
    }
    const double n = static_cast<double>(length), operations = 2 * static_cast<double>(q * count) * n * n;
    const double ahead = time([&] {
      d_->run(op::attention_forward{.shape = s,
                                    .segments = segments,
                                    .q = qkv.data(),
                                    .q_row = row,
                                    .out = out.data(),
                                    .out_row = q,
                                    .statistics = statistics.data()});
    });
    const double back = time([&] {
      d_->fill_zero(dqkv.data(), dqkv.size() * sizeof(float));
      d_->run(op::attention_backward{.shape = s,
                                     .segments = segments,
                                     .gradients = gradients,
                                     .q = qkv.data(),
                                     .q_row = row,
                                     .out = out.data(),
                                     .dout = dout.data(),
                                     .out_row = q,
                                     .statistics = statistics.data(),
                                     .dq = dqkv.data()});
    });
    r.attention_forward.points.push_back({n, operations / ahead});
    r.attention_backward.points.push_back({n, 2.5 * operations / back});
  }
}

RLCORE_INLINE void rank_meter::elements(measured_rank& r) {
  const extent_t w = 256;
  const std::vector<float> weight(z(w), 1.0f);
  const norm_arguments norm{w, 1, w, weight.data(), 1e-6};
  for (const extent_t t : {16, 64, 256, 1024, 4096}) {
    const std::size_t n = z(t * w);
    const std::vector<float> a = numbers(n, 1), b = numbers(n, 1), gate_up = numbers(2 * n, 1);
    std::vector<float> total(n), y(n), rstd(z(t)), dx(n), dweight(z(w)), dgate(2 * n);
    std::vector<std::int32_t> positions(z(t));
    std::iota(positions.begin(), positions.end(), 0);
    const std::vector<float> cosine(z(t * w / 2), 0.8f), sine(z(t * w / 2), 0.6f);
    const double values = static_cast<double>(n);
    const auto add = [&](curve& c, double s) { c.points.push_back({values, values / s}); };
    add(r.norm_forward, time([&] {
          d_->run(op::rms_norm_forward{
              .norm = norm, .y = y.data(), .y_row = w, .x = a.data(), .rstd = rstd.data(), .rows = t});
          d_->run(op::add_rms_norm_forward{.norm = norm,
                                           .total = total.data(),
                                           .a = a.data(),
                                           .b = b.data(),
                                           .y = y.data(),
                                           .rstd = rstd.data(),
                                           .rows = t});
          d_->run(op::add{.y = dx.data(), .a = a.data(), .b = b.data(), .n = t * w});
        }));
    add(r.norm_backward, time([&] {
          for (int k = 0; k < 2; ++k) {
            d_->run(op::rms_norm_backward_weight{.norm = norm,
                                                 .dweight = dweight.data(),
                                                 .dy = b.data(),
                                                 .dy_row = w,
                                                 .x = a.data(),
                                                 .rstd = rstd.data(),
                                                 .rows = t});
            d_->run(op::rms_norm_backward{.norm = norm,
                                          .dx = dx.data(),
                                          .dy = b.data(),
                                          .dy_row = w,
                                          .x = a.data(),
                                          .rstd = rstd.data(),
                                          .rows = t,
                                          .accumulate = true});
          }
        }));
    add(r.gate_forward,
        time([&] { d_->run(op::swiglu_forward{.y = y.data(), .gate_up = gate_up.data(), .rows = t, .width = w}); }));
    add(r.gate_backward, time([&] {
          d_->run(op::swiglu_backward{
              .dgate_up = dgate.data(), .dy = a.data(), .gate_up = gate_up.data(), .rows = t, .width = w});
        }));
    add(r.rotate, time([&] {
          d_->run(op::rope{.x = y.data(),
                           .row = w,
                           .heads = 4,
                           .head_dim = w / 4,
                           .positions = positions.data(),
                           .cosine = cosine.data(),
                           .sine = sine.data(),
                           .rows = t});
        }));
  }
}

RLCORE_INLINE void rank_meter::rest(measured_rank& r) {
  const extent_t n = 4 << 20, side = 1024;
  std::vector<float> weights = numbers(z(n), 0.05f), gradient = numbers(z(n), 1e-4f);
  optim::adamw<cpu> adamw(*d_, z(n));
  double norm = 0;
  r.optimizer = static_cast<double>(n) / time([&] { adamw.step(weights, gradient, 1e-9); });
  r.norm = static_cast<double>(n) / time([&] { norm += optim::global_norm(*d_, gradient); });
  r.add = static_cast<double>(n) /
          time([&] { d_->run(op::add{.y = weights.data(), .a = weights.data(), .b = gradient.data(), .n = n}); });
  const std::size_t bytes = d_->packed_bytes(d_->compute_format(), side, side);
  buffer<std::byte, cpu> packed(*d_, 4 * bytes);
  r.pack = static_cast<double>(n) / time([&] {
             for (std::size_t k = 0; k < 4; ++k)
               d_->run(op::pack_weight{.packed = packed.data() + k * bytes,
                                       .format = d_->compute_format(),
                                       .weight = weights.data() + k * z(side * side),
                                       .outputs = side,
                                       .inputs = side});
           });
  const extent_t t = 256, v = 2048;
  const std::vector<std::int32_t> target(z(t), 5);
  std::vector<float> logits = numbers(z(t * v), 6), logp(z(t)), entropy(z(t)), statistics(z(2 * t));
  const std::vector<float> dlogp(z(t), -1e-3f), dentropy(z(t), 0.0f);
  r.head = static_cast<double>(t * v) / time([&] {
             d_->run(op::log_prob_forward{.logits = logits.data(),
                                          .rows = t,
                                          .vocabulary = v,
                                          .targets = target.data(),
                                          .temperature = 1,
                                          .logp = logp.data(),
                                          .entropy = entropy.data(),
                                          .statistics = statistics.data()});
           });
  // The gradient takes the place of the logits; the work is the same for any numbers.
  r.head_backward = static_cast<double>(t * v) / time([&] {
                      d_->run(op::log_prob_backward{.logits = logits.data(),
                                                    .rows = t,
                                                    .width = v,
                                                    .first = 0,
                                                    .targets = target.data(),
                                                    .temperature = 1,
                                                    .dlogp = dlogp.data(),
                                                    .dentropy = dentropy.data(),
                                                    .entropy = entropy.data(),
                                                    .statistics = statistics.data()});
                    });
}

RLCORE_INLINE void rank_meter::collectives(measured_rank& r) {
  const auto ranks = static_cast<std::size_t>(c_->size()), self = static_cast<std::size_t>(c_->rank());
  parallel::exchange_scratch scratch;
  parallel::piece_sum sum(parallel::reduction_kind::tree, ranks);
  for (std::size_t n = 1024; n <= std::size_t{8} << 20; n *= 4) {
    const std::size_t copies = std::clamp<std::size_t>((std::size_t{24} << 20) / n, 2, 8), part = n / ranks;
    std::vector<std::vector<float>> whole(copies, numbers(n, 1));
    std::vector<float> out(n);
    std::vector<std::size_t> counts(ranks, part);
    counts.back() = n - part * (ranks - 1);
    std::size_t at = 0;
    const double bytes = 4 * static_cast<double>(n);
    r.all_gather.points.push_back({bytes, time([&] {
                                     std::vector<float>& x = whole[at++ % copies];
                                     c_->all_gather_v(std::span<const float>(x).subspan(self * part, counts[self]),
                                                      std::span<float>(x), std::span<const std::size_t>(counts));
                                   })});
    r.ordered_sum.points.push_back({bytes, time([&] {
                                      sum.begin(counts[self]);
                                      parallel::exchange(
                                          *c_, whole[at++ % copies].data(), counts, scratch,
                                          [](std::size_t) { return true; },
                                          [&](std::size_t from, const float* x) { sum.push({0, from}, x); });
                                      sum.end_round();
                                      sum.write(std::span(out).first(counts[self]));
                                    })});
  }
}

}  // namespace train::planning
RLCORE_END
#endif
