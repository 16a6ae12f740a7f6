// verl's KL estimators by name, for choices made at run time.
#pragma once

#include <cstdint>

#include "rlcore/objective/piece/divergence/abs_kl.hpp"
#include "rlcore/objective/piece/divergence/clamped_k3.hpp"
#include "rlcore/objective/piece/divergence/k1.hpp"
#include "rlcore/objective/piece/divergence/k2.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// verl's kl or k1, abs, mse or k2, low_var_kl or k3 (clamped).
enum class kl_kind : std::uint8_t { k1, abs_kl, k2, k3 };

/// f(piece) with the piece that `kind` names; all calls must return the same type.
template <class F>
constexpr auto visit_divergence(kl_kind kind, F&& f) {
  switch (kind) {
    case kl_kind::k1:
      return f(k1{});
    case kl_kind::abs_kl:
      return f(abs_kl{});
    case kl_kind::k2:
      return f(k2{});
    case kl_kind::k3:
      break;
  }
  return f(clamped_k3{});
}

RLCORE_ALGORITHM_END
RLCORE_END
