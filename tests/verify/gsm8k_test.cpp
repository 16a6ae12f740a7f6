#include "rlcore/verify/gsm8k.hpp"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>
#include <vector>

#include "data/scratch.hpp"
#include "support/cpu_time.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::verify;

std::string repeat(const std::string& text, std::size_t n) {
  std::string out;
  for (std::size_t i = 0; i < n; ++i) out += text;
  return out;
}

struct example {
  std::string response, truth;
  double score;
  reason why;
};

TEST(gsm8k, scores_as_verl_does) {
  const std::vector<example> table{
      {"#### 72", "72", 1, reason::correct},
      {"#### 1,234", "1234", 1, reason::correct},
      {"#### -3", "-3", 1, reason::correct},
      {"#### 72%", "72", 1, reason::correct},
      {"#### 5 and then #### 72", "72", 1, reason::correct},
      {"#### 72\n", "72", 1, reason::correct},
      {"##### 72", "72", 1, reason::correct},
      {"#### 72 ####", "72", 1, reason::correct},
      {"#### 72 #### ", "72", 1, reason::correct},
      {"#### 72 #### #### x", "72", 1, reason::correct},
      {"####72", "72", 0, reason::no_match},
      {"####  72", "72", 0, reason::no_match},
      {"#### $72", "72", 0, reason::no_match},
      {"#### **72**", "72", 0, reason::no_match},
      {"The answer is 72", "72", 0, reason::no_match},
      {"#### -", "72", 0, reason::no_match},
      {"#### --72", "72", 0, reason::no_match},
      {"", "72", 0, reason::no_match},
      {"#### 72.", "72", 0, reason::wrong},
      {"#### 72.0", "72", 0, reason::wrong},
      {"#### 72 #### 5", "72", 0, reason::wrong},
      {"#### 7", "72", 0, reason::wrong},
      {"#### 723", "72", 0, reason::wrong},
      {"#### -72", "72", 0, reason::wrong},
      {"#### ,,,", "72", 0, reason::wrong},
      {"#### 72" + std::string(293, 'x'), "72", 1, reason::correct},
      {"#### 72" + std::string(294, 'x'), "72", 0, reason::outside_window},
      {"#### 72" + repeat("\xe6\xb0\xb4", 293), "72", 1, reason::correct},  // a character of three bytes
      {"#### 72" + repeat("\xe6\xb0\xb4", 294), "72", 0, reason::outside_window},
      {"#### 72" + repeat("\xf0\x9f\x98\x80", 293), "72", 1, reason::correct},  // of four
      {"#### 72" + repeat("e\xcc\x81", 146) + "x", "72", 1, reason::correct},   // combining marks count
      {"#### 72" + repeat("e\xcc\x81", 147), "72", 0, reason::outside_window},
      {std::string(1000, 'x'), "72", 0, reason::no_match},
  };
  for (const example& e : table) {
    const verdict v = score_gsm8k(e.response, e.truth);
    EXPECT_EQ(v.score, e.score) << e.response;
    EXPECT_EQ(name_of(v.why), name_of(e.why)) << e.response;
  }
}

TEST(gsm8k, settings_change_window_scores_and_method) {
  const std::string late = "#### 72" + std::string(294, 'x');
  EXPECT_EQ(score_gsm8k(late, "72", {.window = 0}).score, 1);
  EXPECT_EQ(score_gsm8k("#### 7", "72", {.format_score = 0.1}).score, 0.1);
  EXPECT_EQ(score_gsm8k("7", "72", {.format_score = 0.1}).score, 0);
  const gsm8k_settings flexible{.method = gsm8k_method::flexible};
  const std::vector<example> table{
      {"The answer is 72", "72", 1, reason::correct},
      {"The answer is 72 .", "72", 1, reason::correct},
      {"It is -72!", "-72", 1, reason::correct},
      {"80-72", "-72", 1, reason::correct},
      {"80--72-", "-72", 1, reason::correct},
      {"The answer is 72.", "72", 0, reason::wrong},
      {"1,234", "1234", 0, reason::wrong},
      {"1,234", "1,234", 1, reason::correct},
      {"-.", "72", 0, reason::wrong},
      {"72 is it. Or -", "72", 1, reason::correct},
      {". . -", "72", 0, reason::no_match},
      {"none", "72", 0, reason::no_match},
      {"72" + std::string(300, 'x'), "72", 0, reason::outside_window},
  };
  for (const example& e : table) {
    const verdict v = score_gsm8k(e.response, e.truth, flexible);
    EXPECT_EQ(v.score, e.score) << e.response;
    EXPECT_EQ(name_of(v.why), name_of(e.why)) << e.response;
  }
}

