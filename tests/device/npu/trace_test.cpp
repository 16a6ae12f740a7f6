// The log of calls, on a table whose functions do nothing.
#include "rlcore/device/npu/trace.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "data/scratch.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::ascend;

std::byte room[1024];
int handles[8];

calls idle() {
  calls t;
  t.rt.aclInit = [](const char*) -> aclError { return 0; };
  t.rt.aclGetRecentErrMsg = []() -> const char* { return "why"; };
  t.rt.aclrtGetDeviceCount = [](std::uint32_t* n) -> aclError { return *n = 2, 0; };
  t.rt.aclrtCreateStream = [](aclrtStream* s) -> aclError { return *s = &handles[0], 0; };
  t.rt.aclrtDestroyStream = [](aclrtStream) -> aclError { return 0; };
  t.rt.aclrtMalloc = [](void** p, std::size_t, memory_policy) -> aclError { return *p = room, 0; };
  t.rt.aclrtFree = [](void*) -> aclError { return 107000; };
  t.rt.aclrtMemcpy = [](void*, std::size_t, const void*, std::size_t, copy_kind) -> aclError { return 0; };
  t.rt.aclrtStreamQuery = [](aclrtStream, stream_status* s) -> aclError { return *s = stream_status::not_ready, 0; };
  t.nn.aclCreateTensor = [](const std::int64_t*, std::uint64_t, data_type, const std::int64_t*, std::int64_t, format,
                            const std::int64_t*, std::uint64_t, void*) {
    static int next = 0;
    return reinterpret_cast<aclTensor*>(&handles[1 + next++ % 2]);
  };
  t.nn.aclDestroyTensor = [](const aclTensor*) -> aclnnStatus { return 0; };
  t.nn.aclCreateScalar = [](void*, data_type) { return reinterpret_cast<aclScalar*>(&handles[3]); };
  t.op.aclnnMuls.plan = [](input, scalar, output, std::uint64_t* bytes, aclOpExecutor** e) -> aclnnStatus {
    *e = reinterpret_cast<aclOpExecutor*>(&handles[4]);
    return *bytes = 512, 0;
  };
  t.op.aclnnMuls.run = [](void*, std::uint64_t, aclOpExecutor*, aclrtStream) -> aclnnStatus { return 0; };
  t.op.aclnnExp.plan = [](input, output, std::uint64_t*, aclOpExecutor**) -> aclnnStatus { return 161001; };
  return t;
}

class trace : public testing::Test {
 protected:
  trace() : table(call_log::instance().start(target, [this](std::string_view s) { lines.emplace_back(s); })) {}
  ~trace() override { call_log::instance().stop(); }
  static inline const calls target = idle();
  std::vector<std::string> lines;
  const calls& table;
};

TEST_F(trace, names_what_calls_take_and_give) {
  std::uint32_t devices = 0;
  aclrtStream stream = nullptr;
  void* memory = nullptr;
  std::byte host[8];
  table.rt.aclInit(nullptr);
  table.rt.aclrtGetDeviceCount(&devices);
  table.rt.aclrtCreateStream(&stream);
  table.rt.aclrtMalloc(&memory, 1024, memory_policy::huge_first);
  table.rt.aclrtMemcpy(static_cast<std::byte*>(memory) + 8, 8, host, 8, copy_kind::host_to_device);
  stream_status status{};
  table.rt.aclrtStreamQuery(stream, &status);
  EXPECT_EQ(status, stream_status::not_ready);
  table.rt.aclrtDestroyStream(stream);
  table.rt.aclrtFree(memory);
  table.rt.aclGetRecentErrMsg();
  EXPECT_EQ(lines, (std::vector<std::string>{
                       "t0 aclInit(null)", "t0 aclrtGetDeviceCount(_)", "t0   -> 2", "t0 aclrtCreateStream(_)",
                       "t0   -> stream#0", "t0 aclrtMalloc(_, 1024, 0)", "t0 aclrtMemcpy(#0+8, 8, host, 8, 1)",
                       "t0 aclrtStreamQuery(stream#0, _)", "t0 aclrtDestroyStream(stream#0)", "t0 aclrtFree(#0)",
                       "t0   -> 107000", "t0 aclGetRecentErrMsg() -> \"why\""}));
}

