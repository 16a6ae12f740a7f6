// The KL penalty as part of the reward, and rewards per token from rewards per row, on a device.
#pragma once

#include <cstddef>
#include <vector>

#include "rlcore/device/advantages/slot_arrays.hpp"
#include "rlcore/objective/advantage/token_rewards.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace device_advantages {

/// live[rows, tokens], and last[rows]: one more than the index of the last live token, 0 if a row has none.
template <class Device>
struct last_tokens {
  buffer<float, Device> live, place, last;

  /// Computes them from a mask of the same size as `shape`.
  last_tokens(Device& device, const token_mask& mask, const extents<2>& shape)
      : live(live_of(device, mask, shape)), last(room(device, shape[0])) {
    std::vector<float> counted;
    for (extent_t t = 1; t <= shape[1]; ++t) counted.push_back(static_cast<float>(t));
    place = uploaded(device, counted);
    const auto part = room(device, shape[0] * shape[1]);
    compute(device, {shape[0], shape[1], live.data()}, {by_column(place.data())}, {in(0)},
            {const_cast<float*>(part.data())});
    device.run(op::row_largest{.largest = last.data(), .x = part.data(), .rows = shape[0], .width = shape[1]});
  }
};

/// The score at the last token of its row, plus `penalty` of the fields logp and ref_logp at every token.
template <class Device>
void fill_rewards(Device& device, const device_view<const float, 1, Device>& scores, const float* logp,
                  const float* ref_logp, const token_mask& mask, const device_view<float, 2, Device>& rewards,
                  const traced& penalty) {
  detail::check_per_row("scores", scores.shape[0], "rewards", rewards.shape);
  detail::check_mask_shape(mask, "rewards", rewards.shape);
  const extent_t rows = rewards.shape[0], width = rewards.shape[1];
  if (rows * width == 0) return;
  const last_tokens<Device> tokens(device, mask, rewards.shape);
  // field indices: logp 0, ref_logp 2
  const traced score = select(is_number(in(1)), in(1), traced(0));
  compute(device, {rows, width, tokens.live.data()},
          {by_slot(logp, width), by_row(scores.data), by_slot(ref_logp, width), by_column(tokens.place.data()),
           by_row(tokens.last.data())},
          {penalty + select(in(3) == in(4), score, traced(0))}, {rewards.data});
}

}  // namespace device_advantages

/// token_rewards on a device: scores, log-probs and rewards are in device memory. The KL estimator is the one of the
/// loss.
template <advantage_device Device>
void compute_rewards(Device& device, const token_rewards& estimator, device_advantages::vector_in<Device> scores,
                     device_advantages::matrix_in<Device> old_logp, device_advantages::matrix_in<Device> ref_logp,
                     device_advantages::mask_in<Device> mask, device_advantages::matrix_out<Device> rewards) {
  detail::check_shape("old_logp", old_logp.shape, "rewards", rewards.shape);
  detail::check_shape("ref_logp", ref_logp.shape, "rewards", rewards.shape);
  const traced kl = visit_divergence(estimator.kind, [](auto divergence) {
    return divergence.template operator()<traced_math, traced>(detail::traced_token(0)).value;
  });
  device_advantages::fill_rewards(device, scores, old_logp.data, ref_logp.data, mask, rewards,
                                  traced(-estimator.coefficient) * kl);
}
/// Without penalty: the score at the last live token, 0 elsewhere.
template <advantage_device Device>
void compute_rewards(Device& device, const token_rewards&, device_advantages::vector_in<Device> scores,
                     device_advantages::mask_in<Device> mask, device_advantages::matrix_out<Device> rewards) {
  device_advantages::fill_rewards(device, scores, nullptr, nullptr, mask, rewards, traced(0));
}

/// row_totals on a device: the reward of every row, the sum over its live tokens.
template <advantage_device Device>
void row_totals(Device& device, device_advantages::matrix_in<Device> rewards, device_advantages::mask_in<Device> mask,
                device_advantages::vector_out<Device> totals) {
  namespace own = device_advantages;
  detail::check_per_row("totals", totals.shape[0], "rewards", rewards.shape);
  detail::check_mask_shape(mask, "rewards", rewards.shape);
  const extent_t rows = rewards.shape[0], width = rewards.shape[1];
  const auto live = own::live_of(device, mask, rewards.shape);
  auto part = own::room(device, rows * width);
  if (rows * width != 0)
    own::compute(device, {rows, width, live.data()}, {own::by_slot(rewards.data, width)}, {own::in(0)}, {part.data()});
  device.run(op::row_sums{.sums = totals.data, .x = part.data(), .rows = rows, .width = width});
}

RLCORE_ALGORITHM_END
RLCORE_END
