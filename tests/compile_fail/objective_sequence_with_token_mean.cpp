// expected: rlcore: this objective has one term per sequence, per pair of sequences or per batch, not one per token
#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/algorithm/dpo.hpp"

namespace RLCORE_TEST_ID {

double loss(const rlcore::token_batch<float>& batch, const rlcore::global_counts& step) {
#ifdef RLCORE_SHOULD_FAIL
  return rlcore::evaluate(rlcore::serial{}, rlcore::paper::dpo(), rlcore::token_mean{}, batch, step).loss();
#else
  return rlcore::evaluate(rlcore::serial{}, rlcore::paper::dpo(), rlcore::pair_mean{}, batch, step).loss();
#endif
}

}  // namespace RLCORE_TEST_ID
