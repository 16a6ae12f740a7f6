// Device memory of the emulated machine: what AscendCL's documentation says of aclrtMalloc, aclrtFree and the copies.
#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <set>

#include "emulator/machine_fixture.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace npu_test;
using emulated::access;
using emulated::shadow;
using testing::HasSubstr;

class emulator_memory : public machine_test {};

TEST_F(emulator_memory, starts_are_aligned_to_64_bytes_and_no_better) {
  std::vector<void*> all;
  for (const std::size_t bytes : {1u, 31u, 32u, 33u, 64u, 100u, 512u, 4096u, 100000u}) {
    all.push_back(allocate(bytes));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(all.back()) % 128, 64u) << bytes;
  }
  for (void* p : all) EXPECT_EQ(rt.aclrtFree(p), 0);
}

TEST_F(emulator_memory, every_allocation_is_followed_by_32_bytes_that_kernels_may_read) {
  std::size_t before = 0, after = 0, total = 0;
  EXPECT_EQ(rt.aclrtGetMemInfo(ascend::memory_kind::hbm, &before, &total), 0);
  EXPECT_EQ(total, std::size_t{16} << 20);
  EXPECT_EQ(before, total);
  void* p = allocate(1024);
  EXPECT_EQ(rt.aclrtGetMemInfo(ascend::memory_kind::hbm, &after, &total), 0);
  EXPECT_GE(before - after, 1024u + 32u);
  EXPECT_EQ(rt.aclrtFree(p), 0);
  EXPECT_EQ(rt.aclrtGetMemInfo(ascend::memory_kind::hbm, &after, &total), 0);
  EXPECT_EQ(after, before);
}

TEST_F(emulator_memory, fresh_memory_is_nan_in_every_type) {
  void* p = allocate(256);
  for (const float x : get<float>(p, 64)) EXPECT_TRUE(std::isnan(x));
  for (const std::uint16_t half : get<std::uint16_t>(p, 128)) {
    EXPECT_GT(half & 0x7fff, 0x7c00);  // fp16
    EXPECT_GT(half & 0x7fff, 0x7f80);  // bf16
  }
  for (const double x : get<double>(p, 32)) EXPECT_TRUE(std::isnan(x));
  EXPECT_EQ(rt.aclrtFree(p), 0);
}

TEST_F(emulator_memory, recycled_memory_is_poisoned_anew) {
  for (int round = 0; round < 40; ++round) {
    void* p = allocate(1 << 20);
    for (const float x : get<float>(p, 16)) EXPECT_TRUE(std::isnan(x));
    put(p, std::vector<float>(1 << 18, 1.0f));
    EXPECT_EQ(rt.aclrtFree(p), 0);
  }
}

TEST_F(emulator_memory, exhaustion_is_207001_and_freed_memory_comes_back) {
  std::vector<void*> all;
  void* p = nullptr;
  int code = 0;
  while ((code = rt.aclrtMalloc(&p, 1 << 20, memory_policy::huge_first)) == 0) all.push_back(p);
  EXPECT_EQ(code, 207001);
  EXPECT_THAT(message(), HasSubstr("1048576"));
  EXPECT_EQ(all.size(), 15u);  // 16 MiB less what the padding takes
  EXPECT_EQ(rt.aclrtFree(all.back()), 0);
  all.back() = allocate(1 << 20);  // out of the quarantine, for want of anything else
  for (void* each : all) EXPECT_EQ(rt.aclrtFree(each), 0);
  p = allocate((std::size_t{16} << 20) - 256);  // all pieces have been joined again
  EXPECT_EQ(rt.aclrtFree(p), 0);
  EXPECT_EQ(rt.aclrtMalloc(&p, ~std::size_t{0}, memory_policy::huge_first), 207001);
}

TEST_F(emulator_memory, devices_have_memory_of_their_own) {
  std::vector<void*> all;
  void* p = nullptr;
  while (rt.aclrtMalloc(&p, 1 << 20, memory_policy::huge_first) == 0) all.push_back(p);
  ASSERT_EQ(rt.aclrtSetDevice(1), 0);
  void* other = allocate(1 << 20);
  put(other, std::vector<float>{5});
  EXPECT_EQ(get<float>(other, 1)[0], 5);
  EXPECT_EQ(rt.aclrtFree(other), 0);
  EXPECT_EQ(rt.aclrtResetDevice(1), 0);
  ASSERT_EQ(rt.aclrtSetDevice(0), 0);
  EXPECT_EQ(rt.aclrtResetDevice(0), 0);
  for (void* each : all) EXPECT_EQ(rt.aclrtFree(each), 0);
}

