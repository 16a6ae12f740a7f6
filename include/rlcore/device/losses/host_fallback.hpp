// Host fallback for losses: fields are downloaded once, the host computes, slopes are uploaded.
#pragma once

#include <array>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

#include "rlcore/device/device.hpp"
#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/loop/device_batch.hpp"
#include "rlcore/objective/loop/evaluate.hpp"
#include "rlcore/tensor/span.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// The fields and the mask of a batch, downloaded from a device: for selections, off-policy corrections and other
/// computations over a whole batch on the host.
template <class T>
class fetched_batch {
 public:
  /// One transfer for every field that is present and in `reads`, and one for the mask. Waits for them.
  template <class Device>
  fetched_batch(Device& device, const token_batch<T, Device>& on_device,
                field reads = static_cast<field>((1u << field_count) - 1))
      : batch_(addresses_of(on_device)) {
    token_field<const T>* const fields[] = {&batch_.logp,      &batch_.old_logp, &batch_.ref_logp, &batch_.rollout_logp,
                                            &batch_.advantage, &batch_.weight,   &batch_.entropy,  &batch_.value,
                                            &batch_.old_value, &batch_.target,   &batch_.selected};
    for (std::size_t f = 0; f < std::size(fields); ++f) {
      token_field<const T>& x = *fields[f];
      if (!x.present()) continue;
      if (!contains(reads, field_at(f))) {
        x = {};
        continue;
      }
      value_[f].resize(static_cast<std::size_t>(x.shape[0] * x.shape[1]));
      if (!value_[f].empty()) device.download(value_[f].data(), x.data, value_[f].size() * sizeof(T));
      x.data = value_[f].data();
    }
    if (!batch_.mask.present()) return;
    mask_.resize(static_cast<std::size_t>(batch_.mask.shape[0] * batch_.mask.shape[1]) * batch_.mask.bytes);
    if (!mask_.empty()) device.download(mask_.data(), batch_.mask.data, mask_.size());
    batch_.mask.data = mask_.data();
  }
  fetched_batch(const fetched_batch&) = delete;
  fetched_batch& operator=(const fetched_batch&) = delete;

  /// The batch on the host; valid as long as this object.
  const token_batch<T>& batch() const noexcept { return batch_; }

 private:
  token_batch<T> batch_;
  std::array<std::vector<T>, field_count> value_;
  std::vector<std::byte> mask_;
};

namespace device_losses {

/// Host buffer for a device gradient.
template <class T, class Device>
class host_gradient {
 public:
  /// Allocates host memory for the gradient `on_device`.
  explicit host_gradient(const device_field<T, Device>& on_device) : to_(on_device.address()) {
    if (!to_.present()) return;
    value_.resize(static_cast<std::size_t>(to_.shape[0] * to_.shape[1]));
    field_ = to_;
    field_.data = value_.data();
  }
  const token_field<T>& on_host() const noexcept { return field_; }
  /// Uploads the gradient, or adds it to the device's values.
  void put(Device& device, bool add) const {
    if (value_.empty()) return;
    const std::size_t bytes = value_.size() * sizeof(T);
    if (!add) return device.upload(to_.data, value_.data(), bytes);
    buffer<T, Device> part(device, value_.size());
    part.upload(value_);
    device.run(op::add{.y = to_.data, .a = to_.data, .b = part.data(), .n = static_cast<extent_t>(value_.size())});
  }

 private:
  token_field<T> to_, field_;
  std::vector<T> value_;
};

/// evaluate() on the host, over the fields that the objective reads.
template <class Device, class Objective, class Aggregation, class T, class Counts>
auto on_host(Device& device, const Objective& objective, const Aggregation& aggregation,
             const token_batch<T, Device>& batch, const Counts& step, const token_gradients<T, Device>& gradients,
             field reads = static_cast<field>((1u << field_count) - 1)) {
  const fetched_batch<T> here(device, batch, reads);
  const host_gradient<T, Device> logp(gradients.logp), entropy(gradients.entropy), value(gradients.value);
  const auto report = evaluate(serial{}, objective, aggregation, here.batch(), step,
                               token_gradients<T>{logp.on_host(), entropy.on_host(), value.on_host(), false});
  for (const auto* g : {&logp, &entropy, &value}) g->put(device, gradients.add);
  return report;
}

}  // namespace device_losses
RLCORE_ALGORITHM_END
RLCORE_END
