// Runs with rlcore.keep_sampling_mask: recorded log-probs are training's, one hash for ranks, replays and resumes.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "programs/tool_runs.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace tool_runs_test;

const arguments limited{rollout + "top_p=0.9", rollout + "top_k=20"};
const arguments kept = limited + arguments{"rlcore.keep_sampling_mask=True", "trainer.save_freq=3"};

class sampling_mask_runs : public tool_runs {
 protected:
  static fs::path stored() { return place->path() / "stored"; }
  static void SetUpTestSuite() {
    tool_runs::SetUpTestSuite();
    train("kept", kept + arguments{"trainer.rollout_data_dir=" + stored().string()});
  }
  /// Of recorded and recomputed probabilities in the first step.
  static double largest_difference(const std::string& name) {
    const std::string rows = scratch::read(root(name) / "metrics.jsonl");
    return json::parse(rows.substr(0, rows.find('\n'))).at("training/rollout_probs_diff_max").get<double>();
  }
  static void expect_as_kept(const std::string& name, const arguments& more) {
    SCOPED_TRACE(name);
    train(name, kept + more);
    ASSERT_FALSE(weights("kept").empty());
    EXPECT_TRUE(weights("kept") == weights(name));
  }
};

TEST_F(sampling_mask_runs, recorded_log_probs_are_those_that_training_computes) {
  expect_as_kept("again", {"rlcore.recompute_old_log_prob=True"});
  EXPECT_EQ(largest_difference("again"), 0);
  EXPECT_EQ(program::metric_rows(root("kept"))[0]["actor/ppo_kl"], 0);
  const program::result plain = train("plain", limited + arguments{"trainer.save_freq=3"});
  EXPECT_FALSE(weights("kept") == weights("plain"));
  EXPECT_NE(plain.out.find("rlcore.keep_sampling_mask=True takes log-probs over the tokens that were left"),
            std::string::npos)
      << plain.out;
  const program::result whole = train("whole", {"rlcore.keep_sampling_mask=True", "trainer.save_freq=3"});
  EXPECT_NE(whole.out.find("rlcore.keep_sampling_mask=True has no effect without"), std::string::npos) << whole.out;
  train("without", {"trainer.save_freq=3"});
  EXPECT_TRUE(weights("whole") == weights("without"));
}

TEST_F(sampling_mask_runs, ranks_layouts_and_resumes_have_one_hash) {
  const arguments parallel{"rlcore.row_chunks=2"};
  train("one_rank", kept + parallel);
  for (const auto& [name, layout] : {std::pair<std::string, arguments>{"two", {"rlcore.zero_stage=3"}},
                                     {"tensor", {"rlcore.tensor_parallel_size=2"}}}) {
    SCOPED_TRACE(name);
    train(name, kept + parallel + layout + arguments{"trainer.n_gpus_per_node=2"});
    EXPECT_TRUE(weights("one_rank") == weights(name));
  }
  const arguments context{"actor_rollout_ref.actor.ulysses_sequence_parallel_size=2"};  // sums of its own
  train("context", kept + context + arguments{"trainer.n_gpus_per_node=2", "rlcore.zero_stage=0"});
  train("context_of_four", kept + context + arguments{"trainer.n_gpus_per_node=4"});
  EXPECT_TRUE(weights("context") == weights("context_of_four"));
  EXPECT_EQ(program::metric_rows(root("context")).at(0).at("actor/ppo_kl"), 0);
  train("resumed", kept + arguments{"trainer.total_training_steps=1", "trainer.save_freq=1"});
  expect_as_kept("resumed", {});
  train("ahead", kept + parallel + arguments{"rlcore.async_depth=1"});
  train("ahead_two", kept + parallel + arguments{"rlcore.async_depth=1", "trainer.n_gpus_per_node=2"});
  EXPECT_TRUE(weights("ahead") == weights("ahead_two"));
  train("int8", kept + arguments{"rlcore.rollout_weights=int8", "algorithm.adv_estimator=gae", "critic.optim.lr=1e-3"});
  EXPECT_GT(largest_difference("int8"), 0);
  const arguments filter{"algorithm.filter_groups.enable=True", "algorithm.filter_groups.metric=acc",
                         "data.gen_batch_size=12"};
  train("filtered", kept + filter);
  train("filtered_again", kept + filter + arguments{"trainer.total_training_steps=1", "trainer.save_freq=1"});
  train("filtered_again", kept + filter);
  EXPECT_TRUE(weights("filtered") == weights("filtered_again"));
}

