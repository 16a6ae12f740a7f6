// The published DAPO scripts, made small, with every axis of their layouts and of ours above one: the bits of one rank,
// or with sequences shared those of any other layout that shares them. On the CPU and on emulated NPUs.
#include <fstream>

#include "grpo_trainer.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace grpo;

const std::string actor_keys = "actor_rollout_ref.actor.", ref_keys = "actor_rollout_ref.ref.",
                  rollout_keys = "actor_rollout_ref.rollout.", ulysses = "ulysses_sequence_parallel_size=";

/// Five experts, four query heads, two key heads. Four ranks that sample together and four that share sequences are as
/// many beside two key heads as four and sixteen beside the published model's four.
class published_layouts : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(program::path_of("dapo_trainer"))) GTEST_SKIP() << "no " << program::path_of("dapo_trainer");
    files = tiny_model::make(place.path());
    tiny_model::save_weights(files.model, 11, 5);
  }
  fs::path root(const std::string& name) const { return place / name; }

  program::result run(const std::string& name, int ranks, const arguments& layout,
                      const std::string& script = "qwen3_30b_fsdp") const {
    const auto lines = nlohmann::json::parse(std::ifstream(RLCORE_REFERENCE_DIR "/trainer_dapo_command_lines.json"));
    const bool newer = lines.at(script).dump().find("overlong_buffer_cfg") != std::string::npos;
    const std::string overlong = newer ? "reward.reward_kwargs.overlong_buffer_cfg" : "reward_model.overlong_buffer";
    const program::result r =
        program::run("dapo_trainer", lines.at(script).get<arguments>() +
                                         arguments{"data.train_files=" + files.train.string(),
                                                   "data.val_files=" + files.val.string(),
                                                   "actor_rollout_ref.model.path=" + files.model.string(),
                                                   "data.max_prompt_length=128",
                                                   "data.max_response_length=6",
                                                   "data.train_batch_size=2",
                                                   "data.gen_batch_size=4",
                                                   rollout_keys + "n=6",
                                                   actor_keys + "ppo_mini_batch_size=1",
                                                   actor_keys + "optim.lr=1e-3",
                                                   actor_keys + "optim.lr_warmup_steps=0",
                                                   overlong + ".len=2",
                                                   "trainer.total_training_steps=2",
                                                   "trainer.device=cpu",
                                                   "trainer.save_freq=2",
                                                   "trainer.default_local_dir=" + root(name).string(),
                                                   "rlcore.threads=1",
                                                   "trainer.nnodes=1",
                                                   "trainer.n_gpus_per_node=" + std::to_string(ranks),
                                                   "rlcore.row_chunks=4"} +
                                         layout);
    EXPECT_EQ(r.code, 0) << r.err;
    return r;
  }
  void expect_same(const std::string& a, const std::string& b) const {
    EXPECT_FALSE(weights(root(a), 2).empty());
    EXPECT_TRUE(weights(root(a), 2) == weights(root(b), 2)) << a << " and " << b << ": other weights";
    EXPECT_EQ(rows(root(a)), rows(root(b)));
  }
  nlohmann::json first_step(const std::string& name) const { return nlohmann::json::parse(rows(root(name)).front()); }

  const scratch::folder place;
  tiny_model::files files;
};