TEST_F(emulator_memory, bytes_arrive_and_return) {
  void *a = allocate(400), *b = allocate(400);
  std::vector<float> values(100);
  for (std::size_t i = 0; i < 100; ++i) values[i] = static_cast<float>(i);
  put(a, values);
  EXPECT_EQ(rt.aclrtMemcpy(b, 400, a, 400, copy_kind::device_to_device), 0);
  EXPECT_EQ(get<float>(b, 100), values);
  EXPECT_EQ(rt.aclrtMemset(a, 400, 0, 200), 0);
  const auto now = get<float>(a, 100);
  EXPECT_EQ(now[49], 0);
  EXPECT_EQ(now[50], 50);
  EXPECT_EQ(rt.aclrtMemcpy(b, 400, values.data(), 8, copy_kind::automatic), 0);
  EXPECT_EQ(rt.aclrtFree(a), 0);
  EXPECT_EQ(rt.aclrtFree(b), 0);
}

TEST_F(emulator_memory, a_kernel_that_writes_past_the_end_is_found_when_the_memory_is_freed) {
  void* p = allocate(100);
  EXPECT_EQ(emulated::enqueue(nullptr, "sloppy", [p] { shadow(p, 100, access::write)[104] = std::byte{1}; }), 0);
  EXPECT_EQ(rt.aclrtSynchronizeStream(nullptr), 0);
  EXPECT_EQ(rt.aclrtFree(p), 507015);
  EXPECT_THAT(message(), HasSubstr("past its end"));
  EXPECT_EQ(rt.aclrtFree(p), 107000);
}

TEST_F(emulator_memory, what_a_task_may_not_touch_is_507015_at_the_next_synchronisation) {
  void *p = allocate(100), *gone = allocate(100);
  EXPECT_EQ(rt.aclrtFree(gone), 0);
  ASSERT_EQ(rt.aclrtSetDevice(1), 0);
  void* other = allocate(100);
  ASSERT_EQ(rt.aclrtSetDevice(0), 0);
  float host = 0;
  const auto bytes = static_cast<char*>(p);
  const struct {
    const void* address;
    std::size_t bytes;
    const char* why;
  } cases[] = {{p, 101, "reach past the end"},
               {bytes + 96, 8, "reach past the end"},
               {bytes - 4, 4, "no memory is allocated"},
               {gone, 4, "freed"},
               {other, 4, "memory of device 1"},
               {&host, 4, "not an address of device memory"},
               {nullptr, 4, "not an address of device memory"}};
  for (const auto& c : cases) {
    EXPECT_EQ(emulated::enqueue(nullptr, "aclnnAdd", [c] { shadow(c.address, c.bytes, access::read); }), 0);
    EXPECT_EQ(rt.aclrtSynchronizeStream(nullptr), 507015) << c.why;
    const std::string text = message();
    EXPECT_THAT(text, testing::AllOf(HasSubstr("aclnnAdd"), HasSubstr(c.why)));
    EXPECT_EQ(rt.aclrtSynchronizeStream(nullptr), 0);
  }
  EXPECT_EQ(emulated::enqueue(nullptr, "good", [=] { shadow(bytes + 96, 4, access::read); }), 0);
  EXPECT_EQ(emulated::enqueue(nullptr, "empty", [=] { shadow(nullptr, 0, access::read); }), 0);
  EXPECT_EQ(rt.aclrtSynchronizeStream(nullptr), 0);
  EXPECT_EQ(rt.aclrtFree(p), 0);
  ASSERT_EQ(rt.aclrtSetDevice(1), 0);
  EXPECT_EQ(rt.aclrtFree(other), 0);
  EXPECT_EQ(rt.aclrtResetDevice(1), 0);
  EXPECT_EQ(rt.aclrtResetDevice(1), 0);
  EXPECT_EQ(rt.aclrtSetDevice(0), 0);
  EXPECT_EQ(rt.aclrtResetDevice(0), 0);
  EXPECT_EQ(rt.aclrtResetDevice(0), 0);
}

