// Runs build/bin/model_merger as a user would.
#include "checkpoint/torch_archive.hpp"
#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/model_weights.hpp"
#include "rlcore/checkpoint/shard_files.hpp"
#include "rlcore/device/cpu.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/parallel/communicator/threads.hpp"
#include "support/program.hpp"
#include "support/tiny_model.hpp"

namespace RLCORE_TEST_ID {
namespace {

namespace fs = std::filesystem;
using rlcore::cpu;

const fs::path reference = fs::path(RLCORE_REFERENCE_DIR) / "fsdp_shards";

class model_merger : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(program::path_of("model_merger"))) GTEST_SKIP() << "no model_merger in " << RLCORE_BIN_DIR;
    fs::create_directories(actor / "huggingface");
  }
  /// verl's folder global_step_2/actor of one kind of sharding.
  void checkpoint_of(const std::string& kind) {
    fs::copy(reference / kind, actor, fs::copy_options::recursive);
    for (const char* name : {"config.json", "generation_config.json"})
      fs::copy_file(reference / "huggingface" / name, actor / "huggingface" / name);
    scratch::write(actor / "huggingface" / "vocab.json", "{}");
  }
  program::result merge(std::vector<std::string> more) {
    std::vector<std::string> arguments{"merge",        "--backend",    "fsdp",      "--local_dir",
                                       actor.string(), "--target_dir", out.string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return program::run("model_merger", arguments);
  }
  void refused(const std::vector<std::string>& arguments, const std::string& part) {
    const program::result r = program::run("model_merger", arguments);
    EXPECT_EQ(r.code, 1) << r.out;
    EXPECT_NE(r.err.find(part), std::string::npos) << r.err;
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
    EXPECT_FALSE(fs::exists(out)) << part;
  }
  /// The weights as our engine loads them.
  static std::vector<float> weights_of(const fs::path& folder) {
    cpu device(1);
    rlcore::nn::causal_lm<cpu> model(device, rlcore::checkpoint::read_config(folder));
    std::vector<float> weights(model.size());
    rlcore::checkpoint::load_weights(folder, model.parameters(), weights);
    return weights;
  }

  const scratch::folder place;
  const fs::path actor = place / "global_step_2/actor", out = place / "merged";
};

TEST_F(model_merger, shards_of_verl_become_a_model_that_the_engine_loads) {
  checkpoint_of("fsdp2");
  program::result r = merge({"--dtype", "fp32", "--tie-word-embedding"});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.out.find("14 tensors, 1 file of F32"), std::string::npos) << r.out;
  const std::vector<float> expected = weights_of(reference / "huggingface");
  EXPECT_EQ(weights_of(out), expected);
  EXPECT_TRUE(fs::exists(out / "vocab.json"));
  EXPECT_EQ(scratch::read(out / "generation_config.json"),
            scratch::read(reference / "huggingface" / "generation_config.json"));

  // As verl: bfloat16 unless told otherwise, and the configuration says so.
  r = merge({});
  ASSERT_EQ(r.code, 0) << r.err;
  const std::vector<float> half = weights_of(out);
  for (std::size_t i = 0; i < half.size(); ++i) ASSERT_EQ(half[i], static_cast<float>(rlcore::bf16(expected[i])));
  const auto config = nlohmann::json::parse(scratch::read(out / "config.json"));
  EXPECT_EQ(config.value("dtype", config.value("torch_dtype", "")), "bfloat16");

  r = program::run("model_merger",
                   {"test", "--backend=fsdp", "--local_dir=" + actor.string(), "--test_hf_dir=" + out.string()});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.out.find("equal: 14 tensors"), std::string::npos) << r.out;
  r = program::run("model_merger", {"test", "--backend=fsdp", "--dtype=fp32", "--local_dir=" + actor.string(),
                                    "--test_hf_dir=" + out.string()});
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("differs at element"), std::string::npos) << r.err;
}

