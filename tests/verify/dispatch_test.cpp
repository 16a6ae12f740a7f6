#include "rlcore/verify/dispatch.hpp"

#include "../data/scratch.hpp"

namespace {

using rlcore::data_error;
using namespace rlcore::verify;

TEST(dispatch, scores_what_it_knows) {
  EXPECT_EQ(scorer_of("openai/gsm8k"), scorer::gsm8k);
  const verdict v = score("openai/gsm8k", "so #### 72", "72");
  EXPECT_EQ(v.score, 1.0);
  EXPECT_EQ(v.why, reason::correct);
}

TEST(dispatch, tells_what_is_missing_from_what_is_unknown) {
  scratch::error_of<data_error>([] { scorer_of("openai/gsm8"); }, {"'openai/gsm8'", "did you mean 'openai/gsm8k'?"});
  scratch::error_of<data_error>([] { score("Openai/GSM8K", "", ""); }, {"'Openai/GSM8K'", "no reward function"});
  scratch::error_of<data_error>([] { scorer_of(""); }, {"''", "expected 'openai/gsm8k'"});
  scratch::error_of<data_error>([] { scorer_of("a\nb"); }, {"'a\\nb'"});
  for (const char* name :
       {"lighteval/MATH", "math_dapo", "aime2024", "numina_cn_k12", "hiyouga/geometry3k", "searchR1_nq"})
    scratch::error_of<data_error>([&] { scorer_of(name); }, {name, "does not have"});
}

}  // namespace
