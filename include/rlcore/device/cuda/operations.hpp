// The launches of a cuda device for each operation.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "rlcore/device/cpu.hpp"
#include "rlcore/device/cuda.hpp"

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_DEVICE)

RLCORE_BEGIN

RLCORE_INLINE cuda::cuda(nvidia::provider functions, cuda_settings settings)
    : settings_(settings.compute != compute::hf32
                    ? std::move(settings)
                    : throw device_error("rlcore: cuda: no compute type hf32; expected float32 or bfloat16")),
      queue_(std::move(functions), {settings_.device, settings_.sync_each_operation, settings_.cache}) {}

namespace nvidia {

/// A kernel's argument.
inline arguments::norm_rows norm_of(const norm_arguments& n) { return {n.row, n.groups, n.width, n.weight, n.eps}; }
/// A kernel's argument.
inline arguments::heads_of_attention heads_of(const attention_shape& s) {
  return {s.heads, s.kv_heads, s.head_dim, s.scale, s.causal};
}

}  // namespace nvidia

RLCORE_INLINE void cuda::multiply(const nvidia::arguments::product& p) {
  namespace k = nvidia::arguments;
  const bool tensor = uses_tensor_cores() && (p.round_a || p.round_b);
  const auto tiles = [&](extent_t side) { return (p.rows + side - 1) / side * ((p.columns + side - 1) / side); };
  const auto launch = [&](const auto& arguments, extent_t rows, extent_t columns) {
    queue_.launch(arguments, (p.columns + columns - 1) / columns, (p.rows + rows - 1) / rows);
  };
  const bool large = p.rows > 64 && p.columns > 64 && tiles(128) >= queue_.processors();
  if (tensor && p.rows <= 16 && p.b_format != static_cast<int>(weight_format::float32))
    launch(k::tensor_product_few{p}, 16, 32);
  else if (tensor && large)
    launch(k::tensor_product_large{p}, 128, 128);
  else if (tensor)
    launch(k::tensor_product{p}, 64, 64);
  else if (p.rows <= 16)
    launch(k::product_few{p}, 16, 64);
  else if (large)
    launch(k::product_large{p}, 128, 128);
  else
    launch(p, 64, 64);
}

RLCORE_INLINE void cuda::run(const op::pack_weight& o) {
  queue_.launch(nvidia::arguments::pack_weight{o.packed, static_cast<int>(o.format), o.weight, o.outputs, o.inputs},
                o.outputs);
}
RLCORE_INLINE void cuda::run(const op::linear_forward& o) {
  multiply({.c = o.y,
            .c_row = o.outputs,
            .a = o.x,
            .a_row = o.inputs,
            .a_step = 1,
            .b = o.packed,
            .b_format = static_cast<int>(o.format),
            .b_step = 1,
            .b_column = o.inputs,
            .bias = o.bias,
            .accumulate = false,
            .round_a = o.format == weight_format::bfloat16,
            .round_b = false,
            .chain = false,
            .rows = o.rows,
            .columns = o.outputs,
            .depth = o.inputs});
}
RLCORE_INLINE void cuda::multiply_in_one_chain(nvidia::arguments::product p) {
  p.b_format = static_cast<int>(weight_format::float32);
  p.b_step = p.columns, p.b_column = 1;
  p.c_row = p.columns;
  p.round_a = p.round_b = rounds();
  p.chain = true;
  multiply(p);
}
RLCORE_INLINE void cuda::run(const op::linear_backward_input& o) {
  nvidia::arguments::product p{};
  p.c = o.dx, p.accumulate = o.accumulate;
  p.a = o.dy, p.a_row = o.outputs, p.a_step = 1;
  p.b = o.weight;
  p.rows = o.rows, p.columns = o.inputs, p.depth = o.outputs;
  multiply_in_one_chain(p);
}
RLCORE_INLINE void cuda::run(const op::linear_backward_weight& o) {
  nvidia::arguments::product p{};
  p.c = o.dweight, p.accumulate = o.accumulate;
  p.a = o.dy, p.a_row = 1, p.a_step = o.outputs;
  p.b = o.x;
  p.rows = o.outputs, p.columns = o.inputs, p.depth = o.rows;
  multiply_in_one_chain(p);
}
RLCORE_INLINE void cuda::run(const op::sum_rows& o) {
  queue_.launch(nvidia::arguments::sum_rows{o.total, o.x, o.rows, o.width}, (o.width + 63) / 64);
}