/// Data, tensor and expert parallel ranks, shards, and four ranks that sample with two key heads.
TEST_F(published_layouts, qwen3_30b_on_one_rank_and_on_every_axis_but_the_sequences) {
  const arguments whole{actor_keys + ulysses + "1", ref_keys + ulysses + "1"};
  run("one", 1, whole);
  EXPECT_FALSE(weights(root("one"), 2) == scratch::read(files.model / "model.safetensors"));
  const auto r = run("eight", 8, whole + arguments{"rlcore.tensor_parallel_size=2", "rlcore.expert_parallel_size=2"});
  EXPECT_NE(r.out.find("2 tensor x 4 data, 2 expert, ZeRO stage 3"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("rollout 2 groups of 4 ranks"), std::string::npos) << r.out;
  expect_same("one", "eight");
}

/// Sequences shared by more ranks than there are key heads, as published.
TEST_F(published_layouts, qwen3_30b_with_sequences_shared_by_more_ranks_than_key_heads) {
  const arguments four{actor_keys + ulysses + "4"};
  const auto r = run("four", 4, four + arguments{ref_keys + ulysses + "2", "rlcore.zero_stage=0"});
  EXPECT_NE(r.out.find("4 context x 1 data"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("note: " + ref_keys + ulysses + "2: all models of a run share the work as the actor does (" +
                       actor_keys + ulysses + "4), with the same values up to rounding"),
            std::string::npos)
      << r.out;
  run("eight", 8, four + arguments{ref_keys + ulysses + "4", "rlcore.expert_parallel_size=2"});
  expect_same("four", "eight");
  // What is computed before the first update is that of one rank.
  run("one", 1, {});
  const nlohmann::json one = first_step("one"), shared = first_step("four");
  for (const char* metric : {"actor/entropy", "critic/score/mean", "critic/advantages/max", "response_length/mean"})
    EXPECT_EQ(shared.at(metric), one.at(metric)) << metric;
  const auto norm = [](const nlohmann::json& row) { return row.at("actor/grad_norm").get<double>(); };
  EXPECT_NEAR(norm(shared) / norm(one), 1, 1e-5);
}

/// The scripts for NPUs on as many emulated ones as they ask for, or 32, with their heads and their own layouts,
/// against the ranks of one sequence that sample alone.
TEST_F(published_layouts, run_on_emulated_npus) {
  struct script {
    const char* name;
    int ranks, sharing, sampling;
    std::int64_t heads, kv_heads, experts;
    const char* layout;
  };
  for (const script& s : {script{"qwen3_8b_base_npu", 8, 2, 2, 32, 8, 0, "2 context x 4 data, ZeRO stage 3"},
                          script{"qwen2.5_7b_npu", 16, 4, 1, 28, 4, 0, "4 context x 4 data, ZeRO stage 3"},
                          script{"qwen3_14b_base_npu", 32, 2, 2, 40, 8, 0, "2 context x 16 data, ZeRO stage 3"},
                          script{"qwen3_32b_fsdp2", 32, 4, 4, 64, 8, 0, "4 context x 8 data, ZeRO stage 3"},
                          script{"qwen3_30b_fsdp", 32, 16, 4, 32, 4, 8, "16 context x 2 data, ZeRO stage 3"},
                          script{"qwen3_30b_base_npu", 32, 16, 2, 32, 4, 8, "16 context x 2 data, ZeRO stage 3"}}) {
    SCOPED_TRACE(s.name);
    tiny_model::save_weights(files.model, 11, [&](rlcore::nn::config& c) {
      const bool qwen3 = std::string(s.name).starts_with("qwen3");
      c.model = s.experts > 0 ? rlcore::nn::family::qwen3_moe
                : qwen3       ? rlcore::nn::family::qwen3
                              : rlcore::nn::family::qwen2;
      c.attention_bias = !qwen3;
      c.num_attention_heads = s.heads, c.num_key_value_heads = s.kv_heads;
      if (s.experts == 0) return;
      c.num_experts = s.experts, c.num_experts_per_tok = 2, c.moe_intermediate_size = 24, c.norm_topk_prob = true;
    });
    const arguments npus{"trainer.device=npu_emulator", "trainer.total_training_steps=1", "trainer.save_freq=1",
                         "trainer.val_before_train=False", actor_keys + "entropy_coeff=0.01"};
    const std::string all = s.name + std::string("_all"), few = s.name + std::string("_few");
    const program::result r = run(all, s.ranks, npus, s.name);
    EXPECT_NE(r.out.find(s.layout), std::string::npos) << r.out;
    EXPECT_NE(r.out.find("NPUs 0 to " + std::to_string(s.ranks - 1) + " with HCCL"), std::string::npos) << r.out;
    const std::string groups = "rollout " + std::to_string(s.ranks / s.sampling) + " groups of ";
    EXPECT_EQ(r.out.find(groups + std::to_string(s.sampling) + " ranks") != std::string::npos, s.sampling > 1) << r.out;
    run(few, s.sharing,
        npus + arguments{rollout_keys + "tensor_model_parallel_size=1", actor_keys + "fsdp_config.fsdp_size=-1"},
        s.name);
    EXPECT_GT(first_step(all).value("actor/grad_norm", 0.0), 0) << first_step(all);
    EXPECT_FALSE(weights(root(all), 1).empty());
    EXPECT_TRUE(weights(root(all), 1) == weights(root(few), 1)) << "other weights";
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
