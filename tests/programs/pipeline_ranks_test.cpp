// Trainers whose ranks are stages of a pipeline: the model of one rank.
#include "first_steps.hpp"
#include "grpo_trainer.hpp"
#include "support/mpirun.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace grpo;

const std::string megatron = "actor_rollout_ref.actor.megatron.";
const arguments two{"trainer.n_gpus_per_node=2"}, four{"trainer.n_gpus_per_node=4"},
    stages{"actor_rollout_ref.actor.strategy=megatron", megatron + "pipeline_model_parallel_size=2"},
    ours{"rlcore.pipeline_parallel_size=2", "rlcore.zero_stage=1"};

class pipeline_ranks : public trainer_test {
 protected:
  void expect_same_run(const std::string& a, const std::string& b, int step = 4) {
    EXPECT_FALSE(weights(root(a), step).empty());
    EXPECT_TRUE(weights(root(a), step) == weights(root(b), step)) << a << " and " << b << ": other weights";
    EXPECT_EQ(rows(root(a)), rows(root(b)));
  }
};

/// Sampling, a validation, a reference, log-probs by a second pass, and two updates a step.
TEST_F(pipeline_ranks, have_the_bits_of_one_rank) {
  const arguments rich{"actor_rollout_ref.actor.use_kl_loss=True", "actor_rollout_ref.actor.kl_loss_coef=0.1",
                       "actor_rollout_ref.actor.entropy_coeff=0.01", "rlcore.recompute_old_log_prob=True"};
  train("one", rich);
  const auto r = train("two", rich + two + stages);
  EXPECT_NE(r.out.find("2 ranks (threads): 2 pipeline x 1 data, ZeRO stage 1"), std::string::npos) << r.out;
  expect_same_run("one", "two");
  train("four", rich + four + ours);
  expect_same_run("one", "four");
}

/// The log-probs of sampling are those of training.
TEST_F(pipeline_ranks, need_no_second_pass) {
  train("one");
  train("two", two + stages + arguments{megatron + "use_distributed_optimizer=False"});
  expect_same_run("one", "two");
}

/// A checkpoint belongs to the run, not to its stages.
TEST_F(pipeline_ranks, resumed_with_other_stages_the_run_ends_at_the_same_bits) {
  train("whole");
  const std::pair<arguments, arguments> changes[] = {{two + stages, {}}, {{}, two + stages}, {four + ours, two + ours}};
  for (std::size_t i = 0; i < std::size(changes); ++i) {
    const std::string name = "cut" + std::to_string(i);
    train(name, changes[i].first + arguments{"trainer.total_training_steps=2"});
    const auto second = train(name, changes[i].second);
    EXPECT_NE(second.out.find("resumed after step 2"), std::string::npos) << second.out;
    expect_same_run("whole", name);
  }
}

TEST_F(pipeline_ranks, of_mpirun) {
  if (program::mpirun(2).empty()) GTEST_SKIP() << "no MPI";
  train("one");
  const program::result r = program::run("grpo_trainer", settings(files, root("two")) + stages, program::mpirun(2));
  EXPECT_EQ(r.code, 0) << r.err;
  expect_same_run("one", "two");
}

TEST_F(pipeline_ranks, refusals) {
  const std::string transformer = megatron + "override_transformer_config.";
  refused(two + arguments{"rlcore.pipeline_parallel_size=2"}, "expected ZeRO stage 0 or 1, not 3");
  refused(arguments{"trainer.n_gpus_per_node=3"} + stages,
          "pipeline_model_parallel_size=2 does not divide the 3 ranks");
  refused(two + stages + arguments{"+" + transformer + "num_layers_in_first_pipeline_stage=2"},
          "no layer is left for the other stages");
  refused(two + stages + arguments{megatron + "virtual_pipeline_model_parallel_size=2"},
          "virtual_pipeline_model_parallel_size=2: expected 1");
  refused(two + stages + arguments{"actor_rollout_ref.ref.megatron.pipeline_model_parallel_size=1"},
          "another layout than the actor's");
}

/// The adapters, their moments and PEFT's folder; the reference is the model without them.
TEST_F(pipeline_ranks, train_adapters) {
  const arguments lora{"actor_rollout_ref.model.lora_rank=4", "actor_rollout_ref.actor.use_kl_loss=True",
                       "actor_rollout_ref.actor.kl_loss_coef=0.1", "rlcore.recompute_old_log_prob=True"};
  const auto expect_adapters_of_one = [&](const std::string& name) {
    SCOPED_TRACE(name);
    for (const char* file : {"adapter_model.safetensors", "adapter_config.json"}) {
      const fs::path path = fs::path("global_step_4/actor/lora_adapter") / file;
      EXPECT_FALSE(scratch::read(root("one") / path).empty());
      EXPECT_TRUE(scratch::read(root("one") / path) == scratch::read(root(name) / path)) << file;
    }
    expect_same_run("one", name);
  };
  const program::result one = train("one", lora), staged = train("two", lora + two + stages);
  const auto trained = [](const std::string& out) {
    const std::size_t end = out.find(" of them trained (LoRA"), begin = out.rfind(", ", end);
    return end == out.npos ? "" : out.substr(begin, end - begin);
  };
  EXPECT_NE(trained(one.out), "");
  EXPECT_EQ(trained(one.out), trained(staged.out));
  expect_adapters_of_one("two");
  train("four", lora + four + ours);
  expect_adapters_of_one("four");
  for (const auto& [before, after] : {std::pair(arguments{}, two + stages), {two + stages, arguments{}}}) {
    const std::string name = before.empty() ? "into_stages" : "out_of_stages";
    train(name, lora + before + arguments{"trainer.total_training_steps=2"});
    EXPECT_NE(train(name, lora + after).out.find("resumed after step 2"), std::string::npos) << name;
    expect_adapters_of_one(name);
  }
}

/// The critic and its head are in stages, too.
TEST_F(pipeline_ranks, train_a_critic) {
  const arguments ppo{"algorithm.adv_estimator=gae", "critic.optim.lr=1e-2", "critic.ppo_micro_batch_size_per_gpu=2",
                      "trainer.total_training_steps=2"};
  for (const char* name : {"one", "two"}) {
    const program::result r = program::run(
        "ppo_trainer", settings(files, root(name)) + ppo + (std::string(name) == "one" ? arguments{} : two + stages));
    EXPECT_EQ(r.code, 0) << r.err;
  }
  const auto models = program::models_of(root("one"));
  EXPECT_EQ(models.size(), 2u);
  EXPECT_EQ(rows(root("one")), rows(root("two")));
  expect_same_run("one", "two", 2);
}

TEST(stages_of_other_trainers, give_the_same_bits) {
  for (const char* name : {"sft", "sft_lora", "dpo"}) {
    SCOPED_TRACE(name);
    const std::string program = first_steps::cases().at(name).at("program");
    if (!fs::exists(program::path_of(program))) GTEST_SKIP() << "no " << program::path_of(program);
    const scratch::folder one, other;
    for (const scratch::folder* place : {&one, &other}) {
      const program::result r = program::run(
          program, first_steps::arguments(name, place->path()) + (place == &one ? arguments{} : two + ours));
      EXPECT_EQ(r.code, 0) << r.err;
    }
    const auto models = program::models_of(one / "out");
    EXPECT_FALSE(models.empty());
    EXPECT_TRUE(models == program::models_of(other / "out"));
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
