#include "rlcore/verify/prime_math.hpp"

#include <nlohmann/json.hpp>
#include <random>

#include "data/scratch.hpp"
#include "support/cpu_time.hpp"
#include "support/growth.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::verify;

TEST(prime_math, extracts_and_scores_as_verl_does) {
  const auto rows = nlohmann::json::parse(scratch::read(RLCORE_REFERENCE_DIR "/verify_grade.json"))["prime_math"];
  std::size_t undecided = 0, correct = 0;
  for (const auto& row : rows) {
    const std::string text = row[0], truth = row[1];
    EXPECT_EQ(extract_prime_math(text).text, row[2].get<std::string>()) << text;
    const verdict v = score_prime_math(text, truth);
    undecided += v.why == reason::undecided;
    correct += v.correct();
    if (v.why == reason::undecided) continue;
    EXPECT_EQ(v.correct(), row[3].get<bool>()) << text << "\n== truth\n"
                                               << truth << "\n== pred\n"
                                               << v.pred.value_or("-");
  }
  EXPECT_GT(correct, 60u);
  EXPECT_LT(undecided, 1u);
}

TEST(prime_math, says_why) {
  const auto why = [](const std::string& text, const std::string& truth = "5") {
    return std::string(name_of(score_prime_math(text, truth).why));
  };
  EXPECT_EQ(why("The answer is 5."), "correct");
  EXPECT_EQ(why("The answer is 6."), "wrong");
  EXPECT_EQ(why("I do not know"), "no_match");
  EXPECT_EQ(why("The answer is 6x!!", "7x"), "undecided");
}

TEST(prime_math, an_answer_of_many_pi_takes_linear_time) {
  const auto many = [](std::size_t n) {
    std::string text = "answer is ";
    for (std::size_t i = 0; i < n; ++i) text += "\\pi";
    return text;
  };
  EXPECT_LE(growth_of_time(4000, many, [](const std::string& text) { score_prime_math(text, "1"); }), linear_growth);
}

TEST(prime_math, takes_any_bytes) {
  std::mt19937 random(12);
  const std::vector<std::string> pieces{"answer is ", "\\boxed{", "}", "\\pi", "1",   ",",  "[",  "]", "(",     ")",
                                        "_",          "%",        "$", "=",    "be ", ". ", "\n", "^", "\\frac"};
  for (int round = 0; round < 3000; ++round) {
    std::string a, b;
    for (std::size_t length = random() % 14; length > 0; --length)
      a += random() % 9 == 0 ? std::string(1, static_cast<char>(random())) : pieces[random() % pieces.size()];
    for (std::size_t length = random() % 7; length > 0; --length) b += pieces[random() % pieces.size()];
    score_prime_math(a, b);
  }
  const double start = cpu_seconds();
  for (const std::string& piece : pieces) {
    std::string text;
    while (text.size() < 40'000) text += piece;
    score_prime_math(text, "1");
    score_prime_math(text, text + "1");
  }
  EXPECT_LT(cpu_seconds() - start, 20);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
