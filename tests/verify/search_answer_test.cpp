#include "rlcore/verify/search_answer.hpp"

#include <random>

#include "data/scratch.hpp"
#include "support/cpu_time.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::verify;

nlohmann::json golden() { return nlohmann::json::parse(scratch::read(RLCORE_REFERENCE_DIR "/verify_search.json")); }

TEST(search_answer, scores_as_verl_does) {
  std::size_t right = 0;
  const nlohmann::json all = golden();
  for (const auto& row : all["rows"]) {
    const std::string text = row[0], truth = row[1];
    const verdict v = score_search_answer(text, truth);
    ASSERT_EQ(v.score, row[2].get<double>()) << text << "\n== truth\n"
                                             << truth << "\n== pred\n"
                                             << v.pred.value_or("-");
    right += v.correct();
  }
  EXPECT_GT(right, 100u);
}

// Every character of the scripts that it knows, alone, and phrases.
TEST(search_answer, normalises_as_verl_does) {
  const nlohmann::json all = golden();
  for (const auto& pair : all["normal"])
    EXPECT_EQ(normalize_answer(pair[0].get<std::string>()), pair[1].get<std::string>()) << pair[0];
}

TEST(search_answer, says_why_and_takes_several_forms_of_truth) {
  const auto why = [](const std::string& text, const std::string& truth = "Paris") {
    return std::string(name_of(score_search_answer(text, truth).why));
  };
  EXPECT_EQ(why("<answer> paris. </answer>"), "correct");
  EXPECT_EQ(why("<answer>paris</answer>", "[\"Rome\", \"Paris\"]"), "correct");
  EXPECT_EQ(why("<answer>paris</answer>", "{\"target\": \"Paris\"}"), "correct");
  EXPECT_EQ(why("<answer>1976</answer>", "1976"), "correct");
  EXPECT_EQ(why("<answer>Rome</answer>"), "wrong");
  EXPECT_EQ(why("<answer>Paris"), "malformed");
  EXPECT_EQ(why("Paris"), "no_match");
}

TEST(search_answer, takes_any_bytes_in_linear_time) {
  std::mt19937 random(8);
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (std::size_t length = random() % 50; length > 0; --length)
      text += random() % 4 == 0 ? std::string(random() % 2 ? "<answer>" : "</answer>")
                                : std::string(1, static_cast<char>(random()));
    score_search_answer(text, text);
  }
  const double start = cpu_seconds();
  for (const char* piece : {"<answer>", "</answer>", "a ", "\xc3", "<answer></answer>"}) {
    std::string text;
    while (text.size() < 500'000) text += piece;
    score_search_answer(text, text);
    score_search_answer("<answer>" + text + "</answer>", text);
  }
  EXPECT_LT(cpu_seconds() - start, 10);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
