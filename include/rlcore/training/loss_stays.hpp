// Selects where losses are computed: on the device or on the host.
#pragma once

#include "rlcore/device/device.hpp"
#include "rlcore/training/trainable_model.hpp"

RLCORE_BEGIN
namespace trainer {

/// Whether losses of `m` can be computed in device memory, without copying log-probs or slopes to the host: the device
/// can run losses, its memory is not host memory, and this rank holds all log-probs of its rows (not the case under
/// context parallelism).
template <class Device>
bool loss_stays_on_device(const trainable_model<Device>& m) {
  if constexpr (loss_device<Device> && !Device::host_readable) {
    if constexpr (requires { m.model.device().runs_losses(); })
      if (!m.model.device().runs_losses()) return false;
    return m.world() == nullptr || m.world()->context().size() == 1;
  } else {
    return false;
  }
}

}  // namespace trainer
RLCORE_END
