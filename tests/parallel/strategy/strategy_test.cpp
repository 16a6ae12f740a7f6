// What strategies say about ranks, and how a program becomes the ranks of one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/parallel/communicator/threads.hpp"
#include "rlcore/parallel/launch.hpp"
#include "rlcore/parallel/strategy/any_strategy.hpp"
#include "rlcore/parallel/strategy/parallel_strategy.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using strategy::alone;
using strategy::data;
using strategy::expert;
using strategy::sharded;
using testing::HasSubstr;

static_assert(parallel_strategy<sharded<3, strategy::tensor<2>>> && parallel_strategy<data<>>);
static_assert(alone::rank() == 0 && alone::size() == 1 && alone::first() && alone::layers(28).size() == 28);

using composed =
    sharded<2, data<2>, strategy::context<2, parallel::context_kind::ring>, strategy::tensor<4>, expert<4>>;
constexpr parallel::parallel_settings axes = composed::axes();
static_assert(axes.zero == 2 && axes.data == 2 && axes.context == 2 && axes.tensor == 4 && axes.expert == 4);
static_assert(axes.how_context == parallel::context_kind::ring && composed::least_ranks() == 16);
static_assert(data<>::axes().zero == 0 && data<>::least_ranks() == 1 && data<3>::least_ranks() == 3);
static_assert(strategy::pipeline<4, strategy::tensor<2>>::least_ranks() == 8);
static_assert(strategy::pipeline<4>::axes().pipeline.stages == 4 && strategy::pipeline<4>::axes().zero == 0);
static_assert(sharded<3>::least_ranks() == 1 && strategy::tensor<2>::least_ranks() == 2);
static_assert(sharded<1, expert<6>, strategy::context<4>>::least_ranks() == 12);  // 3 data x 4 context hold 6 experts

TEST(strategy, says_what_a_rank_holds) {
  parallel::run_ranks(4, [](parallel::thread_rank& rank) {
    parallel::any_communicator_of<parallel::thread_rank&> c(rank);
    const sharded<1, expert<2>, strategy::tensor<2>> s(c);
    const auto r = static_cast<std::size_t>(rank.rank());
    EXPECT_EQ(s.rank(), rank.rank());
    EXPECT_EQ(s.size(), 4);
    EXPECT_EQ(s.first(), r == 0);
    EXPECT_EQ(s.layers(28), (parallel::index_range{0, 28}));
    EXPECT_EQ(s.experts(8), (parallel::index_range{r / 2 * 4, r / 2 * 4 + 4}));  // tensor parallel ranks are neighbours
    const std::vector<std::int64_t> costs{1, 1, 1, 3};
    EXPECT_EQ(s.rows(costs), r < 2 ? (parallel::index_range{0, 3}) : (parallel::index_range{3, 4}));
    EXPECT_TRUE(s.agree(7));
    EXPECT_FALSE(s.agree(rank.rank()));
    double one = r < 2 ? 1 : 10;
    s.sum(one);
    EXPECT_EQ(one, 11);
    std::vector<int> numbers(r < 2 ? 3 : 1, r < 2 ? 5 : 6);
    s.gather(numbers);
    EXPECT_EQ(numbers, (std::vector{5, 5, 5, 6}));
    s.barrier();
  });
}

TEST(strategy, one_rank_holds_everything) {
  const alone s{.leaves = 3};
  EXPECT_EQ(s.settings().leaves, 3);
  EXPECT_EQ(s.settings().zero, 0);
  const std::vector<std::int64_t> costs{1, 2, 3};
  EXPECT_EQ(s.rows(costs), (parallel::index_range{0, 3}));
  const any_strategy any;
  EXPECT_EQ(any.size(), 1);
  EXPECT_EQ(any.rows(costs), (parallel::index_range{0, 3}));
  EXPECT_EQ(any_strategy(nullptr).settings().leaves, 1);
}

