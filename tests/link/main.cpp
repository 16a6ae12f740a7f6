#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "link/side.hpp"

namespace {

void expect(bool condition, const char* side, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "link: the side compiled for %s %s\n", side, what);
  std::exit(1);
}

/// GRPO (clip 0.2, 0.04 k3) as its paper writes it, in double and one token at a time.
void check(const side_result& result, const char* side) {
  double loss = 0;
  for (std::size_t r = 0; r < result.rows; ++r) {
    for (std::size_t i = 0; i < result.tokens; ++i) {
      const double ratio = std::exp(-static_cast<double>(old_distance(i))), a = static_cast<double>(advantage_of(r));
      const double d = static_cast<double>(ref_distance(i)), clipped = std::clamp(ratio, 0.8, 1.2);
      const double weight = 1.0 / static_cast<double>(result.rows * result.tokens);
      loss += weight * (-std::min(ratio * a, clipped * a) + 0.04 * (std::exp(d) - d - 1));
      const double slope = (ratio * a <= clipped * a ? -ratio * a : 0) + 0.04 * (1 - std::exp(d));
      const double is = static_cast<double>(result.gradient[r * result.tokens + i]);
      expect(std::abs(is - weight * slope) <= 2e-6 * weight, side, "computes a wrong gradient");
    }
  }
  expect(std::abs(result.loss - loss) <= 1e-6, side, "computes a wrong loss");
  expect(std::abs(result.advantage[0] - std::sqrt(0.5f)) <= 1e-5f && result.advantage[1] == -result.advantage[0], side,
         "computes wrong advantages");
}

}  // namespace

/// With an argument only the side for x86-64 runs: for an old processor.
int main(int argc, char**) {
  const side_result base = link_base();
  if (argc > 1) {
    check(base, "x86-64");
    return 0;
  }
  const side_result native = link_native();
  std::printf("floats in a register: %zu and %zu, losses %.9f and %.9f\n", base.lanes, native.lanes, base.loss,
              native.loss);
  expect(base.lanes == 4, "x86-64", "does not run packs of four floats");
  expect(native.lanes >= 4, "this machine", "has narrower packs than x86-64");
  check(base, "x86-64");
  check(native, "this machine");
  expect(base.random == native.random, "this machine", "draws other random numbers");
}
