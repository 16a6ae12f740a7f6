// Token rewards with the KL in them against verl's apply_kl_penalty and OpenRLHF's compute_reward.
#include "rlcore/objective/reward_shaping.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "objective/golden_case.hpp"
#include "rlcore/objective/piece/divergence/kl.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;

namespace {

class divergence_in_reward : public testing::Test {
 protected:
  nlohmann::json golden = rlcore_test::read_golden("divergence.json")["in_reward"];

  template <class Divergence>
  void check(const std::string& name, Divergence divergence, bool clip) {
    const std::vector<double> old_logp = golden["old_logp"], ref_logp = golden["ref_logp"], score = golden["score"];
    const std::vector<double> want = golden[name]["reward"];
    const std::size_t n = want.size() / score.size();
    double kl = 0;
    for (std::size_t i = 0; i < score.size(); ++i) {
      std::vector<double> reward(n);
      const auto row = [&](const std::vector<double>& x) { return std::span(x).subspan(i * n, n); };
      const rlcore::divergence_in_reward penalty{divergence, 0.125};
      const double s = clip ? std::clamp(score[i], -1.0, 1.0) : score[i];
      const auto r = penalty(s, row(old_logp), row(ref_logp), std::span(reward));
      double sum = 0;
      for (std::size_t t = 0; t < n; ++t) {
        EXPECT_NEAR(reward[t], want[i * n + t], 1e-14) << name;
        sum += want[i * n + t];
      }
      EXPECT_NEAR(r.reward, sum, 1e-14);
      kl += r.mean_kl / static_cast<double>(score.size());
    }
    if (golden[name].contains("kl")) {
      EXPECT_NEAR(kl, golden[name]["kl"].get<double>(), 1e-6) << name;  // + 1e-8 in its mean
    }
  }
};

TEST_F(divergence_in_reward, equals_verl) {
  check("verl_kl", k1{}, false);
  check("verl_abs", abs_kl{}, false);
  check("verl_mse", k2{}, false);
  check("verl_low_var_kl", clamped_k3{}, false);
}

TEST_F(divergence_in_reward, equals_openrlhf) {
  check("openrlhf_k1", value_clamped{k1{}}, true);
  check("openrlhf_k2", value_clamped{k2{}}, true);
  check("openrlhf_k3", value_clamped{k3{}}, true);
}

TEST_F(divergence_in_reward, is_kl_in_reward_with_an_estimator) {
  const std::vector<float> old_logp{-1, -2, -0.5}, ref_logp{-1.5, -1, -0.25};
  std::vector<float> one(3), other(3);
  const std::span<const float> o(old_logp), q(ref_logp);
  rlcore::divergence_in_reward{clamped_k3{}, 0.3}(2, o, q, std::span(one));
  kl_in_reward{.kind = kl_kind::k3, .coefficient = 0.3}(2, o, q, other);
  EXPECT_EQ(one, other);
  EXPECT_EQ((rlcore::divergence_in_reward{k1{}}(2, o.first(0), q.first(0)).reward), 2);
  EXPECT_THROW((rlcore::divergence_in_reward{k1{}}(2, o, q.first(2))), std::invalid_argument);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
