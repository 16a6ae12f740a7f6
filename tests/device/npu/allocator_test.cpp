// The cache of device memory: on a table that keeps count, and on the emulator, where streams really run behind.
#include "rlcore/device/npu/allocator.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <thread>
#include <vector>

#include "rlcore/device/npu/stream.hpp"
#include "rlcore/emulator/runtime.hpp"
#include "support/scripted_npu.hpp"
#include "support/thrown.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using ascend::allocator;
using scripted::state;
using testing::HasSubstr;

constexpr std::size_t mebi = std::size_t{1} << 20;

struct allocator_test : testing::Test {
  const ascend::calls& table = scripted::restart();
  ascend::device_handle device{ascend::session::open(table, "scripted"), 0};
  std::shared_ptr<allocator> memory = allocator::of(device);
  ascend::stream first{device}, second{device};
  void* take(std::size_t bytes, bool exact = false) { return memory->allocate(bytes, first.get(), exact); }
};

TEST_F(allocator_test, blocks_hold_what_kernels_may_touch) {
  EXPECT_EQ(allocator::block_bytes(1), 512u);
  EXPECT_EQ(allocator::block_bytes(480), 512u);
  EXPECT_EQ(allocator::block_bytes(481), 1024u) << "512 and 32 behind it";
  EXPECT_EQ(allocator::block_bytes(992), 1024u);
  std::vector<std::pair<std::uintptr_t, std::size_t>> blocks;
  for (const std::size_t bytes : std::initializer_list<std::size_t>{1, 480, 481, 5000, 2000000, 3, 40000000}) {
    const auto p = reinterpret_cast<std::uintptr_t>(take(bytes));
    EXPECT_EQ(p % 64, 0u);
    blocks.emplace_back(p, (bytes + 31) / 32 * 32 + 32);
  }
  std::sort(blocks.begin(), blocks.end());
  for (std::size_t i = 1; i < blocks.size(); ++i)
    EXPECT_LE(blocks[i - 1].first + blocks[i - 1].second, blocks[i].first);
  EXPECT_EQ(take(0), nullptr);
  memory->release(nullptr);
  for (const auto& b : blocks) memory->release(reinterpret_cast<void*>(b.first));
  EXPECT_EQ(memory->statistics().in_use, 0u);
}

TEST_F(allocator_test, a_stream_gets_back_at_once_what_it_released_and_others_do_not) {
  void* p = take(1000);
  memory->release(p);
  EXPECT_NE(memory->allocate(1000, second.get()), p);
  EXPECT_EQ(take(1000), p);
  EXPECT_EQ(memory->statistics().mallocs, 2u);
  EXPECT_EQ(state().count("aclrtSynchronizeStream"), 0);
}

TEST_F(allocator_test, what_another_stream_uses_comes_back_behind_its_event) {
  void* p = take(3 * mebi);
  ascend::event mark(device);
  mark.record(second);
  memory->used_until(p, std::move(mark));
  state().event_passed = false;
  memory->release(p);
  void* q = take(3 * mebi);
  EXPECT_NE(q, p);
  state().event_passed = true;
  memory->release(q);
  EXPECT_EQ(take(3 * mebi), p);
}

TEST_F(allocator_test, neighbours_join_again) {
  std::vector<void*> pieces;
  for (int i = 0; i < 16; ++i) pieces.push_back(take(100000));  // of one segment of 2 MiB
  EXPECT_EQ(memory->statistics().mallocs, 1u);
  for (const std::size_t i : std::initializer_list<std::size_t>{1, 3, 2, 0, 15, 4, 14, 6, 5, 13, 7, 12, 8, 11, 10, 9})
    memory->release(pieces[i]);
  EXPECT_EQ(take(1000000), pieces[0]);
  EXPECT_EQ(memory->statistics().mallocs, 1u);
}

TEST_F(allocator_test, a_full_device_gives_up_its_cache_and_tries_once_more) {
  state().room = 64 * mebi;
  void* kept = take(10 * mebi);
  memory->release(take(40 * mebi));  // cached, too small for what comes
  state().log.clear();
  void* p = take(50 * mebi);
  EXPECT_NE(p, nullptr);
  EXPECT_EQ(state().count("aclrtMalloc"), 2);
  EXPECT_EQ(state().count("aclrtFree"), 1);
  const auto at = [](const std::string& name) {
    for (std::size_t i = 0; i < state().log.size(); ++i)
      if (state().log[i] == name) return static_cast<int>(i);
    return -1;
  };
  ASSERT_NE(at("aclrtSynchronizeDevice"), -1);
  EXPECT_LT(at("aclrtSynchronizeDevice"), at("aclrtFree")) << "aclrtFree does not wait for kernels";
  state().log.clear();
  const std::string message = thrown_by([&] { take(20 * mebi); });
  EXPECT_THAT(message, HasSubstr("npu: out of memory on device 0: 20.00 MiB asked for while 60."));
  EXPECT_THAT(message, HasSubstr("of 64.00 MiB left (aclrtMalloc: 207001)"));
  EXPECT_EQ(state().count("aclrtMalloc"), 2) << "once more, not for ever";
  memory->release(p);
  EXPECT_NE(take(20 * mebi), nullptr) << "a failure breaks nothing";
  EXPECT_THROW(take(static_cast<std::size_t>(-1)), ascend::npu_error);
  (void)kept;
}