// The same rule, written naively over a list of matches.
std::optional<std::string> last_match(const std::string& text, bool strict) {
  const auto digit = [](char c) { return std::string_view("0123456789.,").find(c) != std::string_view::npos; };
  std::optional<std::string> last;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t at = i;
    if (strict && text.compare(i, 5, "#### ") == 0) at += 5;
    std::size_t end = at + (at < text.size() && text[at] == '-');
    const std::size_t digits = end;
    while (end < text.size() && digit(text[end])) ++end;
    const bool found = end > digits && (!strict || at > i);
    if (found && (strict || text.substr(at, end - at) != ".")) last = text.substr(at, end - at);
    i = found ? end : i + 1;
  }
  if (strict && last) std::erase(*last, ',');
  return last;
}

TEST(gsm8k, agrees_with_a_naive_search_on_random_text) {
  std::mt19937 random(3);
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (std::size_t length = random() % 30; length > 0; --length)
      text += std::vector<std::string>{"#### ", "#", " ", "-", "7", "2", ".", ",", "x"}[random() % 9];
    for (const auto method : {gsm8k_method::strict, gsm8k_method::flexible}) {
      const std::optional<std::string> expected = last_match(text, method == gsm8k_method::strict);
      const verdict v = score_gsm8k(text, expected.value_or("72"), {.method = method});
      ASSERT_EQ(v.why, expected ? reason::correct : reason::no_match) << text;
    }
  }
}

TEST(gsm8k, takes_any_bytes_in_linear_time) {
  std::mt19937 random(4);
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (std::size_t length = random() % 700; length > 0; --length) text += static_cast<char>(random());
    score_gsm8k(text, "72");
    score_gsm8k(text, "72", {.method = gsm8k_method::flexible});
  }
  const double start = cpu_seconds();
  for (const char* unit : {"#### ", "#", "-", ".", "7", "\x80", ". "})
    for (const auto method : {gsm8k_method::strict, gsm8k_method::flexible})
      score_gsm8k(repeat(unit, 2'000'000), "72", {.method = method, .window = 0});
  EXPECT_LT(cpu_seconds() - start, 10);  // quadratic would be hours
}

TEST(gsm8k, every_reference_solution_is_correct) {
  const std::filesystem::path folder = std::filesystem::path(RLCORE_SHARED_DIR) / "gsm8k";
  if (!std::filesystem::exists(folder / "train.jsonl")) GTEST_SKIP() << "no GSM8K in " << folder;
  std::size_t commas = 0, negative = 0, rows = 0, train_rows = 0;
  for (const char* file : {"train.jsonl", "test.jsonl"}) {
    std::ifstream in(folder / file);
    for (std::string line; std::getline(in, line); ++rows) {
      const std::string solution = nlohmann::json::parse(line)["answer"];
      const auto truth = gsm8k_ground_truth(solution);
      ASSERT_TRUE(truth) << solution;
      const verdict v = score_gsm8k(solution, *truth);
      ASSERT_EQ(v.score, 1.0) << solution;
      EXPECT_EQ(v.why, reason::correct);
      commas += std::string_view(file) == "train.jsonl" &&
                solution.substr(solution.find("#### ")).find(',') != std::string::npos;
      negative += std::string_view(file) == "train.jsonl" && truth->starts_with('-');
    }
    if (train_rows == 0) train_rows = rows;
  }
  EXPECT_EQ(train_rows, 7473u);
  EXPECT_EQ(rows - train_rows, 1319u);
  EXPECT_EQ(commas, 79u);
  EXPECT_EQ(negative, 3u);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
