// The named per-token inputs that a piece may read.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"

RLCORE_BEGIN

/// A set of per-token inputs; combine with |. Log-probs are those of the token that was sampled.
enum class field : unsigned {
  none = 0,
  logp = 1,          ///< log pi_theta, the current policy
  old_logp = 2,      ///< the proximal policy, at the start of the step
  ref_logp = 4,      ///< the reference policy
  rollout_logp = 8,  ///< the behaviour policy, as recorded by the sampler
  advantage = 16,    ///< constant
  weight = 32,       ///< off-policy correction, constant
  entropy = 64,      ///< of the current policy's distribution at this position
  value = 128,       ///< of the current critic
  old_value = 256,   ///< of the critic at the start of the step
  target = 512,      ///< return or label, constant
  selected = 1024,   ///< 1 where a selection over the batch chose the token, else 0
  gathered = 2048,   ///< what the objective gathered over the token's row: computed by the loop, not an input
};

/// The fields of either set.
constexpr field operator|(field a, field b) noexcept {
  return static_cast<field>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
/// Whether `set` has a field of `f`.
RLCORE_FN constexpr bool contains(field set, field f) noexcept {
  return (static_cast<unsigned>(set) & static_cast<unsigned>(f)) != 0;
}

inline constexpr std::size_t field_count = 12;
inline constexpr std::array<std::string_view, field_count> field_names{
    "logp",    "old_logp", "ref_logp",  "rollout_logp", "advantage", "weight",
    "entropy", "value",    "old_value", "target",       "selected",  "gathered"};

/// The i-th field, the one with bit i.
RLCORE_FN constexpr field field_at(std::size_t i) noexcept { return static_cast<field>(1u << i); }

/// What a piece sees of one token (V = float) or of one token per lane (V = pack). Fields that no piece reads are
/// never loaded and hold nothing.
template <class V>
struct token {
  V logp, old_logp, ref_logp, rollout_logp, advantage, weight, entropy, value, old_value, target, selected, gathered;
};

/// token<V>::*field_member<V>[i] is the member of field_at(i).
template <class V>
inline constexpr V token<V>::*field_member[field_count] = {
    &token<V>::logp,      &token<V>::old_logp, &token<V>::ref_logp, &token<V>::rollout_logp,
    &token<V>::advantage, &token<V>::weight,   &token<V>::entropy,  &token<V>::value,
    &token<V>::old_value, &token<V>::target,   &token<V>::selected, &token<V>::gathered};

RLCORE_END
