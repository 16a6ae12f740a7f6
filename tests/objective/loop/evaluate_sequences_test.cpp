// GSPO and DPO against PyTorch autograd, and the guarantees of the sequence loop.
#include "rlcore/objective/loop/evaluate_sequences.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "objective/golden.hpp"
#include "rlcore/exec/serial.hpp"
#include "rlcore/exec/threads.hpp"
#include "rlcore/objective/algorithm/dpo.hpp"
#include "rlcore/objective/algorithm/gspo.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;

namespace {

auto row_gspo(double low, double high) {
  return sequence_objective{mean_of<log_ratio_to_old>{}, ppo_clip{.low = low, .high = high}};
}

template <class T>
class sequences : public testing::Test {};
using types = testing::Types<float, double>;
TYPED_TEST_SUITE(sequences, types);

template <class T, class Objective, class Aggregation>
void check(const std::string& name, const Objective& objective, const Aggregation& aggregation) {
  golden_batch<T> g;
  g.logp = golden_vector<T>(golden()[name]["logp"]);
  for (std::size_t k = 0; k < g.logp.size(); ++k)
    if (!g.mask[k]) g.logp[k] = std::numeric_limits<T>::quiet_NaN();
  const double tolerance = std::is_same_v<T, float> ? 2e-6 : 1e-12;
  const auto r = evaluate(serial{}, objective, aggregation, g.batch(), loss_counts(g.batch()), g.gradients());
  const double loss = golden()[name]["loss"];
  EXPECT_NEAR(r.loss(), loss, tolerance * (std::abs(loss) + 0.1));
  for (std::size_t k = 0; k < g.logp.size(); ++k) {
    const double want = golden()[name]["logp_gradient"][k];
    EXPECT_NEAR(static_cast<double>(g.logp_gradient[k]), want, tolerance * std::abs(want)) << name << " " << k;
  }
}
TYPED_TEST(sequences, gspo_equals_pytorch) {
  check<TypeParam>("gspo", paper::gspo({.clip_low = 0.01, .clip_high = 0.012}), sequence_mean_token_mean{});
  check<TypeParam>("gspo", row_gspo(0.01, 0.012), sequence_mean{});  // the same loss as a link of rows
}
TYPED_TEST(sequences, dpo_equals_pytorch) {
  check<TypeParam>("dpo", paper::dpo(), pair_mean{});
  check<TypeParam>("cdpo", paper::dpo({.beta = 0.3, .label_smoothing = 0.1}), pair_mean{});
}

TEST(gspo, reference_value) {
  std::vector<double> logp{.01, -.02, .03}, old_logp{0, 0, 0}, gradient(3), advantage{1};
  std::vector<int> offsets{0, 3};
  const token_batch<double> b{.logp = logp, .old_logp = old_logp, .advantage = per_row(advantage), .offsets = offsets};
  const auto r =
      evaluate(serial{}, paper::gspo({.clip_low = 0.2, .clip_high = 0.2}), b, loss_counts(b), {.logp = gradient});
  EXPECT_NEAR(r.loss(), -1.00668893835402, 1e-14);
  for (const double g : gradient) EXPECT_NEAR(g, -.33556297945134, 1e-14);
}

TEST(dpo, pairs_may_be_split_between_micro_batches_and_threads) {
  golden_batch<float> g;
  const auto whole = evaluate(serial{}, paper::dpo(), pair_mean{}, g.batch(), loss_counts(g.batch()), g.gradients());
  const auto gradient = g.logp_gradient;
  std::fill(g.logp_gradient.begin(), g.logp_gradient.end(), -1.0f);
  auto parts = sequence_report_of<sum_of<log_ratio_to_reference>, bradley_terry>{};
  for (extent_t i = 4; i >= 0; i -= 2) {
    const auto cut = [&](auto& x) {
      return matrix_view<std::remove_reference_t<decltype(x[0])>>(x.data() + i * g.tokens, {2, g.tokens});
    };
    const token_batch<float> b{.logp = cut(g.logp), .ref_logp = cut(g.ref_logp), .mask = cut(g.mask)};
    parts += evaluate(threads(2), paper::dpo(), pair_mean{}, b, loss_counts(g.batch()), {.logp = cut(g.logp_gradient)});
  }
  EXPECT_EQ(parts.loss(), whole.loss());
  for (const std::string_view name : pair_monitors) EXPECT_EQ(parts[name], whole[name]);
  EXPECT_EQ(parts.units, 3);
  EXPECT_EQ(std::memcmp(gradient.data(), g.logp_gradient.data(), gradient.size() * sizeof(float)), 0);
}

TEST(sequence_objectives, refuse_what_does_not_fit) {
  golden_batch<float> g;
  const auto text = [&](auto&& f) -> std::string {
    try {
      f();
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "accepted";
  };
  auto b = g.batch();
  b.advantage = g.matrix(g.weight);
  EXPECT_THAT(text([&] { evaluate(serial{}, row_gspo(0.1, 0.1), sequence_mean{}, b, loss_counts(b)); }),
              testing::HasSubstr("one advantage per row"));
  std::vector<int> offsets{0, 100, 150, 222};
  const token_batch<float> odd{.logp = g.logp, .ref_logp = g.ref_logp, .offsets = offsets};
  EXPECT_THAT(text([&] { evaluate(serial{}, paper::dpo(), pair_mean{}, odd, loss_counts(odd)); }),
              testing::HasSubstr("has 3 rows"));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
