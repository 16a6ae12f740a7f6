// What happens when a rank misbehaves: an exception that names ranks and collectives, in every rank, and never a hang.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/device/device_group.hpp"
#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/parallel/communicator/communicator.hpp"
#include "rlcore/parallel/communicator/threads.hpp"

namespace RLCORE_TEST_ID {
namespace {

using rlcore::communication_error;
using rlcore::parallel::run_ranks;
using rlcore::parallel::thread_rank;
using testing::HasSubstr;
using namespace std::chrono_literals;

/// The message of the communication_error that f ends with; counts the ranks that saw one.
template <class F>
std::string message(int size, F f, std::atomic<int>* seen = nullptr, std::chrono::milliseconds deadline = 20s) {
  try {
    run_ranks(
        size,
        [&](thread_rank& c) {
          try {
            f(c);
          } catch (const communication_error&) {
            if (seen) ++*seen;
            throw;
          }
        },
        deadline);
  } catch (const communication_error& e) {
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos);
    return e.what();
  }
  return "no exception";
}

void gather(thread_rank& c, std::size_t n = 1) {
  std::vector<float> in(n), out(n * static_cast<std::size_t>(c.size()));
  c.all_gather(std::span<const float>(in), std::span(out));
}

/// Devices that never hear of the others.
struct broken_devices : rlcore::device_group {
  void all_gather(const void*, void*, std::span<const std::size_t>) override {
    throw communication_error("rlcore: waited in vain");
  }
  void all_to_all(const void*, std::span<const std::size_t>, void*, std::span<const std::size_t>) override {}
};

TEST(failure, of_the_devices_ends_the_other_ranks_before_this_one_has_returned) {
  std::atomic<bool> heard{false};
  const std::string what = message(2, [&](thread_rank& c) {
    rlcore::parallel::any_communicator_of<thread_rank&> any(c);
    any.link_devices([](auto&) { return std::make_unique<broken_devices>(); });
    if (c.rank() == 0) {
      try {
        any.barrier();
      } catch (const communication_error& e) {
        EXPECT_THAT(e.what(), HasSubstr("waited in vain"));
        EXPECT_THAT(any.failure(), HasSubstr("waited in vain"));
        heard = true;
        throw;
      }
    }
    const std::vector<std::size_t> bytes{4, 4};
    try {
      any.device_all_gather(nullptr, nullptr, bytes);
    } catch (const communication_error&) {
      while (!heard) std::this_thread::sleep_for(1ms);  // as if its stream could not be given up
      throw;
    }
  });
  EXPECT_THAT(what, HasSubstr("waited in vain"));
}

TEST(failure, the_cause_is_told_and_not_that_of_a_rank_that_waited_for_it) {
  std::atomic<bool> gone{false};
  EXPECT_THROW(run_ranks(2,
                         [&](thread_rank& c) {
                           if (c.rank() == 0) {
                             gone = true;
                             throw communication_error("rlcore: rank 1 has left");
                           }
                           while (!gone) std::this_thread::sleep_for(1ms);
                           std::this_thread::sleep_for(20ms);
                           throw std::out_of_range("no such row");
                         }),
               std::out_of_range);
}

TEST(failure, another_collective) {
  std::atomic<int> seen{0};
  const std::string what = message(
      3,
      [](thread_rank& c) {
        c.barrier();
        if (c.rank() == 2) {
          std::vector<float> x(4);
          c.broadcast(std::span(x), 1);
        } else {
          gather(c, 4);
        }
      },
      &seen);
  EXPECT_THAT(what, HasSubstr("rank 0 in collective 2, all_gather (4 elements of 4 bytes, kind 'f', root 0)"));
  EXPECT_THAT(what, HasSubstr("rank 2 in collective 2, broadcast (4 elements of 4 bytes, kind 'f', root 1)"));
  EXPECT_EQ(seen.load(), 3);
}

TEST(failure, another_size) {
  const std::string what = message(2, [](thread_rank& c) { gather(c, c.rank() == 0 ? 3 : 5); });
  EXPECT_THAT(what, HasSubstr("all_gather (3 elements"));
  EXPECT_THAT(what, HasSubstr("all_gather (5 elements"));
}

TEST(failure, another_type_of_the_same_size) {
  const std::string what = message(2, [](thread_rank& c) {
    std::vector<float> x(2);
    std::vector<int> y(2);
    c.rank() == 0 ? c.broadcast(std::span(x), 0) : c.broadcast(std::span(y), 0);
  });
  EXPECT_THAT(what, HasSubstr("kind 'f'"));
  EXPECT_THAT(what, HasSubstr("kind 'i'"));
}

TEST(failure, another_root) {
  EXPECT_THAT(message(2,
                      [](thread_rank& c) {
                        std::vector<float> x(2);
                        c.broadcast(std::span(x), c.rank());
                      }),
              HasSubstr("root 1"));
}

TEST(failure, lists_of_counts_that_do_not_match) {
  EXPECT_THAT(message(2,
                      [](thread_rank& c) {
                        const std::vector<float> in(3);
                        std::vector<float> out(3);
                        const std::vector<std::size_t> one_two{1, 2};
                        c.all_to_all_v(std::span<const float>(in), std::span<const std::size_t>(one_two),
                                       std::span(out), std::span<const std::size_t>(one_two));
                      }),
              testing::AnyOf(HasSubstr("all_to_all_v: rank 1 sends 1 elements, rank 0 expects 2"),
                             HasSubstr("all_to_all_v: rank 0 sends 2 elements, rank 1 expects 1")));
}

TEST(failure, a_rank_that_throws_ends_the_others) {
  std::atomic<int> told{0};
  EXPECT_THAT(
      [&] {
        run_ranks(4, [&](thread_rank& c) {
          if (c.rank() == 2) throw std::out_of_range("no such token");
          try {
            c.barrier();
          } catch (const communication_error& e) {
            if (std::string(e.what()).find("rank 2 failed: no such token") != std::string::npos) ++told;
            throw;
          }
        });
      },
      testing::ThrowsMessage<std::out_of_range>("no such token"));
  EXPECT_EQ(told.load(), 3);
}

TEST(failure, a_rank_that_returns_early) {
  std::atomic<int> seen{0};
  const std::string what = message(
      3,
      [](thread_rank& c) {
        c.barrier();
        if (c.rank() != 1) gather(c);
      },
      &seen);
  EXPECT_THAT(what, HasSubstr("rank 1"));
  EXPECT_THAT(what, HasSubstr("returned"));
  EXPECT_THAT(what, HasSubstr("all_gather"));
  EXPECT_EQ(seen.load(), 2);
}

TEST(failure, a_rank_that_does_not_come) {
  std::atomic<int> seen{0};
  const auto start = std::chrono::steady_clock::now();
  const std::string what = message(
      3,
      [&](thread_rank& c) {
        c.barrier();
        while (c.rank() == 1 && seen < 2) std::this_thread::sleep_for(1ms);
        gather(c, 6);
      },
      &seen, 2s);
  EXPECT_THAT(what, HasSubstr("in collective 2, all_gather (6 elements of 4 bytes"));
  EXPECT_THAT(what, HasSubstr("waited 2000 ms in vain for rank 1 (after 1 collectives)"));
  EXPECT_EQ(seen.load(), 3);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 60s);
}

