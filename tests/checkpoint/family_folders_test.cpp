// Folders of Llama and of scaled rotary positions: those of transformers here, and ours there.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoint/folder_log_probs.hpp"
#include "data/scratch.hpp"
#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/model_weights.hpp"
#include "rlcore/checkpoint/write_config.hpp"
#include "rlcore/device/cpu.hpp"
#include "rlcore/nn/model/causal_lm.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using checkpoint::read_config;
using checkpoint::write_config;
using nlohmann::json;

const std::filesystem::path reference = RLCORE_REFERENCE_DIR;

// As published with Llama-3.1-8B-Instruct: the format of transformers 4.
const char* const published =
    R"({"architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
  "bos_token_id": 128000, "eos_token_id": [128001, 128008, 128009], "hidden_act": "silu", "hidden_size": 4096,
  "initializer_range": 0.02, "intermediate_size": 14336, "max_position_embeddings": 131072, "mlp_bias": false,
  "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
  "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0,
  "high_freq_factor": 4.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"}, "rope_theta": 500000.0,
  "tie_word_embeddings": false, "torch_dtype": "bfloat16", "transformers_version": "4.42.3", "use_cache": true,
  "vocab_size": 128256})";

nn::config read_with(const json& change) {
  const scratch::folder place;
  json root = json::parse(published);
  root.merge_patch(change);
  scratch::write(place / "config.json", root.dump());
  return read_config(place.path());
}

TEST(family_folders, reads_a_published_llama) {
  const nn::config c = read_with(json::object());
  EXPECT_EQ(c.model, nn::llama{});
  EXPECT_EQ(c.head_dim, 128);
  EXPECT_EQ(c.rope_theta, 5e5);
  EXPECT_EQ(c.rope_scaling, (nn::rope_settings{.type = nn::rope_type::llama3,
                                               .factor = 8,
                                               .original_max_position_embeddings = 8192,
                                               .low_freq_factor = 1,
                                               .high_freq_factor = 4}));
  EXPECT_FALSE(c.attention_bias);
  EXPECT_FALSE(c.qk_norms());
  EXPECT_FALSE(c.has_experts());
  EXPECT_EQ(c.eos_token_ids, (std::vector<std::int32_t>{128001, 128008, 128009}));
  EXPECT_EQ(read_with({{"head_dim", 64}}).head_dim, 64);
  EXPECT_EQ(read_with({{"rope_theta", nullptr}}).rope_theta, 1e4);  // LlamaConfig's
  EXPECT_EQ(read_with({{"rope_scaling", nullptr}}).rope_scaling, nn::rope_settings{});
  EXPECT_EQ(read_with({{"rope_scaling",
                        {{"rope_type", "yarn"},
                         {"low_freq_factor", nullptr},
                         {"high_freq_factor", nullptr},
                         {"original_max_position_embeddings", nullptr}}}})
                .rope_scaling.original_max_position_embeddings,
            131072);
  for (const char* key : {"attention_bias", "mlp_bias", "use_sliding_window"})
    scratch::error_of<format_error>([&] { read_with({{key, true}}); },
                                    {std::string("'") + key + "' is true; expected false"});
}

TEST(family_folders, score_models_of_llama) {
  const scratch::folder place;
  nn::config c = read_with(json::object());
  c.output = nn::model_output::score;
  for (const bool bias : {false, true}) {
    c.score_bias = bias;
    write_config(place.path(), c);
    EXPECT_EQ(json::parse(scratch::read(place / "config.json"))["architectures"][0],
              bias ? "LlamaForTokenClassification" : "LlamaForSequenceClassification");
    const nn::config d = read_config(place.path());
    EXPECT_EQ(d.output, nn::model_output::score);
    EXPECT_EQ(d.score_bias, bias);
  }
}

