#include "rlcore/device/npu/queue.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "support/scripted_npu.hpp"
#include "support/thrown.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using scripted::state;
using testing::HasSubstr;

struct queue_test : testing::Test {
  const ascend::calls& table = scripted::restart();
  ascend::queue q{ascend::session::open(table, "scripted"), 0};
};

TEST_F(queue_test, copies_come_back_whatever_their_size) {
  for (const std::size_t n : {std::size_t{1}, std::size_t{1000}, (std::size_t{5} << 20) + 77}) {
    std::vector<unsigned char> out(n), back(n);
    std::iota(out.begin(), out.end(), static_cast<unsigned char>(n));
    void* p = q.allocate(n);
    q.upload(p, out.data(), n);
    q.download(back.data(), p, n);
    EXPECT_EQ(out, back) << n;
    q.zero(p, n);
    q.download(back.data(), p, n);
    EXPECT_EQ(back, std::vector<unsigned char>(n)) << n;
    q.release(p);
  }
}

TEST_F(queue_test, an_operator_has_arguments_workspace_and_both_phases) {
  auto a = q.take<float>(6), b = q.take<float>(6), c = q.take<float>(4);
  state().workspace = 5000;
  state().log.clear();
  q.run(table.op.aclnnMatmul, q.tensor(a.data(), {2, 3}), q.tensor(b.data(), {3, 2}), q.tensor(c.data(), {2, 2}),
        ascend::cube_math::keep);
  EXPECT_EQ(state().count("plan"), 1);
  EXPECT_EQ(state().count("run"), 1);
  EXPECT_EQ(state().count("aclDestroyTensor"), 3);
  EXPECT_EQ(state().count("aclrtSynchronizeStream"), 0) << "operators do not wait";
}

TEST_F(queue_test, an_asynchronous_error_names_the_last_operations) {
  auto a = q.take<float>(4);
  q.run(table.op.aclnnExp, q.tensor(a.data(), {4}), q.tensor(a.data(), {4}));
  q.wait();  // Exp was fine
  for (int i = 0; i < 3; ++i)
    q.run(table.op.aclnnAdd, q.tensor(a.data(), {4}), q.tensor(a.data(), {4}), q.scalar(1.0f), q.tensor(a.data(), {4}));
  q.run(table.op.aclnnMatmul, q.tensor(a.data(), {2, 2}), q.tensor(a.data(), {2, 2}), q.tensor(a.data(), {2, 2}),
        ascend::cube_math::keep);
  state().returns["aclrtSynchronizeStream"] = 507015;
  state().message = "EZ9999: Inner Error!\n\tthe aicore execution is abnormal";
  const std::string text = thrown_by([&] { q.wait(); });
  EXPECT_THAT(text, HasSubstr("507015 (exception in an AI core): EZ9999: Inner Error! the aicore execution"));
  EXPECT_THAT(text, HasSubstr("latest first: aclnnMatmul, aclnnAdd x3"));
  EXPECT_THAT(text, testing::Not(HasSubstr("aclnnExp")));
  EXPECT_EQ(text.find('\n'), std::string::npos);
}

TEST_F(queue_test, a_refused_operator_tells_its_arguments) {
  auto a = q.take<float>(6);
  state().returns["plan"] = 161002;
  state().message = "mat1 and mat2 do not fit";
  try {
    q.run(table.op.aclnnMatmul, q.tensor(a.data(), {2, 3}), q.tensor(a.data(), {2, 3}), q.tensor(a.data(), {2, 2}),
          ascend::cube_math::keep);
    FAIL();
  } catch (const ascend::npu_error& e) {
    EXPECT_EQ(e.code, 161002);
    EXPECT_EQ(e.call, "aclnnMatmul");
    EXPECT_EQ(e.domain, ascend::domain::operators);
    EXPECT_STREQ(e.what(),
                 "npu: aclnnMatmulGetWorkspaceSize returned 161002 (invalid argument of an operator): mat1 and mat2 do "
                 "not fit; arguments: float32[2,3], float32[2,3], float32[2,2], 0");
  }
}

TEST_F(queue_test, what_users_stumble_over_comes_with_what_to_do) {
  auto a = q.take<float>(6);
  for (const auto& [code, advice] : {std::pair{561003, "is the kernels package of this SoC installed"},
                                     std::pair{561107, "source set_env.sh of CANN before the program starts"},
                                     std::pair{561112, "install the kernels package of this SoC"}}) {
    state().returns["plan"] = code;
    EXPECT_THAT(thrown_by([&] { q.run(table.op.aclnnExp, q.tensor(a.data(), {6}), q.tensor(a.data(), {6})); }),
                HasSubstr(advice));
  }
}

TEST_F(queue_test, a_missing_operator_is_named) {
  auto a = q.take<float>(6);
  try {
    q.run(table.op.aclnnSwiGlu, q.tensor(a.data(), {6}), -1, q.tensor(a.data(), {3}));
    FAIL();
  } catch (const ascend::capability_error& e) {
    EXPECT_EQ(e.call, "aclnnSwiGlu");
    EXPECT_THAT(e.what(), HasSubstr("npu: scripted lacks aclnnSwiGlu, which a fused kernel needs; "));
  }
}

