// LM head and score head: final norm and projection, for selected rows only; log-probs of given logits.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/nn/layer/linear.hpp"
#include "rlcore/nn/layer/norm.hpp"
#include "rlcore/nn/model/pass.hpp"
#include "rlcore/nn/parallel/partition.hpp"
#include "rlcore/tensor/buffer.hpp"

RLCORE_BEGIN
namespace nn {

/// Splits the vocabulary into `total` chunks; `count` chunks from `first` belong to this rank:
/// config::tp_reduce_chunks, or one per rank.
struct vocabulary_chunks {
  std::int64_t vocabulary = 0, total = 1, first = 0, count = 1;

  /// tp_reduce_chunks chunks, or one per tensor parallel rank, assigned to the ranks in equal consecutive runs.
  static vocabulary_chunks of(const config& c, const partition& p) {
    const std::int64_t ranks = p.tensor_size, total = c.tp_reduce_chunks > 0 ? c.tp_reduce_chunks : ranks;
    return {c.vocab_size, total, p.tensor_rank * (total / ranks), total / ranks};
  }
  /// Is there more than one chunk to add?
  bool apart() const noexcept { return total > 1; }
  /// The tokens of chunk n.
  slice part(std::int64_t n) const { return vocabulary_part(vocabulary, n, total); }
  /// Columns of this rank's local chunk c.
  slice columns(std::int64_t c) const {
    const std::int64_t begin = part(first).begin;
    const slice chunk = part(first + c);
    return {chunk.begin - begin, chunk.end - begin};
  }
  /// out [n, tokens]: token indices relative to the begin of each of the `n` chunks from chunk `from`.
  void count_from(std::span<const std::int32_t> tokens, std::int64_t from, std::int64_t n,
                  std::vector<std::int32_t>& out) const {
    out.clear();
    for (std::int64_t c = 0; c < n; ++c)
      for (const std::int32_t token : tokens) out.push_back(token - static_cast<std::int32_t>(part(from + c).begin));
  }
};

/// states [t] = the pairwise sum of the states [chunks, t], in the order of parallel::tree.
template <class Device>
void merge_log_probs(Device& device, log_prob_state* states, extent_t t, extent_t chunks) {
  for (extent_t step = 1; step < chunks; step *= 2)
    for (extent_t c = 0; c + step < chunks; c += 2 * step)
      device.run(op::log_prob_merge{.a = states + c * t, .b = states + (c + step) * t, .rows = t});
}

/// Final norm and projection to the vocabulary or to one score; `output.weight` is the embedding's if tied. The
/// projection to the vocabulary has no bias.
struct head {
  norm final_norm;
  linear output;
  vocabulary_chunks chunks;        ///< of the outputs; unused for scores
  std::vector<extent_t> excluded;  ///< local outputs of tokens that are never sampled (config::never_sampled)

  /// Columns of local chunk c.
  slice columns(extent_t c) const {
    return chunks.apart() ? chunks.columns(c) : slice{0, static_cast<std::int64_t>(output.outputs)};
  }

  /// Normalises the n rows `index` (device memory) of x.
  template <class Device>
  head_activations gather(const pass<Device>& p, const float* x, const std::int32_t* index, extent_t n) const {
    float* rows = p.space.template take<float>(n * final_norm.width);
    p.device.run(
        op::gather_rows{.y = rows, .x = x, .x_rows = p.tokens, .ids = index, .count = n, .width = final_norm.width});
    return normed(p, rows, n);
  }
  /// rows [n, hidden], normed.
  template <class Device>
  head_activations normed(const pass<Device>& p, float* rows, extent_t n) const {
    const extent_t h = final_norm.width;
    head_activations a{rows, p.space.template take<float>(n), p.space.template take<float>(n * h)};
    final_norm.forward(p.device, p.weights, a.normed, h, a.rows, h, a.rstd, n);
    return a;
  }
  /// out [n, vocabulary] or scores [n] for normed rows.
  template <class Device>
  void forward(const pass<Device>& p, float* out, const float* normed, extent_t n) const {
    output.forward(p, out, normed, n);
    exclude(p, out, n, 0, output.outputs, excluded_logit);
  }

