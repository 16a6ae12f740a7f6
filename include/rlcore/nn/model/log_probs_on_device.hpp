// Inference with log-probs in device memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "rlcore/nn/model/log_probs.hpp"
#include "rlcore/objective/loop/device_batch.hpp"

RLCORE_BEGIN
namespace nn {

/// log_probs() into a vector of the model's device, such as a tensor<float, 1, Device>, for losses on the device.
/// Throws what log_probs() throws, and std::invalid_argument under context parallelism if the host cannot read device
/// memory, since each rank then has only the log-probs of its own targets.
template <class Device>
void log_probs(const causal_lm<Device>& model, workspace<Device>& space, const input& sequences, const targets& wanted,
               float temperature, std::type_identity_t<device_view<float, 1, Device>> logp) {
  const std::size_t room = static_cast<std::size_t>(logp.shape[0]);
  if constexpr (Device::host_readable) {
    log_probs(model, space, sequences, wanted, temperature, std::span<float>(logp.data, room), std::span<float>());
  } else {
    check_temperature(temperature);
    if (room != wanted.row.size())
      throw std::invalid_argument("rlcore: log_probs: " + std::to_string(wanted.row.size()) + " targets, room for " +
                                  std::to_string(room) + " log-probs");
    check_output(model, model_output::logits, "log_probs");
    check_targets(wanted, model.settings());
    normed_rows<Device> body(model, space, sequences, wanted.row);
    if (static_cast<std::size_t>(body.count) != room)
      throw std::invalid_argument(
          "rlcore: log_probs on a device under context parallelism: each rank has the log-probs of its own targets; "
          "pass spans of the host, which get those of all targets");
    if (room == 0) return;
    const head_rows<Device> scores(body.pass, model.head(), temperature, body.count, space.logits_bytes(), false);
    const std::int32_t* tokens = scores.take_tokens(space, body.local(wanted.token));
    scores.forward(body.pass, body.normed, tokens, body.count, logp.data, nullptr, nullptr);
  }
}

}  // namespace nn
RLCORE_END
