// Folders of Qwen2.5-VL: names on disk and in memory, sizes, and transformers' log-probs through our reader.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/tiny_vision_folder.hpp"
#include "data/scratch.hpp"
#include "nn/parity_example.hpp"
#include "nn/vl_parity_rows.hpp"
#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/model_weights.hpp"
#include "rlcore/device/cpu.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/log_probs.hpp"
#include "rlcore/nn/vision/vision_config.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using nlohmann::json;
using tiny_vision::golden;
using tiny_vision::tiny_model;
namespace fs = std::filesystem;

TEST(vision_folders, names_and_shapes_are_those_that_transformers_saves) {
  for (const bool tied : {false, true}) {
    const char* const word = tied ? "tied" : "untied";
    const tiny_model tiny(tied);
    std::map<std::string, std::vector<std::int64_t>> ours;
    std::set<std::string> memory;
    for (const auto& p : tiny.model.parameters()) ours[p.name] = p.shape, memory.insert(nn::name_in_memory(p.name));
    EXPECT_EQ(ours, (golden()["shapes"][word].get<std::map<std::string, std::vector<std::int64_t>>>()));
    EXPECT_EQ(memory, golden()["in_memory"][word].get<std::set<std::string>>());
    for (const std::string& name : memory) {
      EXPECT_TRUE(ours.contains(nn::name_on_disk(name))) << name;
      EXPECT_EQ(nn::name_in_memory(name), name);
    }
    for (const auto& [name, shape] : ours) EXPECT_EQ(nn::name_on_disk(name), name);
  }
}

/// The log-probs of vl_parity.json with the model of a folder.
void expect_log_probs(const fs::path& folder, bool tied) {
  cpu device(1);
  nn::causal_lm<cpu> model(device, checkpoint::read_config(folder));
  checkpoint::load_weights(folder, model.parameters(), {model.weights().data(), model.size()});
  const json all = parity::read("vl_parity.json");
  for (const json& spec : all.at("cases")) {
    if (spec.at("tied") != tied) continue;
    const parity::vl_rows rows(spec.at("rows"));
    std::vector<float> logp(rows.targets.row.size());
    nn::workspace<cpu> space(device);
    nn::log_probs(model, space, rows.input(), rows.targets, 1, logp, {});
    EXPECT_LT(parity::relative_error(logp, spec.at("logp").get<std::vector<double>>()), 1e-6);
  }
}

TEST(vision_folders, either_naming_gives_the_log_probs_of_transformers) {
  for (const bool tied : {false, true})
    for (const bool in_memory : {false, true})
      for (const std::uint64_t shard : {0u, 60000u}) {
        SCOPED_TRACE(std::to_string(tied) + std::to_string(in_memory) + std::to_string(shard));
        const scratch::folder place;
        tiny_model(tied).save(place / "m", in_memory, shard);
        EXPECT_EQ(fs::exists(place / "m" / "model.safetensors"), shard == 0);
        expect_log_probs(place / "m", tied);
        const checkpoint::tensor_folder folder(place / "m");
        EXPECT_TRUE(folder.contains("visual.merger.ln_q.weight"));
        EXPECT_FALSE(folder.contains("model.visual.merger.ln_q.weight"));
        EXPECT_EQ(folder.info("model.norm.weight").name, "model.norm.weight");
      }
}

TEST(vision_folders, missing_and_misshapen_weights_of_the_tower) {
  const scratch::folder place;
  tiny_model tiny(true);
  const auto refused = [&](std::vector<nn::parameter> stored, const std::vector<std::string>& parts) {
    checkpoint::save_weights(place.path(), stored, tiny.weights());
    std::vector<float> weights(tiny.model.size());
    scratch::error_of<format_error>([&] { checkpoint::load_weights(place.path(), tiny.model.parameters(), weights); },
                                    parts);
  };
  const std::vector<nn::parameter> whole(tiny.model.parameters().begin(), tiny.model.parameters().end());
  const auto at = [](std::vector<nn::parameter>& list, const std::string& name) {
    return std::find_if(list.begin(), list.end(), [&](const nn::parameter& p) { return p.name == name; });
  };
  auto list = whole;
  list.erase(at(list, "visual.blocks.1.attn.qkv.bias"));
  refused(list, {"tensor 'visual.blocks.1.attn.qkv.bias' of shape [96] is missing"});
  list = whole;
  std::swap(at(list, "visual.patch_embed.proj.weight")->shape[1], at(list, "visual.patch_embed.proj.weight")->shape[2]);
  refused(list, {"'visual.patch_embed.proj.weight' has shape [32, 2, 3, 14, 14]; the model needs [32, 3, 2, 14, 14]"});
  list = whole;
  list.push_back(*at(list, "visual.merger.ln_q.weight"));
  list.back().name = "visual.merger.ln_k.weight";
  refused(list, {"tensor 'visual.merger.ln_k.weight' is not part of the model", "visual.merger.ln_q.weight"});
  list.back().name = "model.visual.merger.ln_q.weight";
  refused(list, {"tensors '", "model.visual.merger.ln_q.weight", "' are one; expected either name"});
  list = whole;
  list.push_back(*at(list, "model.embed_tokens.weight"));
  list.back().name = "lm_head.weight";  // the same values: a tied model's copy
  checkpoint::save_weights(place.path(), list, tiny.weights());
  std::vector<float> weights(tiny.model.size());
  checkpoint::load_weights(place.path(), tiny.model.parameters(), weights);
  EXPECT_TRUE(std::equal(weights.begin(), weights.end(), tiny.weights().begin()));
}

