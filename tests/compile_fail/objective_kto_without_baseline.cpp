// expected: rlcore: KTO needs its baseline, e.g. kto_link
#include "rlcore/objective/piece/preference/unpaired.hpp"

namespace RLCORE_TEST_ID {

double loss(const rlcore::token<double>& row) {
#ifdef RLCORE_SHOULD_FAIL
  const rlcore::kto_link link{.beta = 0.2};
#else
  const rlcore::kto_link link{.kl = rlcore::kto_baseline(0.1), .beta = 0.2};
#endif
  return link.operator()<rlcore::exact_math, double>(row).value;
}

}  // namespace RLCORE_TEST_ID
