// Angle between two vectors of logits.
#pragma once

#include <cmath>
#include <string_view>

#include "rlcore/objective/vocabulary/logits_piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

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

RLCORE_ALGORITHM_END
RLCORE_END
