#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "link/side.hpp"

namespace {

void expect(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "link: %s\n", what);
  std::exit(1);
}

bool near(double a, double b) { return std::abs(a - b) <= 1e-5 * std::abs(b); }

}  // namespace

int main() {
  const side_result base = link_base(), native = link_native();
  const double geometric = std::exp(-1.0) * std::expm1(2.0) / std::expm1(1.0 / 64);
  std::printf("lanes %zu and %zu, sums %.6f and %.6f, exact %.6f\n", base.lanes, native.lanes,
              static_cast<double>(base.exponential_sum), static_cast<double>(native.exponential_sum), geometric);
  expect(base.lanes == 4, "the side compiled for x86-64 does not run packs of four floats");
  expect(native.lanes >= 4, "the side compiled for this machine has narrower packs than x86-64");
  expect(near(base.exponential_sum, geometric), "the side compiled for x86-64 computes a wrong sum");
  expect(near(native.exponential_sum, geometric), "the side compiled for this machine computes a wrong sum");
  expect(base.random == native.random, "random numbers depend on the instruction set");
}
