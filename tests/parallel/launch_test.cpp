#include "rlcore/parallel/launch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "support/communicator_checks.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::parallel;
using communicator_checks::read;
using std::size_t;
using testing::HasSubstr;

static_assert(communicator<any_communicator>);

launch_settings threads(int ranks) {
  launch_settings s;
  s.thread_ranks = ranks;
  s.deadline = std::chrono::seconds(20);
  return s;
}

class launch_sizes : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(ranks, launch_sizes, testing::Values(1, 2, 3, 4));

TEST_P(launch_sizes, give_a_communicator_to_every_rank) {
  std::atomic<int> seen{0};
  launch(threads(GetParam()), [&](any_communicator& c) {
    ++seen;
    EXPECT_EQ(c.size(), GetParam());
    EXPECT_STREQ(c.engine(), GetParam() == 1 ? "alone" : "threads");
    communicator_checks::check_collectives(c);
    communicator_checks::check_uneven_collectives(c);
    communicator_checks::check_shifts(c);
    communicator_checks::check_splits(c);
  });
  EXPECT_EQ(seen, GetParam());
}

/// Against the volumes of the algorithms' definitions, for P ranks and n elements of 4 bytes.
TEST_P(launch_sizes, count_what_a_rank_sends_to_others) {
  launch(threads(GetParam()), [&](any_communicator& c) {
    const auto size = static_cast<size_t>(c.size()), self = static_cast<size_t>(c.rank()), n = size_t{10};
    const std::uint64_t others = size - 1;
    const std::vector<float> few(n), many(n * size);
    std::vector<float> one(n), all(n * size);
    c.all_gather(read(few), std::span(all));
    EXPECT_EQ(c.counters().of(collective::all_gather).bytes, others * n * 4);
    c.all_to_all(read(many), std::span(all));
    EXPECT_EQ(c.counters().of(collective::all_to_all).bytes, others * n * 4);
    c.broadcast(std::span(one), 0);
    EXPECT_EQ(c.counters().of(collective::broadcast).bytes, self == 0 ? others * n * 4 : 0);
    c.shift(read(few), std::span(one), 1);
    c.shift(read(few), std::span(one), c.size());
    EXPECT_EQ(c.counters().of(collective::shift).bytes, size == 1 ? 0 : n * 4);
    EXPECT_EQ(c.counters().of(collective::shift).calls, 2);

    std::vector<size_t> counts(size);
    for (size_t r = 0; r < size; ++r) counts[r] = r + 1;
    const std::vector<float> mine(self + 1);
    std::vector<float> uneven(size * (size + 1) / 2);
    c.all_gather_v(read(mine), std::span(uneven), read(counts));
    EXPECT_EQ(c.counters().of(collective::all_gather_v).bytes, others * (self + 1) * 4);
    const std::vector<size_t> same(size, self + 1);
    const std::vector<float> sent(size * (self + 1));
    c.all_to_all_v(read(sent), read(same), std::span(uneven), read(counts));
    EXPECT_EQ(c.counters().of(collective::all_to_all_v).bytes, others * (self + 1) * 4);
    c.barrier();

    const auto half = c.split(c.rank() % 2, 0);
    half->barrier();
    EXPECT_EQ(half->counters().total().calls, 1);
    EXPECT_EQ(c.counters().of(collective::barrier).calls, 1);
    EXPECT_EQ(c.counters().of(collective::split).calls, 1);
    EXPECT_EQ(c.counters().total().calls, 9);
    traffic sum = c.counters();
    sum += half->counters();
    EXPECT_EQ(sum.total().calls, 10);
  });
}

TEST(launch, throws_on_what_the_first_rank_to_fail_threw) {
  for (const int ranks : {1, 3})
    EXPECT_THAT(
        [&] {
          launch(threads(ranks), [](any_communicator& c) {
            if (c.rank() == c.size() - 1) throw std::out_of_range("no such row");
            c.barrier();
          });
        },
        testing::ThrowsMessage<std::out_of_range>("no such row"));
  EXPECT_THROW(launch(threads(2), [](any_communicator& c) { c.abort("enough"); }), rlcore::communication_error);
  EXPECT_THROW(launch(threads(0), [](any_communicator&) {}), std::invalid_argument);
}

/// Variables of the environment for the time of a test.
class environment {
 public:
  using pair = std::pair<const char*, const char*>;
  environment(std::initializer_list<pair> wanted) : set_(wanted) {
    for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK", "PMIX_RANK", "SLURM_STEP_NUM_TASKS"})
      unsetenv(name);
    for (const auto& [name, value] : set_) setenv(name, value, 1);
  }
  ~environment() {
    for (const auto& [name, value] : set_) unsetenv(name);
  }

 private:
  std::vector<pair> set_;
};

int ranks(std::initializer_list<environment::pair> wanted) {
  const environment job(wanted);
  return ranks_of_environment();
}

TEST(launch, knows_the_processes_of_a_job) {
  EXPECT_EQ(ranks({}), 1);
  EXPECT_EQ(ranks({{"OMPI_COMM_WORLD_SIZE", "4"}}), 4);
  EXPECT_EQ(ranks({{"PMI_SIZE", "3"}}), 3);
  EXPECT_EQ(ranks({{"PMI_SIZE", "many"}}), 1);
  // A program inside an allocation that srun has not started as MPI is alone.
  EXPECT_EQ(ranks({{"SLURM_STEP_NUM_TASKS", "8"}}), 1);
  EXPECT_EQ(ranks({{"SLURM_STEP_NUM_TASKS", "8"}, {"PMIX_RANK", "0"}}), 8);
}

TEST(launch, ranks_are_threads_or_processes) {
  const environment job{{"OMPI_COMM_WORLD_SIZE", "2"}};
  EXPECT_THAT([] { launch(threads(2), [](any_communicator&) {}); },
              testing::ThrowsMessage<rlcore::config_error>(HasSubstr("not both")));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
