// build/bin/variants as a user runs it: list, refusals, a small comparison, the same bits twice.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "support/program.hpp"

namespace RLCORE_TEST_ID {
namespace {

namespace fs = std::filesystem;
using arguments = std::vector<std::string>;

class variants : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(program::path_of("variants"))) GTEST_SKIP() << "no " << program::path_of("variants");
  }
  program::result run(const arguments& words) const {
    return program::run("variants", words, "cd '" + place.path().string() + "' &&");
  }
  /// Exit code 1 and one line that contains `part`; nothing is written.
  void refused(const arguments& words, const std::string& part) const {
    SCOPED_TRACE(part);
    const program::result r = run(words);
    EXPECT_EQ(r.code, 1) << r.out;
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
    EXPECT_TRUE(r.err.starts_with("variants: ")) << r.err;
    EXPECT_NE(r.err.find(part), std::string::npos) << r.err;
    EXPECT_TRUE(fs::is_empty(place.path()));
  }
  static std::size_t count(const std::string& text, const std::string& part) {
    std::size_t n = 0;
    for (std::size_t i = text.find(part); i != std::string::npos; i = text.find(part, i + 1)) ++n;
    return n;
  }
  /// Rows of metrics.jsonl without wall time and memory.
  std::vector<nlohmann::ordered_json> rows(const fs::path& folder) const {
    std::vector<nlohmann::ordered_json> all;
    std::istringstream file(scratch::read(place / folder / "metrics.jsonl"));
    for (std::string line; std::getline(file, line);) {
      auto row = nlohmann::ordered_json::parse(line);
      for (auto it = row.begin(); it != row.end();)
        it = it.key().starts_with("timing") || it.key().starts_with("perf/") ? row.erase(it) : std::next(it);
      all.push_back(row);
    }
    return all;
  }
  const scratch::folder place;
};

TEST_F(variants, lists_what_there_is_and_what_it_is_made_of) {
  const program::result r = run({"--list"});
  EXPECT_EQ(r.code, 0) << r.err;
  std::istringstream lines(r.out);
  std::string head, line, parts, dapo;
  std::getline(lines, line);
  EXPECT_EQ(line.find("name "), 0u) << line;
  std::getline(lines, head);
  for (const char* column : {"  advantage ", " aggregation ", " objective"})
    EXPECT_NE(head.find(column), std::string::npos) << head;
  std::vector<std::string> names;
  while (std::getline(lines, line) && std::getline(lines, parts)) {
    names.push_back(line.substr(0, line.find(' ')));
    if (names.back() == "dapo") dapo = parts;
    EXPECT_TRUE(parts.starts_with("  ")) << parts;
    EXPECT_LE(std::max(line.size(), parts.size()), 150u) << parts;
    EXPECT_EQ(parts.find("rlcore::"), std::string::npos) << parts;
    EXPECT_EQ(parts.find("(anonymous"), std::string::npos) << parts;
  }
  for (const char* name : {"grpo", "dr_grpo", "dapo", "reinforce"})
    EXPECT_EQ(std::count(names.begin(), names.end(), name), 1) << name;
  EXPECT_EQ(dapo.find("ppo_clip"), head.find("objective")) << dapo;
  EXPECT_EQ(dapo.find("token_mean"), head.find("aggregation")) << dapo;
  EXPECT_EQ(run({"--help"}).code, 0);
  EXPECT_TRUE(fs::is_empty(place.path()));
}

TEST_F(variants, refuses_in_one_line_before_any_work) {
  refused({"--algorithms", "grpo,dappo"}, "no algorithm 'dappo' (did you mean 'dapo' or 'sapo'?); --list shows all");
  refused({"--algorithms=grpo,,dapo"}, "expected names or numbers with commas between");
  refused({"--algorithms", "grpo,grpo"}, "grpo stands there twice");
  refused({"--algoritms", "grpo"}, "unknown flag '--algoritms' (did you mean '--algorithms'?)");
  refused({"seeds=[]"}, "seeds=[]: expected names or numbers");
  refused({"--seeds", "1,two"}, "--seeds 'two': expected an integer");
  refused({"--steps", "0"}, "--steps=0: expected an integer from 1");
  refused({"--steps"}, "--steps needs a value");
  refused({"data.train_batchsize=3"}, "did you mean 'data.train_batch_size'");
  refused({"rlcore.seed=3"}, "rlcore.seed: use --seeds here");
  refused({"trainer.total_training_steps=3"}, "use --steps here");
  refused({"actor_rollout_ref.actor.use_kl_loss=True"}, "that is what the variants differ in");
  refused({"grpo"}, "'grpo' is no setting key=value");
  refused({"list"}, "'list' is no setting key=value (did you mean '--list'?)");
}

