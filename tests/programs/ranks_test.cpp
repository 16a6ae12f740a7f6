// The trainers as ranks, threads of one process or processes of mpirun: the bits of one rank, whatever they share.

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "first_steps.hpp"
#include "grpo_trainer.hpp"
#include "support/mpirun.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace grpo;

class ranks : public trainer_test {
 protected:
  program::result by_mpi(const std::string& name, int count, const arguments& more = {}) {
    const program::result r = program::run("grpo_trainer", settings(files, root(name)) + more, program::mpirun(count));
    EXPECT_EQ(r.code, 0) << r.err;
    return r;
  }
  /// The same model and the same rows of metrics; moments are in files by rank.
  void expect_same_run(const std::string& a, const std::string& b, int step = 4) {
    EXPECT_FALSE(weights(root(a), step).empty());
    EXPECT_TRUE(weights(root(a), step) == weights(root(b), step)) << a << " and " << b << ": other weights";
    EXPECT_EQ(rows(root(a)), rows(root(b)));
  }
};

const arguments two{"trainer.n_gpus_per_node=2"}, three{"trainer.n_gpus_per_node=3"};

/// Sampling, rewards, reference and two updates per step, with everything that the objective can contain.
TEST_F(ranks, any_number_of_them_gives_the_same_bits) {
  const arguments rich{"actor_rollout_ref.actor.use_kl_loss=True", "actor_rollout_ref.actor.kl_loss_coef=0.1",
                       "actor_rollout_ref.actor.entropy_coeff=0.01", "rlcore.recompute_old_log_prob=True"};
  train("one", rich);
  const auto r = train("two", rich + two);
  EXPECT_NE(r.out.find("2 ranks (threads): 2 data, ZeRO stage 3, tree sums over 8 leaves"), std::string::npos) << r.out;
  expect_same_run("one", "two");
  train("three", rich + three);
  expect_same_run("one", "three");
  for (const char* zero : {"0", "1", "2"}) {
    const std::string name = std::string("zero") + zero;
    train(name, rich + two + arguments{"rlcore.zero_stage=" + std::string(zero)});
    expect_same_run("one", name);
  }
  const auto many = train("more_than_rows", rich + arguments{"trainer.n_gpus_per_node=13", "trainer.test_freq=-1"});
  EXPECT_NE(many.out.find("note: 7 of 13 data ranks have no part in updates of 6 rows: a larger "
                          "actor_rollout_ref.actor.ppo_mini_batch_size gives all of them one\n"),
            std::string::npos)
      << many.out;
  EXPECT_TRUE(weights(root("one"), 4) == weights(root("more_than_rows"), 4));
  train("exact_one", rich + arguments{"rlcore.reduction=exact"});
  train("exact_three", rich + three + arguments{"rlcore.reduction=exact", "rlcore.zero_stage=2"});
  expect_same_run("exact_one", "exact_three");
}

/// The base is in shards, too: passes gather the merged weights, the reference is the base.
TEST_F(ranks, train_adapters) {
  const arguments lora{"actor_rollout_ref.model.lora_rank=4", "actor_rollout_ref.actor.use_kl_loss=True",
                       "actor_rollout_ref.actor.kl_loss_coef=0.1", "rlcore.recompute_old_log_prob=True",
                       "actor_rollout_ref.actor.checkpoint.save_contents=[model,optimizer,extra,hf_model]"};
  const auto expect_run_of_one = [&](const std::string& name) {
    SCOPED_TRACE(name);
    for (const char* file : {"lora_adapter/adapter_model.safetensors", "huggingface/model.safetensors"}) {
      const fs::path path = fs::path("global_step_4/actor") / file;
      EXPECT_FALSE(scratch::read(root("one") / path).empty()) << file;
      EXPECT_TRUE(scratch::read(root("one") / path) == scratch::read(root(name) / path)) << file;
    }
    EXPECT_EQ(rows(root("one")), rows(root(name)));
  };
  train("one", lora);
  const auto r = train("three", lora + three);
  EXPECT_NE(r.out.find("3 data, ZeRO stage 3"), std::string::npos) << r.out;
  expect_run_of_one("three");
  train("replicas", lora + arguments{"trainer.n_gpus_per_node=4", "actor_rollout_ref.actor.fsdp_config.fsdp_size=2"});
  expect_run_of_one("replicas");
  train("kept", lora + two + arguments{"actor_rollout_ref.actor.fsdp_config.reshard_after_forward=False"});
  expect_run_of_one("kept");
  for (const auto& [name, before, after] : {std::tuple("into_shards", arguments{}, three),
                                            {"out_of_shards", two, arguments{"rlcore.zero_stage=1"} + two}}) {
    train(name, lora + before + arguments{"trainer.total_training_steps=2"});
    EXPECT_NE(train(name, lora + after).out.find("resumed after step 2"), std::string::npos) << name;
    expect_run_of_one(name);
  }
}

