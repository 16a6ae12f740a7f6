// expected: rlcore: limit the ratio that the surrogate sees: sequence_is\{limited_log_ratio\{surrogate\}\}
#include "rlcore/objective/piece/surrogate/clipped.hpp"
#include "rlcore/objective/piece/surrogate/plain.hpp"
#include "rlcore/objective/piece/surrogate/sequence.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;

#ifdef RLCORE_SHOULD_FAIL
const limited_log_ratio gspo{sequence_is{ppo_clip{}}, -20, 10};
#else
const sequence_is gspo{limited_log_ratio{ppo_clip{}, -20, 10}};
#endif

}  // namespace RLCORE_TEST_ID
