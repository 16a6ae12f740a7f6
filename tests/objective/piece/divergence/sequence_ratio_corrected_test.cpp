// TRL's use_bias_correction_kl: per token and per sequence, row by row and over a batch.
#include "rlcore/objective/piece/divergence/ratio_corrected.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <vector>

#include "objective/check_slope.hpp"
#include "objective/golden_case.hpp"
#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/loop/evaluate.hpp"
#include "rlcore/objective/piece/divergence/kl.hpp"
#include "rlcore/objective/piece/surrogate/plain.hpp"
#include "rlcore/tensor/span.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;
using namespace rlcore_test;

namespace {

// GRPOTrainer._compute_loss with advantages of 0: a mean over rows of means over tokens.
class divergence_trl : public testing::Test {
 protected:
  nlohmann::json golden = read_golden("divergence.json")["trl_kl"];
  std::size_t width = golden["tokens"].get<std::size_t>();
  std::vector<double> logp = golden["logp"], old_logp = golden["old_logp"], ref_logp = golden["ref_logp"];
  std::vector<std::size_t> lengths = golden["lengths"];

  /// row(i, slopes) returns the row's sum.
  template <class Row>
  void check(const char* name, const Row& row) {
    double loss = 0;
    const std::vector<double> want = golden[name]["gradient"];
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      std::vector<double> slope(lengths[i]);
      const double weight = 1.0 / static_cast<double>(lengths.size() * lengths[i]);
      loss += weight * row(i, slope);
      for (std::size_t t = 0; t < width; ++t)
        EXPECT_NEAR(t < lengths[i] ? weight * slope[t] : 0.0, want[i * width + t], 1e-14) << i << " " << t;
    }
    EXPECT_NEAR(loss, golden[name]["loss"].get<double>(), 1e-14);
  }
  template <class P>
  void check_tokens(const char* name, const P& piece) {
    check(name, [&](std::size_t i, std::vector<double>& slope) {
      double sum = 0;
      for (std::size_t t = 0; t < slope.size(); ++t) {
        token<double> x{};
        x.logp = logp[i * width + t], x.old_logp = old_logp[i * width + t], x.ref_logp = ref_logp[i * width + t];
        const auto r = at(piece, x);
        sum += r.value, slope[t] = r.slope;
      }
      return sum;
    });
  }
};

TEST_F(divergence_trl, k3_without_clamp) { check_tokens("k3", k3{}); }
TEST_F(divergence_trl, bias_correction_by_token) { check_tokens("token", ratio_corrected{k3{}}); }
TEST_F(divergence_trl, bias_correction_by_sequence) {
  check("sequence", [&](std::size_t i, std::vector<double>& slope) {
    const auto row = [&](const std::vector<double>& x) {
      return std::span<const double>(x).subspan(i * width, slope.size());
    };
    return sequence_ratio_corrected{k3{}}(row(logp), row(old_logp), row(ref_logp), std::span(slope));
  });
}

TEST(sequence_ratio_corrected, empty_rows_and_wrong_sizes) {
  const std::span<const double> none;
  const sequence_ratio_corrected kl{k3{}};
  EXPECT_EQ(kl(none, none, none, std::span<double>{}), 0);
  const std::vector<double> two(2), three(3);
  std::vector<double> slope(2);
  EXPECT_THROW(kl(std::span(two), std::span(three), std::span(two), std::span(slope)), std::invalid_argument);
}

// linkedin/Liger-Kernel's Triton backward takes s d_t for the slope, which is not the gradient of its forward. Here
// value and gradient over a batch are those of autograd, padded or packed, and the surrogate is added to them.
TEST_F(divergence_trl, bias_correction_over_a_batch) {
  const auto kl = scaled{1.0, sequence_ratio_corrected{k3{}}};
  const auto n = static_cast<extent_t>(width), count = std::ssize(lengths);
  const std::vector<double> want = golden["sequence"]["gradient"];
  std::vector<std::int32_t> live(lengths.begin(), lengths.end()), offsets{0};
  auto poisoned = logp;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    for (std::size_t t = lengths[i]; t < width; ++t) poisoned[i * width + t] = std::nan("");
    offsets.push_back(offsets.back() + live[i]);
  }
  const std::vector<double> advantage(lengths.size(), 2.0);
  const token_batch<double> batch{.logp = matrix(poisoned, count, n),
                                  .old_logp = matrix(old_logp, count, n),
                                  .ref_logp = matrix(ref_logp, count, n),
                                  .advantage = advantage,
                                  .lengths = live};
  std::vector<double> gradient(want.size(), 9.0);
  const token_gradients<double> out{.logp = matrix(gradient, count, n)};
  const auto step = loss_counts(batch);
  const auto report = evaluate_rows(kl, sequence_mean_token_mean{}, batch, step, out);
  EXPECT_NEAR(report.loss(), golden["sequence"]["loss"].get<double>(), 1e-15);
  EXPECT_EQ(report.tokens, 18);
  for (std::size_t k = 0; k < want.size(); ++k) EXPECT_NEAR(gradient[k], want[k], 1e-15) << k;

  const auto flat = [&](const std::vector<double>& x) {
    std::vector<double> y;
    for (std::size_t i = 0; i < lengths.size(); ++i)
      y.insert(y.end(), x.begin() + static_cast<std::ptrdiff_t>(i * width),
               x.begin() + static_cast<std::ptrdiff_t>(i * width + lengths[i]));
    return y;
  };
  const auto l = flat(logp), o = flat(old_logp), r = flat(ref_logp), same = flat(gradient);
  std::vector<double> packed(l.size());
  const token_batch<double> tight{.logp = l, .old_logp = o, .ref_logp = r, .offsets = offsets};
  const auto again = evaluate_rows(kl, sequence_mean_token_mean{}, tight, step, {.logp = packed});
  EXPECT_EQ(again.loss(), report.loss());
  EXPECT_EQ(packed, same);

  evaluate(serial{}, policy_gradient{}, sequence_mean_token_mean{}, batch, step,
           {.logp = matrix(gradient, count, n), .add = true});
  for (std::size_t i = 0; i < lengths.size(); ++i)
    for (std::size_t t = 0; t < lengths[i]; ++t)
      EXPECT_NEAR(gradient[i * width + t], want[i * width + t] - 2.0 / static_cast<double>(lengths.size() * lengths[i]),
                  1e-15);
  EXPECT_THROW(evaluate_rows(kl, sequence_mean_token_mean{}, tight, step, {.logp = packed, .add = true}),
               std::invalid_argument);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
