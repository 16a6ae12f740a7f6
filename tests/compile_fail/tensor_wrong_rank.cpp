// expected: rlcore: this container has another number of dimensions than as_view<Rank> asks for
#include <vector>

#include "rlcore/tensor/span.hpp"

namespace RLCORE_TEST_ID {

int main() {
  const std::vector<float> x(6);
#ifdef RLCORE_SHOULD_FAIL
  const auto v = rlcore::as_view<2>(x);
  return v(0, 0) == 0 ? 0 : 1;
#else
  const auto v = rlcore::as_view<2>(rlcore::matrix(x, 2, 3));
  return v(1, 2) == 0 ? 0 : 1;
#endif
}

}  // namespace RLCORE_TEST_ID
