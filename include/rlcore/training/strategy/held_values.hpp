// The trained values that one of several ranks holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/workspace.hpp"
#include "rlcore/nn/parallel/tensor_group.hpp"
#include "rlcore/optim/adamw.hpp"
#include "rlcore/parallel/reduction/gradient_sums.hpp"
#include "rlcore/parallel/world.hpp"
#include "rlcore/training/leaf_plan.hpp"
#include "rlcore/training/sharded/gathered_layers.hpp"
#include "rlcore/training/sharded/sharded_state.hpp"
#include "rlcore/training/sharded/sharded_update.hpp"
#include "rlcore/training/strategy/step_gradient.hpp"

RLCORE_BEGIN
namespace trainer {

/// A round of an optimizer step, in which every data parallel rank has one leaf at most.
struct leaf_round {
  const leaf_plan& plan;
  std::size_t number = 0;
  std::size_t leaf = 0;    ///< of this rank, or leaf_schedule::none
  bool recompute = false;  ///< in backward passes

  /// Has this rank rows in the round?
  bool has_rows() const { return leaf != parallel::leaf_schedule::none && !plan.empty(leaf); }
  /// f(rows) for each pass of this rank; returns their number.
  std::size_t run(const std::function<void(std::span<const std::uint32_t>)>& f) const {
    std::size_t passes = 0;
    if (has_rows()) plan.for_each_pass(leaf, [&](std::span<const std::uint32_t> rows) { f(rows), ++passes; });
    return passes;
  }
};

/// The three ways of ranks to hold a model in training: all of it (whole_values), a shard of it (sharded_values), or
/// all of it but experts of others (expert_values). Hooks are called by all ranks together, in the order of a step.
template <class Device>
class held_values {
 public:
  /// What a leaf's pass calls.
  using pass_function = std::function<void(std::span<const std::uint32_t>)>;

  held_values() = default;
  held_values(const held_values&) = delete;
  held_values& operator=(const held_values&) = delete;
  virtual ~held_values() = default;

  /// The model that training passes use.
  virtual const nn::causal_lm<Device>& passing() const = 0;
  /// The parameters of this rank, whole or in part.
  virtual std::span<const nn::parameter> parameters() const = 0;
  /// Those of them whose gradients all ranks sum.
  virtual std::span<const nn::parameter> shared_parameters() const { return parameters(); }
  /// The memory of this rank's values.
  virtual buffer<float, Device>& weights() = 0;
  /// Where those of a run are.
  virtual const float* place_of(const owned_run& run) = 0;
  /// What collects full weights; null if they are here.
  virtual gathered_layers<Device>* gathered() { return nullptr; }
  /// The number of values that the optimizer holds behind those of shared_parameters().
  virtual std::size_t further_size() const { return 0; }
  /// Their pieces, behind `before` others.
  virtual std::vector<optim::adamw_piece> further_pieces(std::size_t before) const {
    static_cast<void>(before);
    return {};
  }
  /// For passes of a tensor parallel model.
  virtual void set_tensor_group(nn::tensor_group& group) = 0;
  /// Connects passes with other ranks. `by_leaf`: see parallel::gradient_sums.
  virtual void join(nn::workspace<Device>& space, step_gradient<Device>& gradient, bool by_leaf) = 0;

  /// The weights of a Hugging Face folder.
  virtual void load(const std::filesystem::path& folder, std::uint64_t seed) = 0;
  /// Values for weights(), from a checkpoint; `runs` are those of the optimizer.
  virtual std::vector<float> read(const std::filesystem::path& folder, std::span<const owned_run> runs) = 0;

  /// Begins sums besides those of shared parameters; present[i]: has leaf i rows?
  virtual void begin(const std::vector<bool>& present) { static_cast<void>(present); }
  /// Makes the passes of a round and sums their gradients.
  virtual void run(const leaf_round& round, step_gradient<Device>& gradient, parallel::gradient_sums<Device>& sums,
                   const pass_function& f) = 0;
  /// Sums what run() has left in `gradient`.
  virtual void end_rounds(step_gradient<Device>& gradient, parallel::gradient_sums<Device>& sums) = 0;
  /// The norm of the whole gradient; this rank holds `sum` of the shared one.
  virtual double norm(sharded_update<Device>& update, const float* sum) { return update.norm(sum); }
  /// Takes the step, and hands on what other ranks need of it.
  virtual void step(optim::adamw<Device>& optimizer, sharded_update<Device>& update, const float* sum, double lr,
                    float scale) = 0;
};

}  // namespace trainer
RLCORE_END