/// Divided policies have their reward model in shards.
TEST_F(ranks, share_a_reward_model) {
  const fs::path scorer = place / "scorer";
  fs::copy(files.model, scorer, fs::copy_options::recursive);
  tiny_model::save_weights(scorer, 5, [](rlcore::nn::config& c) { c.output = rlcore::nn::model_output::score; });
  const arguments scored{"reward_model.enable=True", "reward_model.model.path=" + scorer.string(),
                         "reward_model.micro_batch_size_per_gpu=2", "trainer.total_training_steps=2"};
  train("one", scored);
  EXPECT_NE(program::metric_rows(root("one"))[0]["critic/score/max"],
            program::metric_rows(root("one"))[0]["critic/score/min"]);
  const std::vector<std::pair<std::string, arguments>> layouts{
      {"three", three},
      {"copies", two + arguments{"rlcore.zero_stage=1"}},
      {"stages", two + arguments{"rlcore.pipeline_parallel_size=2", "rlcore.zero_stage=1"}}};
  for (const auto& [name, how] : layouts) {
    train(name, scored + how);
    expect_same_run("one", name, 2);
  }
  const arguments chunks{"rlcore.row_chunks=2"};
  train("chunks", scored + chunks);
  train("tensor", scored + two + chunks + arguments{"rlcore.tensor_parallel_size=2"});
  expect_same_run("chunks", "tensor", 2);
}

/// Of the first steps; it changes no result, and has every rank, by threads or processes.
TEST_F(ranks, draw_a_time_line) {
  const fs::path file = place / "trace.json";
  const arguments traced{"rlcore.trace=" + file.string(), "rlcore.trace_steps=2"};
  const auto expect_line = [&](const std::string& out, int count) {
    EXPECT_NE(out.find("trace       " + file.string() + " (ui.perfetto.dev shows it)"), std::string::npos) << out;
    std::map<std::string, std::vector<int>> spans;  // how many each rank has
    for (const auto& e : nlohmann::json::parse(scratch::read(file)))
      if (e.at("ph") == "X") {
        auto& of_ranks = spans[e.at("name").get<std::string>()];
        of_ranks.resize(static_cast<std::size_t>(count));
        ++of_ranks.at(e.at("pid").get<std::size_t>());
      }
    EXPECT_EQ(spans["gen"], std::vector<int>(static_cast<std::size_t>(count), 2));
    EXPECT_EQ(spans["update_actor"], spans["gen"]);
    EXPECT_EQ(spans["optimizer"], std::vector<int>(static_cast<std::size_t>(count), 4));
    for (const char* name : {"sampling pass", "micro-batch", "layer forward", "layer backward", "gradient sums"}) {
      ASSERT_EQ(spans[name].size(), static_cast<std::size_t>(count)) << name;
      EXPECT_GT(*std::ranges::min_element(spans[name]), 0) << name;
    }
    EXPECT_EQ(spans.contains("all_gather_v"), count > 1);
  };
  train("one");
  expect_line(train("alone", traced).out, 1);
  expect_same_run("one", "alone");
  expect_line(train("threads", traced + two).out, 2);
  expect_same_run("one", "threads");
  if (!program::mpirun(2).empty()) expect_line(by_mpi("mpi", 2, traced).out, 2);
  const program::result r =
      program::run("grpo_trainer", settings(files, root("none")) + arguments{"rlcore.trace=/nosuch/trace.json"});
  EXPECT_EQ(r.code, 1);
  EXPECT_EQ(r.err, "grpo_trainer: /nosuch/trace.json: cannot write\n");
}

TEST_F(ranks, of_mpirun_give_the_same_bits_and_speak_with_one_voice) {
  if (program::mpirun(2).empty()) GTEST_SKIP() << "no MPI";
  train("one");
  const auto r = by_mpi("two", 2);
  EXPECT_NE(r.out.find("2 ranks (mpi)"), std::string::npos) << r.out;
  EXPECT_EQ(r.out.find('\033'), std::string::npos) << "nothing is wiped where no live line is drawn";
  std::size_t steps = 0;
  for (std::size_t at = 0; (at = r.out.find("training/global_step:4", at)) != std::string::npos; ++at) ++steps;
  EXPECT_EQ(steps, 1u) << r.out;
  expect_same_run("one", "two");
  const auto wrong = program::run(
      "grpo_trainer", settings(files, root("wrong")) + arguments{"trainer.n_gpus_per_node=3"}, program::mpirun(2));
  EXPECT_NE(wrong.code, 0);
  const std::string line = "grpo_trainer: trainer.nnodes=1 x trainer.n_gpus_per_node=3 = 3 ranks, mpirun started 2";
  EXPECT_EQ(wrong.err.find(line), wrong.err.rfind(line)) << wrong.err;
  EXPECT_NE(wrong.err.find(line), std::string::npos) << wrong.err;
}

