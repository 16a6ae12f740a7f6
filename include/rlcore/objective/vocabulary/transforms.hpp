// Logits before the softmax (temperature, soft cap, top k), and penalties on them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/vocabulary/logits_piece.hpp"
#include "rlcore/tensor/traits.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// position_weighted{piece}: value and gradient times logits_batch::weight. Monitors are not weighted.
template <class Piece>
struct position_weighted {
  static_assert(!composite_piece<Piece>,
                "rlcore: position_weighted holds one piece; write sum{position_weighted{a}, position_weighted{b}}");
  using decorates = Piece;
  static constexpr logits_field reads = Piece::reads | logits_field::weight;
  static constexpr std::string_view name = Piece::name;
  static constexpr auto monitors = monitors_of<Piece>();
  [[no_unique_address]] Piece piece;

  /// The piece `p` times the weight of the position.
  constexpr explicit position_weighted(Piece p) : piece(p) {}

  /// Throws std::invalid_argument where the piece does.
  void check([[maybe_unused]] extent_t vocabulary) const {
    if constexpr (requires { piece.check(vocabulary); }) piece.check(vocabulary);
  }

  template <class T>
  logits_term<monitor_count<Piece>> operator()(const logits_position<T>& x, logits_gradient<T> g) const noexcept {
    g.scale *= x.weight;
    auto result = run_piece(piece, x, g);
    result.value *= static_cast<double>(x.weight);
    return result;
  }
};

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

/// softcapped{s, piece}: the piece sees s tanh(logits / s) of the student (Gemma 2; Liger and TRL "softcap"). Teacher
/// logits are taken as the teacher's final ones. Inside tempered or around it, the cap comes before the temperature.
template <class Piece>
struct softcapped {
  static_assert(!composite_piece<Piece>,
                "rlcore: softcapped holds one piece; write sum{softcapped{s, a}, softcapped{s, b}}");
  using decorates = Piece;
  static constexpr logits_field reads = Piece::reads;
  static constexpr std::string_view name = Piece::name;
  static constexpr auto monitors = monitors_of<Piece>();
  double cap;
  [[no_unique_address]] Piece piece;

  /// The piece `p` on logits capped at +-`s`.
  constexpr softcapped(double s, Piece p) : cap(s), piece(p) {}

  /// Throws std::invalid_argument unless the cap is above 0, and where the piece does.
  void check(extent_t vocabulary) const {
    if (!(cap > 0))
      throw std::invalid_argument("rlcore: softcapped: cap " + std::to_string(cap) + ", expected above 0");
    if constexpr (requires { piece.check(vocabulary); }) piece.check(vocabulary);
  }

  template <class T>
  logits_term<monitor_count<Piece>> operator()(logits_position<T> x, logits_gradient<T> g) const noexcept {
    x.logits.softcap = static_cast<T>(cap);
    const logits_source<T> capped = x.logits;
    g.capped = &capped;
    return run_piece(piece, x, g);
  }
};

/// ids(i, 0 ... k - 1) are the entries of row i of `logits` [positions, V] with the k largest logits, the largest
/// first, of equal ones the lower entry first; NaN comes last. ids is [positions, k] of any integers. Throws
/// std::invalid_argument if shapes do not fit. Allocates nothing.
template <executor Executor, class Logits, class Ids>
void top_k(const Executor& exec, const Logits& logits, Ids&& ids) {
  const auto z = as_view<2>(logits);
  const auto out = as_view<2>(ids);
  using id = typename std::remove_cvref_t<decltype(out)>::value_type;
  if (z.shape[0] != out.shape[0] || out.shape[1] > z.shape[1])
    throw std::invalid_argument("rlcore: top_k: logits are " + to_string<2>(z.shape) + ", ids are " +
                                to_string<2>(out.shape));
  exec.for_each(static_cast<std::size_t>(z.shape[0]), [&](std::size_t row) {
    const extent_t i = static_cast<extent_t>(row), k = out.shape[1];
    extent_t found = 0;
    const auto before = [&](extent_t a, extent_t b) {  // a belongs before b, where a is the later entry
      const auto x = z(i, a), y = z(i, b);
      return x > y || (y != y && x == x);
    };
    for (extent_t j = 0; j < z.shape[1]; ++j) {
      if (found == k && (k == 0 || !before(j, static_cast<extent_t>(out(i, k - 1))))) continue;
      extent_t at = found < k ? found++ : k - 1;
      for (; at > 0 && before(j, static_cast<extent_t>(out(i, at - 1))); --at) out(i, at) = out(i, at - 1);
      out(i, at) = static_cast<id>(j);
    }
  });
}

/// lse(z)^2 (PaLM, Chowdhery et al. 2022, with coefficient 1e-4). gradient: 2 lse(z) p. Next to a cross-entropy, its
/// own setting z_loss is cheaper: one softmax instead of two.
struct z_loss {
  static constexpr logits_field reads = logits_field::none;
  static constexpr std::string_view name = "z_loss";

  template <class T>
  logits_term<> operator()(const logits_position<T>& x, const logits_gradient<T>& g) const noexcept {
    const normalizer<T> n = normalize(x.logits);
    const double lse = n.value();
    if (g.wanted())
      for (extent_t j = 0; j < x.logits.size; j += g.lanes)
        g.write(j, pack<T>(static_cast<T>(2 * lse)) * fast_math::exp(n.logp(x.logits.load(j))));
    return lse * lse;
  }
};

/// -H = sum_j p_j log p_j: minimising it rewards entropy. gradient: p_j (log p_j + H). Entries of -inf count as 0.
struct negative_entropy {
  static constexpr logits_field reads = logits_field::none;
  static constexpr std::string_view name = "negative_entropy";

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const entry<V>& e) const noexcept {
    const V value = times<Math>(e.p, e.logp);
    return {value, value + e.p};
  }
};

/// sum_j p_j^2, the chance that two samples agree (verl sum_pi_squared, of the optimal token baseline). gradient:
/// 2 p_j (p_j - sum p^2).
struct sum_of_squares {
  static constexpr logits_field reads = logits_field::none;
  static constexpr std::string_view name = "sum_of_squares";

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const entry<V>& e) const noexcept {
    const V square = e.p * e.p;
    return {square, square + square};
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