TEST_F(allocator_test, other_failures_are_not_taken_for_a_full_device) {
  state().returns["aclrtMalloc"] = 507899;
  EXPECT_THAT(thrown_by([&] { take(10); }), HasSubstr("aclrtMalloc of 2.00 MiB returned 507899"));
  EXPECT_EQ(state().count("aclrtMalloc"), 1);
}

TEST_F(allocator_test, exact_blocks_are_ascends_own_and_live_until_released) {
  void* p = take(1000, true);
  EXPECT_EQ(state().memory.at(p), 1000u);
  state().log.clear();
  memory->release(p);
  EXPECT_EQ(state().memory.count(p), 0u);
  const std::vector<std::string> order = {"aclrtSynchronizeStream", "aclrtFree"};
  EXPECT_EQ(state().log, order) << "aclrtFree does not wait for kernels";
}

TEST_F(allocator_test, a_stream_that_goes_away_takes_its_cache_along) {
  void* kept = take(30 * mebi);
  memory->release(take(3 * mebi));
  memory->release(take(1000));
  memory->forget(first.get());
  EXPECT_EQ(memory->statistics().segments, 1u);
  EXPECT_EQ(state().memory.size(), 1u);
  memory->release(kept);
}

TEST_F(allocator_test, the_same_sizes_again_need_nothing_new) {
  std::vector<void*> blocks;
  const auto step = [&] {
    for (std::size_t i = 1; i <= 60; ++i) blocks.push_back(take(i * 70001));
    for (void* p : blocks) memory->release(p);
    blocks.clear();
  };
  step();
  const auto before = memory->statistics();
  for (int i = 0; i < 5; ++i) step();
  EXPECT_EQ(memory->statistics().mallocs, before.mallocs);
  EXPECT_EQ(memory->statistics().peak, before.peak);
}

TEST_F(allocator_test, everything_goes_back_in_the_end) {
  for (std::size_t i = 1; i < 30; ++i) memory->release(take(i * 100000));
  EXPECT_EQ(allocator::of(device), memory) << "one per device";
  memory->release_cache();
  EXPECT_EQ(memory->statistics().segments, 0u);
  EXPECT_EQ(memory->statistics().reserved, 0u);
  take(100);
  memory.reset();
  EXPECT_TRUE(state().memory.empty());
}

/// Threads with a stream each write a pattern of their own and read it back later, through blocks that change hands.
TEST(allocator_on_the_emulator, blocks_never_have_two_users) {
  ascend::emulated::settings machine;
  machine.memory_bytes = 256 * mebi;
  machine.delay_microseconds = 20;
  ascend::emulated::configure(machine);
  ascend::calls table;
  ascend::emulated::fill(table.rt);
  {
    const ascend::device_handle device(ascend::session::open(table, "emulator"), 1);
    const auto memory = allocator::of(device);
    const auto work = [&](unsigned seed) {
      const ascend::stream stream(device);
      ascend::staging staging(stream, 1 << 14);
      std::mt19937 random(seed);
      struct held {
        void* data;
        std::vector<std::uint32_t> content;
      };
      std::vector<held> blocks;
      const auto check = [&](std::size_t i) {
        std::vector<std::uint32_t> back(blocks[i].content.size());
        staging.download(back.data(), blocks[i].data, back.size() * 4);
        EXPECT_EQ(back, blocks[i].content);
        memory->release(blocks[i].data);
        blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(i));
      };
      for (std::uint32_t step = 0; step < 120; ++step) {
        const std::size_t n = 1 + random() % 20000;
        blocks.push_back(
            {memory->allocate(n * 4, stream.get(), step % 7 == 0), std::vector<std::uint32_t>(n, (seed << 16) + step)});
        staging.upload(blocks.back().data, blocks.back().content.data(), n * 4);
        if (random() % 2 == 0) check(random() % blocks.size());
      }
      while (!blocks.empty()) check(0);
      stream.synchronize();
      memory->forget(stream.get());
    };
    std::thread a(work, 1), b(work, 2);
    work(3);
    a.join();
    b.join();
    EXPECT_EQ(memory->statistics().in_use, 0u);
  }
  EXPECT_EQ(ascend::emulated::last_report(), "");
}

TEST(allocator_on_the_emulator, a_full_device) {
  ascend::emulated::settings machine;
  machine.memory_bytes = 64 * mebi;
  ascend::emulated::configure(machine);
  ascend::calls table;
  ascend::emulated::fill(table.rt);
  {
    const ascend::device_handle device(ascend::session::open(table, "emulator"), 0);
    const ascend::stream stream(device);
    const auto memory = allocator::of(device);
    memory->release(memory->allocate(40 * mebi, stream.get()));
    void* p = memory->allocate(50 * mebi, stream.get());
    EXPECT_THAT(thrown_by([&] { memory->allocate(30 * mebi, stream.get()); }),
                HasSubstr("npu: out of memory on device 0: 30.00 MiB asked for while 5"));
    memory->release(p);
  }
  EXPECT_EQ(ascend::emulated::last_report(), "");
}

}  // namespace
}  // namespace RLCORE_TEST_ID