TEST_F(queue_test, a_missing_operator_comes_with_the_feature_that_needs_it) {
  const auto a = q.take<float>(6);
  const auto ids = q.take<std::int64_t>(6);
  EXPECT_EQ(thrown_by([&] {
              q.run(table.op.aclnnSort, q.tensor(a.data(), {6}), true, 0, true, q.tensor(a.data(), {6}),
                    q.tensor(ids.data(), {6}));
            }),
            "npu: scripted lacks aclnnSort, which generation needs; npu_doctor lists what else is missing");
}

TEST_F(queue_test, an_executor_that_gets_no_workspace_is_destroyed) {
  auto a = q.take<float>(6);
  state().workspace = std::uint64_t{1} << 50;
  EXPECT_THAT(thrown_by([&] { q.run(table.op.aclnnExp, q.tensor(a.data(), {6}), q.tensor(a.data(), {6})); }),
              HasSubstr("out of memory on device 0: 1024.00 TiB asked for"));
  EXPECT_EQ(state().count("aclDestroyAclOpExecutor"), 1);
  state().workspace = 100;
  q.run(table.op.aclnnExp, q.tensor(a.data(), {6}), q.tensor(a.data(), {6}));
}

TEST_F(queue_test, the_workspace_only_grows) {
  auto a = q.take<float>(6);
  const auto run = [&](std::uint64_t bytes) {
    state().workspace = bytes;
    q.run(table.op.aclnnExp, q.tensor(a.data(), {6}), q.tensor(a.data(), {6}));
  };
  run(5 << 20);
  const auto before = q.memory().statistics();
  run(100);
  run(5 << 20);
  EXPECT_EQ(q.memory().statistics().in_use, before.in_use);
  EXPECT_EQ(q.memory().statistics().mallocs, before.mallocs);
  run(50 << 20);
  EXPECT_GT(q.memory().statistics().in_use, before.in_use);
  EXPECT_EQ(state().count("aclrtSynchronizeStream"), 0) << "the old one goes back in the stream's order";
}

TEST_F(queue_test, descriptions_start_at_multiples_of_32_bytes) {
  alignas(64) static float data[64];
  state().log.clear();
  {
    const auto t = q.tensor(data + 11, {2, 3}, {5, 1}, 1);
  }  // 44 bytes = 32 + 3 elements
  EXPECT_EQ(state().log[0], "aclCreateTensor shape 2 3 strides 5 1 offset 4 storage 12 at 32");
  state().log.clear();
  {
    const auto t = q.tensor(data, {4, 0, 3});
  }
  EXPECT_EQ(state().log[0], "aclCreateTensor shape 4 0 3 strides 3 3 1 offset 0 storage 0 at 0");
  state().log.clear();
  {
    const auto t = q.tensor(data + 1, {});
  }
  EXPECT_EQ(state().log[0], "aclCreateTensor shape strides offset 1 storage 2 at 0");
  EXPECT_THROW(q.tensor(data, {2, 3}, {1}), std::invalid_argument);
  EXPECT_THROW(q.tensor(data, {1, 1, 1, 1, 1, 1, 1, 1, 1}), std::invalid_argument);
  state().returns["aclCreateTensor"] = 1;
  EXPECT_THAT(thrown_by([&] { q.tensor(data, {1}); }), HasSubstr("aclCreateTensor returned"));
}

TEST_F(queue_test, what_makes_up_a_list_is_destroyed_once) {
  auto a = q.take<float>(6);
  q.run(table.op.aclnnCat, q.list({q.tensor(a.data(), {3}), q.tensor(a.data() + 3, {3})}), 0, q.tensor(a.data(), {6}));
  EXPECT_EQ(state().count("aclDestroyTensor"), 1) << "the list owns the two others";
  state().fails_once["aclCreateTensorList"] = 1;
  EXPECT_THROW(q.list({q.tensor(a.data(), {3}), q.tensor(a.data() + 3, {3})}), ascend::npu_error);
  EXPECT_EQ(state().count("aclDestroyTensor"), 3) << "no list, no owner";
  EXPECT_EQ(state().log.back(), "aclDestroyTensor");
}

TEST_F(queue_test, queues_that_differ_in_determinism_tell_the_context_in_turn) {
  ascend::queue loose{ascend::session::open(table, "scripted"), 0, {false, false, false}};
  auto a = q.take<float>(6);
  const auto run = [&](ascend::queue& on) {
    on.run(table.op.aclnnExp, on.tensor(a.data(), {6}), on.tensor(a.data(), {6}));
  };
  for (int i = 0; i < 3; ++i) run(q);
  EXPECT_EQ(state().count("aclrtCtxSetSysParamOpt"), 1);
  run(loose);
  run(q);
  EXPECT_EQ(state().count("aclrtCtxSetSysParamOpt 1"), 2);
  EXPECT_EQ(state().count("aclrtCtxSetSysParamOpt 0"), 1);
}

TEST_F(queue_test, nothing_is_left_behind) {
  {
    ascend::queue other{ascend::session::open(table, "scripted"), 1};
    auto a = other.take<float>(1000);
    std::vector<float> host(1000);
    other.upload(a.data(), host.data(), 4000);
    state().workspace = 1000;
    other.run(table.op.aclnnExp, other.tensor(a.data(), {1000}), other.tensor(a.data(), {1000}));
    other.after(other);
  }
  EXPECT_TRUE(state().memory.empty());
  EXPECT_EQ(state().handles.size(), 1u) << "the stream of q";
  EXPECT_EQ(state().count("aclrtMallocHost"), state().count("aclrtFreeHost"));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
