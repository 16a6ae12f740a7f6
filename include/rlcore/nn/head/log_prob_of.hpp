// Log-prob and entropy of given logits, with the training kernel.
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

#include "rlcore/core/abi.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/tensor/buffer.hpp"

RLCORE_BEGIN
namespace nn {

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
