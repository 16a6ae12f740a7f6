// From the words of a command line to a policy loss: a loop for each row of policy_loss_words, one for all penalties.
#pragma once

#include <concepts>
#include <span>
#include <type_traits>
#include <utility>

#include "rlcore/config/algorithm/policy_losses.hpp"
#include "rlcore/trainer/policy/algorithm/composed_loss.hpp"
#include "rlcore/trainer/policy/algorithm/penalised_loss.hpp"

RLCORE_BEGIN
namespace trainer {
namespace detail {

/// A loss whose row logs other numbers than its pieces measure.
template <class Row, policy_loss Loss>
struct logged_loss : Loss {
  explicit logged_loss(Loss l) : Loss(std::move(l)) {}
  policy_report loss(const policy_rows& rows, const global_counts& step, std::span<float> dlogp,
                     std::span<float> dentropy) const {
    policy_report out = Loss::loss(rows, step, dlogp, dentropy);
    Row::log(rows, out);
    return out;
  }
};

/// The policy loss of a row, without penalties.
template <class Row>
any_policy_loss policy_term(const policy_loss_settings& s) {
  const auto named = Row::compose(s);
  const auto with_selection = [&](auto objective, auto aggregation) {
    if constexpr (requires { Row::selection(s); })
      return composed_loss{objective, aggregation, Row::selection(s)};
    else
      return composed_loss{objective, aggregation};
  };
  const auto composed = [&] {
    if constexpr (Row::own_aggregation)
      return with_selection(named.objective, named.aggregation);
    else if constexpr (requires { Row::aggregation(s); })
      return with_selection(named.objective, Row::aggregation(s));
    else
      return with_selection(named.objective, s.aggregation);
  }();
  if constexpr (requires(policy_rows rows, policy_report out) { Row::log(rows, out); })
    return logged_loss<Row, std::remove_const_t<decltype(composed)>>(composed);
  else
    return composed;
}

/// The loss that most runs have gets its penalties into its own loop: nothing is read twice.
template <std::same_as<policy_loss_settings> Settings>
any_policy_loss fused(const Settings& s) {
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

/// policy + kl_coef KL - entropy_coeff entropy, each aggregated over the whole optimizer step: the loss that the word
/// `s.mode` names. Unlike verl's, means are over the whole step, not over micro-batches first. Throws config_error for
/// an unknown word. A template, so that its loops are compiled only where it is called.
template <std::same_as<policy_loss_settings> Settings>
any_policy_loss make_policy_loss(const Settings& s) {
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
