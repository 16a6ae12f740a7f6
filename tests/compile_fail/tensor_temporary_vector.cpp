// expected: rlcore: as_view of a temporary would show freed memory
#include <vector>

#include "rlcore/tensor/span.hpp"

namespace RLCORE_TEST_ID {

std::vector<float> compute() { return {1, 2, 3}; }

int main() {
#ifdef RLCORE_SHOULD_FAIL
  const auto v = rlcore::as_view(compute());
#else
  const auto rewards = compute();
  const auto v = rlcore::as_view(rewards);
#endif
  return v(0) == 1 ? 0 : 1;
}

}  // namespace RLCORE_TEST_ID