TEST_F(variants, compares_two_algorithms_and_gives_the_same_bits_twice) {
  const auto small = [](const std::string& folder, const arguments& more) {
    arguments all{"--warm-start",
                  "20",
                  "--steps",
                  "2",
                  "--output",
                  folder,
                  "data.train_batch_size=16",
                  "actor_rollout_ref.actor.ppo_mini_batch_size=8",
                  "actor_rollout_ref.rollout.n=4"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const program::result r = run(small("a", {"--algorithms", "grpo,dapo", "--seeds", "1,2"}));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.err, "");
  EXPECT_EQ(count(r.out, "validation 0."), 4u) << r.out;
  EXPECT_NE(r.out.find("\nalgorithm  validation reward  lowest..highest  entropy  clipped  seconds\ngrpo "),
            std::string::npos)
      << r.out;
  EXPECT_EQ(count(r.out, "\ndapo "), 1u) << r.out;
  EXPECT_NE(r.out.find("report  a/report.html"), std::string::npos) << r.out;

  const std::string page = scratch::read(place / "a" / "report.html");
  const std::string reward = page.substr(page.find("aria-label=\"Validation reward\""));
  const std::string chart = reward.substr(0, reward.find("</svg>"));
  for (const char* curve : {"class=\"line s1\"", "class=\"line s2\""}) EXPECT_EQ(count(chart, curve), 1u) << curve;
  for (const char* run : {"class=\"line pale s1\"", "class=\"line pale s2\""}) EXPECT_EQ(count(chart, run), 2u) << run;
  EXPECT_NE(chart.find("\ngrpo: 0"), std::string::npos) << chart;
  EXPECT_NE(chart.find("\ndapo: 0"), std::string::npos) << chart;

  // The first row is the validation of the common initial weights; then the first step samples the same texts.
  const auto grpo = rows("a/grpo-seed1"), dapo = rows("a/dapo-seed1"), other = rows("a/grpo-seed2");
  ASSERT_EQ(grpo.size(), 3u);
  EXPECT_EQ(grpo[0], dapo[0]);
  EXPECT_EQ(grpo[0], other[0]);
  for (const char* same : {"critic/score/mean", "actor/entropy", "response_length/mean"}) {
    EXPECT_EQ(grpo[1][same], dapo[1][same]) << same;
    EXPECT_NE(grpo[1][same], other[1][same]) << same;
  }
  EXPECT_NE(grpo[2]["actor/entropy"], dapo[2]["actor/entropy"]);

  const program::result again = run(small("b", {"--algorithms", "dapo", "--seeds", "2"}));
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(rows("b/dapo-seed2"), rows("a/dapo-seed2"));

  // What has ended is taken over, with the same numbers; what was cut short is made anew.
  fs::remove(place / "a" / "grpo-seed2" / "done.json");
  scratch::write(place / "a" / "grpo-seed2" / "metrics.jsonl", "{\"step\":0}\n");
  const auto kept = program::snapshot(place / "a" / "dapo-seed1");
  const program::result third = run(small("a", {"--algorithms", "grpo,dapo", "--seeds", "1,2"}));
  ASSERT_EQ(third.code, 0) << third.err;
  EXPECT_EQ(count(third.out, "  taken over"), 4u) << third.out;  // the task and three runs
  EXPECT_EQ(rows("a/grpo-seed2"), other);
  EXPECT_EQ(program::snapshot(place / "a" / "dapo-seed1"), kept);
}

TEST_F(variants, every_algorithm_of_the_list_trains) {
  const program::result r =
      run({"--algorithms", "all", "--warm-start", "20", "--steps", "1", "--output", "c", "data.train_batch_size=8",
           "actor_rollout_ref.actor.ppo_mini_batch_size=4", "trainer.val_before_train=False", "trainer.test_freq=-1"});
  ASSERT_EQ(r.code, 0) << r.err;
  std::istringstream list(run({"--list"}).out);
  std::string name, rest;
  std::getline(list, rest), std::getline(list, rest);
  int count = 0;
  for (; list >> name && std::getline(list, rest) && std::getline(list, rest); ++count) {
    const auto all = rows("c/" + name + "-seed1");
    ASSERT_EQ(all.size(), 1u) << name;
    EXPECT_EQ(all[0].dump().find("null"), std::string::npos) << all[0];  // a number that is not finite
    EXPECT_GT(all[0]["actor/grad_norm"].get<double>(), 0) << name;
  }
  EXPECT_GE(count, 20);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
