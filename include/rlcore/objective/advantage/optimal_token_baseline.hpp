// Optimal token baseline: the baseline of least variance, per token and per prompt.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

#include "rlcore/core/elementary.hpp"
#include "rlcore/core/scratch_vector.hpp"
#include "rlcore/objective/advantage/detail/groups.hpp"
#include "rlcore/objective/advantage/detail/tokens.hpp"
#include "rlcore/objective/advantage/estimator.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// Inputs of optimal_token_baseline, all [rows, tokens]. Without `weight` (importance weights), it is 1.
template <class T>
struct optimal_token_inputs {
  matrix_view<const T> rewards{}, old_logp{}, sum_squared_probs{}, weight{};
  token_mask mask{};
};

/// Which tokens of two rows are compared.
enum class token_alignment : std::uint8_t {
  position,  ///< the same slot (verl's optimal_token_baseline)
  action,    ///< the same number of live tokens before: tool tokens do not count (tir_optimal_token_baseline)
};

/// A_t = G_t - B_t, G_t the rewards from t on. With w_t = 1 - 2 p_t + sum p^2 (the squared norm of the score by the
/// logits, p_t = exp(old_logp), sum p^2 over the vocabulary) times weight^2, and W_t = w_1 + ... + w_t along a row, the
/// baseline of a group at t is B_t = sum_j G_jt W_jt / (sum_j W_jt + epsilon) over the rows that are live at t (verl's
/// optimal_token_baseline; after Weaver and Tao 2001).
///
/// `zero_tail`: where a row is longer than all others of its group, it has no row to compare with and B = 0. As in
/// verl, lengths are numbers of live tokens, also where `position` counts slots: with n in the second-longest row, the
/// longest has B = 0 from slot n on, whatever is masked before. A group with one scored row gets G, or 0. Where all G
/// of a position are equal, A = 0 exactly. A row with a NaN among its live rewards is unscored: left out, and 0. Masked
/// slots are not read and get 0. Throws std::invalid_argument for other shapes.
struct optimal_token_baseline {
  static constexpr advantage_input reads = advantage_input::sum_squared_probs;
  token_alignment align = token_alignment::position;
  bool zero_tail = true;
  double epsilon = 1e-8;
  singleton_group singleton = singleton_group::reward;

  /// Writes A, [rows, tokens]. `groups`: the number of consecutive rows in each group, or a vector with any integer
  /// that names the prompt of each row.
  template <class T, class Groups, class Advantages>
  void operator()(const optimal_token_inputs<T>& in, const Groups& groups, Advantages&& advantages) const {
    const auto out = as_view<2>(advantages);
    const extents<2>& shape = in.rewards.shape;
    detail::check_shape("advantages", out.shape, "rewards", shape);
    detail::check_shape("old_logp", in.old_logp.shape, "rewards", shape);
    detail::check_shape("sum_squared_probs", in.sum_squared_probs.shape, "rewards", shape);
    if (in.weight.data != nullptr) detail::check_shape("weights", in.weight.shape, "rewards", shape);
    detail::check_mask_shape(in.mask, "rewards", shape);
    for (extent_t i = 0; i < shape[0]; ++i)
      for (extent_t t = 0; t < shape[1]; ++t) out(i, t) = 0;
    const detail::grouped_rows grouped = detail::group_rows(shape[0], groups);
    for (std::size_t g = 0; g < grouped.groups(); ++g) one_group(in, grouped.group(g), out);
  }

 private:
  /// One live token: its slot, what follows, and the variance of the path to it.
  struct step {
    extent_t slot;
    std::size_t at;  // where it is compared
    double to_go, path;
  };
  struct path {
    extent_t row;
    scratch_vector<step> steps;
    std::size_t end() const noexcept { return steps.empty() ? 0 : steps.back().at + 1; }
  };