TEST(failure, abort_ends_all_ranks) {
  std::atomic<int> seen{0};
  const std::string what = message(
      3,
      [](thread_rank& c) {
        if (c.rank() == 1) c.abort("loss is not finite");
        for (;;) c.barrier();
      },
      &seen);
  EXPECT_THAT(what, HasSubstr("rank 1 aborted: loss is not finite"));
  EXPECT_EQ(seen.load(), 3);
  EXPECT_THROW(rlcore::parallel::alone{}.abort("x"), communication_error);
}

TEST(failure, in_one_group_ends_all_groups) {
  std::atomic<int> seen{0};
  const auto halves = [&](auto f) {
    return message(
        4,
        [&](thread_rank& c) {
          thread_rank half = c.split(c.rank() / 2, 0);
          f(c, half);
        },
        &seen);
  };
  const std::string what = halves([](thread_rank& c, thread_rank& half) {
    if (c.rank() == 3) return half.barrier();
    if (c.rank() == 2) return gather(half, 3);
    for (;;) half.barrier();
  });
  EXPECT_THAT(what,
              HasSubstr("rank 2 in collective 1, all_gather (3 elements of 4 bytes, kind 'f', root 0) of the group "
                        "of ranks 2 3, but rank 3 in collective 1, barrier of the group of ranks 2 3"));
  EXPECT_EQ(seen.load(), 4);

  seen = 0;
  EXPECT_THAT(halves([](thread_rank& c, thread_rank& half) {
                if (c.rank() == 0) return;
                half.barrier();
              }),
              HasSubstr("rank 0"));
  EXPECT_GE(seen.load(), 1);  // and by whoever is still at work
}

