// Adaptive KL and entropy coefficients; reference models that follow the policy (EMA, BEMA).
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/elementary.hpp"
#include "rlcore/tensor/span.hpp"
#include "rlcore/tensor/traits.hpp"

RLCORE_BEGIN

RLCORE_ALGORITHM_BEGIN
/// A constant coefficient for the KL in the reward.
struct fixed_kl {
  double coefficient = 0.001;
  /// The coefficient of the next step: the same.
  [[nodiscard]] constexpr fixed_kl updated(double /*kl*/, std::int64_t /*rows*/) const noexcept { return *this; }
};

/// coefficient <- coefficient (1 + clip(kl / target - 1, -0.2, 0.2) rows / horizon) after each step (Ziegler et al.
/// 2019; the defaults are verl's). Pure: `updated` returns the next controller. A batch larger than the horizon counts
/// as one horizon, so the coefficient never changes by more than 20 % and never turns negative, as the plain formula
/// would with more than five horizons in a batch. A kl that is NaN or infinite (a step without tokens, an impossible
/// token) leaves the coefficient unchanged.
struct adaptive_kl {
  double coefficient = 0.001, target = 0.1, horizon = 10000;

  /// kl: mean over rows of each row's mean KL. rows: trajectories in the step.
  [[nodiscard]] constexpr adaptive_kl updated(double kl, std::int64_t rows) const noexcept {
    if (!(kl - kl == 0)) return *this;
    const double error = std::clamp(kl / target - 1.0, -0.2, 0.2);
    const double share = std::min(static_cast<double>(rows) / horizon, 1.0);
    return {coefficient * (1.0 + error * share), target, horizon};
  }
};

/// After each step: coefficient + delta if the entropy was at most the target, else coefficient - delta, clamped to
/// [lowest, highest]; and the bonus is applied only while the last entropy was at most the target (Skywork-OR1, He et
/// al. 2025; TRL's use_adaptive_entropy, whose defaults these are). Pure: `updated` returns the next controller.
///
/// Before the first update the entropy is unknown and no bonus is applied. The bonus of a step is thus decided by the
/// step before it.
struct adaptive_entropy {
  double coefficient = 0.0, target = 0.2, delta = 0.005, lowest = 0.0, highest = 1.0;
  double last_entropy = std::numeric_limits<double>::infinity();

  /// The coefficient of entropy_bonus in the coming step.
  [[nodiscard]] constexpr double applied() const noexcept { return last_entropy <= target ? coefficient : 0.0; }

  /// entropy: mean over the tokens of the whole step, all micro-batches and ranks.
  [[nodiscard]] constexpr adaptive_entropy updated(double entropy) const noexcept {
    adaptive_entropy next = *this;
    next.coefficient =
        entropy <= target ? std::min(coefficient + delta, highest) : std::max(coefficient - delta, lowest);
    next.last_entropy = entropy;
    return next;
  }
};

/// reference <- (1 - rate) reference + rate policy, every `steps` optimizer steps (TR-DPO's soft update, Gorbatovski et
/// al. 2024; TRL's sync_ref_model, whose defaults these are). rate = 1 copies.
struct reference_ema {
  double rate = 0.6;
  std::int64_t steps = 512;

  /// Whether the reference moves after optimizer step `step`, counted from 1.
  [[nodiscard]] constexpr bool due(std::int64_t step) const noexcept { return step % steps == 0; }

  /// One parameter. Throws std::invalid_argument if the shapes differ.
  template <class Reference, class Policy>
  void operator()(Reference&& reference, const Policy& policy) const {
    const auto to = tensor_views::vector_of(as_view(reference));
    const auto from = tensor_views::vector_of(as_view(policy));
    static_assert(decltype(to)::rank == 1 && decltype(from)::rank == 1,
                  "rlcore: parameters are passed as flat vectors");
    using element = typename decltype(to)::value_type;
    if (to.shape != from.shape)
      throw std::invalid_argument("rlcore: reference is " + to_string<1>(to.shape) + ", policy is " +
                                  to_string<1>(from.shape));
    const element keep = static_cast<element>(1.0 - rate), take = static_cast<element>(rate);
    for (extent_t i = 0; i < to.shape[0]; ++i) to(i) = keep * to(i) + take * from(i);
  }
};

/// BEMA (Block and Zhang 2025): average <- (1 - beta_t) average + beta_t policy, reference = average + alpha_t (policy
/// - start), with alpha_t = (lag + multiplier t)^-bias_power and beta_t = max((lag + multiplier t)^-ema_power,
/// lowest_rate). `start` is the policy at step `after`, where `average` begins as well. The defaults are TRL's.
struct reference_bema {
  double ema_power = 0.5, bias_power = 0.2, lag = 10.0, multiplier = 1.0, lowest_rate = 0.0;
  std::int64_t steps = 400, after = 0;

  /// Whether the reference moves after optimizer step `step`.
  [[nodiscard]] constexpr bool due(std::int64_t step) const noexcept {
    return step > after && (step - after) % steps == 0;
  }
  /// beta_t at optimizer step `step`.
  [[nodiscard]] double rate(std::int64_t step) const noexcept { return std::max(age(step, ema_power), lowest_rate); }
  /// alpha_t at optimizer step `step`.
  [[nodiscard]] double correction(std::int64_t step) const noexcept { return age(step, bias_power); }

  /// One parameter: moves `average`, writes `reference`. Throws std::invalid_argument if the shapes differ.
  template <class Policy, class Start, class Average, class Reference>
  void operator()(std::int64_t step, const Policy& policy, const Start& start, Average&& average,
                  Reference&& reference) const {
    const auto now = tensor_views::vector_of(as_view(policy));
    const auto first = tensor_views::vector_of(as_view(start));
    const auto mean = tensor_views::vector_of(as_view(average));
    const auto to = tensor_views::vector_of(as_view(reference));
    static_assert(
        decltype(now)::rank == 1 && decltype(first)::rank == 1 && decltype(mean)::rank == 1 && decltype(to)::rank == 1,
        "rlcore: parameters are passed as flat vectors");
    using element = typename decltype(to)::value_type;
    if (first.shape != now.shape || mean.shape != now.shape || to.shape != now.shape)
      throw std::invalid_argument("rlcore: policy is " + to_string<1>(now.shape) + ", start is " +
                                  to_string<1>(first.shape) + ", average is " + to_string<1>(mean.shape) +
                                  ", reference is " + to_string<1>(to.shape));
    const element keep = static_cast<element>(1.0 - rate(step)), take = static_cast<element>(rate(step));
    const element alpha = static_cast<element>(correction(step));
    for (extent_t i = 0; i < now.shape[0]; ++i) {
      mean(i) = keep * mean(i) + take * now(i);
      to(i) = mean(i) + alpha * (now(i) - first(i));
    }
  }

 private:
  double age(std::int64_t step, double power) const noexcept {
    return elementary::pow(lag + multiplier * static_cast<double>(step), -power);
  }
};

RLCORE_ALGORITHM_END

RLCORE_END
