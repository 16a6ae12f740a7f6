// model_merger over what FSDP workers save of a Qwen2.5-VL, against transformers' own folder and PEFT's own merge.
#include "data/scratch.hpp"
#include "support/program.hpp"

namespace RLCORE_TEST_ID {
namespace {

namespace fs = std::filesystem;

TEST(vision_merger, shards_become_what_transformers_and_peft_write) {
  if (!fs::exists(program::path_of("model_merger"))) GTEST_SKIP() << "no model_merger in " << RLCORE_BIN_DIR;
  const std::string python = scratch::python_with("torch, transformers, peft");
  if (python.empty()) GTEST_SKIP() << "no Python with torch, transformers and peft";
  const scratch::folder place;
  // One worker's state_dict() has what each of several would have pieces of; it is saved as they save it.
  const auto made = scratch::run_python(python, R"(
import json, os, sys
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoConfig, AutoModelForImageTextToText
torch.manual_seed(3)
place, reference = sys.argv[1:]
with open(reference + "/checkpoint_vision.json") as file:
    layout = json.load(file)["layouts"]["5.23.0 tied"]
os.makedirs(place + "/config")
with open(place + "/config/config.json", "w") as file:
    json.dump(layout, file)
for kind in ("plain", "lora"):
    actor = f"{place}/{kind}/actor"
    os.makedirs(actor + "/huggingface")
    model = AutoModelForImageTextToText.from_config(AutoConfig.from_pretrained(place + "/config"))
    model.config.save_pretrained(actor + "/huggingface")
    with open(actor + "/huggingface/preprocessor_config.json", "w") as file:
        file.write("{}")
    if kind == "lora":
        model = get_peft_model(model, LoraConfig(r=2, lora_alpha=4, target_modules="all-linear"))
        for name, p in model.named_parameters():
            if "lora_" in name:
                torch.nn.init.normal_(p, std=0.1)
        with open(actor + "/lora_train_meta.json", "w") as file:
            json.dump({"r": 2, "lora_alpha": 4}, file)
    weights = {name: p.detach().clone() for name, p in model.state_dict().items()}
    torch.save(weights, actor + "/model_world_size_1_rank_0.pt")
    if kind == "lora":
        model = model.merge_and_unload()
    model.save_pretrained(f"{place}/{kind}/expected")
)",
                                        "'" + place.path().string() + "' '" RLCORE_REFERENCE_DIR "'");
  ASSERT_EQ(made.code, 0) << made.output;
  for (const std::string kind : {"plain", "lora"}) {
    const std::string actor = (place / kind / "actor").string(), out = (place / (kind + "_merged")).string();
    const auto merger = [&](std::vector<std::string> arguments) {
      for (const char* more : {"--backend", "fsdp", "--dtype", "fp32"}) arguments.emplace_back(more);
      return program::run("model_merger", arguments);
    };
    auto r = merger({"merge", "--local_dir", actor, "--target_dir", out, "--merge-lora"});
    ASSERT_EQ(r.code, 0) << r.err;
    EXPECT_TRUE(fs::exists(out + "/preprocessor_config.json"));
    r = merger({"test", "--local_dir", actor, "--test_hf_dir", (place / kind / "expected").string(), "--merge-lora"});
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_NE(r.out.find("equal: 56 tensors"), std::string::npos) << r.out;
    if (kind == "plain") continue;
    // The adapter beside its base, and added to it.
    ASSERT_EQ(merger({"merge", "--local_dir", actor, "--target_dir", out}).code, 0);
    const std::string added = (place / "added").string();
    r = merger(
        {"merge", "--local_dir", out + "/lora_adapter", "--base_model", out, "--merge-lora", "--target_dir", added});
    ASSERT_EQ(r.code, 0) << r.err;
    EXPECT_NE(r.out.find("26 adapted matrices"), std::string::npos) << r.out;
    EXPECT_EQ(merger({"test", "--local_dir", actor, "--test_hf_dir", added, "--merge-lora"}).code, 0);
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
