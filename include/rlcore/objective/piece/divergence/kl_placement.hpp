// Where the KL to the reference enters: nowhere, in the reward, or in the loss.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include "rlcore/objective/piece/combine/scaled.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/piece/piece.hpp"
#include "rlcore/objective/reward/divergence_in_reward.hpp"

RLCORE_BEGIN

/// No KL term at all.
struct no_kl {};

/// coefficient * divergence as part of the loss.
template <class Divergence>
struct kl_in_loss {
  static_assert(
      !requires { requires Divergence::zero_mean_gradient; },
      "rlcore: k1 as a loss has a gradient that is zero in expectation; use k2 or k3, put k1 into the reward "
      "(kl_in_reward), or write with_kl_gradient(k1{})");
  double coefficient;
  [[no_unique_address]] Divergence divergence;
  constexpr kl_in_loss(double coefficient_, Divergence divergence_)
      : coefficient(coefficient_), divergence(divergence_) {}
};

template <class P>
inline constexpr bool is_kl_placement = false;
template <>
inline constexpr bool is_kl_placement<no_kl> = true;
template <>
inline constexpr bool is_kl_placement<kl_in_reward> = true;
template <class Divergence>
inline constexpr bool is_kl_placement<divergence_in_reward<Divergence>> = true;
template <class Divergence>
inline constexpr bool is_kl_placement<kl_in_loss<Divergence>> = true;

template <class P>
inline constexpr bool is_kl_in_loss = false;
template <class Divergence>
inline constexpr bool is_kl_in_loss<kl_in_loss<Divergence>> = true;

/// no_kl, kl_in_reward, divergence_in_reward<D> or kl_in_loss<D>. A thing that holds one object of such a type has the
/// KL in exactly one place.
template <class P>
concept kl_placement = is_kl_placement<P>;

/// The objective of `surrogate` under a placement: kl_in_loss adds its term, the others change nothing. Refused if the
/// surrogate has a KL term already, so that none is counted twice.
template <class Objective, kl_placement Placement>
requires(composite_piece<Objective> ||
         token_piece<Objective>) constexpr auto with_kl(const Objective& surrogate,
                                                        const Placement& placement) noexcept {
  constexpr bool has_kl = []<std::size_t... Index>(std::index_sequence<Index...>) {
    return ((piece_type<Index, Objective>::name == "kl") || ...);
  }
  (std::make_index_sequence<piece_count<Objective>>{});
  static_assert(!has_kl || std::is_same_v<Placement, no_kl>,
                "rlcore: this objective has a KL term already, so with_kl would count it twice; pass the surrogate "
                "alone, or no_kl{}");
  if constexpr (is_kl_in_loss<Placement>)
    return sum{surrogate, scaled{placement.coefficient, placement.divergence}};
  else
    return surrogate;
}

RLCORE_END
