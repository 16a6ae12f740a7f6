// The logits loop and the token loop with the counts of one step; masked positions of a piece that divides by lengths.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "objective/vocabulary/golden_vocabulary.hpp"
#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/distillation/divergences.hpp"
#include "rlcore/objective/loop/evaluate.hpp"
#include "rlcore/objective/loop/evaluate_logits.hpp"
#include "rlcore/objective/piece/supervised.hpp"
#include "rlcore/objective/vocabulary/log_probs.hpp"
#include "rlcore/tensor/span.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;
using namespace rlcore_test;

namespace {

std::uint64_t bits(double x) { return std::bit_cast<std::uint64_t>(x); }

// linkedin/Liger-Kernel (own reading): a cosine loss that did not look at the mask. Masking its result is not enough
// either: 0 * NaN stays in the gradient.
TEST(evaluate_logits_invariance, cosine_masked_positions) {
  golden_positions<double> x;
  const auto v = static_cast<std::size_t>(x.vocabulary);
  const std::vector<int> mask{1, 0, 1, 1, 0, 1};
  std::vector<double> clean(x.logits.size(), -7), poisoned(x.logits.size(), -7);
  const auto run = [&](std::vector<double>& gradient) {
    const logits_batch<double> batch{.logits = matrix(x.logits, x.positions, x.vocabulary),
                                     .teacher = matrix(x.teacher, x.positions, x.vocabulary),
                                     .mask = mask};
    return evaluate_logits(serial{}, cosine{}, token_mean{}, batch, loss_counts(batch),
                           {.logits = matrix(gradient, x.positions, x.vocabulary)})
        .loss();
  };
  const double loss = run(clean);
  EXPECT_TRUE(std::isfinite(loss));
  for (std::size_t j = 0; j < v; ++j) {
    x.logits[v + j] = x.teacher[v + j] = std::nan("");
    x.logits[4 * v + j] = 0, x.teacher[4 * v + j] = -std::numeric_limits<double>::infinity();  // of length 0
  }
  EXPECT_EQ(bits(run(poisoned)), bits(loss));
  EXPECT_EQ(poisoned, clean);
  for (const std::size_t i : {1u, 4u})
    for (std::size_t j = 0; j < v; ++j) EXPECT_EQ(clean[i * v + j], 0.0);
}

// verl-project/verl#7200: a term on log-probs and a term on logits of the same tokens, each in micro-batches, divided
// by something else each. Here both take the counts of the step, whatever the cut.
TEST(evaluate_logits_invariance, token_and_logits_terms_share_counts) {
  const golden_positions<double> x;
  const auto v = static_cast<std::size_t>(x.vocabulary);
  const std::vector<std::int64_t> offsets{0, 1, 4, 6};
  const std::vector<int> mask{1, 1, 0, 1, 1, 1};
  global_counts step;
  step.add_row(1), step.add_row(2), step.add_row(2);

  struct parts {
    double of_tokens, of_logits;
    std::vector<double> by_tokens, by_logits;
  };
  const auto run = [&](const std::vector<std::size_t>& cuts) {  // rows cuts[k] ... cuts[k + 1] - 1 are a micro-batch
    parts out{0, 0, std::vector<double>(x.logits.size(), -7), std::vector<double>(x.logits.size(), -7)};
    report_of<negative_log_likelihood> of_tokens;
    report_of<cross_entropy> of_logits;
    for (std::size_t k = 0; k + 1 < cuts.size(); ++k) {
      const std::int64_t begin = offsets[cuts[k]], n = offsets[cuts[k + 1]] - begin;
      const auto first = static_cast<std::size_t>(begin), count = static_cast<std::size_t>(n);
      std::vector<std::int64_t> local;
      for (std::size_t i = cuts[k]; i <= cuts[k + 1]; ++i) local.push_back(offsets[i] - begin);
      const auto rows_of = [&](std::vector<double>& m) { return matrix(m.data() + first * v, n, x.vocabulary); };
      const logits_batch<double> logits{.logits = matrix(x.logits.data() + first * v, n, x.vocabulary),
                                        .labels = std::span(x.labels).subspan(first, count),
                                        .mask = std::span(mask).subspan(first, count),
                                        .offsets = local};
      of_logits +=
          evaluate_logits(serial{}, cross_entropy{}, token_mean{}, logits, step, {.logits = rows_of(out.by_logits)});
      std::vector<double> logp(count), upstream(count);
      log_probs(serial{}, logits, sampling_scale{1}, {.logp = logp});
      const token_batch<double> tokens{
          .logp = std::as_const(logp), .mask = std::span(mask).subspan(first, count), .offsets = local};
      of_tokens += evaluate(serial{}, negative_log_likelihood{}, token_mean{}, tokens, step, {.logp = upstream});
      log_probs_backward(serial{}, logits, sampling_scale{1}, {.logp = std::as_const(upstream)},
                         {.logits = rows_of(out.by_tokens)});
    }
    out.of_tokens = of_tokens.loss(), out.of_logits = of_logits.loss();
    return out;
  };

  const parts whole = run({0, 3}), cut = run({0, 1, 3}), single = run({0, 1, 2, 3});
  EXPECT_NEAR(whole.of_tokens, whole.of_logits, 1e-14);
  for (std::size_t k = 0; k < x.logits.size(); ++k) EXPECT_NEAR(whole.by_tokens[k], whole.by_logits[k], 1e-15);
  double expected = 0;  // by PyTorch
  for (const std::size_t i : {0u, 1u, 3u, 4u, 5u})
    expected += vocabulary_golden()["cases"]["cross_entropy"]["value"][i].get<double>() / 5;
  EXPECT_NEAR(whole.of_tokens, expected, 1e-12);
  for (const parts* other : {&cut, &single}) {
    EXPECT_EQ(bits(other->of_tokens), bits(whole.of_tokens));
    EXPECT_EQ(bits(other->of_logits), bits(whole.of_logits));
    EXPECT_EQ(other->by_tokens, whole.by_tokens);
    EXPECT_EQ(other->by_logits, whole.by_logits);
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
