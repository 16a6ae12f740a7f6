// Distillation from the sampled token alone: against TRL and verl.
#include "objective/vocabulary/golden_vocabulary.hpp"
#include "rlcore/objective/distillation/on_policy.hpp"
#include "rlcore/objective/piece/divergence/kl.hpp"
#include "rlcore/objective/piece/divergence/ratio_corrected.hpp"
#include "rlcore/tensor/span.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;
using namespace rlcore_test;

namespace {

const nlohmann::json& one(const char* name) { return vocabulary_golden()["token_cases"][name]; }

// verl's single-sample estimators of distillation with loss_max_clamp = 10.
TEST(sampled_distillation, equals_verl) {
  const auto tokens = golden_tokens(vocabulary_golden()["fields"]);
  check_case(value_clamped{k1{}}, tokens, one("bounded_k1"));
  check_case(value_clamped{abs_kl{}}, tokens, one("bounded_abs"));
  check_case(value_clamped{k2{}}, tokens, one("bounded_k2"));
  check_case(value_clamped{clamped_k3{}}, tokens, one("bounded_k3"));
}

TEST(sampled_distillation, equals_sdpo) {
  auto tokens = golden_tokens(vocabulary_golden()["fields"]);
  const auto reference = vocabulary_numbers<double>("low_ref");
  for (std::size_t k = 0; k < tokens.size(); ++k) tokens[k].ref_logp = reference[k];
  check_case(sampled_reverse_kl{}, tokens, one("sampled_reverse_kl"));
  // TRL raises ratios below e^-20 to it; here they are what they are.
  check_case(ratio_weighted{sampled_reverse_kl{}, 2.0}, tokens, one("sampled_reverse_kl_weighted"), 1e-7);
}

TEST(sampled_distillation, with_prefix_weights_equals_iw_opd) {
  const auto& golden = vocabulary_golden();
  const auto tokens = golden_tokens(golden["fields"]);
  check_case(iw_opd{}, tokens, one("iw_opd"));
  const std::size_t rows = golden["rows"], width = golden["tokens"];
  const auto mask = golden["mask"].get<std::vector<int>>();
  std::vector<double> teacher, rollout, weight(rows * width, -7);
  for (std::size_t t = 0; t < rows * width; ++t) {
    teacher.push_back(mask[t] ? tokens[t].ref_logp : std::nan(""));  // masked slots are not read
    rollout.push_back(tokens[t].rollout_logp);
  }
  const auto view = [&](auto& v) { return matrix(v, static_cast<extent_t>(rows), static_cast<extent_t>(width)); };
  prefix_weights{}(view(teacher), view(rollout), view(mask), view(weight));
  for (std::size_t t = 0; t < rows * width; ++t) EXPECT_NEAR(weight[t], tokens[t].weight, 1e-14);
}

TEST(sampled_distillation, slopes_equal_dual_numbers) {
  std::mt19937_64 random(2);
  for (int k = 0; k < 100; ++k) {
    const auto t = random_token(random);
    check_slope(on_policy_distillation{}, t);
    check_slope(iw_opd{}, t);
    auto unweighted = t;
    unweighted.weight = 1;
    EXPECT_EQ(at(iw_opd{}, unweighted).value, at(on_policy_distillation{}, t).value);
  }
}

TEST(prefix_weights_edges, a_row_without_tokens_or_without_gap) {
  std::vector<float> none, same{-1, -2}, weight(2, -7);
  const std::vector<int> masked{0, 0};
  prefix_weights{}(matrix(none, 1, 0), matrix(none, 1, 0), {}, matrix(none, 1, 0));
  prefix_weights{}(matrix(same, 1, 2), matrix(same, 1, 2), {}, matrix(weight, 1, 2));
  EXPECT_EQ(weight, (std::vector<float>{1.5f, 1.5f}));
  prefix_weights{}(matrix(same, 1, 2), matrix(same, 1, 2), matrix(masked, 1, 2), matrix(weight, 1, 2));
  EXPECT_EQ(weight, (std::vector<float>{0, 0}));
  EXPECT_THROW(prefix_weights{}(matrix(same, 1, 2), matrix(same, 2, 1), {}, matrix(weight, 1, 2)),
               std::invalid_argument);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
