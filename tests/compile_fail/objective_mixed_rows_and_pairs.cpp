// expected: rlcore: mixed holds links of pairs
#include "rlcore/objective/piece/preference/bco_link.hpp"
#include "rlcore/objective/piece/preference/bco_pair_link.hpp"
#include "rlcore/objective/piece/preference/bradley_terry.hpp"
#include "rlcore/objective/piece/preference/mixed.hpp"

namespace RLCORE_TEST_ID {

auto link(double shift) {
#ifdef RLCORE_SHOULD_FAIL
  return rlcore::mixed{rlcore::bradley_terry{}, rlcore::scaled{0.2, rlcore::bco_link(shift)}};
#else
  return rlcore::mixed{rlcore::bradley_terry{}, rlcore::scaled{shift, rlcore::bco_pair_link{}}};
#endif
}

}  // namespace RLCORE_TEST_ID
