// strategy::alone trains to the bits of one rank of any_strategy, and goes on from the files of either.
#include "rlcore/train/files/trained_files.hpp"
#include "rlcore/train/model/strategy/alone.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "data/scratch.hpp"
#include "rlcore/parallel/communicator/communicator.hpp"
#include "rlcore/train/model/trainable_model.hpp"
#include "support/tiny_model.hpp"
#include "train/model/strategy/trained_alike.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using trained_alike::outcome;
using trained_alike::task;

static_assert(parallel_strategy<strategy::alone> && training_strategy<strategy::alone, cpu>);
static_assert(training_strategy<any_strategy, cpu>);

/// One rank of a world: what programs have without ranks.
struct one_rank {
  parallel::any_communicator_of<parallel::alone> self{parallel::alone{}};
  any_strategy strategy;
  explicit one_rank(const parallel::parallel_settings& s = {}) : strategy(self, s) {}
};

TEST(alone_share, has_the_bits_and_the_files_of_one_rank_of_any_strategy) {
  const scratch::folder place;
  const tiny_model::files files = tiny_model::make(place.path());
  const task tasks[] = {{},
                        {.rows = 3},
                        {.max_rows = 0, .clip = 0},
                        {.score = true},
                        {.experts = true},
                        {.base = files.model},
                        {.lora = true, .base = files.model},
                        {.score = true, .lora = true, .base = files.model}};
  int number = 0;
  for (const task& t : tasks) {
    const auto folder = [&](const char* name) { return place / (std::to_string(number) + name); };
    const outcome alone = trained_alike::train(t, strategy::alone{}, folder("alone"), files.model),
                  any = trained_alike::train(t, one_rank().strategy, folder("any"), files.model);
    EXPECT_EQ(alone.weights, any.weights) << number;
    EXPECT_EQ(alone.norms, any.norms) << number;
    EXPECT_EQ(alone.sum, any.sum);
    EXPECT_EQ(alone.lengths, any.lengths);
    EXPECT_GE(alone.files.size(), 6u);
    ASSERT_EQ(alone.files.size(), any.files.size());
    // Both name the folder of the base in adapter_config.json; everything else is the same too.
    for (const auto& [name, bytes] : alone.files) EXPECT_TRUE(bytes == any.files.at(name)) << number << ": " << name;
    ++number;
  }
}

TEST(alone_share, has_the_bits_of_one_rank_with_other_leaves) {
  const scratch::folder place;
  const tiny_model::files files = tiny_model::make(place.path());
  const outcome eight = trained_alike::train({}, strategy::alone{}, place / "eight", files.model);
  for (const int leaves : {1, 5, 16}) {
    parallel::parallel_settings s;
    s.leaves = leaves, s.balance = false;
    const outcome alone = trained_alike::train({}, strategy::alone{.leaves = leaves, .balance = false},
                                               place / ("alone" + std::to_string(leaves)), files.model),
                  any = trained_alike::train({}, one_rank(s).strategy, place / ("any" + std::to_string(leaves)),
                                             files.model);
    EXPECT_EQ(alone.weights, any.weights) << leaves;
    EXPECT_NE(alone.weights, eight.weights) << leaves;
    EXPECT_TRUE(alone.files.at("extra_state.json") == any.files.at("extra_state.json"));
  }
}

TEST(alone_share, goes_on_from_its_files_and_sums_without_leaves) {
  const scratch::folder place;
  const tiny_model::files files = tiny_model::make(place.path());
  const task t{.base = files.model};
  cpu device(1);
  using trainable_model = train::trainable_model<cpu, strategy::alone>;
  const auto step = [&](trainable_model& model, int number) {
    model.begin_update();
    const std::vector<std::uint32_t> rows{0, 1, 2, 3};
    trained_alike::pass(model, t, rows, number);  // without for_micro_batches: one sum of all passes
    EXPECT_GT(model.apply({.lr = 0.01, .grad_clip = 1}).gradient_norm, 0);
  };
  const auto weights = [&](const trainable_model& m) { return train::to_host(device, m.model.weights()); };
  trainable_model whole(device, trained_alike::config_of(t), {}), first(device, trained_alike::config_of(t), {}),
      second(device, trained_alike::config_of(t), {});
  for (trainable_model* m : {&whole, &first, &second}) train::load_weights(*m, files.model);
  for (int i = 0; i < 4; ++i) step(whole, i);
  for (int i = 0; i < 2; ++i) step(first, i);
  train::save_checkpoint(first, place / "saved", files.model);
  EXPECT_EQ(train::restore_checkpoint(second, place / "saved").notice, "");
  for (int i = 2; i < 4; ++i) step(second, i);
  EXPECT_EQ(weights(second), weights(whole));
  EXPECT_NE(weights(first), weights(whole));

  {
    train::frozen_model<cpu, strategy::alone> frozen(device, trained_alike::config_of(t));
    train::load_weights(frozen, place / "saved" / "huggingface");
    EXPECT_EQ(train::to_host(device, std::as_const(frozen.model).weights()), weights(first));
  }
}

TEST(alone_share, deals_the_rows_of_a_step_once) {
  cpu device(1);
  train::trainable_model<cpu, strategy::alone> model(device, trained_alike::config_of({}), {});
  model.model.initialize(7);
  const auto deal = [&] {
    model.for_micro_batches({.rows = 2}, trained_alike::length_of,
                            [&](std::span<const std::uint32_t> rows) { trained_alike::pass(model, {}, rows, 0); });
  };
  model.begin_update();
  deal();
  EXPECT_THROW(deal(), std::logic_error);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
