// Runs build/bin/evaluate as a user would.
#include <set>

#include "rlcore/data/jsonl.hpp"
#include "support/program.hpp"
#include "support/tiny_model.hpp"

namespace RLCORE_TEST_ID {
namespace {

namespace fs = std::filesystem;

class evaluate : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(program::path_of("evaluate"))) GTEST_SKIP() << "no evaluate in " << RLCORE_BIN_DIR;
    files = tiny_model::make(place.path());
  }
  program::result run(std::vector<std::string> more, const std::string& out = "out") {
    std::vector<std::string> arguments{"model.path=" + files.model.string(), "data.files=" + files.val.string(),
                                       "data.max_response_length=12", "output_dir=" + (place / out).string(),
                                       "rlcore.threads=1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return program::run("evaluate", arguments);
  }
  std::string generations(const std::string& out) { return scratch::read(place / out / "generations.jsonl"); }
  nlohmann::json result(const std::string& out) {
    return nlohmann::json::parse(scratch::read(place / out / "result.json"));
  }
  void refused(const std::vector<std::string>& arguments, const std::string& part) {
    const program::result r = run(arguments, "none");
    EXPECT_EQ(r.code, 1) << r.out;
    EXPECT_NE(r.err.find(part), std::string::npos) << r.err;
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
    EXPECT_FALSE(fs::exists(place / "none")) << part;
  }

  const scratch::folder place;
  tiny_model::files files;
};

TEST_F(evaluate, samples_judges_and_judges_again_from_the_file) {
  const std::vector<std::string> how{"rollout.n=4", "rollout.temperature=1", "rollout.top_p=0.95"};
  const program::result r = run(how);
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.out.find("openai/gsm8k         5  4"), std::string::npos) << r.out;
  const auto rows = rlcore::data::read_jsonl(place / "out" / "generations.jsonl");
  ASSERT_EQ(rows.size(), 20u);
  double right = 0;
  for (const auto& row : rows) {
    right += row["correct"].get<bool>();
    EXPECT_NE(row["prompt"].get<std::string>().find("How many are left?"), std::string::npos);
    EXPECT_LE(row["tokens"].get<int>(), 12);
  }
  const nlohmann::json source = result("out")["sources"]["openai/gsm8k"];
  EXPECT_DOUBLE_EQ(source["mean@4"], right / 20);
  EXPECT_EQ(source["problems"], 5);
  EXPECT_EQ(result("out")["settings"]["rollout.n"], "4");
  EXPECT_EQ(result("out")["metrics"]["val-core/openai/gsm8k/reward/mean@4"], source["mean@4"]);

  // Not a bit depends on how many are decoded together or on the number of threads.
  std::vector<std::string> other = how;
  other.insert(other.end(), {"rollout.max_num_seqs=3", "rlcore.threads=2", "rollout.max_num_batched_tokens=64"});
  ASSERT_EQ(run(other, "other").code, 0);
  EXPECT_EQ(generations("other"), generations("out"));
  other = how;
  other.push_back("rlcore.seed=2");
  ASSERT_EQ(run(other, "seed").code, 0);
  EXPECT_NE(generations("seed"), generations("out"));

  const program::result again = program::run("evaluate", {"responses=" + (place / "out" / "generations.jsonl").string(),
                                                          "output_dir=" + (place / "again").string()});
  ASSERT_EQ(again.code, 0) << again.err;
  nlohmann::json stored = result("again")["sources"]["openai/gsm8k"];
  for (const char* key : {"mean@4", "standard_error", "pass@2", "best@4", "reasons"})
    EXPECT_EQ(stored[key], source[key]) << key;
}

TEST_F(evaluate, penalties_keep_a_response_from_repeating_itself) {
  const std::vector<std::string> greedy{"rollout.temperature=0"};
  const auto distinct = [&](std::vector<std::string> more, const std::string& out) {
    more.insert(more.begin(), greedy.begin(), greedy.end());
    const program::result r = run(more, out);
    EXPECT_EQ(r.code, 0) << r.err;
    std::set<std::string> responses;
    for (const auto& row : rlcore::data::read_jsonl(place / out / "generations.jsonl"))
      responses.insert(row["response"].get<std::string>());
    return responses;
  };
  const auto plain = distinct({}, "plain");
  EXPECT_EQ(distinct({"rollout.repetition_penalty=1", "rollout.min_p=0.5"}, "neutral"), plain);
  EXPECT_NE(distinct({"rollout.repetition_penalty=1.5"}, "repetition"), plain);
  EXPECT_NE(distinct({"rollout.frequency_penalty=2", "rollout.presence_penalty=2"}, "counts"), plain);
  const auto sampled = distinct({"rollout.temperature=1"}, "sampled");
  EXPECT_EQ(distinct({"rollout.temperature=1", "rollout.min_p=1"}, "most_likely"), plain);
  EXPECT_NE(sampled, plain);
  EXPECT_EQ(result("repetition")["settings"]["rollout.repetition_penalty"], "1.5");
  refused({"rollout.repetition_penalty=0"}, "repetition_penalty=0");
  refused({"rollout.min_p=1.5"}, "from 0 to 1");
  refused({"rollout.presence_penalty=-3"}, "from -2 to 2");
}

