// Draws tokens from logits, with the log-prob and entropy that training computes for them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rlcore/device/device.hpp"
#include "rlcore/nn/head/vocabulary_chunks.hpp"
#include "rlcore/rollout/ruled_logits.hpp"
#include "rlcore/rollout/sampling.hpp"
#include "rlcore/tensor/buffer.hpp"

RLCORE_BEGIN
namespace rollout {

/// Draws on the device: logits never leave it, except for rows under rules on a device whose memory the host cannot
/// read. Keeps its memory between calls.
template <rlcore::device Device>
class sampler {
 public:
  /// Draws one token per row of logits [rows, vocabulary] (device memory) at uniform[row]. Log-prob and entropy are
  /// those of softmax(logits / temperature), with temperature 1 for greedy sampling, computed from `chunks` as in
  /// training: rules change what is drawn, and not what is recorded. All spans have `rows` elements; `rules` may be
  /// empty instead.
  void operator()(Device& device, const sampling& settings, const nn::vocabulary_chunks& chunks, const float* logits,
                  extent_t vocabulary, std::span<const double> uniform, std::span<std::int32_t> tokens,
                  std::span<float> logp, std::span<float> entropy, std::span<const ruled_row> rules = {}) {
    drawn_from_ = ruled_(device, logits, vocabulary, rules);
    if (chunks.apart()) return draw_in_chunks(device, settings, chunks, logits, uniform, tokens, logp, entropy);
    const auto rows = static_cast<extent_t>(tokens.size());
    const float temperature = settings.greedy() ? 1.0f : settings.temperature;
    if constexpr (Device::host_readable) {
      device.sample(settings.arguments(), drawn_from_, rows, vocabulary, uniform.data(), tokens.data());
      device.log_prob_forward(logits, rows, vocabulary, tokens.data(), temperature, logp.data(), entropy.data(),
                              nullptr);
      device.wait();
    } else {
      const std::size_t n = tokens.size();
      if (uniform_.size() < n) {
        uniform_ = {device, n};
        tokens_ = {device, n};
        results_ = {device, 2 * n};
      }
      device.upload(uniform_.data(), uniform.data(), uniform.size_bytes());
      device.sample(settings.arguments(), drawn_from_, rows, vocabulary, uniform_.data(), tokens_.data());
      device.log_prob_forward(logits, rows, vocabulary, tokens_.data(), temperature, results_.data(),
                              results_.data() + n, nullptr);
      device.download(tokens.data(), tokens_.data(), tokens.size_bytes());
      device.download(logp.data(), results_.data(), logp.size_bytes());
      device.download(entropy.data(), results_.data() + n, entropy.size_bytes());
    }
  }

  /// The logits that the last call drew from, [rows, vocabulary] in device memory: those it was given, or a copy of
  /// them under the rules. Good until the next call.
  const float* drawn_from() const noexcept { return drawn_from_; }

 private:
  void draw_in_chunks(Device& device, const sampling& settings, const nn::vocabulary_chunks& chunks,
                      const float* logits, std::span<const double> uniform, std::span<std::int32_t> tokens,
                      std::span<float> logp, std::span<float> entropy) {
    const std::size_t n = tokens.size(), total = static_cast<std::size_t>(chunks.total);
    const auto rows = static_cast<extent_t>(n), vocabulary = static_cast<extent_t>(chunks.vocabulary);
    const float temperature = settings.greedy() ? 1.0f : settings.temperature;
    if (states_.size() < n * total) {
      uniform_ = {device, n};
      tokens_ = {device, n * total};
      results_ = {device, 2 * n};
      states_ = {device, n * total};
      std::int64_t widest = 0;
      for (std::int64_t c = 0; c < chunks.total; ++c) widest = std::max(widest, chunks.part(c).size());
      part_ = {device, n * static_cast<std::size_t>(widest)};
    }
    device.upload(uniform_.data(), uniform.data(), uniform.size_bytes());
    device.sample(settings.arguments(), drawn_from_, rows, vocabulary, uniform_.data(), tokens_.data());
    device.download(tokens.data(), tokens_.data(), tokens.size_bytes());
    chunks.count_from(tokens, 0, chunks.total, counted_);
    device.upload(tokens_.data(), counted_.data(), counted_.size() * sizeof(std::int32_t));
    for (std::int64_t c = 0; c < chunks.total; ++c) {
      const nn::slice part = chunks.part(c);
      const auto width = static_cast<extent_t>(part.size()), at = static_cast<extent_t>(c) * rows;
      device.copy_rows(part_.data(), width, nullptr, logits + part.begin, vocabulary, rows, width);
      device.log_prob_accumulate(states_.data() + at, part_.data(), rows, width, 0, tokens_.data() + at, temperature);
    }
    nn::merge_log_probs(device, states_.data(), rows, static_cast<extent_t>(chunks.total));
    device.log_prob_finish(states_.data(), rows, temperature, results_.data(), results_.data() + n, nullptr);
    device.download(logp.data(), results_.data(), logp.size_bytes());
    device.download(entropy.data(), results_.data() + n, entropy.size_bytes());
  }

  ruled_logits<Device> ruled_;
  const float* drawn_from_ = nullptr;
  buffer<double, Device> uniform_;
  buffer<std::int32_t, Device> tokens_;
  buffer<float, Device> results_;
  buffer<float, Device> part_;  // with the next two: for chunks
  buffer<log_prob_state, Device> states_;
  std::vector<std::int32_t> counted_;
};

}  // namespace rollout
RLCORE_END
