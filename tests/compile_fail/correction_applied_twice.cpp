// expected: rlcore: this piece has a ratio to rollout_logp, so a weight would correct twice
#include "rlcore/objective/piece/combine/against_rollout.hpp"
#include "rlcore/objective/piece/combine/weighted.hpp"
#include "rlcore/objective/piece/surrogate/clipped_ratio.hpp"

float value(const rlcore::token<float>& t) {
#ifdef RLCORE_SHOULD_FAIL
  const rlcore::weighted piece{rlcore::against_rollout{rlcore::clipped_ratio{}}};
#else
  const rlcore::weighted piece{rlcore::clipped_ratio{}};
#endif
  return piece.operator()<rlcore::exact_math, float>(t).value;
}
