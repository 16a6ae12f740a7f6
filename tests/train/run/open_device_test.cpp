// Devices by their settings.
#include "rlcore/train/run/devices.hpp"

#include <gtest/gtest.h>

#include <string>

#include "rlcore/core/error.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;

TEST(open_device, makes_the_processor) {
  const auto device = open_device({.type = compute::bfloat16, .threads = 2, .instruction_set = "portable"});
  EXPECT_EQ(device->name(), "cpu");
  EXPECT_EQ(device->description(), "cpu (portable, bfloat16), 2 threads");
  EXPECT_EQ(device->compute_format(), weight_format::bfloat16);
  EXPECT_TRUE(device->batch_invariant() && device->gradients_in_order());
  EXPECT_EQ(open_device({.threads = 1})->compute_format(), weight_format::float32);
}

TEST(open_device, refuses_what_the_processor_lacks) {
  EXPECT_THROW(open_device({.type = compute::hf32}), device_error);
  EXPECT_THROW(open_device({.instruction_set = "sse9"}), device_error);
}

TEST(open_device, makes_one_emulated_machine_at_a_time) {
  device_settings s{.kind = device_kind::npu_emulator};
  s.emulator.soc = "Ascend910B1";
  for (const compute type : {compute::bfloat16, compute::float32}) {
    s.type = type;
    const auto device = open_device(s);
    EXPECT_NE(device->description().find("emulator of Ascend910B1"), std::string::npos) << device->description();
    EXPECT_EQ(device->compute_format(), type == compute::bfloat16 ? weight_format::bfloat16 : weight_format::float32);
    EXPECT_FALSE(device->batch_invariant() || device->gradients_in_order());
    const float sent[3] = {1, -2, 0.5f};
    float received[3] = {};
    void* memory = device->allocate(sizeof sent);
    device->upload(memory, sent, sizeof sent);
    device->run(op::scale{.y = static_cast<float*>(memory), .factor = 2, .n = 3});
    device->download(received, memory, sizeof sent);
    device->release(memory);
    EXPECT_EQ(received[0], 2);
    EXPECT_EQ(received[1], -4);
    EXPECT_EQ(received[2], 1);
    EXPECT_NO_THROW(open_device(s));  // as ranks that are threads do
    device_settings other = s;
    other.emulator.seed = 7;
    EXPECT_THROW(open_device(other), config_error);  // there is one machine, and it is running
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
