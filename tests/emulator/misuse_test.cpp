// Every misuse that AscendCL's documentation names gives the number that it names, and a text.
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>

#include "emulator/machine_fixture.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace npu_test;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

class emulator_misuse : public machine_test {
 protected:
  /// The call fails with this number, says so in the text, and the text is fetched once.
  void refused(int code, int expected, const char* text) {
    EXPECT_EQ(code, expected) << text;
    EXPECT_THAT(message(), HasSubstr(text));
    EXPECT_EQ(rt.aclGetRecentErrMsg(), nullptr);
  }
};

TEST_F(emulator_misuse, of_initialisation) {
  refused(rt.aclInit(nullptr), 100002, "aclInit");
  EXPECT_THROW(emulated::configure({}), config_error);
  EXPECT_NO_THROW(emulated::configure(small_machine()));  // it is that machine
  EXPECT_EQ(rt.aclrtResetDevice(0), 0);
  EXPECT_EQ(rt.aclFinalize(), 0);
  refused(rt.aclFinalize(), 100037, "aclFinalize");
  refused(rt.aclrtSetDevice(0), 100001, "aclInit has not been called");
  void* p = nullptr;
  refused(rt.aclrtMalloc(&p, 4, memory_policy::huge_first), 100001, "aclInit has not been called");
  refused(emulated::enqueue(nullptr, "aclnnAdd", [] {}), 100001, "aclnnAdd");
  SetUp();  // again: allowed
}

TEST_F(emulator_misuse, of_settings) {
  EXPECT_EQ(rt.aclrtResetDevice(0), 0);
  EXPECT_EQ(rt.aclFinalize(), 0);
  const auto with = [](auto change) {
    emulated::settings s;
    change(s);
    emulated::configure(s);
  };
  EXPECT_THROW(with([](auto& s) { s.devices = 0; }), config_error);
  EXPECT_THROW(with([](auto& s) { s.cores = 0; }), config_error);
  EXPECT_THROW(with([](auto& s) { s.soc.clear(); }), config_error);
  EXPECT_THROW(with([](auto& s) { s.cann_version = 70000; }), config_error);
  EXPECT_THROW(with([](auto& s) { s.memory_bytes = 1; }), config_error);
  with([](auto& s) { s.memory_bytes = ~std::size_t{0} / 4; });
  refused(rt.aclInit(nullptr), 200000, "address space");
  emulated::configure(small_machine());
  SetUp();
}

TEST_F(emulator_misuse, of_devices) {
  refused(rt.aclrtSetDevice(2), 107001, "no device 2");
  refused(rt.aclrtSetDevice(-1), 107001, "no device -1");
  refused(rt.aclrtResetDevice(2), 107001, "no device 2");
  refused(rt.aclrtResetDevice(1), 107002, "not set");
  refused(rt.aclrtGetDevice(nullptr), 100000, "null");
  refused(rt.aclrtGetDeviceCount(nullptr), 100000, "null");
  std::size_t n = 0;
  refused(rt.aclrtGetMemInfo(ascend::memory_kind::hbm, &n, nullptr), 100000, "null");
  refused(rt.aclrtCtxSetSysParamOpt(static_cast<ascend::system_option>(9), 1), 107000, "no option 9");
  refused(rt.aclrtCtxSetSysParamOpt(ascend::system_option::deterministic, 7), 107000, "value 7");
  refused(rt.aclrtCtxSetSysParamOpt(ascend::system_option::strong_consistency, 1), 107000,
          "no option 2");  // from 8.5 on
  refused(rt.aclrtSetDeviceSatMode(static_cast<ascend::overflow_mode>(2)), 107000, "mode 2");
}

