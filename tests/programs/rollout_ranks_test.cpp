// Trainers whose ranks sample in tensor parallel groups of their own: the model of one rank.

#include "first_steps.hpp"
#include "grpo_trainer.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace grpo;

const std::string rollout = "actor_rollout_ref.rollout.";
const arguments two{"trainer.n_gpus_per_node=2"}, four{"trainer.n_gpus_per_node=4"},
    pairs{rollout + "tensor_model_parallel_size=2"}, chunks{"rlcore.row_chunks=2"};

class rollout_ranks : public trainer_test {
 protected:
  void expect_same_run(const std::string& a, const std::string& b, int step = 4) {
    EXPECT_FALSE(weights(root(a), step).empty());
    EXPECT_TRUE(weights(root(a), step) == weights(root(b), step)) << a << " and " << b << ": other weights";
    EXPECT_EQ(rows(root(a)), rows(root(b)));
  }
};

/// Sampling, a validation, a reference and two updates a step.
TEST_F(rollout_ranks, in_pairs_give_the_bits_of_one_rank) {
  const arguments rich =
      chunks + arguments{"actor_rollout_ref.actor.use_kl_loss=True", "actor_rollout_ref.actor.kl_loss_coef=0.1"};
  train("one", rich);
  const auto r = train("two", rich + two + pairs);
  EXPECT_NE(r.out.find("rollout 1 groups of 2 ranks"), std::string::npos) << r.out;
  expect_same_run("one", "two");
  train("four", rich + four + pairs);
  expect_same_run("one", "four");
  train("shared", rich + four + pairs + arguments{"actor_rollout_ref.actor.fsdp_config.fsdp_size=2"});
  expect_same_run("one", "shared");
  for (const char* zero : {"0", "2"}) {
    const std::string name = std::string("zero") + zero;
    train(name, rich + two + pairs + arguments{"rlcore.zero_stage=" + std::string(zero)});
    expect_same_run("one", name);
  }
  // Tensor parallel training, whose ranks sample with whole weights.
  train("whole", rich + two + arguments{"rlcore.tensor_parallel_size=2", rollout + "tensor_model_parallel_size=1"});
  EXPECT_TRUE(weights(root("one"), 4) == weights(root("whole"), 4));
}

/// Groups of four on two key heads: each key head is on two of the ranks.
TEST_F(rollout_ranks, of_more_ranks_than_key_heads_give_the_bits_of_one_rank) {
  const arguments what{"rlcore.row_chunks=4", "trainer.total_training_steps=2"},
      fours{rollout + "tensor_model_parallel_size=4"};
  train("one", what);
  const auto r = train("four", what + four + fours);
  EXPECT_NE(r.out.find("rollout 1 groups of 4 ranks"), std::string::npos) << r.out;
  expect_same_run("one", "four", 2);
  train("eight", what + fours + arguments{"trainer.n_gpus_per_node=8", "rlcore.tensor_parallel_size=2"});
  expect_same_run("one", "eight", 2);
}

/// Greedy answers beside the drawn ones, other weights than training's, adapters, rounds that are dropped.
TEST_F(rollout_ranks, do_what_else_samples) {
  const std::pair<const char*, arguments> cases[] = {
      {"remax", {"algorithm.adv_estimator=remax"}},
      {"int8", {"rlcore.rollout_weights=int8"}},
      {"lora", {"actor_rollout_ref.model.lora_rank=4", "actor_rollout_ref.model.lora_alpha=8"}},
      {"dropped",
       {"algorithm.filter_groups.enable=True", "algorithm.filter_groups.metric=acc",
        "algorithm.filter_groups.max_num_gen_batches=20", "data.gen_batch_size=4"}}};
  for (const auto& [name, more] : cases) {
    SCOPED_TRACE(name);
    const std::string one = std::string(name) + "_one", all = std::string(name) + "_four";
    const arguments what = chunks + more + arguments{"trainer.total_training_steps=2"};
    train(one, what);
    train(all, what + four + pairs);
    expect_same_run(one, all, 2);
  }
}

