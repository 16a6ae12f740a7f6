// Creates the policy loss of a command line: one loop per row of policy_loss_words, one for all penalties.
#pragma once

#include <span>
#include <type_traits>
#include <utility>

#include "rlcore/config/algorithm/policy_losses.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/trainer/policy/algorithm/composed_loss.hpp"
#include "rlcore/trainer/policy/algorithm/penalised_loss.hpp"

RLCORE_BEGIN
namespace trainer {
namespace detail {

/// The objective of a row, with its logged measures.
template <class Row, class Objective>
constexpr auto objective_of(const Objective& objective) {
  if constexpr (requires { Row::measure; })
    return measure_at_first(objective, Row::measure);
  else
    return objective;
}

/// The policy loss of a row, without penalties.
template <class Row>
any_policy_loss policy_term(const policy_loss_settings& s) {
  const auto named = Row::compose(s);
  const auto objective = objective_of<Row>(named.objective);
  const auto with_selection = [&](auto aggregation) -> any_policy_loss {
    if constexpr (requires { Row::selection(s); })
      return composed_loss{objective, aggregation, Row::selection(s)};
    else
      return composed_loss{objective, aggregation};
  };
  if constexpr (Row::own_aggregation)
    return with_selection(named.aggregation);
  else if constexpr (requires { Row::aggregation(s); })
    return with_selection(Row::aggregation(s));
  else
    return with_selection(s.aggregation);
}

/// The most common loss fuses its penalties into its own loop: nothing is read twice.
any_policy_loss fused(const policy_loss_settings& s);

}  // namespace detail

/// policy + kl_coef KL - entropy_coeff entropy, each aggregated over the whole optimizer step: the loss named by
/// `s.mode`. Unlike verl's, means are over the whole step, not over micro-batches first. Throws config_error for an
/// unknown word.
any_policy_loss make_policy_loss(const policy_loss_settings& s);

}  // namespace trainer
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAINER)
RLCORE_BEGIN
namespace trainer {

namespace detail {

RLCORE_INLINE any_policy_loss fused(const policy_loss_settings& s) {
  const auto policy = named::vanilla::compose(s).objective;
  const scaled kl{s.kl_coef, any_divergence{.kind = s.kl, .straight = s.straight_through}};
  const auto entropy = entropy_bonus(s.entropy_coeff);
  const bool with_entropy = s.entropy_coeff != 0;
  if (s.use_kl && with_entropy) return composed_loss{sum{sum{policy, kl}, entropy}, s.aggregation};
  if (s.use_kl) return composed_loss{sum{policy, kl}, s.aggregation};
  if (with_entropy) return composed_loss{sum{sum{policy}, entropy}, s.aggregation};
  return composed_loss{sum{policy}, s.aggregation};
}

}  // namespace detail

RLCORE_INLINE any_policy_loss make_policy_loss(const policy_loss_settings& s) {
  return policy_loss_words::visit(
      "actor_rollout_ref.actor.policy_loss.loss_mode", s.mode, [&](auto row) -> any_policy_loss {
        using row_type = decltype(row);
        if constexpr (std::is_same_v<row_type, named::vanilla>) {
          return detail::fused(s);
        } else {
          const penalties added{.kl = {.kind = s.kl, .straight = s.straight_through, .absent = !s.use_kl},
                                .kl_coef = s.kl_coef,
                                .entropy_coeff = s.entropy_coeff,
                                .aggregation = s.aggregation};
          return penalised_loss{detail::policy_term<row_type>(s), added};
        }
      });
}

}  // namespace trainer
RLCORE_END
#endif
