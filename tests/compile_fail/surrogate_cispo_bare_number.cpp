// expected: rlcore: is this number a bound of the ratio or its distance from 1\?
#include "rlcore/objective/piece/surrogate/clipped.hpp"

namespace RLCORE_TEST_ID {

#ifdef RLCORE_SHOULD_FAIL
rlcore::cispo loss() { return rlcore::cispo{0.28}; }
#else
rlcore::cispo loss() { return rlcore::cispo{rlcore::ratio_epsilon{.high = 0.28}}; }
#endif

}  // namespace RLCORE_TEST_ID
