// Policy loss with KL and entropy penalties, which have a separate aggregation.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "rlcore/device/any_device.hpp"
#include "rlcore/device/losses/step_loss.hpp"
#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/loop/evaluate.hpp"
#include "rlcore/objective/loop/report.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/piece/divergence/any_divergence.hpp"
#include "rlcore/objective/piece/entropy.hpp"
#include "rlcore/trainer/policy/algorithm/any_policy_loss.hpp"
#include "rlcore/trainer/policy/algorithm/loss_on_device.hpp"

RLCORE_BEGIN
namespace trainer {

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
class penalised_loss {
 public:
  /// The loss `policy` with `added`.
  penalised_loss(any_policy_loss policy, const penalties& added) : policy_(std::move(policy)), added_(added) {}

  field reads() const {
    return policy_.reads() | (added_.with_kl() ? field::ref_logp : field::none) |
           (added_.with_entropy() ? field::entropy : field::none);
  }
  bool reference_stays() const { return policy_.reference_stays(); }
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
    std::unique_ptr<loss_on_device> loss = policy_.on_device(device, step, rows);
    if (!loss) return loss;
    added_.with_terms([&](const auto& terms) {
      loss = std::make_unique<there<std::remove_cvref_t<decltype(terms)>>>(std::move(loss), added_, device, terms, step,
                                                                           rows);
    });
    return loss;
  }

 private:
  /// Both losses on a device.
  template <class Terms>
  class there final : public loss_on_device {
   public:
    there(std::unique_ptr<loss_on_device> policy, const penalties& added, any_device& device, const Terms& terms,
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

  any_policy_loss policy_;
  penalties added_;
};

}  // namespace trainer
RLCORE_END
