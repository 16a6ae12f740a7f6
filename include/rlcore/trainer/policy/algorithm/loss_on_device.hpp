// The loss of an optimizer step in the memory of a device.
#pragma once

#include <span>

#include "rlcore/trainer/policy/algorithm/policy_report.hpp"
#include "rlcore/trainer/policy/algorithm/policy_rows.hpp"

RLCORE_BEGIN
namespace trainer {

/// Result of policy_loss::on_device(): the loss of the micro-batches of one optimizer step, computed in device memory.
/// The host reads none of its inputs.
class loss_on_device {
 public:
  loss_on_device() = default;
  loss_on_device(const loss_on_device&) = delete;
  loss_on_device& operator=(const loss_on_device&) = delete;
  virtual ~loss_on_device() = default;

  /// Whether no token without an advantage has a slope: the backward then leaves such tokens out.
  virtual bool needs_advantage() const { return false; }
  /// As policy_loss::loss of one micro-batch, without its report. Spans are of addresses on the device, all but
  /// `rows.offsets`, which the host has.
  virtual void add(const policy_rows& rows, std::span<float> dlogp, std::span<float> dentropy) = 0;
  /// The report of all micro-batches, fetched in one transfer for each sum of the loss.
  virtual policy_report report() = 0;
};

}  // namespace trainer
RLCORE_END
