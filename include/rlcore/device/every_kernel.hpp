// Every kernel of a device on odd sizes, results as bytes: what instruction sets, compilers, flags and devices with the
// bits of the CPU must agree on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/device/cpu.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/tensor/tensor.hpp"

RLCORE_BEGIN

/// n floats made of integers alone: no library function stands between a seed and its bits.
inline std::vector<float> plain_values(std::size_t n, std::uint64_t seed, float scale = 1) {
  std::vector<float> x(n);
  std::uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (float& v : x) {
    std::uint64_t z = (state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    v = (static_cast<float>(z >> 40) * 0x1p-23f - 1.0f) * scale;
    if (z % 16 == 0) v *= 4.0f;
  }
  return x;
}

/// Runs every operation of a device once for each of many sizes, on inputs that are the same for all devices.
template <device Device>
class every_kernel {
 public:
  static constexpr bool on_host = std::is_same_v<Device, cpu>;

  /// With `side`, products of nearly side rows and columns as well, for kernels of large tiles. Throws what an
  /// operation throws.
  explicit every_kernel(Device& device, extent_t side = 0) : d(device) {
    products();
    if (side > 0) large_products(side - 3);
    norms();
    attention();
    log_probs();
    samples();
    rows();
    exponentials();
  }

  /// What an operation wrote.
  struct result {
    std::string kernel;
    std::vector<unsigned char> bytes;
    bool operator==(const result&) const = default;
  };
  /// In the order of the calls. Only a cpu shows packed weights, pages and what only it has.
  const std::vector<result>& results() const { return results_; }

  /// FNV-1a over the names and bytes of all results.
  std::uint64_t hash() const {
    std::uint64_t h = 0xcbf29ce484222325u;
    const auto add = [&](unsigned char byte) { h = (h ^ byte) * 0x100000001b3u; };
    for (const result& r : results_) {
      for (const char c : r.kernel) add(static_cast<unsigned char>(c));
      for (const unsigned char byte : r.bytes) add(byte);
    }
    return h;
  }

 private:
  template <class T>
  using array = tensor<T, 1, Device>;
  using floats = array<float>;

  template <class T>
  array<T> on_device(const std::vector<T>& host) {
    array<T> x(d, {static_cast<extent_t>(host.size())});
    x.memory().upload(std::span<const T>(host));
    return x;
  }
  static std::size_t at(extent_t i) { return static_cast<std::size_t>(i); }
  floats values(extent_t n, float scale = 1) { return on_device(plain_values(at(n), ++seed_, scale)); }
  floats zeros(extent_t n) { return on_device(std::vector<float>(at(n))); }
  std::vector<std::int32_t> host_ids(extent_t n, extent_t below) {
    std::vector<std::int32_t> x;
    for (extent_t i = 0; i < n; ++i) x.push_back(static_cast<std::int32_t>((i * 7 + i / 3) % below));
    return x;
  }
  array<std::int32_t> ids(extent_t n, extent_t below) { return on_device(host_ids(n, below)); }
  template <class T>
  void keep(const std::string& kernel, const array<T>& x) {
    std::vector<T> host(x.size());
    x.memory().download(std::span<T>(host));
    keep(kernel, host);
  }
  template <class T>
  void keep(const std::string& kernel, const std::vector<T>& x) {
    result r{kernel, {}};
    r.bytes.resize(x.size() * sizeof(T));
    if (!x.empty()) std::memcpy(r.bytes.data(), x.data(), r.bytes.size());
    results_.push_back(std::move(r));
  }

  void products() {
    for (const extent_t t : {1, 3, 7, 14, 31})
      for (const auto& [o, i] : {std::pair<extent_t, extent_t>{1, 5}, {17, 37}, {70, 1100}, {33, 16}})
        products(t, o, i);
  }
  void products(extent_t t, extent_t o, extent_t i) {
    floats x = values(t * i), weight = values(o * i), bias = values(o), dy = values(t * o);
    for (const weight_format f :
         {weight_format::float32, weight_format::bfloat16, weight_format::int8, weight_format::bfloat16_exact}) {
      floats y = zeros(t * o);
      forward(y, x, weight, f, t % 2 ? bias.data() : nullptr, {t, o, i});
    }
    for (const bool accumulate : {false, true}) {
      floats dx = values(t * i), dweight = values(o * i);
      backward_input(dx, dy, weight, {t, o, i}, accumulate);
      backward_weight(dweight, dy, x, {t, o, i}, accumulate);
    }
    floats total = values(o);
    d.run(op::sum_rows{.total = total.data(), .x = dy.data(), .rows = t, .width = o}), keep("sum_rows", total);
  }
  /// Three times side rows and side columns.
  void large_products(extent_t side, extent_t depth = 300) {
    floats a = values(side * depth), b = values(side * depth), bias = values(side), c = values(side * side);
    forward(c, a, b, d.compute_format(), bias.data(), {side, side, depth});
    backward_input(c, a, b, {side, depth, side}, true);
    backward_weight(c, a, b, {depth, side, side}, true);
  }

  struct sizes {
    extent_t rows, outputs, inputs;
  };
  void forward(floats& y, floats& x, floats& weight, weight_format f, const float* bias, sizes s) {
    auto packed = on_device(std::vector<std::byte>(d.packed_bytes(f, s.outputs, s.inputs)));
    d.run(op::pack_weight{packed.data(), f, weight.data(), s.outputs, s.inputs});
    if (on_host) keep("pack_weight", packed);
    d.run(op::linear_forward{y.data(), x.data(), packed.data(), f, bias, s.rows, s.outputs, s.inputs});
    keep("linear_forward", y);
  }
  void backward_input(floats& dx, floats& dy, floats& weight, sizes s, bool accumulate) {
    op::linear_backward_input o{};
    o.dx = dx.data(), o.dy = dy.data(), o.weight = weight.data();
    o.rows = s.rows, o.outputs = s.outputs, o.inputs = s.inputs, o.accumulate = accumulate;
    d.run(o), keep("linear_backward_input", dx);
  }
  void backward_weight(floats& dweight, floats& dy, floats& x, sizes s, bool accumulate) {
    op::linear_backward_weight o{};
    o.dweight = dweight.data(), o.dy = dy.data(), o.x = x.data();
    o.rows = s.rows, o.outputs = s.outputs, o.inputs = s.inputs, o.accumulate = accumulate;
    d.run(o), keep("linear_backward_weight", dweight);
  }

  void norms() {
    for (const extent_t width : {1, 3, 4, 8, 15, 16, 17, 31, 48, 63, 64, 65, 80, 100, 111, 127, 129, 896})
      for (const extent_t groups : {1, 3}) {
        const extent_t t = 5, row = groups * width + 7;
        floats weight = values(width), x = values(t * row, 3), dy = values(t * row);
        const norm_arguments n{row, groups, width, weight.data(), 1e-6};
        floats y = zeros(t * row), rstd = zeros(t * groups), dx = values(t * row), dweight = values(width);
        d.run(op::rms_norm_forward{
            .norm = n, .y = y.data(), .y_row = row, .x = x.data(), .rstd = rstd.data(), .rows = t});
        keep("rms_norm_forward", y), keep("rms_norm_forward", rstd);
        for (const bool accumulate : {false, true}) {
          d.run(op::rms_norm_backward{.norm = n,
                                      .dx = dx.data(),
                                      .dy = dy.data(),
                                      .dy_row = row,
                                      .x = x.data(),
                                      .rstd = rstd.data(),
                                      .rows = t,
                                      .accumulate = accumulate});
          keep("rms_norm_backward", dx);
        }
        d.run(op::rms_norm_backward_weight{.norm = n,
                                           .dweight = dweight.data(),
                                           .dy = dy.data(),
                                           .dy_row = row,
                                           .x = x.data(),
                                           .rstd = rstd.data(),
                                           .rows = t});
        keep("rms_norm_backward_weight", dweight);
        if (groups > 1) continue;
        const norm_arguments whole{width, 1, width, weight.data(), 1e-5};
        floats total = zeros(t * width);
        d.run(op::add_rms_norm_forward{.norm = whole,
                                       .total = total.data(),
                                       .a = x.data(),
                                       .b = dy.data(),
                                       .y = y.data(),
                                       .rstd = rstd.data(),
                                       .rows = t});
        keep("add_rms_norm_forward", total), keep("add_rms_norm_forward", y), keep("add_rms_norm_forward", rstd);
        floats products = zeros(t);
        d.run(op::dot_rows{.y = products.data(), .a = x.data(), .b = dy.data(), .rows = t, .width = width});
        keep("dot_rows", products);
      }
  }

  void attention() {
    for (const extent_t head_dim : {8, 20, 64, 80})
      for (const extent_t group : {1, 2, 7})
        for (const extent_t length : {1, 13, 70, 150}) {
          const attention_shape s{2 * group, 2, head_dim, 0.3f};
          const extent_t row = (s.heads + 2 * s.kv_heads) * head_dim, out = s.heads * head_dim;
          floats qkv = values(length * row), dy = values(length * out);
          const float *keys = qkv.data() + out, *held = keys + s.kv_heads * head_dim;
          const attention_segment segment{keys, held, row, 0, length, 0};
          floats y = zeros(length * out), statistics = zeros(length * s.heads * 2), gradient = zeros(length * row);
          const auto attend = [&](const attention_segment& to) {
            d.run(op::attention_forward{s, {&to, 1}, qkv.data(), row, y.data(), out, statistics.data()});
          };
          attend(segment);
          keep("attention_forward", y), keep("attention_forward", statistics);
          const attention_segment_gradient to{gradient.data() + out, gradient.data() + out + s.kv_heads * head_dim};
          d.run(op::attention_backward{.shape = s,
                                       .segments = {&segment, 1},
                                       .gradients = {&to, 1},
                                       .q = qkv.data(),
                                       .q_row = row,
                                       .out = y.data(),
                                       .dout = dy.data(),
                                       .out_row = out,
                                       .statistics = statistics.data(),
                                       .dq = gradient.data()});
          keep("attention_backward", gradient);
          // The last rows again, from pages: as one chunk, and the very last one alone.
          std::vector<std::int32_t> list;
          for (extent_t n = 0; n < kv_pages(length); ++n) list.push_back(static_cast<std::int32_t>(4 - n));
          auto pages = on_device(list);
          floats layer = zeros(static_cast<extent_t>(5 * d.kv_page_bytes(s) / sizeof(float)));
          for (const extent_t last : {length, extent_t{1}}) {
            const attention_segment paged{layer.data(), nullptr, 0, length - last, last, length - last, pages.data()};
            d.run(op::store_keys_values{
                .shape = s, .segments = {&paged, 1}, .layer = layer.data(), .keys = keys, .values = held, .row = row});
            attend(paged);
            if (on_host) keep("store_keys_values", layer);
            keep("attention in pages", y);
            keep("attention in pages", statistics);
          }
        }
  }

  void log_probs() {
    for (const extent_t vocabulary : {1, 5, 16, 63, 64, 65, 100, 1000, 1023, 1024, 1100, 3072, 5000}) {
      const extent_t t = 3;
      const std::vector<float> host = plain_values(at(t * vocabulary), ++seed_, 12);
      floats logits = on_device(host), slopes = on_device(host);
      auto targets = ids(t, vocabulary);
      floats logp = zeros(t), entropy = zeros(t), statistics = zeros(2 * t);
      d.run(op::log_prob_forward{.logits = logits.data(),
                                 .rows = t,
                                 .vocabulary = vocabulary,
                                 .targets = targets.data(),
                                 .temperature = 0.8f,
                                 .logp = logp.data(),
                                 .entropy = entropy.data(),
                                 .statistics = statistics.data()});
      keep("log_prob_forward", logp), keep("log_prob_forward", entropy), keep("log_prob_forward", statistics);
      floats dlogp = values(t), dentropy = values(t, 0.1f);
      d.run(op::log_prob_backward{.logits = slopes.data(),
                                  .rows = t,
                                  .width = vocabulary,
                                  .first = 0,
                                  .targets = targets.data(),
                                  .temperature = 0.8f,
                                  .dlogp = dlogp.data(),
                                  .dentropy = dentropy.data(),
                                  .entropy = entropy.data(),
                                  .statistics = statistics.data()});
      keep("log_prob_backward", slopes);
      const std::vector<log_prob_state> none(at(t));
      auto a = on_device(none), b = on_device(none);
      const extent_t half = vocabulary / 2;
      std::vector<float> first, second;
      for (extent_t r = 0; r < t; ++r) {
        const auto begin = host.begin() + r * vocabulary;
        first.insert(first.end(), begin, begin + half), second.insert(second.end(), begin + half, begin + vocabulary);
      }
      floats left = on_device(first), right = on_device(second);
      auto others = host_ids(t, vocabulary);
      for (auto& id : others) id -= static_cast<std::int32_t>(half);
      auto rest = on_device(others);
      const auto accumulate = [&](array<log_prob_state>& states, floats& x, extent_t width, auto& y) {
        d.run(op::log_prob_accumulate{states.data(), x.data(), t, width, 0, y.data(), 1});
      };
      accumulate(a, left, half, targets);
      accumulate(b, right, vocabulary - half, rest);
      if (half > 0) d.run(op::log_prob_merge{.a = b.data(), .b = a.data(), .rows = t});
      d.run(op::log_prob_finish{b.data(), t, 1, logp.data(), entropy.data(), statistics.data()});
      keep("log_prob_merge", logp), keep("log_prob_merge", entropy), keep("log_prob_merge", statistics);
    }
  }

  void samples() {
    const extent_t t = 40, vocabulary = 2500;
    floats logits = values(t * vocabulary, 3);
    std::vector<double> drawn;
    for (extent_t i = 0; i < t; ++i) drawn.push_back((static_cast<double>(i) + 0.37) / static_cast<double>(t));
    auto uniform = on_device(drawn);
    for (const sampling_arguments& how :
         {sampling_arguments{0, 0, 1}, {1, 0, 1}, {0.7f, 50, 1}, {1.3f, 0, 0.9f}, {1, 20, 0.8f}}) {
      auto tokens = on_device(std::vector<std::int32_t>(at(t)));
      d.run(op::sample{.settings = how,
                       .logits = logits.data(),
                       .rows = t,
                       .vocabulary = vocabulary,
                       .uniform = uniform.data(),
                       .tokens = tokens.data()});
      keep("sample", tokens);
    }
    if constexpr (on_host) {
      const auto& kernels = cpu_kernels::choose(d.instruction_set());
      for (const extent_t n : {5, 1000, 2500}) {
        floats top = zeros(3), mass = zeros(3), weight = zeros(n), below = zeros(n);
        kernels.sample_blocks(logits.data(), n, 1.7f, 0, (n + 1023) / 1024, top.data(), mass.data());
        kernels.sample_weights(logits.data(), n, 1.7f, 12, weight.data(), below.data());
        keep("sample_blocks", top), keep("sample_blocks", mass);
        keep("sample_weights", weight), keep("sample_weights", below);
      }
    }
  }

  void rows() {
    const extent_t t = 11, w = 83, n = t * w;
    floats x = values(n), z = values(n), factor = values(t), up = values(2 * n, 6), dy = values(n);
    auto which = ids(t, t);
    floats y = values(n), gate = values(2 * n);
    d.run(op::gather_rows{.y = y.data(), .x = x.data(), .x_rows = t, .ids = which.data(), .count = t, .width = w}),
        keep("gather_rows", y);
    d.run(op::scatter_add_rows{.y = y.data(), .x = z.data(), .ids = {which.data(), t}, .count = t, .width = w}),
        keep("scatter_add_rows", y);
    d.run(op::copy_rows{
        .y = y.data(), .y_row = w, .ids = {which.data(), t}, .x = x.data(), .x_row = w, .count = t, .width = w}),
        keep("copy_rows", y);
    d.run(op::scale_rows{.y = y.data(), .x = x.data(), .factor = factor.data(), .rows = t, .width = w}),
        keep("scale_rows", y);
    d.run(op::add{.y = y.data(), .a = x.data(), .b = z.data(), .n = n}), keep("add", y);
    d.run(op::scale{.y = y.data(), .factor = 0.3f, .n = n}), keep("scale", y);
    d.run(op::fill{.y = y.data(), .value = 0.3f, .n = n - 1}), keep("fill", y);
    d.run(op::swiglu_forward{.y = y.data(), .gate_up = up.data(), .rows = t, .width = w}), keep("swiglu_forward", y);
    d.run(op::swiglu_backward{.dgate_up = gate.data(), .dy = dy.data(), .gate_up = up.data(), .rows = t, .width = w}),
        keep("swiglu_backward", gate);
    d.run(op::gelu_forward{.y = y.data(), .x = x.data(), .n = n}), keep("gelu_forward", y);
    d.run(op::gelu_backward{.dx = y.data(), .dy = z.data(), .x = x.data(), .n = n}), keep("gelu_backward", y);
    for (const extent_t head_dim : {6, 40, 64}) {
      const extent_t half = head_dim / 2, heads = 3;
      floats cosine = values(t * half), sine = values(t * half);
      floats turned = values(t * heads * head_dim);
      for (const bool inverse : {false, true}) {
        d.run(op::rope{turned.data(), heads * head_dim, heads, head_dim, which.data(), cosine.data(), sine.data(), t,
                       inverse});
        keep("rope", turned);
      }
    }
    floats long_row = values(40000);
    keep("sum_of_squares", std::vector<double>{d.run(op::sum_of_squares{.x = long_row.data(), .n = 40000}),
                                               d.run(op::sum_of_squares{.x = long_row.data(), .n = 4011}),
                                               d.run(op::sum_of_squares{.x = long_row.data(), .n = 7})});
    std::vector<double> blocks(5);
    d.run(op::block_sums_of_squares{.x = long_row.data(), .n = 4011, .block = 1000, .sums = blocks.data()}),
        keep("block_sums_of_squares", blocks);
    floats weight = values(n), m = values(n, 0.01f);
    std::vector<float> squares = plain_values(at(n), ++seed_, 0.01f);
    for (float& each : squares) each *= each;
    floats v = on_device(squares);
    for (const std::int64_t step : {1, 2, 1000}) {
      const adamw_step of{1e-3, 0.9, 0.999, 1e-8, 0.01, step, 0.7f};
      d.run(op::adamw{weight.data(), m.data(), v.data(), dy.data(), n, of});
      keep("adamw", weight), keep("adamw", m), keep("adamw", v);
    }
  }

  void exponentials() {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    std::vector<float> x = plain_values(20011, ++seed_, 26);  // up to +-104
    x.insert(x.end(), {0.0f, -0.0f, infinity, 88.72f, 88.73f, -103.97f, -103.98f, 1e-38f, -1e-40f});
    if constexpr (on_host) {
      std::vector<float> y(x.size());
      d.exp(y.data(), x.data(), static_cast<extent_t>(x.size())), keep("exp", y);
    }
    const auto n = static_cast<extent_t>(x.size());
    floats gates = on_device(x), slopes = zeros(n);  // the exponential of other kernels
    d.run(op::gelu_forward{.y = slopes.data(), .x = gates.data(), .n = n});
    keep("gelu_forward", slopes);
  }

  Device& d;
  std::uint64_t seed_ = 0;
  std::vector<result> results_;
};

RLCORE_END
