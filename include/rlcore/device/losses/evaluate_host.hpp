// Losses on a device whose memory the host reads: the pack loop, called as on any other device.
#pragma once

#include <type_traits>

#include "rlcore/device/device.hpp"
#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/algorithm/algorithm.hpp"
#include "rlcore/objective/loop/batch.hpp"
#include "rlcore/objective/loop/evaluate_sequences.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// A device with kernels whose memory the host reads, such as cpu.
template <class D>
concept host_device = device<D> && D::host_readable;

namespace device_losses {

/// The same views, for the pack loop.
template <class T, class Device>
token_batch<T> on_host(const token_batch<T, Device>& b) {
  return {b.logp,  b.old_logp,  b.ref_logp, b.rollout_logp, b.advantage, b.weight,  b.entropy,
          b.value, b.old_value, b.target,   b.selected,     b.mask,      b.lengths, b.offsets};
}
/// The same of gradients.
template <class T, class Device>
token_gradients<T> on_host(const token_gradients<T, Device>& g) {
  return {g.logp, g.entropy, g.value, g.add};
}

}  // namespace device_losses

/// evaluate(serial{}, objective, aggregation, batch, step, gradients), so that a program is the same for cpu and npu.
template <host_device Device, class Objective, class Aggregation, class T, class Counts>
auto evaluate(Device&, const Objective& objective, const Aggregation& aggregation, const token_batch<T, Device>& batch,
              const Counts& step, const std::type_identity_t<token_gradients<T, Device>>& gradients = {}) {
  return evaluate(serial{}, objective, aggregation, device_losses::on_host(batch), step,
                  device_losses::on_host(gradients));
}
/// The same of a named algorithm.
template <host_device Device, class Algorithm, class T, class Counts>
auto evaluate(Device&, const Algorithm& named, const token_batch<T, Device>& batch, const Counts& step,
              const std::type_identity_t<token_gradients<T, Device>>& gradients = {}) {
  return evaluate(serial{}, named, device_losses::on_host(batch), step, device_losses::on_host(gradients));
}
/// The same of a preference loss that also keeps the chosen answers likely.
template <host_device Device, class Pair, class Chosen, class T, class Counts>
auto evaluate(Device&, const likelihood_regularised<Pair, Chosen>& named, const token_batch<T, Device>& batch,
              const Counts& step, const global_counts& chosen,
              const std::type_identity_t<token_gradients<T, Device>>& gradients = {}) {
  return evaluate(serial{}, named, device_losses::on_host(batch), step, chosen, device_losses::on_host(gradients));
}

RLCORE_ALGORITHM_END
RLCORE_END
