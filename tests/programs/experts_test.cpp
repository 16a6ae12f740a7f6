// Mixtures of experts in the programs: ranks divide the experts or have shards of all; the bits are those of one rank.

#include "grpo_trainer.hpp"
#include "sft_trainer.hpp"
#include "support/mpirun.hpp"

namespace RLCORE_TEST_ID {
namespace {

namespace fs = std::filesystem;
using program::arguments;
using program::operator+;

class experts : public grpo::trainer_test {
 protected:
  void SetUp() override {
    grpo::trainer_test::SetUp();
    if (!files.model.empty()) tiny_model::save_weights(files.model, 11, 5);
  }
  program::result must(const std::string& name, const arguments& how, const std::string& before = "") {
    const program::result r = program::run(name, how, before);
    EXPECT_EQ(r.code, 0) << r.err;
    return r;
  }
  program::result sft(const std::string& name, const arguments& more, const std::string& before = "") {
    return must("sft_trainer", sft::settings(files, root(name)) + more, before);
  }
  fs::path step(const std::string& name, int number) const {
    return root(name) / ("global_step_" + std::to_string(number));
  }
};

arguments ranks(int all, int expert, int zero) {
  return {"trainer.n_gpus_per_node=" + std::to_string(all), "rlcore.expert_parallel_size=" + std::to_string(expert),
          "rlcore.zero_stage=" + std::to_string(zero)};
}

/// Sampling, two updates a step, and the router's loss.
TEST_F(experts, grpo_has_the_bits_of_one_rank) {
  const arguments all{"actor_rollout_ref.actor.use_kl_loss=True", "trainer.total_training_steps=2"};
  train("one", all);
  const std::string expected = grpo::weights(root("one"), 2);
  ASSERT_FALSE(expected.empty() || expected == scratch::read(files.model / "model.safetensors"));
  const std::vector<std::pair<std::string, arguments>> others{
      {"two", ranks(2, 2, 0)},
      {"pairs", ranks(4, 2, 1)},
      {"four",
       {"trainer.n_gpus_per_node=4", "actor_rollout_ref.actor.strategy=megatron",
        "actor_rollout_ref.actor.megatron.expert_model_parallel_size=4"}},
      {"shards", ranks(4, 2, 3)}};
  for (const auto& [name, how] : others) {
    train(name, all + how);
    EXPECT_TRUE(grpo::weights(root(name), 2) == expected) << name;
    EXPECT_EQ(program::rows(root(name)), program::rows(root("one"))) << name;
  }
}

/// What ranks with divided experts saved goes on on one, on others, with shards of all, and is merged and evaluated.
TEST_F(experts, sft_moves_from_layout_to_layout) {
  sft("one", {});
  const auto model = [&](const std::string& name, int number) {
    return scratch::read(step(name, number) / "huggingface" / "model.safetensors");
  };
  const std::string expected = model("one", 8);
  ASSERT_FALSE(expected.empty());
  const arguments layouts[]{ranks(2, 2, 1), ranks(4, 2, 0), ranks(4, 4, 2), {}};
  for (int i = 0; i < 4; ++i)
    sft("moved", layouts[i] + arguments{"trainer.total_training_steps=" + std::to_string(2 * i + 2)});
  EXPECT_TRUE(model("moved", 8) == expected);
  EXPECT_EQ(program::rows(root("moved")), program::rows(root("one")));
  const auto merge = must("model_merger", {"merge", "--backend", "fsdp", "--local_dir", step("moved", 4).string(),
                                           "--target_dir", (place / "merged").string(), "--dtype", "fp32"});
  EXPECT_TRUE(scratch::read(place / "merged" / "model.safetensors") == model("one", 4)) << merge.out;
  if (!program::mpirun(2).empty()) {
    sft("mpi", {"rlcore.expert_parallel_size=2", "rlcore.zero_stage=1"}, program::mpirun(2));
    EXPECT_TRUE(model("mpi", 8) == expected);
  }
  for (const char* count : {"1", "2"})
    must("evaluate", {"model.path=" + (place / "merged").string(), "data.files=" + files.val.string(),
                      "data.max_response_length=6", "output_dir=" + (place / ("out" + std::string(count))).string(),
                      "rlcore.threads=1", "trainer.n_gpus_per_node=" + std::string(count)});
  EXPECT_EQ(scratch::read(place / "out1" / "generations.jsonl"), scratch::read(place / "out2" / "generations.jsonl"));
}

TEST_F(experts, what_cannot_be_divided_is_refused) {
  refused(ranks(2, 2, 1) + arguments{"actor_rollout_ref.model.lora_rank=4"}, "LoRA");
  refused(ranks(6, 6, 0), "num_experts 5 is less than 6 ranks");
  refused(ranks(4, 3, 0), "expert");
}

}  // namespace
}  // namespace RLCORE_TEST_ID
