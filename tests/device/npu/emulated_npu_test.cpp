// The emulator as the tests of kernels use it, and what the npu device says of itself.
#include "device/npu/emulated_npu.hpp"

#include <gmock/gmock.h>

#include "rlcore/emulator/emulated_npu.hpp"

namespace rlcore_test::RLCORE_TEST_ID {

namespace {

TEST(npu_device, says_what_it_is) {
  emulated_npu on(compute::hf32);
  EXPECT_EQ(on->name(), "npu");
  EXPECT_EQ(on->description(), "npu 0 (emulator), hf32");
  EXPECT_EQ(on->compute_format(), weight_format::float32);
  EXPECT_FALSE(on->batch_invariant());
}

TEST(npu_device, lacks_of_what_every_run_needs_are_told_at_once) {
  try {
    emulated_npu on(compute::bfloat16, [](ascend::operator_calls& op) {
      op.aclnnMatmul.plan = nullptr, op.aclnnExp.run = nullptr, op.aclnnSort.run = nullptr;
    });
    FAIL() << "nothing was thrown";
  } catch (const ascend::capability_error& e) {
    EXPECT_STREQ(e.what(), "npu: emulator lacks aclnnMatmul, aclnnExp, which every run needs");
    EXPECT_EQ(e.call, "aclnnMatmul");
  }
}

TEST(npu_device, without_an_operator_of_generation_all_else_works) {
  emulated_npu on(compute::bfloat16,
                  [](ascend::operator_calls& op) { op.aclnnSort = {"aclnnSort", nullptr, nullptr}; });
  auto logits = put(*on, floats{1, 3, 2, 0});
  auto tokens = room<std::int32_t>(*on, 1);
  auto uniform = put(*on, std::vector<double>{0.5});
  sampling_arguments how;
  on->run(rlcore::op::sample{
      .settings = how, .logits = logits, .rows = 1, .vocabulary = 4, .uniform = uniform, .tokens = tokens});
  how.top_k = 2;
  try {
    on->run(rlcore::op::sample{
        .settings = how, .logits = logits, .rows = 1, .vocabulary = 4, .uniform = uniform, .tokens = tokens});
    FAIL() << "nothing was thrown";
  } catch (const ascend::capability_error& e) {
    EXPECT_STREQ(e.what(),
                 "npu: emulator lacks aclnnSort, which generation needs; npu_doctor lists what else is missing");
  }
  on->run(rlcore::op::scale{.y = logits, .factor = 2, .n = 4});
  EXPECT_EQ(logits.back(), (floats{2, 6, 4, 0}));
}

TEST(npu_device, knows_what_is_left_of_its_memory) {
  emulated_npu on;
  constexpr std::size_t mebi = std::size_t{1} << 20;
  const std::size_t before = on->available_bytes().value();
  void* p = on->allocate(64 * mebi);
  EXPECT_LE(on->available_bytes().value() + 64 * mebi, before);
  on->release(p);
  EXPECT_GE(on->available_bytes().value() + 4 * mebi, before) << "what is kept for later can be had";
}

TEST(npu_device, int8_weights_are_refused) {
  emulated_npu on;
  EXPECT_THROW(on->packed_bytes(weight_format::int8, 4, 4), device_error);
}

TEST(npu_device, memory_that_is_not_its_own_is_refused) {
  emulated_npu on;
  float host[4] = {};
  auto y = room<float>(*on, 4);
  auto ids = put(*on, indices{0});
  EXPECT_THROW(on->run(rlcore::op::gather_rows{.y = y, .x = host, .x_rows = 1, .ids = ids, .count = 1, .width = 4}),
               std::invalid_argument);
  auto x = room<float>(*on, 8);
  EXPECT_NO_THROW(on->run(rlcore::op::gather_rows{.y = y, .x = x, .x_rows = 2, .ids = ids, .count = 1, .width = 4}));
  EXPECT_THROW(on->run(rlcore::op::gather_rows{.y = y, .x = x, .x_rows = 1000000, .ids = ids, .count = 1, .width = 4}),
               std::invalid_argument);
}

}  // namespace
}  // namespace rlcore_test::RLCORE_TEST_ID
