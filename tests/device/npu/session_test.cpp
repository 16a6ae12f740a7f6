// Sessions, device guards and handles: who initialises and finalises, and in which order and on which device objects
// go.
#include "rlcore/device/npu/session.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rlcore/device/npu/allocator.hpp"
#include "rlcore/device/npu/stream.hpp"
#include "rlcore/emulator/runtime.hpp"
#include "support/scripted_npu.hpp"
#include "support/thrown.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using ascend::device_handle;
using ascend::session;
using scripted::state;
using testing::HasSubstr;

struct session_test : testing::Test {
  const ascend::calls& table = scripted::restart();
  std::shared_ptr<session> open() { return session::open(table, "scripted"); }
};

TEST_F(session_test, one_per_table_from_the_first_to_the_last_owner) {
  {
    const auto first = open(), second = open();
    EXPECT_EQ(first, second);
    EXPECT_EQ(state().count("aclInit"), 1);
    EXPECT_EQ(first->device_count(), 2);
    EXPECT_EQ(first->known().soc, "Ascend910B3");
    EXPECT_EQ(first->known().cann_version, 80300);
    EXPECT_EQ(state().count("aclFinalize"), 0);
  }
  EXPECT_EQ(state().count("aclFinalize"), 1);
  {
    const auto again = open();
    EXPECT_EQ(state().count("aclInit"), 2);
  }
  EXPECT_EQ(state().count("aclFinalize"), 2);
}

TEST(sessions, of_several_threads_end_before_others_begin) {
  ascend::emulated::configure({});
  const ascend::calls table = [] {
    ascend::calls t;
    ascend::emulated::fill(t.rt);
    return t;
  }();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        const auto s = session::open(table, "emulator");
        EXPECT_TRUE(s->initialised());
        EXPECT_NO_THROW(s->device(0));
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(ascend::emulated::last_report(), "");
}

TEST_F(session_test, a_runtime_that_others_initialised_is_theirs_to_finalise) {
  state().initialised = true;
  {
    const auto s = open();
    EXPECT_FALSE(s->initialised());
    const device_handle d(s, 0);
  }
  EXPECT_EQ(state().count("aclFinalize"), 0);
  EXPECT_EQ(state().log.back(), "aclrtResetDevice 0") << "the device was set by the session, so it is reset";
}

TEST_F(session_test, a_runtime_that_does_not_start_says_why) {
  state().returns["aclInit"] = 100039;
  EXPECT_EQ(thrown_by([&] { open(); }),
            "npu: aclInit of scripted returned 100039 (a stub library was called); keep devlib directories out of "
            "LD_LIBRARY_PATH: they only serve linking");
  state().returns.clear();
  state().returns["aclrtGetDeviceCount"] = 507899;
  state().message = "  drv\n\tfailed ";
  EXPECT_THAT(
      thrown_by([&] { open(); }),
      testing::StartsWith("npu: aclrtGetDeviceCount returned 507899 (failure of the driver): drv failed (latest "
                          "first); "));
  EXPECT_EQ(state().count("aclFinalize"), 1) << "what was initialised before the failure";
}

TEST_F(session_test, versions) {
  EXPECT_EQ(ascend::version_number("8.1.RC1"), 80100);
  EXPECT_EQ(ascend::version_number("8.5.0"), 80500);
  EXPECT_EQ(ascend::version_number("8.5.1.alpha002"), 80501);
  EXPECT_EQ(ascend::version_number("9.1.0"), 90100);
  EXPECT_EQ(ascend::version_number("unknown"), 0);
  EXPECT_EQ(ascend::version_number(""), 0);
  ascend::calls newer = table;  // 8.5 has a function of its own, for when the older one is gone
  newer.rt.aclsysGetCANNVersion = nullptr;
  newer.rt.aclsysGetVersionNum = [](char*, std::int32_t* v) {
    *v = 8 * 10000000 + 5 * 100000 + 2 * 1000;
    return 0;
  };
  EXPECT_EQ(ascend::ask_capabilities(newer).cann_version, 80502);
  EXPECT_EQ(ascend::ask_capabilities(newer).cann_version_text, "8.5.2");
}

TEST_F(session_test, no_such_device) {
  const auto s = open();
  EXPECT_EQ(thrown_by([&] { device_handle(s, 7); }),
            "npu: aclrtSetDevice(7), the machine has 2 devices, returned 107001 (invalid device); npu_doctor lists the "
            "devices; ASCEND_RT_VISIBLE_DEVICES limits and renumbers them");
  state().returns["aclrtSetDevice"] = 507033;
  EXPECT_THAT(thrown_by([&] { device_handle(s, 1); }),
              HasSubstr("507033 (the device cannot be set up); npu-smi info and fuser"));
}

