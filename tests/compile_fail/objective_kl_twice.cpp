// expected: rlcore: the KL penalty is in the reward and in the loss
#include "rlcore/objective/advantage/group_relative.hpp"
#include "rlcore/objective/advantage/kl_in_reward.hpp"
#include "rlcore/objective/aggregation/token_mean.hpp"
#include "rlcore/objective/algorithm/algorithm.hpp"
#include "rlcore/objective/piece/combine/scaled.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/piece/divergence/k2.hpp"
#include "rlcore/objective/piece/surrogate/clipped_ratio.hpp"

namespace mine {
struct penalised_advantage {
#ifdef RLCORE_SHOULD_FAIL
  static constexpr bool kl_in_reward = true;
#endif
  rlcore::kl_in_reward reward;
  rlcore::group_relative advantage;
};
}  // namespace mine

auto both() {
  return rlcore::algorithm{mine::penalised_advantage{},
                           rlcore::sum{rlcore::clipped_ratio{}, rlcore::scaled{0.04, rlcore::k2{}}},
                           rlcore::token_mean{}};
}
