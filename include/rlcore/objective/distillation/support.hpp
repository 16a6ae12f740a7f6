// Top-k and cross-vocabulary distillation: divergences on a teacher's top k, with a tail, between vocabularies (ULD).
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "rlcore/core/elementary.hpp"
#include "rlcore/objective/vocabulary/logits_piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace detail {

/// log sum_{k < size} e^(f(k)); -inf for size 0.
template <class F>
double log_sum_exp(extent_t size, const F& f) noexcept {
  double most = -std::numeric_limits<double>::infinity(), sum = 0;
  for (extent_t k = 0; k < size; ++k) most = f(k) > most ? f(k) : most;
  if (most == -std::numeric_limits<double>::infinity()) return most;
  for (extent_t k = 0; k < size; ++k) sum += elementary::exp(f(k) - most);
  return most + elementary::log(sum);
}

/// An entry-wise piece on one entry given by its log-probs.
template <class P>
term<double> term_of(const P& piece, double logp, double teacher_logp) noexcept {
  const entry<double> e{logp, teacher_logp, elementary::exp(logp), elementary::exp(teacher_logp)};
  if (e.p == 0 && e.teacher_p == 0) return {0, 0};
  return piece.template operator()<exact_math, double>(e);
}

/// Gradient of a function whose slopes by the log-probs of the support's entries are slope(k) and by all others 0:
/// slope_j - p_j sum(slopes).
template <class T, class F>
void scatter_slopes(const logits_position<T>& x, const normalizer<T>& n, double total, const F& slope,
                    const logits_gradient<T>& g) noexcept {
  const pack<T> sum(static_cast<T>(total));
  for (extent_t j = 0; j < x.logits.size; j += g.lanes) g.write(j, -(fast_math::exp(n.logp(x.logits.load(j))) * sum));
  for (extent_t k = 0; k < x.support.size; ++k) g.add_at(static_cast<extent_t>(x.support[k]), slope(k));
}

}  // namespace detail

/// on_support{piece}: any entry-wise piece on the distributions restricted to logits_batch::support and renormalised,
/// of the student and of the teacher (support_logp), e.g. on_support{generalised_jsd{0.5}} on the student's top k
/// (SDPO, TRL). gradient within the support: slope_j - p_j sum(slopes) with the restricted p; 0 outside.
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

/// with_tail{piece}: any entry-wise piece on the support's entries, with their probabilities in the whole vocabulary,
/// and on one more entry with the remaining probability, of student and teacher (SDPO and SDFT "add_tail", TRL). A rest
/// below 1e-7 is taken as 1e-7 and has no gradient. gradient: slope_j - p_j sum(slopes), with the tail's slope handed
/// to the support as -slope_tail p_j / p_tail.
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

/// clamp(sum_{k in support} P_k (log P_k - log S_k), 0, value_most) with neither side renormalised: the teacher's top k
/// as a server returns them (verl "forward_kl_topk", whose defaults these are). Log-probs below logp_least are taken as
/// logp_least; where the student's was, or where the sum was clamped, the gradient is 0. gradient: S_j P_K - P_j [j in
/// K], P_K the sum of P over the support. Infinite limits switch a clamp off (logp_least = -inf, value_most = inf); the
/// one at 0 is part of the definition, since the sum over a part of the vocabulary can be negative. Monitors: the mass
/// that the support has for the student and the teacher.
struct top_k_forward_kl {
  static constexpr logits_field reads = logits_field::support | logits_field::support_logp;
  static constexpr std::string_view name = "forward_kl";
  static constexpr std::array<std::string_view, 2> monitors{"student_mass", "teacher_mass"};
  double logp_least = -10.0, value_most = 10.0;

