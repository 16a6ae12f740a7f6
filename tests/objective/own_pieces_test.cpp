// What a user adds in an own namespace works like what is built in, and the documentation shows exactly this.
#include "objective/own_pieces.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "objective/golden.hpp"
#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/piece/divergence/kl.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;

namespace {

std::string text_of(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(documentation, shows_the_code_that_is_tested) {
#ifdef RLCORE_SOURCE_DIR
  const std::string code = text_of(RLCORE_SOURCE_DIR "/tests/objective/own_pieces.hpp");
  const std::string open = "// <docs>\n", close = "// </docs>\n";
  const auto begin = code.find(open) + open.size();
  const std::string shown = code.substr(begin, code.find(close) - begin);
  EXPECT_NE(text_of(RLCORE_SOURCE_DIR "/docs/objectives.md").find(shown), std::string::npos) << shown;
  EXPECT_LE(
      std::count(shown.begin(), shown.begin() + static_cast<std::ptrdiff_t>(shown.find("struct sqrt_length")), '\n'),
      18);
#endif
}

TEST(own_pieces, are_pieces) {
  golden_batch<double> g;
  const auto objective = sum{mine::tempered_ratio{.kappa = 0.25}, scaled{0.1, k2{}}};
  const auto r = evaluate(serial{}, objective, mine::sqrt_length{}, g.batch(), loss_counts(g.batch()), g.gradients());
  double loss = 0, above = 0;
  for (int i = 0; i < 6; ++i) {
    double row = 0, n = 0;
    for (int t = 0; t < 37; ++t) {
      const auto k = static_cast<std::size_t>(i * 37 + t);
      if (!g.mask[k]) continue;
      const double ratio = std::exp(g.logp[k] - g.old_logp[k]), d = g.logp[k] - g.ref_logp[k];
      row += -4 * std::pow(ratio, 0.25) * g.advantage[static_cast<std::size_t>(i)] + 0.05 * d * d;
      above += ratio > 1;
      n += 1;
    }
    if (n > 0) loss += row / (5 * std::sqrt(n));
  }
  EXPECT_NEAR(r.loss(), loss, 1e-12 * std::abs(loss));
  EXPECT_NEAR(r[r.monitor[0].name], above / 89, 1e-15);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
