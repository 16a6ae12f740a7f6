// The number of leaves follows from the rows of an update alone, and runs that leave ranks idle say what mends it.
#include "rlcore/config/settings/gradient_leaves.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rlcore/config/programs/main_ppo.hpp"
#include "rlcore/config/programs/sft.hpp"
#include "rlcore/config/settings/rank_options.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using namespace rlcore::train;
using words = std::vector<std::string>;

const std::string mini = "actor_rollout_ref.actor.ppo_mini_batch_size=", samples = "actor_rollout_ref.rollout.n=";

options policy(const words& line) { return options::parse(line, main_ppo_registry()); }

TEST(gradient_leaves, are_a_sixteenth_of_the_rows_from_8_to_64) {
  const std::vector<std::pair<std::int64_t, std::int64_t>> expected{{0, 8},     {1, 8},     {128, 8},     {255, 8},
                                                                    {256, 16},  {511, 16},  {512, 32},    {1023, 32},
                                                                    {1024, 64}, {1280, 64}, {1 << 20, 64}};
  for (const auto& [rows, leaves] : expected) EXPECT_EQ(default_gradient_leaves(rows), leaves) << rows;
}

TEST(gradient_leaves, of_policy_trainers) {
  const options big = policy({"data.train_batch_size=64", mini + "32", samples + "16"});
  EXPECT_EQ(rows_of_update(big).rows, 512);
  for (const int ranks : {1, 2, 64}) EXPECT_EQ(read_parallel(big, ranks).leaves, 32);
  EXPECT_EQ(rows_of_update(policy({"data.train_batch_size=4", mini + "32", samples + "3"})).rows, 12);
  EXPECT_EQ(
      read_parallel(policy({"data.train_batch_size=64", mini + "32", samples + "16", "rlcore.gradient_leaves=8"}), 2)
          .leaves,
      8);
}

TEST(gradient_leaves, of_supervised_trainers) {
  EXPECT_EQ(gradient_leaves(options::parse(words{"data.train_batch_size=300"}, sft_registry())), 16);
  EXPECT_EQ(rows_of_update(options::parse(words{"data.train_batch_size=300"}, sft_registry())).key,
            "data.train_batch_size");
}

TEST(gradient_leaves, idle_ranks_are_counted_with_the_key_that_mends_it) {
  const words step{"data.train_batch_size=64"};
  const auto idle = [&](const words& more, std::int64_t data) {
    words line = step;
    line.insert(line.end(), more.begin(), more.end());
    return idle_ranks(policy(line), data);
  };
  EXPECT_EQ(idle({mini + "32", samples + "16"}, 32), "");
  EXPECT_EQ(idle({mini + "1", samples + "16"}, 8), "");
  EXPECT_EQ(idle({mini + "1", samples + "16"}, 16),
            "8 of 16 data ranks have no part in updates of 16 rows: rlcore.gradient_leaves=16 gives all of them one, "
            "and sums with other bits");
  EXPECT_EQ(idle({mini + "1", samples + "4"}, 8),
            "4 of 8 data ranks have no part in updates of 4 rows: a larger actor_rollout_ref.actor.ppo_mini_batch_size "
            "gives all of them one");
  EXPECT_EQ(
      idle({mini + "1", samples + "12"}, 16),
      "8 of 16 data ranks have no part in updates of 12 rows: rlcore.gradient_leaves=12 gives 12 of them one, and "
      "sums with other bits; a larger actor_rollout_ref.actor.ppo_mini_batch_size gives all of them one");
}

TEST(gradient_leaves, of_openrlhfs_flags) {
  const options opt =
      options::parse(words{"--pretrain", "m", "--prompt_data", "a", "--apply_chat_template", "--rollout_batch_size",
                           "64", "--n_samples_per_prompt", "8", "--train_batch_size", "16"},
                     ppo_trainer_registry());
  EXPECT_EQ(rows_of_update(opt).rows, 16);
  EXPECT_EQ(idle_ranks(opt, 16),
            "8 of 16 data ranks have no part in updates of 16 rows: rlcore.gradient_leaves=16 gives all of them one, "
            "and sums with other bits");
  EXPECT_EQ(
      idle_ranks(opt, 32),
      "24 of 32 data ranks have no part in updates of 16 rows: rlcore.gradient_leaves=16 gives 16 of them one, and "
      "sums with other bits; a larger --train_batch_size gives all of them one");
}

}  // namespace
}  // namespace RLCORE_TEST_ID