/// The ranks of a pair divide the experts while they sample; while it trains, each has its own or shards of all.
TEST_F(rollout_ranks, of_a_mixture_of_experts) {
  tiny_model::save_weights(files.model, 11, 5);
  const arguments what = chunks + arguments{"trainer.total_training_steps=2"},
                  divided = four + pairs + arguments{"rlcore.expert_parallel_size=2"};
  train("one", what);
  train("divided", what + divided + arguments{"rlcore.zero_stage=1"});
  expect_same_run("one", "divided", 2);
  train("shards", what + divided);
  expect_same_run("one", "shards", 2);
}

/// What was sampled is stored, and replayed by a run that samples for validation alone.
TEST_F(rollout_ranks, replay) {
  const std::string stored = (place / "answers").string();
  train("stored", chunks + two + pairs + arguments{"trainer.rollout_data_dir=" + stored});
  train("one", chunks + arguments{"rlcore.replay=" + stored});
  train("four", chunks + four + pairs + arguments{"rlcore.replay=" + stored});
  expect_same_run("one", "four");
  EXPECT_TRUE(weights(root("stored"), 4) == weights(root("four"), 4));
}

/// Without tp_reduce_chunks the two layouts add up in other orders: the old log-probs are those of training.
TEST_F(rollout_ranks, that_differ_by_rounding_say_so) {
  const auto r = train("two", two + pairs);
  EXPECT_NE(r.out.find("note: " + pairs[0] + " adds up in another order than training"), std::string::npos) << r.out;
  double largest = 0;
  std::istringstream lines(scratch::read(root("two") / "metrics.jsonl"));
  for (std::string row; std::getline(lines, row);)
    largest = std::max(largest, nlohmann::json::parse(row).at("training/rollout_probs_diff_max").get<double>());
  EXPECT_GT(largest, 0);
  EXPECT_LT(largest, 1e-4);
}

TEST_F(rollout_ranks, are_refused_in_one_line_where_they_cannot_be) {
  refused({"trainer.n_gpus_per_node=3", pairs[0]}, pairs[0] + " does not divide the 3 ranks");
  const std::string eights = rollout + "tensor_model_parallel_size=8";
  refused({"trainer.n_gpus_per_node=8", eights}, eights + ": tensor parallel: num_attention_heads 4 is not a multiple");
  const auto alone = train("alone", pairs);
  EXPECT_NE(alone.out.find("note: " + pairs[0] + ": no effect on one rank"), std::string::npos) << alone.out;
}

TEST(rollout_ranks_of_openrlhf, give_the_bits_of_one_rank) {
  const std::string name = "openrlhf_reinforce_plus_plus", program = first_steps::cases().at(name).at("program");
  if (!fs::exists(program::path_of(program))) GTEST_SKIP() << "no " << program::path_of(program);
  const arguments sampled = chunks + arguments{"rlcore.replay=null"};
  const scratch::folder one, other;
  const auto run = [&](const scratch::folder& place, const arguments& more) {
    const program::result r = program::run(program, first_steps::arguments(name, place.path()) + sampled + more);
    EXPECT_EQ(r.code, 0) << r.err;
    return r.out;
  };
  run(one, {});
  const std::string out = run(other, two + arguments{"--vllm_tensor_parallel_size", "2"});
  EXPECT_NE(out.find("rollout 1 groups of 2 ranks"), std::string::npos) << out;
  std::vector<std::string> models[2];
  for (const auto* place : {&one, &other})
    for (const auto& entry : fs::recursive_directory_iterator(*place / "out"))
      if (entry.path().filename() == "model.safetensors")
        models[place == &one ? 0 : 1].push_back(scratch::read(entry.path()));
  EXPECT_FALSE(models[0].empty());
  EXPECT_TRUE(models[0] == models[1]);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
