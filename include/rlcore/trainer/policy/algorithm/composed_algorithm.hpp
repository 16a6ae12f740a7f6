// An algorithm made of an advantage, an objective and an aggregation: the three choices of a paper.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/aggregation/token_mean.hpp"
#include "rlcore/objective/algorithm/algorithm.hpp"
#include "rlcore/objective/loop/evaluate.hpp"
#include "rlcore/trainer/policy/algorithm/algorithm.hpp"
#include "rlcore/trainer/policy/algorithm/estimate_advantages.hpp"
#include "rlcore/trainer/policy/algorithm/select_tokens.hpp"

RLCORE_BEGIN
namespace trainer {

/// The policy_algorithm of an algorithm{advantage, objective, aggregation}; see estimate_advantages for the forms of an
/// advantage, and select_tokens for a selection. field::rollout_logp is old_logp here: both are what was recorded while
/// sampling. In reports the first piece is the policy loss, a further piece that reads ref_logp the KL, one with a
/// slope by the entropy the entropy; others add to the policy loss. actor/entropy is the mean over response tokens, so
/// that variants compare. An objective is one of tokens; GSPO and its relatives are (sequence_is).
template <class Advantage, class Objective, class Aggregation, class Selection = no_selection>
class composed_algorithm {
  static_assert(composite_piece<Objective> || token_piece<Objective>,
                "rlcore: the policy loop minimises objectives of tokens; a surrogate on the ratio of the sequence is "
                "sequence_is{...}, and links of sequences or pairs go to evaluate()");

 public:
  /// The three choices, without a selection of tokens.
  composed_algorithm(Advantage advantage, Objective objective, Aggregation aggregation)
      : advantage_(std::move(advantage)), objective_(std::move(objective)), aggregation_(std::move(aggregation)) {}
  /// The same of an algorithm{}, and a selection if there is one.
  composed_algorithm(const algorithm<Advantage, Objective, Aggregation>& a, Selection selection = {})
      : advantage_(a.advantage), objective_(a.objective), aggregation_(a.aggregation), selection_(selection) {}

  field reads() const noexcept { return reads_of(std::make_index_sequence<piece_count<Objective>>{}); }

  advantage_inputs inputs() const noexcept { return inputs_of_estimator(advantage_); }

  /// Estimates the advantages of the step, then selects tokens if there is a selection.
  void advantages(std::span<trajectory> batch, std::int64_t samples, random_key key) const {
    estimate_advantages(advantage_, batch, samples);
    if constexpr (!std::is_same_v<Selection, no_selection>) select_tokens(selection_, batch, key);
  }

  /// evaluate() over the rows of the micro-batch. The report's ppo_kl is the objective's monitor of that name, or else
  /// the sum of old_logp - logp.
  policy_report loss(const policy_micro_batch& rows, const global_counts& step, std::span<float> dlogp,
                     std::span<float> dentropy) const {
    token_batch<float> batch{.logp = detail::flat(rows.logp),
                             .old_logp = detail::flat(rows.old_logp),
                             .rollout_logp = detail::flat(rows.old_logp)};
    if (rows.token_advantage.empty())
      batch.advantage = per_row(detail::flat(rows.advantage));
    else
      batch.advantage = detail::flat(rows.token_advantage);
    const bool no_tokens = rows.logp.empty();  // then empty fields are complete
    if (!rows.ref_logp.empty() || no_tokens) batch.ref_logp = detail::flat(rows.ref_logp);
    if (!rows.entropy.empty() || no_tokens) batch.entropy = detail::flat(rows.entropy);
    if (!rows.selected.empty() || no_tokens) batch.selected = detail::flat(rows.selected);
    batch.offsets = detail::flat(rows.offsets);
    token_gradients<float> gradients{.logp = detail::flat(dlogp)};
    if (!dentropy.empty() || no_tokens) gradients.entropy = detail::flat(dentropy);
    const auto r = evaluate(serial{}, objective_, aggregation_, batch, step, gradients);

    policy_report out;
    out.tokens = r.tokens, out.sequences = r.sequences, out.rows = r.rows;
    out.policy = r.piece[0].aggregated;
    read_pieces(r, out, std::make_index_sequence<piece_count<Objective>>{});
    bool has_kl = false;
    for (const auto& m : r.monitor) {
      if (m.name == "ppo_kl") out.ppo_kl = m.total, has_kl = true;
      if (m.name == "clipfrac") out.clipped = m.total;
      if (m.name == "clipfrac_lower") out.clipped_lower = m.total;
    }
    if (!has_kl)
      for (std::size_t i = 0; i < rows.logp.size(); ++i)
        out.ppo_kl.add(static_cast<double>(rows.old_logp[i]) - static_cast<double>(rows.logp[i]));
    return out;
  }

  /// The weight of token_mean.
  double entropy_weight(row_info row, const global_counts& step) const noexcept {
    return token_mean{}.weight(row, step);
  }

 private:
  template <std::size_t... Index>
  static constexpr field reads_of(std::index_sequence<Index...>) noexcept {
    constexpr field absent = field::weight | field::value | field::old_value | field::target |
                             (std::is_same_v<Selection, no_selection> ? field::selected : field::none);
    static_assert((!contains(piece_type<Index, Objective>::reads, absent) && ...),
                  "rlcore: the policy loop offers logp, old_logp, rollout_logp, ref_logp, advantage and entropy, and "
                  "selected where composed_algorithm is given a selection; this objective reads another field");
    return ((piece_type<Index, Objective>::reads | wrt_of<piece_type<Index, Objective>>()) | ...);
  }

  template <class Report, std::size_t... Index>
  static void read_pieces(const Report& r, policy_report& out, std::index_sequence<Index...>) {
    const auto one = [&](auto index) {
      constexpr std::size_t i = decltype(index)::value;
      using piece = piece_type<i, Objective>;
      if constexpr (i == 0) {
      } else if constexpr (wrt_of<piece>() == field::entropy) {
        out.entropy = r.piece[i].aggregated, out.entropy_total = r.piece[i].total;
        out.entropy_coefficient = -r.piece[i].coefficient;
      } else if constexpr (contains(piece::reads, field::ref_logp)) {
        out.kl = r.piece[i].aggregated, out.kl_total = r.piece[i].total;
        out.kl_coefficient = r.piece[i].coefficient;
      } else {
        out.policy.add(r.piece[i].coefficient * r.piece[i].aggregated.value());
      }
    };
    (one(std::integral_constant<std::size_t, Index>{}), ...);
  }

  Advantage advantage_;
  Objective objective_;
  Aggregation aggregation_;
  [[no_unique_address]] Selection selection_;
};

}  // namespace trainer
RLCORE_END