TEST_F(trace, describes_tensors_instead_of_their_addresses) {
  void* memory = nullptr;
  table.rt.aclrtMalloc(&memory, 1024, memory_policy::huge_first);
  table.rt.aclrtMalloc(&memory, 1024, memory_policy::huge_first);  // the first one's addresses, given again
  const std::int64_t shape[] = {2, 3}, turned[] = {1, 2}, all[] = {6}, more[] = {60};
  const aclTensor* in = table.nn.aclCreateTensor(shape, 2, data_type::bfloat16, nullptr, 0, format::nd, all, 1, memory);
  aclTensor* out = table.nn.aclCreateTensor(shape, 2, data_type::float32, turned, 7, format::nd, more, 1,
                                            static_cast<std::byte*>(memory) + 96);
  float half = 0.5F;
  const aclScalar* factor = table.nn.aclCreateScalar(&half, data_type::float32);
  std::uint64_t bytes = 0;
  aclOpExecutor* executor = nullptr;
  EXPECT_EQ(table.op.aclnnMuls.plan(in, factor, out, &bytes, &executor), 0);
  EXPECT_EQ(bytes, 512U);
  EXPECT_EQ(table.op.aclnnMuls.run(memory, bytes, executor, nullptr), 0);
  EXPECT_EQ(table.nn.aclDestroyTensor(in), 0);
  EXPECT_EQ(table.op.aclnnExp.plan(in, nullptr, nullptr, nullptr), 161001);
  EXPECT_EQ(lines,
            (std::vector<std::string>{"t0 aclrtMalloc(_, 1024, 0)", "t0 aclrtMalloc(_, 1024, 0)",
                                      "t0 aclnnMuls(bfloat16[2,3]@#1, 0.5, float32[2,3] strides 1,2 of 60@#1+96[7])",
                                      "t0   -> workspace 512", "t0 aclnnMuls run(#1, 512, aclnnMuls planned, null)",
                                      "t0 aclnnExp(bfloat16[2,3]@#1, null)", "t0   -> 161001"}));
}

TEST_F(trace, absent_functions_stay_absent) {
  EXPECT_EQ(table.rt.aclFinalize, nullptr);
  EXPECT_EQ(table.comm.HcclBarrier, nullptr);
  EXPECT_FALSE(table.op.aclnnExp);  // it has half of its two functions
  EXPECT_TRUE(table.op.aclnnMuls);
  EXPECT_STREQ(table.op.aclnnMuls.name, "aclnnMuls");
}

TEST_F(trace, numbers_threads_and_refuses_a_second_provider) {
  table.rt.aclInit("a.json");
  std::thread([&] { table.rt.aclInit(nullptr); }).join();
  EXPECT_EQ(lines, (std::vector<std::string>{"t0 aclInit(\"a.json\")", "t1 aclInit(null)"}));
  const calls other = idle();
  EXPECT_THROW(call_log::instance().start(other, [](std::string_view) {}), rlcore::device_error);
}

TEST(trace_file, is_asked_for_by_an_environment_variable) {
  const ::scratch::folder place;
  const std::string path = (place / "calls.txt").string();
  const calls target = idle();
  EXPECT_EQ(&traced_if_asked(target), &target);
  ASSERT_EQ(setenv("RLCORE_NPU_TRACE", path.c_str(), 1), 0);
  const calls& table = traced_if_asked(target);
  EXPECT_NE(&table, &target);
  EXPECT_EQ(&traced_if_asked(target), &table);  // and the file is not begun again
  EXPECT_EQ(&traced_if_asked(table), &table);
  table.rt.aclInit(nullptr);
  std::string line;
  std::getline(std::ifstream(path), line);
  EXPECT_EQ(line, "t0 aclInit(null)");
  call_log::instance().stop();
  ASSERT_EQ(setenv("RLCORE_NPU_TRACE", "/no/such/folder/x", 1), 0);
  EXPECT_THROW(traced_if_asked(target), rlcore::file_error);
  ASSERT_EQ(unsetenv("RLCORE_NPU_TRACE"), 0);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
