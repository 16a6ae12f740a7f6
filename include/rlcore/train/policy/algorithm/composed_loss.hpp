// Policy loss composed of an objective, an aggregation and a token selection: one fused loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "rlcore/core/random.hpp"
#include "rlcore/device/any_device.hpp"
#include "rlcore/device/losses/step_loss.hpp"
#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/loop/batch.hpp"
#include "rlcore/objective/loop/evaluate.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/piece/piece.hpp"
#include "rlcore/train/policy/algorithm/policy_algorithm.hpp"
#include "rlcore/train/policy/trajectory/trajectory.hpp"

RLCORE_BEGIN
namespace train {

/// Every token takes part.
struct no_selection {};

/// Sets trajectory::selected with select(rule, batch, selected): clip_covariance, kl_covariance, high_entropy, ... The
/// rule sees the policy at the start of the step: sampling recorded logp, old_logp and entropy. A rule with a `key`
/// draws with the step's key. verl differs: it selects within each micro-batch.
template <class Rule>
void select_tokens(Rule rule, std::span<trajectory> batch, random_key key) {
  if constexpr (requires { rule.key = key; }) rule.key = key;
  std::vector<std::int32_t> offsets{0};
  std::vector<float> logp, entropy, advantage;
  for (const trajectory& t : batch) {
    logp.insert(logp.end(), t.old_logp.begin(), t.old_logp.end());
    entropy.insert(entropy.end(), t.entropy.begin(), t.entropy.end());
    if (t.token_advantage.empty())
      advantage.insert(advantage.end(), t.old_logp.size(), t.advantage);
    else
      advantage.insert(advantage.end(), t.token_advantage.begin(), t.token_advantage.end());
    offsets.push_back(static_cast<std::int32_t>(logp.size()));
  }
  std::vector<float> selected(logp.size());
  const auto flat = [](const std::vector<float>& x) { return flat_view(std::span(x)); };
  token_batch<float> tokens{.logp = flat(logp), .old_logp = flat(logp), .advantage = flat(advantage)};
  if (entropy.size() == logp.size()) tokens.entropy = flat(entropy);
  tokens.offsets = flat_view(std::span<const std::int32_t>(offsets));
  select(rule, tokens, flat_view(std::span(selected)));
  for (std::size_t i = 0; i < batch.size(); ++i)
    batch[i].selected.assign(selected.begin() + offsets[i], selected.begin() + offsets[i + 1]);
}

namespace detail {

template <class Piece>
constexpr bool measures(std::string_view name) {
  for (const std::string_view one : monitors_of<Piece>())
    if (one == name) return true;
  return false;
}
/// The objective, which measures ppo_kl if none of its pieces does.
template <class Objective>
constexpr auto with_ppo_kl(const Objective& objective) {
  constexpr bool measured = []<std::size_t... Index>(std::index_sequence<Index...>) {
    return (measures<piece_type<Index, Objective>>(ppo_kl::name) || ...);
  }(std::make_index_sequence<piece_count<Objective>>{});
  if constexpr (measured)
    return objective;
  else
    return measure_at_first(objective, ppo_kl{});
}

}  // namespace detail

/// evaluate(objective, aggregation) over the rows of a micro-batch. In reports the first piece is the policy loss, a
/// further piece that reads ref_logp the KL, one with a slope by the entropy the entropy; others add to the policy
/// loss. The monitors clipfrac, clipfrac_lower (or clipfrac_bound) and ppo_kl go by their names, the last of a name;
/// without the last of them ppo_kl is the sum of old_logp - logp. The objective must be token-level; GSPO and its
/// relatives are (sequence_is).
template <class Objective, class Aggregation, class Selection = no_selection>
class composed_loss {
  static_assert(composite_piece<Objective> || token_piece<Objective>,
                "rlcore: the policy loop minimises objectives of tokens; a surrogate on the ratio of the sequence is "
                "sequence_is{...}, and links of sequences or pairs go to evaluate()");

