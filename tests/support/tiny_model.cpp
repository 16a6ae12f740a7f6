#include "support/tiny_model.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/model_weights.hpp"
#include "rlcore/checkpoint/write_config.hpp"
#include "rlcore/device/cpu.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/text/model_file.hpp"
#include "rlcore/text/text_file.hpp"
#include "rlcore/text/tokenizer.hpp"
#include "rlcore/text/train_bpe.hpp"
#include "rlcore/verify/dataset_rows.hpp"

namespace tiny_model {

rlcore::data::row problem(std::size_t i, const std::string& split) {
  static constexpr std::array<const char*, 5> things{"apples", "books", "cards", "coins", "eggs"};
  const int result = 1 + static_cast<int>(i) % answers, left = static_cast<int>(i / answers) % 7;
  const std::string question = "Ann has " + std::to_string(result + left) + " " + things[i % things.size()] +
                               " and gives " + std::to_string(left) + " away. How many are left?";
  return rlcore::verify::gsm8k_row(question, "#### " + std::to_string(result), split, i, "tiny");
}

std::string rows(std::size_t count, const std::string& split) {
  std::string lines;
  for (std::size_t i = 0; i < count; ++i) lines += problem(i, split).dump() + "\n";
  return lines;
}

void write(const fs::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

void save_tokenizer(const fs::path& folder) {
  std::vector<std::string> corpus{"system\nuser\nassistant\n"}, added;
  for (std::size_t i = 0; i < 28; ++i) corpus.push_back(problem(i, "train")["prompt"][0]["content"].get<std::string>());
  for (int i = 1; i <= answers; ++i) added.push_back("#### " + std::to_string(i));
  for (const char* name : {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}) added.emplace_back(name);
  rlcore::text::save(rlcore::text::train_bpe(corpus, 340, added), folder);
  auto json = nlohmann::ordered_json::parse(std::ifstream(folder / "tokenizer.json"));
  for (auto& token : json["added_tokens"])
    if (token["content"].get<std::string>().starts_with("####")) token["special"] = false;
  write(folder / "tokenizer.json", json.dump());
}

rlcore::nn::config config_for(const rlcore::text::tokenizer& tokenizer) {
  rlcore::nn::config c;
  c.vocab_size = static_cast<std::int64_t>(tokenizer.vocab_size());
  c.hidden_size = 32, c.intermediate_size = 48, c.num_hidden_layers = 2;
  c.num_attention_heads = 4, c.num_key_value_heads = 2, c.head_dim = 8;
  c.max_position_embeddings = 1024;
  c.initializer_range = 0.2;
  c.eos_token_ids = {*tokenizer.eos_id()};
  c.pad_token_id = *tokenizer.pad_id();
  return c;
}

void save_weights(const fs::path& folder, std::uint64_t seed, std::int64_t experts) {
  save_weights(folder, seed, [&](rlcore::nn::config& c) {
    if (experts == 0) return;
    c.model = rlcore::nn::family::qwen3_moe, c.attention_bias = false;
    c.num_experts = experts, c.num_experts_per_tok = 2, c.moe_intermediate_size = 24, c.norm_topk_prob = true;
    c.output_router_logits = true, c.router_aux_loss_coef = 0.1;
  });
}

void save_weights(const fs::path& folder, std::uint64_t seed, const std::function<void(rlcore::nn::config&)>& change) {
  const auto tokenizer = rlcore::text::tokenizer::load(folder);
  rlcore::nn::config c = config_for(tokenizer);
  change(c);
  rlcore::cpu device(1);
  rlcore::nn::causal_lm<rlcore::cpu> model(device, c);
  model.initialize(seed);
  std::vector<float> weights(model.weights().data(), model.weights().data() + model.size());
  const auto width = static_cast<std::size_t>(model.settings().hidden_size), vocabulary = tokenizer.vocab_size();
  for (std::size_t id = 0; id < vocabulary; ++id) weights[id * width] = 4;  // the embedding comes first
  const auto likely = [&](std::int32_t id) { weights[static_cast<std::size_t>(id) * width] = 4.75f; };
  likely(*tokenizer.eos_id());
  for (int i = 1; i <= answers; ++i)
    if (const auto id = tokenizer.id_of("#### " + std::to_string(i))) likely(*id);
  rlcore::checkpoint::write_config(folder, model.settings());
  rlcore::checkpoint::save_weights(folder, model.parameters(), weights);
}

files make(const fs::path& root, std::uint64_t seed) {
  files f{root / "model", root / "train.jsonl", root / "val.jsonl"};
  fs::create_directories(f.model);
  save_tokenizer(f.model);
  save_weights(f.model, seed);
  write(f.train, rows(18, "train"));
  write(f.val, rows(5, "test"));
  return f;
}

void make_for_tokenizer(const fs::path& model, const fs::path& tokenizer_folder, std::uint64_t seed) {
  fs::create_directories(model);
  rlcore::text::copy_files(tokenizer_folder, model);
  save_weights(model, seed);
}

}  // namespace tiny_model
