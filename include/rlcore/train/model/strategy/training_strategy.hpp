// Training strategy concept: the hooks of one optimizer step, per layer and collective.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rlcore/nn/config.hpp"
#include "rlcore/nn/lora/lora.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/forward_backward.hpp"
#include "rlcore/nn/model/workspace.hpp"
#include "rlcore/optim/adamw.hpp"
#include "rlcore/parallel/strategy/parallel_strategy.hpp"
#include "rlcore/train/model/leaf_plan.hpp"
#include "rlcore/train/model/owned_runs.hpp"
#include "rlcore/train/model/strategy/step_gradient.hpp"

RLCORE_BEGIN
namespace train {

/// How a frozen model holds its weights. `packed`: only as its passes read them.
inline nn::weights_in frozen_weights_in(bool packed) noexcept {
  return packed ? nn::weights_in::packed : nn::weights_in::memory;
}

}  // namespace train

/// A strategy that trains models on `Device`. Its share<Device> is the part of a model in training that a rank holds.
/// With LoRA there is an adapter, and "trained values" are those of the adapter.
///
/// Before training:
/// - make_model(strategy, device, config, adapters): the model, with or without memory for all weights.
/// - share(strategy, model, adapter): memory of this rank besides; adapter may be null.
/// - passing(): the model that training passes use.
/// - join(space, gradient): connects passes with the group's ranks. It is called once.
/// - parameters(), weights(): the trained values that this rank holds. pieces(), optimizer_size(): those of its
///   optimizer, and where they lie among the parameters.
/// - resident(): the weights of the model in this rank's memory, whole or in pieces. Without LoRA its values are
///   weights().
///
/// One optimizer step:
/// - begin_update(): sums of gradients are 0.
/// - count_passes(plan, counts, f, idle): f(rows) for every pass of this rank, to count the experts of tokens; idle()
///   for a pass that only others make. `counts` become those of all ranks.
/// - micro_batches(plan, gradient, recompute, f): f(rows) for every pass of this rank; gradients are summed after each
///   leaf or layer.
/// - reduce(gradient): ends the sums over leaves and ranks. Returns the norm of the whole gradient, the same
///   everywhere.
/// - step(optimizer, lr, scale): updates the trained values, everywhere.
/// - release(gradient): frees the memory of gradients until the next step.
///
/// Besides:
/// - gather_full_params(): while the returned object lives, model.weights() are whole; in a stage of a pipeline they
/// are
///   those of the stage, and save_model() refuses them.
template <class Strategy, class Device>
concept training_strategy =
    parallel_strategy<Strategy> &&
    requires(typename Strategy::template share<Device>& share, const Strategy& strategy, Device& device,
             const nn::config& config, nn::causal_lm<Device>& model, nn::lora<Device>* adapter,
             nn::workspace<Device>& space, train::step_gradient<Device>& gradient, const train::leaf_plan& plan,
             nn::router_counts& counts, void (&pass)(std::span<const std::uint32_t>), void (&idle)(),
             optim::adamw<Device>& optimizer, double lr, float scale, bool flag) {
      requires std::constructible_from<typename Strategy::template share<Device>, const Strategy&,
                                       nn::causal_lm<Device>&, nn::lora<Device>*>;
      { share.make_model(strategy, device, config, flag) } -> std::same_as<nn::causal_lm<Device>>;
      { share.passing() } -> std::same_as<const nn::causal_lm<Device>&>;
      share.join(space, gradient);
      { share.parameters() } -> std::same_as<std::span<const nn::parameter>>;
      { share.weights() } -> std::same_as<buffer<float, Device>&>;
      { share.pieces() } -> std::same_as<std::vector<optim::adamw_piece>>;
      { share.optimizer_size() } -> std::same_as<std::size_t>;
      { share.resident() } -> std::same_as<train::resident_weights<Device>>;
      share.begin_update();
      share.count_passes(plan, counts, pass, idle);
      share.micro_batches(plan, gradient, flag, pass);
      { share.reduce(gradient) } -> std::same_as<double>;
      share.step(optimizer, lr, scale);
      share.release(gradient);
      share.gather_full_params();
    };

RLCORE_END
