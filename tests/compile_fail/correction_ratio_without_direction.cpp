// expected: rlcore: say which ratio the bounds are of
#include "rlcore/objective/correction/gate.hpp"

namespace RLCORE_TEST_ID {

auto gate() {
#ifdef RLCORE_SHOULD_FAIL
  return rlcore::ratio_within<rlcore::token_level>(0.5, 2.0);
#else
  return rlcore::ratio_within<rlcore::token_level>(rlcore::train_over_rollout{0.5, 2.0});
#endif
}

}  // namespace RLCORE_TEST_ID
