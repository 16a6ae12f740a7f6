// expected: rlcore: k1 as a loss has a gradient that is zero in expectation
#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/loop/evaluate.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/piece/divergence/kl.hpp"
#include "rlcore/objective/piece/surrogate/clipped.hpp"

namespace RLCORE_TEST_ID {

double loss(const rlcore::token_batch<float>& batch, const rlcore::global_counts& step) {
#ifdef RLCORE_SHOULD_FAIL
  const rlcore::k1 kl;
#else
  const rlcore::accept_zero_gradient kl{rlcore::k1{}};
#endif
  const auto objective = rlcore::sum{rlcore::ppo_clip{}, rlcore::scaled{0.1, kl}};
  return rlcore::evaluate(rlcore::serial{}, objective, rlcore::token_mean{}, batch, step).loss();
}

}  // namespace RLCORE_TEST_ID
