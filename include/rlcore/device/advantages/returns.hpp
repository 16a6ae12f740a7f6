// Reward-to-advantage stages on a device: in_order, reward_clip; returns and generalized advantage estimation (GAE),
// sums from a token to the end of its row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>

#include "rlcore/device/advantages/groups.hpp"
#include "rlcore/device/advantages/whiten.hpp"
#include "rlcore/objective/advantage/gae.hpp"
#include "rlcore/objective/advantage/reinforce_plus_plus.hpp"
#include "rlcore/objective/advantage/rloo.hpp"
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

namespace device_advantages {

/// The backward recursion of a batch; `turns` selects how masked slots are handled. If they are skipped, the live slots
/// are compacted, and the sums are scattered back.
template <class Device>
class backward_pass {
 public:
  /// Finds the live slots of a mask that is as large as `shape`.
  backward_pass(Device& device, const token_mask& mask, const extents<2>& shape, turn_policy turns)
      : device_(device),
        rows_(shape[0]),
        width_(shape[1]),
        moves_(turns == turn_policy::skip && mask.present() && width_ > 1),
        resets_(turns == turn_policy::reset && mask.present()),
        live_(live_of(device, mask, shape)) {
    if (!moves_) return;
    order_ = places(), place_ = places();
    device.run(op::live_first{
        .order = order_.data(), .place = place_.data(), .live = live_.data(), .rows = rows_, .width = width_});
  }

  slot_shape shape() const noexcept { return {rows_, width_, live_.data()}; }
  /// How programs read a matrix of the batch.
  program_input<float> by_token(const float* x) const noexcept { return by_slot(x, width_); }
  buffer<float, Device> matrix() const { return room(device_, rows_ * width_); }

  /// x, with 0 in masked slots, in summation order.
  buffer<float, Device> laid_out(buffer<float, Device> x) const {
    if (!moves_) return x;
    auto moved = matrix();
    device_.run(
        op::pick_slots{.y = moved.data(), .x = x.data(), .slots = order_.data(), .rows = rows_, .width = width_});
    return moved;
  }
  /// step[t] += factor times the value of the next state, both laid out. No state follows the end of an episode.
  void add_next(float* step, const float* value, double factor) const {
    device_.run(op::add_next_slots{
        .y = step, .x = value, .factor = static_cast<float>(factor), .rows = rows_, .width = width_});
    if (resets_) compute(device_, shape(), {by_token(step)}, {in(0)}, {step});
  }
  /// The discounted sums of `step` (laid out), at the original slots.
  buffer<float, Device> sums(const float* step, double decay) const {
    auto total = matrix();
    device_.run(op::suffix_sums{.y = total.data(),
                                .x = step,
                                .decay = decay,
                                .open = resets_ ? live_.data() : nullptr,
                                .rows = rows_,
                                .width = width_});
    if (!moves_) return total;
    auto back = matrix();
    device_.run(
        op::pick_slots{.y = back.data(), .x = total.data(), .slots = place_.data(), .rows = rows_, .width = width_});
    return back;
  }

 private:
  buffer<std::int64_t, Device> places() const { return {device_, static_cast<std::size_t>(rows_ * width_)}; }

  Device& device_;
  extent_t rows_, width_;
  bool moves_, resets_;
  buffer<float, Device> live_;
  buffer<std::int64_t, Device> order_, place_;
};

/// Throws std::invalid_argument unless the shapes are those of the rewards.
template <class Device>
void check_rewards(const token_mask& mask, const device_view<const float, 2, Device>& rewards,
                   const device_view<float, 2, Device>& advantages) {
  detail::check_mask_shape(mask, "rewards", rewards.shape);
  detail::check_shape("advantages", advantages.shape, "rewards", rewards.shape);
}

/// gae with returns; `returns` may be null.
template <class Device>
void estimate(Device& device, const gae& g, const device_view<const float, 2, Device>& rewards,
              const device_view<const float, 2, Device>& values, const token_mask& mask,
              const device_view<float, 2, Device>& advantages, float* returns) {
  check_rewards(mask, rewards, advantages);
  detail::check_shape("values", values.shape, "rewards", rewards.shape);
  if (rewards.shape[0] * rewards.shape[1] == 0) return;
  const backward_pass<Device> pass(device, mask, rewards.shape, g.turns);
  const auto reward = pass.by_token(rewards.data), value = pass.by_token(values.data);
  buffer<float, Device> step = pass.matrix(), state = pass.matrix();
  compute(device, pass.shape(), {reward, value}, {in(0) - in(1), in(1)}, {step.data(), state.data()});
  step = pass.laid_out(std::move(step)), state = pass.laid_out(std::move(state));
  pass.add_next(step.data(), state.data(), g.gamma);
  const double decay = g.gamma * g.lambda, critic_decay = g.gamma * g.critic_lambda.value_or(g.lambda);
  const auto total = pass.sums(step.data(), decay);
  buffer<float, Device> other;
  if (returns != nullptr && critic_decay != decay) other = pass.sums(step.data(), critic_decay);
  const auto a = pass.by_token(total.data()), b = other.size() > 0 ? pass.by_token(other.data()) : a;
  if (returns != nullptr)
    compute(device, pass.shape(), {a, b, value}, {in(0), in(1) + in(2)}, {advantages.data, returns});
  else
    compute(device, pass.shape(), {a}, {in(0)}, {advantages.data});
}

/// discounted_return minus a baseline per row; null: no baseline.
template <class Device>
void estimate(const backward_pass<Device>& pass, Device& device, double gamma, const float* rewards,
              const float* baselines, float* out) {
  buffer<float, Device> step = pass.matrix();
  compute(device, pass.shape(), {pass.by_token(rewards)}, {in(0)}, {step.data()});
  step = pass.laid_out(std::move(step));
  const auto total = pass.sums(step.data(), gamma);
  const auto by_token = pass.by_token(total.data());
  if (baselines == nullptr)
    compute(device, pass.shape(), {by_token}, {in(0)}, {out});
  else
    compute(device, pass.shape(), {by_token, by_row(baselines)}, {in(0) - in(1)}, {out});
}

}  // namespace device_advantages

