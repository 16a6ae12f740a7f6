// A divergence between what both models think of a few entries.
#pragma once

#include <string_view>

#include "rlcore/core/elementary.hpp"
#include "rlcore/objective/distillation/detail/support.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// on_support{piece}: any entry-wise piece on the distributions restricted to logits_batch::support and renormalised
/// there, of the student and of the teacher (support_logp), e.g. on_support{generalised_jsd{0.5}} on the student's top
/// k (SDPO, TRL). gradient within the support: slope_j - p_j sum(slopes) with the restricted p; 0 outside.
template <entry_piece Piece>
struct on_support {
  static constexpr bool two = contains(Piece::reads, logits_field::teacher);
  static constexpr logits_field reads = logits_field::support | (two ? logits_field::support_logp : logits_field::none);
  static constexpr std::string_view name = Piece::name;
  [[no_unique_address]] Piece piece;

  /// The piece `p` on the support.
  constexpr explicit on_support(Piece p) : piece(p) {}

  /// Throws std::invalid_argument where the piece does.
  void check([[maybe_unused]] extent_t vocabulary) const {
    if constexpr (requires { piece.check(vocabulary); }) piece.check(vocabulary);
  }

  template <class T>
  logits_term<> operator()(const logits_position<T>& x, const logits_gradient<T>& g) const noexcept {
    const auto z = [&](extent_t k) { return x.logits[static_cast<extent_t>(x.support[k])]; };
    const auto w = [&](extent_t k) { return two ? static_cast<double>(x.support_logp[k]) : 0.0; };
    const double student = detail::log_sum_exp(x.support.size, z), teacher = detail::log_sum_exp(x.support.size, w);
    double value = 0, slopes = 0;
    for (extent_t k = 0; k < x.support.size; ++k) {
      const term<double> t = detail::term_of(piece, z(k) - student, w(k) - teacher);
      value += t.value, slopes += t.slope;
    }
    if (g.wanted()) {
      g.fill(T(0));
      for (extent_t k = 0; k < x.support.size; ++k)
        g.add_at(static_cast<extent_t>(x.support[k]), detail::term_of(piece, z(k) - student, w(k) - teacher).slope -
                                                          elementary::exp(z(k) - student) * slopes);
    }
    return value;
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