  /// Only columns [first, first + count), out [n, count]; first is a multiple of 32. Same bits as forward().
  template <class Device>
  void forward_columns(const pass<Device>& p, float* out, const float* normed, extent_t n, extent_t first,
                       extent_t count) const {
    p.device.run(op::linear_forward{.y = out,
                                    .x = normed,
                                    .packed = packed_from(p, first),
                                    .format = p.packed.format,
                                    .rows = n,
                                    .outputs = count,
                                    .inputs = output.inputs});
    exclude(p, out, n, first, count, excluded_logit);
  }
  /// Columns [first, first + count) of the logits gradient: zeroes the entries that do not depend on weights.
  template <class Device>
  void exclude_slopes(const pass<Device>& p, float* dlogits, extent_t n, extent_t first, extent_t count) const {
    exclude(p, dlogits, n, first, count, 0.0f);
  }
  /// Backward of forward_columns from dout: adds to (with p.first: writes) the weight's gradient; writes dnormed [n,
  /// hidden] or adds to it.
  template <class Device>
  void backward_columns(const pass<Device>& p, float* dnormed, const float* dout, const float* normed, extent_t n,
                        extent_t first, extent_t count, bool accumulate) const {
    const std::size_t at = output.weight + static_cast<std::size_t>(first * output.inputs);
    if (p.gradients)
      p.device.run(op::linear_backward_weight{.dweight = p.gradients + at,
                                              .dy = dout,
                                              .x = normed,
                                              .rows = n,
                                              .outputs = count,
                                              .inputs = output.inputs,
                                              .accumulate = !p.first});
    p.device.run(op::linear_backward_input{.dx = dnormed,
                                           .dy = dout,
                                           .weight = p.weights + at,
                                           .packed = packed_from(p, first),
                                           .format = p.packed.format,
                                           .rows = n,
                                           .outputs = count,
                                           .inputs = output.inputs,
                                           .accumulate = accumulate});
  }

 private:
  /// The packed weight of the columns from `first` on.
  template <class Device>
  const std::byte* packed_from(const pass<Device>& p, extent_t first) const {
    return p.packed.at(output.number) + p.device.packed_bytes(p.packed.format, first, output.inputs);
  }
  static constexpr float excluded_logit = -std::numeric_limits<float>::infinity();

  /// Sets excluded columns of x [n, count], which are the columns [first, first + count).
  template <class Device>
  void exclude(const pass<Device>& p, float* x, extent_t n, extent_t first, extent_t count, float value) const {
    for (const extent_t column : excluded) {
      if (column < first || column >= first + count || n == 0) continue;
      const typename workspace<Device>::scope scope(p.space);
      float* const values = p.space.template take<float>(n);
      p.device.run(op::fill{.y = values, .value = value, .n = n});
      p.device.run(
          op::copy_rows{.y = x + (column - first), .y_row = count, .x = values, .x_row = 1, .count = n, .width = 1});
    }
  }
};

/// `weight` [hidden] and, unless null, `bias` [1]; without `add`, overwrites weight.
struct score_gradient {
  float *weight = nullptr, *bias = nullptr;
  bool add = true;
};

/// logits [n, V] of the host (row-major, V = logits.size() / n), one token per row; see op::log_prob_forward.
template <rlcore::device Device>
void log_prob_of(Device& device, std::span<const float> logits, std::span<const std::int32_t> tokens, float temperature,
                 std::span<float> logp, std::span<float> entropy) {
  const std::size_t n = tokens.size();
  if (n == 0) return;
  if (logits.size() % n != 0 || logp.size() != n || (entropy.size() != n && !entropy.empty()))
    throw std::invalid_argument("rlcore: log_prob_of: " + std::to_string(logits.size()) + " logits, " +
                                std::to_string(n) + " tokens, " + std::to_string(logp.size()) + " log-probs, " +
                                std::to_string(entropy.size()) + " entropies do not fit together");
  if (!(temperature > 0))
    throw std::invalid_argument("rlcore: temperature must be positive, got " + std::to_string(temperature));
  const auto rows = static_cast<extent_t>(n), vocabulary = static_cast<extent_t>(logits.size() / n);
  if constexpr (Device::host_readable) {
    device.run(op::log_prob_forward{.logits = logits.data(),
                                    .rows = rows,
                                    .vocabulary = vocabulary,
                                    .targets = tokens.data(),
                                    .temperature = temperature,
                                    .logp = logp.data(),
                                    .entropy = entropy.empty() ? nullptr : entropy.data()});
    device.wait();
  } else {
    buffer<float, Device> values(device, logits.size()), results(device, 2 * n);
    buffer<std::int32_t, Device> ids(device, n);
    device.upload(values.data(), logits.data(), logits.size_bytes());
    device.upload(ids.data(), tokens.data(), tokens.size_bytes());
    device.run(op::log_prob_forward{.logits = values.data(),
                                    .rows = rows,
                                    .vocabulary = vocabulary,
                                    .targets = ids.data(),
                                    .temperature = temperature,
                                    .logp = results.data(),
                                    .entropy = results.data() + n});
    device.download(logp.data(), results.data(), n * sizeof(float));
    if (!entropy.empty()) device.download(entropy.data(), results.data() + n, n * sizeof(float));
  }
}

}  // namespace nn
RLCORE_END
