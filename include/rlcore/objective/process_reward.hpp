// Process reward model (PRM) losses: hard and soft labels of steps.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/core/elementary.hpp"
#include "rlcore/objective/distillation/support.hpp"
#include "rlcore/objective/piece/piece.hpp"
#include "rlcore/objective/vocabulary/position.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// One step of a row: the token in the row where it ends, and its label. A hard label is the index of a class
/// (std::int64_t), a soft one the probabilities of R classes (std::array<T, R>); they are different types, so they
/// cannot be confused.
template <class Label>
struct step_label {
  std::int64_t last_token;
  Label label;
};

/// The positions of all steps of the packed rows and their labels, for logits_batch::positions, labels (or, of soft
/// labels, targets) and offsets. Rows without steps are rows without live positions.
template <class Label>
struct labelled_steps {
  std::vector<std::int64_t> positions;
  std::vector<Label> labels;
  std::vector<std::int64_t> offsets{0};
};

/// Soft labels as the matrix [steps, R] that logits_batch::targets takes.
template <class T, std::size_t R>
matrix_view<const T> target_matrix(const labelled_steps<std::array<T, R>>& steps) noexcept {
  return {steps.labels.empty() ? nullptr : steps.labels.front().data(),
          {static_cast<extent_t>(steps.labels.size()), static_cast<extent_t>(R)}};
}

/// Which of the judged steps of a row are trained on.
enum class judged_steps : std::uint8_t {
  all,
  last,  ///< the last one of each row alone (TRL's train_on_last_step_only): the answer as a whole
};

/// Finds the logits of every step. `row_offsets` are those of the packed tokens; the steps of row i are
/// steps[step_offsets[i]] ... steps[step_offsets[i + 1] - 1], in the order of their tokens. `alignment` is
/// at_position{} for a head that judges at the token itself (PRM of OpenRLHF and TRL), predicts_next{} for a model that
/// predicts the judgement as its next token. Throws std::invalid_argument if a step lies outside its row, whether it
/// is trained on or not: rows that were truncated lose their steps by the caller's decision, not here. (TRL cuts rows
/// after it chose the last step: under judged_steps::last a row that was cut has no step for it; drop all of its
/// steps.)
template <class Alignment, class Label>
labelled_steps<Label> label_steps(Alignment alignment, std::span<const std::int64_t> row_offsets,
                                  std::span<const step_label<Label>> steps, std::span<const std::int64_t> step_offsets,
                                  judged_steps which = judged_steps::all) {
  detail::check_packed(step_offsets, steps.size(), "label_steps");
  if (row_offsets.size() != step_offsets.size())
    throw std::invalid_argument("rlcore: label_steps: row_offsets are [" + std::to_string(row_offsets.size()) +
                                "], step_offsets are [" + std::to_string(step_offsets.size()) + "]");
  labelled_steps<Label> out;
  for (std::size_t i = 0; i + 1 < row_offsets.size(); ++i) {
    const std::int64_t first = row_offsets[i], length = row_offsets[i + 1] - first;
    std::int64_t before = -1;
    for (std::int64_t k = step_offsets[i]; k < step_offsets[i + 1]; ++k) {
      const step_label<Label>& step = steps[static_cast<std::size_t>(k)];
      const std::int64_t at = step.last_token < 0 || step.last_token >= length
                                  ? -1
                                  : detail::logits_of(alignment, first + step.last_token, first);
      if (at < 0 || step.last_token <= before)
        throw std::invalid_argument("rlcore: label_steps: step " + std::to_string(k - step_offsets[i]) + " of row " +
                                    std::to_string(i) + " ends at token " + std::to_string(step.last_token) +
                                    " after " + std::to_string(before) + ", the row has " + std::to_string(length) +
                                    " tokens");
      before = step.last_token;
      if (which == judged_steps::last && k + 1 != step_offsets[i + 1]) continue;
      out.positions.push_back(at);
      out.labels.push_back(step.label);
    }
    out.offsets.push_back(static_cast<std::int64_t>(out.positions.size()));
  }
  return out;
}

/// softplus(v) - y v = -y log sigmoid(v) - (1 - y) log sigmoid(-v): field::value is the head's output at the step,
/// field::target the label, hard or soft, in [0, 1]. slope by value: sigmoid(v) - y. Monitor: whether both are on the
/// same side of 1/2.
struct step_binary_cross_entropy {
  static constexpr field reads = field::value | field::target;
  static constexpr field wrt = field::value;
  static constexpr std::string_view name = "process_reward";
  static constexpr std::array<std::string_view, 1> monitors{"accuracy"};

  template <class Math, class V>
  RLCORE_FN flagged_term<V> operator()(const token<V>& t) const noexcept {
    const V said = Math::select(t.value > V(0), V(1), V(0)), meant = Math::select(t.target > V(0.5f), V(1), V(0));
    return {Math::softplus(t.value) - t.target * t.value,
            Math::sigmoid(t.value) - t.target,
            {Math::select(said == meant, V(1), V(0))}};
  }
};

