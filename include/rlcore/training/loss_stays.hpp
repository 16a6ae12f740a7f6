// Where the losses of a model in training are computed.
#pragma once

#include "rlcore/device/losses/loss_device.hpp"
#include "rlcore/training/trainable_model.hpp"

RLCORE_BEGIN
namespace trainer {

/// Whether losses of `m` may be computed in the memory of its device, so that neither log-probs nor slopes cross to the
/// host: the device runs losses, the host does not read its memory anyway, and this rank has the log-probs of its rows,
/// which under context parallelism lie on several.
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
