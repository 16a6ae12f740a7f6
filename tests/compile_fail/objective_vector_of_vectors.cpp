// expected: rlcore: the elements of this container are containers; a matrix is one array
#include <vector>

#include "rlcore/objective/loop/batch.hpp"
#include "rlcore/tensor/span.hpp"

namespace RLCORE_TEST_ID {

#ifdef RLCORE_SHOULD_FAIL
using rows_of_tokens = std::vector<std::vector<float>>;
#else
using rows_of_tokens = std::vector<float>;
#endif

rlcore::token_batch<float> batch_of_rows(const rows_of_tokens& logp) { return {.logp = logp}; }

}  // namespace RLCORE_TEST_ID
