// expected: rlcore: sequence_mean, pair_mean and batch_total weigh one term per sequence, pair or batch
#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/loop/evaluate.hpp"
#include "rlcore/objective/piece/surrogate/clipped.hpp"

namespace RLCORE_TEST_ID {

double loss(const rlcore::token_batch<float>& batch, const rlcore::global_counts& step) {
#ifdef RLCORE_SHOULD_FAIL
  const rlcore::pair_mean aggregation;
#else
  const rlcore::token_mean aggregation;
#endif
  return rlcore::evaluate(rlcore::serial{}, rlcore::ppo_clip{}, aggregation, batch, step).loss();
}

}  // namespace RLCORE_TEST_ID
