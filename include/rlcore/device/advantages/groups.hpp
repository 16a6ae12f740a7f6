// Group-relative advantages on a device (GRPO, RLOO, REINFORCE++ baseline): one row for each group.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "rlcore/device/advantages/whiten.hpp"
#include "rlcore/objective/advantage/group_relative.hpp"
#include "rlcore/objective/advantage/reinforce_plus_plus.hpp"
#include "rlcore/objective/advantage/rloo.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace device_advantages {

/// Rewards as a matrix with one row per group. Groups of unequal sizes, or with rows that are not adjacent, are
/// gathered (one upload), and the results are scattered back.
template <class Device>
class grouped_rewards {
 public:
  /// `groups`: see group_relative. Throws std::invalid_argument if sizes do not fit.
  template <class Groups>
  grouped_rewards(Device& device, device_view<const float, 1, Device> rewards, const Groups& groups)
      : device_(device), rewards_(rewards.shape[0]), reward_(rewards.data) {
    const detail::grouped_rows g = detail::group_rows(rewards_, groups);
    groups_ = static_cast<extent_t>(g.groups());
    for (std::size_t k = 0; k < g.groups(); ++k) widest_ = std::max(widest_, static_cast<extent_t>(g.group(k).size()));
    bool in_place = groups_ * widest_ == rewards_;
    for (std::size_t i = 0; i < g.order.size(); ++i) in_place = in_place && g.order[i] == static_cast<extent_t>(i);
    if (!in_place) gather(g);
    find_scored();
  }

  extent_t groups() const noexcept { return groups_; }
  extent_t slots() const noexcept { return groups_ * widest_; }
  /// The scored rows of all groups.
  slot_shape shape() const noexcept { return {groups_, widest_, scored_.data()}; }
  /// Rewards, and the number of scored rows of each group, as inputs of a program.
  program_input<float> rewards() const noexcept { return by_slot(reward_, widest_); }
  program_input<float> counts() const noexcept { return by_row(count_.data()); }
  /// Whether the matrix is the vector of rewards, so that values for the groups are values per row.
  bool in_place() const noexcept { return place_ == nullptr; }
  /// to[i] = the value of row i, from a matrix of values for the groups.
  void put_back(const float* from, float* to) const {
    device_.run(op::gather_rows{.y = to, .x = from, .x_rows = slots(), .ids = place_, .count = rewards_, .width = 1});
  }

 private:
  /// Gathers the rows of each group and the position of each row, in one upload.
  void gather(const detail::grouped_rows& g) {
    std::vector<std::int32_t> all;
    std::vector<std::int32_t> place(static_cast<std::size_t>(rewards_));
    for (std::size_t k = 0; k < g.groups(); ++k) all.push_back(static_cast<std::int32_t>(g.group(k).size()));
    for (std::size_t k = 0; k < g.groups(); ++k)
      for (std::size_t j = 0; j < static_cast<std::size_t>(widest_); ++j) {
        const bool inside = j < g.group(k).size();
        const auto row = inside ? g.group(k)[j] : 0;
        if (inside) place[static_cast<std::size_t>(row)] = static_cast<std::int32_t>(all.size() - g.groups());
        all.push_back(static_cast<std::int32_t>(row));
      }
    all.insert(all.end(), place.begin(), place.end());
    places_ = uploaded(device_, all);
    sizes_ = places_.data(), place_ = sizes_ + groups_ + slots();
    gathered_ = room(device_, slots());
    device_.run(op::gather_rows{.y = gathered_.data(),
                                .x = reward_,
                                .x_rows = rewards_,
                                .ids = sizes_ + groups_,
                                .count = slots(),
                                .width = 1});
    reward_ = gathered_.data();
  }
  void find_scored() {
    if (slots() == 0) return;
    scored_ = room(device_, slots()), count_ = room(device_, groups_);
    buffer<float, Device> inside;
    if (sizes_ != nullptr) {
      inside = room(device_, slots());
      device_.run(op::live_slots{.live = inside.data(), .lengths = sizes_, .rows = groups_, .width = widest_});
    }
    compute(device_, {groups_, widest_, inside.data()}, {rewards()}, {select(is_number(in(0)), traced(1), traced(0))},
            {scored_.data()});
    device_.run(op::row_sums{.sums = count_.data(), .x = scored_.data(), .rows = groups_, .width = widest_});
  }

  Device& device_;
  extent_t rewards_, groups_ = 0, widest_ = 0;
  const float* reward_;
  buffer<std::int32_t, Device> places_;
  const std::int32_t *sizes_ = nullptr, *place_ = nullptr;
  buffer<float, Device> gathered_, scored_, count_;
};

/// Rewards minus the mean of their group, computed from differences to the group's maximum: equal rewards give exactly
/// 0.
template <class Device>
class centred_groups {
 public:
  /// Computes the maximum reward of every group, and the differences to it.
  centred_groups(Device& device, const grouped_rewards<Device>& g)
      : device_(device), groups_(g), highest_(room(device, g.groups())), below_(room(device, g.groups())) {
    auto part = room(device, g.slots());
    const slot_shape s = g.shape();
    compute(device, {s.rows, s.width}, {g.rewards(), by_slot(s.live, s.width)},
            {select(traced(0) < in(1), in(0), traced(lowest))}, {part.data()});
    device.run(op::row_largest{.largest = highest_.data(), .x = part.data(), .rows = s.rows, .width = s.width});
    compute(device, s, {g.rewards(), by_row(highest_.data())}, {in(1) - in(0)}, {part.data()});
    device.run(op::row_sums{.sums = below_.data(), .x = part.data(), .rows = s.rows, .width = s.width});
  }

