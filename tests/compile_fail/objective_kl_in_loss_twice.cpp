// expected: rlcore: this objective has a KL term already, so with_kl would count it twice
#include "rlcore/objective/piece/divergence/k3.hpp"
#include "rlcore/objective/piece/divergence/kl_placement.hpp"
#include "rlcore/objective/piece/surrogate/clipped_ratio.hpp"

int main() {
  const auto in_loss = rlcore::with_kl(rlcore::clipped_ratio{}, rlcore::kl_in_loss{0.04, rlcore::k3{}});
#ifdef RLCORE_SHOULD_FAIL
  const auto objective = rlcore::with_kl(in_loss, rlcore::kl_in_reward{});
#else
  const auto objective = rlcore::with_kl(in_loss, rlcore::no_kl{});
#endif
  return rlcore::coefficient_at<1>(objective) > 0 ? 0 : 1;
}
