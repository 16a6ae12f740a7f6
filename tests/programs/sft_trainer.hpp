// What the tests of build/bin/sft_trainer share: a small set-up, and how to read what a run left.
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

namespace sft {

namespace fs = std::filesystem;
using program::arguments;
using program::operator+;
using program::rows;

/// 18 rows in steps of 4: 4 steps per epoch, 8 steps; saves and evaluates every second step.
inline arguments settings(const tiny_model::files& f, const fs::path& root) {
  return {"data.train_files=" + f.train.string(),
          "data.val_files=" + f.val.string(),
          "data.prompt_key=extra_info",
          "data.response_key=extra_info",
          "+data.prompt_dict_keys=['question']",
          "+data.response_dict_keys=['answer']",
          "data.train_batch_size=4",
          "data.micro_batch_size_per_gpu=3",
          "data.max_length=128",
          "model.partial_pretrain=" + f.model.string(),
          "optim.lr=3e-3",
          "trainer.default_local_dir=" + root.string(),
          "trainer.logger=console",
          "trainer.total_epochs=2",
          "trainer.save_freq=2",
          "trainer.test_freq=2",
          "rlcore.threads=1"};
}

inline std::vector<double> curve(const fs::path& root, const std::string& name) {
  std::vector<double> all;
  for (const std::string& row : rows(root)) {
    const auto json = nlohmann::json::parse(row);
    if (json.contains(name)) all.push_back(json[name].get<double>());
  }
  return all;
}
/// Every file of a checkpoint with its content.
inline std::map<std::string, std::string> state(const fs::path& root, int step) {
  const fs::path folder = root / ("global_step_" + std::to_string(step));
  std::map<std::string, std::string> all;
  for (const auto& [path, bytes] : program::snapshot(folder)) all[fs::relative(path, folder).string()] = bytes;
  return all;
}

class trainer_test : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(program::path_of("sft_trainer"))) GTEST_SKIP() << "no " << program::path_of("sft_trainer");
    files = tiny_model::make(place.path());
  }
  fs::path root(const std::string& name) const { return place / name; }

  /// A run that must succeed, without a word on stderr.
  program::result train(const std::string& name, const arguments& more = {}, const std::string& before = "") {
    const program::result r = program::run("sft_trainer", settings(files, root(name)) + more, before);
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_EQ(r.err, "");
    return r;
  }
  /// Same checkpoint to the last file, same rows.
  void expect_same(const std::string& a, const std::string& b, int step = 8) {
    EXPECT_FALSE(state(root(a), step).empty());
    EXPECT_TRUE(state(root(a), step) == state(root(b), step)) << a << " and " << b << ": other checkpoints";
    EXPECT_EQ(rows(root(a)), rows(root(b)));
  }
  /// Exit code 1 and one line that contains `part`; no file anywhere in `place` is added, changed or lost.
  void refused(const arguments& more, const std::string& part) {
    SCOPED_TRACE(part);
    const auto before = program::snapshot(place.path());
    const program::result r = program::run("sft_trainer", settings(files, root("refused")) + more);
    EXPECT_EQ(r.code, 1) << r.out;
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
    EXPECT_TRUE(r.err.starts_with("sft_trainer: ")) << r.err;
    EXPECT_NE(r.err.find(part), std::string::npos) << r.err;
    EXPECT_TRUE(program::snapshot(place.path()) == before) << "files were written";
  }

  const scratch::folder place;
  tiny_model::files files;
};

}  // namespace sft
