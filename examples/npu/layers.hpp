// A training step and generation of tiny models, every kernel compared with the CPU's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "compared_device.hpp"
#include "rlcore/core/random.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/forward_backward.hpp"
#include "rlcore/nn/model/log_probs.hpp"
#include "rlcore/optim/adamw.hpp"
#include "rlcore/rollout/engine.hpp"

namespace comparison {

/// Two models that have every layer between them: biases (Qwen2), norms of heads and experts (Qwen3-MoE).
inline rlcore::nn::config tiny(rlcore::nn::family family) {
  rlcore::nn::config c;
  c.model = family;
  c.vocab_size = 2100, c.hidden_size = 64, c.intermediate_size = 96, c.num_hidden_layers = 2;
  c.num_attention_heads = 4, c.num_key_value_heads = 2, c.head_dim = 16, c.max_position_embeddings = 128;
  c.initializer_range = 0.1;
  if (family->experts) {
    c.tie_word_embeddings = false, c.attention_bias = false;
    c.num_experts = 4, c.num_experts_per_tok = 2, c.moe_intermediate_size = 48, c.norm_topk_prob = true;
  }
  return c;
}

/// A forward and backward pass, AdamW, scoring with logits in tiles, greedy and drawn text from pages.
inline void train_and_generate(any_device& device, rlcore::nn::family family) {
  namespace nn = rlcore::nn;
  namespace rollout = rlcore::rollout;
  const rlcore::random_key key{7};
  const nn::config c = tiny(family);
  nn::causal_lm<any_device> model(device, c);
  model.initialize(11);
  rlcore::ragged<std::int32_t> sequences;
  nn::targets targets;
  std::int32_t row = 0;
  for (const std::uint32_t n : {9U, 40U, 23U}) {
    std::vector<std::int32_t> ids;
    for (std::uint32_t t = 0; t < n; ++t) ids.push_back(static_cast<std::int32_t>(key.below(2100, n, t)));
    sequences.push_back(ids);
    for (std::uint32_t t = 2; t + 1 < n; ++t) {
      targets.row.push_back(row + static_cast<std::int32_t>(t));
      targets.token.push_back(ids[t + 1]);
    }
    row += static_cast<std::int32_t>(n);
  }
  nn::workspace<any_device> space(device), little(device, 16384);
  nn::gradients<any_device> gradients(model);
  rlcore::optim::adamw<any_device> optimizer(device, model.size(), {});
  for (const bool recompute : {false, true}) {
    gradients.zero();
    nn::forward_backward(
        model, space, gradients, sequences, targets, 0.8F, recompute,
        [&](std::span<const float> logp, std::span<const float>, std::span<float> dlogp, std::span<float> dentropy) {
          for (std::uint32_t i = 0; i < logp.size(); ++i) {
            dlogp[i] = static_cast<float>(key.child(1).normal(i));
            dentropy[i] = static_cast<float>(0.1 * key.child(2).normal(i));
          }
        });
    const double norm = rlcore::optim::global_norm(device, gradients);
    optimizer.step(model.weights(), gradients, 1e-3, rlcore::optim::clip_scale(norm, 1.0));
  }
  std::vector<float> logp(targets.row.size()), entropy(logp.size());
  nn::log_probs(model, little, sequences, targets, 0.8F, logp, entropy);

  std::vector<rollout::request> requests;
  for (std::uint32_t i = 0; i < 4; ++i) requests.push_back({std::as_const(sequences).row(1 + i / 2), i / 2, i % 2});
  rollout::generation how;
  how.max_new_tokens = 12, how.max_sequences = 3, how.max_batched_tokens = 20;
  rollout::engine<any_device> engine;
  for (const auto& [temperature, top_k, top_p] : {std::tuple{0.0F, 0, 1.0F}, {0.9F, 0, 1.0F}, {0.9F, 50, 0.9F}}) {
    how.sampling.temperature = temperature, how.sampling.top_k = top_k, how.sampling.top_p = top_p;
    engine.generate(model, space, requests, how, key, [](std::size_t) {});
  }
}

/// Results of the kernels that ran.
struct layer_results {
  std::vector<outcome> kernels;
  std::string ended_early;  ///< the error that ended the run, if one did
};

/// `tested` multiplies bfloat16, and so does `reference`, a processor.
inline layer_results compare_layers(any_device& tested, any_device& reference) {
  compared_device both(tested, reference);
  layer_results all;
  try {
    for (const auto family : {rlcore::nn::family::qwen2, rlcore::nn::family::qwen3_moe})
      train_and_generate(both, family);
  } catch (const std::exception& e) {
    all.ended_early = e.what();
  }
  all.kernels = both.outcomes();
  return all;
}

}  // namespace comparison
