// expected: rlcore: this Eigen expression is lazy, its elements are not in memory; call .eval
// needs: eigen
#include "rlcore/tensor/eigen.hpp"

namespace RLCORE_TEST_ID {

int main() {
  const Eigen::MatrixXf a = Eigen::MatrixXf::Ones(2, 2), b = a;
#ifdef RLCORE_SHOULD_FAIL
  const auto x = a * b;
#else
  const Eigen::MatrixXf x = a * b;
#endif
  return rlcore::as_view(x)(1, 1) > 1 ? 0 : 1;
}

}  // namespace RLCORE_TEST_ID
