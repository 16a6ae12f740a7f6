// What a thread may have set for its arithmetic, and what becomes of losses then.
#include "rlcore/core/as_written.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cfenv>
#include <functional>
#include <string>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "rlcore/device/cpu.hpp"
#include "rlcore/exec/serial.hpp"
#include "rlcore/exec/threads.hpp"
#include "rlcore/objective/algorithm/grpo.hpp"
#include "rlcore/objective/loop/evaluate.hpp"
#include "rlcore/tensor/span.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using testing::HasSubstr;

struct loss_of_a_row {
  std::vector<float> logp, advantage{1}, slope;
  std::vector<int> offsets;

  loss_of_a_row() : logp(4096), slope(4096), offsets{0, 4096} {
    for (std::size_t i = 0; i < logp.size(); ++i) logp[i] = -0.01f * static_cast<float>(i % 97);
  }
  template <class Executor>
  double operator()(const Executor& executor) {
    std::vector<float> old_logp = logp;
    for (std::size_t i = 0; i < logp.size(); ++i) old_logp[i] -= 0.003f * static_cast<float>(i % 31);
    const token_batch<float> batch{
        .logp = logp, .old_logp = old_logp, .ref_logp = logp, .advantage = per_row(advantage), .offsets = offsets};
    return evaluate(executor, paper::grpo(), batch, loss_counts(batch), {.logp = slope}).loss();
  }
};

std::string refusal(const std::function<void()>& f) {
  try {
    f();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

/// Whatever a test has set ends with it.
struct as_written : testing::Test {
  ~as_written() override { std::fesetenv(FE_DFL_ENV); }
};

TEST_F(as_written, is_what_a_thread_does_by_default) {
  EXPECT_NO_THROW(require_arithmetic_as_written());
  EXPECT_NO_THROW(loss_of_a_row()(serial{}));
}

TEST_F(as_written, other_rounding_is_refused) {
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    std::fesetround(mode);
    EXPECT_THAT(refusal([] { loss_of_a_row()(serial{}); }), HasSubstr("does not round to nearest"));
    EXPECT_THAT(refusal([] { cpu(1); }), HasSubstr("does not round to nearest"));
    std::fesetenv(FE_DFL_ENV);
    EXPECT_NO_THROW(loss_of_a_row()(serial{}));
  }
}

#if defined(__x86_64__)
TEST_F(as_written, subnormal_numbers_taken_for_0_are_refused) {
  for (const unsigned bit : {0x8000u, 0x0040u}) {  // results, operands
    _mm_setcsr(_mm_getcsr() | bit);
    EXPECT_THAT(refusal([] { loss_of_a_row()(serial{}); }), HasSubstr("takes subnormal numbers for 0"));
    EXPECT_THAT(refusal([] { cpu(1); }), HasSubstr("call std::fesetenv(FE_DFL_ENV) before"));
    std::fesetenv(FE_DFL_ENV);
    EXPECT_NO_THROW(loss_of_a_row()(serial{}));
  }
}
#endif

TEST_F(as_written, helpers_do_not_take_over_what_their_maker_has_set) {
  loss_of_a_row expected, found;
  const double loss = expected(serial{});
  std::fesetround(FE_UPWARD);
  const threads pool(4);
  std::fesetenv(FE_DFL_ENV);
  for (int turn = 0; turn < 20; ++turn) {
    EXPECT_EQ(found(pool), loss);
    EXPECT_EQ(found.slope, expected.slope);
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
