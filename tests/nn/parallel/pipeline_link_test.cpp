// What stages of a pipeline send each other, and what happens when something else comes, or nothing.
#include "rlcore/nn/parallel/pipeline_link.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/parallel/communicator/threads.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace std::chrono_literals;
using rlcore::communication_error;
using rlcore::nn::pipeline_link_of;
using rlcore::parallel::run_ranks;
using rlcore::parallel::thread_rank;
using testing::HasSubstr;
using link = pipeline_link_of<thread_rank>;

const std::vector<std::int32_t> begins{0, 2, 5};

/// Calls f(link) in every stage; returns the message of a communication_error.
template <class F>
std::string run(int stages, F f, std::chrono::milliseconds deadline = 20s) {
  try {
    run_ranks(
        stages,
        [&](thread_rank& ranks) {
          thread_rank forwards = ranks.split(0, ranks.rank()), backwards = ranks.split(0, ranks.rank());
          link l(forwards, backwards, 2);
          f(l);
        },
        deadline);
  } catch (const communication_error& e) {
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos);
    return e.what();
  }
  return "no exception";
}

void send(link& l, std::size_t rows, std::size_t width, const std::vector<std::int32_t>& sequences = begins) {
  l.send_forward(std::vector<float>(rows * width, 0.5F), width, sequences);
}
void receive(link& l, std::size_t rows = 5, std::size_t width = 4) {
  std::vector<float> x(rows * width);
  l.receive_forward(x, width, begins);
}

TEST(pipeline_link, rows_and_gradients_of_many_passes) {
  EXPECT_EQ(run(3,
                [](link& l) {
                  EXPECT_EQ(l.stages(), 3);
                  std::vector<float> x(20), dx(20);
                  for (int pass = 0; pass < 4; ++pass) {
                    if (l.first())
                      x.assign(20, static_cast<float>(pass));
                    else
                      l.receive_forward(x, 4, begins);
                    EXPECT_EQ(x[19], static_cast<float>(pass));
                    if (!l.last()) l.send_forward(x, 4, begins);
                  }
                  for (int pass = 0; pass < 4; ++pass) {  // every other pass has no gradient in these rows
                    std::vector<std::uint32_t> ranges{1, 2};
                    bool rows = pass % 2 == 0;
                    dx.assign(20, static_cast<float>(10 + pass));
                    if (!l.last()) {
                      dx.assign(20, -1.0F), ranges.clear();
                      EXPECT_EQ(l.receive_backward(dx, 4, ranges, begins), rows);
                      EXPECT_EQ(ranges, (std::vector<std::uint32_t>{1, 2}));
                      EXPECT_EQ(dx[0], rows ? static_cast<float>(10 + pass) : -1.0F);
                    }
                    if (!l.first())
                      l.send_backward(rows ? std::span<const float>(dx) : std::span<const float>(), 4, ranges, begins);
                  }
                }),
            "no exception");
}

TEST(pipeline_link, another_pass_than_expected_ends_both_stages) {
  const auto sent = [](auto f) { return run(2, [&](link& l) { l.first() ? f(l) : receive(l); }); };
  const std::string expected = "stage 1 expected F of pass 0 (5 rows of 4), stage 0 sent ";
  EXPECT_THAT(sent([](link& l) { send(l, 6, 4); }), HasSubstr(expected + "F of pass 0 (6 rows of 4)"));
  EXPECT_THAT(sent([](link& l) { send(l, 4, 5); }), HasSubstr(expected + "F of pass 0 (4 rows of 5)"));
  EXPECT_THAT(sent([](link& l) { send(l, 5, 4, {0, 3, 5}); }), HasSubstr("(5 rows of 4) of other sequences"));
  // Stage 1 has received a pass of an earlier list that stage 0 does not know of.
  EXPECT_THAT(run(2,
                  [](link& l) {
                    if (l.first()) return send(l, 5, 4), send(l, 3, 4);
                    receive(l), receive(l);
                  }),
              HasSubstr("stage 1 expected F of pass 1 (5 rows of 4), stage 0 sent F of pass 1 (3 rows of 4)"));
}

TEST(pipeline_link, a_stage_that_is_late_or_gone) {
  const auto begin = std::chrono::steady_clock::now();
  const std::string late = run(
      2,
      [](link& l) {
        if (l.first()) std::this_thread::sleep_for(1s);
        l.first() ? send(l, 5, 4) : receive(l);
      },
      100ms);
  EXPECT_THAT(late, HasSubstr("waited 200 ms in vain for rank 0"));  // twice the deadline
  EXPECT_THAT(late, HasSubstr("; stage 1 waited for F of pass 0 (5 rows of 4) from stage 0"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
  EXPECT_THAT(run(2,
                  [](link& l) {
                    if (!l.first()) receive(l);
                  }),
              HasSubstr("rank 0"));
}

TEST(pipeline_link, stages_plus_one_passes_are_under_way_at_most) {
  std::atomic<int> sent = 0, taken = 0;
  EXPECT_EQ(run(2,
                [&](link& l) {
                  if (!l.first()) std::this_thread::sleep_for(100ms);
                  for (int pass = 0; pass < 20; ++pass) {
                    if (l.first()) {
                      send(l, 5, 4);
                      EXPECT_LE(++sent, taken + 4);  // one may be taken and not yet counted
                    } else {
                      EXPECT_LE(sent, taken + 3);
                      receive(l), ++taken;
                    }
                  }
                }),
            "no exception");
  EXPECT_THAT(run(
                  2,
                  [](link& l) {
                    for (int pass = 0; l.first() && pass < 4; ++pass) send(l, 5, 4);
                    if (!l.first()) std::this_thread::sleep_for(1s);
                  },
                  100ms),
              HasSubstr("rank 1 has not received 6 messages"));  // header and rows of three passes
}

}  // namespace
}  // namespace RLCORE_TEST_ID
