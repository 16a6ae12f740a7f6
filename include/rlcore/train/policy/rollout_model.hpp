// Rollout model: the policy in separate tensor parallel groups, filled from the training layout.
#pragma once

#include <cstddef>
#include <memory>

#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/parallel/tensor_group.hpp"
#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/parallel/world.hpp"
#include "rlcore/train/model/trainable_model.hpp"
#include "rlcore/train/model/weight_sync.hpp"

RLCORE_BEGIN
namespace train {

/// Groups of neighbouring ranks, each with one copy of the weights while they sample and none otherwise; so a rank has
/// 1 / size() of the matrices (with more ranks than key heads, a whole key head's projections) beside its part of
/// training, and no rank the whole (verl's hybrid engine, DeepSpeed-Chat's hybrid engine). All ranks of a group
/// generate the same rows together.
template <class Device>
class rollout_model {
 public:
  /// Made by all ranks of the policy's world together; `size` divides their number; `bucket` values are received, and
  /// sent, at a time. Throws config_error if the model cannot be partitioned this way.
  rollout_model(trainable_model<Device>& policy, int size, std::size_t bucket = std::size_t{1} << 24)
      : policy_(&policy),
        bucket_(bucket),
        groups_(policy.world()->all().size() / size),
        group_(policy.world()->all().rank() / size),
        ranks_(policy.world()->all().split(group_, policy.world()->all().rank() % size)),
        tensor_(*ranks_),
        model_(policy.model.device(), policy.model.settings(),
               {.tensor_rank = ranks_->rank(), .tensor_size = size, .repeats_key_heads = true}, nn::weights_in::units),
        weight_sync_(policy, model_) {
    model_.set_tensor_group(&tensor_);
  }
  rollout_model(const rollout_model&) = delete;
  rollout_model& operator=(const rollout_model&) = delete;

  /// Groups, and the number of this rank's; ranks of a group, and this rank's number there.
  int groups() const noexcept { return groups_; }
  int group() const noexcept { return group_; }
  int size() const { return ranks_->size(); }
  int rank() const { return ranks_->rank(); }
  /// Without weights, unless a rollout_weights lives.
  const nn::causal_lm<Device>& model() const noexcept { return model_; }
  /// The transfers of fill().
  const parallel::reshard_plan& plan() const noexcept { return weight_sync_.plan(); }
  /// The group's communicator, with the traffic of sampling.
  parallel::any_communicator& ranks() noexcept { return *ranks_; }
  const parallel::any_communicator& ranks() const noexcept { return *ranks_; }

  /// fill() copies the current training weights; drop() frees them. All ranks of the world call fill() together.
  void fill() {
    model_.allocate_weights();
    weight_sync_.run(*policy_, model_, bucket_);
  }
  void drop() { model_.free_weights(); }

 private:
  trainable_model<Device>* policy_;
  std::size_t bucket_;
  int groups_, group_;
  std::unique_ptr<parallel::any_communicator> ranks_;
  nn::tensor_group_of<parallel::any_communicator> tensor_;
  nn::causal_lm<Device> model_;
  weight_sync<Device> weight_sync_;
};

/// Holds the rollout weights for its lifetime.
template <class Device>
class rollout_weights {
 public:
  /// Fills the model with the policy's weights; the destructor drops them.
  explicit rollout_weights(rollout_model<Device>& model) : model_(model) { model_.fill(); }
  ~rollout_weights() { model_.drop(); }
  rollout_weights(const rollout_weights&) = delete;
  rollout_weights& operator=(const rollout_weights&) = delete;

 private:
  rollout_model<Device>& model_;
};

}  // namespace train
RLCORE_END
