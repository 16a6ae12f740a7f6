// expected: (assignment of read-only location|cannot assign to return value)
#include <vector>

#include "rlcore/tensor/span.hpp"

namespace RLCORE_TEST_ID {

int main() {
#ifdef RLCORE_SHOULD_FAIL
  const std::vector<float> gradient(3);
#else
  std::vector<float> gradient(3);
#endif
  const auto v = rlcore::as_view(gradient);
  v(1) = 2;
  return v(0) == 0 ? 0 : 1;
}

}  // namespace RLCORE_TEST_ID
