// expected: rlcore: this xtensor expression is lazy or picks elements by index
// needs: xtensor
#include "rlcore/tensor/xtensor.hpp"

#if __has_include(<xtensor/containers/xtensor.hpp>)
#include <xtensor/containers/xtensor.hpp>
#include <xtensor/views/xbroadcast.hpp>
#else
#include <xtensor/xbroadcast.hpp>
#include <xtensor/xtensor.hpp>
#endif

namespace RLCORE_TEST_ID {

int main() {
  xt::xtensor<float, 1> row = xt::ones<float>({2});
#ifdef RLCORE_SHOULD_FAIL
  auto x = xt::broadcast(row, {3, 2});
#else
  xt::xtensor<float, 2> x = xt::broadcast(row, {3, 2});
#endif
  return rlcore::as_view(x)(2, 1) == 1 ? 0 : 1;
}

}  // namespace RLCORE_TEST_ID
