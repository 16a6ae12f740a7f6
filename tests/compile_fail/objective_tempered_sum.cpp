// expected: rlcore: tempered holds one piece
#include "rlcore/objective/distillation/divergences.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/piece/supervised.hpp"
#include "rlcore/objective/vocabulary/transforms.hpp"

namespace RLCORE_TEST_ID {

using rlcore::cross_entropy, rlcore::forward_kl, rlcore::sum, rlcore::tempered;
#ifdef RLCORE_SHOULD_FAIL
const tempered objective{2.0, sum{cross_entropy{}, forward_kl{}}};
#else
const sum objective{cross_entropy{}, tempered{2.0, forward_kl{}}};
#endif

}  // namespace RLCORE_TEST_ID
