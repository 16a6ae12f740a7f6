// A logits piece at a temperature.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "rlcore/objective/vocabulary/logits_piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// tempered{tau, piece}: the piece sees logits / tau of the student and of the teacher; tempered{tau, teacher_tau,
/// piece} if they differ. No factor tau^2 hides in it: write scaled{tau * tau, tempered{tau, piece}} for gradients
/// whose size does not depend on tau (Hinton et al. 2015). A support_logp is at the temperature already.
template <class Piece>
struct tempered {
  static_assert(
      !composite_piece<Piece>,
      "rlcore: tempered holds one piece; write sum{tempered{t, a}, tempered{t, b}}, not tempered{t, sum{a, b}}");
  using decorates = Piece;
  static constexpr logits_field reads = Piece::reads;
  static constexpr std::string_view name = Piece::name;
  static constexpr auto monitors = monitors_of<Piece>();
  double temperature, teacher_temperature;
  [[no_unique_address]] Piece piece;

  /// The piece `p` with student and teacher at temperature `t`.
  constexpr tempered(double t, Piece p) : temperature(t), teacher_temperature(t), piece(p) {}
  /// The piece `p` with student and teacher at temperatures of their own.
  constexpr tempered(double student, double teacher, Piece p)
      : temperature(student), teacher_temperature(teacher), piece(p) {}

  /// Throws std::invalid_argument unless both temperatures are above 0, and where the piece does.
  void check(extent_t vocabulary) const {
    if (!(temperature > 0 && teacher_temperature > 0))
      throw std::invalid_argument("rlcore: tempered: temperatures " + std::to_string(temperature) + " and " +
                                  std::to_string(teacher_temperature) + ", expected above 0");
    if constexpr (requires { piece.check(vocabulary); }) piece.check(vocabulary);
  }

  template <class T>
  logits_term<monitor_count<Piece>> operator()(logits_position<T> x, logits_gradient<T> g) const noexcept {
    x.logits.temperature *= static_cast<T>(temperature);
    x.teacher.temperature *= static_cast<T>(teacher_temperature);
    g.scale /= static_cast<T>(temperature);
    return run_piece(piece, x, g);
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
