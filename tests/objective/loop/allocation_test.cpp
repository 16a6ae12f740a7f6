// A step of training calls the loops thousands of times: they must not ask for memory.
#include <gtest/gtest.h>

#include "objective/golden.hpp"
#include "rlcore/exec/serial.hpp"
#include "rlcore/exec/threads.hpp"
#include "rlcore/objective/aggregation/token_mean.hpp"
#include "rlcore/objective/algorithm/dpo.hpp"
#include "rlcore/objective/algorithm/grpo.hpp"
#include "support/allocation_counter.hpp"

using namespace rlcore;

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
  const auto counts = whole_step(batch);
  const threads pool(2);
  expect_no_allocation([&] { evaluate(serial{}, paper::grpo(), token_mean{}, batch, counts, gradients); });
  expect_no_allocation([&] { evaluate(pool, paper::grpo(), token_mean{}, batch, counts, gradients); });
  expect_no_allocation([&] { evaluate(serial{}, paper::dpo(), pair_mean{}, batch, counts, gradients); });
}

}  // namespace
