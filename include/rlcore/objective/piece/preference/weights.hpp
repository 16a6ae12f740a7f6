// Weights and transforms of pairs and tokens in preference losses: WPO, LD-DPO; and the implicit reward.
//
// Rewards of f-DPO, for divergences other than the reverse KL: f'(pi / pi_ref), per unit of beta.
//
// Each is 0 for equal policies and gets one sequence's score u; it returns the reward and its slope by u.
#pragma once

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

#include "rlcore/core/compiler.hpp"
#include "rlcore/core/elementary.hpp"
#include "rlcore/objective/piece/piece.hpp"
#include "rlcore/objective/piece/preference/link.hpp"
#include "rlcore/tensor/span.hpp"
#include "rlcore/tensor/traits.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// weighted_pair{link}: value and slopes times field::weight of both rows (one value per row, constant). With the
/// weights of wpo_weights it is WPO (Zhou et al. 2024; TRL use_weighting). Monitors are not weighted.
template <class Link>
struct weighted_pair {
  static_assert(pair_link<Link>,
                "rlcore: weighted_pair holds a link of pairs; a link of single rows is weighted by "
                "weighted{link}");
  using gathers = gathers_of<Link>;
  static constexpr field reads = row_fields_of<Link>() | field::weight;
  static constexpr std::string_view name = Link::name;
  static constexpr auto monitors = monitors_of<Link>();
  [[no_unique_address]] Link link;

  /// The link `l` times the weights of both rows.
  constexpr explicit weighted_pair(Link l) : link(l) {}

  constexpr auto score() const noexcept
    requires(!std::is_same_v<gathers, no_gather>)
  {
    return score_of(link);
  }

  template <class Math, class V>
  RLCORE_FN pair_term<V, monitor_count<Link>> operator()(const token<V>& chosen,
                                                         const token<V>& rejected) const noexcept {
    auto result = link.template operator()<Math, V>(chosen, rejected);
    const V w = chosen.weight * rejected.weight;
    result.value = result.value * w;
    result.slope_chosen = result.slope_chosen * w;
    result.slope_rejected = result.slope_rejected * w;
    return result;
  }
};

/// weights[i] = exp(mean over live t of (logp[i, t] - log sum_v pi(v | prefix)^2)): the length-normalised probability
/// of a sequence, relative to that of sampling the same token twice (WPO, Zhou et al. 2024, equation 2 with sampled
/// alignment; TRL use_weighting). A constant for the gradient. Matrices are [rows, tokens], mask is non-zero where a
/// token counts; a row without live tokens gets 1. Throws std::invalid_argument if shapes differ.
template <class Logp, class SquareSum, class Mask, class Weights>
void wpo_weights(const Logp& logp_, const SquareSum& log_square_sum_, const Mask& mask_, Weights&& weights_) {
  const auto logp = as_view<2>(logp_);
  const auto square_sum = as_view<2>(log_square_sum_);
  const auto mask = as_view<2>(mask_);
  const auto weights = as_view<1>(weights_);
  if (logp.shape != square_sum.shape || logp.shape != mask.shape || weights.shape[0] != logp.shape[0])
    throw std::invalid_argument("rlcore: logp is " + to_string<2>(logp.shape) + ", log_square_sum " +
                                to_string<2>(square_sum.shape) + ", mask " + to_string<2>(mask.shape) + ", weights " +
                                to_string<1>(weights.shape));
  for (extent_t i = 0; i < logp.shape[0]; ++i) {
    double sum = 0, live = 0;
    for (extent_t t = 0; t < logp.shape[1]; ++t) {
      if (mask(i, t) == 0) continue;
      sum += static_cast<double>(logp(i, t)) - static_cast<double>(square_sum(i, t));
      live += 1;
    }
    using number = typename decltype(weights)::value_type;
    weights(i) = static_cast<number>(live > 0 ? elementary::exp(sum / live) : 1.0);
  }
}