TEST_F(emulator_misuse, a_thread_without_a_context) {
  void* p = allocate(4);
  const auto s = stream();
  const auto e = event();
  std::thread([&] {
    std::int32_t device = 0;
    std::size_t n = 0;
    void* x = nullptr;
    stream_status status{};
    refused(rt.aclrtGetDevice(&device), 107002, "no current context");
    refused(rt.aclrtGetCurrentContext(&x), 107002, "no current context");
    refused(rt.aclrtGetMemInfo(ascend::memory_kind::hbm, &n, &n), 107002, "no current context");
    refused(rt.aclrtMalloc(&x, 4, memory_policy::huge_first), 107002, "no current context");
    refused(rt.aclrtFree(p), 107002, "no current context");
    refused(rt.aclrtMallocHost(&x, 4), 107002, "no current context");
    refused(rt.aclrtMemset(p, 4, 0, 4), 107002, "no current context");
    refused(rt.aclrtMemcpy(p, 4, &n, 4, copy_kind::host_to_device), 107002, "no current context");
    refused(rt.aclrtCreateStream(&x), 107002, "no current context");
    refused(rt.aclrtSynchronizeStream(s), 107002, "no current context");
    refused(rt.aclrtStreamQuery(s, &status), 107002, "no current context");
    refused(rt.aclrtCreateEventExWithFlag(&x, ascend::event_sync), 107002, "no current context");
    refused(rt.aclrtRecordEvent(e, s), 107002, "no current context");
    refused(rt.aclrtSynchronizeDevice(), 107002, "no current context");
    refused(rt.aclrtCtxSetSysParamOpt(ascend::system_option::deterministic, 1), 107002, "no current context");
    refused(emulated::enqueue(s, "aclnnAdd", [] {}), 107002, "no current context");
    EXPECT_FALSE(emulated::deterministic());
    EXPECT_EQ(emulated::current_device(), -1);
  }).join();
  EXPECT_EQ(rt.aclrtDestroyEvent(e), 0);
  EXPECT_EQ(rt.aclrtDestroyStream(s), 0);
  EXPECT_EQ(rt.aclrtFree(p), 0);
}

TEST_F(emulator_misuse, of_memory) {
  void *p = allocate(100), *x = nullptr;
  float host[25] = {};
  refused(rt.aclrtMalloc(nullptr, 4, memory_policy::huge_first), 100000, "null");
  refused(rt.aclrtMalloc(&x, 0, memory_policy::huge_first), 100000, "0 bytes");
  refused(rt.aclrtFree(nullptr), 100000, "null");
  refused(rt.aclrtFree(host), 107000, "not an address of device memory");
  refused(rt.aclrtFree(static_cast<char*>(p) + 4), 107000, "but before it");
  refused(rt.aclrtMallocHost(&x, 0), 107000, "0 bytes");
  refused(rt.aclrtMallocHost(nullptr, 4), 100000, "null");
  refused(rt.aclrtFreeHost(nullptr), 100000, "null");
  refused(rt.aclrtFreeHost(host), 107000, "not memory of aclrtMallocHost");
  ASSERT_EQ(rt.aclrtSetDevice(1), 0);
  refused(rt.aclrtFree(p), 107000, "lies on device 0");
  refused(rt.aclrtMemset(p, 100, 0, 100), 107000, "lies on device 0");
  EXPECT_EQ(rt.aclrtResetDevice(1), 0);
  ASSERT_EQ(rt.aclrtSetDevice(0), 0);
  EXPECT_EQ(rt.aclrtResetDevice(0), 0);
  EXPECT_EQ(rt.aclrtFree(p), 0);
  refused(rt.aclrtFree(p), 107000, "freed already");
  refused(rt.aclrtMemset(p, 100, 0, 100), 107000, "no memory is allocated there");
}

