// A loss on the npu for which no gradient is asked.
#include <gtest/gtest.h>

#include "device/loss_batch.hpp"
#include "device/npu/counted_calls.hpp"
#include "rlcore/device/losses.hpp"
#include "rlcore/objective/algorithms.hpp"

namespace rlcore_test::RLCORE_TEST_ID {
namespace {

TEST(npu_loss, without_gradients_computes_no_slope) {
  counted_calls calls(emulated_calls());
  npu d(table_provider{&calls.table()}, emulated_npu::exact(compute::float32));
  const loss_batch batch(layout::masked, 8, 37, field::advantage);
  const auto here = batch.on(d);
  calls.clear();
  const auto with = evaluate(d, paper::grpo(), here->batch, batch.counts(), here->gradients);
  const int slopes_too = calls.operators;
  calls.clear();
  const auto without = evaluate(d, paper::grpo(), here->batch, batch.counts());
  EXPECT_LT(calls.operators, slopes_too - 5);
  EXPECT_EQ(with.loss(), without.loss());
}

}  // namespace
}  // namespace rlcore_test::RLCORE_TEST_ID