TEST_F(evaluate, forms_of_other_files) {
  scratch::write(place / "aime.jsonl", "{\"origin_prompt\": \"What is 1+1?\", \"gold_answer\": 2}\n");
  program::result r = run({"data.files=" + (place / "aime.jsonl").string(), "data.form=aime2024"}, "aime");
  ASSERT_EQ(r.code, 0) << r.err;
  auto rows = rlcore::data::read_jsonl(place / "aime" / "generations.jsonl");
  EXPECT_EQ(rows[0]["prompt"], "What is 1+1?\nPlease reason step by step, and put your final answer within \\boxed{}.");
  EXPECT_EQ(rows[0]["data_source"], "aime2024");
  std::string shots;
  for (int i = 1; i <= 4; ++i) shots += "{\"question\": \"Q" + std::to_string(i) + "\", \"answer\": \"A\\n#### 1\"}\n";
  scratch::write(place / "train.jsonl", shots);
  scratch::write(place / "test.jsonl",
                 "{\"question\": \"Q?\", \"answer\": \"#### 4\"}\n{\"question\": \"R?\", \"answer\": \"#### 5\"}\n");
  const std::string form = "data.form=gsm8k", test = "data.files=" + (place / "test.jsonl").string();
  r = run({test, form, "data.shots=" + (place / "train.jsonl").string(), "data.limit=1"}, "shots");
  ASSERT_EQ(r.code, 0) << r.err;
  rows = rlcore::data::read_jsonl(place / "shots" / "generations.jsonl");
  ASSERT_EQ(rows.size(), 1u);
  const std::string prompt = rows[0]["prompt"];
  EXPECT_TRUE(prompt.starts_with("Question: Q1\nLet's think step by step\nAnswer: A\n#### 1\n\nQuestion: Q2"))
      << prompt;
  EXPECT_TRUE(prompt.ends_with("Question: Q?\nLet's think step by step\nAnswer:")) << prompt;
  refused({test, form}, "data.shots");
  refused({test}, "gsm8k_preprocess");
}

TEST_F(evaluate, rules_are_those_of_a_version_of_verl) {
  const auto line = [](const char* source) {
    return std::string("{\"data_source\": \"") + source +
           "\", \"prompt\": \"p\", \"response\": \"It is \\\\boxed{7}.\", \"ground_truth\": \"7\"}\n";
  };
  scratch::write(place / "dapo.jsonl", line("math_dapo"));
  scratch::write(place / "math.jsonl", line("math"));
  const auto judge = [&](const char* file, const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"responses=" + (place / file).string(), "output_dir=" + (place / "v").string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return program::run("evaluate", arguments);
  };
  const auto right = [&](const std::vector<std::string>& more) {
    const program::result r = judge("dapo.jsonl", more);
    EXPECT_EQ(r.code, 0) << r.err;
    return result("v")["sources"]["math_dapo"]["mean@1"].get<double>();
  };
  EXPECT_EQ(right({}), 1);
  EXPECT_EQ(right({"rlcore.verl=0.8.0"}), 0);
  EXPECT_EQ(right({"rule_box=none"}), 0);
  EXPECT_EQ(right({"rlcore.verl=0.8.0", "rule_box=fallback"}), 1);
  EXPECT_EQ(judge("math.jsonl", {"rlcore.verl=0.6.1"}).code, 0);
  const program::result shown = program::run("evaluate", {"responses=" + (place / "dapo.jsonl").string()},
                                             "cd '" + (place / "").string() + "' &&");
  EXPECT_NE(shown.out.find("math_dapo"), std::string::npos) << shown.out;
  EXPECT_FALSE(std::filesystem::exists(place / "evaluation")) << "nobody asked for a folder";
  const program::result refused = judge("math.jsonl", {"rlcore.verl=2025-08"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_NE(refused.err.find("expected rlcore.verl=0.6.1 or later"), std::string::npos) << refused.err;
}

TEST_F(evaluate, says_what_is_wrong_before_any_work) {
  refused({"rollout.n=4"}, "rollout.temperature=0");
  refused({"rollout.tempratur=1"}, "did you mean 'rollout.temperature'");
  refused({"data.files=" + (place / "absent.jsonl").string()}, "absent.jsonl");
  refused({"model.path=" + (place / "absent").string()}, "not found");
  refused({"data.max_response_length=100000"}, "positions");
  refused({"data.max_prompt_length=3"}, "data.max_prompt_length");
  refused({"responses=x.jsonl"}, "expected one of them");
  scratch::write(
      place / "other.jsonl",
      "{\"data_source\": \"openai/gsm8\", \"prompt\": \"p\", \"reward_model\": {\"ground_truth\": \"1\"}}\n");
  refused({"data.files=" + (place / "other.jsonl").string()}, "did you mean 'openai/gsm8k'");
  EXPECT_EQ(program::run("evaluate", {}).code, 1);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
