// expected: rlcore: as_view of a temporary would show freed memory
// needs: eigen
#include "rlcore/tensor/eigen.hpp"

namespace RLCORE_TEST_ID {

int main() {
  const Eigen::MatrixXf a = Eigen::MatrixXf::Ones(2, 2), b = a;
#ifdef RLCORE_SHOULD_FAIL
  const auto v = rlcore::as_view((a + b).eval());
#else
  const auto x = (a + b).eval();
  const auto v = rlcore::as_view(x);
#endif
  return v.data[3] == 2 ? 0 : 1;
}

}  // namespace RLCORE_TEST_ID
