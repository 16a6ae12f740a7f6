#include "rlcore/verify/grade_answer.hpp"

#include <nlohmann/json.hpp>
#include <random>

#include "data/scratch.hpp"
#include "rlcore/verify/geo3k.hpp"
#include "support/cpu_time.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::verify;

const nlohmann::json& golden() {
  static const auto data = nlohmann::json::parse(scratch::read(RLCORE_REFERENCE_DIR "/verify_grade.json"));
  return data;
}

// A verdict is that of the original; what is undecided here is counted and must be rare.
TEST(grade_answer, decides_as_prime_math_and_as_mathruler) {
  for (const bool mathruler : {false, true}) {
    std::size_t undecided = 0, equal = 0;
    for (const auto& row : golden()["rows"]) {
      const std::string given = row[0], truth = row[1];
      const sameness ours = grade_answer(given, truth, {.liters = !mathruler, .bare = mathruler});
      const bool theirs = row[mathruler ? 3 : 2].get<bool>();
      undecided += ours == sameness::undecided;
      equal += ours == sameness::equal;
      if (ours == sameness::undecided) continue;
      EXPECT_EQ(ours == sameness::equal, theirs)
          << (mathruler ? "mathruler " : "prime_math ") << given << " == " << truth;
    }
    EXPECT_GT(equal, 250u);
    EXPECT_LT(undecided, 1u);
  }
}

TEST(geo3k, scores_as_verl_does) {
  std::size_t undecided = 0;
  for (const auto& row : golden()["geo3k"]) {
    const std::string text = row[0], truth = row[1];
    const verdict v = score_geo3k(text, truth);
    if (v.why == reason::undecided) {
      ++undecided;
      continue;
    }
    EXPECT_NEAR(v.score, row[2].get<double>(), 1e-12) << text << " == " << truth;
  }
  EXPECT_LT(undecided, 1u);
}

TEST(geo3k, says_why) {
  const auto why = [](const std::string& text, const std::string& truth = "5") {
    return std::string(name_of(score_geo3k(text, truth).why));
  };
  EXPECT_EQ(why("\\boxed{5}"), "correct");
  EXPECT_EQ(why("\\boxed{6}"), "wrong");
  EXPECT_EQ(why("5"), "no_match");
  EXPECT_EQ(why("\\boxed{5"), "malformed");
  EXPECT_EQ(why("\\boxed{x!!}", "x+1"), "undecided");
}

TEST(grade_answer, takes_any_bytes) {
  std::mt19937 random(10);
  const std::vector<std::string> pieces{"\\frac",  "\\sqrt", "{",        "}",  "(", ")", "1",     "x",
                                        "^",       "/",      "+",        "-",  ",", ".", " ",     "!",
                                        "\\text{", "\\pi",   "\xce\xb8", "e5", "[", "]", "\\hat{"};
  for (int round = 0; round < 4000; ++round) {
    std::string a, b;
    for (std::size_t length = random() % 12; length > 0; --length)
      a += random() % 9 == 0 ? std::string(1, static_cast<char>(random())) : pieces[random() % pieces.size()];
    for (std::size_t length = random() % 8; length > 0; --length) b += pieces[random() % pieces.size()];
    grade_answer(a, b);
  }
  const double start = cpu_seconds();
  for (const std::string& piece : pieces) {
    std::string text;
    while (text.size() < 100'000) text += piece;
    grade_answer(text, text + "1");
    grade_answer(text, "1");
  }
  EXPECT_LT(cpu_seconds() - start, 20);
}

/// An accent goes on every letter and every accent of its argument, so 40 of them would make 2^40 characters.
TEST(grade_answer, gives_up_on_accents_of_accents) {
  std::string accents = "x";
  for (int level = 0; level < 40; ++level) accents = "\\hat{" + accents + "}";
  const double start = cpu_seconds();
  EXPECT_EQ(grade_answer(accents, "1"), sameness::undecided);
  EXPECT_LT(cpu_seconds() - start, 1);
  EXPECT_EQ(grade_answer("\\hat{\\bar{x}}+1", "\\hat{\\bar{x}} + 1"), sameness::equal);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