RLCORE_INLINE void cuda::run(const op::rms_norm_forward& o) {
  queue_.launch(nvidia::arguments::rms_norm_forward{nvidia::norm_of(o.norm), o.y, o.y_row, o.x, o.rstd},
                o.rows * o.norm.groups);
}
RLCORE_INLINE void cuda::run(const op::add_rms_norm_forward& o) {
  queue_.launch(nvidia::arguments::add_rms_norm_forward{nvidia::norm_of(o.norm), o.total, o.a, o.b, o.y, o.rstd},
                o.rows);
}
RLCORE_INLINE void cuda::run(const op::rms_norm_backward& o) {
  queue_.launch(
      nvidia::arguments::rms_norm_backward{nvidia::norm_of(o.norm), o.dx, o.dy, o.dy_row, o.x, o.rstd, o.accumulate},
      o.rows * o.norm.groups);
}
RLCORE_INLINE void cuda::run(const op::rms_norm_backward_weight& o) {
  queue_.launch(nvidia::arguments::rms_norm_backward_weight{nvidia::norm_of(o.norm), o.dweight, o.dy, o.dy_row, o.x,
                                                            o.rstd, o.rows},
                (o.norm.width + 63) / 64);
}
RLCORE_INLINE void cuda::run(const op::rope& o) {
  queue_.launch_elements(
      nvidia::arguments::rope{o.x, o.row, o.heads, o.head_dim, o.positions, o.cosine, o.sine, o.rows, o.inverse},
      o.rows * o.heads * (o.head_dim / 2));
}

RLCORE_INLINE cuda::segments_on_device cuda::segments_of(std::span<const attention_segment> segments,
                                                         std::span<const attention_segment_gradient> gradients,
                                                         std::span<const attention_part> parts) {
  using nvidia::arguments::segment;
  constexpr attention_part all_keys;
  segments_on_device all;
  all.count = static_cast<extent_t>(segments.size());
  if (segments.empty()) return all;
  const auto floats_from = [](const float* first, const float* p) {  // they may lie in different arrays
    return static_cast<extent_t>(reinterpret_cast<std::intptr_t>(p) - reinterpret_cast<std::intptr_t>(first)) /
           static_cast<extent_t>(sizeof(float));
  };
  all.call.keys = segments[0].keys;
  all.call.dkeys = gradients.empty() ? nullptr : gradients[0].keys;
  segments_.resize(segments.size());
  std::memset(static_cast<void*>(segments_.data()), 0, segments.size() * sizeof(segment));  // what lies between, too
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const attention_segment& s = segments[i];
    const attention_part& part = parts.empty() ? all_keys : parts[i];
    const extent_t keys = s.first_position + s.rows;
    all.most_rows = std::max(all.most_rows, s.rows);
    all.last_row = std::max(all.last_row, s.first_row + s.rows);
    all.most_keys = std::max(all.most_keys, std::min(keys, part.end) - part.begin);
    segment& to = segments_[i];
    if (s.pages == nullptr) {
      to.keys = floats_from(segments[0].keys, s.keys);
      to.values = floats_from(segments[0].keys, s.values);
      // a pass forward asks for the same as the pass back where gradients lie as keys do
      to.dkeys = gradients.empty() ? to.keys : floats_from(gradients[0].keys, gradients[i].keys);
      to.dvalues = gradients.empty() ? to.values : floats_from(gradients[0].keys, gradients[i].values);
    }
    to.page_list = s.pages;
    to.key_row = s.key_row, to.first_row = s.first_row, to.rows = s.rows, to.first_position = s.first_position;
    to.begin = part.begin, to.end = std::min<extent_t>(part.end, keys);
    to.resume = part.resume, to.finish = part.finish;
  }
  const std::size_t bytes = segments.size() * sizeof(segment);
  if (segments_.size() != segments_before_.size() ||
      std::memcmp(segments_.data(), segments_before_.data(), bytes) != 0) {
    const bool more = segments_.size() > segments_before_.size();
    segments_before_.clear();  // should the next two lines throw
    if (more) segment_memory_.emplace(queue_, bytes);
    queue_.upload(segment_memory_->as<void>(), segments_.data(), bytes);
    std::swap(segments_, segments_before_);
  }
  all.call.list = segment_memory_->as<segment>();
  return all;
}

