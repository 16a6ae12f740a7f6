// expected: rlcore: as_view of a temporary would show freed memory
#include <vector>

#include "rlcore/tensor/span.hpp"

namespace RLCORE_TEST_ID {

std::vector<float> compute() { return {1, 2, 3, 4}; }

int main() {
#ifdef RLCORE_SHOULD_FAIL
  const auto v = rlcore::matrix(compute(), 2, 2);
#else
  auto logp = compute();
  const auto v = rlcore::matrix(logp, 2, 2);
#endif
  return v(1, 1) == 4 ? 0 : 1;
}

}  // namespace RLCORE_TEST_ID
