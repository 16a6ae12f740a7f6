// expected: rlcore: k1 as a loss has a gradient that is zero in expectation; use k2 or k3
#include "rlcore/objective/piece/divergence/kl_placement.hpp"
#include "rlcore/objective/piece/divergence/with_kl_gradient.hpp"
#include "rlcore/objective/piece/surrogate/clipped_ratio.hpp"

int main() {
#ifdef RLCORE_SHOULD_FAIL
  const rlcore::kl_in_loss kl{0.1, rlcore::k1{}};
#else
  const rlcore::kl_in_loss kl{0.1, rlcore::with_kl_gradient(rlcore::k1{})};
#endif
  const auto objective = rlcore::with_kl(rlcore::clipped_ratio{}, kl);
  return rlcore::coefficient_at<1>(objective) > 0 ? 0 : 1;
}
