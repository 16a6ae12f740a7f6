// Kernel timings of a device, in the shapes of a model with 1.5 billion parameters.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/core/random.hpp"
#include "rlcore/device/any_device.hpp"
#include "rlcore/tensor/buffer.hpp"

namespace timings {

using rlcore::any_device;
using rlcore::extent_t;

/// Extents of the calls; the default is Qwen2.5-1.5B's with 4096 tokens in sequences of 512, and 64 when decoding.
struct shapes {
  extent_t tokens = 4096, sequence = 512, hidden = 1536, intermediate = 8960, heads = 12, kv_heads = 2, head_dim = 128,
           vocabulary = 151936, rows_of_logits = 256, decoded = 64;
  int repeats = 10;

  /// For machines other than NPUs, where timings are meaningless.
  static shapes small() { return {64, 32, 64, 96, 4, 2, 16, 500, 8, 4, 1}; }
};

struct timing {
  std::string kernel, shape;
  double milliseconds = 0;  ///< of a call, the mean of several behind each other
  double work = 0;          ///< of products: floating-point operations of a call
};

/// Allocates the memory of the calls, at most 3 GB with the default shapes.
class stopwatch {
 public:
  stopwatch(any_device& device, const shapes& s) : d_(device), s_(s) {}

  std::vector<timing> all() {
    transfers();
    products();
    layers();
    attention();
    logits();
    optimizer();
    return std::move(all_);
  }

 private:
  using floats = rlcore::buffer<float, any_device>;
  using integers = rlcore::buffer<std::int32_t, any_device>;

  /// Small normal values.
  floats values(extent_t n) {
    std::vector<float> host(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < host.size(); ++i)
      host[i] = i < 4096 ? static_cast<float>(0.1 * rlcore::random_key{3}.normal(static_cast<std::uint32_t>(i)))
                         : host[i - 4096];
    floats x(d_, host.size());
    x.upload(host);
    return x;
  }
  integers numbers(extent_t n, extent_t below) {
    std::vector<std::int32_t> host;
    for (extent_t i = 0; i < n; ++i) host.push_back(static_cast<std::int32_t>(i % below));
    integers x(d_, host.size());
    x.upload(host);
    return x;
  }
  static std::string by(std::initializer_list<extent_t> extents) {
    std::string text;
    for (const extent_t n : extents) text += (text.empty() ? "" : " x ") + std::to_string(n);
    return text;
  }
  void time(const char* kernel, std::string shape, double work, const std::function<void()>& call) {
    call();  // the first call warms up
    d_.wait();
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < s_.repeats; ++i) call();
    d_.wait();
    const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - start;
    all_.push_back({kernel, std::move(shape), spent.count() / s_.repeats, work});
  }

