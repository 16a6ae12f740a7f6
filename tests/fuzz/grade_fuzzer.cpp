// The answer of a model and, behind a line "=====", the ground truth: every rule has to give a verdict.
#include "fuzz/fuzzing.hpp"
#include "rlcore/verify/dispatch.hpp"
#include "rlcore/verify/gsm8k.hpp"

namespace RLCORE_TEST_ID {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace v = rlcore::verify;
  const auto parts = fuzzing::two_texts(fuzzing::text_of(data, size));
  const std::string_view answer = parts.first, truth = parts.second;
  for (const v::scorer rule : {v::scorer::gsm8k, v::scorer::math, v::scorer::math_dapo, v::scorer::prime_math,
                               v::scorer::geo3k, v::scorer::search, v::scorer::last_number})
    fuzzing::accepts([&] {
      const v::verdict x = v::score(rule, answer, truth);
      fuzzing::require(x.score >= -1 && x.score <= 1, "a score out of range");
      fuzzing::require(static_cast<std::size_t>(x.why) < v::reason_names.size(), "no reason");
    });
  v::gsm8k_ground_truth(answer);
  return 0;
}

}  // namespace RLCORE_TEST_ID
