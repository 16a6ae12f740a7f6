// A policy loss with KL and entropy beside it, which have an aggregation of their own.
#pragma once

#include <algorithm>
#include <span>
#include <utility>

#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/aggregation/any_aggregation.hpp"
#include "rlcore/objective/loop/evaluate.hpp"
#include "rlcore/objective/piece/combine/scaled.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/piece/divergence/any_divergence.hpp"
#include "rlcore/objective/piece/entropy/entropy_bonus.hpp"
#include "rlcore/trainer/policy/algorithm/any_policy_loss.hpp"

RLCORE_BEGIN
namespace trainer {

/// + kl_coef KL(policy, reference) - entropy_coeff entropy, with every choice made at run time. Fields of a term that
/// is left out are neither read nor reported.
struct penalties {
  any_divergence kl{.absent = true};
  double kl_coef = 0;
  double entropy_coeff = 0;  ///< 0: without entropy
  any_aggregation aggregation;
};

/// `policy` first, then one loop for the penalties, whose slopes are added: it serves every policy loss.
class penalised_loss {
  /// The sums of `terms`, whose slopes are added to those of the policy loss.
  template <class Terms>
  auto added_sums(const Terms& terms, const policy_rows& rows, const global_counts& step, std::span<float> dlogp,
                  std::span<float> dentropy) const {
    token_gradients<float> gradients = gradients_of(rows, dlogp, dentropy);
    gradients.add = true;
    return evaluate(serial{}, terms, added_.aggregation, batch_of(rows), step, gradients);
  }

 public:
  /// The loss `policy` with `added`.
  penalised_loss(any_policy_loss policy, const penalties& added) : policy_(std::move(policy)), added_(added) {}

  field reads() const {
    return policy_.reads() | (with_kl() ? field::ref_logp : field::none) |
           (with_entropy() ? field::entropy : field::none);
  }
  /// As the policy loss.
  void select(std::span<trajectory> batch, random_key key) const { policy_.select(batch, key); }

  /// Writes the slopes of one micro-batch and returns its sums.
  policy_report loss(const policy_rows& rows, const global_counts& step, std::span<float> dlogp,
                     std::span<float> dentropy) const {
    policy_report out = policy_.loss(rows, step, dlogp, {});
    if (!with_kl() && !with_entropy()) return out;
    const scaled kl{added_.kl_coef, added_.kl};
    if (!with_entropy()) {
      read(added_sums(kl, rows, step, dlogp, {}), out);
      return out;
    }
    policy_rows complete = rows;  // the loop reads ref_logp: others stand for it where there is no KL
    if (!with_kl()) complete.ref_logp = rows.logp;
    std::fill(dentropy.begin(), dentropy.end(), 0.f);
    const auto r = added_sums(sum{kl, entropy_bonus(added_.entropy_coeff)}, complete, step, dlogp, dentropy);
    if (with_kl()) read(r, out);
    out.entropy = r.piece[1].aggregated, out.entropy_total = r.piece[1].total;
    out.entropy_coefficient = added_.entropy_coeff;
    return out;
  }

 private:
  /// The KL is the first piece.
  template <class Report>
  void read(const Report& r, policy_report& out) const {
    out.kl = r.piece[0].aggregated, out.kl_total = r.piece[0].total, out.kl_coefficient = added_.kl_coef;
  }
  bool with_kl() const noexcept { return !added_.kl.absent; }
  bool with_entropy() const noexcept { return added_.entropy_coeff != 0; }

  any_policy_loss policy_;
  penalties added_;
};

}  // namespace trainer
RLCORE_END
