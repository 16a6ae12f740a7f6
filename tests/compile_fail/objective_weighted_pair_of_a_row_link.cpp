// expected: rlcore: weighted_pair holds a link of pairs; a link of single rows is weighted by weighted
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/piece/preference/unpaired.hpp"
#include "rlcore/objective/piece/preference/weights.hpp"

namespace RLCORE_TEST_ID {

auto link(double shift) {
#ifdef RLCORE_SHOULD_FAIL
  return rlcore::weighted_pair{rlcore::bco_link(shift)};
#else
  return rlcore::weighted{rlcore::bco_link(shift)};
#endif
}

}  // namespace RLCORE_TEST_ID
