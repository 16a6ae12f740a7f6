// A divergence on a few entries and one bucket that holds all others.
#pragma once

#include <algorithm>
#include <string_view>

#include "rlcore/core/elementary.hpp"
#include "rlcore/objective/distillation/detail/support.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// with_tail{piece}: any entry-wise piece on the support's entries, with their probabilities in the whole vocabulary,
/// and on one more entry that has the rest, of student and teacher (SDPO and SDFT "add_tail", TRL). A rest below 1e-7
/// is taken as 1e-7 and has no gradient. gradient: slope_j - p_j sum(slopes), with the tail's slope handed to the
/// support as -slope_tail p_j / p_tail.
template <entry_piece Piece>
struct with_tail {
  static_assert(contains(Piece::reads, logits_field::teacher), "rlcore: with_tail holds a divergence to the teacher");
  static constexpr logits_field reads = logits_field::support | logits_field::support_logp;
  static constexpr std::string_view name = Piece::name;
  static constexpr double most_mass = -1e-7;  // log of the largest probability that the support may have
  [[no_unique_address]] Piece piece;

  /// The piece `p` on the support and the rest.
  constexpr explicit with_tail(Piece p) : piece(p) {}

  /// Throws std::invalid_argument where the piece does.
  void check([[maybe_unused]] extent_t vocabulary) const {
    if constexpr (requires { piece.check(vocabulary); }) piece.check(vocabulary);
  }

  template <class T>
  logits_term<> operator()(const logits_position<T>& x, const logits_gradient<T>& g) const noexcept {
    const normalizer<T> n = normalize(x.logits);
    const auto s = [&](extent_t k) { return n.logp(x.logits[static_cast<extent_t>(x.support[k])]); };
    const auto w = [&](extent_t k) { return static_cast<double>(x.support_logp[k]); };
    const double mass = detail::log_sum_exp(x.support.size, s), capped = std::min(mass, most_mass);
    const double teacher_mass = std::min(detail::log_sum_exp(x.support.size, w), most_mass);
    const double tail = elementary::log(-elementary::expm1(capped));
    const term<double> rest = detail::term_of(piece, tail, elementary::log(-elementary::expm1(teacher_mass)));
    // d tail / d log p_k = -p_k / p_tail
    const double per_mass = mass > most_mass ? 0.0 : -rest.slope * elementary::exp(-tail);
    const auto slope = [&](extent_t k) {
      return detail::term_of(piece, s(k), w(k)).slope + per_mass * elementary::exp(s(k));
    };
    double value = rest.value, slopes = 0;
    for (extent_t k = 0; k < x.support.size; ++k) value += detail::term_of(piece, s(k), w(k)).value, slopes += slope(k);
    if (g.wanted()) detail::scatter_slopes(x, n, slopes, slope, g);
    return value;
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
