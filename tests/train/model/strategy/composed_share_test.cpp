// A strategy that is named by its type trains to the bits of any_strategy with the same settings.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "data/scratch.hpp"
#include "rlcore/parallel/communicator/threads.hpp"
#include "rlcore/parallel/strategy/any_strategy.hpp"
#include "rlcore/train/files/trained_files.hpp"
#include "support/tiny_model.hpp"
#include "train/model/strategy/trained_alike.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using trained_alike::outcome;
using trained_alike::task;

/// Trains on so many threads; make(communicator) is the strategy. Returns what the first rank has.
template <class Make>
outcome train(int ranks, const task& t, const std::filesystem::path& folder, const std::filesystem::path& tokenizer,
              Make make) {
  std::vector<outcome> all(static_cast<std::size_t>(ranks));
  parallel::run_ranks(ranks, [&](parallel::thread_rank& rank) {
    parallel::any_communicator_of<parallel::thread_rank&> c(rank);
    all[static_cast<std::size_t>(rank.rank())] = trained_alike::train(t, make(c), folder, tokenizer);
  });
  for (const outcome& each : all) {
    EXPECT_EQ(each.sum, all[0].sum);
    EXPECT_EQ(each.lengths, all[0].lengths);
  }
  return all[0];
}

template <class Strategy>
void compare(int ranks, const task& t, const parallel::parallel_settings& settings) {
  const scratch::folder place;
  const tiny_model::files files = tiny_model::make(place.path());
  const outcome named = train(ranks, t, place / "named", files.model, [](auto& c) { return Strategy(c); }),
                any = train(ranks, t, place / "any", files.model, [&](auto& c) { return any_strategy(c, settings); });
  EXPECT_EQ(named.weights, any.weights);
  EXPECT_EQ(named.norms, any.norms);
  EXPECT_GT(named.files.size(), 6u);
  for (const auto& [name, bytes] : named.files) EXPECT_TRUE(bytes == any.files.at(name)) << name;
}

TEST(composed_share, trains_as_any_strategy_with_its_axes) {
  compare<strategy::data<>>(3, {}, {.zero = 0});
  compare<strategy::sharded<1>>(2, {}, {.zero = 1});
  compare<strategy::sharded<3, strategy::tensor<2>>>(4, {}, {.tensor = 2, .zero = 3});
  compare<strategy::sharded<2, strategy::context<2>>>(4, {}, {.context = 2, .zero = 2});
  compare<strategy::sharded<1, strategy::expert<2>>>(2, {.experts = true}, {.expert = 2, .zero = 1});
}

TEST(composed_share, has_the_bits_of_one_rank) {
  const scratch::folder place;
  const tiny_model::files files = tiny_model::make(place.path());
  const outcome alone = trained_alike::train({}, strategy::alone{}, place / "alone", files.model),
                three = train(3, {}, place / "three", files.model, [](auto& c) { return strategy::sharded<3>(c); });
  EXPECT_EQ(three.weights, alone.weights);
  EXPECT_EQ(three.norms, alone.norms);
  EXPECT_EQ(three.sum, alone.sum);
  EXPECT_EQ(three.lengths, alone.lengths);
  EXPECT_TRUE(three.files.at("extra_state.json") == alone.files.at("extra_state.json"));

  // and one rank goes on from the shards of three
  cpu device(1);
  train::trainable_model<cpu, strategy::alone> model(device, trained_alike::config_of({}), {});
  train::restore_checkpoint(model, place / "three");
  EXPECT_EQ(train::to_host(device, std::as_const(model.model).weights()), alone.weights);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
