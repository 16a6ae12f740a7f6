// needs: trainer
// expected: rlcore: this estimator needs the values of a critic
#include "rlcore/objective/algorithm/grpo.hpp"
#include "rlcore/objective/algorithm/ppo.hpp"
#include "rlcore/trainer/policy/composed_algorithm.hpp"

void run(std::span<rlcore::trainer::trajectory> batch) {
#ifdef RLCORE_SHOULD_FAIL
  const auto named = rlcore::paper::ppo();
#else
  const auto named = rlcore::paper::grpo();
#endif
  rlcore::trainer::composed_algorithm(named).advantages(batch, 4, {});
}
