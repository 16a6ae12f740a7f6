// A short training of any strategy, whose weights and files tests compare.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/model_weights.hpp"
#include "rlcore/device/cpu.hpp"
#include "rlcore/train/files/trained_files.hpp"
#include "rlcore/train/model/scored_groups.hpp"
#include "rlcore/train/model/trainable_model.hpp"

namespace trained_alike {

using namespace rlcore;

/// What is trained, and how.
struct task {
  bool score = false, lora = false, experts = false;
  int rows = 11;
  std::int64_t max_rows = 3;
  double clip = 0.5;
  std::filesystem::path base = {};  ///< a folder to load instead of drawing weights
};

/// What came of it, on one rank.
struct outcome {
  std::vector<float> weights;
  std::vector<double> norms;
  double sum = 0;                            ///< of a report over ranks
  std::vector<double> lengths;               ///< gathered over ranks
  std::map<std::string, std::string> files;  ///< of the checkpoint, by their paths in it
};

inline nn::config config_of(const task& t) {
  nn::config c;
  if (!t.base.empty()) c = checkpoint::read_config(t.base);
  if (t.base.empty()) {
    c.vocab_size = 150, c.hidden_size = 64, c.intermediate_size = 96, c.num_hidden_layers = 2;
    c.num_attention_heads = 4, c.num_key_value_heads = 2, c.head_dim = 16, c.max_position_embeddings = 64;
    c.tie_word_embeddings = true, c.attention_bias = true;
  }
  if (t.experts) {
    c.model = nn::family::qwen3_moe, c.attention_bias = false;
    c.num_experts = 4, c.num_experts_per_tok = 2, c.moe_intermediate_size = 32, c.norm_topk_prob = true;
  }
  if (t.score) c.output = nn::model_output::score;
  return c;
}

inline std::int64_t length_of(std::uint32_t row) { return 2 + static_cast<std::int64_t>(row) * 7 % 19; }

/// Adds the gradient of some rows; every fourth one is masked as a whole.
template <class Model>
void pass(Model& model, const task& t, std::span<const std::uint32_t> rows, int step) {
  ragged<std::int32_t> sequences;
  nn::targets wanted;
  std::vector<float> factor;
  for (const std::uint32_t r : rows) {
    std::vector<std::int32_t> ids;
    for (std::int64_t i = 0; i < length_of(r); ++i) {
      ids.push_back(static_cast<std::int32_t>((i * i + 7 * r + 31 * step) % 150));
      wanted.row.push_back(static_cast<std::int32_t>(sequences.values.size()) + static_cast<std::int32_t>(i));
      wanted.token.push_back((3 * ids.back() + 1) % 150);
      factor.push_back(r % 4 == 2 ? 0.0f : 0.1f);
    }
    sequences.push_back(ids);
  }
  if (t.score)
    model.value_forward_backward(sequences, wanted.row, [&](std::span<const float> value, std::span<float> slope) {
      for (std::size_t i = 0; i < slope.size(); ++i) slope[i] = factor[i] * (value[i] - 1);
    });
  else
    model.forward_backward(sequences, wanted, 1.0f, [&](auto logp, auto, std::span<float> slope, auto) {
      for (std::size_t i = 0; i < slope.size(); ++i) slope[i] = -factor[i] * std::exp(logp[i]);
    });
}

inline std::map<std::string, std::string> files_of(const std::filesystem::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream in(entry.path(), std::ios::binary);
    files[std::filesystem::relative(entry.path(), folder).string()] =
        std::string(std::istreambuf_iterator<char>(in), {});
  }
  return files;
}

/// Three optimizer steps, a checkpoint in `folder` and what it was trained to; all ranks of `strategy` call it.
template <class Strategy>
outcome train(const task& t, const Strategy& strategy, const std::filesystem::path& folder,
              const std::filesystem::path& tokenizer) {
  cpu device(1);
  train::training_settings s;
  s.decay_norms_and_biases = false, s.adamw.weight_decay = 0.1;
  if (!std::same_as<Strategy, strategy::alone>) s.long_pass_tokens = 1;  // they pack unit by unit, to the same bits
  if (t.experts) s.router_aux_loss = 0.01;
  if (t.lora) s.lora = nn::lora_settings{3, 6, {"all-linear"}, 5};
  train::trainable_model<cpu, Strategy> model(device, config_of(t), s, strategy);
  if (t.base.empty()) {
    const auto whole = model.gather_full_params();
    model.model.initialize(7);
  } else {
    train::load_weights(model, t.base);
  }
  outcome out;
  for (int step = 0; step < 3; ++step) {
    model.begin_update();
    model.for_micro_batches({.rows = static_cast<std::size_t>(t.rows), .max_rows = t.max_rows, .max_tokens = 40},
                            length_of, [&](std::span<const std::uint32_t> rows) { pass(model, t, rows, step); });
    out.norms.push_back(model.apply({.lr = 0.003, .grad_clip = t.clip}).gradient_norm);
  }
  const auto mine = train::own_rows(model, static_cast<std::size_t>(t.rows),
                                    [](std::size_t r) { return length_of(static_cast<std::uint32_t>(r)); });
  for (std::size_t r = mine.first; r < mine.last; ++r) {
    out.lengths.push_back(static_cast<double>(length_of(static_cast<std::uint32_t>(r))));
    out.sum += out.lengths.back();
  }
  train::sum_over_ranks(model, out.sum);
  train::gather_rows(model, out.lengths);
  train::save_checkpoint(model, folder, tokenizer, {{"mine", 7}});
  if (train::writes(model)) out.files = files_of(folder);
  const auto whole = model.gather_full_params();
  out.weights = train::to_host(device, std::as_const(model.model).weights());
  return out;
}

}  // namespace trained_alike
