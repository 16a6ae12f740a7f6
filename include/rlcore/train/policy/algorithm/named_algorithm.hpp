// The algorithm of a command line: adv_estimator and loss_mode by their words, with KL and entropy.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "rlcore/config/algorithm/advantage_estimators.hpp"
#include "rlcore/config/algorithm/policy_losses.hpp"
#include "rlcore/config/algorithm/verl_version.hpp"
#include "rlcore/device/any_device.hpp"
#include "rlcore/device/losses/step_loss.hpp"
#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/loop/evaluate.hpp"
#include "rlcore/objective/loop/report.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/piece/divergence/kl.hpp"
#include "rlcore/objective/piece/entropy.hpp"
#include "rlcore/train/policy/algorithm/any_algorithm.hpp"
#include "rlcore/train/policy/algorithm/estimate_advantages.hpp"
#include "rlcore/train/policy/algorithm/policy_algorithm.hpp"
#include "rlcore/train/policy/open.hpp"
#include "rlcore/train/policy/settings.hpp"

RLCORE_BEGIN
namespace train {

/// + kl_coef KL(policy, reference) - entropy_coeff entropy, with every choice made at run time. Fields of a term that
/// is left out are neither read nor reported.
struct penalties {
  any_divergence kl{.absent = true};
  double kl_coef = 0;
  double entropy_coeff = 0;  ///< 0: without entropy
  any_aggregation aggregation{};

  bool with_kl() const noexcept { return !kl.absent; }
  bool with_entropy() const noexcept { return entropy_coeff != 0; }

  /// f(objective of the terms), if there is one: the KL is the first piece, the entropy the second.
  template <class F>
  void with_terms(F&& f) const {
    const scaled divergence{kl_coef, kl};
    if (with_entropy())
      f(sum{divergence, entropy_bonus(entropy_coeff)});
    else if (with_kl())
      f(divergence);
  }
  /// The rows that the terms read, including ref_logp; without a KL a placeholder stands for it.
  token_batch<float> rows_of(policy_rows rows) const {
    if (!with_kl()) rows.ref_logp = rows.logp;
    return batch_of(rows);
  }
  /// The slopes to which those of the terms are added.
  token_gradients<float> slopes_of(const policy_rows& rows, std::span<float> dlogp, std::span<float> dentropy) const {
    token_gradients<float> gradients = gradients_of(rows, dlogp, with_entropy() ? dentropy : std::span<float>());
    gradients.add = true;
    return gradients;
  }
  /// The sums of the terms.
  template <std::size_t Pieces, std::size_t Monitors>
  void read(const report<Pieces, Monitors>& r, policy_report& out) const {
    if (with_kl()) out.kl = r.piece[0].aggregated, out.kl_total = r.piece[0].total, out.kl_coefficient = kl_coef;
    if constexpr (Pieces == 2) {
      out.entropy = r.piece[1].aggregated, out.entropy_total = r.piece[1].total;
      out.entropy_coefficient = entropy_coeff;
    }
  }
};

/// `policy` first, then one loop for the penalties, whose slopes are added: it serves every policy loss.
template <policy_loss Policy>
class penalised_loss {
 public:
  /// The loss `policy` with `added`.
  penalised_loss(Policy policy, const penalties& added) : policy_(std::move(policy)), added_(added) {}

  field reads() const {
    return policy_.reads() | (added_.with_kl() ? field::ref_logp : field::none) |
           (added_.with_entropy() ? field::entropy : field::none);
  }
  bool reference_stays() const { return reference_may_stay(policy_); }
  /// As the policy loss.
  void select(std::span<trajectory> batch, random_key key) const { policy_.select(batch, key); }

  /// Writes the slopes of one micro-batch and returns its sums.
  policy_report loss(const policy_rows& rows, const global_counts& step, std::span<float> dlogp,
                     std::span<float> dentropy) const {
    policy_report out = policy_.loss(rows, step, dlogp, {});
    if (added_.with_entropy()) std::fill(dentropy.begin(), dentropy.end(), 0.f);
    added_.with_terms([&](const auto& terms) {
      added_.read(evaluate(serial{}, terms, added_.aggregation, added_.rows_of(rows), step,
                           added_.slopes_of(rows, dlogp, dentropy)),
                  out);
    });
    return out;
  }

  /// The same in the memory of a device, micro-batch by micro-batch; null if the policy loss is host-only.
  std::unique_ptr<loss_on_device> on_device(any_device& device, const global_counts& step, extent_t rows) const {
    std::unique_ptr<loss_on_device> loss;
    if constexpr (loss_of_device<Policy, any_device>) loss = policy_.on_device(device, step, rows);
    if (!loss) return loss;
    added_.with_terms([&](const auto& terms) {
      loss = std::make_unique<both<std::remove_cvref_t<decltype(terms)>>>(std::move(loss), added_, device, terms, step,
                                                                          rows);
    });
    return loss;
  }

 private:
  /// Both losses on a device.
  template <class Terms>
  class both final : public loss_on_device {
   public:
    both(std::unique_ptr<loss_on_device> policy, const penalties& added, any_device& device, const Terms& terms,
         const global_counts& step, extent_t rows)
        : policy_(std::move(policy)),
          added_(added),
          device_(device),
          sums_(device, terms, added.aggregation, step, rows) {}

