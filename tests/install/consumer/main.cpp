// A stranger's program on the installed library: a GRPO loss and its gradient on numbers that can be checked by hand,
// from plain vectors and, where the project links them, from Eigen and xtensor.
//
// Two answers to one prompt, two tokens each. In the first answer every ratio is 1.5 and clipped at 1.2; in the second
// it is 1. Everywhere ref_logp - logp = ln 2, so k3 = 2 - ln 2 - 1 with slope -1. Rewards 1 and 0 give advantages
// +-1/sqrt(2) (up to epsilon). Every token weighs 1/4.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "rlcore/core/version.hpp"
#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/algorithm/grpo.hpp"
#include "rlcore/objective/loop/evaluate.hpp"

#if __has_include(<Eigen/Core>)
#include "rlcore/tensor/eigen.hpp"
#endif
#if __has_include(<xtensor/xtensor.hpp>)
#include <xtensor/xtensor.hpp>

#include "rlcore/tensor/xtensor.hpp"
#endif

namespace {

void expect(const char* what, double is, double should_be) {
  if (std::abs(is - should_be) <= 2e-6) return;
  std::fprintf(stderr, "%s is %.9g, should be %.9g\n", what, is, should_be);
  std::exit(1);
}

// Compares with the numbers of the comment above; `gradient` has one value per token.
template <class Gradient>
void check(double loss, const Gradient& gradient) {
  const double a = std::sqrt(0.5), kl = 0.04;
  expect("the loss", loss, (-1.2 * a + a) / 2 + kl * (1 - std::log(2.0)));
  expect("the gradient of a clipped token", static_cast<double>(gradient(0)), -kl / 4);
  expect("the gradient of an unclipped token", static_cast<double>(gradient(3)), (a - kl) / 4);
}

}  // namespace

int main() {
  const float ln2 = std::log(2.0f), clipped = std::log(1.5f);
  const std::vector<float> rewards{1, 0};
  std::vector<float> advantage(2);
  rlcore::group_relative{}(rewards, 2, advantage);

  const std::vector<int> offsets{0, 2, 4};
  const std::vector<float> logp{-1, -2, -3, -4}, old_logp{-1 - clipped, -2 - clipped, -3, -4};
  const std::vector<float> ref_logp{-1 + ln2, -2 + ln2, -3 + ln2, -4 + ln2};
  std::vector<float> gradient(4);
  const rlcore::token_batch<float> batch{.logp = logp,
                                         .old_logp = old_logp,
                                         .ref_logp = ref_logp,
                                         .advantage = rlcore::per_row(advantage),
                                         .offsets = offsets};
  const auto report = rlcore::evaluate(rlcore::serial{}, rlcore::paper::grpo(), rlcore::sequence_mean_token_mean{},
                                       batch, rlcore::loss_counts(batch), {.logp = gradient});
  check(report.loss(), [&](std::size_t i) { return gradient[i]; });
  std::printf("rlcore %s, GRPO loss %.6f from vectors", RLCORE_VERSION_STRING, report.loss());

#if __has_include(<Eigen/Core>)
  {
    using matrix = Eigen::Array<float, 2, 2, Eigen::RowMajor>;
    const matrix l = matrix::Map(logp.data()), o = matrix::Map(old_logp.data()), r = matrix::Map(ref_logp.data());
    matrix g;
    const rlcore::token_batch<float> rows{.logp = l, .old_logp = o, .ref_logp = r, .advantage = advantage};
    const auto same = rlcore::evaluate(rlcore::serial{}, rlcore::paper::grpo(), rlcore::sequence_mean_token_mean{},
                                       rows, rlcore::loss_counts(rows), {.logp = g});
    check(same.loss(), [&](std::size_t i) { return g.data()[i]; });
    std::printf(", Eigen");
  }
#endif
#if __has_include(<xtensor/xtensor.hpp>)
  {
    const xt::xtensor<float, 2> l{{-1, -2}, {-3, -4}}, o{{-1 - clipped, -2 - clipped}, {-3, -4}};
    const xt::xtensor<float, 2> r{{-1 + ln2, -2 + ln2}, {-3 + ln2, -4 + ln2}};
    xt::xtensor<float, 2> g{{0, 0}, {0, 0}};
    const rlcore::token_batch<float> rows{.logp = l, .old_logp = o, .ref_logp = r, .advantage = advantage};
    const auto same = rlcore::evaluate(rlcore::serial{}, rlcore::paper::grpo(), rlcore::sequence_mean_token_mean{},
                                       rows, rlcore::loss_counts(rows), {.logp = g});
    check(same.loss(), [&](std::size_t i) { return g.data()[i]; });
    std::printf(", xtensor");
  }
#endif
  std::printf("\n");
}
