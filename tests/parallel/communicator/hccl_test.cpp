// HCCL as an engine of parallel::communicator, on the emulated machine.
#include "rlcore/parallel/communicator/hccl.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "rlcore/core/dtype.hpp"
#include "rlcore/core/random.hpp"
#include "rlcore/emulator/collectives.hpp"
#include "rlcore/emulator/runtime.hpp"
#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/parallel/communicator/threads.hpp"
#include "rlcore/parallel/reduction/reduction.hpp"
#include "support/communicator_checks.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::parallel;
using communicator_checks::read;
using rlcore::communication_error;
using testing::HasSubstr;
using namespace std::chrono_literals;
using std::size_t;
namespace ascend = rlcore::ascend;

/// The emulator without its operators, which nobody needs here and which take long to compile.
struct machine {
  explicit machine(int devices, int milliseconds = 20000) {
    ascend::emulated::settings s;
    s.devices = devices;
    s.collective_milliseconds = milliseconds;
    ascend::emulated::configure(s);
  }
  std::string name() const { return "emulator"; }
  const ascend::calls& calls() const {
    static const ascend::calls table = [] {
      ascend::calls t;
      ascend::emulated::fill(t.rt);
      ascend::emulated::fill(t.comm);
      return t;
    }();
    return table;
  }
};

class hccl_sizes : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(ranks, hccl_sizes, testing::Values(1, 2, 3, 4));

TEST_P(hccl_sizes, move_the_right_bytes) {
  run_hccl_ranks(machine(GetParam()), GetParam(), [&](hccl_rank& c) {
    EXPECT_EQ(c.size(), GetParam());
    communicator_checks::check_collectives(c);
    communicator_checks::check_uneven_collectives(c);
    communicator_checks::check_shifts(c);
    communicator_checks::check_splits(c, false);
    struct pair {
      std::uint8_t a;
      double b;
    };
    const std::vector<pair> mine{{static_cast<std::uint8_t>(c.rank()), 0.5 * c.rank()}};
    std::vector<pair> all(static_cast<size_t>(c.size()));
    c.all_gather(read(mine), std::span(all));
    for (size_t r = 0; r < all.size(); ++r) EXPECT_EQ(all[r].b, 0.5 * static_cast<double>(r));
  });
  EXPECT_EQ(ascend::emulated::last_report(), "");
}

/// Numbers of very different size: almost every order of summation gives other bits.
std::vector<float> numbers(int rank, size_t n) {
  std::vector<float> v(n);
  const rlcore::random_key key{11};
  for (size_t i = 0; i < n; ++i) {
    const auto a = static_cast<std::uint32_t>(rank), b = static_cast<std::uint32_t>(i);
    v[i] = static_cast<float>(std::ldexp(key.normal(a, b), static_cast<int>(key.below(24, a, b, 1))));
  }
  return v;
}

/// What rank 0 has after the reductions of parallel/reduction/reduction.hpp.
template <class C>
void reduce(C& c, std::vector<float>& result) {
  const size_t n = 257;
  auto in_tree = numbers(c.rank(), n), in_sequence = in_tree;
  all_reduce_sum(tree{}, c, std::span(in_tree));
  all_reduce_sum(ranked{}, c, std::span(in_sequence));
  std::vector<size_t> counts(static_cast<size_t>(c.size()), 3);
  counts[0] = n - 3 * (counts.size() - 1);
  std::vector<rlcore::bf16> in;
  for (const float x : numbers(c.rank(), n)) in.emplace_back(x);
  std::vector<float> part(counts[static_cast<size_t>(c.rank())]);
  reduction_scratch<rlcore::bf16, float> scratch;
  reduce_scatter_sum(tree{}, c, read(in), read(counts), std::span(part), scratch);
  if (c.rank() != 0) return;
  result = in_tree;
  result.insert(result.end(), in_sequence.begin(), in_sequence.end());
  result.insert(result.end(), part.begin(), part.end());
}

TEST_P(hccl_sizes, serve_as_any_communicator) {
  run_hccl_ranks(machine(GetParam()), GetParam(), [&](hccl_rank& c) {
    any_communicator_of<hccl_rank&> any(c);
    EXPECT_STREQ(any.engine(), "hccl");
    communicator_checks::check_collectives(any);
    communicator_checks::check_splits(any, false);
  });
  EXPECT_EQ(ascend::emulated::last_report(), "");
}

