// expected: rlcore: evaluate takes the global_counts of the whole optimizer step
#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/algorithm/grpo.hpp"
#include "rlcore/objective/loop/evaluate.hpp"

namespace RLCORE_TEST_ID {

double loss(const rlcore::token_batch<float>& batch) {
#ifdef RLCORE_SHOULD_FAIL
  const long tokens_of_this_micro_batch = 4096;
  return rlcore::evaluate(rlcore::serial{}, rlcore::paper::grpo(), rlcore::token_mean{}, batch,
                          tokens_of_this_micro_batch)
      .loss();
#else
  return rlcore::evaluate(rlcore::serial{}, rlcore::paper::grpo(), rlcore::token_mean{}, batch,
                          rlcore::loss_counts(batch))
      .loss();
#endif
}

}  // namespace RLCORE_TEST_ID