/// gae on a device, with returns: rewards, values and results are device matrices [rows, tokens]. On an NPU sums
/// are in float, in doubling windows, so their error is that of log2(tokens) additions; on an NVIDIA GPU in double.
template <advantage_device Device>
void compute_advantages(Device& device, const gae& estimator, device_advantages::matrix_in<Device> rewards,
                        device_advantages::matrix_in<Device> values, device_advantages::mask_in<Device> mask,
                        device_advantages::matrix_out<Device> advantages,
                        device_advantages::matrix_out<Device> returns) {
  detail::check_shape("returns", returns.shape, "rewards", rewards.shape);
  device_advantages::estimate(device, estimator, rewards, values, mask, advantages, returns.data);
}
/// The same without returns.
template <advantage_device Device>
void compute_advantages(Device& device, const gae& estimator, device_advantages::matrix_in<Device> rewards,
                        device_advantages::matrix_in<Device> values, device_advantages::mask_in<Device> mask,
                        device_advantages::matrix_out<Device> advantages) {
  device_advantages::estimate(device, estimator, rewards, values, mask, advantages, nullptr);
}

/// whitened{gae{}} on a device: the advantages are whitened over the batch, the returns are not.
template <advantage_device Device>
void compute_advantages(Device& device, const whitened<gae>& estimator, device_advantages::matrix_in<Device> rewards,
                        device_advantages::matrix_in<Device> values, device_advantages::mask_in<Device> mask,
                        device_advantages::matrix_out<Device> advantages,
                        device_advantages::matrix_out<Device> returns) {
  compute_advantages(device, estimator.estimator, rewards, values, mask, advantages, returns);
  compute_advantages(device, estimator.whiten, advantages, mask, advantages);
}

/// discounted_return on a device.
template <advantage_device Device>
void compute_advantages(Device& device, const discounted_return& estimator,
                        device_advantages::matrix_in<Device> rewards, device_advantages::mask_in<Device> mask,
                        device_advantages::matrix_out<Device> returns) {
  device_advantages::check_rewards(mask, rewards, returns);
  if (rewards.shape[0] * rewards.shape[1] == 0) return;
  device_advantages::estimate({device, mask, rewards.shape, estimator.turns}, device, estimator.gamma, rewards.data,
                              nullptr, returns.data);
}

/// remax on a device; `baselines`, one for each row, are in device memory too.
template <advantage_device Device>
void compute_advantages(Device& device, const remax& estimator, device_advantages::matrix_in<Device> rewards,
                        device_advantages::vector_in<Device> baselines, device_advantages::mask_in<Device> mask,
                        device_advantages::matrix_out<Device> advantages) {
  detail::check_per_row("baselines", baselines.shape[0], "advantages", advantages.shape);
  device_advantages::check_rewards(mask, rewards, advantages);
  if (rewards.shape[0] * rewards.shape[1] == 0) return;
  device_advantages::estimate({device, mask, rewards.shape, estimator.turns}, device, 1.0, rewards.data, baselines.data,
                              advantages.data);
}

/// reinforce_plus_plus on a device: returns, and the advantages whitened over the batch.
template <advantage_device Device>
void compute_advantages(Device& device, const reinforce_plus_plus& estimator,
                        device_advantages::matrix_in<Device> rewards, device_advantages::mask_in<Device> mask,
                        device_advantages::matrix_out<Device> advantages,
                        device_advantages::matrix_out<Device> returns) {
  namespace own = device_advantages;
  own::check_rewards(mask, rewards, advantages);
  detail::check_shape("returns", returns.shape, "rewards", rewards.shape);
  if (rewards.shape[0] * rewards.shape[1] == 0) return;
  const own::backward_pass<Device> pass(device, mask, rewards.shape, estimator.turns);
  own::estimate(pass, device, estimator.gamma, rewards.data, nullptr, returns.data);
  own::whiten(device, estimator.whiten, pass.shape(), returns.data, pass.shape().live, advantages.data);
}
/// The same without returns.
template <advantage_device Device>
void compute_advantages(Device& device, const reinforce_plus_plus& estimator,
                        device_advantages::matrix_in<Device> rewards, device_advantages::mask_in<Device> mask,
                        device_advantages::matrix_out<Device> advantages) {
  compute_advantages(device, estimator, rewards, mask, advantages, advantages);
}

RLCORE_ALGORITHM_END
RLCORE_END
