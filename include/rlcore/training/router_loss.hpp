// The load-balancing loss of a mixture of experts in training.
#pragma once

#include <utility>
#include <vector>

#include "rlcore/nn/config.hpp"
#include "rlcore/nn/moe/count_routes.hpp"

RLCORE_BEGIN
namespace trainer {

/// `config`, with a load-balancing loss if the coefficient is above 0.
inline nn::config with_router_loss(nn::config config, double coefficient) {
  if (coefficient > 0) config.output_router_logits = true, config.router_aux_loss_coef = coefficient;
  return config;
}

/// True if training adds a load-balancing loss: like transformers, with output_router_logits.
inline bool balances(const nn::config& c) {
  return c.output_router_logits && c.router_aux_loss_coef > 0 && c.sparse_layers() > 0;
}
/// The gradient of the step's load-balancing loss with respect to each expert's probability
/// (nn::load_balancing_slopes).
inline std::vector<float> balance_slopes(const nn::config& c, const nn::router_counts& step) {
  return nn::load_balancing_slopes(step, c.router_aux_loss_coef);
}

}  // namespace trainer
RLCORE_END
