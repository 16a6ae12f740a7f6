#include <cmath>

#include "data/scratch.hpp"
#include "rlcore/train/evaluation/stored_responses.hpp"
#include "rlcore/train/evaluation/summary.hpp"
#include "rlcore/verify/dispatch.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::train;
using rlcore::data_error;
using rlcore::verify::reason;
using rlcore::verify::verdict;

// By counting subsets: of 4 samples with 1 right, 3 of the 6 pairs contain it.
TEST(pass_at, counts_subsets) {
  EXPECT_DOUBLE_EQ(pass_at(4, 1, 1), 0.25);
  EXPECT_DOUBLE_EQ(pass_at(4, 1, 2), 0.5);
  EXPECT_DOUBLE_EQ(pass_at(4, 2, 2), 5.0 / 6);
  EXPECT_DOUBLE_EQ(pass_at(4, 0, 4), 0);
  EXPECT_DOUBLE_EQ(pass_at(4, 1, 4), 1);
}

TEST(evaluation_summary, means_over_problems_with_their_standard_error) {
  evaluation_summary all;
  const auto add = [&](std::uint64_t problem, bool right, const char* answer) {
    all.add(
        {"aime", problem, {right ? 1.0 : -1.0, right ? reason::correct : reason::wrong, right, answer}, 10, !right});
  };
  add(0, true, "5"), add(0, true, "5"), add(0, false, "6"), add(0, false, "7");
  add(1, false, "1"), add(1, false, "1"), add(1, false, "2"), add(1, false, "1");
  add(2, true, "9"), add(2, true, "9"), add(2, true, "9"), add(2, true, "9");
  all.add({"math", 7, {0, reason::no_match}});
  const std::vector<source_summary> sources = all.sources();
  ASSERT_EQ(sources.size(), 2u);
  const source_summary& s = sources[0];
  EXPECT_EQ(s.problems, 3u);
  EXPECT_EQ(s.n, 4);
  EXPECT_DOUBLE_EQ(s.mean, 0.5);
  // Means 0.5, 0, 1: sample deviation 0.5, divided by the root of 3.
  EXPECT_NEAR(s.error, 0.5 / std::sqrt(3.0), 1e-12);
  ASSERT_EQ(s.pass.size(), 3u);
  EXPECT_NEAR(s.pass[1].second, (5.0 / 6 + 0 + 1) / 3, 1e-12);
  EXPECT_NEAR(s.pass[2].second, 2.0 / 3, 1e-12);
  EXPECT_NEAR(s.best, (1 - std::pow(0.5, 4) + 0 + 1) / 3, 1e-12);
  EXPECT_GT(s.majority, 1.0 / 3 + 0.5 / 3);
  EXPECT_EQ(s.cut_off, 6u);
  EXPECT_EQ(s.tokens, 10);
  EXPECT_EQ(sources[1].reasons[static_cast<std::size_t>(reason::no_match)], 1u);

  const std::string table = summary_table(sources);
  std::size_t width = table.find('\n');
  for (std::size_t begin = 0; begin < table.size(); begin += width + 1)  // every line is as long
    ASSERT_EQ(table.find('\n', begin), begin + width) << table;
  EXPECT_NE(table.find("50.00"), std::string::npos) << table;
  EXPECT_NE(table.find("no_match"), std::string::npos) << table;
  const auto json = summary_json(all);
  EXPECT_EQ(json["sources"]["aime"]["pass@4"], 2.0 / 3);
  EXPECT_TRUE(json["metrics"].contains("val-core/aime/acc/maj@4/mean"));
}

TEST(stored_responses, of_evaluate_of_a_trainer_and_of_verl) {
  const scratch::folder folder;
  scratch::write(
      folder / "a.jsonl",
      "{\"prompt\": \"p\", \"response\": \"r1\", \"ground_truth\": \"1\", \"data_source\": \"math\"}\n"
      "{\"input\": \"p\", \"output\": \"r2\", \"gts\": \"1\", \"score\": 0, \"step\": 3, \"data_source\": \"math\"}\n"
      "{\"prompt\": [{\"role\": \"user\", \"content\": \"q\"}], \"responses\": [\"r3\", \"r4\"], \"data_source\": "
      "\"math\", \"reward_model\": {\"style\": \"rule\", \"ground_truth\": 2}}\n");
  const auto rows = read_stored_responses({(folder / "a.jsonl").string()}, false);
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0].problem, rows[1].problem);
  EXPECT_NE(rows[0].problem, rows[2].problem);
  EXPECT_EQ(rows[2].problem, rows[3].problem);
  EXPECT_EQ(rows[3].text, "r4");
  EXPECT_EQ(rows[3].truth, "2");
  scratch::write(folder / "b.jsonl", "{\"response\": \"r\", \"answer\": \"1\"}\n");
  EXPECT_EQ(read_stored_responses({(folder / "b.jsonl").string()}, true)[0].source, "b.jsonl");
  const auto refused = [&](const std::string& text, const char* part) {
    scratch::write(folder / "c.jsonl", text);
    scratch::error_of<data_error>([&] { read_stored_responses({(folder / "c.jsonl").string()}, false); },
                                  {"c.jsonl", part});
  };
  refused("{\"response\": \"r\", \"answer\": \"1\"}\n", "rule=");
  refused("{\"respons\": \"r\"}\n", "respons");
  refused("{\"response\": \"r\"}\n", "ground_truth");
  refused("{\"response\": [1], \"answer\": \"1\", \"data_source\": \"math\"}\n", "expected a text");
  refused("\n", "no rows");
}

// 5276 solutions of four models with the labels of those who published them.
TEST(last_number, agrees_with_the_published_labels) {
  const std::filesystem::path file =
      std::filesystem::path(RLCORE_SHARED_DIR) / "gsm8k" / "example_model_solutions.jsonl";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "no " << file;
  std::size_t correct = 0, responses = 0;
  for (const auto& row : rlcore::data::read_jsonl(file)) {
    const std::string solution = row["ground_truth"];
    std::string truth = solution.substr(solution.rfind("A: ") + 3);
    std::erase(truth, ',');
    for (const auto& [model, answer] : row.items()) {
      if (!answer.is_object()) continue;
      const verdict v = rlcore::verify::score_last_number(answer["solution"].get<std::string>(), truth);
      ASSERT_EQ(v.correct(), answer["is_correct"].get<bool>()) << answer["solution"] << truth;
      correct += v.correct();
      ++responses;
    }
  }
  EXPECT_EQ(responses, 5276u);
  EXPECT_EQ(correct, 2001u);
}

TEST(last_number, reads_as_the_regular_expression) {
  using rlcore::verify::score_last_number;
  const std::vector<std::pair<std::string, std::string>> table{
      {"so 1,234 eggs", "1234"}, {"5-3", "-3"}, {"1.2.3", "3"}, {"is 72.0.", "72.0"}, {"--7 ", "-7"}, {"a 4. b", "4"},
      {"3 Question: 4", "3"},    {"-", ""},     {"none", ""},   {"1.", "1"},          {"x.5", "5"}};
  for (const auto& [text, number] : table) {
    const verdict v = score_last_number(text, "72");
    EXPECT_EQ(v.pred.value_or(""), number) << text;
    EXPECT_EQ(v.why, number.empty() ? reason::no_match : number == "72.0" ? reason::correct : reason::wrong) << text;
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