TEST(family_folders, configs_come_back_as_written) {
  for (const std::string name : {"checkpoint_llama", "checkpoint_qwen2_yarn"}) {
    const nn::config c = read_config(reference / name);
    EXPECT_EQ(c.rope_scaling.type, name == "checkpoint_llama" ? nn::rope_type::llama3 : nn::rope_type::yarn);
    const scratch::folder place;
    write_config(place.path(), c);
    const nn::config d = read_config(place.path());
    EXPECT_EQ(d.model, c.model);
    EXPECT_EQ(d.head_dim, c.head_dim);
    EXPECT_EQ(d.rope_theta, c.rope_theta);
    EXPECT_EQ(d.rope_scaling, c.rope_scaling);
    EXPECT_EQ(d.eos_token_ids, c.eos_token_ids);
    EXPECT_EQ(d.tie_word_embeddings, c.tie_word_embeddings);
    EXPECT_EQ(json::parse(scratch::read(place / "config.json")).contains("mlp_bias"), name == "checkpoint_llama");
  }
  nn::config c = read_config(reference / "checkpoint_qwen2_yarn");
  c.rope_scaling = {.type = nn::rope_type::yarn,
                    .factor = 2.5,
                    .original_max_position_embeddings = 100,
                    .beta_fast = 24,
                    .beta_slow = 1.5,
                    .attention_factor = 1.25,
                    .mscale = 0.7,
                    .mscale_all_dim = 0.6,
                    .truncate = false};
  const scratch::folder place;
  write_config(place.path(), c);
  EXPECT_EQ(read_config(place.path()).rope_scaling, c.rope_scaling);
}

TEST(family_folders, a_llama_that_transformers_saved_has_its_weights_and_log_probs) {
  const json golden = json::parse(scratch::read(reference / "checkpoint_families.json"));
  cpu device(1);
  nn::causal_lm<cpu> model(device, read_config(reference / "checkpoint_llama"));
  checkpoint::load_weights(reference / "checkpoint_llama", model.parameters(), {model.weights().data(), model.size()});
  ASSERT_EQ(golden["parameters"].size(), model.parameters().size());
  for (const nn::parameter& p : model.parameters()) {
    const json& theirs = golden["parameters"].at(p.name);
    EXPECT_EQ(theirs["shape"].get<std::vector<std::int64_t>>(), p.shape) << p.name;
    double sum = 0;
    for (std::size_t i = 0; i < p.size; ++i) sum += model.weights().data()[p.offset + i];
    EXPECT_NEAR(sum, theirs["sum"].get<double>(), 1e-9) << p.name;
  }
  const auto logp = log_probs_of(reference / "checkpoint_llama", golden["ids"]);
  const auto theirs = golden["logp"].get<std::vector<double>>();
  ASSERT_EQ(logp.size(), theirs.size());
  for (std::size_t t = 0; t < theirs.size(); ++t) EXPECT_NEAR(logp[t], theirs[t], 2e-6 * std::abs(theirs[t])) << t;
}

/// A Qwen2.5 with YaRN, with random weights.
void write_qwen2_yarn(const std::filesystem::path& folder) {
  cpu device(1);
  nn::causal_lm<cpu> model(device, read_config(reference / "checkpoint_qwen2_yarn"));
  model.initialize(3);
  write_config(folder, model.settings());
  checkpoint::save_weights(folder, model.parameters(), {model.weights().data(), model.size()});
}
/// The Llama of the reference folder, written again.
void write_llama(const std::filesystem::path& folder) {
  cpu device(1);
  nn::causal_lm<cpu> model(device, read_config(reference / "checkpoint_llama"));
  checkpoint::load_weights(reference / "checkpoint_llama", model.parameters(), {model.weights().data(), model.size()});
  write_config(folder, model.settings());
  checkpoint::save_weights(folder, model.parameters(), {model.weights().data(), model.size()});
}

TEST(family_folders, transformers_loads_what_we_write) {
  const std::string python = scratch::python_with("torch, transformers");
  if (python.empty()) GTEST_SKIP() << "no Python with torch and transformers";
  const json golden = json::parse(scratch::read(reference / "checkpoint_families.json"));
  for (const auto write : {&write_llama, &write_qwen2_yarn}) {
    const scratch::folder place;
    write(place.path());
    scratch::write(place / "ours.json",
                   json{{"ids", golden["ids"]}, {"logp", log_probs_of(place.path(), golden["ids"])}}.dump());
    const auto r = scratch::run_python(python, R"(
import json, sys
import torch
from transformers import AutoModelForCausalLM
ours = json.load(open(sys.argv[1] + "/ours.json"))
model, report = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32, output_loading_info=True)
assert not report["missing_keys"] and not report["unexpected_keys"], report
ids = torch.tensor([ours["ids"]])
with torch.no_grad():
    lp = torch.log_softmax(model(ids).logits[0, :-1], -1).gather(1, ids[0, 1:, None])[:, 0]
worst = float((lp - torch.tensor(ours["logp"])).abs().max())
assert worst < 1e-5, worst
print("agrees", model.config.rope_parameters["rope_type"])
)",
                                       "'" + place.path().string() + "'");
    EXPECT_EQ(r.code, 0) << r.output;
    EXPECT_NE(r.output.find(write == &write_llama ? "agrees llama3" : "agrees yarn"), std::string::npos) << r.output;
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
