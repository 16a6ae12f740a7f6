// PEFT's folders: one that peft saved (tests/reference/lora.py), ours in peft, and both merged into their base.
#include "rlcore/checkpoint/adapter.hpp"
#include "rlcore/checkpoint/write_config.hpp"

#include <map>

#include "data/scratch.hpp"
#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/merge_adapter.hpp"
#include "rlcore/checkpoint/model_weights.hpp"
#include "rlcore/device/cpu.hpp"
#include "rlcore/nn/lora/lora.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using rlcore::format_error;
namespace fs = std::filesystem;

const fs::path peft_folder = RLCORE_REFERENCE_DIR "/lora_adapter";

/// The formula of tests/reference/nn_parity.py.
float formula(std::uint32_t k, std::uint32_t i) {
  std::uint32_t x = i * 2654435761u + k * (40503u * 65537u) + 12345u;
  x ^= x >> 15;
  x *= 2246822519u;
  x ^= x >> 13;
  return (static_cast<float>(x >> 16) - 32768.0f) / 65536.0f;
}

/// The models of tests/reference/lora.py.
nn::config tiny(bool score) {
  nn::config c;
  c.model = score ? nn::family::qwen3 : nn::family::qwen2;
  c.output = score ? nn::model_output::score : nn::model_output::logits;
  c.vocab_size = 40, c.hidden_size = 16, c.intermediate_size = 20, c.num_hidden_layers = 2;
  c.num_attention_heads = 4, c.num_key_value_heads = 2, c.head_dim = score ? 6 : 4;
  c.tie_word_embeddings = c.attention_bias = !score;
  c.rope_theta = 10000, c.max_position_embeddings = 64, c.pad_token_id = 0;
  return c;
}

struct rig {
  cpu device;
  nn::causal_lm<cpu> model;
  nn::lora<cpu> adapter;

  rig(bool score, const nn::lora_settings& s) : device(1), model(device, tiny(score)), adapter(model, s) {
    std::uint32_t k = 0;
    for (const auto& [name, p] : sorted(model.parameters()))
      for (std::uint32_t i = 0, n = k++; i < p->size; ++i)
        model.weights().data()[p->offset + i] =
            name.find("norm") != name.npos ? 1 + formula(n, i) * 0.5f : formula(n, i);
    adapter.attach(model);
  }
  static std::map<std::string, const nn::parameter*> sorted(std::span<const nn::parameter> parameters) {
    std::map<std::string, const nn::parameter*> all;
    for (const auto& p : parameters) all[p.name] = &p;
    return all;
  }
  void fill_adapter() {
    std::uint32_t k = 100;
    for (const auto& [name, p] : sorted(adapter.parameters()))
      for (std::uint32_t i = 0, n = k++; i < p->size; ++i) adapter.values().data()[p->offset + i] = formula(n, i);
    adapter.merge(model);
  }
  std::span<const float> weights() const { return {model.weights().data(), model.size()}; }
  std::span<float> values() { return {adapter.values().data(), adapter.size()}; }
  void save_model(const fs::path& folder) const {
    fs::create_directories(folder);
    checkpoint::write_config(folder, model.settings());
    checkpoint::save_weights(folder, model.parameters(), weights());
  }
};

TEST(adapter, reads_what_peft_saved) {
  const checkpoint::adapter_config c = checkpoint::read_adapter_config(peft_folder);
  EXPECT_EQ(c.lora.rank, 3);
  EXPECT_EQ(c.lora.alpha, 5);
  EXPECT_EQ(c.scale, 5.0 / 3);
  EXPECT_EQ(c.base_model, "org/tiny");
  EXPECT_FALSE(c.score);
  EXPECT_EQ(nn::check_lora(c.lora), nn::check_lora({3, 5, {"all-linear"}}));
  rig r(false, c.lora), expected(false, c.lora);
  expected.fill_adapter();
  checkpoint::load_adapter(peft_folder, r.adapter.parameters(), r.values());
  for (std::size_t i = 0; i < r.adapter.size(); ++i) ASSERT_EQ(r.values()[i], expected.values()[i]) << i;
}