TEST_F(emulator_misuse, of_copies) {
  void *a = allocate(100), *b = allocate(100);
  float host[25] = {}, other[25] = {};
  const auto copy = [&](void* to, const void* from, std::size_t bytes, copy_kind kind, std::size_t room = 100) {
    const int code = rt.aclrtMemcpy(to, room, from, bytes, kind);
    const std::string text = message();
    const int later = rt.aclrtMemcpyAsync(to, room, from, bytes, kind, nullptr);
    EXPECT_EQ(later, code);  // both check the same
    emulated::fail(code, text);
    return code;
  };
  refused(copy(nullptr, host, 4, copy_kind::host_to_device), 100000, "null");
  refused(copy(a, nullptr, 4, copy_kind::host_to_device), 100000, "null");
  refused(copy(a, host, 0, copy_kind::host_to_device), 107000, "0 bytes");
  refused(copy(a, host, 8, copy_kind::host_to_device, 4), 107000, "8 bytes into room for 4");
  refused(copy(a, host, 4, static_cast<copy_kind>(5)), 100000, "no kind 5");
  refused(copy(a, host, 4, copy_kind::device_to_host), 107000, "from host to device");
  refused(copy(a, host, 4, copy_kind::device_to_device), 107000, "from host to device");
  refused(copy(a, b, 4, copy_kind::host_to_device), 107000, "from device to device");
  refused(copy(host, a, 4, copy_kind::host_to_device), 107000, "from device to host");
  refused(copy(static_cast<char*>(a) + 90, host, 11, copy_kind::host_to_device), 107000, "reach past");
  refused(rt.aclrtMemcpy(a, 200, b, 101, copy_kind::device_to_device), 107000, "reach past");
  EXPECT_EQ(rt.aclrtMemcpy(other, 100, host, 100, copy_kind::host_to_host), 0);
  refused(rt.aclrtMemcpyAsync(other, 100, host, 100, copy_kind::host_to_host, nullptr), 207000, "host to host");
  refused(rt.aclrtMemset(a, 4, 0, 8), 107000, "8 bytes");
  refused(rt.aclrtMemset(a, 4, 0, 0), 107000, "0 bytes");
  refused(rt.aclrtMemset(nullptr, 4, 0, 4), 100000, "null");
  refused(rt.aclrtMemset(host, 4, 0, 4), 107000, "not memory of");
  refused(rt.aclrtMemsetAsync(a, 100, 0, 101, nullptr), 107000, "101 bytes");
  EXPECT_EQ(rt.aclrtFree(a), 0);
  EXPECT_EQ(rt.aclrtFree(b), 0);
}

TEST_F(emulator_misuse, of_streams_and_events) {
  const auto s = stream();
  const auto silent = event(ascend::event_time_line), timeless = event(ascend::event_sync), good = event();
  void* x = nullptr;
  float t = 0;
  stream_status status{};
  event_status recorded{};
  refused(rt.aclrtCreateStream(nullptr), 100000, "null");
  refused(rt.aclrtCreateStreamWithConfig(&x, 8, 0), 107000, "priority 8");
  refused(rt.aclrtCreateStreamWithConfig(&x, 0, 0x80), 107000, "flag 128");
  refused(rt.aclrtDestroyStream(nullptr), 100000, "null");
  refused(rt.aclrtDestroyStream(good), 107000, "not a stream");
  refused(rt.aclrtStreamQuery(s, nullptr), 100000, "null");
  refused(rt.aclrtCreateEventExWithFlag(nullptr, 1), 100000, "null");
  refused(rt.aclrtCreateEventExWithFlag(&x, 0), 107000, "flag 0");
  refused(rt.aclrtRecordEvent(nullptr, s), 100000, "null");
  refused(rt.aclrtRecordEvent(s, s), 107000, "not an event");
  refused(rt.aclrtQueryEventStatus(good, nullptr), 100000, "null");
  refused(rt.aclrtStreamWaitEvent(s, silent), 107000, "SYNC");
  refused(rt.aclrtEventElapsedTime(&t, good, silent), 107006, "not been reached");
  EXPECT_EQ(rt.aclrtRecordEvent(good, s), 0);
  EXPECT_EQ(rt.aclrtRecordEvent(timeless, s), 0);
  EXPECT_EQ(rt.aclrtSynchronizeStream(s), 0);
  refused(rt.aclrtEventElapsedTime(&t, good, timeless), 107006, "TIME_LINE");
  refused(rt.aclrtEventElapsedTime(nullptr, good, good), 100000, "null");

  ASSERT_EQ(rt.aclrtSetDevice(1), 0);
  refused(rt.aclrtSynchronizeStream(s), 107003, "another context, of device 0");
  refused(rt.aclrtDestroyStream(s), 107003, "another context");
  refused(rt.aclrtStreamQuery(s, &status), 107003, "another context");
  refused(emulated::enqueue(s, "aclnnAdd", [] {}), 107003, "another context");
  refused(rt.aclrtRecordEvent(good, nullptr), 107003, "device 0");
  refused(rt.aclrtQueryEventStatus(good, &recorded), 107003, "device 0");
  refused(rt.aclrtDestroyEvent(good), 107003, "device 0");
  EXPECT_EQ(rt.aclrtResetDevice(1), 0);
  ASSERT_EQ(rt.aclrtSetDevice(0), 0);
  EXPECT_EQ(rt.aclrtResetDevice(0), 0);

  for (const auto e : {silent, timeless, good}) EXPECT_EQ(rt.aclrtDestroyEvent(e), 0);
  EXPECT_EQ(rt.aclrtDestroyStream(s), 0);
  refused(rt.aclrtDestroyStream(s), 107000, "destroyed already");
  refused(rt.aclrtSynchronizeStream(s), 107000, "destroyed already");
  refused(rt.aclrtDestroyEvent(good), 107000, "destroyed already");
}

