#include "rlcore/device/npu/queue.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "support/scripted_npu.hpp"
#include "support/thrown.hpp"

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

TEST_F(queue_test, a_missing_operator_is_named) {
  auto a = q.take<float>(6);
  try {
    q.run(table.op.aclnnSwiGlu, q.tensor(a.data(), {6}), -1, q.tensor(a.data(), {3}));
    FAIL();
  } catch (const ascend::capability_error& e) {
    EXPECT_EQ(e.call, "aclnnSwiGlu");
    EXPECT_THAT(e.what(), HasSubstr("scripted lacks the operator aclnnSwiGlu"));
  }
}

}  // namespace
