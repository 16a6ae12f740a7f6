// A step of training calls the loops thousands of times: they must not ask for memory.
#include <gtest/gtest.h>

#include "objective/golden.hpp"
#include "objective/vocabulary/golden_vocabulary.hpp"
#include "rlcore/exec/serial.hpp"
#include "rlcore/exec/threads.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/algorithm/dpo.hpp"
#include "rlcore/objective/algorithm/grpo.hpp"
#include "rlcore/objective/algorithm/gspo.hpp"
#include "rlcore/objective/distillation/divergences.hpp"
#include "rlcore/objective/distillation/support.hpp"
#include "rlcore/objective/loop/evaluate_logits.hpp"
#include "rlcore/objective/piece/supervised.hpp"
#include "rlcore/objective/vocabulary/transforms.hpp"
#include "support/allocation_counter.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;
using rlcore_test::golden_positions;

namespace {

template <class F>
void expect_no_allocation(F&& run) {
  if (!counts_allocations) GTEST_SKIP() << "a sanitizer counts instead";
  run();
  const allocation_counter counter;
  run();
  EXPECT_EQ(counter.count(), 0u);
}

TEST(evaluate, allocates_nothing) {
  golden_batch<float> g;
  const auto batch = g.batch();
  const auto gradients = g.gradients();
  const auto counts = loss_counts(batch);
  const threads pool(2);
  expect_no_allocation([&] { evaluate(serial{}, paper::grpo(), token_mean{}, batch, counts, gradients); });
  expect_no_allocation([&] { evaluate(pool, paper::grpo(), token_mean{}, batch, counts, gradients); });
  expect_no_allocation([&] { evaluate(serial{}, paper::dpo(), pair_mean{}, batch, counts, gradients); });
}

TEST(evaluate, allocates_nothing_for_rows_that_are_gathered) {
  golden_batch<float> g;
  const auto batch = g.batch();
  const auto gradients = g.gradients();
  const auto counts = loss_counts(batch);
  expect_no_allocation([&] { evaluate(serial{}, paper::gspo(), batch, counts, gradients); });
}

TEST(evaluate_logits_loop, allocates_nothing) {
  if (!counts_allocations) GTEST_SKIP() << "a sanitizer counts instead";
  const golden_positions<float> x;
  std::vector<float> gradient(x.logits.size());
  logits_batch<float> batch{.logits = matrix(x.logits, x.positions, x.vocabulary),
                            .teacher = matrix(x.teacher, x.positions, x.vocabulary),
                            .labels = x.labels,
                            .weight = x.weight};
  const auto counts = loss_counts(batch);
  const threads pool(2);
  const auto all = sum{cross_entropy{}, tempered{2.0, uld{}}, generalised_jsd{}};
  EXPECT_THROW(evaluate_logits(pool, all, token_mean{}, batch, counts), std::invalid_argument);  // no scratch memory
  std::vector<std::byte> scratch(scratch_bytes(pool, all, batch));
  batch.scratch = scratch;
  const auto run = [&] {
    return evaluate_logits(pool, all, token_mean{}, batch, counts,
                           {.logits = matrix(gradient, x.positions, x.vocabulary)})
        .loss();
  };
  const double once = run();
  const allocation_counter counter;
  EXPECT_EQ(run(), once);
  EXPECT_EQ(counter.count(), 0u);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
