#include "link/side.hpp"

#include <vector>

#include "rlcore/core/random.hpp"
#include "rlcore/exec/threads.hpp"
#include "rlcore/objective/algorithm/grpo.hpp"
#include "rlcore/objective/loop/evaluate.hpp"
#include "rlcore/simd/pack.hpp"

side_result RLCORE_LINK_SIDE() {
  side_result result{.lanes = rlcore::pack<float>::lanes};
  std::vector<float> logp, old_logp, ref_logp, advantage, reward{1, 0};
  std::vector<int> offsets{0};
  for (std::size_t r = 0; r < result.rows; ++r) {
    for (std::size_t i = 0; i < result.tokens; ++i) {
      logp.push_back(-1 - static_cast<float>(i) / 64);
      old_logp.push_back(logp.back() + old_distance(i));
      ref_logp.push_back(logp.back() + ref_distance(i));
    }
    advantage.push_back(advantage_of(r));
    offsets.push_back(static_cast<int>(logp.size()));
  }
  const auto grpo = rlcore::paper::grpo();
  grpo.advantage(reward, 2, reward);
  result.advantage = {reward[0], reward[1]};
  const rlcore::token_batch<float> batch{.logp = logp,
                                         .old_logp = old_logp,
                                         .ref_logp = ref_logp,
                                         .advantage = rlcore::per_row(advantage),
                                         .offsets = offsets};
  const rlcore::threads pool(2);
  const auto report = rlcore::evaluate(pool, grpo, rlcore::sequence_mean_token_mean{}, batch,
                                       rlcore::loss_counts(batch), {.logp = result.gradient});
  result.loss = report.loss();
  const auto words = rlcore::random_key{42}.words(1, 2, 3, 4);
  result.random = (std::uint64_t{words[0]} << 32) | words[1];
  return result;
}
