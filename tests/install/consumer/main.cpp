// A stranger's program on the installed library: right numbers through the plain headers and, where found, the adapters.
#include <cmath>
#include <cstdio>
#include <vector>

#include "rlcore/core/random.hpp"
#include "rlcore/core/version.hpp"
#include "rlcore/tensor/view.hpp"

int main() {
  const rlcore::random_key key{7};
  double mean = 0;
  for (unsigned i = 0; i < 10000; ++i) mean += key.uniform(i) / 10000;
  std::printf("rlcore %s, mean of 10000 uniform numbers %.4f\n", RLCORE_VERSION_STRING, mean);
  return std::abs(mean - 0.5) < 0.02 ? 0 : 1;  // 7 standard deviations
}
