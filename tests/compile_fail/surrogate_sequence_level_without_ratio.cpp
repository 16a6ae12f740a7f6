// expected: rlcore: sequence_is holds a surrogate that reads old_logp; this one has no ratio
// expected: rlcore: this surrogate looks at the probabilities of single tokens
// expected: so one that also compares logp with ref_logp is not for it
#include "rlcore/objective/piece/divergence/kl.hpp"
#include "rlcore/objective/piece/divergence/ratio_corrected.hpp"
#include "rlcore/objective/piece/surrogate/clipped.hpp"
#include "rlcore/objective/piece/surrogate/plain.hpp"
#include "rlcore/objective/piece/surrogate/sequence.hpp"
#include "rlcore/objective/piece/surrogate/trust_region.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;

#ifdef RLCORE_SHOULD_FAIL
const sequence_is without_ratio{policy_gradient{}};
const sequence_is of_probabilities{dppo_tv{}};
const sequence_is of_two_ratios{ratio_corrected{k3{}}};
#else
const sequence_is gspo_token{ppo_clip{}};
#endif

}  // namespace RLCORE_TEST_ID
