// expected: rlcore: this piece has a ratio to rollout_logp, so a weight would correct twice
#include "rlcore/objective/piece/combine/rollout_is.hpp"
#include "rlcore/objective/piece/combine/weighted.hpp"
#include "rlcore/objective/piece/surrogate/ppo_clip.hpp"

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
