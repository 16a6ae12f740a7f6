// expected: rlcore: only a piece that reads what was gathered over its row has one value per sequence
#include "rlcore/objective/piece/surrogate/clipped.hpp"
#include "rlcore/objective/piece/surrogate/sequence.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;

#ifdef RLCORE_SHOULD_FAIL
const one_per_sequence gspo{ppo_clip{}};
#else
const one_per_sequence gspo{sequence_is{ppo_clip{}}};
#endif

}  // namespace RLCORE_TEST_ID
