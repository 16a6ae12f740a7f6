// expected: rlcore: a gradient is written, this container is const
#include <vector>

#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/algorithm/grpo.hpp"
#include "rlcore/tensor/span.hpp"

namespace RLCORE_TEST_ID {

#ifdef RLCORE_SHOULD_FAIL
using gradient_type = const std::vector<float>;
#else
using gradient_type = std::vector<float>;
#endif

double loss(const rlcore::token_batch<float>& batch, const rlcore::global_counts& step, gradient_type& gradient) {
  return rlcore::evaluate(rlcore::serial{}, rlcore::paper::grpo(), rlcore::token_mean{}, batch, step,
                          {.logp = gradient})
      .loss();
}

}  // namespace RLCORE_TEST_ID
