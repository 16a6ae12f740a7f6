// SPO (Xu and Ding 2025): one answer per prompt, with earlier answers' rewards as baseline.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "rlcore/core/elementary.hpp"
#include "rlcore/core/scratch_vector.hpp"
#include "rlcore/objective/advantage/detail/groups.hpp"
#include "rlcore/objective/advantage/whitening.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// The share of the past that still counts, by how far the policy has moved on a prompt since its last answer:
/// 2^(-distance / half_life), limited to [least, most]. `distance` is the mean of |old logp - new logp| over the
/// tokens. Throws std::invalid_argument unless half_life > 0 and least <= most.
struct spo_forgetting {
  double half_life = 0.06, least = 0.875, most = 0.96;
  /// The share of the past that counts at this distance.
  double operator()(double distance) const {
    if (!(half_life > 0) || !(least <= most))
      throw std::invalid_argument("rlcore: spo_forgetting needs half_life > 0 and least <= most, they are " +
                                  std::to_string(half_life) + ", " + std::to_string(least) + " and " +
                                  std::to_string(most));
    return std::clamp(elementary::exp2(-distance / half_life), least, most);
  }
};

/// The success rate of one prompt as a Beta distribution (SPO, Xu and Ding 2025). Rewards are in [0, 1].
struct beta_tracker {
  double alpha = 0.5, beta = 0.5;

  /// From `successes` of `count` earlier answers, worth as much as 1 / (1 - least) answers.
  static beta_tracker from_samples(std::int64_t successes, std::int64_t count, double least = spo_forgetting{}.least) {
    if (successes < 0 || successes > count || !(least < 1))
      throw std::invalid_argument("rlcore: beta_tracker of " + std::to_string(successes) + " successes among " +
                                  std::to_string(count) + " samples, least share " + std::to_string(least));
    const double worth = 1 / (1 - least), answers = static_cast<double>(count), good = static_cast<double>(successes);
    return {worth * (good + 0.5) / (answers + 1), worth * (answers - good + 0.5) / (answers + 1)};
  }
  /// The expected reward: the baseline of the next answer.
  double mean() const noexcept { return alpha / (alpha + beta); }
  /// With the next reward; `share` of the past is kept. A NaN reward (unscored) changes nothing.
  beta_tracker updated(double reward, double share) const noexcept {
    if (std::isnan(reward)) return *this;
    return {share * alpha + reward, share * beta + (1 - reward)};
  }
  /// How often the prompt should be sampled, relative to others: where the outcome is uncertain.
  double sampling_weight(double exploration = 0.05) const noexcept {
    return std::sqrt(mean() * (1 - mean())) + exploration;
  }
};

/// A = (x - mean x) / (std x + epsilon) over the batch, x = R - baseline, the mean of the prompt's beta_tracker before
/// its update (SPO). Without groups. A NaN reward (unscored row) is left out and gets 0; equal x give exactly 0.
struct spo {
  row_normalization last{{.epsilon = 1e-8, .guard = variance_guard::add_to_deviation}};

  /// `baselines`: one value per row.
  template <class Rewards, class Baselines, class Advantages>
  void operator()(const Rewards& rewards, const Baselines& baselines, Advantages&& advantages) const {
    scratch_vector<double> x = detail::read_numbers("reward", rewards);
    const scratch_vector<double> baseline = detail::read_numbers("baseline", baselines);
    if (baseline.size() != x.size())
      throw std::invalid_argument("rlcore: baselines are [" + std::to_string(baseline.size()) + "], rewards are [" +
                                  std::to_string(x.size()) + "]");
    for (std::size_t i = 0; i < x.size(); ++i) x[i] -= baseline[i];
    last.normalize(x, {});
    detail::write_numbers("advantages", x, advantages);
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