/// (v - y)^2 with field::value v and field::target y at the step (torch mse_loss). slope by value: 2 (v - y).
struct step_squared_error {
  static constexpr field reads = field::value | field::target;
  static constexpr field wrt = field::value;
  static constexpr std::string_view name = "process_reward";

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    const V d = t.value - t.target;
    return {d * d, d + d};
  }
};

/// Throws std::invalid_argument unless the tokens are entries of the vocabulary and differ.
template <std::size_t R>
void check_reward_tokens(const std::array<std::int64_t, R>& tokens, extent_t vocabulary) {
  for (std::size_t r = 0; r < R; ++r) {
    bool repeated = false;
    for (std::size_t q = 0; q < r; ++q) repeated |= tokens[q] == tokens[r];
    if (tokens[r] < 0 || tokens[r] >= vocabulary || repeated)
      throw std::invalid_argument("rlcore: reward token " + std::to_string(r) + " is " + std::to_string(tokens[r]) +
                                  ": expected different entries of a vocabulary of " + std::to_string(vocabulary));
  }
}

/// Cross-entropy over R reward tokens alone: -log p_y with p = softmax of their logits; labels are indices 0 ... R - 1
/// into `tokens` (OpenRLHF PRM with reward_token_ids). gradient on those logits: p - onehot. Without the restriction,
/// use cross_entropy with the token itself as label. Monitor: share of labels that have the largest of the R logits.
template <std::size_t R>
struct reward_token_cross_entropy {
  static_assert(R >= 2, "rlcore: a judgement needs two reward tokens or more");
  static constexpr logits_field reads = logits_field::label;
  static constexpr std::string_view name = "process_reward";
  static constexpr std::array<std::string_view, 1> monitors{"accuracy"};
  std::array<std::int64_t, R> tokens;

  /// Throws std::invalid_argument unless the tokens are entries of the vocabulary and differ.
  void check(extent_t vocabulary) const { check_reward_tokens(tokens, vocabulary); }
  static constexpr extent_t label_count() noexcept { return static_cast<extent_t>(R); }

  template <class T>
  logits_term<1> operator()(const logits_position<T>& x, const logits_gradient<T>& g) const noexcept {
    constexpr extent_t classes = static_cast<extent_t>(R);
    const auto z = [&](extent_t r) { return x.logits[static_cast<extent_t>(tokens[static_cast<std::size_t>(r)])]; };
    const double lse = detail::log_sum_exp(classes, z), chosen = z(static_cast<extent_t>(x.label));
    logits_term<1> out{lse - chosen, {1}};
    for (extent_t r = 0; r < classes; ++r) out.monitor[0] *= z(r) <= chosen ? 1 : 0;
    if (g.wanted()) {
      g.fill(T(0));
      for (extent_t r = 0; r < classes; ++r)
        g.add_at(static_cast<extent_t>(tokens[static_cast<std::size_t>(r)]),
                 elementary::exp(z(r) - lse) - (r == x.label ? 1 : 0));
    }
    return out;
  }
};

/// -sum_r y_r log p_r with p the softmax over R reward tokens and y = logits_batch::targets (OpenRLHF PRM with soft
/// labels has R = 2 and y = (y, 1 - y), the positive token first; Math-Shepherd, Wang et al. 2024). gradient on those
/// logits: p_r sum y - y_r. Monitor: whether the largest logit and the largest y agree.
template <std::size_t R>
struct soft_reward_cross_entropy {
  static_assert(R >= 2, "rlcore: a judgement needs two reward tokens or more");
  static constexpr logits_field reads = logits_field::target;
  static constexpr std::string_view name = "process_reward";
  static constexpr std::array<std::string_view, 1> monitors{"accuracy"};
  std::array<std::int64_t, R> tokens;

  /// Throws std::invalid_argument unless the tokens are entries of the vocabulary and differ.
  void check(extent_t vocabulary) const { check_reward_tokens(tokens, vocabulary); }
  static constexpr extent_t target_count() noexcept { return static_cast<extent_t>(R); }

  template <class T>
  logits_term<1> operator()(const logits_position<T>& x, const logits_gradient<T>& g) const noexcept {
    constexpr extent_t classes = static_cast<extent_t>(R);
    const auto z = [&](extent_t r) { return x.logits[static_cast<extent_t>(tokens[static_cast<std::size_t>(r)])]; };
    const double lse = detail::log_sum_exp(classes, z);
    logits_term<1> out;
    extent_t largest = 0, likeliest = 0;
    double total = 0;
    for (extent_t r = 0; r < classes; ++r) {
      const double y = static_cast<double>(x.target[r]);
      total += y;
      if (y != 0) out.value += y * (lse - z(r));
      if (z(r) > z(largest)) largest = r;
      if (y > static_cast<double>(x.target[likeliest])) likeliest = r;
    }
    out.monitor[0] = largest == likeliest ? 1 : 0;
    if (g.wanted()) {
      g.fill(T(0));
      for (extent_t r = 0; r < classes; ++r)
        g.add_at(static_cast<extent_t>(tokens[static_cast<std::size_t>(r)]),
                 elementary::exp(z(r) - lse) * total - static_cast<double>(x.target[r]));
    }
    return out;
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
