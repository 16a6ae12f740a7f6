// Global norm and clipping against torch.nn.utils.clip_grad_norm_.
#include "rlcore/optim/adamw.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "optim/golden.hpp"
#include "rlcore/device/cpu.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;

TEST(clip, torch) {
  cpu device(1);
  for (const auto& golden : rlcore_test::optim_golden().at("clip")) {
    const auto gradient = golden.at("gradient").get<std::vector<float>>();
    const auto clipped = golden.at("clipped").get<std::vector<double>>();
    const double norm = optim::global_norm(device, gradient);
    EXPECT_NEAR(norm, golden.at("norm").get<double>(), 1e-7 * norm);
    const float scale = optim::clip_scale(norm, golden.at("max_norm"));
    for (std::size_t i = 0; i < gradient.size(); ++i)
      EXPECT_NEAR(static_cast<double>(gradient[i] * scale), clipped[i], 3e-7 * std::abs(clipped[i]));
  }
}

TEST(clip, no_limit_and_not_finite) {
  EXPECT_EQ(optim::clip_scale(1e9, 0), 1.0f);
  EXPECT_EQ(optim::clip_scale(1e9, -1), 1.0f);
  cpu device(1);
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    std::vector<float> gradient(1000, 1.0f);
    gradient[777] = bad;
    const double norm = optim::global_norm(device, gradient);
    EXPECT_FALSE(std::isfinite(norm));
    EXPECT_THROW(optim::clip_scale(norm, 1), std::invalid_argument);
  }
}

TEST(clip, squares_beyond_float_do_not_overflow) {
  cpu device(1);
  const std::vector<float> gradient(4, 1e30f);
  EXPECT_NEAR(optim::global_norm(device, gradient) / 2e30, 1, 1e-7);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