TEST_F(session_test, a_device_is_set_once_and_reset_once) {
  {
    const auto s = open();
    const device_handle a(s, 1), b(s, 1);
    for (int i = 0; i < 3; ++i) const auto guard = a.enter();
    EXPECT_EQ(state().count("aclrtSetDevice"), 1) << "it counts references";
  }
  EXPECT_EQ(state().count("aclrtResetDevice"), 1);
  EXPECT_EQ(state().log.back(), "aclFinalize");
}

TEST_F(session_test, guards_nest_and_put_back) {
  const auto s = open();
  const device_handle zero(s, 0), one(s, 1);
  EXPECT_EQ(state().current, scripted::contexts) << "making a handle changes the thread's device only if it had none";
  {
    const auto outer = one.enter();
    EXPECT_EQ(state().current, scripted::contexts + 1);
    {
      const auto inner = zero.enter();
      EXPECT_EQ(state().current, scripted::contexts);
      const auto same = zero.enter();
    }
    EXPECT_EQ(state().current, scripted::contexts + 1);
  }
  EXPECT_EQ(state().current, scripted::contexts);
}

TEST_F(session_test, handles_are_destroyed_on_their_device_and_before_the_session) {
  {
    auto s = open();
    const device_handle zero(s, 0), one(s, 1);
    ascend::stream stream(one);
    ascend::event event(one), timed(one, ascend::event_sync | ascend::event_time_line);
    const ascend::pinned_buffer pinned(one, 100);
    s.reset();
    event.record(stream);
    event.block(stream);
    EXPECT_TRUE(event.passed());
    event.synchronize();
    EXPECT_EQ(timed.milliseconds_since(timed), 1);
    EXPECT_TRUE(stream.idle());
    const ascend::stream moved(std::move(stream));
    EXPECT_EQ(stream.get(), nullptr);
    EXPECT_NE(moved.get(), nullptr);
    ascend::event other(one);
    other = std::move(event);
    EXPECT_EQ(state().current, scripted::contexts);
    state().log.clear();
  }
  const std::vector<std::string> expected = {"aclrtDestroyEvent",  "aclrtDestroyStream", "aclrtFreeHost",
                                             "aclrtDestroyEvent",  "aclrtDestroyEvent",  "aclrtResetDevice 0",
                                             "aclrtResetDevice 1", "aclFinalize"};
  std::vector<std::string> calls;
  for (const std::string& line : state().log)
    if (line.rfind("aclrtSetCurrentContext", 0) != 0) calls.push_back(line);
  EXPECT_EQ(calls, expected);
  EXPECT_EQ(state().count("aclrtSetCurrentContext"), 10) << "there and back, for each";
  EXPECT_TRUE(state().handles.empty());
}

TEST_F(session_test, destructors_do_not_throw_and_the_session_takes_note) {
  const auto s = open();
  const device_handle zero(s, 0);
  EXPECT_EQ(s->first_loss(), "");
  {
    const ascend::stream stream(zero);
    const ascend::event event(zero);
    state().returns["aclrtDestroyEvent"] = 507899;
    state().returns["aclrtDestroyStream"] = 507015;
  }
  EXPECT_EQ(s->first_loss(), "aclrtDestroyEvent returned 507899");
}

TEST_F(session_test, what_cannot_be_made_leaves_nothing) {
  const auto s = open();
  const device_handle zero(s, 0);
  state().returns["aclrtCreateStreamWithConfig"] = 207008;
  EXPECT_THAT(thrown_by([&] { ascend::stream{zero}; }), HasSubstr("207008 (out of streams)"));
  state().returns["aclrtCreateEventExWithFlag"] = 207007;
  EXPECT_THAT(thrown_by([&] { ascend::event{zero}; }), HasSubstr("207007 (out of events)"));
  EXPECT_TRUE(state().handles.empty());
}