/// weights[i, t] = 1 up to the length of the shorter answer of the pair (rows 2k and 2k + 1), alpha beyond it, 0 where
/// the mask is 0: LD-DPO (Liu et al. 2024; TRL ld_alpha). Use with sum_of<weighted_log_ratio_to_reference>. Lengths
/// count live tokens. alpha 1 is DPO, 0 ignores the tail. Throws std::invalid_argument if alpha is outside [0, 1],
/// shapes differ or rows are odd.
template <class Mask, class Weights>
void ld_dpo_weights(const Mask& mask_, double alpha, Weights&& weights_) {
  const auto mask = as_view<2>(mask_);
  const auto weights = as_view<2>(weights_);
  if (!(alpha >= 0 && alpha <= 1))
    throw std::invalid_argument("rlcore: alpha of LD-DPO is between 0 and 1, not " + std::to_string(alpha));
  if (mask.shape != weights.shape || mask.shape[0] % 2 != 0)
    throw std::invalid_argument("rlcore: LD-DPO needs pairs of rows and weights of the mask's shape; mask is " +
                                to_string<2>(mask.shape) + ", weights " + to_string<2>(weights.shape));
  const auto live = [&](extent_t i) {
    extent_t n = 0;
    for (extent_t t = 0; t < mask.shape[1]; ++t) n += mask(i, t) != 0;
    return n;
  };
  using number = typename decltype(weights)::value_type;
  for (extent_t pair = 0; pair < mask.shape[0]; pair += 2) {
    const extent_t first = live(pair), second = live(pair + 1);
    const extent_t shared = first < second ? first : second;
    for (extent_t i = pair; i < pair + 2; ++i)
      for (extent_t t = 0, seen = 0; t < mask.shape[1]; ++t) {
        const bool counts = mask(i, t) != 0;
        seen += counts;
        weights(i, t) = static_cast<number>(!counts ? 0.0 : seen <= shared ? 1.0 : alpha);
      }
  }
}

/// u: the reverse KL, that is plain DPO.
struct reverse_kl_reward {
  template <class Math, class V>
  RLCORE_FN term<V> operator()(const V& u) const noexcept {
    return {u, V(1)};
  }
};

/// 1 - e^-u.
struct forward_kl_reward {
  template <class Math, class V>
  RLCORE_FN term<V> operator()(const V& u) const noexcept {
    return {-Math::expm1(-u), Math::exp(-u)};
  }
};

/// log 2 + log sigmoid(u), slope sigmoid(-u): the Jensen-Shannon divergence.
struct jensen_shannon_reward {
  template <class Math, class V>
  RLCORE_FN term<V> operator()(const V& u) const noexcept {
    return {V(0.6931471805599453) - Math::softplus(-u), Math::sigmoid(-u)};
  }
};

/// (e^{(alpha - 1) u} - 1) / (alpha - 1), slope e^{(alpha - 1) u}; u itself where alpha is within 1e-6 of 1. Exponents
/// above `largest_exponent` are clamped to it and have slope 0, as in TRL (80; in half precision it uses 11).
struct alpha_divergence_reward {
  double alpha = 0.5, largest_exponent = 80;
  template <class Math, class V>
  RLCORE_FN term<V> operator()(const V& u) const noexcept {
    if (std::abs(alpha - 1) < 1e-6) return {u, V(1)};
    const V x = V(alpha - 1) * u;
    const V held = Math::min(x, V(largest_exponent));
    return {Math::expm1(held) / V(alpha - 1), Math::select(x > V(largest_exponent), V(0), Math::exp(x))};
  }
};

/// transformed{reward, link}: the link on reward(chosen), reward(rejected), slopes by the chain rule. With the rewards
/// above it is f-DPO (Wang et al. 2024; TRL f_divergence_type). It transforms any link that it holds. TRL's function
/// leaves nca_pair, bco_pair, sppo_hard, aot and apo_* untransformed and its newer trainers refuse them; here, do not
/// wrap those. Monitors are of the transformed rewards. The gathered score is transformed: the mean log-ratio with
/// mean_of. To transform the sum and then average it, as TRL does, hold per_token{link}.
template <class Reward, class Link>
struct transformed {
  static_assert(pair_link<Link>,
                "rlcore: transformed holds a reward and a link of pairs, e.g. "
                "transformed{forward_kl_reward{}, bradley_terry{}}");
  using gathers = gathers_of<Link>;
  static constexpr field reads = row_fields_of<Link>();
  static constexpr std::string_view name = Link::name;
  static constexpr auto monitors = monitors_of<Link>();
  [[no_unique_address]] Reward reward;
  [[no_unique_address]] Link link;

  /// The link `l` on either score transformed by `r`.
  constexpr transformed(Reward r, Link l) : reward(r), link(l) {}

  constexpr auto score() const noexcept
    requires(!std::is_same_v<gathers, no_gather>)
  {
    return score_of(link);
  }

  template <class Math, class V>
  RLCORE_FN pair_term<V, monitor_count<Link>> operator()(const token<V>& chosen,
                                                         const token<V>& rejected) const noexcept {
    const term<V> up = reward.template operator()<Math, V>(chosen.logp);
    const term<V> down = reward.template operator()<Math, V>(rejected.logp);
    token<V> c = chosen, r = rejected;
    c.logp = up.value, r.logp = down.value;
    auto result = link.template operator()<Math, V>(c, r);
    result.slope_chosen = result.slope_chosen * up.slope;
    result.slope_rejected = result.slope_rejected * down.slope;
    return result;
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
