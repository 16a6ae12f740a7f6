// Stages from rewards to advantages: their order is the order of the types.
#pragma once

#include <cstddef>
#include <tuple>

#include "rlcore/core/scratch_vector.hpp"
#include "rlcore/core/settings.hpp"
#include "rlcore/objective/advantage/detail/outcome.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// Applies its stages one after the other to one number per row:
///   in_order(reward_clip{-1, 1}, rloo{})           // TRL's RLOO: clip, then compare
///   in_order(group_relative{}, reward_clip{})      // OpenRLHF: the normalised reward is clipped
///   in_order(rloo{}, row_normalization{})          // TRL's normalize_advantages
/// A stage is called as stage(x, groups, [lengths,] x), stage(x, x) or stage(x), whichever it has. An unscored row
/// (NaN) stays unscored for all stages and gets 0 at the end.
template <class... Stages>
struct in_order {
  std::tuple<Stages...> stages;
  /// The stages in the order in which they are applied.
  explicit constexpr in_order(Stages... s) : stages(s...) {}

  constexpr void check_settings() const {
    std::apply([](const auto&... stage) { (detail::check_part(stage), ...); }, stages);
  }

  /// `groups`: the number of consecutive rows in each group, or a vector with any integer that names the prompt of each
  /// row. Throws std::invalid_argument if sizes do not fit or a reward is infinite.
  template <class Rewards, class Groups, class Advantages>
  void operator()(const Rewards& rewards, const Groups& groups, Advantages&& advantages) const {
    run(rewards, advantages, [&](const auto& stage, scratch_vector<double>& x) {
      using stage_type = decltype(stage);
      if constexpr (
          requires(stage_type s) { s(x, groups, x); } && !requires(stage_type s) { s(x, x); })
        stage(x, groups, x);
      else if constexpr (requires(stage_type s) { s(x, x); })
        stage(x, x);
      else
        stage(x);
    });
  }
  /// `lengths`: response tokens of each row, for the stages that ask for them.
  template <class Rewards, class Groups, class Lengths, class Advantages>
  void operator()(const Rewards& rewards, const Groups& groups, const Lengths& lengths, Advantages&& advantages) const {
    run(rewards, advantages, [&](const auto& stage, scratch_vector<double>& x) {
      using stage_type = decltype(stage);
      if constexpr (requires(stage_type s) { s(x, groups, lengths, x); })
        stage(x, groups, lengths, x);
      else if constexpr (requires(stage_type s) { s(x, x); })
        stage(x, x);
      else if constexpr (requires(stage_type s) { s(x, groups, x); })
        stage(x, groups, x);
      else
        stage(x);
    });
  }

 private:
  template <class Rewards, class Advantages, class F>
  void run(const Rewards& rewards, Advantages& advantages, F one_stage) const {
    const scratch_vector<double> reward = detail::read_numbers("reward", rewards);
    scratch_vector<double> x = reward;
    const auto unscored = [&](double mark) {
      for (std::size_t i = 0; i < x.size(); ++i)
        if (reward[i] != reward[i]) x[i] = mark == 0 ? 0.0 : reward[i];
    };
    std::apply([&](const auto&... stage) { (..., (one_stage(stage, x), unscored(1))); }, stages);
    unscored(0);
    detail::write_numbers("advantages", x, advantages);
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
