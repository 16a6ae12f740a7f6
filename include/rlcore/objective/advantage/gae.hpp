// Generalised advantage estimation (GAE), and discounted returns.
#pragma once

#include <limits>
#include <optional>
#include <stdexcept>
#include <vector>

#include "rlcore/core/settings.hpp"
#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/advantage/detail/tokens.hpp"
#include "rlcore/objective/advantage/estimator.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// A_t = d_t + gamma lambda A_{t+1} with d_t = r_t + gamma V_{t+1} - V_t, and returns A_t + V_t, the target of the
/// critic (Schulman et al. 2015). With critic_lambda, the returns are those of another lambda (decoupled GAE of VC-PPO
/// and VAPO, Yuan et al. 2025). `turns` says how masked slots inside a row are passed: skip is verl's, discount
/// OpenRLHF's. The defaults of gamma and lambda are verl's and OpenRLHF's; TRL's PPO has lambda = 0.95.
///
/// rewards, values, advantages and returns are [rows, tokens], of float or double and any strides; the recursion is in
/// double. Masked slots are not read and get 0; unscored rows must be masked (objective/filter.hpp), or they count as
/// rows of reward 0. Nothing is normalised: see `whitening`. Throws std::invalid_argument for other shapes.
struct gae {
  static constexpr advantage_input reads = advantage_input::values;
  double gamma = 1.0, lambda = 1.0;
  std::optional<double> critic_lambda{};  ///< absent: lambda
  turn_policy turns = turn_policy::skip;

  constexpr void check_settings() const {
    check_setting("gae", "gamma", gamma, setting::fraction);
    check_setting("gae", "lambda", lambda, setting::fraction);
  }

  /// Writes A and A + V; `exec` distributes the rows.
  template <executor Executor, class Rewards, class Values, class Advantages, class Returns>
  RLCORE_FN void operator()(const Executor& exec, const Rewards& rewards, const Values& values, const token_mask& mask,
                            Advantages&& advantages, Returns&& returns) const {
    backward_recursion::all_rows(exec, settings(), as_view<2>(rewards), as_view<2>(values), mask,
                                 as_view<2>(advantages), as_view<2>(returns));
  }
  /// The same on the calling thread.
  template <class Rewards, class Values, class Advantages, class Returns>
    requires(!executor<Rewards>)
  RLCORE_FN void operator()(const Rewards& rewards, const Values& values, const token_mask& mask,
                            Advantages&& advantages, Returns&& returns) const {
    (*this)(serial{}, rewards, values, mask, advantages, returns);
  }
  /// Without returns.
  template <class Rewards, class Values, class Advantages>
  RLCORE_FN void operator()(const Rewards& rewards, const Values& values, const token_mask& mask,
                            Advantages&& advantages) const {
    backward_recursion::all_rows(serial{}, settings(), as_view<2>(rewards), as_view<2>(values), mask,
                                 as_view<2>(advantages), detail::no_matrix{});
  }

  /// The adjoint: from dL/dA to dL/d reward and dL/d value, for rewards or values that are learned through the
  /// advantage. On the live tokens in their order, u_t = dL/dA_t + gamma lambda u_{t-1}, dL/dr_t = u_t and
  /// dL/dV_t = gamma u_{t-1} - u_t, where a gap between t-1 and t counts as `turns` says. Masked slots get 0.
  template <class Upstream, class RewardGradient, class ValueGradient>
  void adjoint(const Upstream& by_advantage, const token_mask& mask, RewardGradient&& by_reward,
               ValueGradient&& by_value) const {
    const auto upstream = as_view<2>(by_advantage);
    const auto reward = as_view<2>(by_reward);
    const auto value = as_view<2>(by_value);
    detail::check_shape("gradients by the rewards", reward.shape, "gradients by the advantages", upstream.shape);
    detail::check_shape("gradients by the values", value.shape, "gradients by the advantages", upstream.shape);
    detail::check_mask_shape(mask, "gradients by the advantages", upstream.shape);
    for (extent_t i = 0; i < upstream.shape[0]; ++i) {
      double before = 0, to_value = 0;  // what A of all tokens before passes on: by A_t, and by V_t through gamma
      for (extent_t t = 0; t < upstream.shape[1]; ++t) {
        double by_r = 0, by_v = 0;
        if (token_block::live_bits(mask, i, t, 1) != 0) {
          by_r = static_cast<double>(upstream(i, t)) + before;
          by_v = to_value - by_r;
          before = gamma * lambda * by_r;
          to_value = gamma * by_r;
        } else if (turns == turn_policy::reset) {
          before = to_value = 0;
        } else if (turns == turn_policy::discount) {
          // A masked state has value 0, its advantage gamma V + gamma lambda A of the next is passed on.
          to_value = gamma * before;
          before *= gamma * lambda;
        }
        reward(i, t) = static_cast<typename decltype(reward)::value_type>(by_r);
        value(i, t) = static_cast<typename decltype(value)::value_type>(by_v);
      }
    }
  }

 private:
  detail::backward_settings settings() const noexcept {
    return {gamma, gamma * lambda, gamma * critic_lambda.value_or(lambda), turns};
  }
};

/// G_t = r_t + gamma G_{t+1} (Williams 1992). `turns` says how masked slots inside a row are passed: skip is verl's
/// since 0.7, reset verl's before, discount OpenRLHF's.
///
/// rewards and returns are [rows, tokens], of float or double and any strides; the sum is in double. Masked slots are
/// not read and get 0. Throws std::invalid_argument for other shapes.
struct discounted_return {
  double gamma = 1.0;
  turn_policy turns = turn_policy::skip;

  /// Writes G to `returns`; `exec` distributes the rows.
  template <executor Executor, class Rewards, class Returns>
  RLCORE_FN void operator()(const Executor& exec, const Rewards& rewards, const token_mask& mask,
                            Returns&& returns) const {
    backward_recursion::all_rows(exec, {gamma, gamma, gamma, turns}, as_view<2>(rewards), detail::no_matrix{}, mask,
                                 as_view<2>(returns), detail::no_matrix{});
  }
  /// The same on the calling thread.
  template <class Rewards, class Returns>
  RLCORE_FN void operator()(const Rewards& rewards, const token_mask& mask, Returns&& returns) const {
    (*this)(serial{}, rewards, mask, returns);
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
