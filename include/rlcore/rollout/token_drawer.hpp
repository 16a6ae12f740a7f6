// Tokens drawn from logits, with the log-prob and entropy that training computes for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "rlcore/device/device.hpp"
#include "rlcore/rollout/sampling.hpp"
#include "rlcore/tensor/buffer.hpp"

RLCORE_BEGIN
namespace rollout {

/// Draws on the device: logits never leave it. Keeps its memory between calls.
template <rlcore::device Device>
class token_drawer {
 public:
  /// One token per row of logits [rows, vocabulary] (device memory) at uniform[row]; log-prob and entropy are those of
  /// softmax(logits / temperature), of temperature 1 if the sampling is greedy. All spans have `rows` elements.
  void operator()(Device& device, const sampling& how, const float* logits, extent_t vocabulary,
                  std::span<const double> uniform, std::span<std::int32_t> tokens, std::span<float> logp,
                  std::span<float> entropy) {
    const auto rows = static_cast<extent_t>(tokens.size());
    const float temperature = how.greedy() ? 1.0f : how.temperature;
    if constexpr (Device::host_readable) {
      device.sample(how.arguments(), logits, rows, vocabulary, uniform.data(), tokens.data());
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
      device.sample(how.arguments(), logits, rows, vocabulary, uniform_.data(), tokens_.data());
      device.log_prob_forward(logits, rows, vocabulary, tokens_.data(), temperature, results_.data(),
                              results_.data() + n, nullptr);
      device.download(tokens.data(), tokens_.data(), tokens.size_bytes());
      device.download(logp.data(), results_.data(), logp.size_bytes());
      device.download(entropy.data(), results_.data() + n, entropy.size_bytes());
    }
  }

 private:
  buffer<double, Device> uniform_;
  buffer<std::int32_t, Device> tokens_;
  buffer<float, Device> results_;
};

}  // namespace rollout
RLCORE_END
