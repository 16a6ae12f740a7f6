// expected: rlcore: as_view of a temporary would show freed memory
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

xt::xtensor<float, 2> compute() { return xt::ones<float>({2, 2}); }

int main() {
#ifdef RLCORE_SHOULD_FAIL
  const auto v = rlcore::as_view(xt::view(compute(), 0));  // the view keeps the tensor, but not long enough
#else
  auto whole = compute();
  const auto v = rlcore::as_view(xt::view(whole, 0));
#endif
  return v(1) == 1 ? 0 : 1;
}

}  // namespace RLCORE_TEST_ID