  template <class T>
  logits_term<2> operator()(const logits_position<T>& x, const logits_gradient<T>& g) const noexcept {
    const normalizer<T> n = normalize(x.logits);
    const auto s = [&](extent_t k) { return n.logp(x.logits[static_cast<extent_t>(x.support[k])]); };
    logits_term<2> out;
    double slopes = 0;
    for (extent_t k = 0; k < x.support.size; ++k) {
      const double student = s(k), teacher = static_cast<double>(x.support_logp[k]), raised = raise(teacher);
      out.monitor[0] += elementary::exp(student), out.monitor[1] += elementary::exp(teacher);
      if (const double p = elementary::exp(raised); p != 0) out.value += p * (raised - raise(student));
      slopes -= student < logp_least ? 0 : elementary::exp(raised);
    }
    const bool clamped = out.value < 0 || out.value > value_most;
    if (clamped) out.value = out.value < 0 ? 0 : value_most;
    if (g.wanted() && clamped) g.fill(T(0));
    if (g.wanted() && !clamped)
      detail::scatter_slopes(
          x, n, slopes,
          [&](extent_t k) {
            return s(k) < logp_least ? 0.0 : -elementary::exp(raise(static_cast<double>(x.support_logp[k])));
          },
          g);
    return out;
  }

 private:
  double raise(double logp) const noexcept { return logp < logp_least ? logp_least : logp; }
};

/// matched_entries{piece, student, teacher}: any entry-wise piece summed over the pairs (student[k], teacher[k]) of
/// entries that mean the same token, with their probabilities in their own vocabularies, not renormalised. With uld on
/// all other entries it is the hybrid loss of GOLD (TRL): sum{scaled{w, matched_entries{generalised_jsd{}, s, t}},
/// scaled{1 - w, uld{other_s, other_t}}}, in TRL with w = matched tokens / teacher's vocabulary. gradient: slope_j -
/// S_j sum(slopes). The lists have no repetitions and are not copied.
template <entry_piece Piece>
struct matched_entries {
  static_assert(contains(Piece::reads, logits_field::teacher), "rlcore: matched_entries holds a divergence");
  static constexpr logits_field reads = logits_field::teacher;
  static constexpr std::string_view name = Piece::name;
  static constexpr bool keeps_vocabularies = true;
  [[no_unique_address]] Piece piece;
  std::span<const std::int32_t> student, teacher;

  /// `piece` on the pairs (s[k], t[k]) of entries of the student and of the teacher.
  constexpr matched_entries(Piece p, std::span<const std::int32_t> s, std::span<const std::int32_t> t)
      : piece(p), student(s), teacher(t) {}

  /// Throws std::invalid_argument if the lists differ in length or one of the student's entries is not in its
  /// vocabulary.
  void check(extent_t vocabulary) const {
    if (student.size() != teacher.size())
      throw std::invalid_argument("rlcore: matched_entries: [" + std::to_string(student.size()) +
                                  "] entries of the student, [" + std::to_string(teacher.size()) + "] of the teacher");
    for (const std::int32_t j : student)
      if (j < 0 || j >= vocabulary)
        throw std::invalid_argument("rlcore: matched_entries: " + std::to_string(j) +
                                    " is no entry of a vocabulary of " + std::to_string(vocabulary));
    if constexpr (requires { piece.check(vocabulary); }) piece.check(vocabulary);
  }
  /// Throws std::invalid_argument if one of the teacher's entries is not in its vocabulary.
  void check_teacher(extent_t vocabulary) const {
    for (const std::int32_t j : teacher)
      if (j < 0 || j >= vocabulary)
        throw std::invalid_argument("rlcore: matched_entries: " + std::to_string(j) +
                                    " is no entry of a teacher's vocabulary of " + std::to_string(vocabulary));
  }

  template <class T>
  logits_term<> operator()(logits_position<T> x, const logits_gradient<T>& g) const noexcept {
    const normalizer<T> n = normalize(x.logits), m = normalize(x.teacher);
    const auto at = [&](extent_t k) {
      const auto i = static_cast<std::size_t>(k);
      return detail::term_of(piece, n.logp(x.logits[student[i]]), m.logp(x.teacher[teacher[i]]));
    };
    double value = 0, slopes = 0;
    for (extent_t k = 0; k < std::ssize(student); ++k) {
      const term<double> t = at(k);
      value += t.value, slopes += t.slope;
    }
    x.support = {student.data(), std::ssize(student), 1, false};
    if (g.wanted()) detail::scatter_slopes(x, n, slopes, [&](extent_t k) { return at(k).slope; }, g);
    return value;
  }
};