TEST_F(sampling_mask_runs, emulated_devices_compute_over_the_mask) {
  const arguments small = kept + arguments{turns + "enable=False",
                                           turns + "tool_config_path=null",
                                           rollout + "n=2",
                                           "data.train_batch_size=2",
                                           "data.max_response_length=24",
                                           "actor_rollout_ref.actor.ppo_mini_batch_size=2",
                                           "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4",
                                           "actor_rollout_ref.actor.entropy_coeff=0.01",
                                           "trainer.total_training_steps=1",
                                           "trainer.save_freq=1"};
  const auto norm = [](const std::string& name) {
    return program::metric_rows(root(name)).at(0).at("actor/grad_norm").get<double>();
  };
  train("cpu", small);
  train("cuda", small + arguments{"trainer.device=cuda_emulator"});
  EXPECT_TRUE(weights("cpu", 1) == weights("cuda", 1));
  train("npu", small + arguments{"trainer.device=npu_emulator", "rlcore.compute=float32"});
  EXPECT_GT(norm("cpu"), 0);
  EXPECT_NEAR(norm("npu"), norm("cpu"), 1e-3 * norm("cpu"));
}

TEST_F(sampling_mask_runs, replays_need_the_masks_and_get_the_bits) {
  expect_as_kept("replayed", {"rlcore.replay=" + stored().string()});
  const auto changed = [&](const std::string& name, auto&& f) {
    return kept + arguments{"rlcore.replay=" + changed_lines(stored(), name, f).string()};
  };
  std::size_t cut = 0, rows = 0;
  const arguments without = changed("no_masks", [&](json& row) {
    EXPECT_EQ(row["sampling_mask"].size(), row["log_probs"].size());
    for (const json& ids : row["sampling_mask"]) ++rows, cut += ids.size() < 20;
    row.erase("sampling_mask");
  });
  EXPECT_GT(cut, 0u);
  EXPECT_GT(rows, 3 * 32u);
  refused(without, ": no \"sampling_mask\" of the engine that sampled");
  refused(changed("short_masks", [](json& row) { row["sampling_mask"].erase(0); }),
          "\"sampling_mask\" is not a list of ascending ids");
  refused(changed("strange_masks", [](json& row) { row["sampling_mask"][0].push_back(999999); }),
          "token 999999 of \"sampling_mask\" is not in the vocabulary");
  refused(changed("other_masks", [](json& row) { row["sampling_mask"][0] = {1.5}; }),
          "\"sampling_mask\" is not a list of ascending ids");
  // Tokens that a correction leaves out take their masks with them.
  const std::string correction = "algorithm.rollout_correction.";
  const arguments some = changed("some_tokens", [](json& row) {
    for (std::size_t i = 0; i < row["log_probs"].size(); i += 3)
      row["log_probs"][i] = row["log_probs"][i].get<double>() - 1;
  });
  const arguments rule{correction + "rollout_rs=token_k1", correction + "rollout_rs_threshold=1.2"};
  train("some_run", some + rule + arguments{"trainer.rollout_data_dir=" + (place->path() / "some_again").string()});
  const auto metrics = program::metric_rows(root("some_run"))[0];
  EXPECT_GT(metrics["rollout_corr/rollout_rs_masked_fraction"].get<double>(), 0.2);
  train("some_again_run", kept + rule + arguments{"rlcore.replay=" + (place->path() / "some_again").string()});
  EXPECT_TRUE(weights("some_run") == weights("some_again_run"));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