TEST_F(model_merger, gguf_files_are_written_and_read) {
  tiny_model::save_tokenizer(actor / "huggingface");
  tiny_model::save_weights(actor / "huggingface", 5);
  const fs::path file = place / "model.gguf", q8 = place / "q8.gguf";
  const auto merge_to = [&](const fs::path& from, const fs::path& to, const std::string& dtype) {
    return program::run("model_merger", {"merge", "--backend", "fsdp", "--local_dir", from.string(), "--target_dir",
                                         to.string(), "--dtype", dtype});
  };
  program::result r = merge_to(actor, file, "fp32");
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.out.find("model.gguf: 26 tensors, matrices of F32"), std::string::npos) << r.out;
  const std::vector<float> expected = weights_of(actor / "huggingface");
  EXPECT_EQ(weights_of(file), expected);
  r = merge_to(file, out, "fp32");
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(weights_of(out), expected);
  for (const char* name : {"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"})
    EXPECT_TRUE(fs::exists(out / name)) << name;
  r = program::run("model_merger", {"test", "--backend", "fsdp", "--dtype", "fp32", "--local_dir", actor.string(),
                                    "--test_hf_dir", file.string()});
  EXPECT_EQ(r.code, 0) << r.err;

  ASSERT_EQ(merge_to(file, q8, "q8_0").code, 0);
  const std::vector<float> rounded = weights_of(q8);
  EXPECT_NE(rounded, expected);
  float worst = 0, largest = 0;
  for (std::size_t i = 0; i < rounded.size(); ++i) {
    worst = std::max(worst, std::abs(rounded[i] - expected[i]));
    largest = std::max(largest, std::abs(expected[i]));
  }
  EXPECT_LE(worst, largest / 250);  // half a step of 1/127 of the largest number of a block

  fs::remove_all(out);
  const std::string from = actor.string();
  refused({"merge", "--backend=fsdp", "--local_dir=" + from, "--target_dir=" + out.string(), "--dtype=q8_0"},
          "--dtype q8_0: a folder has bf16, fp16 or fp32; expected one of them, or --target_dir FILE.gguf");
  refused({"merge", "--backend=fsdp", "--local_dir=" + file.string(), "--target_dir=" + file.string()},
          "is the checkpoint itself; give another path");
}

TEST_F(model_merger, our_own_checkpoints_are_cast_and_copied) {
  tiny_model::save_tokenizer(actor / "huggingface");
  tiny_model::save_weights(actor / "huggingface", 5);
  const program::result r = merge({"--max-shard-size", "1e-5"});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(fs::exists(out / "model.safetensors.index.json"));
  EXPECT_TRUE(fs::exists(out / "tokenizer.json"));
  std::vector<float> expected = weights_of(actor / "huggingface");
  for (float& x : expected) x = rlcore::bf16(x);
  EXPECT_EQ(weights_of(out), expected);
}

TEST_F(model_merger, adapter_merged_or_beside_the_base) {
  checkpoint_of("lora");
  fs::remove(actor / "merged.safetensors");
  program::result r = merge({"--dtype", "fp32"});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(weights_of(out), weights_of(reference / "huggingface"));
  const auto config = nlohmann::json::parse(scratch::read(out / "lora_adapter" / "adapter_config.json"));
  EXPECT_EQ(config["lora_alpha"], 6);
  EXPECT_EQ(config["target_modules"], (std::vector<std::string>{"down_proj", "q_proj"}));
  // The adapter folder alone, added to the base that was written beside it.
  const std::string adapter = (out / "lora_adapter").string();
  EXPECT_NE(
      program::run("model_merger", {"merge", "--backend", "fsdp", "--local_dir", adapter}).err.find("--merge-lora"),
      std::string::npos);
  r = program::run("model_merger", {"merge", "--backend", "fsdp", "--local_dir", adapter, "--base_model", out.string(),
                                    "--merge-lora", "--dtype", "fp32", "--target_dir", (place / "added").string()});
  ASSERT_EQ(r.code, 0) << r.err;
  ASSERT_EQ(merge({"--merge-lora", "--dtype", "fp32"}).code, 0);
  const std::vector<float> added = weights_of(place / "added"), merged = weights_of(out);
  for (std::size_t i = 0; i < merged.size(); ++i) ASSERT_NEAR(added[i], merged[i], 1e-6F);
  fs::remove_all(out);

  fs::create_directory(place / "peft");
  fs::copy_file(reference / "lora" / "merged.safetensors", place / "peft" / "model.safetensors");
  ASSERT_EQ(merge({"--merge-lora"}).code, 0);
  EXPECT_FALSE(fs::exists(out / "lora_adapter"));
  r = program::run("model_merger", {"test", "--backend", "fsdp", "--merge-lora", "--dtype", "fp32", "--local_dir",
                                    actor.string(), "--test_hf_dir", (place / "peft").string()});
  EXPECT_EQ(r.code, 0) << r.err;

  fs::remove(actor / "lora_train_meta.json");
  fs::remove_all(out);
  refused({"merge", "--backend", "fsdp", "--local_dir", actor.string(), "--target_dir", out.string()}, "lora_alpha");
  EXPECT_EQ(merge({"--lora-alpha", "6"}).code, 0);
}