TEST_F(emulator_memory, freeing_does_not_wait_and_the_pending_task_fails) {
  void* p = allocate(64);
  gate hold;
  EXPECT_EQ(emulated::enqueue(nullptr, "holds", [&] { hold.pass(); }), 0);
  EXPECT_EQ(rt.aclrtMemsetAsync(p, 64, 0, 64, nullptr), 0);
  EXPECT_EQ(rt.aclrtFree(p), 0);  // would never return if it waited
  hold.open();
  EXPECT_EQ(rt.aclrtSynchronizeStream(nullptr), 507015);
  EXPECT_THAT(message(), testing::AllOf(HasSubstr("aclrtMemsetAsync"), HasSubstr("freed")));
}

TEST_F(emulator_memory, freeing_under_a_running_task_is_an_error_of_the_task) {
  void* p = allocate(64);
  put(p, std::vector<float>(16, 2.0f));
  gate hold;
  float seen = 0;
  EXPECT_EQ(emulated::enqueue(nullptr, "reader",
                              [&, p] {
                                const std::byte* data = shadow(p, 64, access::read);
                                hold.pass();
                                std::memcpy(&seen, data, sizeof(seen));
                              }),
            0);
  hold.wait_for_visitor();
  EXPECT_EQ(rt.aclrtFree(p), 0);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(rt.aclrtFree(allocate(1 << 20)), 0);  // nobody gets the bytes meanwhile
  hold.open();
  EXPECT_EQ(rt.aclrtSynchronizeStream(nullptr), 507015);
  EXPECT_THAT(message(), HasSubstr("freed while the task used it"));
  EXPECT_EQ(seen, 2);
}

TEST_F(emulator_memory, a_freed_allocation_is_told_from_a_new_one_at_its_address) {
  emulated::settings s = small_machine();
  s.quarantine_bytes = 0;
  EXPECT_EQ(rt.aclrtResetDevice(0), 0);
  EXPECT_EQ(rt.aclFinalize(), 0);
  emulated::configure(s);
  SetUp();
  void* p = allocate(64);
  gate hold;
  EXPECT_EQ(emulated::enqueue(nullptr, "holds", [&] { hold.pass(); }), 0);
  EXPECT_EQ(rt.aclrtMemsetAsync(p, 64, 0, 64, nullptr), 0);
  EXPECT_EQ(rt.aclrtFree(p), 0);
  void* again = allocate(64);
  EXPECT_EQ(again, p);
  hold.open();
  EXPECT_EQ(rt.aclrtSynchronizeStream(nullptr), 507015);
  EXPECT_EQ(rt.aclrtFree(again), 0);
}

using emulator_memory_death = emulator_memory;

TEST_F(emulator_memory_death, the_host_cannot_touch_device_memory) {
  auto* p = static_cast<volatile float*>(allocate(64));
  EXPECT_DEATH(*p = 1, "rlcore: the host touched device memory at 0x[0-9a-f]{16}; download\\(\\) it first");
  float x = 0;
  EXPECT_DEATH(x = p[1], "the host touched device memory");
  EXPECT_EQ(x, 0);
  EXPECT_EQ(rt.aclrtFree(const_cast<float*>(p)), 0);
}

TEST_F(emulator_memory_death, other_faults_die_without_our_line) {
  volatile std::uintptr_t nowhere = 8;
  EXPECT_DEATH(*reinterpret_cast<volatile int*>(nowhere) = 1, testing::Not(HasSubstr("rlcore: ")));
}

extern "C" void leave_with_7(int) { _exit(7); }

TEST_F(emulator_memory_death, an_earlier_handler_still_runs) {
  EXPECT_EQ(rt.aclrtResetDevice(0), 0);
  EXPECT_EQ(rt.aclFinalize(), 0);
  struct sigaction mine = {}, before = {};
  mine.sa_handler = &leave_with_7;
  sigaction(SIGSEGV, &mine, &before);
  SetUp();
  auto* p = static_cast<volatile float*>(allocate(64));
  EXPECT_EXIT(*p = 1, testing::ExitedWithCode(7), "the host touched device memory");
  EXPECT_EQ(rt.aclrtFree(const_cast<float*>(p)), 0);
  EXPECT_EQ(rt.aclrtResetDevice(0), 0);
  EXPECT_EQ(rt.aclFinalize(), 0);
  sigaction(SIGSEGV, &before, &mine);
  EXPECT_EQ(mine.sa_handler, &leave_with_7);  // aclFinalize has put it back
  SetUp();
}

}  // namespace
}  // namespace RLCORE_TEST_ID
