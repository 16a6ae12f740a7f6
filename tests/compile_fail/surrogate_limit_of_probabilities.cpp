// expected: rlcore: this surrogate looks at probabilities too and has a limit of its own
#include "rlcore/objective/piece/surrogate/plain.hpp"
#include "rlcore/objective/piece/surrogate/trust_region.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;

#ifdef RLCORE_SHOULD_FAIL
const limited_log_ratio trust_region{dppo_kl{}, -10, 10};
#else
const dppo_kl trust_region{.limit = 10};
#endif

}  // namespace RLCORE_TEST_ID
