// A policy algorithm chosen at run time, and its loss composed of an objective, an aggregation and a token selection:
// the training loop is compiled once for all of them.
#pragma once

#include <concepts>
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
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/algorithm/algorithm.hpp"
#include "rlcore/objective/loop/batch.hpp"
#include "rlcore/objective/loop/evaluate.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/piece/divergence/kl.hpp"
#include "rlcore/objective/piece/entropy.hpp"
#include "rlcore/objective/piece/piece.hpp"
#include "rlcore/objective/piece/surrogate/clipped.hpp"
#include "rlcore/train/policy/algorithm/estimate_advantages.hpp"
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

namespace train {

/// Any policy_algorithm, as the two halves that a command line chooses separately: an advantage estimator and a policy
/// loss. One virtual call per micro-batch; every further algorithm costs the build its fused loop, not a second
/// trainer.
///   any_algorithm{paper::dapo()}                            the parts of algorithm{}
///   any_algorithm{paper::clip_cov(), clip_covariance{}}     with a selection of tokens
///   any_algorithm{group_relative{}, objective, aggregation}
///   any_algorithm{group_relative{}, loss}                   an estimator and a policy_loss
///   any_algorithm{mine}                                     a policy_algorithm
/// Terms of the objective that are absent (when{}) are neither computed nor read. Copies share what they hold.
class any_algorithm {
 public:
  /// An algorithm{}, and a selection of tokens if there is one. estimate_advantages() says in which forms the estimator
  /// is called.
  template <class Estimator, class Objective, class Aggregation, class Selection = no_selection>
  any_algorithm(const algorithm<Estimator, Objective, Aggregation>& a, Selection selection = {})
      : advantage_(estimator(a.advantage)), loss_(composed(a.objective, a.aggregation, selection)) {}
  /// An estimator, an objective and an aggregation.
  template <class Estimator, class Objective, class Aggregation>
  any_algorithm(Estimator e, Objective objective, Aggregation aggregation)
      : advantage_(estimator(std::move(e))), loss_(composed(objective, aggregation, no_selection{})) {}
  /// An estimator and a loss.
  template <class Estimator, policy_loss Loss>
  any_algorithm(Estimator e, Loss loss) : advantage_(estimator(std::move(e))), loss_(held(std::move(loss))) {}
  /// A copy of an algorithm that does both itself.
  template <class A>
    requires(!std::same_as<A, any_algorithm> && policy_algorithm<A>)
  any_algorithm(A algorithm) {
    auto both = std::make_shared<const whole<A>>(std::move(algorithm));
    advantage_ = both, loss_ = both;
  }

  /// Puts another estimator into the place of the first half.
  template <class Estimator>
  void replace_advantage(Estimator e) {
    advantage_ = estimator(std::move(e));
  }
  /// Puts the loss of another algorithm into the place of the second half.
  void replace_loss_by(const any_algorithm& other) { loss_ = other.loss_; }

  /// Calls the held algorithm; see policy_algorithm.
  void advantages(std::span<trajectory> batch, std::int64_t samples, random_key key) const {
    advantage_->advantages(batch, samples, key);
    loss_->select(batch, key);
  }
  advantage_input inputs() const { return advantage_->inputs(); }
  field reads() const { return loss_->reads(); }
  bool reference_stays() const { return loss_->reference_stays(); }
  /// Calls the held loss; see policy_loss.
  policy_report loss(const policy_rows& rows, const global_counts& step, std::span<float> dlogp,
                     std::span<float> dentropy) const {
    return loss_->loss(rows, step, dlogp, dentropy);
  }
  /// The loss of one optimizer step of at most `rows` rows in the memory of `device`, which must support losses; null
  /// if the held loss is host-only.
  std::unique_ptr<loss_on_device> on_device(any_device& device, const global_counts& step, extent_t rows) const {
    return loss_->on_device(device, step, rows);
  }

 private:
  struct advantage_half {
    virtual ~advantage_half() = default;
    virtual advantage_input inputs() const = 0;
    virtual void advantages(std::span<trajectory>, std::int64_t, random_key) const = 0;
  };
  struct loss_half {
    virtual ~loss_half() = default;
    virtual field reads() const = 0;
    virtual bool reference_stays() const = 0;
    virtual void select(std::span<trajectory>, random_key) const = 0;
    virtual policy_report loss(const policy_rows&, const global_counts&, std::span<float>, std::span<float>) const = 0;
    virtual std::unique_ptr<loss_on_device> on_device(any_device&, const global_counts&, extent_t) const = 0;
  };

  template <class Estimator>
  struct estimator_half final : advantage_half {
    explicit estimator_half(Estimator e) : held(std::move(e)) {}
    advantage_input inputs() const override { return inputs_of(held); }
    void advantages(std::span<trajectory> batch, std::int64_t samples, random_key) const override {
      estimate_advantages(held, batch, samples);
    }
    Estimator held;
  };
  /// The half of a policy_loss, or of a policy_algorithm.
  template <class L>
  struct holder : loss_half {
    explicit holder(L l) : held(std::move(l)) {}
    field reads() const override { return held.reads(); }
    bool reference_stays() const override { return reference_may_stay(held); }
    void select(std::span<trajectory> batch, random_key key) const override {
      if constexpr (policy_loss<L>) held.select(batch, key);
    }
    policy_report loss(const policy_rows& rows, const global_counts& step, std::span<float> dlogp,
                       std::span<float> dentropy) const override {
      return held.loss(rows, step, dlogp, dentropy);
    }
    std::unique_ptr<loss_on_device> on_device(any_device& device, const global_counts& step,
                                              extent_t rows) const override {
      if constexpr (loss_of_device<L, any_device>)
        return held.on_device(device, step, rows);
      else
        return nullptr;
    }
    L held;
  };
  template <class A>
  struct whole final : advantage_half, holder<A> {
    explicit whole(A a) : holder<A>(std::move(a)) {}
    advantage_input inputs() const override { return inputs_of(this->held); }
    /// Selects as well.
    void advantages(std::span<trajectory> batch, std::int64_t samples, random_key key) const override {
      this->held.advantages(batch, samples, key);
    }
    void select(std::span<trajectory>, random_key) const override {}
  };

  template <class Estimator>
  static std::shared_ptr<const advantage_half> estimator(Estimator e) {
    return std::make_shared<const estimator_half<Estimator>>(std::move(e));
  }
  template <class Loss>
  static std::shared_ptr<const loss_half> held(Loss loss) {
    return std::make_shared<const holder<Loss>>(std::move(loss));
  }
  template <class Objective, class Aggregation, class Selection>
  static std::shared_ptr<const loss_half> composed(const Objective& objective, const Aggregation& aggregation,
                                                   const Selection& selection) {
    return with_present(objective,
                        [&](const auto& terms) { return held(composed_loss{terms, aggregation, selection}); });
  }

  std::shared_ptr<const advantage_half> advantage_;
  std::shared_ptr<const loss_half> loss_;
};

#if defined(RLCORE_COMPILED)
// The losses of the policy recipes: the clipped ratio with the terms that are present. In src/train_parts.cpp.
extern template class composed_loss<sum<dual_clip>, any_aggregation>;
extern template class composed_loss<sum<dual_clip, scaled<any_divergence>>, any_aggregation>;
extern template class composed_loss<sum<dual_clip, scaled<token_entropy>>, any_aggregation>;
extern template class composed_loss<sum<dual_clip, scaled<any_divergence>, scaled<token_entropy>>, any_aggregation>;
#endif

}  // namespace train
RLCORE_END