TEST(codes_test, numbers_are_listed_once_and_in_order) {
  for (const auto codes :
       {std::span<const ascend::code>(ascend::acl_codes), std::span<const ascend::code>(ascend::hccl_codes)})
    for (std::size_t i = 0; i < codes.size(); ++i) {
      EXPECT_FALSE(codes[i].name.empty());
      EXPECT_TRUE(i == 0 || codes[i - 1].number < codes[i].number) << codes[i].number;
    }
  EXPECT_EQ(ascend::describe(ascend::domain::collectives, 9).name, "timeout");
  EXPECT_EQ(ascend::describe(ascend::domain::collectives, 24).name, "out of memory");
  for (const int newer : {23, 1041})
    EXPECT_NE(ascend::describe(ascend::domain::collectives, newer).name, "unknown code") << newer;
  EXPECT_EQ(ascend::describe(ascend::domain::runtime, 9).name, "unknown code");
  EXPECT_EQ(ascend::describe(ascend::domain::operators, 561003).name, "the operator's kernel was not found");
}

TEST(emulated_messages, stay_until_they_are_read_the_latest_first) {
  ascend::emulated::configure({});
  ascend::runtime_calls rt;
  ascend::emulated::fill(rt);
  ASSERT_EQ(rt.aclInit(nullptr), 0);
  (void)rt.aclGetRecentErrMsg();
  EXPECT_NE(rt.aclrtSetDevice(99), 0);
  EXPECT_EQ(rt.aclrtSetDevice(0), 0) << "takes no message away";
  EXPECT_NE(rt.aclrtResetDevice(98), 0);
  EXPECT_THAT(rt.aclGetRecentErrMsg(),
              testing::StartsWith("aclrtResetDevice: no device 98\naclrtSetDevice: no device 99;"));
  EXPECT_EQ(rt.aclGetRecentErrMsg(), nullptr);
  for (int i = 0; i < 1000; ++i) (void)rt.aclrtSetDevice(99);
  EXPECT_LE(std::string(rt.aclGetRecentErrMsg()).size(), 4096U);
  EXPECT_EQ(rt.aclrtResetDevice(0), 0);
  EXPECT_EQ(rt.aclFinalize(), 0);
}

TEST(emulated_messages, of_ignored_failures_are_not_told_with_later_ones) {
  ascend::emulated::configure({});
  static const ascend::calls table = [] {
    using ascend::emulated::fail;
    ascend::calls t;
    ascend::emulated::fill(t.rt);
    t.rt.aclrtSetStreamFailureMode = [](ascend::aclrtStream, ascend::failure_mode) { return fail(207000, "no mode"); };
    t.rt.aclrtGetMemInfo = [](ascend::memory_kind, std::size_t*, std::size_t*) { return fail(107000, "no info"); };
    t.rt.aclrtDestroyEvent = [](ascend::aclrtEvent e) {
      return ascend::emulated::aclrtDestroyEvent(e) + fail(507899, "no end");
    };
    return t;
  }();
  ASSERT_EQ(table.rt.aclInit(nullptr), 0);
  EXPECT_NE(table.rt.aclrtSetDevice(99), 0) << "another part of the process leaves a message";
  {
    const auto s = session::open(table, "emulator");  // and is told that it was initialised before
    const auto expect_one = [&](const char* after) {
      const std::string text = thrown_by([&] { device_handle(s, 9); });
      EXPECT_THAT(text, HasSubstr("(invalid device): aclrtSetDevice: no device 9; there are ")) << after;
      EXPECT_THAT(text, testing::Not(HasSubstr("latest first"))) << after;
    };
    expect_one("aclInit");
    const device_handle zero(s, 0);
    expect_one("a thread without a context");
    {
      const ascend::stream stream(zero);
    }
    expect_one("a stream without a mode");
    {
      const ascend::event event(zero);
    }
    expect_one("an event that was not destroyed");
    EXPECT_EQ(s->first_loss(), "aclrtDestroyEvent returned 507899");
    EXPECT_EQ(ascend::allocator::of(zero)->available(), std::nullopt);
    expect_one("memory of unknown size");
    std::thread([&] {
      {
        const auto guard = zero.enter();
      }
      expect_one("another thread");
    }).join();
  }
  EXPECT_EQ(table.rt.aclFinalize(), 0);
}

TEST_F(session_test, several_messages_are_told_as_such) {
  state().returns["aclrtGetDeviceCount"] = 507000;
  state().message = "later\nbefore\n";
  EXPECT_EQ(thrown_by([&] { open(); }),
            "npu: aclrtGetDeviceCount returned 507000 (internal error of the runtime): later before (latest first)");
}

TEST(codes_test, messages_have_one_line) {
  EXPECT_EQ(ascend::one_line("\n a\r\n\tb  c\x01 \n"), "a b c");
  EXPECT_EQ(ascend::one_line(""), "");
  EXPECT_EQ(ascend::one_line("abcdef", 3), "abc ...");
}

}  // namespace
}  // namespace RLCORE_TEST_ID