TEST_F(emulator_misuse, of_contexts) {
  ascend::aclrtContext first = nullptr, second = nullptr;
  EXPECT_EQ(rt.aclrtGetCurrentContext(&first), 0);
  refused(rt.aclrtDestroyContext(first), 107000, "aclrtSetDevice made it");
  refused(rt.aclrtCreateContext(nullptr, 0), 100000, "null");
  refused(rt.aclrtCreateContext(&second, 5), 107001, "no device 5");
  const auto s = stream();
  EXPECT_EQ(rt.aclrtCreateContext(&second, 0), 0);
  refused(rt.aclrtSynchronizeStream(s), 107003, "another context");  // the same device, yet
  const auto t = stream();
  refused(rt.aclrtDestroyContext(second), 107000, "streams of the context");
  EXPECT_EQ(rt.aclrtDestroyStream(t), 0);
  EXPECT_EQ(rt.aclrtDestroyContext(second), 0);
  std::int32_t device = 0;
  refused(rt.aclrtGetDevice(&device), 107002, "no current context");
  refused(rt.aclrtSetCurrentContext(second), 107000, "not a context");
  refused(rt.aclrtSetCurrentContext(nullptr), 100000, "null");
  EXPECT_EQ(rt.aclrtSetCurrentContext(first), 0);
  EXPECT_EQ(rt.aclrtDestroyStream(s), 0);
}

TEST_F(emulator_misuse, a_device_is_reset_when_its_last_user_resets_it) {
  ASSERT_EQ(rt.aclrtSetDevice(0), 0);
  EXPECT_EQ(rt.aclrtResetDevice(0), 0);
  std::int32_t device = -1;
  EXPECT_EQ(rt.aclrtGetDevice(&device), 0);
  EXPECT_EQ(device, 0);
  std::atomic<bool> ran{false};
  EXPECT_EQ(emulated::enqueue(nullptr, "last", [&] { ran = true; }), 0);
  EXPECT_EQ(rt.aclrtResetDevice(0), 0);
  EXPECT_TRUE(ran);  // tasks are waited for
  refused(rt.aclrtGetDevice(&device), 107002, "no current context");
  ASSERT_EQ(rt.aclrtSetDevice(0), 0);
}

TEST_F(emulator_misuse, what_is_not_released_is_reported) {
  allocate(100);
  allocate(28);
  stream();
  event();
  void* host = nullptr;
  EXPECT_EQ(rt.aclrtMallocHost(&host, 10), 0);
  emulated::born(emulated::host_object::executor);
  EXPECT_EQ(rt.aclrtSetDevice(0), 0);
  testing::internal::CaptureStderr();
  EXPECT_EQ(rt.aclFinalize(), 0);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr(emulated::last_report()));
  EXPECT_EQ(emulated::last_report(),
            "device 0: 1 streams not destroyed\n"
            "device 0: 1 events not destroyed\n"
            "device 0: 2 allocations not freed (128 bytes)\n"
            "device 0: not reset (aclrtSetDevice was called 2 times more than aclrtResetDevice)\n"
            "the host: 1 allocations not freed (10 bytes)\n"
            "the host: 1 aclOpExecutor not destroyed\n");
  SetUp();
}

