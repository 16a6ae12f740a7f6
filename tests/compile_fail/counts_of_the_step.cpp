// The denominators are the whole optimizer step's: a number of tokens at hand is not accepted in their place.
// expected: rlcore: evaluate takes the global_counts of the whole optimizer step
#include <vector>

#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/algorithm/grpo.hpp"
#include "rlcore/objective/loop/evaluate.hpp"

namespace RLCORE_TEST_ID {

int main() {
  const std::vector<float> logp(4), advantage(1);
  const std::vector<int> offsets{0, 4};
  const rlcore::token_batch<float> batch{
      .logp = logp, .old_logp = logp, .ref_logp = logp, .advantage = rlcore::per_row(advantage), .offsets = offsets};
#ifdef RLCORE_SHOULD_FAIL
  const int counts = 4;
#else
  const rlcore::global_counts counts = rlcore::loss_counts(batch);
#endif
  const auto report =
      rlcore::evaluate(rlcore::serial{}, rlcore::paper::grpo(), rlcore::sequence_mean_token_mean{}, batch, counts);
  return report.empty_step ? 1 : 0;
}

}  // namespace RLCORE_TEST_ID
