// expected: rlcore: this xtensor expression is lazy or picks elements by index
// needs: xtensor
#include "rlcore/tensor/xtensor.hpp"

#if __has_include(<xtensor/containers/xtensor.hpp>)
#include <xtensor/containers/xtensor.hpp>
#include <xtensor/views/xview.hpp>
#else
#include <xtensor/xtensor.hpp>
#include <xtensor/xview.hpp>
#endif

namespace RLCORE_TEST_ID {

int main() {
  xt::xtensor<float, 2> a = xt::ones<float>({6, 2});
#ifdef RLCORE_SHOULD_FAIL
  auto x = xt::view(a, xt::keep(0, 1, 5), xt::all());
#else
  auto x = xt::view(a, xt::range(0, 6, 2), xt::all());
#endif
  return rlcore::as_view(x)(1, 1) == 1 ? 0 : 1;
}

}  // namespace RLCORE_TEST_ID
