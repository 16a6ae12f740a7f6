// expected: rlcore: only a piece that reads what was gathered over its row has one value per sequence
#include "rlcore/objective/piece/surrogate/at_sequence_level.hpp"
#include "rlcore/objective/piece/surrogate/clipped_ratio.hpp"
#include "rlcore/objective/piece/surrogate/one_per_sequence.hpp"

using namespace rlcore;

#ifdef RLCORE_SHOULD_FAIL
const one_per_sequence gspo{clipped_ratio{}};
#else
const one_per_sequence gspo{at_sequence_level{clipped_ratio{}}};
#endif
