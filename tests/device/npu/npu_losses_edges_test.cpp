// Every algorithm on the emulated npu where numbers of its fields are at their ends: what is infinite or NaN on the
// host is so here, and what is not has its digits.
#include <cmath>
#include <limits>
#include <string>

#include "device/npu/loss_catalogue.hpp"
#include "support/thrown.hpp"

namespace rlcore_test {
namespace {

/// NaN is NaN, an infinity the same infinity, and a number is within `tolerance`.
bool is_near(double got, double want, double tolerance) {
  if (std::isnan(want) || std::isinf(want)) return same_bits(got, want);
  return std::abs(got - want) <= tolerance;
}

/// Slopes of one row, which an edge may make large, are within 1e-6 of the largest of its numbers.
void expect_rows_near(const floats& got, const floats& want, extent_t width, const std::string& name) {
  for (std::size_t first = 0; first < want.size(); first += static_cast<std::size_t>(width)) {
    double largest = 0;
    for (std::size_t i = first; i < first + static_cast<std::size_t>(width); ++i)
      if (std::isfinite(want[i])) largest = std::max(largest, std::abs(static_cast<double>(want[i])));
    for (std::size_t i = first; i < first + static_cast<std::size_t>(width); ++i)
      EXPECT_TRUE(is_near(static_cast<double>(got[i]), static_cast<double>(want[i]), 1e-6 * largest))
          << name << ": slope " << i << " is " << got[i] << ", not " << want[i];
  }
}

class npu_losses_at_edges : public testing::TestWithParam<float> {
 protected:
  static constexpr extent_t width = 37;

  template <class A>
  void check(const std::string& name, const A& a) {
    const auto look = [&](const auto& objective, const auto&... chosen) {
      loss_batch batch(layout::masked, 8, width, row_fields_of(objective));
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
      EXPECT_TRUE(is_near(got, want, 1e-6 * (1 + std::abs(want)))) << name << ": loss " << got << ", not " << want;
      for (std::size_t k = 0; k < 3; ++k)
        expect_rows_near(batch.back(*on, here->gradient[k]), host->gradient[k], width, name);
    };
    if constexpr (requires { a.objective; })
      look(a.objective);
    else
      look(a.pair.objective, [](const loss_batch& b) { return b.counts(2); });
    ++checked;
  }

  emulated_npu on{compute::float32};
  std::size_t checked = 0;
};

TEST_P(npu_losses_at_edges, are_those_of_the_host) {
  const auto visit = [&](const char* name, const auto& a, const defaults& = {}) {
    if constexpr (reads_log_probs<std::remove_cvref_t<decltype(a)>>())
      if (std::string_view(name) != "gvpo") check(name, a);  // without its group size
  };
  each_of_papers(visit);
  each_of_systems(visit);
  check("gvpo", paper::gvpo({.group_size = 4}));
  EXPECT_GT(checked, 95u);
}

constexpr float infinity = std::numeric_limits<float>::infinity();
INSTANTIATE_TEST_SUITE_P(edges, npu_losses_at_edges,
                         testing::Values(0.0f, -0.0f, 1.0f, -1.0f, 1e-9f, -1e-9f, -40.0f, 90.0f, -800.0f, 1e30f,
                                         infinity, -infinity, std::numeric_limits<float>::quiet_NaN()));

}  // namespace
}  // namespace rlcore_test