TEST_F(emulator_misuse, finalising_in_the_midst_of_work_drops_it) {
  gate hold;
  EXPECT_EQ(emulated::enqueue(nullptr, "holds", [&] { hold.pass(); }), 0);
  std::atomic<bool> ran{false};
  auto alive = std::make_shared<int>(0);
  const std::weak_ptr<int> dropped = alive;
  EXPECT_EQ(emulated::enqueue(nullptr, "dropped", [&ran, alive = std::move(alive)] { ran = true; }), 0);
  hold.wait_for_visitor();
  std::thread opener([&] {
    for (int i = 0; i < 60000 && !dropped.expired(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    hold.open();
  });
  testing::internal::CaptureStderr();
  EXPECT_EQ(rt.aclFinalize(), 0);
  testing::internal::GetCapturedStderr();
  opener.join();
  EXPECT_FALSE(ran);
  EXPECT_THAT(emulated::last_report(), HasSubstr("not reset"));
  SetUp();
}

TEST_F(emulator_misuse, what_the_machine_is) {
  EXPECT_STREQ(rt.aclrtGetSocName(), "Ascend910B3");
  ascend::package_version version;
  EXPECT_EQ(rt.aclsysGetCANNVersion(ascend::package_name::cann, &version), 0);
  EXPECT_STREQ(version.version, "8.3.RC1");
  std::int32_t number = 0;
  char package[] = "runtime";
  EXPECT_EQ(rt.aclsysGetVersionNum(package, &number), 200001);
  std::uint32_t count = 0;
  EXPECT_EQ(rt.aclrtGetDeviceCount(&count), 0);
  EXPECT_EQ(count, 2u);
  EXPECT_EQ(emulated::saturation(), ascend::overflow_mode::infnan);
  EXPECT_FALSE(emulated::deterministic());
  EXPECT_EQ(rt.aclrtCtxSetSysParamOpt(ascend::system_option::deterministic, 1), 0);
  EXPECT_EQ(rt.aclrtSetDeviceSatMode(ascend::overflow_mode::saturation), 0);
  EXPECT_TRUE(emulated::deterministic());
  EXPECT_EQ(emulated::saturation(), ascend::overflow_mode::saturation);
  ASSERT_EQ(rt.aclrtSetDevice(1), 0);
  EXPECT_FALSE(emulated::deterministic());  // of a context, not of the process
  EXPECT_EQ(emulated::saturation(), ascend::overflow_mode::infnan);
  EXPECT_EQ(rt.aclrtResetDevice(1), 0);

  EXPECT_EQ(rt.aclrtResetDevice(0), 0);
  EXPECT_EQ(rt.aclFinalize(), 0);
  emulated::settings s = small_machine();
  s.cann_version = 80500;
  s.soc = "Ascend910_9391";
  emulated::configure(s);
  EXPECT_EQ(rt.aclsysGetVersionNum(package, &number), 0);
  EXPECT_EQ(number, 80500000);
  EXPECT_EQ(rt.aclsysGetCANNVersion(ascend::package_name::cann, &version), 0);
  EXPECT_STREQ(version.version, "8.5.0");
  EXPECT_STREQ(rt.aclrtGetSocName(), "Ascend910_9391");
  SetUp();
}

using emulator_exit = emulator_misuse;

TEST_F(emulator_exit, a_process_that_forgets_everything_ends_all_the_same) {
  EXPECT_EXIT(
      {
        for (int i = 0; i < 3; ++i) {
          const auto s = stream();
          for (int n = 0; n < 1000; ++n)
            emulated::enqueue(s, "sleeps", [] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); });
        }
        std::exit(3);
      },
      testing::ExitedWithCode(3), "");
}

}  // namespace
}  // namespace RLCORE_TEST_ID