RLCORE_INLINE void cuda::run(const op::store_keys_values& o) {
  const segments_on_device segments = segments_of(o.segments, {}, {});
  queue_.launch(
      nvidia::arguments::store_keys_values{nvidia::heads_of(o.shape), segments.call, o.layer, o.keys, o.values, o.row},
      segments.most_rows * o.shape.kv_heads, segments.count);
}
namespace nvidia {

/// Blocks of 64 queries, rows times the heads of a key head.
inline extent_t query_tiles(const attention_shape& s, extent_t rows) {
  return (rows * (s.heads / s.kv_heads) + 63) / 64;
}
/// Whether there are enough rows to share keys in tiles, and heads that fit the kernels.
inline bool attends_in_tiles(const attention_shape& s, extent_t rows) { return rows >= 8 && s.head_dim <= 128; }

}  // namespace nvidia

RLCORE_INLINE void cuda::attend_forward(const op::attention_forward& o, std::span<const attention_part> parts) {
  namespace k = nvidia::arguments;
  const segments_on_device segments = segments_of(o.segments, {}, parts);
  const extent_t rows = segments.most_rows, tiles = nvidia::query_tiles(o.shape, rows);
  const k::attention_forward a{nvidia::heads_of(o.shape), segments.call, o.q, o.q_row, o.out, o.out_row, o.statistics};
  if (!nvidia::attends_in_tiles(o.shape, rows))
    queue_.launch(a, rows * o.shape.heads, segments.count);
  else if (o.shape.head_dim <= 64)
    queue_.launch(k::attention_forward_64{a}, tiles, o.shape.kv_heads, segments.count);
  else
    queue_.launch(k::attention_forward_128{a}, tiles, o.shape.kv_heads, segments.count);
}
RLCORE_INLINE void cuda::attend_backward(const op::attention_backward& o, std::span<const attention_part> parts) {
  namespace k = nvidia::arguments;
  const segments_on_device segments = segments_of(o.segments, o.gradients, parts);
  const scratch means(queue_, static_cast<std::size_t>(segments.last_row * o.shape.heads) * sizeof(float));
  const auto shape = nvidia::heads_of(o.shape);
  const extent_t rows = segments.most_rows, keys = segments.most_keys, heads = o.shape.kv_heads, count = segments.count;
  const extent_t tiles = nvidia::query_tiles(o.shape, rows), key_tiles = (keys + 63) / 64;
  const k::attention_backward_queries to_queries{shape,  segments.call, o.q,          o.q_row, o.out,
                                                 o.dout, o.out_row,     o.statistics, o.dq,    means.as<float>()};
  const k::attention_backward_keys to_keys{shape,  segments.call, o.q,          o.q_row,
                                           o.dout, o.out_row,     o.statistics, means.as<float>()};
  if (!nvidia::attends_in_tiles(o.shape, rows)) {
    queue_.launch(to_queries, rows * o.shape.heads, count);
    queue_.launch(to_keys, keys, heads, count);
  } else if (o.shape.head_dim <= 64) {
    queue_.launch(k::attention_backward_queries_64{to_queries}, tiles, heads, count);
    queue_.launch(k::attention_backward_keys_64{to_keys}, key_tiles, heads, count);
  } else {
    queue_.launch(k::attention_backward_queries_128{to_queries}, tiles, heads, count);
    queue_.launch(k::attention_backward_keys_128{to_keys}, key_tiles, heads, count);
  }
}

