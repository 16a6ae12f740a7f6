// Soft judgements of steps, such as the share of continuations that succeed.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "rlcore/core/elementary.hpp"
#include "rlcore/objective/process_reward/reward_token_cross_entropy.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// -sum_r y_r log p_r with p the softmax over R reward tokens and y = logits_batch::targets (OpenRLHF PRM with soft
/// labels has R = 2 and y = (y, 1 - y), the positive token first; Math-Shepherd, Wang et al. 2024). gradient on those
/// logits: p_r sum y - y_r. Monitor: whether the largest logit and the largest y agree.
template <std::size_t R>
struct soft_reward_cross_entropy {
  static_assert(R >= 2, "rlcore: a judgement needs two reward tokens or more");
  static constexpr logits_field reads = logits_field::target;
  static constexpr std::string_view name = "process_reward";
  static constexpr std::array<std::string_view, 1> monitors{"accuracy"};
  std::array<std::int64_t, R> tokens;

  /// Throws std::invalid_argument unless the tokens are entries of the vocabulary and differ.
  void check(extent_t vocabulary) const { check_reward_tokens(tokens, vocabulary); }
  static constexpr extent_t target_count() noexcept { return static_cast<extent_t>(R); }

  template <class T>
  logits_term<1> operator()(const logits_position<T>& x, const logits_gradient<T>& g) const noexcept {
    constexpr extent_t classes = static_cast<extent_t>(R);
    const auto z = [&](extent_t r) { return x.logits[static_cast<extent_t>(tokens[static_cast<std::size_t>(r)])]; };
    const double lse = detail::log_sum_exp(classes, z);
    logits_term<1> out;
    extent_t largest = 0, likeliest = 0;
    double total = 0;
    for (extent_t r = 0; r < classes; ++r) {
      const double y = static_cast<double>(x.target[r]);
      total += y;
      if (y != 0) out.value += y * (lse - z(r));
      if (z(r) > z(largest)) largest = r;
      if (y > static_cast<double>(x.target[likeliest])) likeliest = r;
    }
    out.monitor[0] = largest == likeliest ? 1 : 0;
    if (g.wanted()) {
      g.fill(T(0));
      for (extent_t r = 0; r < classes; ++r)
        g.add_at(static_cast<extent_t>(tokens[static_cast<std::size_t>(r)]),
                 elementary::exp(z(r) - lse) * total - static_cast<double>(x.target[r]));
    }
    return out;
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