/// sum_i |S_(i) - P_(i)| between the probabilities sorted in descending order, the shorter list continued by 0 (ULD,
/// Boizard et al. 2024; TRL GOLD): the vocabularies may differ in size and meaning. Lists of entries, if given,
/// restrict the sum to those entries of either model. gradient by z: S_j (sign_j [j in the list] - sum_r S_r sign_r)
/// with the sign of the pair that j is in, 0 at ties. Student and teacher positions must have been paired before. It
/// sorts, so it needs logits_batch::scratch.
struct uld {
  static constexpr logits_field reads = logits_field::teacher;
  static constexpr std::string_view name = "uld";
  static constexpr bool keeps_vocabularies = true;
  std::span<const std::int32_t> student{}, teacher{};  ///< without repetitions; empty: all entries

  /// Throws std::invalid_argument if one of the student's entries is not in its vocabulary.
  void check(extent_t vocabulary) const { check_list(student, vocabulary, "the student's"); }
  /// Throws std::invalid_argument if one of the teacher's entries is not in its vocabulary.
  void check_teacher(extent_t vocabulary) const { check_list(teacher, vocabulary, "the teacher's"); }
  /// Bytes for the order of the student's entries and the sorted probabilities of the teacher, with room to align them.
  std::size_t scratch_bytes(extent_t vocabulary, extent_t teacher_vocabulary) const noexcept {
    const std::size_t bytes = static_cast<std::size_t>(vocabulary) * sizeof(std::int32_t) +
                              static_cast<std::size_t>(teacher_vocabulary) * sizeof(double);
    return (bytes + 128) / 64 * 64;
  }

  template <class T>
  logits_term<> operator()(const logits_position<T>& x, const logits_gradient<T>& g) const noexcept {
    const logits_source<T>&z = x.logits, &w = x.teacher;
    const normalizer<T> of_student = normalize(z), of_teacher = normalize(w);
    if (!std::isfinite(of_student.value() + of_teacher.value())) {  // NaN has no place in an order
      if (g.wanted()) g.fill(std::numeric_limits<T>::quiet_NaN());
      return std::numeric_limits<double>::quiet_NaN();
    }
    const extent_t n = student.empty() ? z.size : std::ssize(student);
    const extent_t m = teacher.empty() ? w.size : std::ssize(teacher);
    const auto misaligned = reinterpret_cast<std::uintptr_t>(x.scratch.data()) % alignof(double);
    double* const sorted =
        reinterpret_cast<double*>(x.scratch.data() + (misaligned ? alignof(double) - misaligned : std::size_t{0}));
    std::int32_t* const order = reinterpret_cast<std::int32_t*>(sorted + m);
    for (extent_t i = 0; i < m; ++i)
      sorted[i] = elementary::exp(of_teacher.logp(w[teacher.empty() ? i : teacher[static_cast<std::size_t>(i)]]));
    for (extent_t i = 0; i < n; ++i)
      order[i] = student.empty() ? static_cast<std::int32_t>(i) : student[static_cast<std::size_t>(i)];
    std::sort(sorted, sorted + m, [](double a, double b) { return a > b; });
    std::sort(order, order + n, [&](std::int32_t a, std::int32_t b) {
      const double za = z[a], zb = z[b];
      return za != zb ? za > zb : a < b;
    });
    const auto p = [&](extent_t i) { return i < n ? elementary::exp(of_student.logp(z[order[i]])) : 0.0; };
    const auto sign = [&](extent_t i) {
      const double d = p(i) - (i < m ? sorted[i] : 0.0);
      return d > 0 ? 1.0 : d < 0 ? -1.0 : 0.0;
    };
    double value = 0, signs = 0;
    for (extent_t i = 0; i < std::max(n, m); ++i) {
      value += std::abs(p(i) - (i < m ? sorted[i] : 0.0));
      signs += p(i) * sign(i);
    }
    if (g.wanted()) {
      const pack<T> total(static_cast<T>(signs));
      for (extent_t j = 0; j < z.size; j += z.lanes) g.write(j, -(fast_math::exp(of_student.logp(z.load(j))) * total));
      for (extent_t i = 0; i < n; ++i) g.add_at(order[i], p(i) * sign(i));
    }
    return value;
  }

 private:
  static void check_list(std::span<const std::int32_t> list, extent_t vocabulary, const char* whose) {
    for (const std::int32_t j : list)
      if (j < 0 || j >= vocabulary)
        throw std::invalid_argument("rlcore: uld: " + std::to_string(j) + " is no entry of " + whose +
                                    " vocabulary of " + std::to_string(vocabulary));
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