RLCORE_INLINE void cuda::run(const op::swiglu_forward& o) {
  queue_.launch_elements(nvidia::arguments::swiglu_forward{o.y, o.gate_up, o.rows, o.width}, o.rows * o.width);
}
RLCORE_INLINE void cuda::run(const op::swiglu_backward& o) {
  queue_.launch_elements(nvidia::arguments::swiglu_backward{o.dgate_up, o.dy, o.gate_up, o.rows, o.width},
                         o.rows * o.width);
}
RLCORE_INLINE void cuda::run(const op::gelu_forward& o) {
  queue_.launch_elements(nvidia::arguments::gelu_forward{o.y, o.x, o.n}, o.n);
}
RLCORE_INLINE void cuda::run(const op::gelu_backward& o) {
  queue_.launch_elements(nvidia::arguments::gelu_backward{o.dx, o.dy, o.x, o.n}, o.n);
}

RLCORE_INLINE void cuda::run(const op::gather_rows& o) {
  queue_.launch_elements(nvidia::arguments::gather_rows{o.y, o.x, o.ids, o.count, o.width}, o.count * o.width);
}
RLCORE_INLINE void cuda::run(const op::gather_packed_rows& o) {
  queue_.launch_elements(
      nvidia::arguments::gather_packed_rows{o.y, o.packed, static_cast<int>(o.format), o.ids, o.count, o.inputs},
      o.count * o.inputs);
}
RLCORE_INLINE void cuda::run(const op::scatter_add_rows& o) {
  queue_.launch(nvidia::arguments::scatter_add_rows{o.y, o.x, o.ids.data, o.count, o.width}, (o.width + 63) / 64);
}
RLCORE_INLINE void cuda::run(const op::copy_rows& o) {
  queue_.launch_elements(nvidia::arguments::copy_rows{o.y, o.y_row, o.ids.data, o.x, o.x_row, o.count, o.width},
                         o.ids.data != nullptr ? o.width : o.count * o.width);
}
RLCORE_INLINE void cuda::run(const op::scale_rows& o) {
  queue_.launch_elements(nvidia::arguments::scale_rows{o.y, o.x, o.factor, o.rows, o.width}, o.rows * o.width);
}
RLCORE_INLINE void cuda::run(const op::dot_rows& o) {
  queue_.launch(nvidia::arguments::dot_rows{o.y, o.a, o.b, o.width}, o.rows);
}
RLCORE_INLINE void cuda::run(const op::add& o) {
  queue_.launch_elements(nvidia::arguments::add{o.y, o.a, o.b, o.n}, o.n);
}
RLCORE_INLINE void cuda::run(const op::scale& o) {
  queue_.launch_elements(nvidia::arguments::scale{o.y, o.factor, o.n}, o.n);
}
RLCORE_INLINE void cuda::run(const op::fill& o) {
  queue_.launch_elements(nvidia::arguments::fill{o.y, o.value, o.n}, o.n);
}

namespace nvidia {
static_assert(sizeof(arguments::log_prob_state) == sizeof(log_prob_state));
/// States as kernels know them.
inline arguments::log_prob_state* states_of(const log_prob_state* states) {
  return reinterpret_cast<arguments::log_prob_state*>(const_cast<log_prob_state*>(states));
}
}  // namespace nvidia

