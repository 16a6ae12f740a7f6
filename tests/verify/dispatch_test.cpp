#include "rlcore/verify/dispatch.hpp"

#include "data/scratch.hpp"

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

}  // namespace