    void add(const policy_rows& rows, std::span<float> dlogp, std::span<float> dentropy) override {
      policy_->add(rows, dlogp, {});
      if (added_.with_entropy() && !dentropy.empty()) device_.fill_zero(dentropy.data(), dentropy.size_bytes());
      sums_.add(added_.rows_of(rows), added_.slopes_of(rows, dlogp, dentropy));
    }
    policy_report report() override {
      policy_report out = policy_->report();
      added_.read(sums_.report(), out);
      return out;
    }

   private:
    std::unique_ptr<loss_on_device> policy_;
    penalties added_;
    any_device& device_;
    step_loss<any_device, Terms, any_aggregation> sums_;
  };

  Policy policy_;
  penalties added_;
};

namespace detail {

/// The objective of a row, with its logged measures.
template <class Row, class Objective>
constexpr auto objective_of(const Objective& objective) {
  if constexpr (requires { Row::measure; })
    return measure_at_first(objective, Row::measure);
  else
    return objective;
}

/// The policy loss of a row, without penalties.
template <class Row>
auto policy_term(const policy_loss_settings& s) {
  const auto named = Row::compose(s);
  const auto objective = objective_of<Row>(named.objective);
  const auto with_selection = [&](auto aggregation) {
    if constexpr (requires { Row::selection(s); })
      return composed_loss{objective, aggregation, Row::selection(s)};
    else
      return composed_loss{objective, aggregation};
  };
  if constexpr (Row::own_aggregation)
    return with_selection(named.aggregation);
  else if constexpr (requires { Row::aggregation(s); })
    return with_selection(Row::aggregation(s));
  else
    return with_selection(s.aggregation);
}

}  // namespace detail

/// algorithm.gamma, lam, norm_adv_by_std_in_grpo, gigpo.* and rlcore.verl.
estimator_settings read_estimator_settings(const options& opt);

/// group_relative advantages, and the loss of `s`: policy + kl_coef KL - entropy_coeff entropy, each aggregated over
/// the whole optimizer step. Unlike verl's, means are over the whole step, not over micro-batches first. Throws
/// config_error for an unknown word.
any_algorithm algorithm_of(const policy_loss_settings& s);

/// The algorithm that `opt` names: algorithm.* and actor_rollout_ref.actor.*. Throws config_error.
any_algorithm read_algorithm(const options& opt);

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAIN_PARTS)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE estimator_settings read_estimator_settings(const options& opt) {
  return {opt.get<double>("algorithm.gamma"),
          opt.get<double>("algorithm.lam"),
          opt.get<bool>("algorithm.norm_adv_by_std_in_grpo"),
          opt.get<double>("algorithm.gigpo.step_advantage_w"),
          opt.get<std::string>("algorithm.gigpo.mode") == "mean_std_norm",
          read_verl_version(opt)};
}

RLCORE_INLINE any_algorithm algorithm_of(const policy_loss_settings& s) {
  return policy_loss_words::visit(
      "actor_rollout_ref.actor.policy_loss.loss_mode", s.mode, [&](auto row) -> any_algorithm {
        using row_type = decltype(row);
        if constexpr (std::is_same_v<row_type, named::vanilla>) {  // fuses its penalties: nothing is read twice
          return algorithm{group_relative{},
                           sum{s.clip.vanilla(), when{s.use_kl, scaled{s.kl_coef, s.kl_divergence()}},
                               when{s.entropy_coeff != 0, entropy_bonus(s.entropy_coeff)}},
                           s.aggregation};
        } else {
          const penalties added{.kl = {.kind = s.kl, .straight = s.straight_through, .absent = !s.use_kl},
                                .kl_coef = s.kl_coef,
                                .entropy_coeff = s.entropy_coeff,
                                .aggregation = s.aggregation};
          return any_algorithm(group_relative{}, penalised_loss{detail::policy_term<row_type>(s), added});
        }
      });
}

namespace detail {
/// Puts the estimator that `opt` names into the place of a's.
inline void replace_estimator(any_algorithm& a, const options& opt) {
  const std::string key = "algorithm.adv_estimator", word = opt.get<std::string>(key);
  const estimator_settings settings = read_estimator_settings(opt);
  if (opt.get<std::string>("rlcore.advantages") != "openrlhf")
    return estimator_words::visit(key, word, [&](auto row) { a.replace_advantage(row.compose(settings)); });
  const auto range = read_pair(opt, "rlcore.reward_clip_range", "two numbers in order, e.g. [-10,10]",
                               [](double low, double high) { return low <= high; });
  openrlhf_estimator_words::visit(key, word, [&](auto row) {
    const auto steps = row.compose(settings);
    a.replace_advantage(openrlhf_advantage<std::remove_const_t<decltype(steps)>>{
        steps, {range.first, range.second}, opt.get<bool>("rlcore.scale_advantages")});
  });
}
}  // namespace detail

RLCORE_INLINE void replace_named_parts(any_algorithm& recipe, const options& opt, const recipe_words& own) {
  const policy_loss_settings loss = read_policy_loss(opt);
  if (loss.mode != own.loss_mode) recipe.replace_loss_by(algorithm_of(loss));
  if (opt.get<std::string>("algorithm.adv_estimator") != own.adv_estimator ||
      opt.get<std::string>("rlcore.advantages") == "openrlhf")
    detail::replace_estimator(recipe, opt);
}

RLCORE_INLINE any_algorithm read_algorithm(const options& opt) {
  any_algorithm named = algorithm_of(read_policy_loss(opt));
  detail::replace_estimator(named, opt);
  return named;
}

}  // namespace train
RLCORE_END
#endif