TEST(failure, a_shift_by_another_distance) {
  const std::string what = message(2, [](thread_rank& c) {
    const std::vector<float> in(2);
    std::vector<float> out(2);
    c.shift(std::span<const float>(in), std::span(out), c.rank());
  });
  EXPECT_THAT(what, HasSubstr("shift (2 elements of 4 bytes, kind 'f', by 0)"));
  EXPECT_THAT(what, HasSubstr("shift (2 elements of 4 bytes, kind 'f', by 1)"));
}

TEST(failure, a_rank_that_never_ends_ends_the_process_where_that_is_wanted) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(run_ranks(
                  2,
                  [](thread_rank& c) {
                    while (c.rank() == 1) std::this_thread::sleep_for(10ms);
                    c.barrier();
                  },
                  1s, rlcore::parallel::stuck_rank::end_process),
              testing::ExitedWithCode(75),
              "rank 1 does not end: rank 0 in collective 1, barrier waited 1000 ms in vain");
}

TEST(failure, every_collective_after_it_fails_as_well) {
  run_ranks(2, [](thread_rank& c) {
    EXPECT_THROW(gather(c, c.rank() == 0 ? 1 : 2), communication_error);
    EXPECT_THROW(c.barrier(), communication_error);
    EXPECT_THROW(gather(c), communication_error);
  });
}

/// Rank 1 receives two floats from rank 0, which calls f.
template <class F>
std::string received(F f, std::chrono::milliseconds deadline = 20s) {
  return message(
      2,
      [&](thread_rank& c) {
        std::vector<float> x(2);
        if (c.rank() == 0) return f(c);
        c.receive(std::span(x), 0);
      },
      nullptr, deadline);
}

TEST(failure, message_of_another_size_or_type) {
  EXPECT_THAT(received([](thread_rank& c) {
                const std::vector<float> x(3);
                c.send(std::span<const float>(x), 1);
              }),
              testing::AllOf(HasSubstr("rank 1 in collective 1, receive (2 elements of 4 bytes, kind 'f', from 0)"),
                             HasSubstr("rank 0 called send (3 elements of 4 bytes, kind 'f', to 1)")));
  EXPECT_THAT(received([](thread_rank& c) {
                const std::vector<int> x(2);
                c.send(std::span<const int>(x), 1);
              }),
              HasSubstr("kind 'i', to 1)"));
}

TEST(failure, message_that_never_comes) {
  EXPECT_THAT(received([](thread_rank&) {}), HasSubstr("rank 0"));
  EXPECT_THAT(received([](thread_rank& c) { c.abort("no memory"); }), HasSubstr("no memory"));
  const auto begin = std::chrono::steady_clock::now();
  const auto late = [](thread_rank& c) {
    std::this_thread::sleep_for(900ms);
    c.barrier();
  };
  EXPECT_THAT(received(late, 100ms), HasSubstr("waited 100 ms in vain for rank 0 (after 0 collectives)"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 15s);
}

TEST(failure, more_messages_than_anybody_receives) {
  const std::string what = message(
      2,
      [](thread_rank& c) {
        const std::vector<char> x(1);
        for (std::size_t k = 0; c.rank() == 0; ++k) c.send(std::span<const char>(x), 1);
        std::this_thread::sleep_for(500ms);
        c.barrier();
      },
      nullptr, 200ms);
  EXPECT_THAT(what, HasSubstr("rank 1 has not received 128 messages"));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
