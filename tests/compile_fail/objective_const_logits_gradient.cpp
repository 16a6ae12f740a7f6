// expected: rlcore: a gradient is written, this container is const
#include <vector>

#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/loop/evaluate_logits.hpp"
#include "rlcore/objective/piece/supervised.hpp"
#include "rlcore/tensor/span.hpp"

namespace RLCORE_TEST_ID {

#ifdef RLCORE_SHOULD_FAIL
using gradient_type = const std::vector<float>;
#else
using gradient_type = std::vector<float>;
#endif

double loss(const rlcore::logits_batch<float>& batch, const rlcore::global_counts& step, gradient_type& gradient) {
  return rlcore::evaluate_logits(rlcore::serial{}, rlcore::cross_entropy{}, rlcore::token_mean{}, batch, step,
                                 {.logits = rlcore::matrix(gradient, 8, 32)})
      .loss();
}

}  // namespace RLCORE_TEST_ID
