// expected: rlcore: this piece has a ratio to rollout_logp, so a weight would correct twice
#include "rlcore/objective/piece/combine/reweighted.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/piece/surrogate/clipped.hpp"

namespace RLCORE_TEST_ID {

float value(const rlcore::token<float>& t) {
#ifdef RLCORE_SHOULD_FAIL
  const rlcore::weighted piece{rlcore::rollout_is{rlcore::ppo_clip{}}};
#else
  const rlcore::weighted piece{rlcore::ppo_clip{}};
#endif
  return piece.operator()<rlcore::exact_math, float>(t).value;
}

}  // namespace RLCORE_TEST_ID