  template <class T, class Out>
  void one_group(const optimal_token_inputs<T>& in, std::span<const extent_t> rows, const Out& out) const {
    using result = typename Out::value_type;
    scratch_vector<path> paths;
    for (const extent_t row : rows) {
      path p = path_of(in, row);
      if (!p.steps.empty() && std::isnan(p.steps.front().to_go)) continue;
      paths.push_back(std::move(p));
    }
    if (paths.size() == 1 && singleton == singleton_group::zero) return;
    std::size_t end = 0, longest = 0, second = 0;  // the last two: live tokens of rows
    const path* alone = nullptr;                   // the row with the most of them
    for (const path& p : paths) {
      const std::size_t n = p.steps.size();
      end = std::max(end, p.end());
      if (n > longest)
        second = longest, longest = n, alone = &p;
      else if (second = std::max(second, n); n == longest)
        alone = nullptr;
    }
    if (!zero_tail && paths.size() > 1) alone = nullptr;
    struct column {
      double weighted = 0, weight = 0, low = 0, high = 0;
      std::size_t rows = 0;
    };
    scratch_vector<column> columns(end);
    for (const path& p : paths)
      for (const step& s : p.steps) {
        column& c = columns[s.at];
        c.weighted += s.to_go * s.path, c.weight += s.path;
        c.low = c.rows == 0 ? s.to_go : std::min(c.low, s.to_go);
        c.high = c.rows == 0 ? s.to_go : std::max(c.high, s.to_go);
        ++c.rows;
      }
    for (const path& p : paths)
      for (const step& s : p.steps) {
        const column& c = columns[s.at];
        double a = s.to_go;
        if (&p != alone || s.at < second) a = c.low == c.high ? 0.0 : s.to_go - c.weighted / (c.weight + epsilon);
        out(p.row, s.slot) = static_cast<result>(a);
      }
  }

  template <class T>
  path path_of(const optimal_token_inputs<T>& in, extent_t row) const {
    path p{row, {}};
    double sum = 0;
    for (extent_t t = 0; t < in.rewards.shape[1]; ++t) {
      if (token_block::live_bits(in.mask, row, t, 1) == 0) continue;
      double w = 1 - 2 * elementary::exp(static_cast<double>(in.old_logp(row, t))) +
                 static_cast<double>(in.sum_squared_probs(row, t));
      if (in.weight.data != nullptr)
        w *= static_cast<double>(in.weight(row, t)) * static_cast<double>(in.weight(row, t));
      sum += w;
      p.steps.push_back({t, align == token_alignment::action ? p.steps.size() : static_cast<std::size_t>(t),
                         static_cast<double>(in.rewards(row, t)), sum});
    }
    double to_go = 0;
    for (std::size_t k = p.steps.size(); k-- > 0;) p.steps[k].to_go = to_go += p.steps[k].to_go;
    return p;
  }
};

/// V* = temperature log mean_i exp(R_i / temperature) over samples of the reference policy: the value of the prompt
/// under the policy that is optimal for a KL penalty of `temperature` (A*PO, Brantley et al. 2025; TRL's A2PO, beta1).
/// Its loss regresses R - V* on the log-ratio.
///
/// Written for every scored row of the group; equal rewards give exactly that reward. A NaN reward (unscored row) is
/// left out and gets 0. A2PO drops prompts without any reward before: keep_groups{any_positive{}}. Throws
/// std::invalid_argument unless temperature > 0.
struct optimal_value {
  double temperature = 0.5;

  /// Writes V* to `values`, one per row. `groups`: the number of consecutive rows in each group, or a vector with any
  /// integer that names the prompt of each row.
  template <class Rewards, class Groups, class Values>
  void operator()(const Rewards& rewards, const Groups& groups, Values&& values) const {
    detail::outcome_advantages(
        rewards, groups, values,
        [this](std::span<const double> reward, std::span<const std::size_t>, std::span<double> value) {
          for (double& v : value) v = of(reward);
        });
  }

  /// Of one group of scored rewards.
  double of(std::span<const double> reward) const {
    if (!(temperature > 0))
      throw std::invalid_argument("rlcore: optimal_value needs temperature > 0, it is " + std::to_string(temperature));
    double high = reward[0], sum = 0;
    for (const double r : reward) high = r > high ? r : high;
    for (const double r : reward) sum += elementary::exp((r - high) / temperature);
    return high + temperature * elementary::log(sum / static_cast<double>(reward.size()));
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