/// A checkpoint belongs to the run, not to its ranks.
TEST_F(ranks, resumed_by_others_the_run_ends_at_the_same_bits) {
  train("whole");
  const std::vector<std::pair<arguments, arguments>> changes{
      {two, {}}, {{}, three + arguments{"rlcore.zero_stage=1"}}, {three, two + arguments{"rlcore.zero_stage=0"}}};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const std::string name = "cut" + std::to_string(i);
    train(name, changes[i].first + arguments{"trainer.total_training_steps=2"});
    const auto second = train(name, changes[i].second);
    EXPECT_NE(second.out.find("resumed after step 2"), std::string::npos) << second.out;
    expect_same_run("whole", name);
  }
}

TEST_F(ranks, an_error_of_one_ends_all_with_one_line) {
  // The first process to come is served, the other ends before it answers.
  const std::string lock = (place / "lock").string();
  const arguments failing{"rlcore.reward_command=\"if mkdir " + lock +
                          " 2> /dev/null; then while read -r a; do echo 0.5; done; else exit 3; fi\""};
  const program::result r = program::run("grpo_trainer", settings(files, root("failing")) + two + failing);
  EXPECT_EQ(r.code, 1) << r.out;
  EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
  EXPECT_NE(r.err.find("ended (exit code 3) before it answered"), std::string::npos) << r.err;
  EXPECT_FALSE(fs::exists(actor(root("failing"), 2)));
  refused({"trainer.nnodes=2", "trainer.n_gpus_per_node=2"}, "mpirun -np 4 --hostfile hosts build/bin/grpo_trainer");
  refused(two + arguments{"actor_rollout_ref.actor.fsdp_config.fsdp_size=3"}, "does not divide the 2 ranks");
}

TEST(ranks_of_every_trainer, give_the_same_bits) {
  for (const char* name : {"sft", "openrlhf_sft", "dpo", "kto", "rm_margin", "prm", "prm_whole_vocabulary_truncated",
                           "ppo", "dapo", "openrlhf_reinforce_plus_plus"}) {
    SCOPED_TRACE(name);
    const std::string program = first_steps::cases().at(name).at("program");
    if (!fs::exists(program::path_of(program))) GTEST_SKIP() << "no " << program::path_of(program);
    const scratch::folder one, other, shards;
    const auto run = [&](const scratch::folder& place, const arguments& more) {
      const program::result r = program::run(program, first_steps::arguments(name, place.path()) + more);
      EXPECT_EQ(r.code, 0) << r.err;
    };
    const bool policy = std::string(name) == "ppo" || std::string(name) == "dapo";
    const arguments saved = policy ? arguments{"trainer.save_freq=100"} : arguments{};
    run(one, saved);
    run(other, saved + two);
    const auto models = program::models_of(one / "out");
    EXPECT_FALSE(models.empty());
    EXPECT_TRUE(models == program::models_of(other / "out"));
    run(shards, saved + three + arguments{"rlcore.zero_stage=3"});
    EXPECT_TRUE(models == program::models_of(shards / "out"));
  }
}

/// The model without its adapters is the reference of dpo and kto; a reward model trains its head as a whole.
TEST(ranks_of_every_trainer, give_the_same_adapters) {
  const arguments flags{"--lora_rank", "4", "--lora_alpha", "8"};
  for (const auto& [name, lora] : {std::pair("sft", arguments{"model.lora_rank=4", "model.lora_alpha=8"}),
                                   {"dpo", flags},
                                   {"kto", flags},
                                   {"rm_margin", flags}}) {
    SCOPED_TRACE(name);
    const std::string program = first_steps::cases().at(name).at("program");
    if (!fs::exists(program::path_of(program))) GTEST_SKIP() << "no " << program::path_of(program);
    const scratch::folder one, shards;
    for (const scratch::folder* place : {&one, &shards}) {
      const program::result r =
          program::run(program, first_steps::arguments(name, place->path()) + lora +
                                    (place == &one ? arguments{} : three + arguments{"rlcore.zero_stage=3"}));
      EXPECT_EQ(r.code, 0) << r.err;
      EXPECT_NE(r.out.find("LoRA of rank 4"), std::string::npos) << r.out;
    }
    const auto models = program::models_of(one / "out");
    EXPECT_FALSE(models.empty());
    EXPECT_TRUE(models == program::models_of(shards / "out"));
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
