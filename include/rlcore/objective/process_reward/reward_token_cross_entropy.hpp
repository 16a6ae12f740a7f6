// Hard judgements of steps, spoken in a few tokens of the vocabulary.
#pragma once

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "rlcore/core/elementary.hpp"
#include "rlcore/objective/distillation/detail/support.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// Throws std::invalid_argument unless the tokens are entries of the vocabulary and differ.
template <std::size_t R>
void check_reward_tokens(const std::array<std::int64_t, R>& tokens, extent_t vocabulary) {
  for (std::size_t r = 0; r < R; ++r) {
    bool repeated = false;
    for (std::size_t q = 0; q < r; ++q) repeated |= tokens[q] == tokens[r];
    if (tokens[r] < 0 || tokens[r] >= vocabulary || repeated)
      throw std::invalid_argument("rlcore: reward token " + std::to_string(r) + " is " + std::to_string(tokens[r]) +
                                  ": expected different entries of a vocabulary of " + std::to_string(vocabulary));
  }
}

/// Cross-entropy over R reward tokens alone: -log p_y with p = softmax of their logits; labels are indices 0 ... R - 1
/// into `tokens` (OpenRLHF PRM with reward_token_ids). gradient on those logits: p - onehot. Without the restriction,
/// use cross_entropy with the token itself as label. Monitor: share of labels that have the largest of the R logits.
template <std::size_t R>
struct reward_token_cross_entropy {
  static_assert(R >= 2, "rlcore: a judgement needs two reward tokens or more");
  static constexpr logits_field reads = logits_field::label;
  static constexpr std::string_view name = "process_reward";
  static constexpr std::array<std::string_view, 1> monitors{"accuracy"};
  std::array<std::int64_t, R> tokens;

  /// Throws std::invalid_argument unless the tokens are entries of the vocabulary and differ.
  void check(extent_t vocabulary) const { check_reward_tokens(tokens, vocabulary); }
  static constexpr extent_t label_count() noexcept { return static_cast<extent_t>(R); }

  template <class T>
  logits_term<1> operator()(const logits_position<T>& x, const logits_gradient<T>& g) const noexcept {
    constexpr extent_t classes = static_cast<extent_t>(R);
    const auto z = [&](extent_t r) { return x.logits[static_cast<extent_t>(tokens[static_cast<std::size_t>(r)])]; };
    const double lse = detail::log_sum_exp(classes, z), chosen = z(static_cast<extent_t>(x.label));
    logits_term<1> out{lse - chosen, {1}};
    for (extent_t r = 0; r < classes; ++r) out.monitor[0] *= z(r) <= chosen ? 1 : 0;
    if (g.wanted()) {
      g.fill(T(0));
      for (extent_t r = 0; r < classes; ++r)
        g.add_at(static_cast<extent_t>(tokens[static_cast<std::size_t>(r)]),
                 elementary::exp(z(r) - lse) - (r == x.label ? 1 : 0));
    }
    return out;
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
