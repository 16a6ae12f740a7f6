#include <nlohmann/json.hpp>
#include <string>

#include "data/scratch.hpp"
#include "rlcore/verify/geo3k.hpp"
#include "rlcore/verify/latex_text.hpp"
#include "rlcore/verify/prime_math.hpp"
#include "support/cpu_time.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::verify;

const nlohmann::json& spellings() {
  static const auto data = nlohmann::json::parse(scratch::read(RLCORE_REFERENCE_DIR "/verify_spellings.json"));
  return data;
}

constexpr grade_settings mathruler{.liters = false, .bare = true};

TEST(spellings, pairs_are_equal_where_verl_says_so) {
  std::size_t equal = 0;
  for (const auto& group : spellings()["groups"])
    for (std::size_t i = 0; i < group["answers"].size(); ++i)
      for (std::size_t j = 0; j < group["answers"].size(); ++j) {
        const std::string given = group["answers"][i], truth = group["answers"][j];
        const std::string prime = group["prime_math"][i], ruler = group["mathruler"][i];
        EXPECT_EQ(grade_answer(given, truth) == sameness::equal, prime[j] == '1') << given << " == " << truth;
        EXPECT_EQ(grade_answer(given, truth, mathruler) == sameness::equal, ruler[j] == '1')
            << "mathruler " << given << " == " << truth;
        equal += prime[j] == '1';
      }
  EXPECT_GT(equal, 2000u);
}

TEST(spellings, formulas_are_equal_where_sympy_says_so) {
  std::size_t equal = 0;
  for (const auto& row : spellings()["pairs"]) {
    const std::string given = row[0], truth = row[1];
    EXPECT_EQ(grade_answer(given, truth) == sameness::equal, row[2].get<bool>()) << given << " == " << truth;
    EXPECT_EQ(grade_answer(given, truth, mathruler) == sameness::equal, row[3].get<bool>()) << given << " == " << truth;
    equal += row[2].get<bool>();
  }
  EXPECT_GT(equal, 150u);
}

// These pairs are equal, though verl does not see it: docs/evaluate.md.
TEST(spellings, rounding_and_nested_roots_do_not_count_as_a_difference) {
  for (const auto& row : spellings()["differs"]) {
    const std::string given = row[0], truth = row[1];
    EXPECT_FALSE(row[2].get<bool>() || row[3].get<bool>()) << "no longer a difference";
    EXPECT_EQ(grade_answer(given, truth), sameness::equal) << given;
    EXPECT_EQ(grade_answer(truth, given, mathruler), sameness::equal) << given;
  }
}

TEST(spellings, sentences_score_as_in_verl) {
  std::size_t correct = 0;
  for (const auto& row : spellings()["texts"]) {
    const std::string text = row[0], truth = row[1];
    const verdict v = score_prime_math(text, truth);
    EXPECT_EQ(extract_prime_math(text).text, row[2].get<std::string>());
    EXPECT_EQ(v.correct(), row[3].get<bool>()) << text << "\n== truth\n" << truth;
    EXPECT_NEAR(score_geo3k(text, truth).score, row[4].get<double>(), 1e-12) << text << "\n== truth\n" << truth;
    correct += v.correct();
  }
  EXPECT_GT(correct, 150u);
}

TEST(spellings, latex_becomes_the_text_of_pylatexenc) {
  std::size_t unknown = 0;
  for (const auto& row : spellings()["latex"]) {
    const std::string text = row[0];
    detail::latex_reader reader(text);
    const std::string plain = reader.run();
    unknown += reader.outcome() == detail::latex_outcome::unknown;
    if (reader.outcome() == detail::latex_outcome::unknown) continue;
    EXPECT_EQ(reader.outcome() == detail::latex_outcome::refused, row[1].is_null()) << text;
    if (row[1].is_null()) continue;
    EXPECT_EQ(plain, row[1].get<std::string>()) << text;
  }
  EXPECT_LT(unknown, 6u);
}

// Each of these commands reads what follows twice where arguments are missing at the end of the text.
TEST(spellings, open_groups_take_bounded_time) {
  const double start = cpu_seconds();
  for (const std::string piece : {"\\frac{", "\\sqrt[", "\\textcolor{a}{", "\\begin{pmatrix}\\frac{", "{", "\\("}) {
    std::string text;
    for (int i = 0; i < 50; ++i) text += piece;
    grade_answer(text, "1");
    for (int i = 0; i < 5'000; ++i) text += piece;
    grade_answer(text, "1");
    grade_answer("\\frac{1}{2}" + text, text);
  }
  EXPECT_LT(cpu_seconds() - start, 10);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
