// Full-vocabulary divergences for distillation: forward and reverse KL, JSD, skew KL, total variation, cosine.
#pragma once

#include <cmath>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"
#include "rlcore/core/elementary.hpp"
#include "rlcore/objective/vocabulary/logits_piece.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace detail {

/// Single precision: float, or packs of it.
template <class V>
inline constexpr bool is_single = std::is_same_v<V, float>;
template <class V>
  requires requires { typename V::value_type; }
inline constexpr bool is_single<V> = std::is_same_v<typename V::value_type, float>;

/// log(1 + x) for 0 <= x <= 1 without a library call: 2 artanh(s) = 2 s (1 + s^2 / 3 + s^4 / 5 + ...) with s = x / (2 +
/// x)
/// <= 1/3. The first term left out is below half a unit in the last place.
template <class V>
RLCORE_FN V log1p_below_one(const V& x) noexcept {
  constexpr int terms = is_single<V> ? 8 : 17;
  const V s = x / (x + V(2)), w = s * s;
  V sum = V(1) / V(2 * terms - 1);
  for (int k = terms - 2; k >= 0; --k) sum = sum * w + V(1) / V(2 * k + 1);
  return (s + s) * sum;
}

/// log(e^x + e^y) without leaving log space: mixtures of probabilities that underflow stay finite.
template <class Math, class V>
RLCORE_FN V log_add(const V& x, const V& y) noexcept {
  return Math::max(x, y) + log1p_below_one(Math::exp(-Math::abs(x - y)));
}

}  // namespace detail

/// KL(P || S) = sum_j P_j (log P_j - log S_j), P the teacher, S the student: covers the teacher's modes (Hinton et al.
/// 2015; beta = 0 of GKD). gradient by z: S_j - P_j. For KL(reference || policy), "full reverse" of a KL penalty, the
/// reference is the teacher. Infinite where S lacks an entry that P has; the gradient stays finite.
struct forward_kl {
  static constexpr logits_field reads = logits_field::teacher;
  static constexpr std::string_view name = "forward_kl";

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const entry<V>& e) const noexcept {
    return {times<Math>(e.teacher_p, e.teacher_logp - e.logp), -e.teacher_p};
  }
};

/// KL(S || P) = sum_j S_j (log S_j - log P_j): seeks the teacher's modes (MiniLLM, Gu et al. 2024; beta = 1 of GKD).
/// gradient by z: S_j ((log S_j - log P_j) - KL). Infinite where P lacks an entry that S has.
struct reverse_kl {
  static constexpr logits_field reads = logits_field::teacher;
  static constexpr std::string_view name = "reverse_kl";

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const entry<V>& e) const noexcept {
    const V value = times<Math>(e.p, e.logp - e.teacher_logp);
    return {value, value + e.p};
  }
};

/// KL(policy || reference) over the whole vocabulary: what k1, k2 and k3 estimate from one token, with the exact
/// gradient of this position (verl's "full", which raises an error). The reference is logits_batch::teacher.
struct full_kl : reverse_kl {
  static constexpr std::string_view name = "kl";
};

/// KL(reference || policy), the direction that k3 descends when it is a loss.
struct reverse_full_kl : forward_kl {
  static constexpr std::string_view name = "kl";
};

/// beta KL(P || M) + (1 - beta) KL(S || M) with M = (1 - beta) S + beta P (GKD, Agarwal et al. 2024). gradient by z:
/// (1 - beta) S_j ((log S_j - log M_j) - KL(S || M)). beta = 0 is the forward KL and beta = 1 the reverse one by
/// convention (GKD, Liger, SDPO's alpha): the formula itself is 0 at both. The mixture stays in log space.
struct generalised_jsd {
  static constexpr logits_field reads = logits_field::teacher;
  static constexpr std::string_view name = "jsd";
  double beta = 0.5;

  /// Throws std::invalid_argument unless beta is in [0, 1].
  void check(extent_t) const {
    if (!(beta >= 0 && beta <= 1))
      throw std::invalid_argument("rlcore: generalised_jsd: beta is " + std::to_string(beta) + ", expected 0 ... 1");
  }

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const entry<V>& e) const noexcept {
    if (beta == 0) return forward_kl{}.template operator()<Math, V>(e);
    if (beta == 1) return reverse_kl{}.template operator()<Math, V>(e);
    const V mixture =
        detail::log_add<Math, V>(e.logp + V(elementary::log1p(-beta)), e.teacher_logp + V(elementary::log(beta)));
    const V student = V(1 - beta) * times<Math>(e.p, e.logp - mixture);
    return {V(beta) * times<Math>(e.teacher_p, e.teacher_logp - mixture) + student, student};
  }
};

