// expected: rlcore: limit the ratio that the surrogate sees: at_sequence_level\{limited_log_ratio\{surrogate\}\}
#include "rlcore/objective/piece/surrogate/at_sequence_level.hpp"
#include "rlcore/objective/piece/surrogate/clipped_ratio.hpp"
#include "rlcore/objective/piece/surrogate/limited_log_ratio.hpp"

using namespace rlcore;

#ifdef RLCORE_SHOULD_FAIL
const limited_log_ratio gspo{at_sequence_level{clipped_ratio{}}, -20, 10};
#else
const at_sequence_level gspo{limited_log_ratio{clipped_ratio{}, -20, 10}};
#endif
