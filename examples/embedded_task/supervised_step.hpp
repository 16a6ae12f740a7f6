// Supervised warm start, shared by both tasks: data, one step, and the model's folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>
#include <vector>

#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/model_weights.hpp"
#include "rlcore/checkpoint/write_config.hpp"
#include "rlcore/device/any_device.hpp"
#include "rlcore/nn/model/forward_backward.hpp"
#include "rlcore/optim/adamw.hpp"
#include "rlcore/tensor/view.hpp"
#include "rlcore/text/tokenizer.hpp"
#include "rlcore/train/files/model_files.hpp"

namespace embedded_task {

/// The shape of the text tasks' models: 0.3 M parameters.
inline rlcore::nn::config tiny_qwen2(const rlcore::text::tokenizer& tokenizer) {
  rlcore::nn::config c;
  c.vocab_size = static_cast<std::int64_t>(tokenizer.vocab_size());
  c.hidden_size = 128;
  c.intermediate_size = 256;
  c.num_hidden_layers = 2;
  c.num_attention_heads = 4;
  c.num_key_value_heads = 2;
  c.head_dim = 32;
  c.max_position_embeddings = 512;
  c.initializer_range = 0.05;
  c.eos_token_ids = {*tokenizer.eos_id()};
  c.pad_token_id = *tokenizer.pad_id();
  return c;
}

/// Prompts with target answers.
struct lesson {
  rlcore::ragged<std::int32_t> tokens;  ///< a row for each prompt with its answer
  rlcore::nn::targets targets;          ///< the tokens of the answers, and the end after each

  void add(std::span<const std::int32_t> prompt, std::span<const std::int32_t> answer, std::int32_t end) {
    add({{{prompt.begin(), prompt.end()}, {answer.begin(), answer.end()}}}, end);
  }
  /// What is read, and what is answered to it, turn by turn; `end` ends each answer.
  void add(const std::vector<std::pair<std::vector<std::int32_t>, std::vector<std::int32_t>>>& turns,
           std::int32_t end) {
    std::vector<std::int32_t> row;
    const std::size_t start = tokens.size();
    for (const auto& [read, answer] : turns) {
      row.insert(row.end(), read.begin(), read.end());
      for (std::size_t t = 0; t <= answer.size(); ++t) {
        targets.row.push_back(static_cast<std::int32_t>(start + row.size() - 1));
        targets.token.push_back(t < answer.size() ? answer[t] : end);
        row.push_back(targets.token.back());
      }
    }
    row.pop_back();  // the last end predicts nothing
    tokens.push_back(row);
  }
};

/// A model with its training state.
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

/// Writes config.json and the weights.
inline void save(const rlcore::nn::causal_lm<rlcore::any_device>& model, const std::filesystem::path& folder) {
  rlcore::checkpoint::write_config(folder, model.settings());
  rlcore::checkpoint::save_weights(folder, model.parameters(), rlcore::train::to_host(model.device(), model.weights()));
}

}  // namespace embedded_task