/// KL(P || alpha P + (1 - alpha) S), 0 < alpha < 1 (DistiLLM, Ko et al. 2024). slope by log S_j: -P_j (1 - alpha) S_j /
/// M_j.
struct skew_forward_kl {
  static constexpr logits_field reads = logits_field::teacher;
  static constexpr std::string_view name = "skew_forward_kl";
  double alpha = 0.1;

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const entry<V>& e) const noexcept {
    const V student = e.logp + V(elementary::log1p(-alpha));
    const V mixture = detail::log_add<Math, V>(student, e.teacher_logp + V(elementary::log(alpha)));
    return {times<Math>(e.teacher_p, e.teacher_logp - mixture), -(e.teacher_p * Math::exp(student - mixture))};
  }
};

/// KL(S || alpha S + (1 - alpha) P). slope by log S_j: S_j (log S_j - log M_j + 1 - alpha S_j / M_j).
struct skew_reverse_kl {
  static constexpr logits_field reads = logits_field::teacher;
  static constexpr std::string_view name = "skew_reverse_kl";
  double alpha = 0.1;

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const entry<V>& e) const noexcept {
    const V student = e.logp + V(elementary::log(alpha));
    const V mixture = detail::log_add<Math, V>(student, e.teacher_logp + V(elementary::log1p(-alpha)));
    const V value = times<Math>(e.p, e.logp - mixture);
    return {value, value + e.p * (V(1) - Math::exp(student - mixture))};
  }
};

/// 1/2 sum_j |S_j - P_j| (Wen et al. 2023; Liger TVD). gradient by z: 1/2 S_j (sign_j - sum_r S_r sign_r) with sign(0)
/// = 0 as in PyTorch; Liger's kernel takes -1.
struct total_variation {
  static constexpr logits_field reads = logits_field::teacher;
  static constexpr std::string_view name = "total_variation";

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const entry<V>& e) const noexcept {
    const V d = e.p - e.teacher_p;
    return {V(0.5f) * Math::abs(d), V(0.5f) * (Math::sign(d) * e.p)};
  }
};

/// 1 - cos(z, w) with z the student's and w the teacher's logits (Liger; its beta is scaled{beta, cosine{}}). gradient:
/// -(w / (|z| |w|) - cos z / |z|^2). Entries of -inf in either are left out; a vector of length 0 has cosine 0 and no
/// gradient.
struct cosine {
  static constexpr logits_field reads = logits_field::teacher;
  static constexpr std::string_view name = "cosine";

  template <class T>
  logits_term<> operator()(const logits_position<T>& x, const logits_gradient<T>& g) const noexcept {
    const auto both = [&](extent_t j) RLCORE_LAMBDA {
      const pack<T> z = x.logits.load(j), w = x.teacher.load(j), none(-std::numeric_limits<T>::infinity());
      const auto dead = (z == none) | (w == none);
      return std::pair{fast_math::select(dead, pack<T>(T(0)), z), fast_math::select(dead, pack<T>(T(0)), w)};
    };
    wide_sum<T> zz, ww, zw;
    for (extent_t j = 0; j < x.logits.size; j += g.lanes) {
      const auto [z, w] = both(j);
      zz.add(z * z), ww.add(w * w), zw.add(z * w);
    }
    const double squared = zz.total(), lengths = std::sqrt(squared) * std::sqrt(ww.total());
    if (lengths == 0) {
      if (g.wanted()) g.fill(T(0));
      return 1.0;
    }
    const double similarity = zw.total() / lengths;
    if (g.wanted()) {
      const pack<T> a(static_cast<T>(-1 / lengths)), b(static_cast<T>(similarity / squared));
      for (extent_t j = 0; j < x.logits.size; j += g.lanes) {
        const auto [z, w] = both(j);
        g.write(j, a * w + b * z);
      }
    }
    return 1 - similarity;
  }
};

/// -sum_j P_j log S_j: the forward KL plus the teacher's entropy, with the same gradient S_j - P_j (OpenRLHF's former
/// KDLoss). Next to a label: sum{scaled{1 - k, cross_entropy{}}, scaled{k, soft_cross_entropy{}}}.
struct soft_cross_entropy {
  static constexpr logits_field reads = logits_field::teacher;
  static constexpr std::string_view name = "soft_cross_entropy";

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const entry<V>& e) const noexcept {
    return {-times<Math>(e.teacher_p, e.logp), -e.teacher_p};
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
