// expected: rlcore: this estimator of advantages runs on the host alone
#include "rlcore/device/advantages.hpp"
#include "rlcore/device/npu.hpp"
#include "rlcore/objective/advantage/rloo.hpp"

namespace RLCORE_TEST_ID {

#ifdef RLCORE_SHOULD_FAIL
using estimator = rlcore::opo;
#else
using estimator = rlcore::rloo;
#endif

void centre(rlcore::npu& device, rlcore::tensor<float, 1, rlcore::npu>& rewards) {
  rlcore::compute_advantages(device, estimator{}, rewards, 4, rewards);
}

}  // namespace RLCORE_TEST_ID
