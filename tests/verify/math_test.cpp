#include "rlcore/verify/math.hpp"

#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "data/scratch.hpp"
#include "rlcore/verify/math_dapo.hpp"
#include "support/cpu_time.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::verify;

nlohmann::json golden() {
  return nlohmann::json::parse(scratch::read(RLCORE_REFERENCE_DIR "/verify_math.json"))["rows"];
}

// Columns: text, truth, math, dapo, dapo_pred, strict_box, strict_box_pred, fallback_score, fallback_pred.
TEST(math, scores_as_verl_does) {
  std::size_t correct = 0;
  for (const nlohmann::json& row : golden()) {
    const std::string text = row[0], truth = row[1];
    const verdict v = score_math(text, truth);
    ASSERT_EQ(v.score, row[2].get<double>()) << text << "\n== truth\n" << truth;
    ASSERT_EQ(v.correct(), v.score == 1);
    ASSERT_EQ(v.pred.has_value(), v.why == reason::correct || v.why == reason::wrong);
    correct += v.correct();
  }
  EXPECT_GT(correct, 100u);
}

TEST(math_dapo, scores_as_verl_does) {
  std::size_t correct = 0;
  for (const nlohmann::json& row : golden()) {
    const std::string text = row[0], truth = row[1];
    const verdict v = score_math_dapo(text, truth);
    ASSERT_EQ(*v.acc, row[3].get<bool>()) << text << "\n== truth\n" << truth << "\n== pred\n" << *v.pred;
    ASSERT_EQ(v.score, *v.acc ? 1 : -1);
    ASSERT_EQ(*v.pred, row[4].get<std::string>()) << text;
    correct += *v.acc;
    const verdict box = score_math_dapo(text, truth, {.strict_box = true});
    ASSERT_EQ(*box.acc, row[5].get<bool>()) << text << "\n== truth\n" << truth;
    ASSERT_EQ(box.pred.has_value(), !row[6].is_null()) << text;
    if (box.pred) {
      ASSERT_EQ(*box.pred, row[6].get<std::string>()) << text;
    }
    const verdict newer = score_math_dapo(text, truth, {.box_fallback = true});
    ASSERT_EQ(newer.score, row[7].get<double>()) << text << "\n== truth\n" << truth;
    ASSERT_EQ(*newer.pred, row[8].get<std::string>()) << text;
  }
  EXPECT_GT(correct, 100u);
}

TEST(math, says_why) {
  const auto why = [](const std::string& text) { return std::string(name_of(score_math(text, "5").why)); };
  EXPECT_EQ(why("\\boxed{5}"), "correct");
  EXPECT_EQ(why("\\boxed{6}"), "wrong");
  EXPECT_EQ(why("5"), "no_match");
  EXPECT_EQ(why("\\boxed{5"), "malformed");
  EXPECT_EQ(why("\\fbox{5}"), "malformed");
  EXPECT_EQ(why(std::string((1u << 20) + 1, ' ')), "too_long");
  EXPECT_EQ(*score_math("\\boxed{1/2}", "5").pred, "\\frac{1}{2}");
  EXPECT_EQ(score_math("\\boxed{6}", "5", {.wrong_score = -1}).score, -1);
}

TEST(math_dapo, says_why) {
  const auto why = [](const std::string& text, const math_dapo_settings& s = {}) {
    return std::string(name_of(score_math_dapo(text, "33", s).why));
  };
  const std::string late(400, 'x');
  EXPECT_EQ(why("Answer: 33"), "correct");
  EXPECT_EQ(why("Answer: 34"), "wrong");
  EXPECT_EQ(why("\\boxed{33}"), "no_match");
  EXPECT_EQ(why("\\boxed{33}", {.box_fallback = true}), "correct");
  EXPECT_EQ(why("Answer: 33\n" + late), "outside_window");
  EXPECT_EQ(why("Answer: 33\n" + late, {.window = 0}), "correct");
  EXPECT_EQ(why("\\boxed{33", {.strict_box = true}), "malformed");
  EXPECT_EQ(why("\\boxed{33}" + late, {.strict_box = true}), "outside_window");
  EXPECT_EQ(why("33", {.strict_box = true}), "no_match");
}

// Random bytes and the worst repetitions: no crash, and a time that does not grow with the square of the length.
TEST(math, takes_any_bytes_in_linear_time) {
  std::mt19937 random(6);
  const std::vector<std::string> pieces{"\\frac", "\\sqrt", "\\boxed{", "\\boxed ", "{",       "}",  "\\text{",
                                        "\n",     "$",      "=",        "/",        "answer:", " ",  "frac",
                                        "sqrt",   "\xc2",   "\xa0",     "\xe2\x80", "1",       "{,}"};
  for (int round = 0; round < 3000; ++round) {
    std::string text, truth;
    for (std::size_t length = random() % 60; length > 0; --length)
      text += random() % 3 == 0 ? std::string(1, static_cast<char>(random())) : pieces[random() % pieces.size()];
    for (std::size_t length = random() % 20; length > 0; --length) truth += pieces[random() % pieces.size()];
    score_math(text, truth);
    score_math("\\boxed{" + text + "}", truth);
    score_math_dapo("Answer:" + text, truth);
    score_math_dapo(text, truth, {.window = 0, .box_fallback = true});
  }
  const double start = cpu_seconds();
  for (const std::string& piece : pieces) {
    std::string text;
    while (text.size() < 400'000) text += piece;
    score_math(text, text);
    score_math("\\boxed{" + text + "}", text);
    score_math_dapo("answer:" + text, text, {.window = 0});
    score_math_dapo(text, text, {.window = 0, .box_fallback = true});
  }
  EXPECT_LT(cpu_seconds() - start, 20);  // quadratic would be hours
}

TEST(math, is_thread_safe) {
  const nlohmann::json rows = golden();
  std::vector<std::thread> threads;
  std::vector<int> sums(4);
  for (std::size_t t = 0; t < sums.size(); ++t)
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < 100; ++i) {
        const std::string text = rows[i][0], truth = rows[i][1];
        sums[t] += score_math(text, truth).correct() + 2 * score_math_dapo(text, truth).correct();
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(sums, std::vector<int>(4, sums[0]));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
