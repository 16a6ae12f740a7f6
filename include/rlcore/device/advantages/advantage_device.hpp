// Device concept for advantage estimation: loss_device plus five functions.
#pragma once

#include <cstdint>
#include <utility>

#include "rlcore/device/losses/evaluate.hpp"
#include "rlcore/device/losses/loss_device.hpp"
#include "rlcore/objective/advantage/token_rewards.hpp"

RLCORE_BEGIN
/// A device with the functions of losses and five for advantages, over contiguous matrices [rows, width]. All enqueue;
/// none reads device memory on the host.
///   row_largest(largest, x, rows, width): largest[i] = the largest of row i; of a row with NaN, NaN or the largest of
///     the others
///   add_next_slots(y, x, factor, rows, width): y[i, t] += factor x[i, t + 1], with 0 after the last slot
///   suffix_sums(y, x, decay, open, rows, width): y[i, t] = x[i, t] + decay open[i, t] y[i, t + 1]; `open` holds 0 and
///     1, or is null: always 1. y may be x
///   live_first(order, place, live, rows, width): where slots that count (live is 1, not 0) come first, each in its
///     order, slot order[i, k] is the k-th of row i, and slot t the place[i, t]-th
///   pick_slots(y, x, slots, rows, width): y[i, t] = x[i, slots[i, t]]
template <class D>
concept advantage_device = loss_device<D> &&
    requires(D& d, float* y, const float* x, std::int64_t* i, const std::int64_t* slots, extent_t n) {
  d.row_largest(y, x, n, n);
  d.add_next_slots(y, x, 1.0f, n, n);
  d.suffix_sums(y, x, 1.0, x, n, n);
  d.live_first(i, i, x, n, n);
  d.pick_slots(y, x, slots, n, n);
};

RLCORE_ALGORITHM_BEGIN
/// estimator(arguments...), so that cpu and npu share one program. Takes every estimator.
template <host_device Device, class Estimator, class... Arguments>
void compute_advantages(Device&, const Estimator& estimator, Arguments&&... arguments) {
  estimator(std::forward<Arguments>(arguments)...);
}
/// The same for rewards.
template <host_device Device, class... Arguments>
void compute_rewards(Device&, const token_rewards& estimator, Arguments&&... arguments) {
  estimator(std::forward<Arguments>(arguments)...);
}
/// The same for the rewards of rows.
template <host_device Device, class Rewards, class Totals>
void row_totals(Device&, const Rewards& rewards, const token_mask& mask, Totals&& totals) {
  row_totals(rewards, mask, totals);
}

RLCORE_ALGORITHM_END
RLCORE_END