RLCORE_INLINE void cuda::run(const op::log_prob_forward& o) {
  queue_.launch(nvidia::arguments::log_prob_forward{o.logits, o.vocabulary, o.targets, o.temperature, o.logp, o.entropy,
                                                    o.statistics},
                o.rows);
}
RLCORE_INLINE void cuda::run(const op::log_prob_accumulate& o) {
  queue_.launch(nvidia::arguments::log_prob_accumulate{nvidia::states_of(o.states), o.logits, o.width, o.first,
                                                       o.targets, o.temperature},
                o.rows);
}
RLCORE_INLINE void cuda::run(const op::log_prob_finish& o) {
  queue_.launch(nvidia::arguments::log_prob_finish{nvidia::states_of(o.states), o.rows, o.temperature, o.logp,
                                                   o.entropy, o.statistics},
                (o.rows + 63) / 64);
}
RLCORE_INLINE void cuda::run(const op::log_prob_merge& o) {
  queue_.launch(nvidia::arguments::log_prob_merge{nvidia::states_of(o.a), nvidia::states_of(o.b), o.rows},
                (o.rows + 63) / 64);
}
RLCORE_INLINE void cuda::run(const op::log_prob_backward& o) {
  queue_.launch(nvidia::arguments::log_prob_backward{o.logits, o.width, o.first, o.targets, o.temperature, o.dlogp,
                                                     o.dentropy, o.entropy, o.statistics},
                o.rows * ((o.width + 1023) / 1024));
}

RLCORE_INLINE void cuda::run(const op::sample& o) {
  const sampling_arguments& s = o.settings;
  const bool greedy = s.temperature == 0;
  const auto rows = static_cast<std::size_t>(o.rows), logits = rows * static_cast<std::size_t>(o.vocabulary);
  if (!greedy && ((s.top_k > 0 && s.top_k < o.vocabulary) || s.top_p < 1 || s.min_p > 0)) {
    std::vector<float> on_host(logits);
    std::vector<double> uniform(rows);
    std::vector<std::int32_t> tokens(rows);
    queue_.download(on_host.data(), o.logits, logits * sizeof(float));
    queue_.download(uniform.data(), o.uniform, rows * sizeof(double));
    cpu host(1);
    host.run(op::sample{s, on_host.data(), o.rows, o.vocabulary, uniform.data(), tokens.data()});
    return queue_.upload(o.tokens, tokens.data(), rows * sizeof(std::int32_t));
  }
  const extent_t blocks = (o.vocabulary + cpu_kernels::log_prob_block - 1) / cpu_kernels::log_prob_block;
  const scratch sums(queue_, 2 * rows * static_cast<std::size_t>(blocks) * sizeof(float));
  float* const top = sums.as<float>();
  float* const mass = greedy ? nullptr : top + o.rows * blocks;
  const auto factor = static_cast<float>(greedy ? 1 : 1.4426950408889634 / static_cast<double>(s.temperature));
  queue_.launch(nvidia::arguments::sample_blocks{o.logits, o.vocabulary, blocks, factor, top, mass}, o.rows * blocks);
  queue_.launch(
      nvidia::arguments::sample_draw{o.logits, o.rows, o.vocabulary, blocks, factor, top, mass, o.uniform, o.tokens},
      (o.rows + 63) / 64);
}

RLCORE_INLINE double cuda::run(const op::sum_of_squares& o) {
  constexpr extent_t chunk = 16384;
  std::vector<double> sums(static_cast<std::size_t>((o.n + chunk - 1) / chunk));
  run(op::block_sums_of_squares{o.x, o.n, chunk, sums.data()});
  double total = 0;
  for (const double s : sums) total += s;
  return total;
}
RLCORE_INLINE void cuda::run(const op::block_sums_of_squares& o) {
  if (o.n <= 0) return;
  const extent_t blocks = (o.n + o.block - 1) / o.block;
  const scratch sums(queue_, static_cast<std::size_t>(blocks) * sizeof(double));
  queue_.launch(nvidia::arguments::sums_of_squares{o.x, o.n, o.block, sums.as<double>()}, blocks);
  queue_.download(o.sums, sums.as<double>(), static_cast<std::size_t>(blocks) * sizeof(double));
}
RLCORE_INLINE void cuda::run(const op::adamw& o) {
  const cpu_kernels::adamw_arguments a = cpu_kernels::arguments_of(o.step);
  queue_.launch_elements(
      nvidia::arguments::adamw{o.weights, o.m, o.v, o.gradient, o.n, a.decay, a.one_minus_beta1, a.beta2,
                               a.one_minus_beta2, a.root_correction2, a.eps, a.step_size, a.gradient_scale},
      o.n);
}

RLCORE_END
#endif
