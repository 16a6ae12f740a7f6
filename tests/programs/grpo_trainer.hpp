// What the tests of build/bin/grpo_trainer share: a small set-up, and how to read what a run left.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "support/run_files.hpp"
#include "support/tiny_model.hpp"

namespace grpo {

namespace fs = std::filesystem;
using program::arguments;
using program::operator+;
using program::rows;

/// 4 prompts x 3 samples and two updates per step; saves and validates every second step.
inline arguments settings(const tiny_model::files& f, const fs::path& root) {
  return {"algorithm.adv_estimator=grpo",
          "data.train_files=" + f.train.string(),
          "data.val_files=" + f.val.string(),
          "data.train_batch_size=4",
          "data.max_prompt_length=128",
          "data.max_response_length=6",
          "actor_rollout_ref.model.path=" + f.model.string(),
          "actor_rollout_ref.actor.optim.lr=3e-3",
          "actor_rollout_ref.actor.ppo_mini_batch_size=2",
          "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=3",
          "actor_rollout_ref.rollout.name=rlcore",
          "actor_rollout_ref.rollout.n=3",
          "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8",
          "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=8",
          "trainer.logger=console",
          "trainer.default_local_dir=" + root.string(),
          "trainer.val_before_train=False",
          "trainer.total_training_steps=4",
          "trainer.test_freq=2",
          "trainer.save_freq=2",
          "rlcore.threads=1"};
}

inline fs::path actor(const fs::path& root, int step) {
  return root / ("global_step_" + std::to_string(step)) / "actor";
}
inline std::string weights(const fs::path& root, int step) {
  return scratch::read(actor(root, step) / "huggingface" / "model.safetensors");
}
inline std::string moments(const fs::path& root, int step) {
  return scratch::read(actor(root, step) / "optim.safetensors");
}

class trainer_test : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(program::path_of("grpo_trainer"))) GTEST_SKIP() << "no " << program::path_of("grpo_trainer");
    files = tiny_model::make(place.path());
  }
  fs::path root(const std::string& name) const { return place / name; }

  /// A run that must succeed, without a word on stderr.
  program::result train(const std::string& name, const arguments& more = {}, const std::string& before = "") {
    const program::result r = program::run("grpo_trainer", settings(files, root(name)) + more, before);
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_EQ(r.err, "");
    return r;
  }
  /// Same weights, same moments, same rows.
  void expect_same(const std::string& a, const std::string& b, int step = 4) {
    EXPECT_FALSE(weights(root(a), step).empty());
    EXPECT_TRUE(weights(root(a), step) == weights(root(b), step)) << a << " and " << b << ": other weights";
    EXPECT_TRUE(moments(root(a), step) == moments(root(b), step)) << a << " and " << b << ": other moments";
    EXPECT_EQ(rows(root(a)), rows(root(b)));
  }
  /// Exit code 1 and one line that contains `part`; no file anywhere in `place` is added, changed or lost.
  void refused(const arguments& more, const std::string& part, const std::string& name = "refused") {
    SCOPED_TRACE(part);
    const auto before = program::snapshot(place.path());
    const program::result r = program::run("grpo_trainer", settings(files, root(name)) + more);
    EXPECT_EQ(r.code, 1) << r.out;
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
    EXPECT_TRUE(r.err.starts_with("grpo_trainer: ")) << r.err;
    EXPECT_NE(r.err.find(part), std::string::npos) << r.err;
    EXPECT_TRUE(program::snapshot(place.path()) == before) << "files were written";
  }

  const scratch::folder place;
  tiny_model::files files;
};

}  // namespace grpo
