// The keys that make ranks of a trainer share sequences: whatever the other axis and the shards, the same bits.
#include "grpo_trainer.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace grpo;

class context_parallel : public trainer_test {
 protected:
  /// The same model and metrics from two ranks, and from two times two.
  void expect_same_runs(const std::string& name, const arguments& keys, const std::string& said) {
    const auto two = train(name, keys + arguments{"trainer.n_gpus_per_node=2", "rlcore.zero_stage=0"});
    EXPECT_NE(two.out.find(said), std::string::npos) << two.out;
    train(name + "_of_four", keys + arguments{"trainer.n_gpus_per_node=4"});
    EXPECT_FALSE(weights(root(name), 4).empty());
    EXPECT_TRUE(weights(root(name), 4) == weights(root(name + "_of_four"), 4));
    EXPECT_EQ(rows(root(name)), rows(root(name + "_of_four")));
  }
};

TEST_F(context_parallel, ulysses) {
  expect_same_runs("ulysses", {"actor_rollout_ref.actor.ulysses_sequence_parallel_size=2"},
                   "2 ranks (threads): 2 context x 1 data");
}

TEST_F(context_parallel, gathered_keys_and_ring) {
  expect_same_runs(
      "gather",
      {"actor_rollout_ref.actor.strategy=megatron", "actor_rollout_ref.actor.megatron.context_parallel_size=2"},
      "2 context x 1 data");
  expect_same_runs("ring", {"rlcore.context_parallel_size=2", "rlcore.context_kind=ring"}, "2 context x 1 data");
}

/// Four ranks on two key heads: pairs exchange heads, and the pairs are a ring.
TEST_F(context_parallel, ulysses_on_more_ranks_than_key_heads) {
  const arguments keys{"actor_rollout_ref.actor.ulysses_sequence_parallel_size=4"};
  const auto four = train("four", keys + arguments{"trainer.n_gpus_per_node=4", "rlcore.zero_stage=0"});
  EXPECT_NE(four.out.find("4 context x 1 data"), std::string::npos) << four.out;
  train("eight", keys + arguments{"trainer.n_gpus_per_node=8"});
  EXPECT_FALSE(weights(root("four"), 4).empty());
  EXPECT_TRUE(weights(root("four"), 4) == weights(root("eight"), 4));
  EXPECT_EQ(rows(root("four")), rows(root("eight")));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
