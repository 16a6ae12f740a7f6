// Runs build/bin/gsm8k_solutions as a user would.
#include <algorithm>
#include <set>

#include "rlcore/data/jsonl.hpp"
#include "support/program.hpp"

namespace RLCORE_TEST_ID {
namespace {

class gsm8k_solutions : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(program::path_of("gsm8k_solutions"))) GTEST_SKIP() << "the program is not built";
    std::string lines;
    for (int i = 0; i < 8; ++i)
      lines += R"({"question": "Q)" + std::to_string(i) +
               R"(?", "ground_truth": "<<1+1=2>>\nA: 2", "a": {"is_correct": true, "solution": "<<1+1=2>>\nA: 2"},)" +
               R"( "b": {"is_correct": false, "solution": "<<1+2=3>>\nA: 3"}, "c": {"is_correct": false, )" +
               R"("solution": "A: 4"}})" + "\n";
    scratch::write(input, lines);
  }
  program::result convert(std::vector<std::string> more) const {
    more.insert(more.end(), {"--input", input.string(), "--local_save_dir", saved.string()});
    return program::run("gsm8k_solutions", more);
  }
  std::vector<rlcore::data::row> rows(const std::string& name) const {
    return rlcore::data::read_jsonl(saved / (name + ".jsonl"));
  }
  const scratch::folder place;
  const std::filesystem::path input = place / "in.jsonl", saved = place / "saved";
};

TEST_F(gsm8k_solutions, splits_by_question) {
  const program::result r = convert({"--held_out=0.25", "--placeholder", "X"});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(rows("pairs_train").size(), 6u * 2);
  EXPECT_EQ(rows("pairs_test").size(), 2u * 2);
  EXPECT_EQ(rows("unpaired_train").size(), 6u * 3);
  std::set<std::string> train, test;
  for (const auto& row : rows("pairs_train")) train.insert(row["prompt"]);
  for (const auto& row : rows("pairs_test")) test.insert(row["prompt"]);
  EXPECT_EQ(train.size() + test.size(), 8u);
  for (const auto& question : test) EXPECT_EQ(train.count(question), 0u);
  EXPECT_EQ(rows("pairs_test")[0]["chosen"], "<<1+1=2>>\n#### 2");
  EXPECT_EQ(rows("unpaired_test")[1]["label"], 0);
  const auto step = rows("steps_test")[0];
  EXPECT_TRUE(step["input"].get<std::string>().ends_with("?\n<<1+1=2>> X\n#### 2 X\n")) << step;
  EXPECT_EQ(step["value"], (rlcore::data::row{"+", "+"}));
  EXPECT_EQ(rows("steps_test")[1]["value"], (rlcore::data::row{"-", "-"}));
}

TEST_F(gsm8k_solutions, mixed_questions_and_labels_of_whole_solutions) {
  const std::string all_right = R"({"question": "Easy?", "ground_truth": "A: 2", "a": {"is_correct": true, )"
                                R"("solution": "A: 2"}})";
  scratch::write(input, scratch::read(input) + all_right + "\n");
  ASSERT_EQ(convert({"--mixed", "--held_out=0", "--step_labels", "solution", "--placeholder=X"}).code, 0);
  EXPECT_EQ(rows("unpaired_train").size(), 8u * 3);
  for (const auto& row : rows("steps_train")) EXPECT_EQ(row["value"].front(), row["value"].back());
  ASSERT_EQ(convert({"--held_out=0", "--placeholder=X"}).code, 0);
  EXPECT_EQ(rows("unpaired_train").size(), 8u * 3 + 1);
}

TEST_F(gsm8k_solutions, writes_message_lists) {
  ASSERT_EQ(convert({"--messages"}).code, 0);
  EXPECT_EQ(rows("pairs_train")[0]["chosen"][0]["role"], "assistant");
  EXPECT_EQ(rows("unpaired_train")[0]["input"][0]["role"], "user");
}

TEST_F(gsm8k_solutions, refuses_in_one_line) {
  for (const auto& [argument, part] :
       {std::pair{"--held_out=2", "expected a number from 0"}, std::pair{"--heldout=0.1", "did you mean '--held_out'"},
        std::pair{"--placeholder=Q", "occurs in the question"},
        std::pair{"--step_labels=last", "expected first_error, solution"}}) {
    const program::result r = convert({argument});
    EXPECT_EQ(r.code, 1);
    EXPECT_NE(r.err.find(part), std::string::npos) << r.err;
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
  }
  EXPECT_FALSE(std::filesystem::exists(saved));
  EXPECT_EQ(program::run("gsm8k_solutions", {"--help"}).code, 0);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
