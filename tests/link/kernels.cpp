// The CPU's kernels in two objects of one program, compiled for x86-64 and for this machine; only the first one's is
// called.
#include <cstdio>
#include <exception>
#include <vector>

#include "rlcore/device/cpu.hpp"

float RLCORE_LINK_SIDE() {
  rlcore::cpu device(1);
  std::vector<float> x(1000, 0.1f);
  device.run(rlcore::op::scale{.y = x.data(), .factor = 0.5f, .n = 1000});
  return x.back();
}

#if defined(WITH_MAIN)
int main() try {
  std::printf("half of 0.1 is %g\n", static_cast<double>(RLCORE_LINK_SIDE()));
} catch (const std::exception& e) {
  std::fprintf(stderr, "kernels: %s\n", e.what());
  return 1;
}
#endif
