#include "rlcore/verify/dispatch.hpp"

#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "data/scratch.hpp"

namespace RLCORE_TEST_ID {
namespace {

using rlcore::data_error;
using namespace rlcore::verify;

TEST(dispatch, scores_what_it_knows) {
  EXPECT_EQ(scorer_of("openai/gsm8k"), scorer::gsm8k);
  const verdict v = score("openai/gsm8k", "so #### 1,072", "1072");
  EXPECT_EQ(v.score, 1.0);
  EXPECT_EQ(v.why, reason::correct);
  EXPECT_EQ(*v.pred, "1072");
  EXPECT_FALSE(v.acc);
  for (const char* name : {"lighteval/MATH", "DigitalLearningGmbH/MATH-lighteval", "HuggingFaceH4/MATH-500"})
    EXPECT_EQ(score(name, "\\boxed{72}", "72").score, 1.0) << name;
  for (const char* name : {"math_dapo", "math", "math_dapo_reasoning", "aime", "aime2024"})
    EXPECT_EQ(score(name, "Answer: 7", "72").score, -1.0) << name;
  EXPECT_EQ(score("numina_cn_k12", "The answer is 72.", "72").score, 1.0);
  EXPECT_EQ(score("hiyouga/geometry3k", "<think></think>\\boxed{2x}", "x+x").score, 1.0);
  EXPECT_EQ(score("searchR1_nq", "<answer>The Seine.</answer>", "{\"target\": [\"seine\"]}").score, 1.0);
  EXPECT_EQ(score("math_dapo", "Answer: 7", "72", {.math_dapo = {.wrong_score = 0}}).score, 0.0);
}

TEST(dispatch, tells_what_is_missing_from_what_is_unknown) {
  scratch::error_of<data_error>([] { scorer_of("openai/gsm8"); }, {"'openai/gsm8'", "did you mean 'openai/gsm8k'?"});
  scratch::error_of<data_error>([] { score("Openai/GSM8K", "", ""); }, {"'Openai/GSM8K'", "no reward function"});
  scratch::error_of<data_error>([] { scorer_of(""); }, {"''", "expected one such as 'openai/gsm8k'"});
  scratch::error_of<data_error>([] { scorer_of("a\nb"); }, {"'a\\nb'"});
  for (const char* name : {"codecontests", "apps", "codeforces", "taco"})
    scratch::error_of<data_error>([&] { scorer_of(name); }, {name, "sandbox"});
}

/// The sources that default_compute_score of each release knows (tests/reference/verl_versions.py).
TEST(dispatch, each_version_has_its_sources) {
  const auto golden = nlohmann::json::parse(std::ifstream(RLCORE_REFERENCE_DIR "/verl_versions.json")).at("sources");
  std::uint8_t version = 0;
  for (const char* name : {"2025-08", "0.6.1", "0.8.0", "0.9.1"}) {
    const auto v = static_cast<rlcore::verl::version>(version++);
    EXPECT_EQ(rules_of(v).math_dapo.box_fallback, std::string(name) == "0.9.1");
    ASSERT_GT(golden.at(name).size(), 15u);
    for (const auto& [source, known] : golden.at(name).items()) {
      if (known)
        EXPECT_NO_THROW(scorer_of(source, v)) << name << source;
      else
        scratch::error_of<data_error>([&, s = source] { scorer_of(s, v); }, {source, "has no reward function"});
    }
  }
  scratch::error_of<data_error>([] { score("math", "", "", rules_of(rlcore::verl::version::august_2025)); },
                                {"'math'", "expected rlcore.verl=0.6.1 or later"});
}

}  // namespace
}  // namespace RLCORE_TEST_ID