TEST(vision_folders, parameters_of_the_released_models) {
  for (const auto& [name, spec] : golden()["parameters"].items()) {
    const json& text = spec["config"];
    nn::config c;
    c.model = nn::qwen2_5_vl{};
    c.vocab_size = text["vocab_size"], c.hidden_size = text["hidden_size"];
    c.intermediate_size = text["intermediate_size"], c.num_hidden_layers = text["num_hidden_layers"];
    c.num_attention_heads = text["num_attention_heads"], c.num_key_value_heads = text["num_key_value_heads"];
    c.tie_word_embeddings = text["tie_word_embeddings"];
    c.vision.emplace();
    c.vision->intermediate_size = spec["vision_intermediate_size"], c.vision->out_hidden_size = c.hidden_size;
    c.mrope_section = {16, 24, 24};
    cpu device(1);
    const nn::causal_lm<cpu> model(device, c, {}, nn::weights_in::units);
    std::size_t seen = 0;
    for (const auto& p : model.parameters()) seen += p.name.starts_with("visual.") ? p.size : 0;
    EXPECT_EQ(seen, spec["vision"].get<std::size_t>()) << name;
    EXPECT_EQ(model.size(), spec["all"].get<std::size_t>()) << name;
    EXPECT_EQ(model.tower_range().second - model.tower_range().first, seen) << name;
  }
}

// Either version: that of requirements.txt loads the same folder as 4.57.
TEST(vision_folders, transformers_loads_what_we_write) {
  const std::string python = scratch::python_with("torch, transformers");
  if (python.empty()) GTEST_SKIP() << "no Python with torch and transformers";
  for (const bool tied : {false, true}) {
    const scratch::folder place;
    tiny_model(tied).save(place.path());
    const auto r = scratch::run_python(python, R"(
import json, sys
import torch
from transformers import AutoModelForImageTextToText
torch.set_grad_enabled(False)
sys.path.insert(0, sys.argv[2])
from vision_tower import values
model, report = AutoModelForImageTextToText.from_pretrained(sys.argv[1], dtype=torch.float32, output_loading_info=True)
assert not report["missing_keys"] and not report["unexpected_keys"] and not report["mismatched_keys"], report
assert type(model).__name__ == "Qwen2_5_VLForConditionalGeneration"
worst, shown = 0, 0
for case in json.load(open(sys.argv[2] + "/vl_parity.json"))["cases"]:
    if case["tied"] != model.config.tie_word_embeddings:
        continue
    logps, used = [], 0
    for tokens, grids in case["rows"]:
        ids = torch.tensor([tokens])
        more = {}
        if grids:
            count = sum(h * w for h, w in grids)
            patches = values(500, (used + count) * 1176)[used * 1176:].reshape(count, 1176)
            more = dict(pixel_values=torch.from_numpy(patches).float(), mm_token_type_ids=(ids == 57).int(),
                        image_grid_thw=torch.tensor([[1, h, w] for h, w in grids]))
            used, shown = used + count, shown + count
        try:
            logits = model(input_ids=ids, attention_mask=torch.ones_like(ids), **more).logits
        except TypeError:  # transformers 4 takes the grids alone
            more.pop("mm_token_type_ids")
            logits = model(input_ids=ids, attention_mask=torch.ones_like(ids), **more).logits
        logits[:, :, 56:58] = -torch.inf  # what stands for pictures is not sampled
        logp = logits[0, :-1].log_softmax(-1).gather(1, ids[0, 1:, None])[:, 0]
        logps += logp[ids[0, 1:] != 57].tolist()
    worst = max(worst, max(abs(a - b) for a, b in zip(logps, case["logp"], strict=True)))
assert shown and worst < 1e-4, (shown, worst)
print("agrees", model.config.tie_word_embeddings)
)",
                                       "'" + place.path().string() + "' '" RLCORE_REFERENCE_DIR "'");
    EXPECT_EQ(r.code, 0) << r.output;
    EXPECT_NE(r.output.find(tied ? "agrees True" : "agrees False"), std::string::npos) << r.output;
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