 public:
  /// The three choices; no_selection by default.
  constexpr composed_loss(Objective objective, Aggregation aggregation, Selection selection = {})
      : objective_(std::move(objective)), aggregation_(std::move(aggregation)), selection_(selection) {}

  field reads() const noexcept { return reads_of(std::make_index_sequence<piece_count<Objective>>{}); }

  /// A selection sees log-probs and entropies of sampling and advantages.
  static constexpr bool reference_stays() noexcept { return true; }

  /// Selects tokens over the whole step, if there is a selection.
  void select(std::span<trajectory> batch, random_key key) const {
    if constexpr (!std::is_same_v<Selection, no_selection>) select_tokens(selection_, batch, key);
  }

  /// Writes the slopes of one micro-batch and returns its sums.
  policy_report loss(const policy_rows& rows, const global_counts& step, std::span<float> dlogp,
                     std::span<float> dentropy) const;

  /// The same in the memory of a device, micro-batch by micro-batch.
  std::unique_ptr<loss_on_device> on_device(any_device& device, const global_counts& step, extent_t rows) const;

 private:
  using measured = decltype(detail::with_ppo_kl(std::declval<const Objective&>()));

  class step_on_device final : public loss_on_device {
   public:
    step_on_device(any_device& device, const composed_loss& loss, const global_counts& step, extent_t rows)
        : sums_(device, detail::with_ppo_kl(loss.objective_), loss.aggregation_, step, rows) {}
    bool needs_advantage() const override { return sums_.slopes_vanish_with(field::advantage); }
    void add(const policy_rows& rows, std::span<float> dlogp, std::span<float> dentropy) override {
      sums_.add(batch_of(rows), gradients_of(rows, dlogp, dentropy));
    }
    policy_report report() override { return read(sums_.report()); }

   private:
    step_loss<any_device, measured, Aggregation> sums_;
  };

  static policy_report read(const report_of<measured>& r) {
    policy_report out;
    out.tokens = r.tokens, out.sequences = r.sequences, out.rows = r.rows;
    out.policy = r.piece[0].aggregated;
    read_pieces(r, out, std::make_index_sequence<piece_count<Objective>>{});
    for (const auto& m : r.monitor) {
      if (m.name == "ppo_kl") out.ppo_kl = m.total;
      if (m.name == "clipfrac") out.clipped = m.total;
      if (m.name == "clipfrac_lower" || m.name == "clipfrac_bound") out.clipped_lower = m.total;
    }
    return out;
  }

  template <std::size_t... Index>
  static constexpr field reads_of(std::index_sequence<Index...>) noexcept {
    constexpr field absent = field::weight | field::value | field::old_value | field::target |
                             (std::is_same_v<Selection, no_selection> ? field::selected : field::none);
    static_assert((!contains(piece_type<Index, Objective>::reads, absent) && ...),
                  "rlcore: the policy loop offers logp, old_logp, rollout_logp, ref_logp, advantage and entropy, and "
                  "selected where the loss has a selection; this objective reads another field");
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

  Objective objective_;
  Aggregation aggregation_;
  [[no_unique_address]] Selection selection_;
};

template <class Objective, class Aggregation, class Selection>
policy_report composed_loss<Objective, Aggregation, Selection>::loss(const policy_rows& rows, const global_counts& step,
                                                                     std::span<float> dlogp,
                                                                     std::span<float> dentropy) const {
  return read(evaluate(serial{}, detail::with_ppo_kl(objective_), aggregation_, batch_of(rows), step,
                       gradients_of(rows, dlogp, dentropy)));
}

template <class Objective, class Aggregation, class Selection>
std::unique_ptr<loss_on_device> composed_loss<Objective, Aggregation, Selection>::on_device(any_device& device,
                                                                                            const global_counts& step,
                                                                                            extent_t rows) const {
  return std::make_unique<step_on_device>(device, *this, step, rows);
}

}  // namespace train

RLCORE_END
