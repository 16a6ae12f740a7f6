// expected: rlcore: mixed holds links of pairs
#include "rlcore/objective/piece/preference/link.hpp"
#include "rlcore/objective/piece/preference/pairwise.hpp"
#include "rlcore/objective/piece/preference/unpaired.hpp"

namespace RLCORE_TEST_ID {

auto link(double shift) {
#ifdef RLCORE_SHOULD_FAIL
  return rlcore::mixed{rlcore::bradley_terry{}, rlcore::scaled{0.2, rlcore::bco_link(shift)}};
#else
  return rlcore::mixed{rlcore::bradley_terry{}, rlcore::scaled{shift, rlcore::bco_pair_link{}}};
#endif
}

}  // namespace RLCORE_TEST_ID
