// A policy algorithm chosen at run time: the training loop is compiled once for all of them.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "rlcore/device/any_device.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/algorithm/algorithm.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/piece/divergence/kl.hpp"
#include "rlcore/objective/piece/entropy.hpp"
#include "rlcore/objective/piece/surrogate/clipped.hpp"
#include "rlcore/train/policy/algorithm/composed_loss.hpp"
#include "rlcore/train/policy/algorithm/estimate_advantages.hpp"
#include "rlcore/train/policy/algorithm/policy_algorithm.hpp"

RLCORE_BEGIN
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
