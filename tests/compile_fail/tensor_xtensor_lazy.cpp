// expected: rlcore: this xtensor expression is lazy or picks elements by index
// needs: xtensor
#include "rlcore/tensor/xtensor.hpp"

#if __has_include(<xtensor/containers/xtensor.hpp>)
#include <xtensor/containers/xtensor.hpp>
#else
#include <xtensor/xtensor.hpp>
#endif

namespace RLCORE_TEST_ID {

int main() {
  const xt::xtensor<float, 2> a = xt::ones<float>({2, 2}), b = a;
#ifdef RLCORE_SHOULD_FAIL
  const auto x = a + b;
#else
  const xt::xtensor<float, 2> x = a + b;
#endif
  return rlcore::as_view(x)(1, 1) == 2 ? 0 : 1;
}

}  // namespace RLCORE_TEST_ID
