// expected: rlcore: this type has no tensor_traits
#include <deque>
#include <vector>

#include "rlcore/tensor/span.hpp"

namespace RLCORE_TEST_ID {

int main() {
#ifdef RLCORE_SHOULD_FAIL
  std::deque<float> rewards(4);  // its elements are not in one piece
#else
  std::vector<float> rewards(4);
#endif
  return static_cast<int>(rlcore::as_view(rewards).shape[0]) - 4;
}

}  // namespace RLCORE_TEST_ID