TEST(adapter, comes_back_as_written) {
  for (const bool score : {false, true}) {
    const scratch::folder place;
    checkpoint::adapter_config c;
    c.lora = {2, 4.5, {"q_proj", "down_proj"}};
    c.base_model = "/models/base";
    c.score = score;
    rig r(score, c.lora);
    r.fill_adapter();
    checkpoint::write_adapter(place / "a", c, r.adapter.parameters(), r.values());
    ASSERT_TRUE(checkpoint::is_adapter(place / "a"));
    const checkpoint::adapter_config d = checkpoint::read_adapter_config(place / "a");
    EXPECT_EQ(d.lora.rank, 2);
    EXPECT_EQ(d.lora.alpha, 4.5);
    EXPECT_EQ(d.lora.modules, c.lora.modules);
    EXPECT_EQ(d.base_model, c.base_model);
    EXPECT_EQ(d.score, score);
    std::vector<float> values(r.adapter.size());
    checkpoint::load_adapter(place / "a", r.adapter.parameters(), values);
    EXPECT_TRUE(std::equal(values.begin(), values.end(), r.values().begin()));
    const rig other(score, {2, 4, {"q_proj"}});
    scratch::error_of<format_error>([&] { checkpoint::load_adapter(place / "a", other.adapter.parameters(), values); },
                                    {"down_proj.lora_A.weight' is not among the adapted modules"});
    const rig higher(score, {3, 4, {"q_proj", "down_proj"}});
    std::vector<float> more(higher.adapter.size());
    scratch::error_of<format_error>([&] { checkpoint::load_adapter(place / "a", higher.adapter.parameters(), more); },
                                    {"has shape [2, 16]; expected [3, 16]"});
  }
}

TEST(adapter, refuses_what_is_not_plain_lora) {
  const scratch::folder place;
  const auto published = nlohmann::json::parse(scratch::read(peft_folder / "adapter_config.json"));
  const auto refused = [&](const nlohmann::json& change, const std::string& part) {
    auto root = published;
    root.merge_patch(change);
    scratch::write(place / "adapter_config.json", root.dump());
    scratch::error_of<format_error>([&] { checkpoint::read_adapter_config(place.path()); },
                                    {part, (place / "adapter_config.json").string()});
  };
  refused({{"peft_type", "IA3"}}, "'peft_type' is \"IA3\"; expected \"LORA\"");
  refused({{"use_dora", true}}, "'use_dora' is true");
  refused({{"bias", "all"}}, "'bias' is \"all\"; expected \"none\"");
  refused({{"rank_pattern", {{"q_proj", 4}}}}, "'rank_pattern'");
  refused({{"r", 0}}, "'r' is 0");
  refused({{"lora_alpha", 0}}, "'lora_alpha' is 0; expected a number > 0");  // what verl's merger writes
  refused({{"modules_to_save", {"embed_tokens"}}}, "'modules_to_save'");
  refused({{"target_modules", nullptr}}, "'target_modules' is missing");
  auto rs = published;
  rs["use_rslora"] = true;
  scratch::write(place / "adapter_config.json", rs.dump());
  EXPECT_EQ(checkpoint::read_adapter_config(place.path()).scale, 5 / std::sqrt(3.0));
}

