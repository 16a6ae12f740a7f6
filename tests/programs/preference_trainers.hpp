// What the tests of the preference trainers share: the tiny models and rows of tests/reference/first_steps.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "support/run_files.hpp"

namespace preference {

namespace fs = std::filesystem;
using nlohmann::ordered_json;
using program::arguments;
using program::operator+;

inline const fs::path data = RLCORE_REFERENCE_DIR "/first_steps";

/// What each program needs to learn its 12 rows.
inline arguments settings(const std::string& program) {
  if (program == "dpo_trainer")
    return {"--dataset", data / "pairs.jsonl", "--eval_dataset", data / "pairs.jsonl", "--prompt_key", "prompt"};
  if (program == "rm_trainer")
    return {"--dataset", data / "pairs.jsonl", "--eval_dataset", data / "pairs.jsonl", "--prompt_key", "prompt"};
  if (program == "kto_trainer")
    return {"--dataset",      data / "unpaired.jsonl",
            "--eval_dataset", data / "unpaired.jsonl",
            "--output_key",   "output",
            "--beta",         "0.1"};
  return {"--dataset", data / "steps.jsonl",  "--eval_dataset", data / "steps.jsonl", "--label_key",
          "value",     "--placeholder_token", "\u043a\u0438",   "--reward_tokens",    "+",
          "-"};
}

inline std::vector<ordered_json> rows(const fs::path& root) { return program::metric_rows(root); }
class trainer_test : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"dpo_trainer", "kto_trainer", "rm_trainer", "prm_trainer"})
      if (!fs::exists(program::path_of(name))) GTEST_SKIP() << "no " << program::path_of(name);
    fs::copy(data / "qwen2", model);
    fs::copy(data / "tokenizer", model);
  }
  /// 3 steps per epoch of 4 rows each; checkpoints in place/<run>, the model in place/<run>_model.
  arguments command(const std::string& program, const std::string& run) const {
    return arguments{"--pretrain",
                     model.string(),
                     "--ckpt_path",
                     (place / run).string(),
                     "--save_path",
                     (place / (run + "_model")).string(),
                     "--train_batch_size",
                     "4",
                     "--micro_train_batch_size",
                     "2",
                     "--max_len",
                     "128",
                     "rlcore.threads=1"} +
           settings(program);
  }
  program::result train(const std::string& program, const std::string& run, const arguments& more) const {
    const program::result r = program::run(program, command(program, run) + more);
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_EQ(r.err, "");
    return r;
  }
  std::string weights(const std::string& run) const {
    return scratch::read(place / (run + "_model") / "model.safetensors");
  }
  /// Exit code 1 and one line that contains `part`; no file is added, changed or lost.
  void refused(const std::string& program, const arguments& more, const std::string& part) const {
    SCOPED_TRACE(part);
    const auto before = program::snapshot(place.path());
    const program::result r = program::run(program, command(program, "refused") + more);
    EXPECT_EQ(r.code, 1) << r.out;
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
    EXPECT_TRUE(r.err.starts_with(program + ": ")) << r.err;
    EXPECT_NE(r.err.find(part), std::string::npos) << r.err;
    EXPECT_TRUE(program::snapshot(place.path()) == before) << "files were written";
  }

  const scratch::folder place;
  const fs::path model = place / "model";
};

}  // namespace preference
