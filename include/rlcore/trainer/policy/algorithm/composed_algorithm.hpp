// Policy algorithm composed of an advantage estimator and a policy loss.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "rlcore/device/device.hpp"
#include "rlcore/objective/algorithm/algorithm.hpp"
#include "rlcore/trainer/policy/algorithm/algorithm.hpp"
#include "rlcore/trainer/policy/algorithm/composed_loss.hpp"
#include "rlcore/trainer/policy/algorithm/estimate_advantages.hpp"
#include "rlcore/trainer/policy/algorithm/loss_on_device.hpp"
#include "rlcore/trainer/policy/algorithm/policy_loss.hpp"

RLCORE_BEGIN
namespace trainer {

/// The policy_algorithm of an estimator (estimate_advantages says in which forms) and a policy_loss:
///   composed_algorithm{paper::dapo()}                       one fused loop; the types are known
///   composed_algorithm{paper::clip_cov(), clip_covariance{}}  with a selection of tokens
///   composed_algorithm{any_estimator, any_policy_loss}      what a command line names
template <class Estimator, policy_loss Loss>
class composed_algorithm {
 public:
  /// The two choices.
  composed_algorithm(Estimator estimator, Loss loss) : estimator_(std::move(estimator)), loss_(std::move(loss)) {}
  /// An estimator, and a loss of an objective and an aggregation.
  template <class Objective, class Aggregation>
  composed_algorithm(Estimator estimator, Objective objective, Aggregation aggregation)
      : estimator_(std::move(estimator)), loss_(std::move(objective), std::move(aggregation)) {}
  /// The parts of an algorithm{}, and a selection of tokens if there is one.
  template <class Objective, class Aggregation, class Selection = no_selection>
  composed_algorithm(const algorithm<Estimator, Objective, Aggregation>& a, Selection selection = {})
      : estimator_(a.advantage), loss_(a.objective, a.aggregation, selection) {}

  field reads() const { return loss_.reads(); }
  advantage_input inputs() const { return inputs_of(estimator_); }
  bool reference_stays() const { return reference_may_stay(loss_); }

  /// Estimates the advantages of the step, then selects tokens if the loss wants it.
  void advantages(std::span<trajectory> batch, std::int64_t samples, random_key key) const {
    estimate_advantages(estimator_, batch, samples);
    loss_.select(batch, key);
  }
  /// As the loss.
  policy_report loss(const policy_rows& rows, const global_counts& step, std::span<float> dlogp,
                     std::span<float> dentropy) const {
    return loss_.loss(rows, step, dlogp, dentropy);
  }
  /// As the loss.
  template <loss_device Device>
  requires loss_of_device<Loss, Device> std::unique_ptr<loss_on_device> on_device(Device& device,
                                                                                  const global_counts& step,
                                                                                  extent_t rows)
  const { return loss_.on_device(device, step, rows); }

 private:
  Estimator estimator_;
  Loss loss_;
};

template <class Estimator, class Objective, class Aggregation>
composed_algorithm(Estimator, Objective, Aggregation)
    -> composed_algorithm<Estimator, composed_loss<Objective, Aggregation>>;
template <class Estimator, class Objective, class Aggregation, class Selection = no_selection>
composed_algorithm(const algorithm<Estimator, Objective, Aggregation>&, Selection = {})
    -> composed_algorithm<Estimator, composed_loss<Objective, Aggregation, Selection>>;

}  // namespace trainer
RLCORE_END
