// Random programs, right and wrong, on the emulated machine: it never crashes, never hides an error that the model of
// fuzz_model.hpp predicts, and memory holds what the model says whenever the program has waited as it must.
// RLCORE_FUZZ_SECONDS makes it run for longer, RLCORE_FUZZ_SEED begins elsewhere.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <thread>
#include <vector>

#include "emulator/fuzz_program.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace npu_test;

double seconds() {
  const char* text = std::getenv("RLCORE_FUZZ_SECONDS");
  return text == nullptr ? 2 : std::atof(text);
}
std::uint64_t first_seed() {
  const char* text = std::getenv("RLCORE_FUZZ_SEED");
  return text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
}

TEST(emulator_fuzz, random_programs_agree_with_the_model) {
  std::uint64_t seed = first_seed();
  const auto start = std::chrono::steady_clock::now();
  do {
    emulated::settings s;
    s.devices = 3;
    s.seed = seed;
    s.delay_microseconds = seed % 4 == 1 ? 200 : 0;
    const emulator machine(s);
    const ascend::runtime_calls& rt = machine.calls().rt;
    ASSERT_EQ(machine.name(), "emulator of Ascend910B3");
    ASSERT_EQ(rt.aclInit(nullptr), 0);
    std::vector<std::thread> threads;
    for (int d = 0; d < 3; ++d)
      threads.emplace_back([&, d] { random_program(d, 3 * seed + static_cast<std::uint64_t>(d), "seed").run(1000); });
    for (std::thread& t : threads) t.join();
    ASSERT_EQ(rt.aclFinalize(), 0);
    if (HasFailure()) FAIL() << "RLCORE_FUZZ_SEED=" << seed;
    ASSERT_EQ(emulated::last_report(), "");
    ++seed;
  } while (std::chrono::steady_clock::now() - start < std::chrono::duration<double>(seconds()));
  RecordProperty("last_seed", std::to_string(seed - 1));
}

/// Calls without a plan by threads that share handles and memory: whatever they do, the machine answers with numbers
/// that are documented, ends, and is as new after the next aclInit.
class chaos {
 public:
  explicit chaos(std::uint64_t seed) : seed_(seed) {}

  void run(int threads, int calls) {
    std::vector<std::thread> all;
    for (int t = 0; t < threads; ++t) all.emplace_back([this, t, calls] { one_thread(t, calls); });
    for (std::thread& t : all) t.join();
  }

 private:
  static constexpr std::size_t slots = 8;

  void one_thread(int t, int calls) {
    fuzz_random random(seed_ * 64 + static_cast<std::uint64_t>(t));
    std::vector<float> mine(256);
    for (int i = 0; i < calls; ++i) {
      const int code = call(random, mine);
      const bool documented = code == 0 || (code >= 100000 && code <= 107999) || code == 161002 || code == 200000 ||
                              (code >= 207000 && code <= 207008) || code == 507015 || code == 507035 || code == 507046;
      EXPECT_TRUE(documented) << code;
    }
  }
  int call(fuzz_random& random, std::vector<float>& mine) {
    std::atomic<void*>& memory = memory_[random.below(slots)];
    std::atomic<void*>& stream = streams_[random.below(slots)];
    std::atomic<void*>& event = events_[random.below(slots)];
    const std::size_t bytes = random.below(1100);
    const auto kind = static_cast<copy_kind>(random.below(6));
    const auto device = static_cast<std::int32_t>(random.below(3));
    void* made = nullptr;
    stream_status status{};
    int code = 0;
    switch (random.below(24)) {
      case 0:
        return rt.aclrtResetDevice(device);
      case 1:
      case 2:
        return rt.aclrtSetDevice(device);
      case 3:
      case 4:
        code = rt.aclrtMalloc(&made, bytes, memory_policy::huge_first);
        if (code == 0) memory = made;
        return code;
      case 5:
        return rt.aclrtFree(memory);
      case 6:
      case 7:
        code = rt.aclrtCreateStream(&made);
        if (code == 0) stream = made;
        return code;
      case 8:
        return rt.aclrtDestroyStream(stream);
      case 9:
        code = rt.aclrtCreateEventExWithFlag(&made, random.below(16));
        if (code == 0) event = made;
        return code;
      case 10:
        return rt.aclrtDestroyEvent(event);
      case 11:
        return rt.aclrtRecordEvent(event, stream);
      case 12:
        return rt.aclrtStreamWaitEvent(stream, event);
      case 13:
        return rt.aclrtSynchronizeEvent(event);
      case 14:
        return rt.aclrtSynchronizeStreamWithTimeout(stream, static_cast<std::int32_t>(random.below(4)) - 2);
      case 15:
        return rt.aclrtSynchronizeDevice();
      case 16:
        return rt.aclrtMemcpyAsync(memory, bytes, mine.data(), random.below(1024), kind, stream);
      case 17:
        return rt.aclrtMemcpyAsync(mine.data(), 1024, memory, random.below(1025), kind, stream);
      case 18:
        return rt.aclrtMemcpyAsync(memory, bytes, memory_[random.below(slots)], random.below(1024), kind, stream);
      case 19:
        return rt.aclrtMemsetAsync(memory, bytes, 1, random.below(1100), stream);
      case 20:
        return rt.aclrtMemset(memory, bytes, 1, random.below(1100));
      case 21:
        return emulated::enqueue(stream, "reads", [p = memory.load(), bytes] {
          std::byte first{};
          if (const std::byte* data = emulated::shadow(p, bytes, emulated::access::read); data != nullptr)
            emulated::move_bytes(&first, data, 1);
        });
      case 22:
        return random.one_in(10) ? rt.aclrtSetStreamFailureMode(stream, ascend::failure_mode::stop_on_failure)
                                 : rt.aclrtStreamQuery(stream, &status);
      default:
        if (!random.one_in(8)) return rt.aclrtMemcpy(mine.data(), 1024, memory, random.below(1025), kind);
        return random.one_in(4) ? rt.aclFinalize() : rt.aclInit(nullptr);
    }
  }

  const ascend::runtime_calls& rt = emulator().calls().rt;
  const std::uint64_t seed_;
  std::array<std::atomic<void*>, slots> memory_{}, streams_{}, events_{};
};

TEST(emulator_fuzz, threads_without_any_order_do_no_harm) {
  std::uint64_t seed = first_seed();
  const auto start = std::chrono::steady_clock::now();
  const emulator machine{emulated::settings{}};
  const ascend::runtime_calls& rt = machine.calls().rt;
  testing::internal::CaptureStderr();  // the reports of what they did not release
  do {
    rt.aclInit(nullptr);
    chaos(seed).run(6, 2000);
    rt.aclFinalize();
    ++seed;
  } while (std::chrono::steady_clock::now() - start < std::chrono::duration<double>(seconds()));
  testing::internal::GetCapturedStderr();
  ASSERT_EQ(rt.aclInit(nullptr), 0);
  ASSERT_EQ(rt.aclrtSetDevice(0), 0);
  std::size_t available = 0, total = 0;
  EXPECT_EQ(rt.aclrtGetMemInfo(ascend::memory_kind::hbm, &available, &total), 0);
  EXPECT_EQ(available, total);
  EXPECT_EQ(rt.aclrtResetDevice(0), 0);
  EXPECT_EQ(rt.aclFinalize(), 0);
  EXPECT_EQ(emulated::last_report(), "");
}

}  // namespace
}  // namespace RLCORE_TEST_ID