  /// out = f(reward - mean, the number of scored rows of the group, whether all rewards are equal, the reward, the sum
  /// of squares). `squares` is null or has one number per group.
  template <class F>
  void finish(const float* squares, float* out, F f) const {
    const traced reward = in(0), count = in(1), highest = in(2), below = in(3);
    const traced centred = below / count - (highest - reward);
    const auto sum = squares != nullptr ? by_row(squares) : groups_.counts();
    compute(device_, groups_.shape(),
            {groups_.rewards(), groups_.counts(), by_row(highest_.data()), by_row(below_.data()), sum},
            {f(centred, count, below == traced(0), reward, in(4))}, {out});
  }

 private:
  Device& device_;
  const grouped_rewards<Device>& groups_;
  buffer<float, Device> highest_, below_;
};

/// The advantages of an estimator that needs only the rewards of one group: f as in centred_groups::finish, for groups
/// of at least two; a single row gets alone(reward).
template <class Device, class Groups, class F, class Alone>
void outcome_advantages(Device& device, device_view<const float, 1, Device> rewards, const Groups& groups,
                        device_view<float, 1, Device> out, bool wants_squares, F f, Alone alone) {
  const grouped_rewards<Device> g(device, rewards, groups);
  check_numbers("advantages", out.shape[0], rewards.shape[0]);
  if (g.slots() == 0) return;
  const centred_groups<Device> centred(device, g);
  buffer<float, Device> part, squares;
  if (wants_squares || !g.in_place()) part = room(device, g.slots());
  if (wants_squares) {
    squares = room(device, g.groups());
    centred.finish(nullptr, part.data(), [](auto x, auto, auto, auto, auto) { return x * x; });
    device.run(op::row_sums{.sums = squares.data(), .x = part.data(), .rows = g.groups(), .width = g.shape().width});
  }
  float* const to = g.in_place() ? out.data : part.data();
  centred.finish(squares.data(), to, [&](auto x, auto count, auto flat, auto reward, auto sum) {
    return select(count < traced(2), alone(reward), f(x, count, flat, sum));
  });
  if (!g.in_place()) g.put_back(to, out.data);
}

}  // namespace device_advantages

/// group_relative on a device: advantages in device memory, from groups on the host. NaN marks an unscored row. An
/// infinite reward makes its group NaN, since the device cannot refuse it.
template <advantage_device Device, class Groups>
void compute_advantages(Device& device, const group_relative& estimator, device_advantages::vector_in<Device> rewards,
                        const Groups& groups, device_advantages::vector_out<Device> advantages) {
  using device_advantages::select;
  const double epsilon = estimator.epsilon;
  const bool by_std = estimator.normalize_by_std, keeps = estimator.singleton == singleton_group::reward;
  device_advantages::outcome_advantages(
      device, rewards, groups, advantages, by_std,
      [&](const traced& x, const traced& count, const traced_mask& flat, const traced& squares) {
        if (!by_std) return x;
        const traced deviation = traced_math::sqrt(squares / (count - traced(1)));
        return x / select(flat, traced(1), deviation + traced(epsilon));
      },
      [&](const traced& reward) { return keeps ? by_std ? reward / traced(1 + epsilon) : reward : traced(0); });
}

/// rloo on a device, see group_relative.
template <advantage_device Device, class Groups>
void compute_advantages(Device& device, const rloo& estimator, device_advantages::vector_in<Device> rewards,
                        const Groups& groups, device_advantages::vector_out<Device> advantages) {
  const bool keeps = estimator.singleton == singleton_group::reward;
  device_advantages::outcome_advantages(
      device, rewards, groups, advantages, false,
      [](const traced& x, const traced& count, const traced_mask&, const traced&) {
        return x * (count / (count - traced(1)));
      },
      [&](const traced& reward) { return keeps ? reward : traced(0); });
}

/// reinforce_plus_plus_baseline on a device, see group_relative; `lengths` are the host's.
template <advantage_device Device, class Groups, class Lengths>
void compute_advantages(Device& device, const reinforce_plus_plus_baseline& estimator,
                        device_advantages::vector_in<Device> rewards, const Groups& groups, const Lengths& lengths,
                        device_advantages::vector_out<Device> advantages) {
  namespace own = device_advantages;
  const extent_t rows = rewards.shape[0];
  const std::vector<float> length = own::lengths_of(lengths, rows);
  auto centred = own::room(device, rows);
  compute_advantages(device, group_relative{.normalize_by_std = false, .singleton = estimator.singleton}, rewards,
                     groups, device_view<float, 1, Device>(centred.data(), {rows}));
  own::check_numbers("advantages", advantages.shape[0], rows);
  if (rows == 0) return;
  own::compute(device, {1, rows}, {own::by_slot(rewards.data, rows), own::by_slot(centred.data(), rows)},
               {own::select(own::is_number(own::in(0)), own::in(1), own::in(0))}, {centred.data()});  // still unscored
  own::normalize_rows(device, estimator.whiten, centred.data(), length, rows, advantages.data);
}

RLCORE_ALGORITHM_END
RLCORE_END
