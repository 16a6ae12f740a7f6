// expected: rlcore: a piece of this objective has one value per sequence, repeated at each of its tokens
#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/loop/evaluate.hpp"
#include "rlcore/objective/piece/surrogate/clipped.hpp"
#include "rlcore/objective/piece/surrogate/sequence.hpp"

namespace RLCORE_TEST_ID {

double loss(const rlcore::token_batch<float>& batch, const rlcore::global_counts& step) {
  const rlcore::one_per_sequence gspo{rlcore::sequence_is{rlcore::ppo_clip{}}};
#ifdef RLCORE_SHOULD_FAIL
  return rlcore::evaluate(rlcore::serial{}, gspo, rlcore::sequence_mean_token_sum{}, batch, step).loss();
#else
  return rlcore::evaluate(rlcore::serial{}, gspo, rlcore::sequence_mean_token_mean{}, batch, step).loss();
#endif
}

}  // namespace RLCORE_TEST_ID
