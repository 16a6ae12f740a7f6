// A line that a reward program answers with.
#include "fuzz/fuzzing.hpp"
#include "rlcore/train/policy/reward/command_rewards.hpp"

namespace RLCORE_TEST_ID {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzzing::accepts([&] {
    const auto j = rlcore::train::read_judgement(std::string(fuzzing::text_of(data, size)));
    fuzzing::require(std::isfinite(j.verdict.score), "a score that is not finite");
  });
  return 0;
}

}  // namespace RLCORE_TEST_ID