TEST_P(hccl_sizes, sums_have_the_bits_of_ranks_as_threads) {
  std::vector<float> threads, devices;
  run_ranks(GetParam(), [&](thread_rank& c) { reduce(c, threads); });
  run_hccl_ranks(machine(GetParam()), GetParam(), [&](hccl_rank& c) { reduce(c, devices); });
  EXPECT_GT(threads.size(), 2 * 257U);
  EXPECT_EQ(threads, devices);
}

/// The message of the first failure of three ranks; every rank sees one, and again at its next collective.
template <class F>
std::string message(F f, int others = 3, std::chrono::milliseconds deadline = 20s, int milliseconds = 20000) {
  std::atomic<int> seen{0};
  std::string what = "no exception";
  try {
    run_hccl_ranks(
        machine(3, milliseconds), 3,
        [&](hccl_rank& c) {
          try {
            f(c);
          } catch (const communication_error& e) {
            ++seen;
            EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos);
            EXPECT_THROW(c.barrier(), communication_error);
            throw;
          }
        },
        deadline);
  } catch (const std::exception& e) {
    what = e.what();
  }
  EXPECT_EQ(seen, others);
  EXPECT_EQ(ascend::emulated::last_report(), "");
  return what;
}

void gather(hccl_rank& c, size_t n) {
  std::vector<float> in(n), out(n * static_cast<size_t>(c.size()));
  c.all_gather(read(in), std::span(out));
}

TEST(hccl, ranks_that_disagree) {
  EXPECT_THAT(message([](hccl_rank& c) { gather(c, c.rank() == 1 ? 2 : 1); }), HasSubstr("ranks disagree"));
  EXPECT_THAT(message([](hccl_rank& c) {
                if (c.rank() == 2) return c.barrier();
                gather(c, 1);
              }),
              HasSubstr("rank 2 in HcclBarrier"));
}

TEST(hccl, a_rank_that_fails_or_gives_up_ends_the_others) {
  EXPECT_EQ(message(
                [](hccl_rank& c) {
                  c.barrier();
                  if (c.rank() == 1) throw std::runtime_error("out of luck");
                  c.barrier();
                },
                2),
            "out of luck");
  EXPECT_THAT(message([](hccl_rank& c) {
                c.barrier();
                if (c.rank() == 0) c.abort("nothing left to do");
                c.barrier();
              }),
              HasSubstr("rank 0 aborted: nothing left to do"));
}

TEST(hccl, a_rank_that_does_not_come_is_waited_for_until_the_deadline) {
  std::atomic<int> failed{0};
  EXPECT_THAT(message(
                  [&](hccl_rank& c) {
                    try {
                      c.barrier();
                      while (c.rank() == 2 && failed < 2) std::this_thread::sleep_for(1ms);
                      c.barrier();
                    } catch (...) {
                      ++failed;
                      throw;
                    }
                  },
                  3, 2s),
              HasSubstr("in vain for the other ranks"));
}

TEST(hccl, refuses_sizes_that_do_not_fit) {
  run_hccl_ranks(machine(2), 2, [](hccl_rank& c) {
    std::vector<float> three(3), two(2);
    const std::vector<size_t> counts{3}, too_many{3, 3};
    EXPECT_THROW(c.all_gather(read(three), std::span(two)), std::invalid_argument);
    EXPECT_THROW(c.all_to_all(read(three), std::span(two)), std::invalid_argument);
    EXPECT_THROW(c.all_gather_v(read(three), std::span(three), read(too_many)), std::invalid_argument);
    EXPECT_THROW(c.all_to_all_v(read(two), read(counts), std::span(three), read(counts)), std::invalid_argument);
    EXPECT_THROW(c.broadcast(std::span(two), 2), std::invalid_argument);
    c.barrier();  // nothing has happened
  });
  EXPECT_THROW(run_hccl_ranks(machine(2), 3, [](hccl_rank&) {}), std::invalid_argument);
  EXPECT_THROW(run_hccl_ranks(machine(2), 0, [](hccl_rank&) {}), std::invalid_argument);
}

TEST(hccl, a_group_that_does_not_form_is_an_error) {
  const machine two(2, 20);
  const auto session = ascend::session::open(two.calls(), "emulator");
  const ascend::hccl_root_info root = hccl_root(session, 0);
  try {
    hccl_rank alone(session, 0, root, 2, 0);
    FAIL();
  } catch (const communication_error& e) {
    EXPECT_THAT(e.what(), HasSubstr("rank 0 cannot join"));
    EXPECT_THAT(e.what(), HasSubstr("rank 1 did not join"));
  }
  EXPECT_THROW(hccl_rank(session, 0, root, 2, 2), std::invalid_argument);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
