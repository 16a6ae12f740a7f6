// Log-probs, entropies and sums of squares of logits, and the way back: against verl and TRL.
#include "rlcore/objective/vocabulary/log_probs.hpp"

#include "objective/vocabulary/golden_vocabulary.hpp"
#include "rlcore/exec/serial.hpp"
#include "rlcore/exec/threads.hpp"
#include "rlcore/tensor/span.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;
using namespace rlcore_test;

namespace {

template <class T>
class label_statistics_of : public testing::Test {};
using element_types = testing::Types<float, double>;
TYPED_TEST_SUITE(label_statistics_of, element_types);

enum class which { logp, entropy, sum_of_squares };

/// One statistic of a batch and its gradient (upstream 1) against a golden case.
template <class T>
void check_statistic(const logits_batch<T>& batch, sampling_scale scale, which w, const char* name) {
  const auto& one = vocabulary_golden()["cases"][name];
  const auto n = static_cast<std::size_t>(batch.logits.shape[0]), v = static_cast<std::size_t>(batch.logits.shape[1]);
  std::vector<T> value(n, T(-7)), upstream(n, T(1)), gradient(n * v, T(-7));
  label_statistics<T> out;
  label_statistics<const T> up;
  (w == which::logp ? out.logp : w == which::entropy ? out.entropy : out.sum_of_squares) = position_matrix<T>(value);
  (w == which::logp      ? up.logp
   : w == which::entropy ? up.entropy
                         : up.sum_of_squares) = position_matrix<const T>(upstream);
  log_probs(serial{}, batch, scale, out);
  log_probs_backward(serial{}, batch, scale, up,
                     {.logits = matrix(gradient, batch.logits.shape[0], batch.logits.shape[1])});
  const double tolerance = std::max(one.value("tolerance", 1e-12), sizeof(T) == 4 ? 1e-5 : 1e-12);
  for (std::size_t i = 0; i < n; ++i) {
    const double expected = golden_number(one["value"][i]);
    EXPECT_NEAR(value[i], expected, tolerance * std::max(1.0, std::abs(expected))) << name << " of position " << i;
    for (std::size_t j = 0; j < v; ++j)
      EXPECT_NEAR(gradient[i * v + j], golden_number(one["gradient"][i][j]), tolerance) << name << " " << i << " " << j;
  }
}

template <class T>
logits_batch<T> batch_of(const golden_positions<T>& x) {
  return {.logits = matrix(x.logits.data(), x.positions, x.vocabulary), .labels = x.labels};
}

// OpenRLHF/OpenRLHF#1319: entropy and log-prob are of the same tempered logits, there is one temperature for both.
// huggingface/trl#6140, #5595, #5596, #6625: the entropy has its gradient.
TYPED_TEST(label_statistics_of, equal_verl_and_trl) {
  const golden_positions<TypeParam> x;
  const auto batch = batch_of(x);
  check_statistic(batch, sampling_scale{1.0}, which::logp, "logp");
  check_statistic(batch, sampling_scale{0.7}, which::logp, "logp_tempered");
  check_statistic(batch, sampling_scale{0.7}, which::entropy, "entropy");
  check_statistic(batch, sampling_scale{0.7}, which::entropy, "entropy_trl");
  check_statistic(batch, sampling_scale{0.7}, which::sum_of_squares, "sum_of_squares");
  check_statistic(batch, sampling_scale(0.7, 5.0), which::logp, "softcapped_logp");
}

// A logit of -inf is an entry that does not exist: p log p = 0 there, not NaN.
TYPED_TEST(label_statistics_of, survive_logits_of_minus_infinity) {
  golden_positions<TypeParam> x;
  x.logits = vocabulary_numbers<TypeParam>("holes");
  check_statistic(batch_of(x), sampling_scale{1.0}, which::entropy, "entropy_with_holes");
}

// huggingface/trl#6789, #7269: what top-k or top-p removed gets no probability, the rest is renormalised.
TYPED_TEST(label_statistics_of, truncated_supports_are_renormalised) {
  golden_positions<TypeParam> x;
  x.labels = vocabulary_numbers<std::int64_t>("sampled");
  const auto ids = vocabulary_numbers<std::int32_t>("student_ids");
  auto batch = batch_of(x);
  batch.support = matrix(ids.data(), x.positions, x.k);
  check_statistic(batch, sampling_scale{0.7}, which::logp, "truncated_logp");
  check_statistic(batch, sampling_scale{0.7}, which::entropy, "truncated_entropy");
}

TEST(truncated_support, of_varying_size_and_labels_outside_of_it) {
  const std::vector<float> z{1, 2, 3, 4, 1, 2, 3, 4};
  const std::vector<std::int64_t> labels{3, 3}, ids{3, 0, 2}, offsets{0, 2, 3};
  logits_batch<float> batch{.logits = matrix(z, 2, 4), .labels = labels};
  batch.support = entry_lists(ids, offsets);
  std::vector<float> logp(2), g(8), one{1, 1};
  log_probs(serial{}, batch, sampling_scale{1.0}, {.logp = logp});
  EXPECT_NEAR(logp[0], -std::log(1 + std::exp(-3.0)), 1e-6);
  EXPECT_EQ(logp[1], -std::numeric_limits<float>::infinity());
  log_probs_backward(serial{}, batch, sampling_scale{1.0}, {.logp = one}, {.logits = matrix(g, 2, 4)});
  EXPECT_NEAR(g[0], -1 / (1 + std::exp(3.0)), 1e-6);
  EXPECT_EQ(g[1], 0.0f);
}

// Upstream gradients add up, masked positions get 0 and their logits are not read, strides and threads do not show.
TEST(label_statistics_loop, is_linear_and_reads_no_masked_position) {
  golden_positions<double> x;
  const auto n = static_cast<std::size_t>(x.positions), v = static_cast<std::size_t>(x.vocabulary);
  std::vector<std::uint8_t> mask(n, 1);
  mask[1] = mask[4] = 0;
  x.labels[1] = -100;
  for (std::size_t j = 0; j < v; ++j) x.logits[1 * v + j] = x.logits[4 * v + j] = std::nan("");
  auto batch = batch_of(x);
  batch.mask = mask;
  const std::vector<double> gl{1, 2, 3, 4, 5, 6}, gh{-1, 0, 2, 1, 0, 3}, gs{0.5, 1, 0, 1, 1, 2};
  std::vector<double> all(n * v, -7), part(n * v, -7), sum(n * v, 0);
  const sampling_scale scale{1.3};
  log_probs_backward(serial{}, batch, scale, {.logp = gl, .entropy = gh, .sum_of_squares = gs},
                     {.logits = matrix(all, x.positions, x.vocabulary)});
  const auto add = [&](const label_statistics<const double>& upstream) {
    log_probs_backward(threads(3), batch, scale, upstream,
                       {.logits = matrix(sum, x.positions, x.vocabulary), .add = true});
  };
  add({.logp = gl}), add({.entropy = gh}), add({.sum_of_squares = gs});
  for (std::size_t k = 0; k < n * v; ++k) {
    EXPECT_NEAR(all[k], sum[k], 1e-14);
    if (k / v == 1 || k / v == 4) {
      EXPECT_EQ(all[k], 0.0);
    }
  }
  // Column-major logits: the same bits.
  std::vector<double> turned(n * v), gradient(n * v, -7);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < v; ++j) turned[j * n + i] = x.logits[i * v + j];
  const auto column_major = [&](std::vector<double>& m) {
    return matrix_view<double>{m.data(), {x.positions, x.vocabulary}, {1, x.positions}};
  };
  batch.logits = column_major(turned);
  log_probs_backward(threads(2), batch, scale, {.logp = gl, .entropy = gh, .sum_of_squares = gs},
                     {.logits = column_major(gradient)});
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < v; ++j) EXPECT_EQ(gradient[j * n + i], all[i * v + j]);
}

TEST(label_statistics_loop, reports_what_does_not_fit) {
  golden_positions<float> x;
  std::vector<float> five(5), six(6);
  auto batch = batch_of(x);
  const sampling_scale scale{1.0};
  EXPECT_THROW(log_probs(serial{}, batch, scale, {.logp = five}), std::invalid_argument);
  EXPECT_THROW(log_probs(serial{}, batch, sampling_scale{0.0}, {.logp = six}), std::invalid_argument);
  x.labels[2] = 13;
  EXPECT_THROW(log_probs(serial{}, batch, scale, {.logp = six}), std::invalid_argument);
  log_probs(serial{}, batch, scale, {.entropy = six});  // needs no labels
}

}  // namespace
}  // namespace RLCORE_TEST_ID
