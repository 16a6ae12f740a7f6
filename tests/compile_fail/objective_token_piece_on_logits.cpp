// expected: rlcore: a logits piece has
#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/loop/evaluate_logits.hpp"
#include "rlcore/objective/piece/supervised.hpp"

namespace RLCORE_TEST_ID {

#ifdef RLCORE_SHOULD_FAIL
using piece = rlcore::dft;  // reads a log-prob
#else
using piece = rlcore::cross_entropy;
#endif

double loss(const rlcore::logits_batch<float>& batch, const rlcore::global_counts& step) {
  return rlcore::evaluate_logits(rlcore::serial{}, piece{}, rlcore::token_mean{}, batch, step).loss();
}

}  // namespace RLCORE_TEST_ID