TEST(adapter, merged_tensor_by_tensor_is_what_training_used) {
  const scratch::folder place;
  rig r(false, {3, 5, {"all-linear"}});
  r.save_model(place / "base");
  r.fill_adapter();
  for (const std::uint64_t shard : {0u, 4096u}) {
    EXPECT_EQ(checkpoint::merge_adapter(place / "base", peft_folder, place / "merged", {.max_shard_bytes = shard}),
              14u);
    std::vector<float> merged(r.model.size());
    checkpoint::load_weights(place / "merged", r.model.parameters(), merged);
    for (std::size_t i = 0; i < merged.size(); ++i) ASSERT_NEAR(merged[i], r.weights()[i], 2e-7);
    EXPECT_EQ(fs::exists(place / "merged" / "model.safetensors"), shard == 0);
  }
  checkpoint::merge_adapter(place / "base", peft_folder, place / "half", {.type = checkpoint::stored_type::bf16});
  EXPECT_EQ(checkpoint::tensor_folder(place / "half").info("model.norm.weight").dtype, checkpoint::stored_type::bf16);

  rig score(true, {2, 4, {"v_proj"}});
  nn::config causal = tiny(true);
  causal.output = nn::model_output::logits;
  const nn::causal_lm<cpu> wrong(score.device, causal);
  fs::create_directories(place / "other");
  checkpoint::write_config(place / "other", causal);
  checkpoint::save_weights(place / "other", wrong.parameters(), std::vector<float>(wrong.size()));
  scratch::error_of<format_error>([&] { checkpoint::merge_adapter(place / "other", peft_folder, place / "no"); },
                                  {"tensor 'base_model.model.model.layers.0", "has shape", "expected"});
  EXPECT_FALSE(fs::exists(place / "no"));
  score.fill_adapter();
  checkpoint::adapter_config c;
  c.lora = score.adapter.settings(), c.score = true;
  checkpoint::write_adapter(place / "reward", c, score.adapter.parameters(), score.values());
  checkpoint::merge_adapter(place / "other", place / "reward", place / "rm");  // causal base, trained head
  EXPECT_EQ(checkpoint::read_config(place / "rm").output, nn::model_output::score);
  std::vector<float> merged(score.model.size());
  checkpoint::load_weights(place / "rm", score.model.parameters(), merged);
  EXPECT_TRUE(std::equal(merged.end() - 16, merged.end(), score.weights().end() - 16));
}

TEST(adapter, peft_loads_a_folder_we_wrote) {
  const std::string python = scratch::python_with("peft, transformers, torch");
  if (python.empty()) GTEST_SKIP() << "needs Python with peft, transformers and torch";
  const scratch::folder place;
  for (const bool score : {false, true}) {
    const fs::path folder = place / (score ? "score" : "causal");
    checkpoint::adapter_config c;
    c.lora = {3, 5, {"q_proj", "v_proj", "gate_proj", "down_proj"}};
    c.base_model = (folder / "base").string();
    c.score = score;
    rig r(score, c.lora);
    r.save_model(folder / "base");
    r.fill_adapter();
    checkpoint::write_adapter(folder / "adapter", c, r.adapter.parameters(), r.values());
    r.save_model(folder / "trained");
    checkpoint::merge_adapter(folder / "base", folder / "adapter", folder / "merged");
  }
  const auto result = scratch::run_python(python, R"(
import os, sys, warnings
os.environ["HF_HUB_OFFLINE"] = "1"
warnings.filterwarnings("error", message=".*adapter keys.*")
import torch
from peft import AutoPeftModelForCausalLM, PeftModel
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification
ids = torch.arange(12)[None] * 3
for name, auto in ("causal", AutoModelForCausalLM), ("score", AutoModelForSequenceClassification):
    place = os.path.join(sys.argv[1], name)
    base, trained, merged = (auto.from_pretrained(os.path.join(place, f)) for f in ("base", "trained", "merged"))
    before = base(ids).logits.clone()
    model = PeftModel.from_pretrained(base, os.path.join(place, "adapter"))
    got = model(ids).logits
    assert (got - before).abs().max() > 0.1, "the adapter does nothing"
    for other in trained, merged:
        assert torch.allclose(got, other(ids).logits, atol=2e-5), (got - other(ids).logits).abs().max()
model = AutoPeftModelForCausalLM.from_pretrained(os.path.join(sys.argv[1], "causal", "adapter"))  # finds its base
assert model.peft_config["default"].lora_alpha == 5
)",
                                          place.path().string());
  EXPECT_EQ(result.code, 0) << result.output;
}

}  // namespace
}  // namespace RLCORE_TEST_ID
