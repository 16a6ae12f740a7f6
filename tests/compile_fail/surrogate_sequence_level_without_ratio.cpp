// expected: rlcore: at_sequence_level holds a surrogate that reads old_logp; this one has no ratio
// expected: rlcore: this surrogate looks at the probabilities of single tokens
// expected: so one that also compares logp with ref_logp is not for it
#include "rlcore/objective/piece/divergence/k3.hpp"
#include "rlcore/objective/piece/divergence/ratio_corrected.hpp"
#include "rlcore/objective/piece/surrogate/at_sequence_level.hpp"
#include "rlcore/objective/piece/surrogate/clipped_ratio.hpp"
#include "rlcore/objective/piece/surrogate/dppo.hpp"
#include "rlcore/objective/piece/surrogate/policy_gradient.hpp"

using namespace rlcore;

#ifdef RLCORE_SHOULD_FAIL
const at_sequence_level without_ratio{policy_gradient{}};
const at_sequence_level of_probabilities{dppo_tv{}};
const at_sequence_level of_two_ratios{ratio_corrected{k3{}}};
#else
const at_sequence_level gspo_token{clipped_ratio{}};
#endif
