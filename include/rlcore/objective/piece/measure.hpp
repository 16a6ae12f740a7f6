// Numbers of a token that are logged and not minimised.
#pragma once

#include <concepts>
#include <limits>
#include <string_view>

#include "rlcore/objective/piece/field.hpp"
#include "rlcore/objective/piece/piece.hpp"
#include "rlcore/simd/exact.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// A measure says what it reads, has the name of a monitor, and returns a V for a token<V>.
template <class M>
concept token_measure = requires(const M m, const token<float>& t) {
  { M::reads } -> std::convertible_to<field>;
  { M::name } -> std::convertible_to<std::string_view>;
  { m.template operator()<exact_math, float>(t) } -> std::same_as<float>;
};

/// old_logp - logp held within +-limit: verl's ppo_kl, TRL's and OpenRLHF's approximate KL.
struct ppo_kl {
  static constexpr field reads = field::logp | field::old_logp;
  static constexpr std::string_view name = "ppo_kl";
  double limit = std::numeric_limits<double>::infinity();

  template <class Math, class V>
  RLCORE_FN V operator()(const token<V>& t) const noexcept {
    const V x = t.old_logp - t.logp;
    return Math::select(x > V(limit), V(limit), Math::select(x < V(-limit), V(-limit), x));
  }
};

/// |logp - old_logp|, which verl logs as ppo_kl for kl_cov.
struct abs_ppo_kl {
  static constexpr field reads = field::logp | field::old_logp;
  static constexpr std::string_view name = "ppo_kl";

  template <class Math, class V>
  RLCORE_FN V operator()(const token<V>& t) const noexcept {
    return Math::abs(t.logp - t.old_logp);
  }
};

/// 1 for selected tokens, which clip_cov takes out of the update and verl logs as clipfrac.
struct selected_fraction {
  static constexpr field reads = field::selected;
  static constexpr std::string_view name = "clipfrac";

  template <class Math, class V>
  RLCORE_FN V operator()(const token<V>& t) const noexcept {
    return Math::select(t.selected != V(0), V(1), V(0));
  }
};

/// The value of the critic.
struct predicted_value {
  static constexpr field reads = field::value;
  static constexpr std::string_view name = "vpred";

  template <class Math, class V>
  RLCORE_FN V operator()(const token<V>& t) const noexcept {
    return t.value;
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
