// One step of a supervised warm start.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "rlcore/device/any_device.hpp"
#include "rlcore/nn/model/forward_backward.hpp"
#include "rlcore/optim/adamw.hpp"
#include "rlcore/optim/clip.hpp"

namespace embedded_task {

/// A model with what its training needs beside it.
struct learner {
  rlcore::nn::causal_lm<rlcore::any_device>& model;
  rlcore::nn::workspace<rlcore::any_device> space{model.device()};
  rlcore::nn::gradients<rlcore::any_device> gradient{model};
  rlcore::optim::adamw<rlcore::any_device> optimizer{model.device(), model.size(), {.beta2 = 0.95}};
};

/// One optimizer step towards `targets`; returns their log-probs before it.
inline std::vector<float> supervised_step(learner& l, const rlcore::nn::input& sequences,
                                          const rlcore::nn::targets& targets, double lr) {
  namespace nn = rlcore::nn;
  namespace optim = rlcore::optim;
  std::vector<float> before;
  l.gradient.zero();
  nn::forward_backward(
      l.model, l.space, l.gradient, sequences, targets, 1.0f, false,
      [&](std::span<const float> logp, std::span<const float>, std::span<float> dlogp, std::span<float>) {
        before.assign(logp.begin(), logp.end());
        for (float& d : dlogp) d = -1 / static_cast<float>(logp.size());
      });
  const double norm = optim::global_norm(l.model.device(), l.gradient);
  l.optimizer.step(l.model.weights(), l.gradient, lr, optim::clip_scale(norm, 1.0));
  return before;
}

}  // namespace embedded_task
