// verl::, openrlhf:: and trl:: are what those systems compute: loss and gradient of a whole batch by their own
// functions with their default settings and aggregations (tests/reference/presets.py).
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "objective/golden_case.hpp"
#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/algorithms.hpp"
#include "rlcore/objective/loop/evaluate.hpp"
#include "rlcore/tensor/span.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;

namespace {

const nlohmann::json& golden() {
  static const nlohmann::json data = rlcore_test::read_golden("presets.json");
  return data;
}

struct batch_of_systems {
  extent_t rows = golden()["rows"], tokens = golden()["tokens"];
  std::vector<double> logp = golden()["logp"], old_logp = golden()["old_logp"], advantage = golden()["advantage"],
                      value = golden()["value"], old_value = golden()["old_value"], target = golden()["target"];
  std::vector<int> mask = golden()["mask"];
  std::vector<double> by_logp = std::vector<double>(logp.size(), -7.0), by_value = by_logp;

  batch_of_systems() {  // nobody reads what does not count
    for (std::size_t k = 0; k < mask.size(); ++k)
      if (mask[k] == 0)
        for (auto* x : {&logp, &old_logp, &value, &old_value, &target})
          (*x)[k] = std::numeric_limits<double>::quiet_NaN();
  }
  template <class U>
  matrix_view<U> matrix(std::vector<U>& x) const {
    return {x.data(), {rows, tokens}};
  }
  token_batch<double> batch() {
    return {.logp = matrix(logp),
            .old_logp = matrix(old_logp),
            .advantage = advantage,
            .value = matrix(value),
            .old_value = matrix(old_value),
            .target = matrix(target),
            .mask = matrix(mask)};
  }
};

/// Some denominators of verl and OpenRLHF have 1e-8 added, which shows in rows of few tokens.
template <class Algorithm>
void check(const std::string& name, const Algorithm& algorithm, double tolerance = 1e-12) {
  batch_of_systems b;
  const auto batch = b.batch();
  const auto report = evaluate(serial{}, algorithm, batch, loss_counts(batch),
                               {.logp = b.matrix(b.by_logp), .value = b.matrix(b.by_value)});
  const nlohmann::json& want = golden()["cases"][name];
  EXPECT_NEAR(report.loss(), want["loss"].get<double>(), tolerance) << name;
  const bool critic = name.ends_with("critic");
  double largest = 0;
  for (std::size_t k = 0; k < b.mask.size(); ++k) {
    const double gradient = want["gradient"][k];
    EXPECT_NEAR((critic ? b.by_value : b.by_logp)[k], gradient, tolerance) << name << " gradient " << k;
    largest = std::max(largest, std::abs(gradient));
  }
  EXPECT_GT(largest, 1e-3) << name << ": nothing was compared";
}

TEST(presets, verl_policies) {
  check("verl::grpo", verl::grpo());
  check("verl::dapo", verl::dapo());
  check("verl::dr_grpo", verl::dr_grpo(9));  // without loss_scale_factor: the width of the responses
  check("verl::gspo", verl::gspo<verl::version::v0_8_0>(), 2e-8);  // as its loss_agg_mode=seq-mean-token-mean
  check("verl::gmpo", verl::gmpo(), 2e-8);
  check("verl::sapo", verl::sapo(), 2e-8);
  check("verl::cispo", verl::cispo(), 2e-9);
  check("verl::gpg", verl::gpg(), 2e-9);
  check("verl::dro", verl::dro(0.5), 2e-9);
}
TEST(presets, verl_trust_regions) {
  check("verl::dppo_tv", verl::dppo_tv(), 2e-9);
  check("verl::dppo_kl", verl::dppo_kl(), 2e-9);
}
TEST(presets, critics) {
  check("verl::ppo_critic", verl::ppo_critic());
  check("openrlhf::ppo_critic", openrlhf::ppo_critic());
  check("trl::ppo_critic", trl::ppo_critic());
}
TEST(presets, openrlhf_policies) {
  check("openrlhf::grpo", openrlhf::grpo());
  check("openrlhf::gspo", openrlhf::gspo(), 2e-8);
  check("openrlhf::grpo dual_clip", openrlhf::grpo({.dual_clip = 1.1}));
  check("openrlhf::gspo dual_clip", openrlhf::gspo({.dual_clip = 1.1}), 2e-8);
  EXPECT_THROW(openrlhf::grpo({.dual_clip = 0.9}), std::invalid_argument);
}
TEST(presets, trl_policies) {
  check("trl::grpo", trl::grpo());
  check("trl::dapo", trl::dapo());
  check("trl::bnpo", trl::dapo());  // the counts of the micro-batch, which is all there is here
  check("trl::dr_grpo", trl::dr_grpo(1));
  check("trl::cispo", trl::cispo(1.1));
  check("trl::sapo", trl::sapo());
  check("trl::two_sided_dapo", trl::two_sided_dapo());
}
TEST(presets, trl_sequences) {
  check("trl::gspo", trl::gspo());
  check("trl::luspo", trl::luspo());
  check("trl::vespo", trl::vespo());
  check("trl::gmpo", trl::gmpo());
  check("trl::rloo", trl::rloo());
}

TEST(presets, openrlhf_ipo) {  // one score per row is one token per row
  std::vector<double> score = golden()["score"], reference(score.size(), 0.0), gradient(score.size());
  const matrix_view<double> scores(score.data(), {6, 1}), references(reference.data(), {6, 1});
  const token_batch<double> batch{.logp = scores, .ref_logp = references};
  const auto report = evaluate(serial{}, openrlhf::ipo(), batch, loss_counts(batch),
                               {.logp = matrix_view<double>(gradient.data(), {6, 1})});
  const nlohmann::json& want = golden()["cases"]["openrlhf::ipo"];
  EXPECT_NEAR(report.loss(), want["loss"].get<double>(), 1e-11);
  for (std::size_t k = 0; k < score.size(); ++k) EXPECT_NEAR(gradient[k], want["gradient"][k].get<double>(), 1e-12);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
