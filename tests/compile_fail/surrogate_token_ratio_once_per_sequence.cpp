// expected: rlcore: only a piece that reads what was gathered over its row has one value per sequence
#include "rlcore/objective/piece/surrogate/one_per_sequence.hpp"
#include "rlcore/objective/piece/surrogate/ppo_clip.hpp"
#include "rlcore/objective/piece/surrogate/sequence_is.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;

#ifdef RLCORE_SHOULD_FAIL
const one_per_sequence gspo{ppo_clip{}};
#else
const one_per_sequence gspo{sequence_is{ppo_clip{}}};
#endif

}  // namespace RLCORE_TEST_ID
