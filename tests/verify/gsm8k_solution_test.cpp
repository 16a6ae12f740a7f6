// Judged solutions and what their steps are worth.
#include "rlcore/verify/dataset_rows.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "rlcore/data/jsonl.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using verify::judged_solution;

data::row example() {
  return data::parse_row(R"({"question": "2+3, then doubled?",
    "ground_truth": "2+3=<<2+3=5>>5\n5*2=<<5*2=10>>10\nA: 10",
    "small": {"is_correct": false, "solution": "2+3=<<2+3=5>>5\n5*3=<<5*3=1,5>>15\n5+0=<<5+0=5>>5\nA: 5"},
    "large": {"is_correct": true, "solution": "It is (2+3)*2=<<(2+3)*2=10>>10\nA: 10\n"},
    "copy": {"is_correct": true, "solution": "It is (2+3)*2=<<(2+3)*2=10>>10\nA: 10"}})",
                         "here");
}

TEST(gsm8k_solution, steps_of_a_wrong_one_are_good_until_a_result_is_not_in_the_true_one) {
  const auto q = verify::read_solved_question(example(), "here");
  EXPECT_EQ(q.results, (std::vector<std::string>{"5", "10", "10"}));
  ASSERT_EQ(q.solutions.size(), 2u);  // the copy counts once
  EXPECT_EQ(verify::solution_steps(q.solutions[0].text).back(), "#### 5");
  EXPECT_EQ(verify::good_steps(q, q.solutions[0]), (std::vector<bool>{true, false, false, false}));
  EXPECT_EQ(q.solutions[1].text, "It is (2+3)*2=<<(2+3)*2=10>>10\n#### 10");
  EXPECT_EQ(verify::good_steps(q, q.solutions[1]), (std::vector<bool>{true, true}));
  EXPECT_EQ(verify::calculator_results("a <<1+1=2>> b <<x>> c <<3=1,234>> d <<5"),
            (std::vector<std::string>{"2", "1234"}));
}

TEST(gsm8k_solution, rows_of_another_form_are_refused) {
  data::row bad = example();
  bad["small"]["is_correct"] = "no";
  EXPECT_THROW(verify::read_solved_question(bad, "here"), data_error);
  bad = example();
  bad.erase("ground_truth");
  EXPECT_THROW(verify::read_solved_question(bad, "here"), data_error);
  EXPECT_THROW(verify::read_solved_question(data::row{{"question", "a"}, {"ground_truth", "b"}}, "here"), data_error);
}

TEST(gsm8k_solution, reads_the_published_file) {
  const std::filesystem::path file = std::filesystem::path(RLCORE_SHARED_DIR) / "gsm8k/example_model_solutions.jsonl";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "no " << file;
  std::size_t right = 0, all = 0, ends = 0;
  for (const data::row& row : data::read_jsonl(file)) {
    const auto q = verify::read_solved_question(row, "row");
    for (const judged_solution& s : q.solutions) {
      ++all, right += s.correct;
      ends += verify::good_steps(q, s).back() == s.correct;
    }
  }
  // Counted with a Python script over the same file: distinct solutions per question; every last step is as good as
  // its solution.
  EXPECT_EQ(all, 5268u);
  EXPECT_EQ(ends, all);
  EXPECT_NEAR(static_cast<double>(right) / static_cast<double>(all), 0.379, 0.01);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
