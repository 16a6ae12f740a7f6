// PEFT's adapters of Qwen2.5-VL: names in memory and on disk, and that PEFT chooses and loads the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoint/tiny_vision_folder.hpp"
#include "data/scratch.hpp"
#include "rlcore/checkpoint/adapter.hpp"
#include "rlcore/checkpoint/merge_adapter.hpp"
#include "rlcore/nn/lora/lora.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using nlohmann::json;
using tiny_vision::tiny_model;
namespace fs = std::filesystem;

struct rig {
  tiny_model base{false};
  nn::lora<cpu> adapter;

  explicit rig(const nn::lora_settings& s) : adapter(base.model, s) {
    adapter.attach(base.model);
    std::uint32_t k = 300;
    for (const nn::parameter& p : adapter.parameters()) {
      for (std::uint32_t i = 0; i < p.size; ++i) values()[p.offset + i] = parity::value(k, i) * 0.2f;
      ++k;
    }
    adapter.merge(base.model);
  }
  std::span<float> values() { return {adapter.values().data(), adapter.size()}; }
  checkpoint::adapter_config config() const {
    checkpoint::adapter_config c;
    c.lora = adapter.settings(), c.scale = c.lora.scale();
    c.base_model = "org/vl", c.images = true;
    return c;
  }
};

TEST(vision_adapter, has_the_names_in_memory_and_comes_back) {
  for (const bool all : {false, true}) {
    const scratch::folder place;
    rig r({2, 4, all ? std::vector<std::string>{"all-linear"} : std::vector<std::string>{"q_proj", "v_proj"}});
    checkpoint::write_adapter(place / "a", r.config(), r.adapter.parameters(), r.values());
    const checkpoint::safetensors_reader file(place / "a" / "adapter_model.safetensors");
    EXPECT_TRUE(file.contains("base_model.model.model.language_model.layers.1.self_attn.q_proj.lora_A.weight"));
    EXPECT_EQ(file.contains("base_model.model.model.visual.blocks.0.attn.qkv.lora_B.weight"), all);
    EXPECT_EQ(file.contains("base_model.model.model.visual.merger.mlp.2.lora_B.weight"), all);
    EXPECT_EQ(file.tensors().size(), r.adapter.parameters().size());
    const json written = json::parse(scratch::read(place / "a" / "adapter_config.json"));
    const auto targets = written["target_modules"].get<std::vector<std::string>>();
    EXPECT_EQ(targets.size(), all ? 2u * 7 + 2 * 5 + 2 : 4u);
    EXPECT_EQ(targets[0], "model.language_model.layers.0.self_attn.q_proj");

    const checkpoint::adapter_config d = checkpoint::read_adapter_config(place / "a");
    EXPECT_TRUE(d.images);
    EXPECT_EQ(d.lora.modules[0], "model.layers.0.self_attn.q_proj");
    rig same({2, 4, d.lora.modules});  // the paths choose what the words chose
    ASSERT_EQ(same.adapter.size(), r.adapter.size());
    std::vector<float> values(r.adapter.size());
    checkpoint::load_adapter(place / "a", r.adapter.parameters(), values);
    EXPECT_TRUE(std::equal(values.begin(), values.end(), r.values().begin()));

    checkpoint::adapter_config old = r.config();  // the names of verl before transformers 4.52
    old.images = false;
    checkpoint::write_adapter(place / "old", old, r.adapter.parameters(), r.values());
    values.assign(values.size(), 0);
    checkpoint::load_adapter(place / "old", r.adapter.parameters(), values);
    EXPECT_TRUE(std::equal(values.begin(), values.end(), r.values().begin()));

    tiny_model(false).save(place / "base");
    tiny_model(false).save(place / "base_in_memory", true);
    for (const char* base : {"base", "base_in_memory"})
      for (const char* adapter : {"a", "old"}) {
        EXPECT_EQ(checkpoint::merge_adapter(place / base, place / adapter, place / "merged"), targets.size());
        std::vector<float> merged(r.base.model.size());
        checkpoint::load_weights(place / "merged", r.base.model.parameters(), merged);
        for (std::size_t i = 0; i < merged.size(); ++i) ASSERT_NEAR(merged[i], r.base.weights()[i], 5e-7);
        EXPECT_EQ(checkpoint::read_config(place / "merged").vision, r.base.model.settings().vision);
      }
    const rig other({2, 4, {"q_proj"}});
    scratch::error_of<format_error>(
        [&] {
          std::vector<float> less(other.adapter.size());
          checkpoint::load_adapter(place / "a", other.adapter.parameters(), less);
        },
        {"tensor 'base_model.model.model.language_model.layers.0.", "is not among the adapted modules"});
  }
}

TEST(vision_adapter, peft_chooses_the_same_modules_and_loads_them) {
  const std::string python = scratch::python_with("peft, transformers, torch");
  if (python.empty()) GTEST_SKIP() << "needs Python with peft, transformers and torch";
  const scratch::folder place;
  tiny_model(false).save(place / "base");
  const auto write = [&](const char* name, nn::lora_settings s) {
    rig r(s);
    checkpoint::write_adapter(place / name, r.config(), r.adapter.parameters(), r.values());
    checkpoint::merge_adapter(place / "base", place / name, place / (std::string(name) + "_merged"));
  };
  write("two", {2, 4, {"q_proj", "v_proj"}});
  write("all", {2, 4});
  write("gates", {2, 4, {"gate_proj"}});
  nn::lora_settings text{2, 4}, less{2, 4};
  text.excluded = [](const std::string& name) { return name.find("visual") != std::string::npos; };  // '.*visual.*'
  write("text", text);
  less.exclude = {"qkv", "up_proj"};
  write("less", less);
  const auto result = scratch::run_python(python, R"(
import json, os, sys, warnings
os.environ["HF_HUB_OFFLINE"] = "1"
warnings.filterwarnings("error", message=".*adapter keys.*")
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors import safe_open
from transformers import AutoModelForImageTextToText
torch.set_num_threads(1)
place = sys.argv[1]
load = lambda name: AutoModelForImageTextToText.from_pretrained(f"{place}/{name}", dtype=torch.float32)
for name, targets, excluded in [("two", ["q_proj", "v_proj"], None), ("all", "all-linear", None),
                                ("gates", ["gate_proj"], None), ("text", "all-linear", ".*visual.*"),
                                ("less", "all-linear", ["qkv", "up_proj"])]:
    theirs = get_peft_model(load("base"), LoraConfig(r=2, target_modules=targets, exclude_modules=excluded))
    names = {n.replace(".default", "") for n, _ in theirs.named_parameters() if "lora_" in n}
    with safe_open(f"{place}/{name}/adapter_model.safetensors", "pt") as file:
        ours = set(file.keys())
    assert names == ours, (name, sorted(names ^ ours))
    model = PeftModel.from_pretrained(load("base"), f"{place}/{name}").merge_and_unload()
    merged = dict(load(name + "_merged").named_parameters())
    worst = max(float((p - merged[n]).abs().max()) for n, p in model.named_parameters())
    assert worst < 1e-6, (name, worst)
    print(name, len(ours), "agrees")
)",
                                          "'" + place.path().string() + "'");
  EXPECT_EQ(result.code, 0) << result.output;
  for (const char* line : {"two 8 agrees", "all 52 agrees", "gates 8 agrees", "text 28 agrees", "less 40 agrees"})
    EXPECT_THAT(result.output, testing::HasSubstr(line));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
