// Every algorithm on the emulated npu where numbers of its fields are at their ends: what is infinite or NaN on the
// host is so here, and what is not has its digits.
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "device/loss_catalogue.hpp"
#include "support/thrown.hpp"

namespace rlcore_test::RLCORE_TEST_ID {
namespace {

/// NaN is NaN, an infinity the same infinity, and a number is within `tolerance`; beyond the floats it may be an
/// infinity.
bool is_near(double got, double want, double tolerance) {
  if (std::isnan(want) || std::isinf(want)) return same_bits(got, want);
  if (std::abs(want) > std::numeric_limits<float>::max() && std::isinf(got)) return (got > 0) == (want > 0);
  return std::abs(got - want) <= tolerance;
}

/// The sums of absolute scores that each pair of rows adds up, of an objective that sums or gathers scores over its
/// rows; an exponential of a sum has the error of the sum. Numbers beyond 1e4 leave nothing of an exponential.
template <class O>
std::vector<double> absolute_scores(const O& objective, const loss_batch& batch) {
  std::vector<double> sums(static_cast<std::size_t>(batch.rows()));
  const auto add = [&](const auto& score) {
    const traced_program program = trace(score);
    for (extent_t i = 0; i < batch.rows(); ++i)
      for (const token<double>& t : batch.live_tokens(i))
        for (double& sum : std::span(sums).subspan(static_cast<std::size_t>(i - i % 2), 2))
          sum = std::min(1e4, sum + std::abs(run(program, t)[0]));
  };
  if constexpr (of_sequences<O>)
    add(typename std::remove_cvref_t<decltype(objective.gather)>::score{});
  else if constexpr (!std::is_same_v<gathers_of<piece_type<0, O>>, no_gather>)
    add(score_of(piece_at<0>(objective)));
  return sums;
}

class npu_losses_at_edges : public testing::TestWithParam<float> {
 protected:
  static constexpr std::size_t width = 37;

  template <class A>
  void check(const std::string& name, const A& a) {
    const auto look = [&](const auto& objective, const auto&... chosen) {
      loss_batch batch(layout::masked, 8, width, row_fields_of(objective));
      const auto ordinary = batch.host<float>();
      evaluate(serial{}, a, ordinary->batch, batch.counts(), chosen(batch)..., ordinary->gradients);
      batch.put(GetParam());
      const auto host = batch.host<float>();
      const auto here = batch.on(*on);
      double want = 0, got = 0;
      const std::string refused = thrown_by(
          [&] { want = evaluate(serial{}, a, host->batch, batch.counts(), chosen(batch)..., host->gradients).loss(); });
      EXPECT_EQ(thrown_by([&] {
                  got = evaluate(*on, a, here->batch, batch.counts(), chosen(batch)..., here->gradients).loss();
                }),
                refused)
          << name;
      const std::vector<double> scores = absolute_scores(objective, batch);
      const double of_loss = tolerance(*std::max_element(scores.begin(), scores.end()));
      EXPECT_TRUE(is_near(got, want, of_loss * (1 + std::abs(want)))) << name << ": loss " << got << ", not " << want;
      for (std::size_t k = 0; k < 3; ++k)
        check_rows(name, batch.back(*on, here->gradient[k]), host->gradient[k], ordinary->gradient[k], scores);
    };
    if constexpr (requires { a.objective; })
      look(a.objective);
    else
      look(a.pair.objective, [](const loss_batch& b) { return b.counts(2); });
    ++checked;
  }

  static double tolerance(double scores) { return 1e-6 + 2e-7 * scores; }
  /// Slopes are near those of the host for the size that slopes have without edges, or in their own row with them.
  static void check_rows(const std::string& name, const floats& got, const floats& want, const floats& ordinary,
                         const std::vector<double>& scores) {
    const auto largest = [](std::span<const float> row) {
      double most = 0;
      for (const float x : row)
        if (std::isfinite(x)) most = std::max(most, std::abs(static_cast<double>(x)));
      return most;
    };
    for (std::size_t i = 0; i < want.size(); ++i) {
      const std::size_t row = i / width;
      const double size = std::max(largest(ordinary), largest(std::span(want).subspan(row * width, width)));
      EXPECT_TRUE(is_near(static_cast<double>(got[i]), static_cast<double>(want[i]), tolerance(scores[row]) * size))
          << name << ": slope " << i << " is " << got[i] << ", not " << want[i];
    }
  }

  emulated_npu on{compute::float32};
  std::size_t checked = 0;
};

TEST_P(npu_losses_at_edges, are_those_of_the_host) {
  each_on_log_probs([&](const char* name, const auto& a) { check(name, a); });
  EXPECT_GT(checked, 95u);
}

constexpr float infinity = std::numeric_limits<float>::infinity();
INSTANTIATE_TEST_SUITE_P(edges, npu_losses_at_edges,
                         testing::Values(0.0f, -0.0f, 1.0f, -1.0f, 1e-9f, -1e-9f, -40.0f, 90.0f, -800.0f, 1e30f,
                                         infinity, -infinity, std::numeric_limits<float>::quiet_NaN()));

}  // namespace
}  // namespace rlcore_test::RLCORE_TEST_ID
