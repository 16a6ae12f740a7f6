// Token sampler; its log-probs and entropies are bit-identical to those of training.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "rlcore/device/device.hpp"
#include "rlcore/nn/head/head.hpp"
#include "rlcore/rollout/ruled_logits.hpp"
#include "rlcore/rollout/sampling.hpp"
#include "rlcore/tensor/buffer.hpp"

RLCORE_BEGIN
namespace rollout {

/// Samples on the device: logits stay there, except for rows with rules if the host cannot read device memory. Keeps
/// its memory between calls.
template <rlcore::device Device>
class sampler {
 public:
  /// Draws one token per row of logits [rows, vocabulary] (device memory) at uniform[row] and scores it. Rules affect
  /// the draw, not the recorded values. All spans have `rows` elements; `rules` may be empty instead. Log-probs and
  /// entropies use `logprob_temperature`; unset: the sampling temperature, 1 for greedy sampling. Throws undrawable_row
  /// before drawing anything.
  void operator()(Device& device, const sampling& settings, const nn::vocabulary_chunks& chunks, const float* logits,
                  extent_t vocabulary, std::span<const double> uniform, std::span<std::int32_t> tokens,
                  std::span<float> logp, std::span<float> entropy, std::span<const ruled_row> rules = {},
                  std::optional<float> logprob_temperature = {}) {
    const auto rows = static_cast<extent_t>(tokens.size());
    drawn_from_ = ruled_(device, logits, vocabulary, rules);
    if constexpr (Device::host_readable) {
      device.run(op::sample{.settings = settings.arguments(),
                            .logits = drawn_from_,
                            .rows = rows,
                            .vocabulary = vocabulary,
                            .uniform = uniform.data(),
                            .tokens = tokens.data()});
    } else {
      reserve(device, tokens.size());
      device.upload(uniform_.data(), uniform.data(), uniform.size_bytes());
      device.run(op::sample{.settings = settings.arguments(),
                            .logits = drawn_from_,
                            .rows = rows,
                            .vocabulary = vocabulary,
                            .uniform = uniform_.data(),
                            .tokens = tokens_.data()});
      device.download(tokens.data(), tokens_.data(), tokens.size_bytes());
    }
    score(device, chunks, logits, vocabulary,
          logprob_temperature.value_or(settings.greedy() ? 1 : settings.temperature), tokens, logp, entropy);
  }
  /// The log-prob of tokens[row] under softmax(logits / temperature) and the entropy of this distribution, computed
  /// from `chunks` as in training.
  void score(Device& device, const nn::vocabulary_chunks& chunks, const float* logits, extent_t vocabulary,
             float temperature, std::span<const std::int32_t> tokens, std::span<float> logp, std::span<float> entropy) {
    if (chunks.apart()) return score_in_chunks(device, chunks, logits, temperature, tokens, logp, entropy);
    const auto rows = static_cast<extent_t>(tokens.size());
    if constexpr (Device::host_readable) {
      device.run(op::log_prob_forward{.logits = logits,
                                      .rows = rows,
                                      .vocabulary = vocabulary,
                                      .targets = tokens.data(),
                                      .temperature = temperature,
                                      .logp = logp.data(),
                                      .entropy = entropy.data()});
      device.wait();
    } else {
      reserve(device, tokens.size());
      device.upload(tokens_.data(), tokens.data(), tokens.size_bytes());
      device.run(op::log_prob_forward{.logits = logits,
                                      .rows = rows,
                                      .vocabulary = vocabulary,
                                      .targets = tokens_.data(),
                                      .temperature = temperature,
                                      .logp = results_.data(),
                                      .entropy = results_.data() + tokens.size()});
      device.download(logp.data(), results_.data(), logp.size_bytes());
      device.download(entropy.data(), results_.data() + tokens.size(), entropy.size_bytes());
    }
  }

  /// The logits of the last draw, [rows, vocabulary] in device memory: the input, or a copy with the rules applied.
  /// Valid until the next call.
  const float* drawn_from() const noexcept { return drawn_from_; }

 private:
  void reserve(Device& device, std::size_t rows) {
    if (uniform_.size() >= rows) return;
    uniform_ = {device, rows};
    tokens_ = {device, rows};
    results_ = {device, 2 * rows};
  }
  void score_in_chunks(Device& device, const nn::vocabulary_chunks& chunks, const float* logits, float temperature,
                       std::span<const std::int32_t> tokens, std::span<float> logp, std::span<float> entropy) {
    if constexpr (Device::host_readable) device.wait();  // for the tokens
    const std::size_t n = tokens.size(), total = static_cast<std::size_t>(chunks.total);
    const auto rows = static_cast<extent_t>(n), vocabulary = static_cast<extent_t>(chunks.vocabulary);
    if (states_.size() < n * total) {
      chunk_tokens_ = {device, n * total};
      chunk_results_ = {device, 2 * n};
      states_ = {device, n * total};
      std::int64_t widest = 0;
      for (std::int64_t c = 0; c < chunks.total; ++c) widest = std::max(widest, chunks.part(c).size());
      part_ = {device, n * static_cast<std::size_t>(widest)};
    }
    chunks.count_from(tokens, 0, chunks.total, counted_);
    device.upload(chunk_tokens_.data(), counted_.data(), counted_.size() * sizeof(std::int32_t));
    for (std::int64_t c = 0; c < chunks.total; ++c) {
      const nn::slice part = chunks.part(c);
      const auto width = static_cast<extent_t>(part.size()), at = static_cast<extent_t>(c) * rows;
      device.run(op::copy_rows{.y = part_.data(),
                               .y_row = width,
                               .x = logits + part.begin,
                               .x_row = vocabulary,
                               .count = rows,
                               .width = width});
      device.run(op::log_prob_accumulate{.states = states_.data() + at,
                                         .logits = part_.data(),
                                         .rows = rows,
                                         .width = width,
                                         .first = 0,
                                         .targets = chunk_tokens_.data() + at,
                                         .temperature = temperature});
    }
    nn::merge_log_probs(device, states_.data(), rows, static_cast<extent_t>(chunks.total));
    device.run(op::log_prob_finish{.states = states_.data(),
                                   .rows = rows,
                                   .temperature = temperature,
                                   .logp = chunk_results_.data(),
                                   .entropy = chunk_results_.data() + n});
    device.download(logp.data(), chunk_results_.data(), logp.size_bytes());
    device.download(entropy.data(), chunk_results_.data() + n, entropy.size_bytes());
  }

  ruled_logits<Device> ruled_;
  const float* drawn_from_ = nullptr;
  buffer<double, Device> uniform_;
  buffer<std::int32_t, Device> tokens_;
  buffer<float, Device> results_;
  buffer<std::int32_t, Device> chunk_tokens_;  // this and the next three: for chunks
  buffer<float, Device> chunk_results_, part_;
  buffer<log_prob_state, Device> states_;
  std::vector<std::int32_t> counted_;
};

}  // namespace rollout
RLCORE_END

#if defined(RLCORE_MODELS)
#include "rlcore/device/any_device.hpp"
#include "rlcore/device/cpu.hpp"

RLCORE_BEGIN
namespace rollout {
extern template class sampler<cpu>;
extern template class sampler<any_device>;
}  // namespace rollout
RLCORE_END
#endif
