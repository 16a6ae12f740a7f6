// Reward-to-advantage stages on a device (in_order, reward_clip).
#pragma once

#include <tuple>

#include "rlcore/device/advantages/groups.hpp"
#include "rlcore/objective/advantage/token_rewards.hpp"
#include "rlcore/objective/advantage/whitening.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// reward_clip on a device, in place; NaN (an unscored row) stays. Throws std::invalid_argument if the range is empty.
template <advantage_device Device>
void compute_advantages(Device& device, const reward_clip& clip, device_advantages::vector_out<Device> rewards) {
  namespace own = device_advantages;
  if (!(clip.low <= clip.high)) clip(scratch_vector<double>{});  // throws the error
  const traced low(clip.low), high(clip.high), x = own::in(0);
  const extent_t rows = rewards.shape[0];
  if (rows == 0) return;
  own::compute(device, {1, rows}, {own::by_slot(rewards.data, rows)},
               {own::select(x < low, low, own::select(high < x, high, x))}, {rewards.data});
}

namespace device_advantages {

/// Applies the stages to a copy of the rewards: an unscored row stays unscored in all stages and gets 0 at the end.
template <class Device, class... Stages, class F>
void run_stages(Device& device, const in_order<Stages...>& order, const device_view<const float, 1, Device>& rewards,
                const device_view<float, 1, Device>& out, F one_stage) {
  check_numbers("advantages", out.shape[0], rewards.shape[0]);
  const extent_t rows = rewards.shape[0];
  if (rows == 0) return;
  auto x = room(device, rows);
  const device_view<float, 1, Device> value(x.data(), {rows});
  const auto mark = [&](const program_input<float>& from, const traced& unscored, float* to) {
    compute(device, {1, rows}, {by_slot(rewards.data, rows), from}, {select(is_number(in(0)), in(1), unscored)}, {to});
  };
  mark(by_slot(rewards.data, rows), in(0), x.data());
  std::apply(
      [&](const auto&... stage) { (..., (one_stage(stage, value), mark(by_slot(x.data(), rows), in(0), x.data()))); },
      order.stages);
  mark(by_slot(x.data(), rows), traced(0), out.data);
}

}  // namespace device_advantages

/// in_order on a device: stages of one number per row.
template <advantage_device Device, class... Stages, class Groups>
void compute_advantages(Device& device, const in_order<Stages...>& order, device_advantages::vector_in<Device> rewards,
                        const Groups& groups, device_advantages::vector_out<Device> advantages) {
  using number = device_view<float, 1, Device>;
  device_advantages::run_stages<Device>(device, order, rewards, advantages, [&](const auto& stage, const number& x) {
    if constexpr (requires { compute_advantages(device, stage, x, x); })
      compute_advantages(device, stage, x, x);
    else if constexpr (requires { compute_advantages(device, stage, x, groups, x); })
      compute_advantages(device, stage, x, groups, x);
    else
      compute_advantages(device, stage, x);
  });
}
/// The same with host lengths, for the stages that need them.
template <advantage_device Device, class... Stages, class Groups, class Lengths>
void compute_advantages(Device& device, const in_order<Stages...>& order, device_advantages::vector_in<Device> rewards,
                        const Groups& groups, const Lengths& lengths,
                        device_advantages::vector_out<Device> advantages) {
  using number = device_view<float, 1, Device>;
  device_advantages::run_stages<Device>(device, order, rewards, advantages, [&](const auto& stage, const number& x) {
    if constexpr (requires { compute_advantages(device, stage, x, groups, lengths, x); })
      compute_advantages(device, stage, x, groups, lengths, x);
    else if constexpr (requires { compute_advantages(device, stage, x, x); })
      compute_advantages(device, stage, x, x);
    else if constexpr (requires { compute_advantages(device, stage, x, groups, x); })
      compute_advantages(device, stage, x, groups, x);
    else
      compute_advantages(device, stage, x);
  });
}

RLCORE_ALGORITHM_END
RLCORE_END