  void transfers() {
    const extent_t n = s_.tokens * s_.hidden;
    std::vector<float> host(static_cast<std::size_t>(n));
    floats x = values(n);
    time("upload", by({n}), 0, [&] { d_.upload(x.data(), host.data(), x.bytes()); });
    time("download", by({n}), 0, [&] { d_.download(host.data(), x.data(), x.bytes()); });
  }
  void products() {
    const extent_t t = s_.tokens, o = s_.intermediate, i = s_.hidden;
    const double work = 2.0 * static_cast<double>(t) * static_cast<double>(o) * static_cast<double>(i);
    floats x = values(t * i), w = values(o * i), y = values(t * o);
    const auto format = d_.compute_format();
    rlcore::buffer<std::byte, any_device> packed(d_, d_.packed_bytes(format, o, i));
    time("pack_weight", by({o, i}), 0, [&] {
      d_.run(rlcore::op::pack_weight{
          .packed = packed.data(), .format = format, .weight = w.data(), .outputs = o, .inputs = i});
    });
    time("linear_forward", by({t, o, i}), work, [&] {
      d_.run(rlcore::op::linear_forward{.y = y.data(),
                                        .x = x.data(),
                                        .packed = packed.data(),
                                        .format = format,
                                        .rows = t,
                                        .outputs = o,
                                        .inputs = i});
    });
    time("linear_forward", by({s_.decoded, o, i}), work / static_cast<double>(t) * static_cast<double>(s_.decoded),
         [&] {
           d_.run(rlcore::op::linear_forward{.y = y.data(),
                                             .x = x.data(),
                                             .packed = packed.data(),
                                             .format = format,
                                             .rows = s_.decoded,
                                             .outputs = o,
                                             .inputs = i});
         });
    time("linear_backward_input", by({t, o, i}), work, [&] {
      d_.run(rlcore::op::linear_backward_input{
          .dx = x.data(), .dy = y.data(), .weight = w.data(), .rows = t, .outputs = o, .inputs = i});
    });
    time("linear_backward_weight", by({t, o, i}), work, [&] {
      d_.run(rlcore::op::linear_backward_weight{.dweight = w.data(),
                                                .dy = y.data(),
                                                .x = x.data(),
                                                .rows = t,
                                                .outputs = o,
                                                .inputs = i,
                                                .accumulate = true});
    });
  }
  void layers() {
    const extent_t t = s_.tokens, w = s_.hidden, half = s_.head_dim / 2;
    floats x = values(t * w), y = values(t * w), weight = values(w), rstd = values(t), dw = values(w);
    const rlcore::norm_arguments n{w, 1, w, weight.data(), 1e-6};
    time("rms_norm_forward", by({t, w}), 0, [&] {
      d_.run(rlcore::op::rms_norm_forward{
          .norm = n, .y = y.data(), .y_row = w, .x = x.data(), .rstd = rstd.data(), .rows = t});
    });
    time("rms_norm_backward", by({t, w}), 0, [&] {
      d_.run(rlcore::op::rms_norm_backward_weight{
          .norm = n, .dweight = dw.data(), .dy = y.data(), .dy_row = w, .x = x.data(), .rstd = rstd.data(), .rows = t});
      d_.run(rlcore::op::rms_norm_backward{
          .norm = n, .dx = y.data(), .dy = y.data(), .dy_row = w, .x = x.data(), .rstd = rstd.data(), .rows = t});
    });
    floats cosine = values(s_.sequence * half), sine = values(s_.sequence * half);
    const integers positions = numbers(t, s_.sequence);
    time("rope", by({t, s_.heads, s_.head_dim}), 0, [&] {
      d_.run(rlcore::op::rope{.x = x.data(),
                              .row = w,
                              .heads = s_.heads,
                              .head_dim = s_.head_dim,
                              .positions = positions.data(),
                              .cosine = cosine.data(),
                              .sine = sine.data(),
                              .rows = t});
    });
    const extent_t wide = s_.intermediate;
    floats gate = values(2 * t * wide), act = values(t * wide);
    time("swiglu_forward", by({t, wide}), 0, [&] {
      d_.run(rlcore::op::swiglu_forward{.y = act.data(), .gate_up = gate.data(), .rows = t, .width = wide});
    });
    time("swiglu_backward", by({t, wide}), 0, [&] {
      d_.run(rlcore::op::swiglu_backward{
          .dgate_up = gate.data(), .dy = act.data(), .gate_up = gate.data(), .rows = t, .width = wide});
    });
  }
  void attention() {
    const rlcore::attention_shape a{s_.heads, s_.kv_heads, s_.head_dim, 0.1F};
    const extent_t t = s_.tokens, q = a.heads * a.head_dim, kv = a.kv_heads * a.head_dim, row = q + 2 * kv;
    floats x = values(t * row), dx = values(t * row), out = values(t * q), dout = values(t * q),
           statistics = values(2 * t * a.heads);
    std::vector<rlcore::attention_segment> segments;
    std::vector<rlcore::attention_segment_gradient> gradients;
    for (extent_t first = 0; first < t; first += s_.sequence) {
      const float* const keys = x.data() + first * row + q;
      float* const dkeys = dx.data() + first * row + q;
      segments.push_back({keys, keys + kv, row, first, s_.sequence, 0});
      gradients.push_back({dkeys, dkeys + kv});
    }
    const std::string shape = by({t / s_.sequence, s_.sequence, a.heads, a.head_dim});
    time("attention_forward", shape, 0, [&] {
      d_.run(rlcore::op::attention_forward{.shape = a,
                                           .segments = segments,
                                           .q = x.data(),
                                           .q_row = row,
                                           .out = out.data(),
                                           .out_row = q,
                                           .statistics = statistics.data()});
    });
    time("attention_backward", shape, 0, [&] {
      d_.run(rlcore::op::attention_backward{.shape = a,
                                            .segments = segments,
                                            .gradients = gradients,
                                            .q = x.data(),
                                            .q_row = row,
                                            .out = out.data(),
                                            .dout = dout.data(),
                                            .out_row = q,
                                            .statistics = statistics.data(),
                                            .dq = dx.data()});
    });
    // One token of each sequence that is being decoded.
    const extent_t each = rlcore::kv_pages(s_.sequence), pages = s_.decoded * each;
    floats layer = values(pages * static_cast<extent_t>(d_.kv_page_bytes(a) / sizeof(float)));
    const integers list = numbers(pages, pages);
    std::vector<rlcore::attention_segment> tokens;
    for (extent_t k = 0; k < s_.decoded; ++k) {
      rlcore::attention_segment one;
      one.keys = layer.data(), one.first_row = k, one.rows = 1, one.first_position = s_.sequence - 1;
      one.pages = list.data() + k * each, one.layer_pages = pages;
      tokens.push_back(one);
    }
    const std::string paged = by({s_.decoded, s_.sequence, a.heads, a.head_dim});
    time("store_keys_values", paged, 0, [&] {
      d_.run(rlcore::op::store_keys_values{.shape = a,
                                           .segments = tokens,
                                           .layer = layer.data(),
                                           .keys = x.data() + q,
                                           .values = x.data() + q + kv,
                                           .row = row});
    });
    time("attention_forward, pages", paged, 0, [&] {
      d_.run(rlcore::op::attention_forward{.shape = a,
                                           .segments = tokens,
                                           .q = x.data(),
                                           .q_row = row,
                                           .out = out.data(),
                                           .out_row = q,
                                           .statistics = statistics.data()});
    });
  }
  void logits() {
    const extent_t t = s_.rows_of_logits, v = s_.vocabulary;
    floats z = values(t * v), logp = values(t), entropy = values(t), statistics = values(2 * t), slopes = values(t);
    integers targets = numbers(t, v);
    rlcore::buffer<double, any_device> uniform(d_, static_cast<std::size_t>(t));
    uniform.upload(std::vector<double>(static_cast<std::size_t>(t), 0.5));
    const auto drawn = [&](const rlcore::sampling_arguments& how) {
      d_.run(rlcore::op::sample{.settings = how,
                                .logits = z.data(),
                                .rows = t,
                                .vocabulary = v,
                                .uniform = uniform.data(),
                                .tokens = targets.data()});
    };
    time("sample, most likely", by({t, v}), 0, [&] { drawn({0, 0, 1}); });
    time("sample, drawn", by({t, v}), 0, [&] { drawn({1, 0, 1}); });
    time("sample, top_p 0.9", by({t, v}), 0, [&] { drawn({1, 0, 0.9F}); });
    time("log_prob_forward", by({t, v}), 0, [&] {
      d_.run(rlcore::op::log_prob_forward{.logits = z.data(),
                                          .rows = t,
                                          .vocabulary = v,
                                          .targets = targets.data(),
                                          .temperature = 1,
                                          .logp = logp.data(),
                                          .entropy = entropy.data(),
                                          .statistics = statistics.data()});
    });
    time("log_prob_backward", by({t, v}), 0, [&] {
      d_.run(rlcore::op::log_prob_backward{.logits = z.data(),
                                           .rows = t,
                                           .width = v,
                                           .first = 0,
                                           .targets = targets.data(),
                                           .temperature = 1,
                                           .dlogp = slopes.data(),
                                           .dentropy = slopes.data(),
                                           .entropy = entropy.data(),
                                           .statistics = statistics.data()});
    });
  }
  void optimizer() {
    const extent_t n = s_.hidden * s_.intermediate;
    floats w = values(n), m = values(n), v = values(n), g = values(n);
    v.fill_zero();
    time("adamw", by({n}), 0, [&] {
      d_.run(rlcore::op::adamw{.weights = w.data(), .m = m.data(), .v = v.data(), .gradient = g.data(), .n = n});
    });
    time("sum_of_squares", by({n}), 0, [&] { (void)d_.run(rlcore::op::sum_of_squares{.x = g.data(), .n = n}); });
  }

  any_device& d_;
  shapes s_;
  std::vector<timing> all_;
};

/// The default shapes, or small ones if a product shows less than 0.1 TFLOP/s.
inline shapes shapes_for(any_device& device) {
  constexpr extent_t n = 512;
  rlcore::buffer<float, any_device> x(device, n * n), y(device, n * n), w(device, n * n);
  x.fill_zero(), y.fill_zero();
  std::chrono::duration<double> spent{};
  for (int i = 0; i < 3; ++i) {  // the first ones prepare
    const auto start = std::chrono::steady_clock::now();
    device.run(rlcore::op::linear_backward_weight{
        .dweight = w.data(), .dy = y.data(), .x = x.data(), .rows = n, .outputs = n, .inputs = n});
    device.wait();
    spent = std::chrono::steady_clock::now() - start;
  }
  return spent.count() < 2.0 * n * n * n / 1e11 ? shapes{} : shapes::small();
}

}  // namespace timings