TEST_F(model_merger, refuses_what_it_cannot_do) {
  const std::string local = actor.string(), target = out.string();
  refused({}, "expected merge or test");
  refused({"merg", "--backend", "fsdp"}, "did you mean 'merge'");
  refused({"merge", "--local_dir", local}, "needs --backend");
  refused({"merge", "--backend", "fsdp"}, "needs --local_dir");
  refused({"merge", "--backend", "megatron", "--local_dir", local, "--target_dir", target}, "dist_ckpt");
  refused({"merge", "--backend", "fsdp", "--local_dir", local, "--hf_upload_path", "me/model", "--target_dir", target},
          "nothing is uploaded");
  refused({"merge", "--backend", "fsdp", "--local_dir", (place / "none").string()}, "no folder");
  refused({"merge", "--backend", "fsdp", "--local_dir", local, "--target_dir", target}, "config.json: missing");
  refused({"merge", "--backend", "fsdp", "--local_dir", local, "--dtyp", "fp32", "--no_such"}, "no_such");
  refused({"test", "--backend", "fsdp", "--local_dir", local}, "needs --test_hf_dir");
  checkpoint_of("plain");
  refused({"merge", "--backend", "fsdp", "--local_dir", actor.parent_path().string(), "--target_dir", target},
          "its policy is --local_dir " + local);
  refused({"merge", "--backend", "fsdp", "--local_dir", local, "--target_dir", target, "--dtype", "int8"}, "dtype");
  const fs::path shard = actor / "model_world_size_1_rank_0.pt";
  const std::string bytes = scratch::read(shard);
  scratch::write(shard, bytes.substr(0, 3000));
  refused({"merge", "--backend", "fsdp", "--local_dir", local, "--target_dir", target}, "truncated");
  using namespace torch_archive;
  write_file(shard, pickle(global("os", "system") + text("touch " + (place / "executed").string()) + "\x85R"));
  refused({"merge", "--backend", "fsdp", "--local_dir", local, "--target_dir", target}, "os.system");
  EXPECT_FALSE(fs::exists(place / "executed"));
  const program::result r = merge({"--target_dir", (actor / "huggingface").string()});
  EXPECT_EQ(r.code, 1);
}

TEST_F(model_merger, transformers_loads_the_result) {
  const std::string python = scratch::python_with("torch, transformers, safetensors");
  if (python.empty()) GTEST_SKIP() << "no Python with torch and transformers";
  checkpoint_of("fsdp1_bf16");
  ASSERT_EQ(merge({}).code, 0);
  const scratch::python_result r =
      scratch::run_python(python, R"(
import sys, torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM
m = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype="auto")
assert m.dtype == torch.bfloat16, m.dtype
whole = load_file(sys.argv[2] + "/model.safetensors")
state = m.state_dict()
assert all(torch.equal(state[k], v.bfloat16()) for k, v in whole.items())
assert torch.isfinite(m(torch.tensor([[1, 2, 3]])).logits.float()).all()
print("loaded", len(whole))
)",
                          "'" + out.string() + "' '" + (reference / "huggingface").string() + "'");
  EXPECT_EQ(r.code, 0) << r.output;
  EXPECT_NE(r.output.find("loaded 14"), std::string::npos) << r.output;
}

// What our own trainers save from many ranks.
TEST_F(model_merger, shards_of_three_ranks) {
  const fs::path whole = reference / "huggingface";
  cpu device(1);
  rlcore::nn::causal_lm<cpu> model(device, rlcore::checkpoint::read_config(whole));
  const std::vector<float> expected = weights_of(whole);
  rlcore::parallel::run_ranks(3, [&](rlcore::parallel::thread_rank& c) {
    std::vector<rlcore::checkpoint::shard_piece> own;
    for (const rlcore::nn::parameter& p : model.parameters()) {
      const auto r = static_cast<std::size_t>(c.rank());
      own.push_back(rlcore::parallel::part_of(piece_of(p), p.size * r / 3, p.size * (r + 1) / 3));
    }
    rlcore::checkpoint::write_shards(c, actor / "shards", own, {"weights"},
                                     [&](std::size_t, std::size_t i, std::size_t first, std::span<float> values) {
                                       const std::size_t at = model.parameters()[i].offset + own[i].first + first;
                                       std::copy_n(expected.begin() + static_cast<std::ptrdiff_t>(at), values.size(),
                                                   values.begin());
                                     });
  });
  for (const char* name : {"config.json", "generation_config.json"})
    fs::copy_file(whole / name, actor / "huggingface" / name);
  const program::result r = merge({"--dtype", "fp32"});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.out.find("14 tensors in the shards of several ranks"), std::string::npos) << r.out;
  EXPECT_EQ(weights_of(out), expected);
  EXPECT_EQ(program::run("model_merger", {"test", "--backend", "fsdp", "--local_dir", actor.string(), "--test_hf_dir",
                                          whole.string(), "--dtype", "fp32"})
                .code,
            0);
  fs::remove_all(out);
  fs::remove(actor / "shards" / "weights_rank_1.safetensors");
  refused({"merge", "--backend", "fsdp", "--local_dir", actor.string(), "--target_dir", (place / "x").string()},
          "weights_rank_1.safetensors: missing");
  // adapters alone: their base is needed
  fs::create_directories(actor / "lora_adapter");
  scratch::write(actor / "lora_adapter" / "adapter_config.json", R"({"peft_type": "LORA", "r": 2, "lora_alpha": 4,
    "target_modules": ["q_proj"], "base_model_name_or_path": ""})");
  refused({"merge", "--backend", "fsdp", "--local_dir", actor.string(), "--target_dir", out.string()},
          "lora_adapter is an adapter; expected merge --merge-lora");
}

}  // namespace
}  // namespace RLCORE_TEST_ID