TEST(strategy, settings_do_not_contradict_the_type) {
  parallel::any_communicator_of<parallel::alone> one{parallel::alone{}};
  EXPECT_EQ(data<>(one, {.leaves = 64}).settings().leaves, 64);
  EXPECT_EQ(sharded<1>(one).settings().zero, 1);
  EXPECT_THAT([&] { sharded<1>(one, {.zero = 2}); },
              testing::ThrowsMessage<std::invalid_argument>(HasSubstr("zero is 2 in the settings and 1 in the type")));
  EXPECT_THROW(strategy::tensor<2>{one}, config_error);
}

template <class Strategy, class Body>
int launched(std::vector<std::string> words, Body&& body) {
  words.insert(words.begin(), "folder/program");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  return launch<Strategy>(static_cast<int>(argv.size()), argv.data(), body);
}

TEST(launch_of_a_strategy, makes_the_ranks_that_the_type_or_the_command_line_says) {
  const auto ranks = [](auto run, std::vector<std::string> words) {
    std::atomic<int> seen{0}, most{0};
    EXPECT_EQ(run(words, [&](auto& s) { ++seen, most = s.size(); }), 0);
    EXPECT_EQ(seen, most);
    return seen.load();
  };
  const auto with = []<class Strategy>(std::type_identity<Strategy>) {
    return [](const std::vector<std::string>& words, auto body) { return launched<Strategy>(words, body); };
  };
  EXPECT_EQ(ranks(with(std::type_identity<alone>{}), {}), 1);
  EXPECT_EQ(ranks(with(std::type_identity<alone>{}), {"--ranks", "1"}), 1);
  EXPECT_EQ(ranks(with(std::type_identity<data<>>{}), {}), 1);
  EXPECT_EQ(ranks(with(std::type_identity<data<>>{}), {"--ranks", "3"}), 3);
  EXPECT_EQ(ranks(with(std::type_identity<any_strategy>{}), {"--ranks=2"}), 2);
  EXPECT_EQ(ranks(with(std::type_identity<sharded<3, strategy::tensor<2>>>{}), {}), 2);
}

TEST(launch_of_a_strategy, hands_on_other_words_or_refuses_them) {
  std::vector<std::string> words;
  const auto keep = [&](auto&, std::span<const std::string> rest) { words.assign(rest.begin(), rest.end()); };
  EXPECT_EQ(launched<alone>({"a=1", "--ranks", "1", "--ranksy"}, keep), 0);
  EXPECT_EQ(words, (std::vector<std::string>{"a=1", "--ranksy"}));
  const auto refused = [](auto run, const std::string& line) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(run(), 1);
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "program: " + line + "\n");
  };
  const auto nothing = [](auto&) {};
  refused([&] { return launched<alone>({"--rank", "2"}, nothing); },
          "unknown word '--rank', expected nothing or --ranks N");
  refused([&] { return launched<alone>({"--ranks", "two"}, nothing); },
          "--ranks is 'two', expected the number of ranks, 1 or more");
  refused([&] { return launched<alone>({"--ranks"}, nothing); },
          "--ranks is '', expected the number of ranks, 1 or more");
  refused([&] { return launched<alone>({"--ranks", "2"}, nothing); },
          "2 ranks: the strategy of this program is one rank; with another, such as strategy::data<> or "
          "strategy::sharded<3>, it trains on several");
  refused([&] { return launched<data<2>>({"--ranks", "3"}, nothing); },
          "3 ranks are not 2 data x 1 context x 1 tensor parallel");
  refused([&] { return launched<alone>({}, [](auto&) { throw std::runtime_error("no such file"); }); }, "no such file");
}

TEST(launch_of_a_strategy, one_rank_is_not_started_by_mpirun) {
  ASSERT_EQ(setenv("OMPI_COMM_WORLD_SIZE", "2", 1), 0);
  testing::internal::CaptureStderr();
  EXPECT_EQ(launched<alone>({}, [](auto&) {}), 1);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("2 ranks: the strategy of this program is one rank"));
  testing::internal::CaptureStderr();
  EXPECT_EQ(launched<data<2>>({}, [](auto&) {}), 1);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("2 processes were started"));
  unsetenv("OMPI_COMM_WORLD_SIZE");
}

}  // namespace
}  // namespace RLCORE_TEST_ID
